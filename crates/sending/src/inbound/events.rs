//! `POST /email/events`: the status of emails, as reported by the relay.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::reported::{ReportedStatus, StatusUpdate, apply_updates};
use super::{MAX_REPORTS, stored_reason, time_of_event};
use crate::app::App;
use crate::transactional;
use gateway::formats::{List, Time};
use gateway::{ApiError, IdempotencyKey, JsonText, fields, idempotency};
use kit::json::as_whole_number;
use kit::smtp::AddressBounce;
use messages::channels::email;
use messages::{MessageId, dispatch};
use people::users::suppressions;
use store::{StoreError, Tx};

/// Status reports of emails.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct EmailEvents {
    events: List<Event, 1, MAX_REPORTS>,
}

/// The status of one email.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "EmailEvent")]
struct Event {
    #[serde(rename = "type")]
    kind: Type,
    /// The email's `Message-ID`, with or without its angle brackets, or the message's id.
    id: String,
    at: Option<Time>,
    /// An SMTP status code, such as 550 or `5.1.1`.
    code: Option<SmtpCode>,
    reason: Option<String>,
}

/// The kind of event.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Type {
    Processed,
    Delivered,
    Bounced,
    /// A recipient reported the email as spam: the address gets no more emails.
    Complained,
}

/// An SMTP status code as text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Value")]
#[schemars(with = "Value", inline, extend("type" = ["string", "integer"]))]
struct SmtpCode(String);

const NO_CODE: &str = "must be a string or a whole number";

impl TryFrom<Value> for SmtpCode {
    type Error = &'static str;

    fn try_from(code: Value) -> Result<Self, &'static str> {
        match code {
            Value::String(code) => Ok(Self(code)),
            Value::Number(code) => {
                let code = as_whole_number(&code).ok_or(NO_CODE)?;
                Ok(Self(code.to_string()))
            }
            _ => Err(NO_CODE),
        }
    }
}

/// Why an email bounced: the code, such as 550 or "5.1.1", then the text.
fn bounce_reason(code: Option<&SmtpCode>, text: Option<&str>) -> Option<String> {
    let code = code.map(|SmtpCode(code)| code.clone());
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    stored_reason(match (code, text) {
        (Some(code), Some(text)) if !text.starts_with(&code) => Some(format!("{code} {text}")),
        (_, Some(text)) => Some(text.to_owned()),
        (code, None) => code,
    })
}

impl Event {
    /// The complaint that the event reports, about an email that Longshore sent.
    fn complaint(&self, now: i64) -> Option<Complaint> {
        let id = email::parse_message_id(&self.id).filter(|_| self.kind == Type::Complained)?;
        Some(Complaint { id, at: time_of_event(self.at, now) })
    }

    /// The report of the event; none for an email that Longshore did not send.
    fn status_update(&self, now: i64) -> Option<StatusUpdate> {
        let (code, text) = (self.code.as_ref(), self.reason.as_deref());
        let (status, reason, address) = match self.kind {
            Type::Complained => return None,
            Type::Processed => (ReportedStatus::Processed, None, None),
            Type::Delivered => (ReportedStatus::Delivered, None, None),
            Type::Bounced => {
                let address = AddressBounce::from_report(code.map(|code| code.0.as_str()), text);
                (ReportedStatus::Bounced, bounce_reason(code, text), address)
            }
        };
        let at = time_of_event(self.at, now);
        let id = email::parse_message_id(&self.id)?;
        Some(StatusUpdate { id, status, at, reason, address })
    }
}

/// Parses a body; the error names what is wrong. Ignores emails that Longshore did not send: a
/// relay may have others.
pub fn read(body: &JsonText, now: i64) -> Result<Reports, ApiError> {
    let EmailEvents { events } = fields::read_report(&body.object()?)?;
    let mut updates: Vec<StatusUpdate> =
        events.0.iter().filter_map(|event| event.status_update(now)).collect();
    // All reports lock rows in one order; the events of one email keep theirs.
    updates.sort_by_key(|update| update.id);
    let complaints = events.0.iter().filter_map(|event| event.complaint(now)).collect();
    Ok(Reports { updates, complaints })
}

/// The result of parsing events.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reports {
    updates: Vec<StatusUpdate>,
    complaints: Vec<Complaint>,
}

