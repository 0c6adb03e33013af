//! Warnings about parts of a request that have no effect.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::Format;
use kit::words::{beginning, nearest};

/// Maximum number of unknown fields that are named.
const MAX: usize = 20;

/// Characters of a name that are shown.
const SHOWN: usize = 64;

/// Warnings about unknown fields; `known` are the valid ones.
pub fn unknown_fields(body: &Map<String, Value>, known: &[&str]) -> Vec<String> {
    let unknown = || body.keys().map(String::as_str).filter(|name| !known.contains(name));
    let mut warnings: Vec<String> = unknown()
        .take(MAX)
        .map(|name| {
            let shown = beginning(name, SHOWN);
            match nearest(name, known.iter().copied()) {
                Some(nearest_known) => {
                    format!("{shown}: unknown field, ignored; did you mean {nearest_known}?")
                }
                None => format!("{shown}: unknown field, ignored"),
            }
        })
        .collect();
    let more = unknown().count().saturating_sub(MAX);
    if more > 0 {
        warnings.push(format!("{more} more unknown fields, ignored"));
    }
    warnings
}

/// The warning about a format without effect.
pub fn ignored_format(storage: Option<Uuid>, format: Format) -> Option<String> {
    (storage.is_none() && format == Format::Gzip).then(|| {
        "output_format: ignored, because the export has a download URL, which returns one ZIP"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: &[&str] = &["fields_to_export", "output_format"];

    #[test]
    fn names_unknown_fields_up_to_a_bound() {
        let body = |names: &[String]| names.iter().map(|name| (name.clone(), json!(1))).collect();
        let warnings =
            unknown_fields(&body(&["Fields_to_export".into(), "output_format".into()]), KNOWN);
        assert_eq!(
            warnings,
            ["Fields_to_export: unknown field, ignored; did you mean fields_to_export?"]
        );
        let many: Vec<String> = (0..25).map(|n| format!("{n}{}", "é".repeat(1_000))).collect();
        let warnings = unknown_fields(&body(&many), KNOWN);
        assert_eq!(warnings.len(), MAX + 1);
        assert_eq!(warnings[MAX], "5 more unknown fields, ignored");
        assert!(warnings.iter().all(|warning| warning.chars().count() < 100), "{warnings:?}");
    }
}
