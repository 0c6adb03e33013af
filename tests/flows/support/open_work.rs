//! Waits until the work in a database is done.

use tokio::sync::Mutex;

use super::eventually;
use super::fleet::Fleet;
use super::stores::DirectConnection;

/// Waits until no row is left that somebody would still work on, but the later passes of
/// removal; the sweeps of activity are there for ever.
pub async fn wait_until_done(fleet: &Fleet) {
    let mut database = DirectConnection::open(&fleet.database_url()).await;
    for sql in [
        "SELECT count(*) FROM claims WHERE kind NOT IN ('export_cleanup', 'activity_sweep')",
        "SELECT count(*) FROM export_parts
         WHERE job_id NOT IN (SELECT job FROM claims WHERE kind = 'export_cleanup')",
        "SELECT count(*) FROM message_attempts",
        "SELECT count(*) FROM dead_letters",
        "SELECT count(*) FROM deliveries WHERE state = 'pending'",
    ] {
        database.wait_for_count(sql, |count| count == 0).await;
    }
    database.close().await;
}

/// Puts the end of every export a day and an hour back, and waits for the last pass of
/// removal: of the work not even a row is left then.
pub async fn expire_exports(fleet: &Fleet) {
    let mut database = DirectConnection::open(&fleet.database_url()).await;
    let ended = "UPDATE export_jobs
                 SET finished_at = finished_at - 90000000, expires_at = expires_at - 90000000";
    database.execute(ended).await;
    let remaining = "SELECT count(*) FROM claims WHERE kind <> 'activity_sweep'";
    let shared = Mutex::new(&mut database);
    eventually("nothing is to be removed any more", || async {
        let mut database = shared.lock().await;
        // Again and again, since a pass that was in progress puts off the next one.
        let due = "UPDATE claims SET due_at = 0 WHERE kind = 'export_cleanup' AND owner IS NULL";
        database.execute(due).await == 0 && database.count(remaining).await == 0
    })
    .await;
    assert_eq!(database.count("SELECT count(*) FROM export_parts").await, 0);
    database.close().await;
    wait_until_done(fleet).await;
}
