use std::process::ExitCode;

fn main() -> ExitCode {
    return_large_buffers();
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
