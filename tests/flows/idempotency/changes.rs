//! Calls whose work is rows: claim, change and answer are one transaction.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use futures::future::join_all;
use longshore::app::App;
use longshore::gateway::idempotency::{self, Begun, IdempotencyKey, StoredResponse};
use longshore::gateway::{ApiError, COMPANY};
use longshore::scim;
use longshore::scim::resource::User;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::{World, key};
use crate::lost_commit::losing_the_commit_of;
use crate::support::stores::{TestStore, on_both_stores, on_pool};

on_both_stores!(
    World =>
    a_change_is_made_once_under_a_key,
    failed_requests_store_nothing,
    of_many_at_once_one_makes_the_change,
    a_key_holds_for_a_day,
);

fn user(name: &str) -> User {
    User { user_name: name.into(), active: Some(true), ..User::default() }
}

/// Makes a user and answers its id, which is another one each time; then fails if it shall.
async fn make(
    app: &App,
    key: Option<IdempotencyKey>,
    body: &str,
    fails: bool,
) -> Result<StoredResponse, ApiError> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let user = user(&format!("u{}", MADE.fetch_add(1, Ordering::SeqCst)));
    let mut turn = match idempotency::begin_change(app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let stored = scim::insert(&mut turn.tx, &user, false, 0).await?;
    // Others come meanwhile.
    tokio::time::sleep(Duration::from_millis(20)).await;
    if fails {
        return Err(ApiError::Conflict("as the test wants".into()));
    }
    turn.commit(StoredResponse::json(StatusCode::CREATED, &json!({ "id": stored.id }))?).await
}

async fn count(world: &World, sql: &'static str) -> i64 {
    on_pool!(&world.app().store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap()
}

async fn users(world: &World) -> i64 {
    count(world, "SELECT count(*) FROM dashboard_users").await
}

async fn a_change_is_made_once_under_a_key(world: World) {
    let (app, other) = (world.app(), world.another().await);
    let first = make(app, Some(key("k")), "a", false).await.unwrap();
    assert_eq!(make(&other, Some(key("k")), "a", false).await.unwrap(), first);
    assert_eq!(users(&world).await, 1);
    let another = make(app, Some(key("k")), "b", false).await;
    assert!(matches!(another, Err(ApiError::Unprocessable(_))), "{another:?}");
    let company = IdempotencyKey { workspace: COMPANY, ..key("k") };
    let within = key("k").within("a thing");
    for other in [None, None, Some(company), Some(within)] {
        assert_ne!(make(app, other, "a", false).await.unwrap(), first);
    }
    assert_eq!((users(&world).await, world.claims().await), (5, 3));
}

async fn failed_requests_store_nothing(world: World) {
    for _ in 0..2 {
        let failed = make(world.app(), Some(key("k")), "a", true).await;
        assert!(matches!(failed, Err(ApiError::Conflict(_))), "{failed:?}");
        assert_eq!((users(&world).await, world.claims().await), (0, 0));
    }
    // So the key is free for another body.
    assert_eq!(make(world.app(), Some(key("k")), "b", false).await.unwrap().status, 201);
    assert_eq!((users(&world).await, world.claims().await), (1, 1));
}

async fn of_many_at_once_one_makes_the_change(world: World) {
    let other = world.another().await;
    // Some fail: then it is the turn of another one.
    let calls = (0..12).map(|n| {
        make(if n % 2 == 0 { world.app() } else { &other }, Some(key("k")), "a", n % 3 == 0)
    });
    let answers = join_all(calls).await;
    let good: Vec<&StoredResponse> = answers.iter().flatten().collect();
    assert!(good.len() >= 8 && good.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!((users(&world).await, world.claims().await), (1, 1));
}

async fn a_key_holds_for_a_day(world: World) {
    let first = make(world.app(), Some(key("k")), "a", false).await.unwrap();
    world.execute("UPDATE idempotency_claims SET claimed_at = claimed_at - 82800000").await;
    assert_eq!(make(world.app(), Some(key("k")), "a", false).await.unwrap(), first);
    world.execute("UPDATE idempotency_claims SET claimed_at = claimed_at - 3600000").await;
    assert_ne!(make(world.app(), Some(key("k")), "b", false).await.unwrap(), first);
    assert_eq!((users(&world).await, world.claims().await), (2, 1));
}

/// Whether it was committed is not known to who did it; the repeat gets the response.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_response_is_lost_is_found() {
    let world = World::new(TestStore::postgres().await).await;
    let mut config = (*world.app().config).clone();
    let address = config.database.url.clone().unwrap();
    let (address, lost) = losing_the_commit_of("idempotency_claims", address.expose_secret()).await;
    config.database.url = Some(address.into());
    let far = App::open(config).await.unwrap();
    let unknown = make(&far, Some(key("k")), "a", false).await;
    assert!(matches!(unknown, Err(ApiError::Unavailable(_))), "{unknown:?}");
    assert!(lost.load(Ordering::SeqCst), "the commit was answered");
    let again = make(world.app(), Some(key("k")), "a", false).await.unwrap();
    assert_eq!(again.status, 201);
    assert_eq!((users(&world).await, world.claims().await), (1, 1));
}
