//! `POST /feedback/{provider}`: reports from providers of push, SMS and WhatsApp messages.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::reported::{ReportedStatus, StatusUpdate, apply_updates};
use super::{MAX_REASON_LENGTH, MAX_REPORTS, stored_reason, time_of_event};
use crate::app::App;
use content::sms::{self, PhoneNumber};
use gateway::formats::{List, Time};
use gateway::workspaces::settings::{self, Settings};
use gateway::{ApiError, IdempotencyKey, JsonText, fields, idempotency};
use messages::channels::providers::INVALID_BY_PROVIDER;
use messages::{MessageId, dispatch};
use people::users::devices::{self, InvalidToken};
use people::users::suppressions::{self, NewDecision};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// The reporting providers.
pub const PROVIDERS: [&str; 3] = [PUSH, "sms", "whats_app"];
const PUSH: &str = "push";

/// Reports of messages.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Feedback")]
pub(super) struct FeedbackRequest {
    #[schemars(with = "List<ReportFields, 1, MAX_REPORTS>")]
    reports: List<Report, 1, MAX_REPORTS>,
}

/// The content of one report.
#[derive(Debug, Deserialize)]
#[serde(try_from = "ReportFields")]
enum Report {
    InvalidNumber(PhoneNumber),
    UnregisteredDevice { id: String, token: String, app_id: Option<String> },
    Unsubscribed { number: PhoneNumber, group: Option<String>, at: Option<Time> },
    StatusUpdate { id: String, status: ReportedStatus, at: Option<Time>, reason: Option<String> },
}

/// The kind of report.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Type {
    InvalidNumber,
    UnregisteredDevice,
    Unsubscribed,
    Delivered,
    Failed,
}

/// A report: an invalid number, a device that is no longer registered, an opt-out, or the status of
/// a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Report", extend("anyOf" = [
    report("invalid_number", &["number"]),
    report("unregistered_device", &["id", "token"]),
    report("unsubscribed", &["number"]),
    report("delivered", &["id"]),
    report("failed", &["id"]),
]))]
struct ReportFields {
    #[serde(rename = "type")]
    kind: Type,
    /// Only for `invalid_number` and `unsubscribed`: the number.
    number: Option<PhoneNumber>,
    /// The id of the message, as the provider received it. For `unregistered_device`, the id of a
    /// message that was sent to the device.
    id: Option<String>,
    /// Only for `unregistered_device`: the push token. It stays if it was registered after the
    /// message was sent.
    token: Option<String>,
    /// Only for `unregistered_device`: the app of the token. If it is absent, the token is removed
    /// for all apps.
    app_id: Option<String>,
    /// Only for `unsubscribed`: the subscription group of the message that the person replied to.
    /// If it is absent, the opt-out holds for all groups of the provider's channel.
    subscription_group_id: Option<String>,
    /// Only for `unsubscribed`, `delivered` and `failed`: the time of the event.
    at: Option<Time>,
    #[schemars(description = format!("Only for `failed`: the reason. At most {MAX_REASON_LENGTH} \
                                      characters are stored."))]
    reason: Option<String>,
}

/// The fields of a report of this type.
fn report(kind: &str, required: &[&str]) -> Value {
    let strings = required.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
    let mut fields: Map<String, Value> = strings.collect();
    fields.insert("type".to_owned(), json!({ "const": kind }));
    json!({ "properties": fields, "required": required })
}

impl TryFrom<ReportFields> for Report {
    type Error = String;

    fn try_from(fields: ReportFields) -> Result<Self, String> {
        let ReportFields {
            kind,
            number,
            id,
            token,
            app_id,
            subscription_group_id: group,
            at,
            reason,
        } = fields;
        let required = |field: Option<String>, name| field.ok_or(format!(".{name} is required"));
        Ok(match kind {
            Type::InvalidNumber => Self::InvalidNumber(number.ok_or(".number is required")?),
            Type::Unsubscribed => {
                Self::Unsubscribed { number: number.ok_or(".number is required")?, group, at }
            }
            // The id of a message that was sent to the token identifies the user.
            Type::UnregisteredDevice => Self::UnregisteredDevice {
                id: required(id, "id")?,
                token: required(token, "token")?,
                app_id,
            },
            Type::Delivered => Self::StatusUpdate {
                id: required(id, "id")?,
                status: ReportedStatus::Delivered,
                at,
                reason: None,
            },
            Type::Failed => Self::StatusUpdate {
                id: required(id, "id")?,
                status: ReportedStatus::Failed,
                at,
                reason,
            },
        })
    }
}

