//! Client libraries of this family of APIs, code generators and validators, unmodified, against the
//! binary: `scripts/conformance`.

use std::process::Command;

use crate::support::process;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn clients_of_the_family_pass() {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/conformance"));
    command.env("LONGSHORE", env!("CARGO_BIN_EXE_longshore"));
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}
