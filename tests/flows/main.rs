//! One binary of flows through the public surface, on real servers. A test whose server is
//! missing fails and says how to start it: `scripts/services start`.

mod audit;
mod browser;
mod campaigns;
mod catalogs;
mod chaos;
mod claims;
mod commands;
mod compatibility;
mod conformance;
mod console;
#[cfg(debug_assertions)]
mod crashes;
mod deliveries;
mod deployment;
mod docs;
mod everyday_tasks;
mod export_api;
mod export_dry_run;
mod export_events;
mod export_faults;
mod export_ids;
mod export_list;
mod export_proof;
mod export_repeats;
mod export_rows;
mod export_run;
mod export_segments;
mod exports;
mod first_start;
mod gateway;
mod history;
mod idempotency;
mod ingestion;
mod large_files;
mod layers;
mod log;
mod log_lines;
mod lost_commit;
mod membership;
mod messages;
mod metrics;
mod midnight;
mod notifications;
mod objects;
mod observability;
mod openapi;
mod outages;
mod parts;
mod promises;
mod reading;
mod schedules;
mod scim;
mod shares;
mod signing;
mod signing_keys;
mod sms;
mod support;
mod sweeping;
#[cfg(debug_assertions)]
mod taking_turns;
mod test_runs;
mod track_api;
mod tracking;
mod upgrade;
mod users;
mod waking;
mod workspaces;

#[cfg(not(debug_assertions))]
#[test]
fn crashes_are_tested_with_fail_points() {
    panic!(
        "these tests end processes at fail points, which this profile has none of: run \
         scripts/test, or cargo test"
    );
}