/// The result of parsing reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    invalid_numbers: Vec<PhoneNumber>,
    unregistered: Vec<UnregisteredDevice>,
    opt_outs: Vec<OptOut>,
    updates: Vec<StatusUpdate>,
}

/// A person opted out by a reply.
#[derive(Debug, PartialEq, Eq)]
struct OptOut {
    /// The position of the report in the request.
    index: usize,
    number: PhoneNumber,
    group: Option<String>,
    at: Option<Time>,
}

impl OptOut {
    /// The decisions about the number: in its group, or in all groups of the channel. `now` is the
    /// database's time, in milliseconds since the epoch, because decisions are ordered by it.
    fn decisions(
        &self,
        provider: &str,
        settings: &Settings,
        now: i64,
    ) -> Result<impl Iterator<Item = NewDecision<'_>>, ApiError> {
        let invalid = |field: &str, why: String| {
            ApiError::invalid_field(format!("reports[{}].{field} {why}", self.index))
        };
        if provider == PUSH {
            return Err(invalid("type", "must not be unsubscribed for push".to_owned()));
        }
        let group = self.group.as_deref().map(|text| Uuid::try_parse(text).ok());
        let groups = settings.subscription_groups.iter().filter(|known| {
            known.channel.name() == provider && group.is_none_or(|group| group == Some(known.id))
        });
        let groups: Vec<Uuid> = groups.map(|group| group.id).collect();
        if group.is_some() && groups.is_empty() {
            let why = format!("does not match a {provider} subscription group in this workspace");
            return Err(invalid("subscription_group_id", why));
        }
        let at = time_of_event(self.at, now);
        let decision = move |group: Uuid| {
            NewDecision::group_opt_out(self.number.e164(), group.to_string(), at)
        };
        Ok(groups.into_iter().map(decision))
    }
}

/// A device that is no longer registered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnregisteredDevice {
    /// A message that was sent to it.
    message: MessageId,
    app_id: Option<String>,
    token: String,
}

/// Parses a body; the error names what is wrong. Ignores reports about messages without a Longshore
/// id.
pub fn read(body: &JsonText, now: i64) -> Result<Feedback, ApiError> {
    let mut feedback = Feedback::default();
    let FeedbackRequest { reports } = fields::read_report(&body.object()?)?;
    for (index, report) in reports.0.into_iter().enumerate() {
        match report {
            Report::Unsubscribed { number, group, at } => {
                feedback.opt_outs.push(OptOut { index, number, group, at });
            }
            Report::InvalidNumber(number) => feedback.invalid_numbers.push(number),
            Report::UnregisteredDevice { id, token, app_id } => {
                let device = |message: MessageId| UnregisteredDevice { message, app_id, token };
                feedback.unregistered.extend(MessageId::parse(&id).map(device));
            }
            Report::StatusUpdate { id, status, at, reason } => {
                let (at, reason) = (time_of_event(at, now), stored_reason(reason));
                let update = |id| StatusUpdate { id, status, at, reason, address: None };
                feedback.updates.extend(MessageId::parse(&id).map(update));
            }
        }
    }
    feedback.invalid_numbers.sort_unstable();
    feedback.invalid_numbers.dedup();
    // All reports lock rows in one order.
    feedback.updates.sort_by_key(|update| update.id);
    Ok(feedback)
}

