//! Warnings about parts of a request that have no effect.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Format;
use gateway::warnings::{Warning, WarningCode};
use kit::json;
use proof::fields::CUSTOM_ATTRIBUTES;

/// The warning about a format without effect.
pub fn ignored_format(storage: Option<Uuid>, format: Format) -> Option<Warning> {
    (storage.is_none() && format == Format::Gzip).then(|| {
        Warning::new("output_format", WarningCode::IgnoredValue)
            .with_message("the export has a download URL, which returns one ZIP".to_owned())
    })
}

/// Maximum number of custom attributes that are looked for.
const MAX_ATTRIBUTES: usize = 20;

/// The custom attributes that are requested by their names, to look for in users.
pub fn named_attributes(fields: &[String]) -> Vec<String> {
    let name =
        |field: &String| Some(field.strip_prefix(CUSTOM_ATTRIBUTES)?.strip_prefix('.')?.to_owned());
    let names: BTreeSet<String> = fields.iter().filter_map(name).collect();
    names.into_iter().take(MAX_ATTRIBUTES).collect()
}

/// Custom attributes as they are written in the documents and records of users, with their names. A
/// text elsewhere may look the same: then there is no warning.
pub fn as_in_documents(attributes: Vec<String>) -> Vec<(String, String)> {
    attributes.into_iter().map(|name| (format!("{}:", json::quoted(&name)), name)).collect()
}

/// The warning about a custom attribute that none of some users has. `users` is how many were
/// read, and `is_all` whether these are all.
pub fn unknown_attribute(name: &str, users: i64, is_all: bool) -> Warning {
    let path = format!("fields_to_export.{CUSTOM_ATTRIBUTES}.{name}");
    let warning = Warning::new(path, WarningCode::UnknownAttribute);
    if is_all {
        warning.with_message("no user of the export has it".to_owned())
    } else {
        warning.with_message(format!("none of the {users} users that were read has it"))
    }
}

/// The warning that the export fails, or may fail.
pub fn export_fails(field: &str, message: String) -> Warning {
    Warning::new(field, WarningCode::ExportFails).with_message(message)
}
