//! Dispatches over HTTP: found again, shown with their recipients, cancelled, and followed by a
//! send to their recipients.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use super::sending::{CAMPAIGN, Sending, message, slow};
use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::Backend;
use crate::support::receiver::ScriptedResponse;
use crate::support::{WorkspaceFile, eventually};

const SEGMENT: &str = "bbbb0000-0000-4000-8000-000000000003";
const DISPATCHES: &str = "/messages/dispatches";

/// The permissions of these requests.
pub const PERMISSIONS: [&str; 6] = [
    "messages.dispatches.list",
    "messages.dispatches.get",
    "messages.dispatches.recipients",
    "messages.dispatches.cancel",
    "messages.dispatches.send",
    "campaigns.statistics",
];

/// An installation with `users` users, all of them in the segment, and a campaign.
async fn start(backend: Backend, settings: &[(&str, String)], users: usize) -> Sending {
    let sending = Sending::start(backend, settings, |_| {
        let everybody = json!({ "email_subscription_status": {
            "comparison": "is_not", "value": "opted_in",
        } });
        vec![
            ("segments", json!([{ "id": SEGMENT, "name": "All", "audience": everybody }])),
            ("campaigns", json!([{ "id": CAMPAIGN, "name": "News", "type": "api" }])),
        ]
    })
    .await;
    let ids: Vec<String> = (0..users).map(|number| format!("u{number:04}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    sending
}

impl Sending {
    /// Sends a text; returns the dispatch's id.
    async fn send(&self, text: &str, members: Value) -> String {
        let mut body = json!({ "messages": message(&self.receiver, text) });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let sent = self.api.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
    }

    async fn dispatch(&self, id: &str) -> ApiResponse {
        self.api.get(&format!("{DISPATCHES}/{id}")).await
    }

    /// Waits until a dispatch is in a state; returns it.
    async fn when(&self, id: &str, state: &str) -> Value {
        eventually(&format!("{id} is {state}"), || async {
            self.dispatch(id).await.body["state"] == state
        })
        .await;
        self.dispatch(id).await.body
    }

    /// Sends a text to recipients of a dispatch.
    async fn follow_up(&self, id: &str, text: &str, members: Value, key: &str) -> ApiResponse {
        let mut body = json!({ "messages": message(&self.receiver, text) });
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let request = self.api.request(Method::POST, &format!("{DISPATCHES}/{id}/send"));
        answer(request.header("idempotency-key", key).json(&body)).await
    }

    /// The ids of the messages with a text, by user.
    fn by_user(&self, text: &str) -> BTreeMap<String, BTreeSet<String>> {
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for sent in self.sent().into_iter().filter(|sent| sent.text == text) {
            ids.entry(sent.user).or_default().insert(sent.id);
        }
        ids
    }

    /// All recipients with an outcome, in pages of `limit`; `between` runs after each page.
    async fn recipients(&self, id: &str, query: &str, between: impl AsyncFn()) -> Vec<Value> {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("{DISPATCHES}/{id}/recipients?{query}{cursor}");
            let page = self.api.get(&path).await;
            assert_eq!(page.status, 200, "{page:?}");
            found.extend(page.body["recipients"].as_array().expect("an array").iter().cloned());
            let Some(next) = page.body["next_cursor"].as_str() else { return found };
            cursor = format!("&cursor={next}");
            between().await;
        }
    }
}

fn users(recipients: &[Value]) -> Vec<&str> {
    let mut users: Vec<&str> = recipients
        .iter()
        .map(|recipient| recipient["external_user_id"].as_str().expect("an id"))
        .collect();
    users.sort_unstable();
    users
}

// Reading ------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_recognized_and_shown_to_its_recipients_standalone() {
    is_shown(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_recognized_and_shown_to_its_recipients_in_a_fleet() {
    is_shown(Backend::Fleet(1)).await;
}

async fn is_shown(backend: Backend) {
    let sending = start(backend, &[], 10).await;
    let before = jiff::Timestamp::now();
    let to_segment = json!({ "broadcast": true, "segment_id": SEGMENT, "send_id": "spring",
                             "campaign_id": CAMPAIGN });
    sending.receiver.script((0..3).map(|_| ScriptedResponse::Status(400)));
    let wrong = sending.send("wrong", to_segment).await;
    sending.when(&wrong, "done").await;
    let listed = json!({ "external_user_ids": ["u0001", "nobody"] });
    let other = sending.send("other", listed).await;
    sending.when(&other, "done").await;

    // The list has what a person looks for, latest first.
    let page = sending.api.get(DISPATCHES).await;
    let found = page.body["dispatches"].as_array().expect("an array").clone();
    let ids: Vec<&Value> = found.iter().map(|dispatch| &dispatch["dispatch_id"]).collect();
    assert_eq!(ids, [other.as_str(), wrong.as_str()], "{page:?}");
    let spring = &found[1];
    assert_eq!(
        (&spring["campaign_name"], &spring["send_id"]),
        (&json!("News"), &json!("spring")),
        "{spring}"
    );
    let audience = json!({
        "type": "segment", "segment_id": SEGMENT, "segment_name": "All", "is_limited": false,
    });
    assert_eq!(spring["audience"], audience);
    assert_eq!(spring["users"], json!({ "checked": 10, "total": 10, "matched": 10 }));
    assert_eq!(spring["messages"]["sent"], 7, "{spring}");
    assert_eq!(found[0]["audience"]["type"], "users", "{page:?}");
    assert_eq!(found[0]["left_out"]["unknown"], 1, "{page:?}");
    assert_eq!(found[0]["users"], json!({ "checked": 2, "total": 2, "matched": 1 }));
    for (query, count) in [
        (format!("campaign_id={CAMPAIGN}"), 1),
        (format!("campaign_id={SEGMENT}"), 0),
        ("state=done".to_owned(), 2),
        ("state=running".to_owned(), 0),
        ("state=cancelled".to_owned(), 0),
        (format!("campaign_id={CAMPAIGN}&state=done"), 1),
        (format!("since={before}"), 2),
        (format!("until={before}"), 0),
    ] {
        let page = sending.api.get(&format!("{DISPATCHES}?{query}")).await;
        let found = page.body["dispatches"].as_array().map(Vec::len);
        assert_eq!(found, Some(count), "{query}: {page:?}");
    }

    // One dispatch, from its users to their outcomes.
    let shown = sending.dispatch(&wrong).await.body;
    let outcomes = &shown["outcomes"];
    assert_eq!((&outcomes["sent"], &outcomes["failed"]), (&json!(7), &json!(3)), "{shown}");
    assert_eq!(shown["may_still_be_sent"], 0, "{shown}");
    assert_eq!(
        (&shown["reasons"][0]["outcome"], &shown["reasons"][0]["messages"]),
        (&json!("failed"), &json!(3)),
        "{shown}"
    );
    // Its recipients.
    let failed = sending.recipients(&wrong, "outcome=failed", async || {}).await;
    assert_eq!(failed.len(), 3, "{failed:?}");
    assert!(failed.iter().all(|recipient| recipient["reason"].is_string()), "{failed:?}");
    let all = sending.recipients(&wrong, "", async || {}).await;
    assert_eq!(users(&all).len(), 10, "{all:?}");

    // The same for the operator.
    let arguments = ["dispatches", "recipients", &wrong, "--outcome", "failed", "--json"];
    let printed = sending.fleet.run(&arguments).await;
    let printed = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    assert_eq!(printed.collect::<Vec<Value>>(), failed);

    // The statistics of the campaign.
    let path = format!("/campaigns/statistics?campaign_id={CAMPAIGN}");
    let statistics = sending.api.get(&path).await.body;
    assert_eq!(statistics["variations"][0]["sent"], 7, "{statistics}");
    assert_eq!(statistics["variations"][0]["failed"], 3, "{statistics}");
    assert_eq!(
        (&statistics["dispatches"]["count"], &statistics["dispatches"]["messages"]["sent"]),
        (&json!(1), &json!(7)),
        "{statistics}"
    );
    let earlier = sending.api.get(&format!("{path}&until={before}")).await.body;
    assert_eq!(earlier["dispatches"]["count"], 0, "{earlier}");
    assert_eq!(earlier["dispatches"]["is_complete"], true, "{earlier}");
    assert_eq!(earlier["variations"][0]["sent"], 7, "{earlier}");

    // A misspelt selection of its recipients reaches none of them.
    for field in ["outcome", "Outcomes", "limit", "comment"] {
        let mut body = json!({ "messages": message(&sending.receiver, "sorry") });
        body[field] = json!(["failed"]);
        let refused = sending.api.post(&format!("{DISPATCHES}/{wrong}/send"), &body).await;
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        assert_eq!(refused.body["code"], "unknown-field", "{field}");
    }

    // Those of another workspace are unknown.
    let beta = WorkspaceFile::new("beta").with_percent(None).permitted(&PERMISSIONS);
    let files = [sending.workspace.clone(), beta];
    let beta = sending.fleet.apply(&files).await.remove(1);
    let page = beta.get(DISPATCHES).await;
    assert_eq!(page.body["dispatches"], json!([]), "{page:?}");
    let own = format!("{DISPATCHES}/{wrong}");
    assert_eq!(beta.get(&own).await.status, 404);
    assert_eq!(beta.get(&format!("{own}/recipients")).await.status, 404);
    assert_eq!(beta.delete(&own).await.status, 404);
    let body = json!({ "messages": message(&sending.receiver, "stolen") });
    assert_eq!(beta.post(&format!("{own}/send"), &body).await.status, 404);
    assert_eq!(beta.get(&path).await.status, 404);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_complete_while_rows_change_standalone() {
    pages_stay_complete(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_complete_while_rows_change_in_a_fleet() {
    pages_stay_complete(Backend::Fleet(1)).await;
}

async fn pages_stay_complete(backend: Backend) {
    const USERS: usize = 23;
    let settings = [("LONGSHORE_MESSAGES__PART_USERS", "5".to_owned())];
    let sending = start(backend, &settings, USERS).await;
    let to_all = json!({ "broadcast": true, "segment_id": SEGMENT });
    let mut sent = BTreeSet::new();
    for _ in 0..3 {
        let id = sending.send("hello", to_all.clone()).await;
        sending.when(&id, "done").await;
        sent.insert(id);
    }
    // Each message of a dispatch once, although all outcomes change after the first page.
    let id = sent.first().expect("a dispatch");
    let last_page = sending.api.get(&format!("{DISPATCHES}/{id}/recipients?limit={USERS}")).await;
    assert_eq!(last_page.body["recipients"].as_array().map(Vec::len), Some(USERS));
    assert!(last_page.body.get("next_cursor").is_none(), "{last_page:?}");
    for query in ["limit=3", "limit=3&state=done"] {
        let last_page = sending.api.get(&format!("{DISPATCHES}?{query}")).await;
        assert_eq!(last_page.body["dispatches"].as_array().map(Vec::len), Some(3), "{query}");
        assert!(last_page.body.get("next_cursor").is_none(), "{query}: {last_page:?}");
    }
    let reported = async || {
        sending.execute("UPDATE messages SET state = 'delivered' WHERE state = 'sent'").await;
    };
    let found = sending.recipients(id, "limit=4", reported).await;
    let found_users = users(&found);
    let expected: Vec<String> = (0..USERS).map(|number| format!("u{number:04}")).collect();
    assert_eq!(found_users, expected);
    // An outcome that no message has any more.
    let none = sending.recipients(id, "limit=4&outcome=sent", async || {}).await;
    assert!(none.is_empty(), "{none:?}");

    // Each dispatch once, although others come.
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = sending.api.get(&format!("{DISPATCHES}?limit=1{cursor}")).await.body;
        let dispatches = page["dispatches"].as_array().expect("an array");
        let id = |dispatch: &Value| dispatch["dispatch_id"].as_str().unwrap().to_owned();
        found.extend(dispatches.iter().map(id));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        let id = sending.send("new", json!({ "external_user_ids": ["u0000"] })).await;
        sending.when(&id, "done").await;
    }
    assert_eq!(found.len(), sent.len(), "{found:?}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), sent);
    sending.fleet.close().await;
}

// Cancellation and apology --------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_send_is_stopped_and_those_who_got_it_get_an_apology_standalone() {
    is_stopped(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_send_is_stopped_and_those_who_got_it_get_an_apology_in_a_fleet() {
    is_stopped(Backend::Fleet(2)).await;
}

async fn is_stopped(backend: Backend) {
    const USERS: usize = 3_000;
    let settings = [("LONGSHORE_MESSAGES__PART_USERS", "1000".to_owned())];
    let sending = start(backend, &settings, USERS).await;
    for _ in 0..3 {
        sending.receiver.script(slow(100));
    }
    let to_all = json!({ "broadcast": true, "segment_id": SEGMENT });
    let wrong = sending.send("wrong", to_all).await;
    sending.receiver.wait_for(300).await;
    let path = format!("{DISPATCHES}/{wrong}");
    let running = sending.dispatch(&wrong).await.body;
    assert_eq!(running["state"], "running", "{running}");
    let listed = sending.api.get(&format!("{DISPATCHES}?state=running")).await.body;
    assert_eq!(listed["dispatches"][0]["dispatch_id"], json!(wrong), "{listed}");
    assert_eq!(running.get("may_still_be_sent"), None, "{running}");

    // Its recipients are not known yet.
    let early = sending.follow_up(&wrong, "sorry", json!({}), "early").await;
    assert_eq!((early.status.as_u16(), &early.body["code"]), (409, &json!("conflict")));

    let cancelled = sending.api.delete(&path).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let state = cancelled.body["state"].as_str().expect("a state");
    assert!(["cancelling", "cancelled"].contains(&state), "{cancelled:?}");
    let may_be_sent = cancelled.body["may_still_be_sent"].as_u64().expect("a number");
    let sent_then = cancelled.body["outcomes"]["sent"].as_u64().expect("a number");
    eventually("it is cancelled", || async {
        let again = sending.api.delete(&path).await;
        assert_eq!(again.status, 200, "{again:?}");
        again.body["state"] == "cancelled"
    })
    .await;
    let shown = sending.dispatch(&wrong).await.body;
    let count = |name: &str| shown["outcomes"][name].as_u64().expect("a number");
    let wronged = sending.by_user("wrong");
    assert!(wronged.len() < USERS, "the send was complete before it was cancelled");
    assert_eq!(count("sent"), wronged.len() as u64, "{shown}");
    assert_eq!(count("sent") + count("cancelled"), shown["users"]["checked"], "{shown}");
    assert!(count("sent") <= sent_then + may_be_sent, "{sent_then} + {may_be_sent}: {shown}");
    assert_eq!((count("waiting"), &shown["may_still_be_sent"]), (0, &json!(0)), "{shown}");
    assert_eq!(shown["may_have_been_sent"], 0, "{shown}");

    // Those who got it, each once, also if the request is repeated.
    sending.receiver.clear_script();
    let apology = sending.follow_up(&wrong, "sorry", json!({ "send_id": "sorry" }), "one").await;
    assert_eq!(apology.status, 201, "{apology:?}");
    let repeat = sending.follow_up(&wrong, "sorry", json!({ "send_id": "sorry" }), "one").await;
    assert_eq!(repeat.body, apology.body);
    let id = apology.body["dispatch_id"].as_str().expect("an id").to_owned();
    let apology = sending.when(&id, "done").await;
    let sorry = sending.by_user("sorry");
    assert_eq!(sorry.keys().collect::<Vec<_>>(), wronged.keys().collect::<Vec<_>>());
    assert!(sorry.values().all(|ids| ids.len() == 1), "{sorry:?}");
    let total = wronged.len();
    let all = json!({ "checked": total, "total": total, "matched": total });
    assert_eq!(apology["users"], all, "{apology}");
    let audience = json!({
        "type": "recipients", "is_limited": false, "dispatch_id": wrong,
        "outcomes": ["sent", "delivered", "may_have_been_sent"],
    });
    assert_eq!(apology["audience"], audience);

    // What is over can no longer be cancelled.
    let late = sending.api.delete(&format!("{DISPATCHES}/{id}")).await;
    assert_eq!((late.status.as_u16(), &late.body["code"]), (409, &json!("conflict")));
    // The others can be written to as well.
    let rest = json!({ "outcomes": ["cancelled"] });
    let rest = sending.follow_up(&wrong, "instead", rest, "rest").await;
    let id = rest.body["dispatch_id"].as_str().expect("an id").to_owned();
    sending.when(&id, "done").await;
    let instead: BTreeSet<String> = sending.by_user("instead").into_keys().collect();
    assert_eq!(instead.len() as u64, count("cancelled"));
    let wronged: BTreeSet<String> = wronged.into_keys().collect();
    assert!(instead.is_disjoint(&wronged));
    sending.fleet.close().await;
}

/// A deleted user gets no apology, and for a merged user the kept one gets it.
#[tokio::test(flavor = "multi_thread")]
async fn an_apology_is_for_recipients_who_still_exist() {
    let sending = start(Backend::Embedded, &[], 4).await;
    let wrong = sending.send("wrong", json!({ "broadcast": true, "segment_id": SEGMENT })).await;
    sending.when(&wrong, "done").await;
    sending.fleet.run(&["users", "delete", "--workspace", "acme", "u0000"]).await;
    // One is merged into a user who did not get the message, and one into a user who did.
    sending.import(&[("kept", None)]).await;
    let update = |merged: &str, kept: &str| {
        json!({ "identifier_to_merge": { "external_id": merged },
                "identifier_to_keep": { "external_id": kept } })
    };
    let merge = json!({ "merge_updates": [update("u0001", "kept"), update("u0002", "u0003")] });
    assert_eq!(sending.api.post("/users/merge", &merge).await.status, 202);
    sending.fleet.applied().await;
    let apology = sending.follow_up(&wrong, "sorry", json!({}), "one").await;
    let id = apology.body["dispatch_id"].as_str().expect("an id").to_owned();
    sending.when(&id, "done").await;
    let ids = sending.by_user("sorry");
    assert!(ids.values().all(|ids| ids.len() == 1), "{ids:?}");
    let sorry: Vec<String> = ids.into_keys().collect();
    let shown = sending.dispatch(&id).await.body;
    assert_eq!(sorry, ["u0003"], "{shown}");
    // A field that would select fewer users, or send nothing, is not ignored.
    for fewer in [json!({ "external_user_ids": ["u0003"] }), json!({ "dry_run": true })] {
        let fewer = sending.follow_up(&wrong, "sorry", fewer, "fewer").await;
        assert_eq!((fewer.status.as_u16(), &fewer.body["code"]), (400, &json!("invalid-field")));
    }

    // The same by command; a dry run sends nothing.
    let body = json!({ "messages": message(&sending.receiver, "by command") });
    let file = sending.fleet.write_file("apology.json", body.to_string().as_bytes());
    let file = file.to_str().expect("a path in UTF-8");
    let arguments = ["dispatches", "send", &wrong, "--request", file, "--json"];
    let dispatches = "SELECT count(*) FROM dispatches";
    let before = sending.count(dispatches).await;
    sending.fleet.run(&[&arguments[..], &["--dry-run"]].concat()).await;
    assert_eq!(sending.count(dispatches).await, before);
    let printed: Value = serde_json::from_str(&sending.fleet.run(&arguments).await).expect("JSON");
    let id = printed["dispatch_id"].as_str().expect("an id").to_owned();
    sending.when(&id, "done").await;
    assert_eq!(sending.by_user("by command").into_keys().collect::<Vec<_>>(), sorry);
    sending.fleet.close().await;
}

// Crashes -------------------------------------------------------------------------------------

#[cfg(debug_assertions)]
mod crashes {
    use super::*;
    use crate::support::killed;

    const USERS: usize = 90;

    /// The process ends at `point` of an apology, and another continues: each user who got the
    /// wrong message gets one apology, under one id, and nobody else does.
    async fn killed_at(backend: Backend, name: &str, point: &str) {
        let settings = [
            ("LONGSHORE_MESSAGES__PART_USERS", "20".to_owned()),
            ("LONGSHORE_MESSAGES__BATCH_USERS", "6".to_owned()),
            ("LONGSHORE_MESSAGES__PARTS_IN_FLIGHT", "2".to_owned()),
            ("LONGSHORE_MESSAGES__ATTEMPTS", "20".to_owned()),
            ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
            ("LONGSHORE_WORKER__DRAIN_SECONDS", "2".to_owned()),
        ];
        let mut sending = start(backend, &settings, USERS).await;
        sending.receiver.script((0..13).map(|_| ScriptedResponse::Status(400)));
        let to_all = json!({ "broadcast": true, "segment_id": SEGMENT });
        let wrong = sending.send("wrong", to_all).await;
        let shown = sending.when(&wrong, "done").await;
        let failed = sending.recipients(&wrong, "limit=100&outcome=failed", async || {}).await;
        assert_eq!(failed.len(), 13, "{shown}");
        let failed: BTreeSet<&str> = users(&failed).into_iter().collect();

        sending.fleet.kill(name);
        let failing = format!("{point}=kill");
        sending.fleet.launch_with(name, &[("FAILPOINTS", &failing)]).await;
        sending.fleet.ready(name).await;
        let body = json!({ "messages": message(&sending.receiver, "sorry") });
        let api = sending.api.clone();
        let request = || {
            let request = api.request(Method::POST, &format!("{DISPATCHES}/{wrong}/send"));
            request.header("idempotency-key", "apology").json(&body)
        };
        // The process that responds may be the one that ends.
        drop(request().send().await);
        sending.fleet.wait_until_exited(name).await;
        sending.fleet.launch(name).await;
        let again = answer(request()).await;
        assert_eq!(again.status, 201, "{again:?}");
        let id = again.body["dispatch_id"].as_str().expect("an id").to_owned();
        let apology = sending.when(&id, "done").await;

        let sorry = sending.by_user("sorry");
        let expected: BTreeSet<String> = (0..USERS)
            .map(|number| format!("u{number:04}"))
            .filter(|user| !failed.contains(user.as_str()))
            .collect();
        assert_eq!(sorry.keys().cloned().collect::<BTreeSet<_>>(), expected);
        assert!(sorry.values().all(|ids| ids.len() == 1), "{sorry:?}");
        let total = USERS - 13;
        let all = json!({ "checked": total, "total": total, "matched": total });
        assert_eq!(apology["users"], all, "{apology}");
        assert_eq!(apology["outcomes"]["sent"], total, "{apology}");
        sending.fleet.close().await;
    }

    killed! {
        accepted_standalone: Backend::Embedded, "standalone", "dispatch::to_recipients";
        planned_standalone: Backend::Embedded, "standalone", "dispatch::planned";
        noted_standalone: Backend::Embedded, "standalone", "dispatch::noted@4";
        committed_standalone: Backend::Embedded, "standalone", "dispatch::committed@4";
        sent_standalone: Backend::Embedded, "standalone", "dispatch::sent@5";
        settled_standalone: Backend::Embedded, "standalone", "dispatch::settled@3";
        left_standalone: Backend::Embedded, "standalone", "dispatch::left@2";
        looked_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::looked";
        committed_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::committed@4";
        #[ignore = "scripts/test --all"]
        sent_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::sent@5";
        #[ignore = "scripts/test --all"]
        settled_in_a_fleet: Backend::Fleet(1), "worker-1", "dispatch::settled@3";
    }
}
