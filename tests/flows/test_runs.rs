//! What `scripts/test` reads from the output of the test programs.

use std::path::Path;
use std::process::Command;

use crate::support::files::project;

const OUTPUT: &str = "\
   Compiling longshore v0.2.0
     Running unittests src/lib.rs (target/debug/deps/longshore-1)

running 2 tests
test table::fits ... ok <0.002s>
test table::never_panics - should panic ... ok <0.010s>

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/flows/main.rs (target/debug/deps/flows-2)

running 5 tests
test exports::each_file ... ok <12.345s>
test exports::s3 ... ignored, scripts/test --all
test exports::waits ... FAILED <100.000s>
test users::panics - should panic ... FAILED <3.100s>
test users::reading::by_name ... ok <9.900s>

failures:

---- exports::waits stdout ----

thread 'exports::waits' panicked at tests/flows/exports.rs:9:5:
still not so after three minutes: it is done
---- users::panics stdout ----
note: test did not panic as expected

failures:
    exports::waits
    users::panics

test result: FAILED. 2 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 112.35s

error: test failed, to rerun pass `-p longshore --test flows`
error: 1 target failed:
    `-p longshore --test flows`
";

/// Runs a function of `scripts/lib/test_output` on an output. Returns what it prints, or nothing if
/// it fails.
fn read(function: &str, output: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("output");
    std::fs::write(&file, output).expect("the output is written");
    let run = |command: &mut Command| command.output().expect("bash runs");
    let script =
        format!("set -euo pipefail; . scripts/lib/test_output; FLAKY=$2; {function} \"$1\"");
    let flaky = folder.path().join("flaky");
    let done = run(Command::new("bash")
        .args(["-c", &script, "bash"])
        .args([&file, &flaky])
        .current_dir(project("")));
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    let noted = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let printed = String::from_utf8(done.stdout).expect("UTF-8") + &noted(&flaky);
    done.status.success().then_some(printed)
}

#[test]
fn the_slowest_tests_are_first() {
    let times = "100.000 exports::waits\n12.345 exports::each_file\n9.900 users::reading::by_name\n\
                 3.100 users::panics\n0.010 table::never_panics\n0.002 table::fits\n";
    assert_eq!(read("test_times", OUTPUT).unwrap(), times);
    let modules = "112.345 2 exports\n13.000 2 users\n0.012 2 table\n";
    assert_eq!(read("module_times", OUTPUT).unwrap(), modules);
    assert_eq!(read("test_times", "error: could not compile").unwrap(), "");
}

#[test]
fn failed_tests_are_named() {
    assert_eq!(read("failed_tests", OUTPUT).unwrap(), "exports::waits\nusers::panics\n");
}

/// What else failed cannot be run again by name.
#[test]
fn other_failures_are_not_taken_for_tests() {
    for output in [
        "error: could not compile `longshore`".to_owned(),
        OUTPUT.replace("error: 1 target failed:", "error: 2 targets failed:"),
        OUTPUT.replace("test users::panics - should panic ... FAILED <3.100s>\n", ""),
        OUTPUT.replace("test result: FAILED", "killed"),
    ] {
        assert_eq!(read("failed_tests", &output), None, "{output}");
    }
}

#[test]
fn a_flaky_test_is_kept_with_its_error() {
    let printed = read("note_flaky exports::waits", OUTPUT).unwrap();
    let (shown, kept) = printed.split_once('\n').unwrap();
    assert_eq!(shown, "flaky: exports::waits still not so after three minutes: it is done");
    assert!(kept.ends_with(" exports::waits still not so after three minutes: it is done\n"));
}