/// A recipient reported an email as spam.
#[derive(Debug, PartialEq, Eq)]
struct Complaint {
    id: MessageId,
    /// In milliseconds since the epoch.
    at: i64,
}

/// Suppresses the addresses to which the emails were sent.
async fn suppress(tx: &mut Tx, workspace: i32, complaints: &[Complaint]) -> Result<(), StoreError> {
    let mut addresses = Vec::new();
    for Complaint { id, at } in complaints {
        let address = match transactional::email_address(tx, workspace, id).await? {
            Some(address) => Some(address),
            None => dispatch::email_address(tx, workspace, id).await?,
        };
        addresses.extend(address.map(|address| (address, *at)));
    }
    suppressions::complain(tx, workspace, &addresses).await
}

/// Stores the status of emails, in one transaction; once, however often the request is repeated.
pub async fn apply(
    app: &App,
    workspace: i32,
    key: &IdempotencyKey,
    Reports { updates, complaints }: &Reports,
) -> Result<(), ApiError> {
    let mut tx = app.request_queue.write().await?;
    if !idempotency::is_first(&mut tx, key).await? {
        return Ok(());
    }
    apply_updates(app, &mut tx, workspace, updates).await?;
    suppress(&mut tx, workspace, complaints).await?;
    tx.commit().await?;
    metrics::counter!("longshore_message_reports_total", "type" => "complained")
        .increment(complaints.len() as u64);
    for update in updates {
        metrics::counter!("longshore_message_reports_total", "type" => update.status.name())
            .increment(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gateway::workspaces::Channel;
    use uuid::Uuid;

    fn read_json(body: Value) -> Result<Vec<StatusUpdate>, String> {
        let read = read(&JsonText::from(body.to_string()), 1_700_000_000_000);
        read.map(|reports| reports.updates).map_err(|error| error.message().into_owned())
    }

    #[test]
    fn events_are_read() {
        let channel = Channel::Email;
        let id = MessageId { dispatch_id: Uuid::now_v7(), service_id: Uuid::now_v7(), channel };
        let (dispatch, user) = (id.dispatch_id.simple(), id.service_id.simple());
        let bounced = |reason: Value, code: Value| {
            let event = json!({
                "type": "bounced", "id": id.to_string(), "reason": reason, "code": code,
            });
            read_json(json!({ "events": [event] })).unwrap().remove(0).reason
        };
        let updates = read_json(json!({ "events": [
            { "type": "processed", "id": format!("<{dispatch}.{user}@acme.example>") },
            { "type": "delivered", "id": id.to_string(), "at": "2100-01-01T00:00:00Z" },
            { "type": "delivered", "id": "<other@acme.example>" },
        ] }));
        let at = 1_700_000_000_000;
        let update = |status| StatusUpdate { id, status, at, reason: None, address: None };
        assert_eq!(
            updates.unwrap(),
            [update(ReportedStatus::Processed), update(ReportedStatus::Delivered)]
        );
        for (reason, code, expected) in [
            (json!("No such user"), json!(550), Some("550 No such user")),
            (json!("550 No such user"), json!("550"), Some("550 No such user")),
            (json!("550 No such user"), json!(550.0), Some("550 No such user")),
            (json!(null), json!("5.1.1"), Some("5.1.1")),
            (json!(" "), json!(null), None),
            (json!("a\nb"), json!(null), Some("a b")),
        ] {
            assert_eq!(bounced(reason, code).as_deref(), expected);
        }
        for (body, text) in [
            (json!({ "events": [] }), "events must have 1 to 500 elements"),
            (
                json!({ "events": [{ "type": "opened", "id": "x" }] }),
                "events[0].type must be one of processed, delivered, bounced and complained",
            ),
            (
                json!({ "events": [{ "type": "bounced", "id": "x", "at": "" }] }),
                "events[0].at: expected a",
            ),
            (
                json!({ "events": [{ "type": "processed", "id": "x", "code": false }] }),
                "events[0].code must be a string or a whole number",
            ),
            (
                json!({ "events": [{ "type": "bounced", "id": "x", "code": 5.5 }] }),
                "events[0].code must be a string or a whole number",
            ),
        ] {
            let error = read_json(body).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
