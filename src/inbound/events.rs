//! `POST /email/events`: what became of emails, as the relay learns it.

use serde_json::Value;

use super::reported::{Became, News, tell};
use super::{at, kind, reason, reports};
use crate::app::App;
use crate::gateway::{ApiError, IdempotencyKey, JsonText, idempotency};
use crate::messages::channels::email;
use crate::messages::members::{self, Members};

/// What reports can be about.
pub const TYPES: [&str; 3] = ["processed", "delivered", "bounced"];

/// Why an email bounced: the code, such as 550 or "5.1.1", then the text.
fn why(event: &Members) -> Result<Option<String>, String> {
    let code = match event.get("code") {
        Some(Value::String(code)) => Some(code.clone()),
        Some(Value::Number(code)) => Some(code.to_string()),
        _ => None,
    };
    let text = members::text(event, "reason")?.map(str::trim).filter(|text| !text.is_empty());
    Ok(match (code, text) {
        (Some(code), Some(text)) if !text.starts_with(&code) => {
            reason(Some(&format!("{code} {text}")))
        }
        (_, Some(text)) => reason(Some(text)),
        (code, None) => reason(code.as_deref()),
    })
}

/// What an event says; none of an email that is none of Longshore's.
fn read_one(event: &Members, now: i64) -> Result<Option<News>, String> {
    let became = match kind(event, &TYPES)? {
        "processed" => Became::Processed,
        "delivered" => Became::Delivered,
        _ => Became::Bounced,
    };
    // The email's Message-ID, or the message's id.
    let id = members::required_text(event, "id")?;
    let (at, why) = (at(event, now)?, why(event)?);
    let reason = why.filter(|_| became == Became::Bounced);
    Ok(email::named(&id).map(|id| News { id, became, at, reason }))
}

/// Reads a body; the error names what is wrong. An email that is none of Longshore's is passed
/// over: a relay may have others.
pub fn read(body: &JsonText, now: i64) -> Result<Vec<News>, ApiError> {
    let news = reports(body, "events", |event| read_one(event, now))?;
    let mut news: Vec<News> = news.into_iter().flatten().collect();
    // Rows are locked in one order by all who report; those of one email stay in theirs.
    news.sort_by_key(|news| news.id);
    Ok(news)
}

/// Tells what became of emails, in one transaction; once, however often the request comes.
pub async fn apply(
    app: &App,
    workspace: i32,
    key: &IdempotencyKey,
    news: &[News],
) -> Result<(), ApiError> {
    let mut tx = app.calls.write().await?;
    if !idempotency::is_first(&mut tx, key).await? {
        return Ok(());
    }
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
    use crate::messages::MessageId;
    use crate::workspaces::Channel;

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
            (json!({}), "events is required"),
            (json!({ "events": null }), "events is required"),
            (json!({ "events": {} }), "events must be an array of objects"),
            (json!({ "events": [[]] }), "events[0] must be an object"),
            (
                json!({ "events": [{ "type": "opened", "id": "x" }] }),
                "events[0].type must be one of processed, delivered and bounced",
            ),
            (json!({ "events": [{ "id": "x" }] }), "events[0].type is required"),
            (json!({ "events": [{ "type": "bounced" }] }), "events[0].id is required"),
            (
                json!({ "events": [{ "type": "bounced", "id": "x", "reason": 5 }] }),
                "events[0].reason must be a string",
            ),
            (
                json!({ "events": [{ "type": "bounced", "id": "x", "at": "" }] }),
                "events[0].at: expected a",
            ),
        ] {
            let error = read_json(body).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
