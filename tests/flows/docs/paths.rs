//! Files that pages name exist.

use std::collections::BTreeSet;

use regex::Regex;

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
    // Functions and types that the steps of an export name.
    let code = ["api.rs", "create.rs", "intake.rs", "plan.rs", "state.rs"];
    let code = code.map(|file| read(project(&format!("crates/exports/src/{file}")))).concat();
    for name in ["fn create", "struct PlanExports", "fn compute_plan", "fn part_done"] {
        let (_, named) = name.split_once(' ').expect("a kind and a name");
        assert!(text.contains(named) && code.contains(name), "{named}");
    }
}
