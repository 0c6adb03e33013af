//! A time on the wall comes to each user in their own zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::sending::{CANVAS, Sending};
use crate::support::eventually;
use crate::support::fleet::Backend;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn in_kathmandu(due: Timestamp) -> serde_json::Value {
    json!({ "time": on_wall("Asia/Kathmandu", due), "in_local_time": true })
}

/// What it is on the wall of a zone at a moment.
fn on_wall(zone: &str, moment: Timestamp) -> String {
    TimeZone::get(zone).unwrap().to_datetime(moment).to_string()
}

async fn start(backend: Backend, settings: &[(&str, String)]) -> Sending {
    Sending::start(backend, settings, |_| vec![("time_zone", json!("Asia/Kathmandu"))]).await
}

/// Who moves to another zone is asked to.
async fn move_to(sending: &Sending, user: &str, zone: &str) {
    let body = json!({ "attributes": [{ "external_id": user, "time_zone": zone }] });
    assert_eq!(sending.api.post("/users/track", &body).await.status, 201);
    sending.fleet.applied().await;
    let shown = sending.fleet.run(&["users", "show", user, "--json"]).await;
    assert!(shown.contains(zone), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_zone_has_it_at_its_own_hour_standalone() {
    each_zone_has_it_at_its_own_hour(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_zone_is_sent_at_its_local_hour_in_a_fleet() {
    each_zone_has_it_at_its_own_hour(Backend::Fleet(2)).await;
}

/// A send as the API returns it.
async fn send_of(sending: &Sending, id: &str) -> Value {
    sending.api.get(&format!("/messages/dispatches/{id}")).await.body
}

async fn each_zone_has_it_at_its_own_hour(backend: Backend) {
    let sending = start(backend, &[]).await;
    sending
        .import(&[
            // By 15 minutes and by 3 hours and 15 minutes ahead of Kathmandu.
            ("dhaka", Some("Asia/Dhaka")),
            ("tokyo", Some("Asia/Tokyo")),
            ("kathmandu", Some("Asia/Kathmandu")),
            ("homeless", None),
            // By 45 minutes behind, and by most of a day.
            ("karachi", Some("Asia/Karachi")),
            ("moves", Some("Pacific/Pago_Pago")),
            ("honolulu", Some("Pacific/Honolulu")),
        ])
        .await;
    let (due, id) = sending.schedule_soon(in_kathmandu).await;
    // Dhaka's time came a little before: at once. Tokyo's is past for too long.
    sending.at_rest(3).await;
    assert_eq!(sending.users(), ["dhaka", "homeless", "kathmandu"]);
    let received = sending.receiver.received();
    assert!(received.iter().filter(|request| request.at >= due).count() >= 2);
    let shown = sending.shown(&id).await;
    assert_eq!(
        (&shown["state"], shown["ended_at"].is_null()),
        (&json!("sending"), true),
        "{shown}"
    );
    for (state, is_listed) in [("sending", true), ("pending", false), ("sent", false)] {
        let listed = sending.fleet.run(&["schedules", "list", "--state", state, "--json"]).await;
        assert_eq!(listed.contains(&id), is_listed, "{state}: {listed}");
    }
    let late = sending.fleet.run(&["schedules", "show", &id]).await;
    assert!(late.contains("and further east"), "{late}");

    // Each user counts once: those who were checked, those who wait, and Tokyo, who is too late.
    let send = shown["dispatch_id"].as_str().expect("a dispatch_id").to_owned();
    let counted = send_of(&sending, &send).await;
    assert_eq!(counted["users"], json!({ "checked": 4, "total": 7, "matched": 3, "waiting": 3 }));
    assert_eq!(counted["left_out"]["too_late"], 1, "{counted}");
    assert_eq!(
        (&counted["state"], &counted["requested_by"]),
        (&json!("running"), &json!("key:integrator"))
    );
    assert!(counted["local_time"]["next_at"].is_string(), "{counted}");
    for (user, why) in [("tokyo", "too_late"), ("karachi", "not_yet_due")] {
        let command = ["messages", user, "--dispatch", &send, "--why", "--json"];
        let reasons = sending.fleet.run(&command).await;
        let reason: Value = serde_json::from_str(&reasons).expect(&reasons);
        assert_eq!(reason["why_not"], why, "{user}: {reasons}");
        assert!(reason["due_at"].is_string(), "{user}: {reasons}");
    }

    // Who was sent to and moves is not sent to again, and who moves where it comes next is.
    move_to(&sending, "kathmandu", "Asia/Karachi").await;
    move_to(&sending, "moves", "Asia/Karachi").await;
    sending.pass(45 * MINUTE - 500).await;
    sending.at_rest(5).await;
    assert_eq!(sending.users(), ["dhaka", "homeless", "karachi", "kathmandu", "moves"]);

    // The rest of the day. No two waves have the same moment, which a set clock could cause.
    sending.pass(15 * HOUR - 300).await;
    sending.at_rest(6).await;
    sending.pass(2 * HOUR - 200).await;
    eventually("it is over", || async { !sending.shown(&id).await["ended_at"].is_null() }).await;
    sending.all_ended().await;
    assert_eq!(sending.users().len(), 6);
    assert!(sending.users().contains(&"honolulu".to_owned()));
    assert_eq!(sending.count("SELECT count(*) FROM dispatches").await, 1);
    let running = "SELECT count(*) FROM dispatches WHERE state <> 'done'";
    sending.wait_for_count(running, |count| count == 0).await;
    let counted = send_of(&sending, &send).await;
    assert_eq!(counted["users"], json!({ "checked": 7, "total": 7, "matched": 6, "waiting": 0 }));
    assert_eq!(
        (&counted["messages"]["sent"], &counted["left_out"]["too_late"]),
        (&json!(6), &json!(1))
    );
    assert!(counted["local_time"].get("next_at").is_none(), "{counted}");
    assert_eq!(sending.shown(&id).await["state"], "sent");
    assert_eq!(sending.delete(&id).await.0, 400);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn later_waves_can_be_cancelled() {
    let sending = start(Backend::Embedded, &[]).await;
    sending.import(&[("now", Some("Asia/Kathmandu")), ("later", Some("Asia/Karachi"))]).await;
    let (_, id) = sending.schedule_soon(in_kathmandu).await;
    sending.at_rest(1).await;
    assert_eq!(sending.delete(&id).await, (201, "success".into()));
    let shown = sending.shown(&id).await;
    assert_eq!((&shown["state"], shown["sent_at"].is_null()), (&json!("cancelled"), false));
    assert_eq!(sending.count("SELECT count(*) FROM claims WHERE kind = 'schedule'").await, 0);
    assert_eq!(sending.delete(&id).await.0, 201);
    assert_eq!(sending.users(), ["now"]);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_user_gets_nothing_after_their_time() {
    let sending = Sending::start(Backend::Embedded, &[], |_| {
        vec![
            ("time_zone", json!("Asia/Kathmandu")),
            ("frequency_capping", json!([{ "messages": 1, "days": 1 }])),
        ]
    })
    .await;
    sending
        .import(&[
            ("capped", Some("Asia/Kathmandu")),
            ("kathmandu", Some("Asia/Kathmandu")),
            ("karachi", Some("Asia/Karachi")),
            ("moves", Some("Pacific/Honolulu")),
            ("moved by import", Some("Pacific/Honolulu")),
        ])
        .await;
    let recipients = json!([{ "external_user_id": "capped" }]);
    let body = json!({ "canvas_id": CANVAS, "recipients": recipients });
    assert_eq!(sending.api.post("/canvas/trigger/send", &body).await.status, 201);
    sending.at_rest(1).await;
    sending.schedule_soon(in_kathmandu).await;
    sending.at_rest(2).await;
    assert_eq!(sending.users(), ["capped", "kathmandu"]);

    // The cap ends. Where two users move to, the time is past, but they got nothing yet.
    sending.execute("UPDATE messages SET created_at = created_at - 172800000").await;
    move_to(&sending, "moves", "Asia/Dhaka").await;
    sending.import(&[("moved by import", Some("Asia/Dhaka"))]).await;
    sending.pass(45 * MINUTE - 500).await;
    sending.at_rest(5).await;
    let all = ["capped", "karachi", "kathmandu", "moved by import", "moves"];
    assert_eq!(sending.users(), all);
    assert_eq!(sending.count("SELECT sum(capped) FROM dispatch_parts").await, 1);
    sending.fleet.close().await;
}

/// A zone where it is between noon and one, now and in a while.
fn noon_zone(now: Timestamp) -> String {
    match i64::from(TimeZone::UTC.to_datetime(now).hour()) - 12 {
        0 => "Etc/GMT".to_owned(),
        behind => format!("Etc/GMT{behind:+}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_best_hour_before_its_time_was_changed_is_not_missed() {
    let late = [
        ("LONGSHORE_MESSAGES__LATE_MINUTES", "90".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
    ];
    let mut sending = start(Backend::Embedded, &late).await;
    let now = Timestamp::now();
    let zone = noon_zone(now);
    sending.import(&[("five", Some(zone.as_str()))]).await;
    // Two days before the day: later activity does not count.
    let time = Timestamp::from_millisecond(now.as_millisecond() - 55 * HOUR).unwrap();
    let event = json!({ "external_id": "five", "name": "a", "time": time.to_string() });
    let answer = sending.api.post("/users/track", &json!({ "events": [event] })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    sending.fleet.applied().await;
    let today = TimeZone::get(&zone).unwrap().to_datetime(now).date();
    let at_six = |date: jiff::civil::Date| json!({ "time": format!("{date}T18:00:00"), "at_optimal_time": true });
    let id = sending.schedule(at_six(today.tomorrow().unwrap().tomorrow().unwrap())).await;
    // With the times that pass below: created at three, changed at six, due at noon.
    sending.pass(3 * HOUR).await;
    let body = json!({ "canvas_id": CANVAS, "schedule_id": id, "schedule": at_six(today) });
    let answer = sending.api.post("/canvas/trigger/schedule/update", &body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    // Zones in the east may be due already.
    sending.pass_stopped(6 * HOUR).await;
    sending.at_rest(1).await;
    assert_eq!(sending.users(), ["five"]);
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_hour_is_each_users_own() {
    // Moments less than a day ago are sent.
    let late = [
        ("LONGSHORE_MESSAGES__LATE_MINUTES", "1440".to_owned()),
        ("LONGSHORE_WORKER__LEASE_MS", "1000".to_owned()),
    ];
    let mut sending = start(Backend::Embedded, &late).await;
    let now = Timestamp::now();
    let zone = noon_zone(now);
    let zone = zone.as_str();
    sending.import(&[("noon", Some(zone)), ("three", Some(zone)), ("unknown", Some(zone))]).await;
    let noon = now.as_millisecond() - now.as_millisecond().rem_euclid(HOUR);
    let days_before = |hours: i64| {
        Timestamp::from_millisecond(noon - 48 * HOUR + hours * HOUR).unwrap().to_string()
    };
    let event = |user: &str, name: &str, time: String| json!({ "external_id": user, "name": name, "time": time });
    let events = [
        event("noon", "a", days_before(0)),
        event("noon", "b", days_before(0)),
        event("noon", "b", days_before(3)),
        event("three", "a", days_before(3)),
    ];
    let answer = sending.api.post("/users/track", &json!({ "events": events })).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    sending.fleet.applied().await;
    // Tomorrow at six in the evening where nothing is known.
    let date = TimeZone::get(zone).unwrap().to_datetime(now).date().tomorrow().unwrap();
    let when = json!({ "time": format!("{date}T18:00:00"), "at_optimal_time": true });
    let id = sending.schedule(when).await;
    // The next hour, which is a wave, may begin at any time.
    sending.pass_stopped(24 * HOUR).await;
    sending.at_rest(1).await;
    assert_eq!(sending.users(), ["noon"]);
    // A day later, all of it is past; again, no two waves have the same moment.
    sending.pass_stopped(24 * HOUR - 300).await;
    sending.at_rest(3).await;
    assert_eq!(sending.users(), ["noon", "three", "unknown"]);
    assert_eq!(sending.shown(&id).await["timing"], "optimal");
    sending.fleet.close().await;
}
