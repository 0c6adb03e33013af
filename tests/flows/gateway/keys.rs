//! Keys over several gateways: revoked, rotated, guessed, and known without the database.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::future::join_all;
use jiff::Timestamp;
use longshore::workspaces::keys::{self, NewKey};
use secrecy::ExposeSecret as _;
use store::Store;

use super::*;
use crate::support::fleet::{Backend, Fleet};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::{Api, WorkspaceFile, servers};

/// Requests at the same time, more than the keys that are looked up at the same time.
const BURST: usize = 250;

async fn status(gateway: &Gateway, key: &str) -> u16 {
    let call = gateway.call(Method::POST, "/things").bearer_auth(key);
    call.json(&json!({ "name": "n" })).send().await.unwrap().status().as_u16()
}

impl World {
    async fn make_key(&self, name: &str) -> String {
        let permissions = ["users.track".to_owned()];
        let key = NewKey {
            workspace: self.installation.workspace,
            name,
            permissions: &permissions,
            allow: &[],
            declared: false,
        };
        let mut tx = self.installation.app.store.write().await.unwrap();
        let created = keys::create(&mut tx, &self.installation.app.clock, key).await.unwrap();
        tx.commit().await.unwrap();
        created.secret.expose_secret().to_owned()
    }

    async fn revoke_key(&self, name: &str) {
        let app = &self.installation.app;
        let mut tx = app.store.write().await.unwrap();
        let workspace = self.installation.workspace;
        keys::revoke(&mut tx, &app.clock, workspace, name, "command:ana").await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// Calls continue without a break while one key follows another, and the former ends everywhere.
async fn a_key_is_rotated_without_a_break(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let other = world.another(|_| {}).await;
    let old = world.make_key("integrator-1").await;
    for gateway in [&world.gateway, &other] {
        assert_eq!(status(gateway, &old).await, 201);
    }
    let new = world.make_key("integrator-2").await;
    for gateway in [&world.gateway, &other] {
        assert_eq!((status(gateway, &old).await, status(gateway, &new).await), (201, 201));
    }
    world.revoke_key("integrator-1").await;
    for gateway in [&world.gateway, &other] {
        eventually("the revoked key has ended", async || {
            assert_eq!(status(gateway, &new).await, 201);
            status(gateway, &old).await == 401
        })
        .await;
    }
    other.close().await;
    world.close().await;
}

/// A gateway whose way to the database is a proxy.
async fn through_proxy(world: &World) -> (Gateway, Proxy) {
    let url = world.installation.app.config.database.url.clone().unwrap();
    let proxy = Proxy::to(url.expose_secret()).await;
    let led = proxy.instead_of(url.expose_secret());
    let gateway = world.another(|config| {
        config.database.url = Some(led.into());
        config.database.max_connections = 40;
    });
    (gateway.await, proxy)
}

async fn known_keys_go_on_without_the_database(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let (gateway, proxy) = through_proxy(&world).await;
    let mortal = world.make_key("mortal").await;
    for key in [KEY, &mortal] {
        assert_eq!(status(&gateway, key).await, 201);
    }
    for way in [ProxyMode::Stuck, ProxyMode::Refused] {
        proxy.set(way);
        // Longer than a key is believed while the database answers.
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_secs(6) {
            assert_eq!(status(&gateway, KEY).await, 201, "{way:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(status(&gateway, "nobody's").await, 503, "{way:?}: who knows");
    }
    world.revoke_key("mortal").await;
    proxy.set(ProxyMode::Open);
    eventually("the revoked key has ended", async || status(&gateway, &mortal).await == 401).await;
    assert_eq!(status(&gateway, KEY).await, 201);
    eventually("others are looked up", async || status(&gateway, "nobody's").await == 401).await;
    gateway.close().await;
    world.close().await;
}

async fn floods_of_unknown_keys_do_not_affect_known_ones(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let (gateway, proxy) = through_proxy(&world).await;
    let mut uncached = Vec::new();
    for number in 0..10 {
        uncached.push(world.make_key(&format!("integrator-{number}")).await);
    }
    assert_eq!(status(&gateway, KEY).await, 201);
    // The gateway reads the list of keys, which then has the new ones.
    assert_eq!(status(&gateway, "guess").await, 401);
    proxy.set(ProxyMode::Slow(Duration::from_millis(20)));
    let guesses: Vec<String> = (0..3_000).map(|number| format!("guess-{number}")).collect();
    let flood = futures::stream::iter(&guesses)
        .map(|guess| status(&gateway, guess))
        .buffer_unordered(300)
        .collect::<BTreeSet<u16>>();
    let calls = async {
        // Known ones, and ones that this gateway was never shown.
        for key in &uncached {
            assert_eq!(status(&gateway, KEY).await, 201);
            assert_eq!(status(&gateway, key).await, 201);
        }
    };
    let (answers, ()) = tokio::join!(flood, calls);
    assert_eq!(answers, [401, 503].into(), "some are looked up, the others turned away");
    // Four for the flood, and as many that go back to the pool; the known key has its look-up,
    // its last use and its limit.
    assert!(connections(&gateway) <= 16, "{} connections", connections(&gateway));
    proxy.set(ProxyMode::Open);
    let new = world.make_key("new").await;
    assert_eq!(status(&gateway, &new).await, 201);
    gateway.close().await;
    world.close().await;
}

/// Connections to PostgreSQL that a gateway has opened.
fn connections(gateway: &Gateway) -> u32 {
    let Store::Postgres { pool, .. } = &gateway.app.store else { panic!("PostgreSQL") };
    pool.size()
}

async fn a_burst_with_a_new_key_shares_its_lookups(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let (gateway, proxy) = through_proxy(&world).await;
    assert_eq!(status(&gateway, KEY).await, 201);
    let new = world.make_key("new").await;
    proxy.set(ProxyMode::Slow(Duration::from_millis(50)));
    let answers = join_all((0..BURST).map(|_| status(&gateway, &new))).await;
    assert!(answers.iter().all(|status| *status == 201), "{answers:?}");
    assert!(connections(&gateway) <= 16, "{} connections", connections(&gateway));
    proxy.set(ProxyMode::Open);
    gateway.close().await;
    world.close().await;
}

async fn a_burst_of_refused_requests_shares_its_lookups(store: TestStore) {
    let world = World::open(store, |_| {}).await;
    let (gateway, proxy) = through_proxy(&world).await;
    proxy.set(ProxyMode::Slow(Duration::from_millis(20)));
    let answers = join_all((0..100).map(|_| status(&gateway, REMOTE_KEY))).await;
    assert!(answers.iter().all(|status| [403, 429].contains(status)), "{answers:?}");
    assert!(connections(&gateway) <= 16, "{} connections", connections(&gateway));
    proxy.set(ProxyMode::Open);
    gateway.close().await;
    world.close().await;
}

/// With the program.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_requests_with_a_new_key_are_all_served() {
    let database = Proxy::to(&servers::variable("LONGSHORE_TEST_POSTGRES")).await;
    let fleet = Fleet::start_with(Backend::Fleet(0), &[], |environment| {
        let url = environment.get_mut("LONGSHORE_DATABASE_URL").expect("a database");
        *url = database.instead_of(url);
    })
    .await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let create = ["key", "create", "--name", "new", "--permission", "users.track"];
    let new = Api::new(fleet.base(), fleet.run(&create).await.trim());
    let time = Timestamp::now().to_string();
    let event = json!({ "external_id": "ann", "name": "seen", "time": time });
    let body = json!({ "events": [event] });
    database.set(ProxyMode::Slow(Duration::from_millis(50)));
    let answers = join_all((0..BURST).map(|_| new.post("/users/track", &body))).await;
    for answer in &answers {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    database.set(ProxyMode::Open);
    fleet.close().await;
}

on_sqlite!(a_key_is_rotated_without_a_break,);
on_postgres!(
    a_key_is_rotated_without_a_break,
    known_keys_go_on_without_the_database,
    a_burst_with_a_new_key_shares_its_lookups,
    a_burst_of_refused_requests_shares_its_lookups,
    floods_of_unknown_keys_do_not_affect_known_ones,
);
