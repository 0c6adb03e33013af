//! The binary, held against the protocol by tools that others wrote, scim2-tester and scim-sanity,
//! which `scripts/python` installs.

use std::process::Command;

use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, process, python};

/// With `X-Request-Origin`, or with a token that waives it.
async fn conforms(backend: Backend, options: &[&str]) {
    let fleet = Fleet::start(backend, &[]).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let create = ["scim-token", "create", "--name", "conformance"];
    let token = fleet.run(&[&create[..], options].concat()).await;
    let mut command = Command::new(python::interpreter("scim/requirements.txt").await);
    command.arg(python::file("scim/conformance.py"));
    command.arg(format!("{}/scim/v2", fleet.base())).env("SCIM_TOKEN", token.trim()).args(options);
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_conforms() {
    conforms(Backend::Embedded, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_conforms_without_an_origin() {
    conforms(Backend::Embedded, &["--without-origin"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_conforms() {
    conforms(Backend::Fleet(0), &[]).await;
}
