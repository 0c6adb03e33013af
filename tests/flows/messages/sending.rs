//! A running installation whose Canvases and campaigns send webhooks to a receiver.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::dispatches_api;
use crate::support::fleet::{Backend, Fleet, notice_lost_workers};
use crate::support::receiver::{Receiver, ScriptedResponse};
use crate::support::{Api, WorkspaceFile, eventually, stores};

pub const CREATE: &str = "/canvas/trigger/schedule/create";
pub const DELETE: &str = "/canvas/trigger/schedule/delete";
pub const CANVAS: &str = "bbbb0000-0000-4000-8000-000000000001";
pub const CAMPAIGN: &str = "bbbb0000-0000-4000-8000-000000000002";

pub struct Sending {
    pub fleet: Fleet,
    pub api: Api,
    pub receiver: Receiver,
    pub workspace: WorkspaceFile,
}

/// What one message says of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub user: String,
    /// What the test has put into it.
    pub text: String,
    /// The same each time that the message is passed on.
    pub id: String,
}

impl Sending {
    /// With one Canvas, `more` members of the workspace file, and more settings.
    pub async fn start(
        backend: Backend,
        settings: &[(&str, String)],
        more: impl FnOnce(&Receiver) -> Vec<(&'static str, Value)>,
    ) -> Self {
        let receiver = Receiver::start([]).await;
        let permissions = [
            "users.track",
            "users.merge",
            "users.alias.new",
            "users.alias.update",
            "messages.send",
            "messages.schedule.create",
            "messages.live_activity.start",
            "campaigns.trigger.send",
            "campaigns.trigger.schedule.create",
            "canvas.trigger.send",
            "canvas.trigger.schedule.create",
            "canvas.trigger.schedule.delete",
            "canvas.trigger.schedule.update",
        ];
        let permissions = [&permissions[..], &dispatches_api::PERMISSIONS].concat();
        let canvas = json!({ "id": CANVAS, "name": "Onboarding",
                             "messages": message(&receiver, "hello") });
        let mut workspace = WorkspaceFile::new("acme")
            .with_percent(None)
            .permitted(&permissions)
            .with("canvases", json!([canvas]));
        for (name, value) in more(&receiver) {
            workspace = workspace.with(name, value);
        }
        let fleet = Fleet::start_with(backend, settings, notice_lost_workers).await;
        let api = fleet.apply(std::slice::from_ref(&workspace)).await.remove(0);
        Self { fleet, api, receiver, workspace }
    }

    /// Users of these ids, each with the zone that it is to have.
    pub async fn import(&self, users: &[(&str, Option<&str>)]) {
        let record = |(id, zone): &(&str, Option<&str>)| {
            let mut record = json!({ "external_id": id });
            if let Some(zone) = zone {
                record["time_zone"] = (*zone).into();
            }
            record.to_string()
        };
        self.fleet.import("acme", &users.iter().map(record).collect::<Vec<_>>()).await;
    }

    /// Schedules the Canvas for everybody; returns the schedule's id.
    pub async fn schedule(&self, when: Value) -> String {
        let body = json!({ "canvas_id": CANVAS, "schedule": when, "broadcast": true });
        let answer = self.api.post(CREATE, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body["schedule_id"].as_str().expect("a schedule_id").to_owned()
    }

    /// Schedules the Canvas for everybody at a moment soon, which `when` describes; returns the
    /// moment and the schedule's id. On a busy machine, a moment may pass before the request
    /// arrives: then for a later one.
    pub async fn schedule_soon(&self, when: impl Fn(Timestamp) -> Value) -> (Timestamp, String) {
        for lead in [1_500, 6_000, 24_000] {
            let due = from_now(lead);
            let body = json!({ "canvas_id": CANVAS, "schedule": when(due), "broadcast": true });
            let answer = self.api.post(CREATE, &body).await;
            if answer.status == 400 && Timestamp::now() > due {
                continue;
            }
            assert_eq!(answer.status, 201, "{answer:?}");
            let id = answer.body["schedule_id"].as_str().expect("a schedule_id");
            return (due, id.to_owned());
        }
        panic!("requests take more than 24 seconds");
    }

    /// Deletes a schedule; returns the status and the message.
    pub async fn delete(&self, schedule: &str) -> (u16, String) {
        let body = json!({ "canvas_id": CANVAS, "schedule_id": schedule });
        let answer = self.api.post(DELETE, &body).await;
        let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
        (answer.status.as_u16(), message)
    }

    /// A schedule as an operator sees it.
    pub async fn shown(&self, schedule: &str) -> Value {
        let shown = self.fleet.run(&["schedules", "show", schedule, "--json"]).await;
        serde_json::from_str(&shown).expect("JSON")
    }

    /// Waits until a schedule is in a state.
    pub async fn state(&self, schedule: &str, state: &str) {
        eventually(&format!("{schedule} is {state}"), || async {
            self.shown(schedule).await["state"] == state
        })
        .await;
    }

    /// What the receiver got, in its order; what was passed on again, too.
    pub fn sent(&self) -> Vec<Sent> {
        let sent = |request: &crate::support::receiver::Received| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            let text = |name: &str| body[name].as_str().expect("a text").to_owned();
            let id = request.header("webhook-id").to_owned();
            Sent { user: text("user"), text: text("text"), id }
        };
        self.receiver.received().iter().map(sent).collect()
    }

    /// Users and texts of what was sent, each message once, as it came last.
    pub fn texts(&self) -> Vec<(String, String)> {
        let ids: BTreeMap<String, (String, String)> =
            self.sent().into_iter().map(|sent| (sent.id, (sent.user, sent.text))).collect();
        let mut texts: Vec<_> = ids.into_values().collect();
        texts.sort();
        texts
    }

    /// Changes users by a request, and waits until that is applied.
    pub async fn change(&self, path: &str, body: &Value) {
        let answer = self.api.post(path, body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        self.fleet.applied().await;
    }

    /// Merges a user into another one.
    pub async fn merge(&self, merged: &str, kept: &str) {
        let merge = json!({ "merge_updates": [{
            "identifier_to_merge": { "external_id": merged },
            "identifier_to_keep": { "external_id": kept },
        }] });
        self.change("/users/merge", &merge).await;
    }

    /// Sends the campaign to these recipients.
    pub async fn trigger(&self, recipients: &Value) {
        let body = json!({ "campaign_id": CAMPAIGN, "recipients": recipients });
        let answer = self.api.post("/campaigns/trigger/send", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// The users who got messages, each as often as there were messages of other ids.
    pub fn users(&self) -> Vec<String> {
        let ids: BTreeMap<String, String> =
            self.sent().into_iter().map(|sent| (sent.id, sent.user)).collect();
        let mut users: Vec<String> = ids.into_values().collect();
        users.sort();
        users
    }

    /// Waits until so many messages were sent, and all that was begun is at its end.
    pub async fn at_rest(&self, messages: usize) {
        eventually(&format!("{messages} messages are sent"), || async {
            let ids: BTreeSet<String> = self.sent().into_iter().map(|sent| sent.id).collect();
            ids.len() >= messages
        })
        .await;
        self.all_ended().await;
    }

    /// Waits until nothing that was begun has anything left to do: each of its parts is done.
    pub async fn all_ended(&self) {
        let open = "SELECT (SELECT count(*) FROM dispatch_parts WHERE is_done = FALSE)
                         + (SELECT count(*) FROM dispatches WHERE plans_left > 0)";
        self.wait_for_count(open, |count| count == 0).await;
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        stores::count(&self.fleet.database_url(), sql).await
    }

    /// Waits until the result of a `SELECT count(*)` is as expected.
    pub async fn wait_for_count(&self, sql: &'static str, is_expected: impl Fn(i64) -> bool) {
        stores::wait_for_count(&self.fleet.database_url(), sql, is_expected).await;
    }

    /// Runs a statement behind the program's back.
    pub async fn execute(&self, sql: &str) {
        let sql: &'static str = Box::leak(sql.to_owned().into_boxed_str());
        stores::execute(&self.fleet.database_url(), sql).await;
    }

    /// [`pass`](Self::pass) while the one process is stopped. A step in progress would store what
    /// it read before, and a plan in progress knows its wave by its moment.
    pub async fn pass_stopped(&mut self, ms: i64) {
        self.fleet.kill("standalone");
        self.pass(ms).await;
        self.fleet.launch("standalone").await;
    }

    /// As if so many milliseconds had passed for all schedules.
    pub async fn pass(&self, ms: i64) {
        self.execute(&format!(
            "UPDATE schedules SET time = time - {ms}, created_at = created_at - {ms},
                                  timed_at = timed_at - {ms},
                                  reached_at = reached_at - {ms}, missed_at = missed_at - {ms}"
        ))
        .await;
        // Its waves are known by their moments.
        self.execute(&format!(
            "UPDATE claims SET item = item - {ms}
             WHERE kind = 'dispatch_plan' AND item IN (SELECT number FROM dispatch_waves)"
        ))
        .await;
        self.execute(&format!("UPDATE dispatch_waves SET number = number - {ms}")).await;
        self.execute("UPDATE claims SET due_at = 0 WHERE kind = 'schedule'").await;
    }
}

/// The campaign, with messages that requests send.
pub fn campaign(messages: &Value) -> Value {
    json!([{ "id": CAMPAIGN, "name": "Hello", "type": "api", "messages": messages }])
}

/// The messages of something that sends a webhook with a text, which may be a template.
pub fn message(receiver: &Receiver, text: &str) -> Value {
    let body = json!({ "user": "{{${external_id}}}", "text": text }).to_string();
    json!({ "webhook": { "url": receiver.url("/hook"), "request_method": "POST", "body": body } })
}

/// So many milliseconds from now, in UTC.
pub fn from_now(ms: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_millis(ms)
}

/// Milliseconds since the epoch of a time in a response.
pub fn ms(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("a time: {time}"));
    text.parse::<Timestamp>().expect("ISO 8601").as_millisecond()
}

/// Requests that each take a while.
pub fn slow(ms: u64) -> impl Iterator<Item = ScriptedResponse> {
    std::iter::repeat_n(ScriptedResponse::Slow(std::time::Duration::from_millis(ms)), 1_000)
}
