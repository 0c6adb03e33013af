//! Checks that the crates depend on each other as the table of `src/lib.rs` and the drawing of the book
//! show, that none is too large, that each module of `server` uses only modules above it in the
//! table there, and that what is valid for some time is measured with the right clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

const CRATES: &str = include_str!("../../src/lib.rs");
const SERVER: &str = include_str!("../../crates/server/src/lib.rs");
const WORKSPACE: &str = include_str!("../../Cargo.toml");

/// The lines of a crate, with its tests. A larger one takes too long to build and to get to know.
const MAX_LINES: usize = 15_000;

/// The names in the table of a page, in its order.
fn order(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "));
    let name = Regex::new("`([a-z_-]+)`").unwrap();
    rows.flat_map(|(names, _)| name.captures_iter(names).map(|name| name[1].to_owned())).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file, without comments and unit tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_module_uses_only_those_above_it_in_the_table() {
    let order = order(SERVER);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src");
    let level = |name: &str| order.iter().position(|module| module == name);
    for module in SERVER.lines().filter_map(|line| line.strip_prefix("pub mod ")) {
        assert!(level(module.trim_end_matches(';')).is_some(), "{module} is not in the table");
    }
    let import = Regex::new(r"\bcrate::([a-z_]+)").unwrap();
    let import_list = Regex::new(r"\buse crate::\{([^;]*)\};").unwrap();
    let name = Regex::new(r"(?:^|[{,])\s*([a-z_]+)").unwrap();
    let mut upward = Vec::new();
    for file in all_files("crates/server/src") {
        let path = file.strip_prefix(&source).unwrap();
        let own = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let is_test = path.to_str().unwrap().ends_with("tests.rs");
        let Some(own) = level(own).filter(|_| !is_test) else { continue };
        let code = code(&file);
        let singly = import.captures_iter(&code).map(|found| found[1].to_owned());
        let grouped = import_list.captures_iter(&code).flat_map(|list| {
            let list = list[1].to_owned();
            name.captures_iter(&list).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        });
        for used in singly.chain(grouped) {
            if level(&used).is_some_and(|used| used > own) {
                upward.push(format!("{}: crate::{used}", path.display()));
            }
        }
    }
    assert!(
        upward.is_empty(),
        "imports of modules further down in the table:\n{}",
        upward.join("\n")
    );
}

/// Where leases, guards and caches are: what they allow must end while the machine is suspended.
const LEASES: [&str; 9] = [
    "crates/store/src",
    "crates/runtime/src",
    "crates/messages/src",
    "crates/deliveries/src",
    "crates/sending/src",
    "crates/gateway/src/idempotency.rs",
    "crates/gateway/src/idempotency",
    "crates/exports/src/part.rs",
    "crates/tracking/src/apply/campaign_rules.rs",
];

#[test]
fn leases_and_caches_use_the_clock_that_counts_suspension() {
    let mut wrong = Vec::new();
    for path in LEASES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let mut found = Vec::new();
        if path.is_dir() {
            files(&path, &mut found);
        } else {
            found.push(path);
        }
        assert!(!found.is_empty());
        let uses_instant = |file: &PathBuf| code(file).contains("Instant::now");
        wrong.extend(found.into_iter().filter(uses_instant));
    }
    assert!(wrong.is_empty(), "use kit::moment::Moment instead of Instant: {wrong:#?}");
}

/// The crates of the project that a crate depends on.
fn dependencies(name: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("Cargo.toml");
    let text = fs::read_to_string(file).unwrap();
    let (_, dependencies) = text.split_once("\n[dependencies]\n").unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    let names = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
    let crates = crates();
    names.filter_map(|name| crates.get(name).cloned()).collect()
}

/// The folders of the crates, by the names with which others depend on them.
fn crates() -> BTreeMap<String, String> {
    let declared = Regex::new(r#"(?m)^(\w+) = \{ .*path = "crates/([a-z-]+)""#).unwrap();
    let found = declared.captures_iter(WORKSPACE);
    found.map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

fn all_files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    found
}

#[test]
fn every_crate_is_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let declared = crates();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(declared.values().any(|declared| *declared == name), "{name}");
    }
}

#[test]
fn no_crate_is_too_large() {
    let crates = crates().into_values().map(|name| format!("crates/{name}"));
    for folder in crates.chain(["src".to_owned()]) {
        let lines = |file: &PathBuf| fs::read_to_string(file).unwrap().lines().count();
        let lines: usize = all_files(&folder).iter().map(lines).sum();
        assert!(lines <= MAX_LINES, "{folder} has {lines} lines of at most {MAX_LINES}");
    }
}

#[test]
fn crates_depend_on_those_above_them_in_the_table() {
    let order = order(CRATES);
    let index = |name: &String| order.iter().position(|other| other == name);
    for name in crates().into_values() {
        let own = index(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in dependencies(&name) {
            assert!(index(&dependency).is_some_and(|at| at < own), "{name}: {dependency}");
        }
    }
}

#[test]
fn the_drawing_of_the_crates_is_right() {
    let page = include_str!("../../docs/explanation/architecture.md");
    let (_, drawing) = page.split_once("```text\nsrc ").expect("a drawing");
    let (drawing, _) = drawing.split_once("```").expect("its end");
    // The names are separated by blanks, and the text about them begins at column 36.
    let lines: Vec<Vec<&str>> =
        drawing.lines().skip(1).map(|line| line[..36].split_whitespace().collect()).collect();
    let line_of = |name: &str| lines.iter().position(|names| names.contains(&name));
    for name in crates().into_values() {
        let own = line_of(&name).unwrap_or_else(|| panic!("{name} is not in the drawing"));
        for dependency in dependencies(&name) {
            assert!(line_of(&dependency).is_some_and(|line| line > own), "{name}: {dependency}");
        }
    }
}
