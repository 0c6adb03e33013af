//! `POST /users/messages`: what a user got, and why not (docs/reference/api/user-messages.md). The
//! identifier is in the body, because addresses in URLs get into the logs of proxies.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::app::App;
use crate::transactional;
use crate::user_message_rows;
use gateway::formats::{Limit, SuccessText, exactly_one};
use gateway::openapi::Tag;
use gateway::paging::{self, CURSOR, MAX_PAGE, PAGE};
use gateway::workspaces::Channel;
use gateway::{self, Access, ApiError, Caller, JsonText, Operation, Routes, fields};
use kit::clock::{serialize_optional_time, serialize_time};
use kit::retry::Retry as _;
use messages::app::App as MessagesApp;
use messages::dispatch::{self, DispatchError, Explanation, MessageOutcome, WhyNot};
use people::users::rows::For;
use people::users::selector::{self, UserSelector};
use store::Tx;

pub use crate::user_message_rows::{Key, UserMessage, page};

const PERMISSION: &str = "users.messages";

const TAG: Tag = Tag { name: "Messages of users", about: "What a user got, and why not." };

/// The outcomes that only transactional emails have.
const TRANSACTIONAL: [transactional::State; 2] =
    [transactional::State::Processing, transactional::State::Processed];

/// The route.
pub fn routes() -> Routes<App> {
    let route = gateway::protected(PERMISSION, post(list));
    Routes::new().route("/users/messages", route, [describe()])
}

fn describe() -> Operation {
    Operation::new(Method::POST, "listUserMessages", TAG, "List the messages of a user")
        .by(Access::Key(PERMISSION))
        .about(
            "Returns the messages of a user, newest first, whatever their outcome. With a \
             `dispatch_id`, only those of one dispatch, and in `why_not` the reasons for which the \
             user has no message by some of its channels. Messages are kept for some days.",
        )
        .takes::<UserMessagesRequest>(
            "The latest messages",
            json!({ "email": "ann@example.com", "limit": 20 }),
        )
        .returns::<UserMessagePage>(StatusCode::OK, "A page.")
        .with_example(json!({
            "message": "success",
            "user": {
                "service_id": "0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54", "external_id": "ann",
            },
            "messages": [{
                "dispatch_id": "0197b6a83c557e119a1f3f0f3c2d6e54", "channel": "email",
                "campaign_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60", "campaign": "Welcome",
                "is_transactional": false, "outcome": "delivered", "attempts": 1,
                "created_at": "2026-11-21T08:29:28.910Z", "sent_at": "2026-11-21T08:29:29.052Z",
                "may_have_been_sent": false,
            }],
            "next_cursor": "WzE3OTUyNDk3Njg5MTBd",
        }))
        .refuses(
            &selector::several("email", &[Uuid::nil(), Uuid::max()]),
            "The address is of several users",
        )
        .refuses(&no_user("email"), "No user of this workspace has the identifier")
        .refuses(&no_dispatch(), "No dispatch of this workspace has the dispatch_id")
}

fn no_user(field: &str) -> ApiError {
    ApiError::NotFound(format!("No user has this {field}"))
}

fn no_dispatch() -> ApiError {
    ApiError::NotFound("No dispatch has this dispatch_id".into())
}

// The request --------------------------------------------------------------------------------

/// The user, by exactly one identifier, and the page.
#[derive(JsonSchema)]
#[schemars(transform = exactly_one(&selector::FIELDS))]
struct UserMessagesRequest {
    #[serde(flatten)]
    _user: UserSelector,
    #[serde(flatten)]
    _page: PageFields,
}

/// Which of the user's messages to return.
#[derive(Debug, Deserialize, JsonSchema)]
struct PageFields {
    /// Only messages of this dispatch.
    dispatch_id: Option<DispatchId>,
    /// Maximum number of messages on a page.
    limit: Option<Limit<PAGE, MAX_PAGE>>,
    /// The `next_cursor` of the previous page.
    #[schemars(length(min = 1))]
    cursor: Option<String>,
}

/// A dispatch_id.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend("pattern" = "^[0-9a-fA-F]{32}$"))]
struct DispatchId(Uuid);

impl TryFrom<String> for DispatchId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let id = Uuid::try_parse(&text).ok().filter(|_| text.len() == 32);
        id.map(Self).ok_or("must have 32 hexadecimal digits")
    }
}

/// A request's fields, checked.
#[derive(Debug)]
pub struct Query {
    user: UserSelector,
    dispatch: Option<Uuid>,
    limit: i64,
    after: Option<Key>,
}

