//! Notifications about exports (`docs/how-to/be-told-about-failures.md`): their texts, and their
//! deliveries, in the transaction that changes the export's state.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::audience::Audience;
use super::{Job, Progress, State};
use deliveries::{
    EMAIL_NOTIFICATION, EXPORT_NOTIFICATION, EmailContent, MAILTO, NewDelivery, SLACK_NOTIFICATION,
};
use gateway::app::App;
use gateway::openapi::{SENT_TO_OTHERS, Webhook};
use gateway::workspaces;
use gateway::workspaces::channels;
use gateway::workspaces::notify::{Event, Receiver};
use kit::clock::format_time;
use store::{StoreError, Tx};

/// An export has failed, is late or is done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExportNotification")]
pub(super) struct Notification<'a> {
    /// The event.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = Event::ALL.map(type_name)))]
    kind: &'static str,
    /// The workspace's name.
    workspace: &'a str,
    object_prefix: &'a str,
    #[schemars(extend("enum" = State::ALL.map(State::name)))]
    state: &'static str,
    #[schemars(extend("format" = "date-time"))]
    requested_at: String,
    users: Users,
    /// Why the export failed. If it is late: the last error of its storage, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The URL of the export's status. It requires an API key.
    #[schemars(extend("format" = "uri"))]
    status_url: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Users {
    #[schemars(range(min = 0))]
    done: i64,
    /// Absent until the export is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
}

/// The value of `type`.
fn type_name(event: Event) -> &'static str {
    match event {
        Event::Failed => "export.failed",
        Event::Late => "export.late",
        Event::Done => "export.done",
    }
}

/// The notification's OpenAPI description.
pub(super) fn describe() -> Webhook {
    let object_prefix = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";
    let late = Notification {
        kind: type_name(Event::Late),
        workspace: "acme",
        object_prefix,
        state: State::Running.name(),
        requested_at: "2026-11-21T08:31:38.000Z".into(),
        users: Users { done: 1_200_000, total: Some(3_000_000) },
        error: None,
        status_url: format!("https://longshore.example.com/users/export/{object_prefix}"),
    };
    Webhook::new::<Notification<'_>>(
        "exportNotification",
        SENT_TO_OTHERS,
        "An export has failed, is late or is done",
    )
    .about(
        "Sent to each `webhook` in `notify` of the workspace file that lists the event, signed with \
         the webhook's `secret`. An export is late once: when it takes longer than \
         `export_late_after`.",
    )
    .example("A late export", json!(late))
    .retried()
}

/// Stores the deliveries of an event to every receiver that the workspace declares for it.
pub(super) async fn enqueue(
    app: &App,
    tx: &mut Tx,
    job: &Job,
    progress: &Progress,
    event: Event,
) -> Result<(), StoreError> {
    let mut receivers = channels::notified(tx, &app.secrets, job.workspace_id).await?;
    receivers.retain(|receiver| receiver.on.contains(&event));
    if receivers.is_empty() {
        return Ok(());
    }
    let workspace = workspaces::by_id(tx, job.workspace_id).await?;
    let workspace = workspace.map(|workspace| workspace.name).unwrap_or_default();
    let status_url = format!("{}/users/export/{}", app.config.public_base(), job.object_prefix);
    let notification = Notification {
        kind: type_name(event),
        workspace: &workspace,
        object_prefix: &job.object_prefix,
        state: progress.state.name(),
        requested_at: format_time(job.requested_at),
        users: Users { done: progress.users_done, total: progress.users },
        error: progress.error.as_deref().filter(|_| progress.state.has_error()),
        status_url,
    };
    for (kind, url, body) in messages(&receivers, job, &notification, event) {
        let delivery = NewDelivery {
            workspace_id: job.workspace_id,
            kind,
            subject: job.object_prefix.clone(),
            follows: None,
            url,
            body,
            request_id: job.request_id.clone(),
        };
        deliveries::enqueue(tx, &app.config, &app.clock, delivery).await?;
    }
    Ok(())
}

/// The kind, the destination and the body of each delivery. An address that several entries name
/// gets one email.
fn messages(
    receivers: &[Receiver],
    job: &Job,
    notification: &Notification<'_>,
    event: Event,
) -> BTreeSet<(&'static str, String, String)> {
    let text = text(job, notification, event);
    let slack = json!({ "text": slack_text(&text) }).to_string();
    let email = json!(EmailContent { subject: subject(notification, event), text }).to_string();
    let webhook = json!(notification).to_string();
    let mut messages = BTreeSet::new();
    for receiver in receivers {
        if let Some(reference) = receiver.reference() {
            messages.insert(match receiver.webhook {
                Some(_) => (EXPORT_NOTIFICATION, reference, webhook.clone()),
                None => (SLACK_NOTIFICATION, reference, slack.clone()),
            });
        }
        for address in receiver.email.iter().flat_map(|email| &email.to) {
            messages.insert((EMAIL_NOTIFICATION, format!("{MAILTO}{address}"), email.clone()));
        }
    }
    messages
}

