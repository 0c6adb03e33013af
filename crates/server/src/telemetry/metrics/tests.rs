use std::collections::BTreeSet;
use std::path::Path;

use super::*;

/// Names that every program's metrics of its process have.
const STANDARD: &str = "process_";

#[test]
fn metric_names_follow_the_conventions() {
    for metric in all() {
        let name = metric.name;
        assert!(name.starts_with("longshore_") || name.starts_with(STANDARD), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        // A histogram's name has its unit.
        let is_measured = ["_seconds", "_messages"].iter().any(|end| name.ends_with(end));
        assert!(is_measured || metric.kind != Kind::Histogram, "{name}");
        assert_eq!(metric.bounds.is_empty(), metric.kind != Kind::Histogram, "{name}");
        assert!(all().filter(|other| other.name == name).count() == 1, "{name}");
        for label in metric.labels {
            // Those that Prometheus has for itself.
            assert!(!["job", "instance", "le", "quantile"].contains(label), "{name}");
        }
        for values in metric.begins_at_0 {
            assert_eq!((metric.kind, values.len()), (Kind::Counter, metric.labels.len()), "{name}");
            // The help lists the values.
            assert!(values.iter().all(|value| metric.help.contains(value)), "{name}: {values:?}");
        }
        // Characters that the text format would escape.
        assert!(!metric.help.contains(['\n', '\\']), "{name}");
    }
}

/// The names used with the macros of `metrics` below `directory`.
fn emitted(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            emitted(&path, names);
            continue;
        }
        if path.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for call in ["counter!(", "gauge!(", "histogram!("] {
            names.extend(text.split(call).skip(1).filter_map(|rest| {
                let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
                let is_ours = name.starts_with("longshore_") || name.starts_with(STANDARD);
                is_ours.then(|| name.to_owned())
            }));
        }
    }
}

#[test]
fn emitted_and_declared_metrics_are_the_same() {
    let mut names = BTreeSet::new();
    for folder in ["src", "crates"] {
        emitted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder), &mut names);
    }
    let declared: BTreeSet<String> = all().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(names, declared);
}
