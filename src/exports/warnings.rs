//! What of a request has no effect, for who wrote it.

use serde_json::{Map, Value};

use super::{Format, Job};
use kit::words::{beginning, nearest};

/// The members of a request.
const MEMBERS: [&str; 3] = ["fields_to_export", "callback_endpoint", "output_format"];

/// The most unknown members that are named.
const MOST: usize = 20;

/// The most characters of a name that are repeated.
const SHOWN: usize = 64;

/// Of members that no request has.
pub fn of_members(body: &Map<String, Value>) -> Vec<String> {
    let unknown = || body.keys().map(String::as_str).filter(|name| !MEMBERS.contains(name));
    let mut warnings: Vec<String> = unknown()
        .take(MOST)
        .map(|name| {
            let shown = beginning(name, SHOWN);
            match nearest(name, MEMBERS) {
                Some(meant) => format!("{shown}: unknown field, ignored; did you mean {meant}?"),
                None => format!("{shown}: unknown field, ignored"),
            }
        })
        .collect();
    let more = unknown().count().saturating_sub(MOST);
    if more > 0 {
        warnings.push(format!("{more} more unknown fields, ignored"));
    }
    warnings
}

/// Of a format that was asked for where there is no file of it.
pub fn of_format(job: &Job) -> Option<String> {
    (job.storage_id.is_none() && job.format == Format::Gzip).then(|| {
        "output_format: ignored, because the workspace has no storage of its own: the download \
         is one ZIP"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_unknown_members_up_to_a_bound() {
        let body = |names: &[String]| names.iter().map(|name| (name.clone(), json!(1))).collect();
        let one = of_members(&body(&["Fields_to_export".into(), "output_format".into()]));
        assert_eq!(
            one,
            ["Fields_to_export: unknown field, ignored; did you mean fields_to_export?"]
        );
        let many: Vec<String> = (0..25).map(|n| format!("{n}{}", "é".repeat(1_000))).collect();
        let warnings = of_members(&body(&many));
        assert_eq!(warnings.len(), MOST + 1);
        assert_eq!(warnings[MOST], "5 more unknown fields, ignored");
        assert!(warnings.iter().all(|warning| warning.chars().count() < 100), "{warnings:?}");
    }
}
