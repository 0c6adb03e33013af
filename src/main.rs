use std::process::ExitCode;

fn main() -> ExitCode {
    longshore::cli::main()
}
