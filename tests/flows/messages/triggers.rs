//! Purchases start campaigns, each purchase once.

use serde_json::{Value, json};

use super::sending::{CAMPAIGN, Sending, from_now, message, slow};
use crate::support::eventually;
use crate::support::fleet::Backend;

const PAUSED: &str = "bbbb0000-0000-4000-8000-000000000003";
const FOR_GOLD: &str = "bbbb0000-0000-4000-8000-000000000004";

fn triggered(id: &str, messages: Value, properties: Value) -> Value {
    json!({
        "id": id, "name": id, "type": "triggered", "messages": messages,
        "trigger": { "purchase": { "product_id": "tea", "properties": properties } },
    })
}

fn purchase(user: &str, product: &str, properties: Value) -> Value {
    json!({
        "external_id": user, "product_id": product, "currency": "USD", "price": 1.5,
        "time": days_ago(2), "properties": properties,
    })
}

fn days_ago(days: i64) -> String {
    from_now(-days * 24 * 60 * 60_000).to_string()
}

impl Sending {
    async fn buy(&self, purchases: &[Value]) {
        let answer = self.api.post("/users/track", &json!({ "purchases": purchases })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(answer.body["errors"].is_null(), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_that_matches_starts_a_campaign_standalone() {
    starts_a_campaign(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_matching_purchase_starts_a_campaign_in_a_fleet() {
    starts_a_campaign(Backend::Fleet(2)).await;
}

async fn starts_a_campaign(backend: Backend) {
    let sending = Sending::start(backend, &[], |receiver| {
        let text =
            |name: &str| message(receiver, &format!("{name} {{{{event_properties.${{n}}}}}}"));
        let mut paused = triggered(PAUSED, text("paused"), json!({}));
        paused["paused"] = true.into();
        let mut for_gold = triggered(FOR_GOLD, text("gold"), json!({}));
        for_gold["audience"] = json!({ "custom_attribute": {
            "custom_attribute_name": "tier", "comparison": "equals", "value": "gold",
        } });
        let all = triggered(CAMPAIGN, text("tea"), json!({ "size": "L", "count": 2 }));
        vec![("campaigns", json!([all, paused, for_gold]))]
    })
    .await;
    let large = |n: &str| json!({ "size": "L", "count": 2.0, "n": n });
    // Bob is new, and gold from now on.
    let attributes = json!({ "attributes": [{ "external_id": "bob", "tier": "gold" }] });
    assert_eq!(sending.api.post("/users/track", &attributes).await.status, 201);
    sending
        .buy(&[
            purchase("ann", "tea", large("1")),
            purchase("ann", "tea", large("2")),
            purchase("ann", "coffee", large("3")),
            purchase("ann", "tea", json!({ "size": "S", "count": 2 })),
            purchase("ann", "tea", json!({ "size": "L", "count": "2" })),
            purchase("bob", "tea", json!({ "n": "4" })),
        ])
        .await;
    let mut bought_twice = purchase("bob", "tea", large("5"));
    bought_twice["quantity"] = 3.into();
    sending.buy(&[bought_twice]).await;
    // It creates no user, and starts nothing for unknown users.
    let mut nobody = purchase("nobody", "tea", large("6"));
    nobody["_update_existing_only"] = true.into();
    sending.buy(&[nobody]).await;
    sending.at_rest(5).await;
    sending.fleet.applied().await;
    sending.all_ended().await;
    let expected = [
        ("ann", "tea 1"),
        ("ann", "tea 2"),
        ("bob", "gold 4"),
        ("bob", "gold 5"),
        ("bob", "tea 5"),
    ];
    let expected = expected.map(|(user, text)| (user.to_owned(), text.to_owned()));
    assert_eq!(sending.texts(), expected);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_conditions_are_compared_to_the_last_digit_standalone() {
    numbers_of_conditions_are_compared_to_the_last_digit(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_conditions_are_compared_to_the_last_digit_in_a_fleet() {
    numbers_of_conditions_are_compared_to_the_last_digit(Backend::Fleet(1)).await;
}

/// Two numbers that one double stands for: the campaigns are for the first of them.
const WHOLE: [&str; 2] = ["18446744073709551617", "18446744073709551616"];
const DECIMAL: [&str; 2] = ["123456789012345678.123456789", "123456789012345678.12345679"];

async fn numbers_of_conditions_are_compared_to_the_last_digit(backend: Backend) {
    let sending = Sending::start(backend, &[], |_| Vec::new()).await;
    let text = |text: &str| message(&sending.receiver, text);
    let by_trigger =
        triggered(CAMPAIGN, text("{{event_properties.${n}}}"), json!({ "n": "WHOLE" }));
    let mut by_audience = triggered(FOR_GOLD, text("gold"), json!({}));
    by_audience["audience"] = json!({ "custom_attribute": {
        "custom_attribute_name": "n", "comparison": "equals", "value": "DECIMAL",
    } });
    let file = sending.workspace.clone().with("campaigns", json!([by_trigger, by_audience]));
    // The digits of a JSON number in a test are those of a double.
    let document = file.document().replace("\"WHOLE\"", WHOLE[0]);
    let document = document.replace("\"DECIMAL\"", DECIMAL[0]);
    let file = sending.fleet.directory().join("exact.yaml");
    std::fs::write(&file, document).expect("a file");
    let path = file.to_str().expect("a path of ASCII");
    sending.fleet.run(&["apply", path]).await;
    let changes = sending.fleet.run(&["apply", "--dry-run", "--json", path]).await;
    let changes: Value = serde_json::from_str(&changes).expect("JSON");
    assert!(!changes.to_string().contains(CAMPAIGN), "{changes}");
    for (campaign, digits) in [(CAMPAIGN, WHOLE[0]), (FOR_GOLD, DECIMAL[0])] {
        for more in [&["--json"][..], &[]] {
            let arguments = [&["campaigns", "show", campaign][..], more].concat();
            let shown = sending.fleet.run(&arguments).await;
            assert!(shown.contains(digits), "{shown}");
        }
    }
    let users = ["ann", "bob"];
    let user = |n: usize| {
        let (user, number) = (users[n], DECIMAL[n]);
        format!(r#"{{"external_id":"{user}","custom_attributes":{{"n":{number}}}}}"#)
    };
    sending.fleet.import("acme", &[user(0), user(1)]).await;
    let purchases = [0, 1].map(|n| {
        purchase(users[n], "tea", json!({ "n": "WHOLE" }))
            .to_string()
            .replace("\"WHOLE\"", WHOLE[n])
    });
    let body = format!(r#"{{"purchases":[{}]}}"#, purchases.join(","));
    let answer = sending.api.post_text("/users/track", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    sending.at_rest(2).await;
    sending.fleet.applied().await;
    sending.all_ended().await;
    let expected = [("ann", WHOLE[0]), ("ann", "gold")];
    assert_eq!(sending.texts(), expected.map(|(user, text)| (user.to_owned(), text.to_owned())));
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_purchases_start_only_campaigns_that_allow_them() {
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let text =
            |name: &str| message(receiver, &format!("{name} {{{{event_properties.${{n}}}}}}"));
        let usual = triggered(CAMPAIGN, text("usual"), json!({}));
        let mut patient = triggered(FOR_GOLD, text("patient"), json!({}));
        patient["trigger"]["max_age"] = "60d".into();
        vec![("campaigns", json!([usual, patient]))]
    })
    .await;
    let at = |n: &str, days: i64| {
        let mut purchase = purchase("ann", "tea", json!({ "n": n }));
        purchase["time"] = days_ago(days).into();
        purchase
    };
    sending.buy(&[at("1", 40), at("2", 4), at("3", 2), at("4", 61), at("5", -1)]).await;
    sending.at_rest(6).await;
    sending.fleet.applied().await;
    sending.all_ended().await;
    let expected = ["patient 1", "patient 2", "patient 3", "patient 5", "usual 3", "usual 5"];
    let texts: Vec<String> = sending.texts().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, expected);
    // They count all the same.
    let bought = sending.fleet.run(&["users", "show", "ann"]).await;
    assert!(bought.contains("tea"), "{bought}");
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_a_user_who_is_merged_meanwhile_goes_to_the_kept_user() {
    let mut sending = Sending::start(Backend::Fleet(0), &[], |receiver| {
        let messages = message(receiver, "{{event_properties.${n}}}");
        vec![("campaigns", json!([triggered(CAMPAIGN, messages, json!({}))]))]
    })
    .await;
    sending.import(&[("ann", None), ("bob", None)]).await;
    sending.buy(&[purchase("ann", "tea", json!({ "n": "1" }))]).await;
    let merge = json!({ "merge_updates": [{
        "identifier_to_merge": { "external_id": "ann" },
        "identifier_to_keep": { "external_id": "bob" },
    }] });
    assert_eq!(sending.api.post("/users/merge", &merge).await.status, 202);
    // Both are applied before anybody looks for the user to send to.
    sending.fleet.launch_roles("worker-1", "ingest").await;
    sending.wait_for_count("SELECT count(*) FROM merged_users", |users| users == 1).await;
    sending.fleet.launch_roles("worker-2", "messages").await;
    sending.at_rest(1).await;
    assert_eq!(sending.texts(), [("bob".to_owned(), "1".to_owned())]);
    let unknown = "SELECT count(*) FROM dispatch_parts WHERE unknown > 0";
    assert_eq!(sending.count(unknown).await, 0);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_purchase_triggers_once_despite_crashes() {
    let lease = [("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned())];
    let mut sending = Sending::start(Backend::Fleet(2), &lease, |receiver| {
        let messages = message(receiver, "{{event_properties.${n}}}");
        vec![("campaigns", json!([triggered(CAMPAIGN, messages, json!({}))]))]
    })
    .await;
    sending.receiver.script(slow(20));
    let mut expected = Vec::new();
    for round in 0..12 {
        let purchases: Vec<Value> = (0..10)
            .map(|user| {
                let (user, n) = (format!("user-{user}"), format!("{round}"));
                expected.push((user.clone(), n.clone()));
                purchase(&user, "tea", json!({ "n": n }))
            })
            .collect();
        sending.buy(&purchases).await;
        if round % 3 == 1 {
            let worker = if round % 2 == 0 { "worker-1" } else { "worker-2" };
            eventually("some are sent", || async { sending.receiver.received().len() > round })
                .await;
            sending.fleet.kill(worker);
            sending.fleet.launch_with(worker, &[]).await;
        }
    }
    for worker in ["worker-1", "worker-2"] {
        sending.fleet.ready(worker).await;
    }
    sending.at_rest(expected.len()).await;
    expected.sort();
    assert_eq!(sending.texts(), expected);
    sending.fleet.close().await;
}
