//! Who got a send, and an apology to them, by commands.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::sending::{Sending, message};
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

    let why = objects(&sending, &["messages", "cid", "--dispatch", &id, "--why"]).await;
    let reasons: Vec<&Value> = why.iter().map(|reason| &reason["why_not"]).collect();
    assert_eq!(reasons, ["not_listed"]);

    let apology = json!({ "messages": message(&sending.receiver, "sorry") }).to_string();
    let file = sending.fleet.write_file("apology.json", apology.as_bytes());
    let send = ["dispatches", "send", &id, "--request", file.to_str().unwrap()];
    let dry = objects(&sending, &[&send[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry[0]["dry_run"], true);
    assert_eq!(objects(&sending, &["dispatches", "list"]).await.len(), 1, "nothing was sent");
    objects(&sending, &send).await;
    sending.at_rest(4).await;
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
