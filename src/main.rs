use std::process::ExitCode;

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit, umask};

use longshore::telemetry::lines::FlushAtEnd;

/// Work on messages makes many small allocations on several threads, for which glibc's allocator is
/// slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Outside of the runtime, whose end may write log lines, too.
    let _flush = FlushAtEnd;
    // Files of exports and data are for their owner alone.
    umask(Mode::RWXG | Mode::RWXO);
    take_all_descriptors();
    longshore::cli::main()
}

/// Raises the limit of file descriptors to the hard limit: a gateway needs one for each connection,
/// and the usual limit is far too low.
fn take_all_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If that fails, the limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
}
