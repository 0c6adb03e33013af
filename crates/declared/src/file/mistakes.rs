//! Describes errors in the structure of the file for its author.

use std::collections::BTreeSet;

use serde_json::Value;
use serde_saphyr::{Error, UserMessageFormatter};

use crate::document::json_schema;
use kit::words::{beginning, nearest};

/// Maximum number of characters of a name that an error repeats.
const SHOWN: usize = 64;

/// The hint if the file has no valid structure.
const INDENTATION: &str = "check the indentation: fields of one object begin in the same column, \
                           after spaces, not tabs. A string with `: ` or ` #` needs quotes";

pub(super) fn explain(error: &Error) -> String {
    let text = error.render_with_formatter(&UserMessageFormatter);
    // The position is in front of it.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    match is_structural(error) {
        true => format!("{text}; {INDENTATION}"),
        false => text.to_owned(),
    }
}

/// Whether the file is not YAML.
fn is_structural(error: &Error) -> bool {
    matches!(error, Error::ContainerEndMismatch { .. } | Error::ExternalMessage { .. })
}

pub(super) fn unknown_field(field: &str, expected: &[&'static str]) -> String {
    let shown = format!("unknown field `{}`", beginning(field, SHOWN));
    if let Some(meant) = nearest(field, expected.iter().copied()) {
        return format!("{shown}; did you mean {meant}?");
    }
    let places = places(field);
    if places.is_empty() {
        return format!("{shown}; expected one of {}", expected.join(", "));
    }
    let places = Vec::from_iter(places).join(", ");
    format!("{shown}; check its indentation: it is a field of {places}")
}

/// The paths in the file that have a field with this name.
fn places(field: &str) -> BTreeSet<String> {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap_or_default();
    let mut places = BTreeSet::new();
    find(&schema, &schema, "", field, &mut places);
    places
}

fn find(all: &Value, schema: &Value, path: &str, field: &str, places: &mut BTreeSet<String>) {
    // The file has no more levels.
    const MAX_DEPTH: usize = 5;
    if path.matches(['.', '[']).count() > MAX_DEPTH {
        return;
    }
    let target = schema["$ref"].as_str().and_then(|target| all.pointer(target.strip_prefix('#')?));
    let one_of = schema["anyOf"].as_array().into_iter().flatten();
    for schema in target.into_iter().chain(one_of) {
        find(all, schema, path, field, places);
    }
    if schema["items"].is_object() {
        find(all, &schema["items"], &format!("{path}[]"), field, places);
    }
    if schema["additionalProperties"].is_object() {
        find(all, &schema["additionalProperties"], &format!("{path}.<name>"), field, places);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if name == field {
            places.insert(if path.is_empty() { "the top level".into() } else { path.into() });
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        find(all, below, &path, field, places);
    }
}
