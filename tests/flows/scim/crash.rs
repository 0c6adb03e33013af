//! A gateway that ends in the middle of a call with a key, before what it did is durable.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::{USER, USERS};
use crate::support::Api;
use crate::support::api::answer;
use crate::support::fleet::{Backend, Fleet};

async fn killed_before_the_commit(backend: Backend, gateway: &str) {
    let mut fleet = Fleet::prepare(backend, &[], |_| {}).await;
    let token = fleet.run(&["scim-token", "create", "--name", "idp"]).await;
    let api = Api::new(fleet.base(), token.trim());
    let call = |method: Method| -> RequestBuilder {
        api.request(method, USERS).header("x-request-origin", "idp")
    };
    let make = || {
        let body = json!({ "schemas": [USER], "userName": "ann@acme.example" });
        call(Method::POST).header("idempotency-key", "k").json(&body)
    };
    fleet.launch_all(Some((gateway, "idempotency::changed=kill"))).await;
    assert!(make().send().await.is_err(), "an answer");
    for _ in 0..3_000 {
        if !fleet.is_running(gateway) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!fleet.is_running(gateway), "the point was never reached");
    fleet.launch(gateway).await;
    assert_eq!(answer(call(Method::GET)).await.body["totalResults"], 0, "nothing happened");
    let made = answer(make()).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(answer(make()).await.body, made.body);
    assert_eq!(answer(call(Method::GET)).await.body["totalResults"], 1);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_commit_standalone() {
    killed_before_the_commit(Backend::Embedded, "standalone").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn killed_before_the_commit_in_a_fleet() {
    killed_before_the_commit(Backend::Fleet(0), "gateway").await;
}
