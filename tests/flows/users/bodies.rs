//! How much of users' activity is asked for.

use std::convert::Infallible;

use longshore::users::Position;
use longshore::users::moment::TransactionSnapshot;
use longshore::users::scan::{UserRange, read};
use serde_json::json;

use super::{ALL, World};
use crate::support::proxy::Proxy;
use crate::support::stores::{on_pool, on_postgres};

on_postgres!(World =>
    unneeded_large_bodies_are_not_sent,
);

const USERS: u64 = 30;
const BODY: u64 = 512 << 10;

/// Were whole pages of large bodies asked for, each would be sent many times and thrown away.
async fn unneeded_large_bodies_are_not_sent(mut world: World) {
    let now = kit::clock::format_time(world.clock.now_ms());
    let event = json!([{"name": "e", "first": now, "last": now, "count": 1}]);
    let record =
        |n| json!({"external_id": format!("u{n}"), "random_bucket": 5, "custom_events": event});
    let lines: Vec<String> = (0..USERS).map(|n| record(n).to_string()).collect();
    world.import_well(&lines).await;
    let enlarge = format!("UPDATE activity SET body = decode(repeat('00', {BODY}), 'hex')");
    let enlarge = sqlx::AssertSqlSafe(enlarge);
    on_pool!(world.store(), pool => { sqlx::query(enlarge).execute(pool).await.unwrap(); });
    let cuts = world.cut(&ALL, 1_000).await;

    let mut config = world.test.config.clone();
    let database = world.test.environment()["LONGSHORE_DATABASE_URL"].clone();
    let proxy = Proxy::to(&database).await;
    config.database.url = Some(proxy.instead_of(&database).into());
    world.test.store = longshore::app::connect(&config).await.unwrap();
    let (workspace, youngest) = (world.workspace.id, cuts.youngest);
    let (after, up_to) = (Position::START, cuts.ends[0]);
    let stretch = UserRange { workspace, slices: &ALL, after, up_to, youngest, activity: true };
    let before = proxy.answered();
    let (mut users, mut bytes) = (0, 0);
    let mut tx = world.store().snapshot().await.unwrap();
    let moment = TransactionSnapshot::current(&mut tx).await.unwrap();
    let done = read(&mut tx, &stretch, &moment, |user| {
        users += 1;
        bytes += user.activity.map_or(0, |body| body.len() as u64);
        Ok::<(), Infallible>(())
    });
    assert_eq!(done.await.unwrap(), Ok(()));
    assert_eq!((users, bytes), (USERS, USERS * BODY));
    let sent = proxy.answered() - before;
    assert!(sent < bytes + bytes / 4, "{sent} bytes were sent for {bytes}");
}
