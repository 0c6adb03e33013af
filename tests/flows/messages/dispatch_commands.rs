//! Who got a send, and an apology to them, by commands.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::sending::{Sending, message};
use crate::support::api::answer;
use crate::support::eventually;
use crate::support::fleet::Backend;

async fn objects(sending: &Sending, arguments: &[&str]) -> Vec<Value> {
    let printed = sending.fleet.run(&[arguments, &["--json"]].concat()).await;
    printed.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn names(rows: &[Value]) -> BTreeSet<&str> {
    rows.iter().map(|row| row["external_user_id"].as_str().expect("an id")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apology_is_sent_to_those_who_got_a_message() {
    apologize(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn an_apology_is_sent_by_a_fleet() {
    apologize(Backend::Fleet(2)).await;
}

async fn apologize(backend: Backend) {
    let sending = Sending::start(backend, &[], |_| Vec::new()).await;
    sending.import(&[("ann", None), ("bob", None), ("cid", None)]).await;
    let body = json!({
        "external_user_ids": ["ann", "bob"], "messages": message(&sending.receiver, "wrong"),
    });
    let accepted = sending.api.post("/messages/send", &body).await;
    assert_eq!(accepted.status, 201, "{accepted:?}");
    sending.at_rest(2).await;
    let id = objects(&sending, &["dispatches", "list"]).await[0]["id"].as_str().unwrap().to_owned();
    eventually("the send has ended", || async {
        objects(&sending, &["dispatches", "show", &id]).await[0]["state"] == "done"
    })
    .await;

    let recipients = ["dispatches", "recipients", &id];
    let sent = objects(&sending, &[&recipients[..], &["--outcome", "sent"]].concat()).await;
    assert_eq!(names(&sent), BTreeSet::from(["ann", "bob"]));
    let arrived = ["--outcome", "sent,delivered"];
    let arrived = objects(&sending, &[&recipients[..], &arrived].concat()).await;
    assert_eq!(arrived, sent, "several outcomes are separated by commas");
    let failed = objects(&sending, &[&recipients[..], &["--outcome", "failed"]].concat()).await;
    assert!(failed.is_empty(), "{failed:?}");
    // In pages of one.
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..2 {
        let mut arguments = [&recipients[..], &["--limit", "1", "--json"]].concat();
        arguments.extend(after.iter().flat_map(|after| ["--after", after.as_str()]));
        let output = sending.fleet.command(&arguments).await;
        let row: Value = serde_json::from_slice(&output.stdout).expect("one row");
        found.push(row);
        let hint = String::from_utf8(output.stderr).unwrap();
        let next = hint.split_once("--after ").map(|(_, next)| next.trim().to_owned());
        after = next.or(after);
    }
    assert_eq!(names(&found), BTreeSet::from(["ann", "bob"]));
    assert!(after.is_some_and(|after| found[0]["service_id"] == after.split('/').nth(1).unwrap()));

    let list = ["dispatches", "list", "--since", "1h"];
    assert_eq!(objects(&sending, &list).await.len(), 1);
    assert_eq!(objects(&sending, &[&list[..], &["--until", "30m"]].concat()).await.len(), 0);
    let reversed = sending.fleet.command(&[&list[..], &["--until", "2h"]].concat()).await;
    assert_eq!(reversed.status.code(), Some(2), "{reversed:?}");
    let canvas = [&list[..], &["--campaign", "Onboarding"]].concat();
    assert_eq!(objects(&sending, &canvas).await.len(), 0, "the send has no campaign");

    let why = objects(&sending, &["messages", "cid", "--dispatch", &id, "--why"]).await;
    let reasons: Vec<&Value> = why.iter().map(|reason| &reason["why_not"]).collect();
    assert_eq!(reasons, ["not_listed"]);

    let apology = json!({ "messages": message(&sending.receiver, "sorry") }).to_string();
    let file = sending.fleet.write_file("apology.json", apology.as_bytes());
    let send = ["dispatches", "send", &id, "--request", file.to_str().unwrap()];
    let dry = objects(&sending, &[&send[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry[0]["dry_run"], true);
    let effects = |dry: &[Value]| dry[0]["effects"].as_array().expect("effects").len();
    let effects_before = effects(&dry);
    assert_eq!(objects(&sending, &["dispatches", "list"]).await.len(), 1, "nothing was sent");
    let keyed = [&send[..], &["--idempotency-key", "apology-1"]].concat();
    let first = objects(&sending, &keyed).await;
    sending.at_rest(4).await;
    assert_eq!(objects(&sending, &keyed).await, first);
    let new = first[0]["dispatch_id"].as_str().expect("an id");
    let dry = objects(&sending, &[&keyed[..], &["--dry-run"]].concat()).await;
    assert_eq!(effects(&dry), 1, "a repeat sends nothing: {dry:?}");
    assert!(dry[0]["effects"][0].as_str().expect("a line").contains(new), "{dry:?}");
    // The key is also that of the same request over HTTP.
    let path = format!("/messages/dispatches/{id}/send");
    let request = sending.api.request(Method::POST, &path).header("idempotency-key", "apology-1");
    let request = request.header("content-type", "application/json");
    let repeat = answer(request.body(apology)).await;
    assert_eq!(
        (repeat.status.as_u16(), &repeat.body["dispatch_id"]),
        (201, &first[0]["dispatch_id"])
    );
    assert_eq!(objects(&sending, &["dispatches", "list"]).await.len(), 2, "it was sent once");
    let dry = objects(&sending, &[&send[..], &["--dry-run"]].concat()).await;
    assert_eq!(effects(&dry), effects_before + 1);
    assert!(dry[0]["effects"][0].as_str().expect("a line").contains(new), "{dry:?}");
    let other = json!({ "messages": message(&sending.receiver, "other") }).to_string();
    sending.fleet.write_file("apology.json", other.as_bytes());
    assert_eq!(sending.fleet.command(&keyed).await.status.code(), Some(1), "another request");
    assert_eq!(objects(&sending, &["dispatches", "list"]).await.len(), 2);
    let sorry: BTreeSet<String> = sending
        .sent()
        .into_iter()
        .filter(|sent| sent.text == "sorry")
        .map(|sent| sent.user)
        .collect();
    assert_eq!(sorry, BTreeSet::from(["ann".to_owned(), "bob".to_owned()]));

    sending.fleet.write_file("apology.json", br#"{"outcomes": ["lost"]}"#);
    assert_eq!(sending.fleet.command(&send).await.status.code(), Some(1));
    let unknown = ["dispatches", "recipients", "0197b6a83c557e119a1f3f0f3c2d6e54"];
    assert_eq!(sending.fleet.command(&unknown).await.status.code(), Some(1));
    sending.fleet.close().await;
}
