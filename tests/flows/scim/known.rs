//! Tokens as a gateway knows them: guessed, and known without the database.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use longshore::config::Config;
use secrecy::ExposeSecret as _;
use store::Store;

use super::*;
use crate::support::proxy::{Proxy, ProxyMode};

on_postgres!(World =>
    known_tokens_are_accepted_without_the_database,
    floods_of_unknown_tokens_do_not_affect_known_ones,
);

/// What a call needs no row for.
const CONFIG: &str = "/scim/v2/ServiceProviderConfig";

/// A gateway whose way to the database is a proxy.
async fn through_proxy(world: &World) -> (Gateway, Proxy) {
    let mut config = Config::clone(&world.app.config);
    let url = config.database.url.clone().unwrap();
    let proxy = Proxy::to(url.expose_secret()).await;
    config.database.url = Some(proxy.instead_of(url.expose_secret()).into());
    config.database.max_connections = 40;
    (Gateway::start(App::open(config).await.unwrap()).await, proxy)
}

async fn status(gateway: &Gateway, token: &str, path: &str) -> u16 {
    answer(gateway.request_with(token, Method::GET, path)).await.status.as_u16()
}

async fn known_tokens_are_accepted_without_the_database(world: World) {
    let (gateway, proxy) = through_proxy(&world).await;
    let mortal = world.make_token("mortal", &[]).await.unwrap();
    for token in [TOKEN, &mortal] {
        assert_eq!(status(&gateway, token, USERS).await, 200);
    }
    for way in [ProxyMode::Stuck, ProxyMode::Refused] {
        proxy.set(way);
        // Longer than a token is believed while the database answers.
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(6) {
            assert_eq!(status(&gateway, TOKEN, CONFIG).await, 200, "{way:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(status(&gateway, "nobody's", CONFIG).await, 503, "{way:?}: who knows");
        let away = gateway.get(USERS).await;
        refused(&away, 503, None);
        assert!(away.headers.contains_key("x-ratelimit-limit"), "its token is known: {away:?}");
    }
    world.revoke_token("mortal").await;
    proxy.set(ProxyMode::Open);
    eventually("the revoked token has ended", async || {
        status(&gateway, &mortal, CONFIG).await == 401
    })
    .await;
    eventually("users are read again", async || status(&gateway, TOKEN, USERS).await == 200).await;
    eventually("others are looked up", async || status(&gateway, "nobody's", CONFIG).await == 401)
        .await;
}

async fn floods_of_unknown_tokens_do_not_affect_known_ones(world: World) {
    let (gateway, proxy) = through_proxy(&world).await;
    assert_eq!(status(&gateway, TOKEN, USERS).await, 200);
    proxy.set(ProxyMode::Slow(Duration::from_millis(20)));
    let guesses: Vec<String> = (0..600).map(|number| format!("guess-{number}")).collect();
    let flood = futures::stream::iter(&guesses)
        .map(|guess| status(&gateway, guess, USERS))
        .buffer_unordered(300)
        .collect::<BTreeSet<u16>>();
    let calls = async {
        for _ in 0..20 {
            assert_eq!(status(&gateway, TOKEN, USERS).await, 200);
        }
    };
    let (answers, ()) = tokio::join!(flood, calls);
    assert_eq!(answers, [401, 503].into(), "some are looked up, the others turned away");
    let Store::Postgres { pool, .. } = &gateway.app.store else { panic!("PostgreSQL") };
    // Four for the flood, and as many that go back to the pool; the known token has its look-up,
    // its last use, its limit and its users.
    assert!(pool.size() <= 16, "{} connections", pool.size());
    proxy.set(ProxyMode::Open);
    let new = world.make_token("new", &[]).await.unwrap();
    assert_eq!(status(&gateway, &new, USERS).await, 200);
}
