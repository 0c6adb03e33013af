//! `POST /feedback/{provider}`: what providers of push, SMS and WhatsApp report.

use super::reported::{Became, News, tell};
use super::{at, kind, reason, reports};
use crate::app::App;
use crate::gateway::{ApiError, IdempotencyKey, JsonText, idempotency};
use crate::messages::MessageId;
use crate::messages::channels::providers::SAID_BY_PROVIDER;
use crate::messages::members::{Members, required_text, text};
use crate::sms::{self, PhoneNumber};
use crate::users::devices::{self, Gone};

/// Who reports.
pub const PROVIDERS: [&str; 3] = ["push", "sms", "whats_app"];

/// What reports can be about.
pub const TYPES: [&str; 4] = ["invalid_number", "unregistered_device", "delivered", "failed"];

/// What one report says; of a message that has no id of Longshore's nothing.
enum Report {
    InvalidNumber(PhoneNumber),
    UnregisteredDevice(Option<Gone>),
    News(Option<News>),
}

impl Report {
    fn read(report: &Members, now: i64) -> Result<Self, String> {
        let id = || required_text(report, "id").map(|id| MessageId::parse(&id));
        Ok(match kind(report, &TYPES)? {
            "invalid_number" => {
                let number = PhoneNumber::parse(&required_text(report, "number")?);
                Self::InvalidNumber(number.map_err(|error| format!("number: {error}"))?)
            }
            // The id is that of a message that went to the token, and says whose it is.
            "unregistered_device" => {
                let (id, token) = (id()?, required_text(report, "token")?);
                let app_id = text(report, "app_id")?.map(str::to_owned);
                let gone = |id: MessageId| Gone { service_id: id.service_id, app_id, token };
                Self::UnregisteredDevice(id.map(gone))
            }
            kind => {
                let (id, at) = (id()?, at(report, now)?);
                let (became, reason) = match kind {
                    "delivered" => (Became::Delivered, None),
                    _ => (Became::Failed, reason(text(report, "reason")?)),
                };
                Self::News(id.map(|id| News { id, became, at, reason }))
            }
        })
    }
}

/// What reports come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    invalid: Vec<PhoneNumber>,
    gone: Vec<Gone>,
    news: Vec<News>,
}

/// Reads a body; the error names what is wrong. A report about a message that has no id of
/// Longshore's is passed over.
pub fn read(body: &JsonText, now: i64) -> Result<Feedback, ApiError> {
    let mut feedback = Feedback::default();
    for report in reports(body, "reports", |report| Report::read(report, now))? {
        match report {
            Report::InvalidNumber(number) => feedback.invalid.push(number),
            Report::UnregisteredDevice(gone) => feedback.gone.extend(gone),
            Report::News(news) => feedback.news.extend(news),
        }
    }
    feedback.invalid.sort_unstable();
    feedback.invalid.dedup();
    // Rows are locked in one order by all who report.
    feedback.news.sort_by_key(|news| news.id);
    Ok(feedback)
}

/// Does what follows of it, in one transaction; once, however often the request comes: what was
/// changed since is not undone.
pub async fn apply(
    app: &App,
    workspace: i32,
    key: &IdempotencyKey,
    feedback: &Feedback,
) -> Result<(), ApiError> {
    let Feedback { invalid, gone, news } = feedback;
    let mut tx = app.calls.write().await?;
    if !idempotency::is_first(&mut tx, key).await? {
        return Ok(());
    }
    if !gone.is_empty() {
        devices::forget(&mut tx, workspace, gone).await?;
    }
    if !invalid.is_empty() {
        sms::add(&mut tx, workspace, invalid, SAID_BY_PROVIDER, app.clock.now_ms()).await?;
    }
    tell(app, &mut tx, workspace, news).await?;
    tx.commit().await?;
    let count = |kind: &'static str, count: usize| {
        metrics::counter!("longshore_message_reports_total", "type" => kind)
            .increment(count as u64);
    };
    count("invalid_number", invalid.len());
    count("unregistered_device", gone.len());
    news.iter().for_each(|news| count(news.became.name(), 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::workspaces::Channel;

    fn read_json(body: Value) -> Result<Feedback, String> {
        let read = read(&JsonText::from(body.to_string()), 1_700_000_000_000);
        read.map_err(|error| error.message().into_owned())
    }

    #[test]
    fn reports_are_read() {
        let channel = Channel::Sms;
        let id = MessageId { dispatch_id: Uuid::now_v7(), service_id: Uuid::now_v7(), channel };
        let feedback = read_json(json!({ "reports": [
            { "type": "invalid_number", "number": "+15550100" },
            { "type": "invalid_number", "number": "15550100" },
            { "type": "unregistered_device", "id": id.to_string(), "token": "t", "app_id": "a" },
            { "type": "delivered", "id": id.to_string(), "at": "2023-11-14T22:13:19Z", "more": 1 },
            { "type": "failed", "id": id.to_string(), "at": null, "reason": " blocked\n" },
            { "type": "failed", "id": "another's" },
        ] }));
        let news = |became, at, reason: Option<&str>| News {
            id,
            became,
            at,
            reason: reason.map(str::to_owned),
        };
        let now = 1_700_000_000_000;
        assert_eq!(
            feedback.unwrap(),
            Feedback {
                invalid: vec![PhoneNumber::parse("+15550100").unwrap()],
                gone: vec![Gone {
                    service_id: id.service_id,
                    app_id: Some("a".into()),
                    token: "t".into()
                }],
                news: vec![
                    news(Became::Delivered, now - 1_000, None),
                    news(Became::Failed, now, Some("blocked")),
                ],
            }
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let many = vec![json!({ "type": "invalid_number", "number": "+15550100" }); 501];
        for (body, text) in [
            (json!({}), "reports is required"),
            (json!({ "reports": [] }), "reports must have 1 to 500 elements"),
            (json!({ "reports": many }), "reports must have 1 to 500 elements"),
            (
                json!({ "reports": [{ "type": "read" }] }),
                "reports[0].type must be one of invalid_number, unregistered_device, delivered \
                 and failed",
            ),
            (json!({ "reports": [{ "number": "+15550100" }] }), "reports[0].type is required"),
            (
                json!({ "reports": [{ "type": "unregistered_device", "id": "x" }] }),
                "reports[0].token is required",
            ),
            (
                json!({ "reports": [{ "type": "invalid_number", "number": "5" }] }),
                "reports[0].number: \"5\" is no phone number",
            ),
            (
                json!({ "reports": [{ "type": "delivered", "id": "x", "at": "soon" }] }),
                "reports[0].at: expected a date and time",
            ),
        ] {
            let error = read_json(body.clone()).unwrap_err();
            assert!(error.starts_with(text), "{body}: {error}");
        }
    }
}
