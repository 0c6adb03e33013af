//! Compares every line of an export with the imported record.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

use super::CommandResult;

/// The documented maximum of an export file.
pub const LINES_PER_FILE: usize = 5_000;

/// The result of a successful check.
pub struct Checked {
    pub users: u64,
}

/// Reads the whole archive: its checksums, the names of its files, their lines.
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
            return Err(format!("unexpected file name {name}").into());
        }
        let mut lines = 0;
        for line in BufReader::new(entry).lines() {
            let line = line?;
            lines += 1;
            let user: Value = serde_json::from_str(&line)?;
            let record = expected.remove(&service_id(&user)?).ok_or_else(|| {
                format!("{name}, line {lines}: duplicate or unknown user: {line}")
            })?;
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
    Ok(Checked { users })
}

fn service_id(record: &Value) -> CommandResult<String> {
    Ok(record["service_id"].as_str().ok_or("a record without service_id")?.to_owned())
}

/// Compares field by field, so that the error names the difference.
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
                "{name} was imported as {:?} and exported as {:?}",
                imported.get(name),
                exported.get(name)
            )
            .into());
        }
    }
    Ok(())
}

/// Removes irrelevant differences: the order of a list by name, and the notation of numbers.
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
