//! The colours of states.

use std::path::Path;

use super::{longshore_in, text};
use crate::support::process;

const LIST: &str = "signing-key list";

/// What a list prints on a terminal with these variables.
async fn on_terminal(directory: &Path, list: &str, environment: &[(&str, &str)]) -> String {
    let mut command = process::on_terminal(directory, list);
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").envs(environment.iter().copied());
    let output = process::output(command).await;
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn states_have_colours_on_a_terminal_unless_no_color_is_set() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("acme.yaml"), "workspace: acme\n").expect("a file");
    let applied = longshore_in(directory.path(), &["apply", "acme.yaml"]).await;
    assert!(applied.status.success(), "{applied:?}");
    let green = "\u{1b}[32mactive\u{1b}[0m";

    let coloured = on_terminal(directory.path(), LIST, &[]).await;
    assert!(coloured.contains(green), "{coloured:?}");
    let json = format!("{LIST} --json");
    let public_key = "ssh-ed25519 ";
    for (list, environment, shown) in [
        (LIST, &[("NO_COLOR", "1")][..], "active"),
        (LIST, &[("TERM", "dumb")], "active"),
        (json.as_str(), &[], public_key),
    ] {
        let plain = on_terminal(directory.path(), list, environment).await;
        assert!(plain.contains(shown), "{plain:?}");
        assert!(!plain.contains('\u{1b}'), "{environment:?}: {plain:?}");
    }
    let words: Vec<&str> = LIST.split(' ').collect();
    let piped = text(&longshore_in(directory.path(), &words).await.stdout);
    assert!(piped.contains("active") && !piped.contains('\u{1b}'), "{piped:?}");
}
