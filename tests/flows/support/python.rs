//! Python programs that tests use, with the packages that they need.

use std::process::{Command, Stdio};

use super::process;

/// The interpreter that has the packages of a requirements file below `tests/flows`, such as
/// `scim/requirements.txt`.
pub async fn interpreter(requirements: &str) -> String {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/python"));
    command.arg(file(requirements)).stderr(Stdio::inherit());
    let output = process::output(command).await;
    assert!(output.status.success(), "scripts/python: {}", output.status);
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
}

/// A file below `tests/flows`.
pub fn file(path: &str) -> String {
    format!("{}/tests/flows/{path}", env!("CARGO_MANIFEST_DIR"))
}
