//! The console in a browser: a flow for each script of `tests/browser`, by `scripts/browser-test`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::process;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Scripts of `tests/browser`, a flow each: one that fails is run again without the others.
macro_rules! scripts {
    ($($script:ident)+) => {
        const SCRIPTS: &[&str] = &[$(stringify!($script)),+];

        $(#[tokio::test(flavor = "multi_thread")]
        async fn $script() {
            passes(stringify!($script)).await;
        })+
    };
}

scripts! {
    accessibility below_a_path catalogs every_page exports keyboard keys openid_connect operations
    people progress rights segments sends signing_in users without_javascript
}

/// Runs a script. If it fails, the first line names its tests that failed, and where they did.
async fn passes(script: &str) {
    let mut command = Command::new(Path::new(ROOT).join("scripts/browser-test"));
    command.arg(script).env("LONGSHORE", process::BINARY);
    let output = process::output(command).await;
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (status, failures) = (output.status, failures(&out).join("; "));
    assert!(status.success(), "{script}.js: {status}: {failures}\n{out}{err}");
}

/// Each failure of what Node.js prints: the test, the first line of its error, and the line of the
/// script. None if Node.js did not reach its end: then its last lines have the reason.
fn failures(printed: &str) -> Vec<String> {
    let (_, listed) = printed.split_once("failing tests:").unwrap_or_default();
    let mut failures = Vec::new();
    for failure in listed.split("\ntest at ").skip(1) {
        let lines: Vec<&str> = failure.lines().map(str::trim).collect();
        let [location, test, error, ..] = lines[..] else { continue };
        let is_of_script = |line: &&&str| {
            line.starts_with("at ")
                && line.contains("/tests/browser/")
                && !line.contains("/support/")
        };
        let step = lines.iter().find(is_of_script).unwrap_or(&location);
        let step = step.rsplit_once("tests/browser/").map_or(*step, |(_, position)| position);
        let test = test.trim_start_matches("✖ ");
        failures.push(format!("{test}: {error} ({})", step.trim_end_matches(')')));
    }
    failures
}

#[test]
fn every_script_has_a_flow() {
    let files = std::fs::read_dir(Path::new(ROOT).join("tests/browser")).unwrap();
    let mut found = BTreeSet::new();
    for file in files {
        let path = file.unwrap().path();
        let is_script = path.extension().is_some_and(|extension| extension == "js");
        if is_script && std::fs::read_to_string(&path).unwrap().contains("from \"node:test\"") {
            found.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    assert_eq!(found, SCRIPTS.iter().map(|script| (*script).to_owned()).collect());
}

#[test]
fn a_failure_names_its_test_and_step() {
    let printed = "\
✖ sees exports (12.5ms)
ℹ fail 1

✖ failing tests:

test at tests/browser/exports.js:44:1
✖ sees exports (12.5ms)
  locator.click: Timeout 180000ms exceeded.
  Call log:
    - waiting for getByRole('button')
      at cancelExport (file:///work/tests/browser/support/tasks.js:33:5)
      at async file:///work/tests/browser/exports.js:60:13
      at async as (file:///work/tests/browser/support/shared.js:39:9)
";
    let expected =
        "sees exports (12.5ms): locator.click: Timeout 180000ms exceeded. (exports.js:60:13)";
    assert_eq!(failures(printed), [expected]);
    assert!(failures("ended early").is_empty());
}