/// Reads the fields of a request.
pub fn read(
    mut members: serde_json::Map<String, serde_json::Value>,
    alias: Option<&str>,
) -> Result<Query, ApiError> {
    selector::rename_alias(&mut members, alias)?;
    let (user, page) = fields::read_both::<UserSelector, PageFields>(&members)?;
    user.mention()?;
    let PageFields { dispatch_id, limit, cursor } = page;
    let after = cursor.map(|cursor| {
        let key = paging::read_cursor(&cursor);
        key.ok_or_else(|| ApiError::invalid_field(format!("cursor must be {CURSOR}")))
    });
    Ok(Query {
        user,
        dispatch: dispatch_id.map(|DispatchId(id)| id),
        limit: limit.unwrap_or_default().0,
        after: after.transpose()?,
    })
}

// The response -------------------------------------------------------------------------------

/// A page of the messages of a user.
#[derive(Serialize, JsonSchema)]
struct UserMessagePage {
    message: SuccessText,
    user: FoundUser,
    messages: Vec<MessageEntry>,
    /// Cursor of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// The reasons for which the user has no message by some channels of the dispatch, as of now.
    /// Present if the request has a `dispatch_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<Vec<Reason>>,
}

/// The user of the request.
#[derive(Serialize, JsonSchema)]
struct FoundUser {
    service_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
}

/// A message to the user.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UserMessage")]
struct MessageEntry {
    dispatch_id: String,
    #[schemars(extend("enum" = Channel::ALL.map(Channel::name)))]
    channel: &'static str,
    /// The campaign or the Canvas, if the message is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign_id: Option<Uuid>,
    /// Its name. Absent if it is no longer declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<String>,
    /// Whether it is a transactional email.
    is_transactional: bool,
    /// `waiting` and `processing` are not final. `sent`: the channel accepted it. `processing` and
    /// `processed` are of transactional emails.
    #[schemars(extend("enum" = outcomes()))]
    outcome: String,
    /// Absent for transactional emails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    attempts: Option<i32>,
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    created_at: i64,
    /// When the next attempt is due. Present while the message waits for one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_optional_time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    next_at: Option<i64>,
    /// When the channel accepted it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_optional_time")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    sent_at: Option<i64>,
    /// Why it was not sent, or is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether the user may have the message although the channel did not accept it, as far as is
    /// known: the receiver did not respond to an attempt, or a worker was lost. Absent for
    /// transactional emails.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_have_been_sent: Option<bool>,
}

fn outcomes() -> Vec<&'static str> {
    let of_messages = MessageOutcome::ALL.iter().map(|outcome| outcome.name());
    of_messages.chain(TRANSACTIONAL.map(transactional::State::name)).collect()
}

impl From<UserMessage> for MessageEntry {
    fn from(stored: UserMessage) -> Self {
        let outcome = stored.outcome();
        Self {
            dispatch_id: stored.dispatch_id.simple().to_string(),
            channel: stored.channel.name(),
            campaign_id: stored.campaign_id,
            campaign: stored.campaign,
            is_transactional: stored.attempts.is_none(),
            next_at: stored.next_at.filter(|_| outcome == Some(MessageOutcome::Waiting)),
            // A transactional email has states of its own.
            outcome: outcome.map_or(stored.state, |outcome| outcome.name().to_owned()),
            attempts: stored.attempts,
            created_at: stored.created_at,
            sent_at: stored.sent_at,
            reason: stored.reason,
            may_have_been_sent: stored.may_have_been_sent,
        }
    }
}

/// Why the user has no message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WhyNot")]
struct Reason {
    #[schemars(extend("enum" = WhyNot::ALL.map(WhyNot::name)))]
    reason: &'static str,
    /// The channel. Absent if the reason applies to all channels of the dispatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = Channel::ALL.map(Channel::name)))]
    channel: Option<&'static str>,
    /// When the messages of the dispatch are due for the user, if the reason is the user's local
    /// time. When emails are sent again, if it is a bounce.
    #[serde(serialize_with = "serialize_optional_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    due_at: Option<i64>,
}

impl From<Explanation> for Reason {
    fn from(Explanation { why, channel, due_at }: Explanation) -> Self {
        Self { reason: why.name(), channel: channel.map(Channel::name), due_at }
    }
}

/// `POST /users/messages`.
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: JsonText,
) -> Result<Json<UserMessagePage>, ApiError> {
    let workspace = caller.workspace.id;
    let alias = caller.workspace.aliases.service_id.as_deref();
    let Query { user, dispatch, limit, after } = read(body.object_in_place(&app)?, alias)?;
    let mut tx = app.request_queue.snapshot().await?;
    let user = find(&mut tx, workspace, &user).await?;
    let key = (workspace, user.service_id);
    let found = page(&mut tx, key, dispatch, after, limit + 1).await?;
    let why_not = match dispatch {
        Some(dispatch) => {
            let reasons = explain(&app, &mut tx, key, dispatch).await.map_err(api_error)?;
            Some(reasons.ok_or_else(no_dispatch)?.into_iter().map(Reason::from).collect())
        }
        None => None,
    };
    tx.commit().await?;
    let (messages, next) = paging::page_of(found, limit, UserMessage::key);
    Ok(Json(UserMessagePage {
        message: SuccessText::Success,
        user,
        messages: messages.into_iter().map(MessageEntry::from).collect(),
        next_cursor: next.as_ref().map(paging::cursor),
        why_not,
    }))
}

