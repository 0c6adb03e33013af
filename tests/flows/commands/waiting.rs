//! Commands that change a row which another transaction holds.

use serde_json::{Value, json};
use store::Store;

use crate::support::installation::Installation;
use crate::support::stores::{TestStore, wait_until_blocked_where};

const FILE: &str = "
workspace: acme
keys: [{name: app, secret: a-secret-that-is-long-enough, permissions: [users.track]}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_change_waits_for_a_locked_row_and_says_so() {
    let installation = Installation::open(TestStore::postgres().await, FILE, |_| {}).await;
    let Store::Postgres { pool, .. } = &installation.app.store else {
        panic!("a test of PostgreSQL")
    };
    let mut held = pool.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM api_keys FOR UPDATE").fetch_all(&mut *held).await.unwrap();
    let release = async {
        // Longer than the time after which the command prints that it waits.
        wait_until_blocked_where(pool, "now() - xact_start > interval '4 seconds'").await;
        held.rollback().await.unwrap();
    };
    let revoke = ["key", "revoke", "app", "--json"];
    let (output, ()) = tokio::join!(installation.run(&revoke), release);
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!((&printed["name"], &printed["revoked"]), (&json!("app"), &json!(true)));
    let lines = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.matches("waiting for the database").count(), 1, "{lines}");

    // Nothing holds the row now, so there is nothing to say.
    let output = installation.run(&["key", "revoke", "app"]).await;
    assert_eq!(output.status.code(), Some(1), "it is revoked already");
    let lines = String::from_utf8_lossy(&output.stderr);
    assert!(!lines.contains("waiting"), "{lines}");
}
