//! The console in a browser: `scripts/browser-test`, whose tests are in `tests/browser`.

use std::process::Command;

use crate::support::process;

#[tokio::test(flavor = "multi_thread")]
async fn people_do_their_tasks_in_a_browser() {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/browser-test"));
    command.env("LONGSHORE", process::BINARY);
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}
