//! How fast an export is, next to the pipe that a shell would do it with and next to the bound:
//! each stage alone on all cores, their times added. All on the same users, in the same run, on the
//! real servers: `scripts/bench export`.

mod bound;
#[path = "../figures.rs"]
#[allow(dead_code, reason = "the table is another one here")]
mod figures;
mod longshore;
mod peers;
mod pipes;
mod report;
#[path = "../settle.rs"]
mod settle;
#[allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests' support serves more than this"
)]
#[path = "../../tests/flows/support/mod.rs"]
mod support;

use std::path::PathBuf;

use clap::Parser;
use serde_json::{Value, json};

use crate::longshore::{Installation, OF_ACTIVITY};
use crate::report::Report;
use crate::support::api::ALL_FIELDS;

/// Users above which the pipes, the peers and the bound are not measured: they hold the users'
/// records in memory or on disk.
const MOST_COMPARED: usize = 1_000_000;

#[derive(Parser)]
struct Arguments {
    /// How many users
    #[arg(long, default_value_t = 300_000)]
    users: usize,
    /// How often each is measured; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Update 10% of the users at random and restart PostgreSQL before
    #[arg(long)]
    aged: bool,
    /// Measure DuckDB and chDB too, with this interpreter, which has the packages of
    /// benches/peers/requirements.txt
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is exported: the fields, and what to call them.
pub struct FieldChoice {
    pub name: &'static str,
    pub fields: Vec<&'static str>,
    /// None: all users.
    pub audience: Option<Value>,
}

/// The users with fewer loyalty points, which are spread evenly up to 200,000 over those who have
/// them.
fn with_points_below(points: u32) -> Option<Value> {
    Some(json!({ "custom_attribute": {
        "custom_attribute_name": "loyalty_points", "comparison": "less_than", "value": points } }))
}

/// Few of the users, and more than half of them.
fn segments() -> [FieldChoice; 2] {
    [("1% segment, all fields", 2_000), ("60% segment, all fields", 120_000)].map(
        |(name, points)| FieldChoice {
            name,
            fields: ALL_FIELDS.to_vec(),
            audience: with_points_below(points),
        },
    )
}

/// Only what the profile's document holds; a few fields; all, purchases and events too.
fn choices() -> [FieldChoice; 3] {
    let document = ALL_FIELDS.into_iter().filter(|field| !OF_ACTIVITY.contains(field));
    [
        FieldChoice { name: "document fields", fields: document.collect(), audience: None },
        FieldChoice {
            name: "5 fields",
            fields: vec!["external_id", "email", "country", "language", "custom_attributes"],
            audience: None,
        },
        FieldChoice { name: "all fields", fields: ALL_FIELDS.to_vec(), audience: None },
    ]
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let choices = choices();
    println!("{} users are imported…", arguments.users);
    let installation = Installation::with_users(arguments.users).await;
    if arguments.aged {
        println!("10% of them are updated, and PostgreSQL is restarted…");
        installation.age().await;
    }
    let mut report = Report::new(arguments.users, arguments.aged);
    let is_compared = arguments.users <= MOST_COMPARED;
    if is_compared {
        installation.keep_records_as_text().await;
    }
    // Side by side, so that whatever else the machine does meets all of them.
    for run in 1..=arguments.runs {
        println!("run {run} of {}", arguments.runs);
        for choice in choices.iter().chain(&segments()) {
            report.add(installation.export(choice).await);
        }
        for measured in installation.verify(&choices[0]).await {
            report.add(measured);
        }
        if is_compared {
            for pipe in pipes::ALL {
                report.add(pipe.run(installation.database_url()));
            }
            if let Some(python) = &arguments.peers {
                for peer in peers::ALL {
                    report.add(peer.run(python, &installation.database_url()));
                }
            }
            for choice in &choices {
                report.add(bound::measure(&installation, choice).await);
            }
        }
    }
    report.print();
    if let Some(file) = arguments.json {
        report.write(&file);
    }
    installation.close().await;
}
