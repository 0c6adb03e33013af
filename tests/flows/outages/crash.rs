//! PostgreSQL crashes in quiet traffic: it loses commits that did not wait for the disk, and no
//! request follows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::api::Api;
use crate::support::fleet::{Backend, Fleet};
use crate::support::postgres::OwnPostgres;
use crate::support::{WorkspaceFile, eventually};

const TRACK: &str = "/users/track";
const PRODUCTS: &str = "/purchases/product_list";

/// They are in several partitions.
const USERS: usize = 8;

/// Purchases of a user in a round, of a product that was bought before.
const REPEATED: usize = 4;

/// A round may lose nothing, if something else made all durable just before the crash.
const MAX_ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_counts_what_a_crash_took_back() {
    crash_in_quiet_traffic(Backend::Fleet(1), "worker-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone_counts_what_a_crash_took_back() {
    crash_in_quiet_traffic(Backend::Embedded, "standalone").await;
}

async fn crash_in_quiet_traffic(backend: Backend, worker: &str) {
    let mut postgres = OwnPostgres::start(&[]).await;
    let url = postgres.url();
    let mut fleet = Fleet::prepare(backend, &[], |environment| {
        environment.insert("LONGSHORE_DATABASE_URL".to_owned(), url);
    })
    .await;
    let permissions = ["users.track", "purchases.product_list"];
    let workspace = WorkspaceFile::new("acme").permitted(&permissions);
    let api = fleet.apply(&[workspace]).await.remove(0);
    fleet.launch_all(None).await;
    // The first batch of each partition waits for the disk.
    for user in 0..USERS {
        buy(&api, user, "tea").await;
    }
    fleet.applied().await;
    let mut bought = 1;
    for round in 1..=MAX_ROUNDS {
        postgres.stop_background_writers();
        for user in 0..USERS {
            buy(&api, user, &format!("new-{round}-{user}")).await;
        }
        // A batch with a new product waits for the disk.
        fleet.applied().await;
        for user in (0..REPEATED).flat_map(|_| 0..USERS) {
            buy(&api, user, "tea").await;
        }
        fleet.applied().await;
        postgres.kill().await;
        postgres.start_again().await;
        bought += REPEATED;
        // Nothing happens but that.
        for user in 0..USERS {
            let expected = purchases_of(user, round, bought);
            eventually("all purchases count, once", async || {
                purchases(&fleet, user).await == expected
            })
            .await;
        }
        let expected = USERS * round + 1;
        eventually("all products are listed", async || products(&api).await == expected).await;
        fleet.applied().await;
        eventually("it is ready", async || fleet.readiness(worker).await.0 == 200).await;
        if lost_commits(&fleet, worker).await > 0 {
            fleet.close().await;
            return;
        }
    }
    panic!("no crash lost a commit");
}

async fn buy(api: &Api, user: usize, product: &str) {
    let purchase = json!({
        "external_id": format!("user-{user}"), "product_id": product, "currency": "USD",
        "price": 1, "quantity": 1, "time": jiff::Timestamp::now().to_string(),
    });
    let answer = api.post(TRACK, &json!({ "purchases": [purchase] })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// What a user has bought after some rounds, with the counts.
fn purchases_of(user: usize, rounds: usize, tea: usize) -> BTreeMap<String, usize> {
    let new = (1..=rounds).map(|round| (format!("new-{round}-{user}"), 1));
    new.chain([("tea".to_owned(), tea)]).collect()
}

/// What a user has bought, as an operator is shown it.
async fn purchases(fleet: &Fleet, user: usize) -> BTreeMap<String, usize> {
    let output = fleet.command(&["users", "show", &format!("user-{user}"), "--json"]).await;
    let Ok(shown) = serde_json::from_slice::<Value>(&output.stdout) else {
        return BTreeMap::new();
    };
    let purchases = shown["purchases"].as_array().into_iter().flatten();
    let counts = purchases.filter_map(|purchase| {
        Some((purchase["name"].as_str()?.to_owned(), purchase["count"].as_u64()? as usize))
    });
    counts.collect()
}

async fn products(api: &Api) -> usize {
    let answer = api.get(PRODUCTS).await;
    answer.body["products"].as_array().map_or(0, Vec::len)
}

/// How often a partition was found behind its worker.
async fn lost_commits(fleet: &Fleet, worker: &str) -> u64 {
    let metrics = fleet.metrics(worker).await;
    let series = "longshore_log_reverted_total{topic=\"tracking\"} ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(series));
    value.unwrap_or_else(|| panic!("no {series}")).parse().expect("a count")
}
