//! Files and names of the code that pages name exist.

use std::collections::BTreeSet;

use regex::Regex;

use super::files_below;
use crate::support::files::{project, read};

/// Whether a path, without its ending, is a file or folder of the project.
fn exists(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    project(path).exists() || project(&format!("{path}.rs")).exists()
}

#[test]
fn paths_of_the_code_in_pages_exist() {
    let path = Regex::new(r"`((?:src|crates|tests|scripts|benches)/[\w/.-]+)[^`]*`").unwrap();
    let mut missing = BTreeSet::new();
    for page in ["README.md", "CONTRIBUTING.md", "docs/explanation/architecture.md"] {
        let text = read(project(page));
        let paths = path.captures_iter(&text).map(|found| found[1].to_owned());
        missing.extend(paths.filter(|path| !exists(path)).map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn steps_of_the_walkthrough_exist() {
    let text = read(project("docs/explanation/through-the-code.md"));
    let step = Regex::new(r"(?m)^  ([a-z_]+(?:/[\w.]+)*)  +\S|^    ([a-z_]+/[\w./]+) +\S").unwrap();
    let steps: Vec<String> = step
        .captures_iter(&text)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|path| path.as_str().to_owned())
        .collect();
    assert!(steps.len() > 15, "{steps:?}");
    for step in steps {
        let path = match step.split_once('/') {
            Some(("src", _)) => step.clone(),
            Some((name, rest)) => format!("crates/{name}/src/{rest}"),
            None => format!("crates/{step}"),
        };
        assert!(exists(&path), "{step}");
    }
}

/// Names in pages about the code that are not definitions in Rust.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("Arc", "of the standard library"),
    ("Option", "of the standard library"),
    ("HEAD", "of git"),
    ("SHA256SUMS", "a file of a release"),
    ("flaky", "a heading, and a file"),
    ("_rows", "the end of names of files"),
    ("namespace", "a label of alerts"),
    ("dashboard_url", "an annotation of alerts"),
    ("runbook_url", "an annotation of alerts"),
    ("global_control_group", "part of a URL"),
    ("export_plan", "a kind of claim"),
    ("export_part", "a kind of claim"),
    ("export_finish", "a kind of claim"),
];

/// The functions, types, modules, constants, macros and variants of the code, and its crates.
fn definitions() -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for folder in ["crates", "src", "tests/flows", "tests/fuzz/src", "benches"] {
        files_below(folder, &mut files);
    }
    let definition =
        Regex::new(r"\b(?:fn|struct|enum|trait|type|mod|const|static|macro_rules!)\s+(\w+)")
            .unwrap();
    let variant = Regex::new(r"(?m)^    ([A-Z]\w*)(?:[(,]| [{=])").unwrap();
    let mut defined = BTreeSet::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let text = read(project(file));
        let names = definition.captures_iter(&text).chain(variant.captures_iter(&text));
        defined.extend(names.map(|found| found[1].to_owned()));
        let name_of_crate = file.strip_prefix("crates/").and_then(|path| path.split('/').next());
        defined.extend(name_of_crate.map(|name| name.replace('-', "_")));
    }
    defined
}

/// The names of code in a page: quoted ones, of which each part of a path, and those in drawings
/// that cannot be words.
fn names_in(page: &str) -> BTreeSet<String> {
    let block = Regex::new(r"(?ms)^ *```(\w*)\n(.*?)^ *```").unwrap();
    let quoted = Regex::new(r"`([^`\n]+)`").unwrap();
    let path =
        Regex::new(r"^\.?((?:[A-Za-z_]\w*::)*[A-Za-z_]\w*)(?:\(.*\)|(?:::)?<.*>)?$").unwrap();
    let name = Regex::new(r"[A-Za-z]\w*_\w+|[A-Za-z]\w*[a-z][A-Z]\w*").unwrap();
    let prose = block.replace_all(page, "");
    let paths = quoted.captures_iter(&prose).filter_map(|text| {
        path.captures(&text[1]).map(|path| path[1].split("::").map(str::to_owned).collect())
    });
    let mut names: BTreeSet<String> = paths.flat_map(|path: Vec<String>| path).collect();
    for drawing in block.captures_iter(page).filter(|block| &block[1] == "text") {
        names.extend(name.find_iter(&drawing[2]).map(|name| name.as_str().to_owned()));
    }
    names
}

#[test]
fn names_of_the_code_in_pages_exist() {
    let defined = definitions();
    let (mut missing, mut unused): (Vec<String>, BTreeSet<&str>) =
        (Vec::new(), OTHER_NAMES.iter().map(|(name, _)| *name).collect());
    for page in ["docs/explanation/through-the-code.md", "CONTRIBUTING.md"] {
        let names = names_in(&read(project(page)));
        assert!(names.len() > 10, "{page}: {names:?}");
        for name in names {
            let is_other = OTHER_NAMES.iter().any(|(other, _)| *other == name);
            unused.remove(name.as_str());
            if !is_other && !defined.contains(&name) {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "no definition has these names: {missing:#?}");
    assert!(unused.is_empty(), "no page has these names: {unused:?}");
}
