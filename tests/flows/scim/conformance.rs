//! The binary, held against the protocol by a client of its own: scim2-tester, which
//! `scripts/python` installs.

use std::process::Command;

use serde_json::Value;

use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, process, python};

async fn conforms(backend: Backend) {
    let fleet = Fleet::start(backend, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let token = fleet.run(&["scim-token", "create", "--name", "conformance"]).await;
    let mut command = Command::new(python::interpreter("scim/requirements.txt").await);
    command.arg(python::file("scim/conformance.py"));
    command.arg(format!("{}/scim/v2", fleet.base())).env("SCIM_TOKEN", token.trim());
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let counts: Value = serde_json::from_str(out.lines().last().unwrap_or_default()).expect("JSON");
    // Far fewer mean that it did not find what there is to check.
    assert!(counts["SUCCESS"].as_u64().is_some_and(|checks| checks >= 40), "{out}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_conforms() {
    conforms(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_conforms() {
    conforms(Backend::Fleet(0)).await;
}