/// The only user with an identifier.
async fn find(tx: &mut Tx, workspace: i32, user: &UserSelector) -> Result<FoundUser, ApiError> {
    let (field, mention) = user.mention()?;
    let stored = selector::find(tx, workspace, (field, mention), For::ReadingKeys).await?;
    let stored = stored.ok_or_else(|| no_user(field))?;
    Ok(FoundUser { service_id: stored.service_id, external_id: stored.external_id })
}

/// Why a user has no message by some channels of a dispatch. None if the workspace has no such
/// dispatch.
pub async fn explain(
    app: &MessagesApp,
    tx: &mut Tx,
    key: (i32, Uuid),
    dispatch: Uuid,
) -> Result<Option<Vec<Explanation>>, DispatchError> {
    // A dispatch has fewer channels.
    let got = page(tx, key, Some(dispatch), None, MAX_PAGE).await?;
    let got: Vec<Channel> = got.into_iter().map(|message| message.channel).collect();
    let reasons = dispatch::explain(app, tx, key, dispatch, &got).await?;
    if reasons.is_some() {
        return Ok(reasons);
    }
    if !got.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let is_transactional = user_message_rows::is_transactional(tx, key.0, dispatch).await?;
    Ok(is_transactional.then(|| vec![WhyNot::NotListed.into()]))
}

/// The error of a request.
pub fn api_error(error: DispatchError) -> ApiError {
    match error {
        DispatchError::Store(error) => error.into(),
        DispatchError::Costly(error) => error.into(),
        error if error.can_retry() => ApiError::Unavailable(error.to_string()),
        error => ApiError::Internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use gateway::Code;

    fn read_value(body: Value) -> Result<Query, ApiError> {
        read(body.as_object().unwrap().clone(), Some("their_id"))
    }

    #[test]
    fn a_page_of_one_user_is_read() {
        let id = Uuid::from_u128(7);
        let cursor = paging::cursor(&(5, id, Channel::Sms));
        let body = json!({
            "their_id": id, "limit": 7, "cursor": cursor, "dispatch_id": id.simple().to_string(),
        });
        let query = read_value(body).unwrap();
        assert_eq!(query.user.mention().unwrap().0, "service_id");
        assert_eq!((query.dispatch, query.limit), (Some(id), 7));
        assert_eq!(query.after, Some((5, id, Channel::Sms)));
        let query = read_value(json!({ "external_id": "ann", "limit": null })).unwrap();
        assert_eq!((query.dispatch, query.limit, query.after), (None, PAGE, None));
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (field, wrong) in [
            ("limit", json!(0)),
            ("limit", json!(101)),
            ("limit", json!("7")),
            ("limit", json!(-1)),
            ("cursor", json!("")),
            ("cursor", json!(paging::cursor(&(5, "x", "sms")))),
            ("cursor", json!(paging::cursor(&(5, Uuid::nil(), "fax")))),
            ("dispatch_id", json!("7")),
            ("dispatch_id", json!(Uuid::nil())),
            ("external_ids", json!(["a"])),
            ("segment_id", json!("a")),
        ] {
            let error = read_value(json!({ "external_id": "ann", field: wrong })).unwrap_err();
            assert!(error.message().starts_with(field), "{field}: {}", error.message());
            assert_eq!(error.code(), Code::InvalidField);
        }
        assert!(read_value(json!({ "limit": 7 })).is_err());
    }

    #[test]
    fn open_messages_of_a_dispatch_that_ended_early_are_cancelled() {
        use dispatch::State::{Cancelled, Done, Running};

        let entry = |state: &str, dispatch_state, attempts| {
            let entry = MessageEntry::from(UserMessage {
                dispatch_id: Uuid::nil(),
                channel: Channel::Email,
                campaign_id: None,
                campaign: None,
                state: state.to_owned(),
                dispatch_state,
                dispatch_kind: None,
                attempts,
                created_at: 1,
                next_at: Some(2),
                sent_at: None,
                reason: None,
                may_have_been_sent: None,
            });
            assert!(outcomes().contains(&entry.outcome.as_str()), "{}", entry.outcome);
            (entry.outcome, entry.next_at)
        };
        let expected = |outcome: &str, next_at| (outcome.to_owned(), next_at);
        assert_eq!(entry("pending", Some(Running), Some(0)), expected("waiting", Some(2)));
        assert_eq!(entry("waiting", Some(Cancelled), Some(1)), expected("cancelled", None));
        assert_eq!(entry("sent", Some(Done), Some(1)), expected("sent", None));
        assert_eq!(entry("bounced", None, Some(1)), expected("bounced", None));
        assert_eq!(entry("processing", None, None), expected("processing", None));
    }
}
