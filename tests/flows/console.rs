//! The console: who may sign in, what a session may do, and that nobody else can do it.

mod campaign_sends;
mod catalogs;
mod dead_letters;
mod deliveries;
mod developer;
mod exports;
mod history;
mod keys;
mod oidc;
mod overview;
mod proxy;
mod rights;
mod schedules;
mod segments;
mod sends;
mod sign_in;
mod sms_numbers;
mod system;
mod users;

use serde_json::Value;

use crate::support::fleet::Fleet;
use crate::support::stores::on_pool;
use longshore::gateway::workspaces;

/// Runs a statement with a text in the fleet's database; returns the number of changed rows.
async fn execute(fleet: &Fleet, sql: &'static str, text: &str) -> u64 {
    let store = longshore::app::connect(&fleet.config()).await.expect("the store opens");
    let changed = on_pool!(&store, pool => {
        sqlx::query(sql).bind(text).execute(pool).await.map(|done| done.rows_affected())
    });
    store.close().await;
    changed.expect("a change")
}

async fn workspace_id(fleet: &Fleet, name: &str) -> i32 {
    let store = longshore::app::connect(&fleet.config()).await.expect("the store opens");
    let mut tx = store.snapshot().await.expect("a transaction");
    let id = workspaces::by_name(&mut tx, name).await.expect("a query").expect("it exists").id;
    drop(tx);
    store.close().await;
    id
}

/// The entries of the audit log whose action begins like this, the latest first.
async fn audited(fleet: &Fleet, action: &str) -> Vec<Value> {
    let printed = fleet.run(&["audit", "list", "--action", action, "--json"]).await;
    let entries = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    entries.map(without_session).collect()
}

/// An entry without the id of the person's session, which every one in the console has.
fn without_session(mut entry: Value) -> Value {
    if entry["actor"].as_str().is_some_and(|actor| actor.starts_with("console:")) {
        let details = entry["details"].as_object_mut().expect("an object");
        assert!(details.remove("session_id").is_some_and(|id| id.is_string()), "{details:?}");
    }
    entry
}
