//! `POST /email/events`: what became of emails, as the relay learns it.

use serde::Deserialize;
use serde_json::Value;

use super::reported::{Became, News, tell};
use super::{At, check_count, reason};
use crate::app::App;
use crate::gateway::{ApiError, JsonText};
use crate::messages::channels::email;

/// What reports can be about.
pub const TYPES: [&str; 3] = ["processed", "delivered", "bounced"];

#[derive(Deserialize)]
struct Body {
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: Kind,
    /// The email's Message-ID, or the message's id.
    id: String,
    at: Option<At>,
    reason: Option<String>,
    /// Such as 550 or "5.1.1".
    code: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Processed,
    Delivered,
    Bounced,
}

impl Event {
    /// Why it bounced: the code, then the text.
    fn reason(&self) -> Option<String> {
        let code = match &self.code {
            Some(Value::String(code)) => Some(code.clone()),
            Some(Value::Number(code)) => Some(code.to_string()),
            _ => None,
        };
        let text = self.reason.as_deref().map(str::trim).filter(|text| !text.is_empty());
        match (code, text) {
            (Some(code), Some(text)) if !text.starts_with(&code) => {
                reason(Some(&format!("{code} {text}")))
            }
            (_, Some(text)) => reason(Some(text)),
            (code, None) => reason(code.as_deref()),
        }
    }
}

/// Reads a body; the error names what is wrong. An email that is none of Longshore's is passed
/// over: a relay may have others.
pub fn read(body: &JsonText, now: i64) -> Result<Vec<News>, ApiError> {
    let Body { events } = body.parse()?;
    check_count("events", events.len())?;
    let mut news = Vec::with_capacity(events.len());
    for (i, event) in events.iter().enumerate() {
        let at = At::read(event.at.as_ref(), now);
        let at = at.map_err(|why| ApiError::Invalid(format!("events[{i}].at: {why}")))?;
        let Some(id) = email::named(&event.id) else { continue };
        let (became, reason) = match event.kind {
            Kind::Processed => (Became::Processed, None),
            Kind::Delivered => (Became::Delivered, None),
            Kind::Bounced => (Became::Bounced, event.reason()),
        };
        news.push(News { id, became, at, reason });
    }
    // Rows are locked in one order by all who report; those of one email stay in theirs.
    news.sort_by_key(|news| news.id);
    Ok(news)
}

/// Tells what became of emails, in one transaction.
pub async fn apply(app: &App, workspace: i32, news: &[News]) -> Result<(), ApiError> {
    let mut tx = app.calls.write().await?;
    tell(app, &mut tx, workspace, news).await?;
    tx.commit().await?;
    for news in news {
        metrics::counter!("longshore_message_reports_total", "type" => news.became.name())
            .increment(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::messages::{Channel, MessageId};

    fn read_json(body: Value) -> Result<Vec<News>, String> {
        let read = read(&JsonText::from(body.to_string()), 1_700_000_000_000);
        read.map_err(|error| error.message().into_owned())
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
        let news = read_json(json!({ "events": [
            { "type": "processed", "id": format!("<{dispatch}.{user}@acme.example>") },
            { "type": "delivered", "id": id.to_string(), "at": "2100-01-01T00:00:00Z" },
            { "type": "delivered", "id": "<other@acme.example>" },
        ] }));
        let at = 1_700_000_000_000;
        let of = |became| News { id, became, at, reason: None };
        assert_eq!(news.unwrap(), [of(Became::Processed), of(Became::Delivered)]);
        for (reason, code, said) in [
            (json!("No such user"), json!(550), Some("550 No such user")),
            (json!("550 No such user"), json!("550"), Some("550 No such user")),
            (json!(null), json!("5.1.1"), Some("5.1.1")),
            (json!(" "), json!(null), None),
            (json!("a\nb"), json!([]), Some("a b")),
        ] {
            assert_eq!(bounced(reason, code).as_deref(), said);
        }
        for (body, text) in [
            (json!({ "events": [] }), "events must have 1 to 500 elements"),
            (json!({ "events": [{ "type": "opened", "id": "x" }] }), "events[0].type: unknown"),
            (json!({ "events": [{ "type": "bounced" }] }), "events[0]: missing field `id`"),
            (json!({ "events": [{ "type": "bounced", "id": "x", "at": "" }] }), "events[0].at: a"),
        ] {
            let error = read_json(body).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
