//! Where a conversion window is declared, purchases count only within one.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::sending::{CANVAS, CREATE, Sending, campaign, from_now, message};
use crate::support::fleet::Backend;

impl Sending {
    /// A purchase so many minutes ago.
    async fn bought(&self, user: &str, price: u32, minutes_ago: i64) {
        let time = Timestamp::now() - SignedDuration::from_mins(minutes_ago);
        let purchase = json!({
            "external_id": user, "product_id": "tea", "currency": "USD", "price": price,
            "time": time.to_string(),
        });
        let answer = self.api.post("/users/track", &json!({ "purchases": [purchase] })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        self.fleet.applied().await;
    }

    async fn revenue(&self, user: &str) -> Value {
        let shown = self.fleet.run(&["users", "show", user, "--json"]).await;
        serde_json::from_str::<Value>(&shown).expect("JSON")["total_revenue"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn purchases_count_within_the_window_of_a_message_standalone() {
    count_within_the_window(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn purchases_count_within_the_window_of_a_message_in_a_fleet() {
    count_within_the_window(Backend::Fleet(1)).await;
}

async fn count_within_the_window(backend: Backend) {
    let sending = Sending::start(backend, &[], |receiver| {
        let messages = message(receiver, "hello");
        vec![(
            "canvases",
            json!([{ "id": CANVAS, "name": "Tea", "messages": messages,
                     "conversion_window": "60m" }]),
        )]
    })
    .await;
    sending.import(&[("ann", None), ("bob", None)]).await;
    sending.bought("ann", 1, 0).await;
    assert_eq!(sending.revenue("ann").await, Value::Null, "before any message");
    let answer = sending
        .api
        .post(
            CREATE,
            &json!({
                "canvas_id": CANVAS, "recipients": [{ "external_user_id": "ann" }],
                "schedule": { "time": from_now(600_000).to_string() },
            }),
        )
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    sending.pass(600_000).await;
    sending.at_rest(1).await;

    sending.bought("ann", 2, 0).await;
    sending.bought("ann", 4, 5).await;
    sending.bought("bob", 8, 0).await;
    assert_eq!(sending.revenue("ann").await, json!(2), "of what came after the message");
    assert_eq!(sending.revenue("bob").await, Value::Null);
    // As if it had been sent two hours ago.
    let earlier = 2 * 60 * 60_000;
    sending.execute(&format!("UPDATE messages SET sent_at = sent_at - {earlier}")).await;
    sending.bought("ann", 16, 0).await;
    sending.bought("ann", 32, 90).await;
    sending.bought("ann", 64, 121).await;
    assert_eq!(sending.revenue("ann").await, json!(34));
    // All that was bought is there, whatever it counts for.
    let shown = sending.fleet.run(&["users", "show", "ann", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["purchases"][0]["count"], 6, "{shown}");
    sending.fleet.close().await;
}

async fn messages_to_merged_users_begin_windows(backend: Backend) {
    let sending = Sending::start(backend, &[], |receiver| {
        let mut campaigns = campaign(&message(receiver, "hello"));
        campaigns[0]["conversion_window"] = "60m".into();
        vec![("campaigns", campaigns)]
    })
    .await;
    sending.import(&[("ann", None), ("bob", None)]).await;
    sending.trigger(&json!([{ "external_user_id": "bob" }])).await;
    sending.at_rest(1).await;
    sending.bought("ann", 1, 0).await;
    sending.merge("bob", "ann").await;
    sending.bought("ann", 2, 0).await;
    assert_eq!(sending.revenue("ann").await, json!(2));
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_merged_users_begin_windows_standalone() {
    messages_to_merged_users_begin_windows(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_merged_users_begin_windows_in_a_fleet() {
    messages_to_merged_users_begin_windows(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_window_every_purchase_counts() {
    let sending = Sending::start(Backend::Embedded, &[], |_| Vec::new()).await;
    sending.bought("ann", 1, 0).await;
    sending.bought("ann", 2, 1_000).await;
    assert_eq!(sending.revenue("ann").await, json!(3));
    sending.fleet.close().await;
}
