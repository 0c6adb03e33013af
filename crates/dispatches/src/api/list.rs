//! The list of a workspace's dispatches, latest first.

use axum::Extension;
use axum::extract::{RawQuery, State as AppState};
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{EXAMPLE, TAG};
use crate::orders::DISPATCH_ID;
use crate::{DispatchAudience, DispatchSummary, Filter, ListPosition, ListedKind, LocalTime};
use gateway::formats::schema_of;
use gateway::paging::{self, MAX_PAGE, Paging};
use gateway::workspaces::Channel;
use gateway::{
    self, Access, ApiError, Caller, Operation, Routes, name_parameter, parameter, time_range,
};
use kit::clock::{serialize_optional_time, serialize_time};
use messages::Timing;
use messages::app::App;
use messages::dispatch::LeftOut;
use messages::dispatch::state::{MessageTotals, State};

const PERMISSION: &str = "messages.dispatches.list";

pub(super) fn routes() -> Routes<App> {
    Routes::new().route(
        "/messages/dispatches",
        gateway::protected(PERMISSION, get(list)),
        [describe()],
    )
}

fn describe() -> Operation {
    Operation::new(Method::GET, "listDispatches", TAG, "List dispatches")
        .by(Access::Key(PERMISSION))
        .about(
            "Latest first: of requests to send, of schedules and of campaigns that purchases \
             start. A dispatch is in the list once a worker has read its request, usually within a \
             second. Transactional emails are listed only with `kind=transactional`, or \
             with the `campaign_id` of a transactional campaign: each as a dispatch to one user. \
             `POST /users/messages` has more about one. Dispatches are deleted \
             `messages.keep_days` after their end. A page may have fewer dispatches than `limit`, or \
             none, although others follow: continue until `next_cursor` is absent.",
        )
        .in_query(
            "state",
            "Only dispatches in this state.",
            json!({ "enum": State::ALL.map(State::name) }),
        )
        .in_query(
            "kind",
            "Only dispatches with this cause.",
            json!({ "enum": ListedKind::ALL.map(ListedKind::name) }),
        )
        .in_query(
            "campaign_id",
            "Only dispatches of this campaign or Canvas.",
            schema_of::<Uuid>(),
        )
        .takes_time_range("dispatches accepted")
        .takes_cursor("dispatches")
        .refuses_some(["state=lost"].map(read), "A parameter is invalid or repeated")
        .returns::<Page>(StatusCode::OK, "A page.")
        .with_example(json!({
            "dispatches": [example()], "next_cursor": "MTc5NTI0OTc2ODkxMCAwMTk3YjZhOA",
        }))
}

pub(super) fn example() -> Value {
    json!({
        "dispatch_id": EXAMPLE, "state": "done", "kind": "send",
        "campaign_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60", "campaign_name": "Spring",
        "send_id": "spring",
        "audience": {
            "type": "segment", "segment_id": "4f0e6b1a-9c3d-4e7f-8a2b-1c0d9e8f7a72",
            "segment_name": "Gold", "is_limited": false,
        },
        "channels": ["email"],
        "users": { "checked": 2013, "total": 2013, "matched": 813 },
        "left_out": {
            "unknown": 0, "not_in_audience": 1200, "control_group": 0, "too_late": 0,
            "unsubscribed": 13, "capped": 0,
        },
        "messages": {
            "sent": 797, "bounced": 1, "unreachable": 2, "aborted": 0, "failed": 0,
        },
        "accepted_at": "2026-11-21T08:29:28.910Z", "started_at": "2026-11-21T08:29:29.016Z",
        "finished_at": "2026-11-21T08:29:31.052Z", "requested_by": "key:app",
        "request_id": "01JD6Z3W8Q",
    })
}