/// Applies the reports, in one transaction; once, however often the request is repeated: later
/// changes are not undone.
pub async fn apply(
    app: &App,
    workspace: i32,
    provider: &str,
    key: &IdempotencyKey,
    feedback: &Feedback,
) -> Result<(), ApiError> {
    let Feedback { invalid_numbers, unregistered, opt_outs, updates } = feedback;
    let settings = settings::find(app, workspace).await?;
    let mut tx = app.request_queue.write().await?;
    if !idempotency::is_first(&mut tx, key).await? {
        return Ok(());
    }
    let mut decisions = Vec::new();
    if !opt_outs.is_empty() {
        let now = app.database_now(&mut tx).await?;
        for opt_out in opt_outs {
            decisions.extend(opt_out.decisions(provider, &settings, now)?);
        }
    }
    if !unregistered.is_empty() {
        let messages: Vec<MessageId> = unregistered.iter().map(|device| device.message).collect();
        // A message whose record was deleted is older.
        let retention_ms = i64::from(app.config.messages.keep_days) * DAY_MS;
        let oldest = app.clock.now_ms() - retention_ms;
        let sent_at = dispatch::sent_at(&mut tx, workspace, &messages).await?;
        let token = |device: &UnregisteredDevice| InvalidToken {
            service_id: device.message.service_id,
            app_id: device.app_id.clone(),
            token: device.token.clone(),
            sent_at: sent_at.get(&device.message).copied().unwrap_or(oldest),
        };
        let tokens: Vec<InvalidToken> = unregistered.iter().map(token).collect();
        devices::remove_tokens(&mut tx, workspace, &tokens).await?;
    }
    if !invalid_numbers.is_empty() {
        let now = app.clock.now_ms();
        sms::add(&mut tx, workspace, invalid_numbers, INVALID_BY_PROVIDER, now).await?;
    }
    apply_updates(app, &mut tx, workspace, updates).await?;
    suppressions::decide(&mut tx, workspace, &decisions).await?;
    tx.commit().await?;
    let count = |kind: &'static str, count: usize| {
        metrics::counter!("longshore_message_reports_total", "type" => kind)
            .increment(count as u64);
    };
    count("invalid_number", invalid_numbers.len());
    count("unregistered_device", unregistered.len());
    count("unsubscribed", opt_outs.len());
    updates.iter().for_each(|update| count(update.status.name(), 1));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::workspaces::Channel;

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
            { "type": "unsubscribed", "number": "001 555-0101", "at": "2100-01-01T00:00:00Z" },
        ] }));
        let update = |status, at, reason: Option<&str>| StatusUpdate {
            id,
            status,
            at,
            reason: reason.map(str::to_owned),
            address: None,
        };
        let now = 1_700_000_000_000;
        assert_eq!(
            feedback.unwrap(),
            Feedback {
                invalid_numbers: vec![PhoneNumber::parse("+15550100").unwrap()],
                unregistered: vec![UnregisteredDevice {
                    message: id,
                    app_id: Some("a".into()),
                    token: "t".into(),
                }],
                opt_outs: vec![OptOut {
                    index: 6,
                    number: PhoneNumber::parse("+15550101").unwrap(),
                    group: None,
                    at: Some(Time(4_102_444_800_000)),
                }],
                updates: vec![
                    update(ReportedStatus::Delivered, now - 1_000, None),
                    update(ReportedStatus::Failed, now, Some("blocked")),
                ],
            }
        );
    }

    #[test]
    fn errors_name_the_invalid_field() {
        let many = vec![json!({ "type": "invalid_number", "number": "+15550100" }); 501];
        for (body, text) in [
            (json!({ "reports": [] }), "reports must have 1 to 500 elements"),
            (json!({ "reports": many }), "reports must have 1 to 500 elements"),
            (
                json!({ "reports": [{ "type": "read" }] }),
                "reports[0].type must be one of invalid_number, unregistered_device, \
                 unsubscribed, delivered and failed",
            ),
            (
                json!({ "reports": [{ "type": "invalid_number", "number": "5" }] }),
                "reports[0].number: \"5\" is not a valid phone number",
            ),
            (json!({ "reports": [{ "type": "unsubscribed" }] }), "reports[0].number is required"),
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
