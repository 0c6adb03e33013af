//! Waits until the work in a database is done.

use super::fleet::Fleet;
use super::{eventually, stores};

/// Waits until no row is left that somebody would still work on, but the later passes of
/// removal; the sweeps of activity are there for ever.
pub async fn wait_until_done(fleet: &Fleet) {
    let database = fleet.database_url();
    for sql in [
        "SELECT count(*) FROM claims WHERE kind NOT IN ('export_cleanup', 'activity_sweep')",
        "SELECT count(*) FROM export_parts
         WHERE job_id NOT IN (SELECT job FROM claims WHERE kind = 'export_cleanup')",
        "SELECT count(*) FROM message_attempts",
        "SELECT count(*) FROM dead_letters",
        "SELECT count(*) FROM deliveries WHERE state = 'pending'",
    ] {
        eventually(&format!("0: {sql}"), || async { stores::count(&database, sql).await == 0 })
            .await;
    }
}

/// Puts the end of every export a day and an hour back, and waits for the last pass of
/// removal: of the work not even a row is left then.
pub async fn expire_exports(fleet: &Fleet) {
    let database = fleet.database_url();
    let ended = "UPDATE export_jobs
                 SET finished_at = finished_at - 90000000, expires_at = expires_at - 90000000";
    stores::execute(&database, ended).await;
    let remaining = "SELECT count(*) FROM claims WHERE kind <> 'activity_sweep'";
    eventually("nothing is to be removed any more", || async {
        // Again and again, since a pass that was in progress puts off the next one.
        let due = "UPDATE claims SET due_at = 0 WHERE kind = 'export_cleanup' AND owner IS NULL";
        stores::execute(&database, due).await == 0 && stores::count(&database, remaining).await == 0
    })
    .await;
    assert_eq!(stores::count(&database, "SELECT count(*) FROM export_parts").await, 0);
    wait_until_done(fleet).await;
}
