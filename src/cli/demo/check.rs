//! Holds every line of an export against the record that was imported.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

use super::CommandResult;

/// Delivery rule 2 of the export.
pub const LINES_PER_FILE: usize = 5_000;

/// What was found, when all was well.
pub struct Checked {
    pub users: u64,
    pub files: usize,
}

/// Reads the archive whole: its checksums, the names of its files, their lines.
pub fn archive(archive: &Path, records: &Path, object_prefix: &str) -> CommandResult<Checked> {
    let records = std::fs::read_to_string(records)?;
    let mut expected = HashMap::new();
    for line in records.lines() {
        let record: Value = serde_json::from_str(line)?;
        expected.insert(service_id(&record)?, line);
    }
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(archive)?))?;
    let mut users = 0;
    for index in 0..archive.len() {
        let entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        if name != format!("{object_prefix}_{:06}.json", index + 1) {
            return Err(format!("a file is called {name}").into());
        }
        let mut lines = 0;
        for line in BufReader::new(entry).lines() {
            let line = line?;
            lines += 1;
            let user: Value = serde_json::from_str(&line)?;
            let record = expected
                .remove(&service_id(&user)?)
                .ok_or_else(|| format!("{name}, line {lines}: a user twice, or unknown: {line}"))?;
            compare(serde_json::from_str(record)?, user)
                .map_err(|error| format!("{name}, line {lines}: {error}"))?;
        }
        if lines > LINES_PER_FILE {
            return Err(format!("{name} has {lines} lines").into());
        }
        users += lines as u64;
    }
    if let Some(id) = expected.keys().next() {
        return Err(format!("{} users are missing, such as {id}", expected.len()).into());
    }
    Ok(Checked { users, files: archive.len() })
}

fn service_id(record: &Value) -> CommandResult<String> {
    Ok(record["service_id"].as_str().ok_or("a record without service_id")?.to_owned())
}

/// Field by field, so that what differs is named.
fn compare(mut imported: Value, mut exported: Value) -> CommandResult {
    for record in [&mut imported, &mut exported] {
        normalize(record);
    }
    let (Some(imported), Some(exported)) = (imported.as_object(), exported.as_object()) else {
        return Err("not an object".into());
    };
    for name in imported.keys().chain(exported.keys()) {
        if imported.get(name) != exported.get(name) {
            return Err(format!(
                "{name} was imported as {:?} and came out as {:?}",
                imported.get(name),
                exported.get(name)
            )
            .into());
        }
    }
    Ok(())
}

/// What may differ without meaning anything: the order of a list by name, and how a number
/// is written.
fn normalize(record: &mut Value) {
    for name in ["purchases", "custom_events"] {
        if let Some(entries) = record.get_mut(name).and_then(Value::as_array_mut) {
            entries.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        }
    }
    if let Some(revenue) = record.get("total_revenue").and_then(Value::as_f64) {
        record["total_revenue"] = revenue.into();
    }
}