fn subject(notification: &Notification<'_>, event: Event) -> String {
    let Notification { workspace, object_prefix, .. } = notification;
    let outcome = match event {
        Event::Failed => "Export failed",
        Event::Late => "Export is late",
        Event::Done => "Export is done",
    };
    format!("{outcome}: {workspace}, {object_prefix}")
}

/// A paragraph for people.
fn text(job: &Job, notification: &Notification<'_>, event: Event) -> String {
    let Notification { workspace, object_prefix, state, requested_at, users, error, .. } =
        notification;
    let users = match users.total {
        Some(total) => format!("{} of {total} users are done", users.done),
        None => "it is not planned yet".into(),
    };
    let outcome = match event {
        Event::Failed => "failed.".to_owned(),
        Event::Late => format!("is late. It is {state}, and {users}."),
        Event::Done => format!("is done, and {users}."),
    };
    let error = error.map(|error| format!(" {}.", error.trim_end_matches('.')));
    format!(
        "The export {object_prefix} in the workspace {workspace} ({}, requested at {requested_at}) \
         {outcome}{} To see its status, run: longshore export status {object_prefix}",
        audience(job),
        error.unwrap_or_default(),
    )
}

fn audience(job: &Job) -> String {
    match &job.audience {
        Audience::ControlGroup => "the global control group".into(),
        Audience::Segment => format!("the segment {}", job.segment_id),
        Audience::Connected(_) => "a connected audience".into(),
    }
}

/// The text without characters that have a meaning in Slack.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

    fn notification(event: Event, error: Option<&str>) -> Notification<'_> {
        let state = if event == Event::Late { State::Running } else { State::Failed };
        Notification {
            kind: type_name(event),
            workspace: "acme",
            object_prefix: PREFIX,
            state: state.name(),
            requested_at: "2026-11-21T08:31:38.000Z".into(),
            users: Users { done: 5, total: None },
            error,
            status_url: "https://longshore.example.com".into(),
        }
    }

    fn job() -> Job {
        Job {
            id: Uuid::nil(),
            workspace_id: 1,
            object_prefix: PREFIX.into(),
            audience: Audience::ControlGroup,
            segment_id: Uuid::nil(),
            users_per_file: None,
            fields: Vec::new(),
            format: crate::Format::Zip,
            storage_id: None,
            destination: None,
            callback_endpoint: None,
            request_id: String::new(),
            requested_at: 0,
        }
    }

    fn receivers() -> Vec<Receiver> {
        serde_json::from_value(json!([
            { "webhook": { "url": "https://a.example/hidden", "secret": "hidden-hidden-hidden" } },
            { "slack": { "url": "https://hooks.slack.example/services/hidden" } },
            { "email": { "to": ["a@acme.example", "b@acme.example"] } },
            { "email": { "to": ["b@acme.example"] } },
        ]))
        .unwrap()
    }

    #[test]
    fn each_receiver_gets_one_message_in_its_format() {
        let error = Some("The bucket <b> & more is missing.");
        let notification = notification(Event::Failed, error);
        let messages = messages(&receivers(), &job(), &notification, Event::Failed);
        let found = |kind: &str, to: &str| {
            let message = messages.iter().find(|found| found.0 == kind && found.1.starts_with(to));
            let (.., body) = message.unwrap_or_else(|| panic!("{kind} {to}: {messages:?}"));
            serde_json::from_str::<serde_json::Value>(body).unwrap()
        };
        assert_eq!(messages.len(), 4);
        assert!(!format!("{messages:?}").contains("hidden"));
        let webhook = found(EXPORT_NOTIFICATION, "notify+https://a.example/#");
        assert_eq!(
            (&webhook["type"], &webhook["state"]),
            (&json!("export.failed"), &json!("failed"))
        );
        assert_eq!((&webhook["error"], &webhook["users"]), (&json!(error), &json!({ "done": 5 })));
        let slack = found(SLACK_NOTIFICATION, "slack+https://hooks.slack.example/#");
        let text = slack["text"].as_str().unwrap();
        assert!(text.contains("&lt;b&gt; &amp; more is missing. To"), "{text}");
        for address in ["mailto:a@acme.example", "mailto:b@acme.example"] {
            let email = found(EMAIL_NOTIFICATION, address);
            let text = email["text"].as_str().unwrap();
            assert!(text.contains("<b> & more") && text.contains("acme"), "{text}");
            assert!(text.ends_with(&format!("longshore export status {PREFIX}")), "{text}");
            assert!(email["subject"].as_str().unwrap().contains(PREFIX));
        }
    }

    #[test]
    fn a_late_export_is_described_with_its_state() {
        let notification = notification(Event::Late, None);
        let text = text(&job(), &notification, Event::Late);
        assert!(text.contains("is late. It is running, and it is not planned yet. To"), "{text}");
    }
}
