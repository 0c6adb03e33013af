//! Describes errors in the structure of the file for its author.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_saphyr::{Error, UserMessageFormatter};

use crate::document::json_schema;
use kit::words::{beginning, nearest};

/// Maximum number of characters of a name that an error repeats.
const MAX_SHOWN: usize = 64;

/// The hint if the file has no valid structure.
const INDENTATION: &str = "check the indentation: fields of one object begin in the same column, \
                           after spaces, not tabs. A string with `: ` or ` #` needs quotes";

pub(super) fn explain(error: &Error) -> String {
    let text = error.render_with_formatter(&UserMessageFormatter);
    // The caller shows the line in front of the text.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    if is_structural(error) { format!("{text}; {INDENTATION}") } else { text.to_owned() }
}

/// Whether the file is not YAML.
fn is_structural(error: &Error) -> bool {
    matches!(error, Error::ContainerEndMismatch { .. } | Error::ExternalMessage { .. })
}

pub(super) fn unknown_field(field: &str, expected: &[&'static str]) -> String {
    let shown = format!("unknown field `{}`", beginning(field, MAX_SHOWN));
    if let Some(nearest) = nearest(field, expected.iter().copied()) {
        return format!("{shown}; did you mean {nearest}?");
    }
    let parents = parents(field);
    if parents.is_empty() {
        return format!("{shown}; expected one of {}", expected.join(", "));
    }
    let parents = Vec::from_iter(parents).join(", ");
    format!("{shown}; check its indentation: it is a field of {parents}")
}

/// The paths in the file that have a field with this name.
fn parents(field: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap_or_default();
    let mut parents = BTreeSet::new();
    find_parents(&schema, &schema, "", field, &mut parents);
    parents
}

/// Adds the paths in `schema`, which is a part of `root`.
fn find_parents(
    root: &Value,
    schema: &Value,
    path: &str,
    field: &str,
    parents: &mut BTreeSet<String>,
) {
    // The file has no more levels.
    const MAX_DEPTH: usize = 5;
    if path.matches(['.', '[']).count() > MAX_DEPTH {
        return;
    }
    let target = schema["$ref"].as_str().and_then(|target| root.pointer(target.strip_prefix('#')?));
    let one_of = schema["anyOf"].as_array().into_iter().flatten();
    for schema in target.into_iter().chain(one_of) {
        find_parents(root, schema, path, field, parents);
    }
    if schema["items"].is_object() {
        find_parents(root, &schema["items"], &format!("{path}[]"), field, parents);
    }
    if schema["additionalProperties"].is_object() {
        let path = format!("{path}.<name>");
        find_parents(root, &schema["additionalProperties"], &path, field, parents);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if name == field {
            parents.insert(if path.is_empty() { "the top level".into() } else { path.into() });
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        find_parents(root, property, &path, field, parents);
    }
}