async fn list(
    AppState(app): AppState<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<axum::Json<Page>, ApiError> {
    let filter = read(query.as_deref().unwrap_or_default()).map_err(ApiError::Invalid)?;
    let filter = Filter { workspace: Some(caller.workspace.id), ..filter };
    let mut tx = app.request_queue.snapshot().await?;
    let page = crate::list(&mut tx, &filter).await?;
    Ok(axum::Json(Page {
        next_cursor: page.next.as_ref().map(paging::cursor),
        dispatches: page.dispatches.into_iter().map(Dispatch::from).collect(),
    }))
}

/// Reads the parameters; the error names the invalid one. Ignores unknown parameters.
fn read(query: &str) -> Result<Filter, String> {
    let Paging { limit, after } = Paging::read(query)?;
    Ok(Filter {
        workspace: None,
        state: name_parameter(query, "state", State::ALL, State::name)?,
        kind: name_parameter(query, "kind", ListedKind::ALL, ListedKind::name)?,
        campaign_id: parameter(query, "campaign_id", "a UUID", |id| Uuid::try_parse(id).ok())?,
        accepted: time_range(query)?,
        after: after.unwrap_or(ListPosition::START),
        limit,
    })
}

/// A page of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DispatchPage")]
struct Page {
    #[schemars(length(max = MAX_PAGE))]
    dispatches: Vec<Dispatch>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A dispatch. Times are ISO 8601 in UTC.
#[derive(Serialize, JsonSchema)]
pub(super) struct Dispatch {
    #[schemars(regex(pattern = DISPATCH_ID))]
    dispatch_id: String,
    /// `done`, `failed` and `cancelled` are final. `cancelling` is followed by `cancelled`:
    /// messages that workers already hold may still go out.
    #[schemars(with = "String", extend("enum" = State::ALL.map(State::name)))]
    state: State,
    /// What caused it.
    #[schemars(with = "String", extend("enum" = ListedKind::ALL.map(ListedKind::name)))]
    kind: ListedKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign_id: Option<Uuid>,
    /// The campaign's name; absent if the campaign was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign_name: Option<String>,
    /// The `send_id` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    send_id: Option<String>,
    audience: DispatchAudience,
    /// The channels of its messages.
    #[schemars(with = "Vec<String>")]
    channels: Vec<Channel>,
    users: CheckedUsers,
    /// Absent unless the dispatch is at local times.
    #[serde(skip_serializing_if = "Option::is_none")]
    local_time: Option<DispatchLocalTime>,
    left_out: LeftOut,
    messages: MessageCounts,
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    accepted_at: i64,
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    started_at: Option<i64>,
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    finished_at: Option<i64>,
    /// Who asked for it, as in the audit log: `key:` and the name of the key, or `command:` and
    /// the name of the person. Absent for a purchase that starts a campaign, and for dispatches of
    /// earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_by: Option<String>,
    request_id: String,
}

/// The users of a dispatch: all that it reads, whether or not they are in its audience.
#[derive(Serialize, JsonSchema)]
struct CheckedUsers {
    checked: i64,
    /// Once the dispatch has ended, `total` minus `checked` is the number of users that it never
    /// reached.
    total: i64,
    /// The checked users that the dispatch is for: those who exist, are in the audience, are not
    /// in the control group, and whose local time had not passed.
    matched: i64,
    /// Users who wait for their local time. Absent unless the dispatch is at local times.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<i64>,
}

/// The local time at which each user gets the messages.
#[derive(Serialize, JsonSchema)]
struct DispatchLocalTime {
    /// `optimal`: each user's best hour of the day.
    #[schemars(with = "String", extend("enum" = [Timing::Local.name(), Timing::Optimal.name()]))]
    timing: Timing,
    /// The local time, as if it were in UTC.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    time: i64,
    /// When the next users get their messages. Absent if nobody waits any more.
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    next_at: Option<i64>,
    /// When the time occurs in the last time zone.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    last_at: i64,
}

impl From<LocalTime> for DispatchLocalTime {
    fn from(LocalTime { timing, time, next_at, last_at }: LocalTime) -> Self {
        Self { timing, time, next_at, last_at }
    }
}

/// Messages by outcome, as the channels first reported it. Each counts once.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageCounts {
    sent: i64,
    bounced: i64,
    unreachable: i64,
    aborted: i64,
    failed: i64,
}

impl From<MessageTotals> for MessageCounts {
    fn from(totals: MessageTotals) -> Self {
        let MessageTotals { sent, bounced, unreachable, aborted, failed } = totals;
        Self { sent, bounced, unreachable, aborted, failed }
    }
}

impl From<DispatchSummary> for Dispatch {
    fn from(summary: DispatchSummary) -> Self {
        let local_time = summary.local_time();
        let waiting = local_time.map(|_| summary.waiting_users());
        Self {
            dispatch_id: summary.id.simple().to_string(),
            state: summary.state,
            kind: summary.kind,
            campaign_id: summary.campaign_id,
            campaign_name: summary.campaign,
            send_id: summary.send_id,
            audience: summary.audience,
            channels: summary.channels.0,
            users: CheckedUsers {
                checked: summary.walked,
                total: summary.users,
                matched: summary.matched,
                waiting,
            },
            local_time: local_time.map(DispatchLocalTime::from),
            left_out: summary.left_out,
            messages: summary.messages.into(),
            accepted_at: summary.accepted_at,
            started_at: summary.started_at,
            finished_at: summary.finished_at,
            requested_by: summary.requested_by,
            request_id: summary.request_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_name_the_invalid_parameter() {
        for (query, name) in [
            ("state=lost", "state"),
            ("state=done&state=done", "state"),
            ("kind=email", "kind"),
            ("campaign_id=x", "campaign_id"),
            ("since=yesterday", "since"),
            ("since=2026-01-02&until=2026-01-01", "since"),
            ("limit=101", "limit"),
            ("limit=+1", "limit"),
            ("cursor=x", "cursor"),
        ] {
            let error = read(query).expect_err(query);
            assert!(error.starts_with(name), "{query}: {error}");
        }
        let filter = read("state=done&since=2026-01-01&limit=7").unwrap();
        assert_eq!((filter.state, filter.limit), (Some(State::Done), 7));
        assert_eq!(filter.accepted, 1_767_225_600_000..i64::MAX);
    }

    proptest! {
        #[test]
        fn never_panics(query in "(state|kind|campaign_id|since|until|limit|cursor|[=&%0-9a-fT:.-]|\\PC)*") {
            let _ = read(&query);
        }
    }
}
