//! Schedules are sent when their time comes, once.

use serde_json::json;

use super::sending::{CAMPAIGN, CANVAS, Sending, from_now, message, ms, slow};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::receiver::Receiver;

const MINUTE: i64 = 60_000;

const USERS: [(&str, Option<&str>); 3] = [("ann", None), ("bob", None), ("cid", None)];

async fn start(backend: Backend) -> Sending {
    Sending::start(backend, &[], |_| Vec::new()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_sent_at_its_time_standalone() {
    is_sent_at_its_time(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_sent_at_its_time_in_a_fleet() {
    is_sent_at_its_time(Backend::Fleet(2)).await;
}

async fn is_sent_at_its_time(backend: Backend) {
    let sending = start(backend).await;
    sending.import(&USERS).await;
    let mut delays = Vec::new();
    let is_in_time = |delays: &[i64]| delays.iter().any(|delay| *delay <= 1_000);
    // Each is, on a machine at rest; here others are at work.
    for round in 1..=12 {
        if round > 3 && is_in_time(&delays) {
            break;
        }
        let (due, id) = sending.schedule_soon(|due| json!({ "time": due.to_string() })).await;
        sending.at_rest(round * USERS.len()).await;
        let received = sending.receiver.received();
        assert!(received[(round - 1) * USERS.len()..].iter().all(|request| request.at >= due));
        let shown = sending.shown(&id).await;
        assert_eq!(shown["state"], "sent", "{shown}");
        assert_eq!(shown["ended_at"], shown["sent_at"], "{shown}");
        delays.push(ms(&shown["sent_at"]) - due.as_millisecond());
        assert_eq!(sending.delete(&id).await, (400, "The schedule has already been sent".into()));
    }
    assert!(is_in_time(&delays) && delays.iter().all(|delay| *delay >= 0), "{delays:?}");
    let users = sending.users();
    let each = ["ann", "bob", "cid"].map(|user| vec![user; delays.len()]);
    assert_eq!(users, each.concat());
    assert_eq!(sending.count("SELECT count(*) FROM claims WHERE kind = 'schedule'").await, 0);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_schedules_are_sent_once_after_a_restart() {
    let lease = [("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned())];
    let mut sending = Sending::start(Backend::Fleet(3), &lease, |_| Vec::new()).await;
    let ids: Vec<String> = (0..60).map(|number| format!("user-{number:02}")).collect();
    let users: Vec<(&str, Option<&str>)> = ids.iter().map(|id| (id.as_str(), None)).collect();
    sending.import(&users).await;
    let id = sending.schedule(json!({ "time": from_now(60 * MINUTE).to_string() })).await;
    let workers = ["worker-1", "worker-2", "worker-3"];
    workers.iter().for_each(|worker| sending.fleet.kill(worker));
    sending.pass(61 * MINUTE).await;
    assert_eq!(sending.shown(&id).await["state"], "pending");

    // All come at once, and are lost and replaced while it is sent.
    sending.receiver.script(slow(100));
    for worker in workers {
        sending.fleet.launch_with(worker, &[]).await;
    }
    for (round, worker) in workers.iter().chain(&workers).enumerate() {
        eventually("some more is sent", || async {
            sending.receiver.received().len() > round * ids.len() / 8
        })
        .await;
        sending.fleet.kill(worker);
        sending.fleet.launch_with(worker, &[]).await;
    }
    sending.at_rest(ids.len()).await;
    assert_eq!(sending.users(), ids);
    assert_eq!(sending.shown(&id).await["state"], "sent");
    assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 1);
    for worker in workers {
        sending.fleet.ready(worker).await;
    }
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_an_hour_late_are_missed_and_reported() {
    let mut sending = start(Backend::Fleet(1)).await;
    sending.import(&USERS).await;
    sending.fleet.kill("worker-1");
    let a_little = sending.schedule(json!({ "time": from_now(60 * MINUTE).to_string() })).await;
    let too_late = sending.schedule(json!({ "time": from_now(30 * MINUTE).to_string() })).await;
    sending.pass(91 * MINUTE).await;
    sending.fleet.launch("worker-1").await;
    sending.state(&too_late, "missed").await;
    sending.state(&a_little, "sent").await;
    sending.at_rest(USERS.len()).await;
    assert_eq!(sending.users(), ["ann", "bob", "cid"]);

    let shown = sending.shown(&too_late).await;
    assert!(shown["error"].as_str().is_some_and(|why| why.contains("passed")), "{shown}");
    assert_eq!((shown["sent_at"].is_null(), shown["ended_at"].is_null()), (true, false));
    let listed = sending.fleet.run(&["schedules", "list", "--state", "missed"]).await;
    assert!(listed.contains(&too_late) && !listed.contains(&a_little), "{listed}");
    let (status, lines) = sending.fleet.readiness("worker-1").await;
    assert!(status == 200 && lines.contains("1 schedules were missed in the last day"), "{lines}");
    let metrics = sending.fleet.metrics("worker-1").await;
    for (outcome, count) in [("missed", 1), ("begun", 1)] {
        let line = format!("longshore_schedules_fired_total{{outcome=\"{outcome}\"}} {count}");
        assert!(metrics.contains(&line), "no {line} in {metrics}");
    }
    assert_eq!(sending.delete(&too_late).await.0, 201);
    assert_eq!(sending.shown(&too_late).await["state"], "missed");
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_schedules_are_not_sent() {
    let sending = start(Backend::Embedded).await;
    sending.import(&USERS).await;
    let cancelled = sending.schedule(json!({ "time": from_now(30 * MINUTE).to_string() })).await;
    let by_operator = sending.schedule(json!({ "time": from_now(30 * MINUTE).to_string() })).await;
    assert_eq!(sending.delete(&cancelled).await, (201, "success".into()));
    sending.fleet.run(&["schedules", "cancel", &by_operator]).await;
    let other = sending.schedule(json!({ "time": from_now(30 * MINUTE).to_string() })).await;
    sending.pass(30 * MINUTE).await;
    sending.state(&other, "sent").await;
    sending.at_rest(USERS.len()).await;
    assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 1);
    assert_eq!(sending.users(), ["ann", "bob", "cid"]);
    for id in [cancelled, by_operator] {
        assert_eq!(sending.shown(&id).await["state"], "cancelled");
    }
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_of_inactive_campaigns_are_missed() {
    let campaign = |receiver: &Receiver, state: &str| {
        let mut campaign = json!({
            "id": CAMPAIGN, "name": "Welcome", "type": "api",
            "messages": message(receiver, "hello"),
        });
        if !state.is_empty() {
            campaign[state] = true.into();
        }
        json!([campaign])
    };
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        vec![("campaigns", campaign(receiver, ""))]
    })
    .await;
    sending.import(&USERS).await;
    let states = ["paused", "archived", ""];
    let mut ids = Vec::new();
    for number in 1..=3 {
        let time = from_now(number * 10 * MINUTE).to_string();
        let body =
            json!({ "campaign_id": CAMPAIGN, "broadcast": true, "schedule": { "time": time } });
        let answer = sending.api.post("/campaigns/trigger/schedule/create", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        ids.push(answer.body["schedule_id"].as_str().expect("a schedule_id").to_owned());
    }
    for (id, state) in ids.iter().zip(states) {
        let declared = campaign(&sending.receiver, state);
        sending.fleet.apply(&[sending.workspace.clone().with("campaigns", declared)]).await;
        sending.pass(10 * MINUTE).await;
        if state.is_empty() {
            sending.state(id, "sent").await;
            break;
        }
        sending.state(id, "missed").await;
        let shown = sending.shown(id).await;
        assert!(shown["error"].as_str().is_some_and(|why| why.contains(state)), "{shown}");
        assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 0);
    }
    sending.at_rest(USERS.len()).await;
    assert_eq!(sending.users(), ["ann", "bob", "cid"]);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canvas_is_sent_as_it_is_declared_at_that_time() {
    let sending = start(Backend::Embedded).await;
    sending.import(&USERS).await;
    let first = sending.schedule(json!({ "time": from_now(10 * MINUTE).to_string() })).await;
    let canvas = |messages| json!([{ "id": CANVAS, "name": "Onboarding", "messages": messages }]);
    let changed = canvas(message(&sending.receiver, "another text"));
    sending.fleet.apply(&[sending.workspace.clone().with("canvases", changed)]).await;
    sending.pass(10 * MINUTE).await;
    sending.state(&first, "sent").await;
    sending.at_rest(USERS.len()).await;
    assert!(sending.sent().iter().all(|sent| sent.text == "another text"), "{:?}", sending.sent());

    let second = sending.schedule(json!({ "time": from_now(10 * MINUTE).to_string() })).await;
    let emptied = json!([{ "id": CANVAS, "name": "Onboarding" }]);
    sending.fleet.apply(&[sending.workspace.clone().with("canvases", emptied)]).await;
    sending.pass(10 * MINUTE).await;
    sending.state(&second, "missed").await;
    let shown = sending.shown(&second).await;
    assert_eq!(shown["error"], "the Canvas declares no messages");
    assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 1);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_recipients_receive_it_with_their_properties() {
    let text = "{{canvas_entry_properties.${city}}} {{api_trigger_properties.${seats}}}";
    let sending = Sending::start(Backend::Embedded, &[], |receiver| {
        let messages = message(receiver, text);
        vec![("canvases", json!([{ "id": CANVAS, "name": "Seats", "messages": messages }]))]
    })
    .await;
    sending.import(&USERS).await;
    let answer = sending
        .api
        .post(
            super::sending::CREATE,
            &json!({
                "canvas_id": CANVAS,
                "schedule": { "time": from_now(10 * MINUTE).to_string() },
                "recipients": [
                    { "external_user_id": "ann", "trigger_properties": { "seats": 2 } },
                    { "external_user_id": "cid", "canvas_entry_properties": { "city": "Rome" } },
                    { "external_user_id": "nobody" },
                ],
                "canvas_entry_properties": { "city": "Oslo" },
            }),
        )
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    sending.pass(10 * MINUTE).await;
    sending.at_rest(2).await;
    let mut texts: Vec<(String, String)> =
        sending.sent().into_iter().map(|sent| (sent.user, sent.text)).collect();
    texts.sort();
    let expected = [("ann", "Oslo 2"), ("cid", "Rome ")];
    assert_eq!(texts, expected.map(|(user, text)| (user.to_owned(), text.to_owned())));
    sending.fleet.close().await;
}
