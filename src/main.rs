use std::process::ExitCode;

use rustix::process::{Resource, getrlimit, setrlimit};

fn main() -> ExitCode {
    return_large_buffers();
    take_all_descriptors();
    longshore::cli::main()
}

/// Has glibc give large buffers back to the system once they are freed. It would learn from
/// the first ones to take the next from its heaps, where the holes between them stay: a
/// worker that exports came to 117 MB resident after 300,000 users and to 160 MB after
/// 3,000,000, and stays at 67 MB so.
fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread runs yet, and the parameter is one that there is.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Raises the limit of file descriptors to the most that the process may have: a gateway needs
/// one for each connection, and the usual limit is far below what systems allow.
fn take_all_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is refused, what there was is what there is.
    let _ = setrlimit(Resource::Nofile, limit);
}
