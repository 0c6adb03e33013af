//! `longshore export run --dry-run`: prints the estimate of an export.

use super::client::{Basis, Body, Client, DryRun, Estimate, EstimatedUsers, TestedDestination};
use crate::cli::CommandResult;
use crate::cli::table::{fields, number, text};
use kit::words::{count, grouped};

pub(super) async fn run(client: &Client, mut body: Body, json: bool) -> CommandResult {
    body.set("dry_run", &true)?;
    let (dry_run, raw) = client.dry_run(&body).await?;
    if json {
        println!("{raw}");
    } else {
        dry_run.warnings.iter().for_each(|warning| eprintln!("{warning}"));
        print!("{}", table(&dry_run));
    }
    if dry_run.destination.is_writable {
        return Ok(());
    }
    let reason = dry_run.destination.error.as_deref().unwrap_or("no reason given");
    Err(format!("the destination cannot be written to: {reason}").into())
}

fn table(dry_run: &DryRun) -> String {
    let DryRun { users, files, bytes, seconds, exports_in_progress, destination, .. } = dry_run;
    fields([
        ("users", text(users_text(users))),
        ("files", number(*files)),
        ("bytes", text(estimate_text(bytes))),
        ("seconds", text(estimate_text(seconds))),
        ("in progress", text(count(*exports_in_progress, "other export"))),
        ("destination", text(destination_text(destination))),
    ])
}

fn users_text(users: &EstimatedUsers) -> String {
    let text = estimate_text(&users.estimate);
    match users.between {
        Some([low, high]) => format!("{text}: {} to {}", grouped(low), grouped(high)),
        None => text,
    }
}

/// An estimate, and what it is based on.
fn estimate_text(estimate: &Estimate) -> String {
    let Estimate { estimated, based_on: Basis { source, count: counted } } = estimate;
    let estimated = grouped(*estimated);
    match (source.as_str(), *counted) {
        ("all_users", _) => format!("{estimated}  (counted)"),
        ("sample", Some(users)) => {
            format!("{estimated}  (from a sample of {})", count(users, "user"))
        }
        ("past_exports", Some(exports)) => {
            format!("{estimated}  (from {})", count(exports, "past export"))
        }
        ("past_exports", None) => format!("{estimated}  (from past exports)"),
        ("default", _) => format!("{estimated}  (without past exports)"),
        (other, _) => format!("{estimated}  ({other})"),
    }
}

fn destination_text(destination: &TestedDestination) -> String {
    let TestedDestination { name, kind, location, is_writable, .. } = destination;
    let parts = [name, kind, location].into_iter().flatten().map(String::as_str);
    let mut parts: Vec<&str> = parts.collect();
    // The name may be that of the kind.
    parts.dedup();
    parts.push(if *is_writable { "writable" } else { "not writable" });
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_has_each_estimate_and_its_basis() {
        let dry_run = json!({
            "users": {
                "estimated": 30, "exact": false, "between": [20, 40],
                "based_on": { "source": "sample", "count": 200 },
            },
            "files": 1,
            "bytes": { "estimated": 900, "based_on": { "source": "sample", "count": 30 } },
            "seconds": { "estimated": 2, "based_on": { "source": "past_exports", "count": 1 } },
            "exports_in_progress": 0,
            "destination": {
                "name": "s3", "kind": "s3", "location": "bucket b", "is_writable": true,
            },
        });
        let table = table(&DryRun::deserialize(&dry_run).unwrap());
        let lines: Vec<&str> = table.lines().collect();
        for (line, parts) in lines.iter().zip([
            &["users", "30", "200 users", "20 to 40"][..],
            &["files", "1"],
            &["bytes", "900", "30 users"],
            &["seconds", "2", "1 past export"],
            &["in progress", "0 other exports"],
            &["destination", "s3, bucket b, writable"],
        ]) {
            parts.iter().for_each(|part| assert!(line.contains(part), "{part}: {line}"));
        }
    }
}
