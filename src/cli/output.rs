//! The output of commands. A reader that stops, as in `| head`, or a full disk must not end a
//! command halfway through its changes (docs/reference/command-line.md). So the macros here replace
//! those of the standard library, which panic: the first error is kept, and decides the exit status
//! after the command.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::sync::OnceLock;

/// The first error of standard output. Nothing is written after it.
static ERROR: OnceLock<io::Error> = OnceLock::new();

macro_rules! print {
    ($($arguments:tt)*) => { $crate::cli::output::write(format_args!($($arguments)*)) };
}

macro_rules! println {
    () => { $crate::cli::output::write(format_args!("\n")) };
    ($($arguments:tt)*) => { $crate::cli::output::write_line(format_args!($($arguments)*)) };
}

macro_rules! eprintln {
    ($($arguments:tt)*) => {
        $crate::cli::output::write_line_to_stderr(format_args!($($arguments)*))
    };
}

pub fn write(text: Arguments<'_>) {
    if ERROR.get().is_none()
        && let Err(error) = io::stdout().write_fmt(text)
    {
        let _ = ERROR.set(error);
    }
}

pub fn write_line(text: Arguments<'_>) {
    write(format_args!("{text}\n"));
}

/// Standard error has no other place for its own errors, so they are ignored.
pub fn write_line_to_stderr(text: Arguments<'_>) {
    let _ = io::stderr().write_fmt(format_args!("{text}\n"));
}

/// The first error of standard output, if anything that was printed is missing there.
pub fn error() -> Option<&'static io::Error> {
    if ERROR.get().is_none()
        && let Err(error) = io::stdout().flush()
    {
        let _ = ERROR.set(error);
    }
    ERROR.get()
}
