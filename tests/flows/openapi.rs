//! The API's document against what is answered: all routes, all statuses, all examples. In
//! addition, every response that any flow gets is held against the document
//! ([`crate::support::contract`]).

mod asyncapi;
mod bodies;
mod conformance;
mod document;
mod dry_runs;
mod page;
mod required;
mod statuses;
mod world;

use serde_json::Value;

use crate::support::contract::CONTRACT;

const UNKNOWN: &str = "0190b9a6-1c00-7000-8000-000000000000";

/// Whether an operation has the header `Idempotency-Key`.
fn takes_key(operation: &Value) -> bool {
    let parameters = operation["parameters"].as_array().expect("parameters");
    parameters.iter().any(|parameter| CONTRACT.resolve(parameter)["name"] == "Idempotency-Key")
}

/// A path of the document with something in the place of each parameter.
fn filled(path: &str) -> String {
    path.replace("{object_prefix}", &format!("{UNKNOWN}-1"))
        .replace("{catalog_name}", "none")
        .replace("{item_id}", "none")
        .replace("{dispatch_id}", &UNKNOWN.replace('-', ""))
        .replace("{id}", UNKNOWN)
        .replace("{campaign_id}", UNKNOWN)
        .replace("{path}", "a/b")
        .replace("{provider}", "push")
        .replace("{workspace}", "none")
        .replace("{token}", &"A".repeat(70))
}
