//! `tests/README.md` has a table of what is promised and where that is tested. Here the table is
//! held against the tests: each is in it, in the form that it runs in, and nothing else is.

use std::collections::BTreeSet;
use std::process::Command;

/// What only scripts and other tests start.
const ON_REQUEST: &str = "on_request";

/// The names of the tests of this binary, with arguments that choose among them.
fn listed(arguments: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    let output = command.args(["--list", "--format", "terse"]).args(arguments).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !name.contains(ON_REQUEST)).map(str::to_owned).collect()
}

/// The beginnings of names in a cell of the table.
fn beginnings(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_is_in_the_table_of_promises() {
    let long = listed(&["--ignored"]);
    let everyday: BTreeSet<String> = listed(&[]).difference(&long).cloned().collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/README.md");
    let text = std::fs::read_to_string(file).expect("the table");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
        .map(|line| line.trim_matches('|').split(" | ").collect())
        .collect();
    assert!(rows.iter().all(|row| row.len() == 3), "a row has three cells");
    for (column, form, tests) in [(1, "everyday", &everyday), (2, "with --all", &long)] {
        let named: Vec<&str> = rows.iter().flat_map(|row| beginnings(row[column])).collect();
        let is_in = |test: &String| named.iter().any(|name| test.starts_with(name));
        let missing: Vec<&String> = tests.iter().filter(|test| !is_in(test)).collect();
        assert!(missing.is_empty(), "{form}: not in the table of {file}: {missing:#?}");
        let stale = named.iter().filter(|name| !tests.iter().any(|test| test.starts_with(**name)));
        let stale: Vec<&&str> = stale.collect();
        assert!(stale.is_empty(), "{form}: in the table of {file}, and no test: {stale:?}");
    }
    let untested: Vec<_> = rows.iter().filter(|row| beginnings(row[1]).is_empty()).collect();
    assert!(untested.is_empty(), "no everyday test: {untested:?}");
}
