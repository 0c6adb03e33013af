//! What is deployed by: the image, the fleet on one machine, the manifests of Kubernetes. Read
//! as the tools of each read them, and held against what the program itself takes.

mod check;
mod image;
mod kubernetes;
mod manifests;
mod network;
mod package;
mod scaling;
mod settings;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// Where the programs are that check these files; made by the script where they are missing.
static TOOLS: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/deploy-tools");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("the script runs");
    assert!(output.status.success(), "scripts/deploy-tools: {}", output.status);
    String::from_utf8(output.stdout).expect("a path").trim().into()
});

/// Runs one of these programs to its end.
fn tool(name: &str, arguments: &[&str]) -> Output {
    let program = TOOLS.join("bin").join(name);
    let run = Command::new(&program).args(arguments).stdin(Stdio::null()).output();
    run.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// What it printed; the test fails where it failed.
fn printed(name: &str, arguments: &[&str]) -> String {
    let output = tool(name, arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name} {arguments:?}: {}\n{out}{err}", output.status);
    out
}
