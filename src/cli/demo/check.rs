//! Compares every line of an export with the imported record.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

use super::CommandResult;
use kit::json::{self, JsonFields};

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
        expected.insert(service_id(&fields(line)?)?, line);
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
            let user = fields(&line)?;
            let record = expected.remove(service_id(&user)?).ok_or_else(|| {
                format!("{name}, line {lines}: duplicate or unknown user: {line}")
            })?;
            compare(&fields(record)?, &user)
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

fn fields(line: &str) -> CommandResult<JsonFields<'_>> {
    Ok(json::unique_fields(line, json::MAX_JSON_FIELDS)?)
}

fn service_id<'l>(record: &JsonFields<'l>) -> CommandResult<&'l str> {
    let id = record.get("service_id").and_then(json::plain_text);
    Ok(id.ok_or("a record without service_id")?)
}

/// Compares field by field, so that the error names the difference. Exports copy the text of most
/// values: only values with another text are parsed.
fn compare(imported: &JsonFields<'_>, exported: &JsonFields<'_>) -> CommandResult {
    for (name, _) in imported.0.iter().chain(&exported.0) {
        let (before, after) = (imported.get(name), exported.get(name));
        if before != after && normalized(name, before)? != normalized(name, after)? {
            let [before, after] = [before, after].map(|value| value.unwrap_or("nothing"));
            return Err(format!("{name} was imported as {before} and exported as {after}").into());
        }
    }
    Ok(())
}

/// A field's value without irrelevant differences: the order of a list by name, and the notation of
/// numbers.
fn normalized(name: &str, json: Option<&str>) -> CommandResult<Option<Value>> {
    let Some(mut value) = json.map(json::value).transpose()? else { return Ok(None) };
    if let ("purchases" | "custom_events", Some(entries)) = (name, value.as_array_mut()) {
        entries.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    if let ("total_revenue", Some(revenue)) = (name, value.as_f64()) {
        value = revenue.into();
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(imported: &str, exported: &str) -> Option<String> {
        let compared = compare(&fields(imported).unwrap(), &fields(exported).unwrap());
        compared.err().map(|error| error.to_string())
    }

    #[test]
    fn only_differences_of_values_count() {
        let imported = r#"{"total_revenue":12.50,"purchases":[{"name":"b"},{"name":"a"}],"x":{}}"#;
        let exported = r#"{"x":{ },"purchases":[{"name":"a"},{"name":"b"}],"total_revenue":12.5}"#;
        assert_eq!(differ(imported, exported), None);
        for exported in [r#"{"x":2}"#, "{}", r#"{"x":1,"more":1}"#, r#"{"x":null}"#] {
            assert!(differ(r#"{"x":1}"#, exported).is_some(), "{exported}");
        }
        assert!(fields(r#"{"x":1,"x":1}"#).is_err());
    }
}
