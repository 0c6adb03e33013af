use std::process::ExitCode;

use rustix::process::{Resource, getrlimit, setrlimit};

use longshore::telemetry::lines::FlushAtEnd;

/// Work on messages is made of many small pieces on several threads, for which glibc's allocator
/// is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Outside of the runtime, whose end may be worth a line too.
    let _flush = FlushAtEnd;
    take_all_descriptors();
    longshore::cli::main()
}

/// Raises the limit of file descriptors to the most that the process may have: a gateway needs
/// one for each connection, and the usual limit is far below what systems allow.
fn take_all_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is refused, what there was is what there is.
    let _ = setrlimit(Resource::Nofile, limit);
}
