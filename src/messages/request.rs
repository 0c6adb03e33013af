//! What a call asks to be sent (src/gateway/README.md, Sending messages).

use std::collections::HashSet;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::content::{Content, Messages, Place, Problem};
use super::order::{Kind, Named, Order, SubscriptionState, Target};
use super::recipient::{MOST_USERS, Members, NAMES, Properties, User};
use crate::audience::Audience;
use crate::campaigns::{ApiCampaign, ApiCampaigns};
use crate::gateway::formats::{Identifier, List, UserAlias, exactly_one};
use crate::gateway::idempotency::Received;
use crate::gateway::{ApiError, fields};
use crate::messages::When;
use crate::messages::when::ScheduleObject;
use crate::workspaces::Budget;
use crate::workspaces::settings::Settings;
use kit::words::beginning;

/// Characters of a `send_id`.
const MOST_SEND_ID: usize = 64;

/// Names the variation of a campaign that a message object is.
const VARIATION: &str = "message_variation_id";

/// Characters of an unknown one that are repeated.
const MOST_SHOWN: usize = 64;

/// Maximum number of errors of message objects in a response.
const MOST_PROBLEMS: usize = 100;

/// The fields that name users.
const USERS: [&str; 3] = ["external_user_ids", "user_aliases", "recipients"];

pub const NO_MESSAGE: &str = "No message to send";
pub const INVALID_CAMPAIGN: &str = "Invalid Campaign ID";
pub const ARCHIVED_CAMPAIGN: &str = "The campaign is archived. Unarchive the campaign in order \
    for trigger requests to take effect.";
pub const PAUSED_CAMPAIGN: &str =
    "The campaign is paused. Resume the campaign in order for trigger requests to take effect.";
pub const UNKNOWN_SEGMENT: &str = "segment_id does not match a segment in this workspace";

/// The messages and their users: at most 50 users in `external_user_ids`, `user_aliases` and
/// `recipients` together, optionally limited to a segment and an audience; or, with `broadcast`, a
/// segment, an audience, or the users of a segment who are in an audience.
#[derive(Debug, JsonSchema)]
pub struct SendRequest {
    #[serde(flatten)]
    to: To,
    #[serde(flatten)]
    what: ToSend,
}

/// The messages to send.
#[derive(Debug, Deserialize, JsonSchema)]
struct ToSend {
    #[schemars(with = "Messages")]
    messages: Option<Messages>,
    /// Frequency capping is ignored.
    #[schemars(extend("default" = false))]
    override_frequency_capping: Option<bool>,
}

/// The messages to schedule, their time, and their users, as for an immediate send; by default the
/// message objects are those that the campaign declares now.
#[derive(Debug, JsonSchema)]
pub struct ScheduleMessagesRequest {
    #[serde(flatten)]
    to: To,
    #[serde(flatten)]
    what: ToSchedule,
}

/// The messages to schedule.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [{ "anyOf": [
    { "properties": { "messages": { "type": "object" } }, "required": ["messages"] },
    {
        "properties": { "campaign_id": { "type": "string" }, "messages": { "type": "null" } },
        "required": ["campaign_id"],
    },
] }]))]
struct ToSchedule {
    #[schemars(with = "ScheduleObject")]
    schedule: When,
    messages: Option<Messages>,
    /// Frequency capping is ignored.
    #[schemars(extend("default" = false))]
    override_messaging_limits: Option<bool>,
}

/// The users and the campaign.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = to_somebody)]
struct To {
    /// Must be true for a whole segment or audience, and must not be with named users.
    #[schemars(extend("default" = false))]
    broadcast: Option<bool>,
    /// Users by their external ids.
    external_user_ids: Option<List<Identifier, 0, MOST_USERS>>,
    /// Users by their aliases.
    user_aliases: Option<List<UserAlias, 0, MOST_USERS>>,
    /// More users, each with properties for the templates. Alone they are rejected.
    recipients: Option<List<Recipient, 0, MOST_USERS>>,
    /// Of a segment that the workspace file declares.
    #[schemars(with = "Option<Uuid>")]
    segment_id: Option<String>,
    /// With named users or a segment: those of them who are in it.
    audience: Option<Audience>,
    /// Of a campaign of type api: its statistics are kept.
    #[schemars(with = "Option<Uuid>")]
    campaign_id: Option<String>,
    /// The caller's own identifier of the send; returned in the response.
    send_id: Option<SendId>,
    /// Which users get emails and push messages, by their `email_subscribe` or `push_subscribe`:
    /// only opted-in users; opted-in and subscribed users; or all users, including unsubscribed
    /// ones. SMS and WhatsApp messages always require that the user is in the message's
    /// subscription group. Webhooks and content cards are sent to all users.
    #[schemars(extend("default" = SubscriptionState::default()))]
    recipient_subscription_state: Option<SubscriptionState>,
}

/// A user, by one of two names, with what templates find under `api_trigger_properties`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MessageRecipient", transform = exactly_one(NAMES))]
struct Recipient {
    external_user_id: Option<Identifier>,
    user_alias: Option<UserAlias>,
    trigger_properties: Option<Properties>,
}

/// The caller's own name of a send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "minLength" = 1, "maxLength" = MOST_SEND_ID, "pattern" = "^[ -~]*$",
))]
struct SendId(String);

impl TryFrom<String> for SendId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        let is_plain = id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match is_plain && (1..=MOST_SEND_ID).contains(&id.len()) {
            true => Ok(Self(id)),
            false => Err(format!("must be 1 to {MOST_SEND_ID} printable ASCII characters")),
        }
    }
}

/// What [`To::wanted`] demands of the fields.
fn to_somebody(schema: &mut Schema) {
    let named = |name: &str| {
        json!({
            "properties": {
                name: { "type": "array", "minItems": 1 }, "broadcast": { "enum": [false, null] },
            },
            "required": [name],
        })
    };
    let [ids, aliases, recipients] = USERS.map(named);
    let limits = [("segment_id", "string"), ("audience", "object")];
    let limit = |(name, kind): (&str, &str)| json!({ "properties": { name: { "type": kind } }, "required": [name] });
    // Recipients alone do not select users.
    let recipients = json!({ "allOf": [recipients, { "anyOf": limits.map(limit) }] });
    let nobody = json!({ "type": ["array", "null"], "maxItems": 0 });
    let [segment, audience] = limits.map(|(name, kind)| {
        json!({
            "properties": {
                name: { "type": kind }, "broadcast": { "const": true },
                USERS[0]: nobody, USERS[1]: nobody, USERS[2]: nobody,
            },
            "required": [name, "broadcast"],
        })
    });
    schema.insert("anyOf".into(), json!([ids, aliases, recipients, segment, audience]));
}

/// An error of a message object, and its path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MessageProblem {
    #[serde(rename = "type")]
    pub text: String,
    pub path: String,
}

/// The fields that both calls have, checked, with the messages that can be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub send_id: Option<String>,
    /// Errors of message objects that are skipped.
    pub problems: Vec<MessageProblem>,
    campaign_id: Option<Uuid>,
    target: Target,
    messages: Map<String, Value>,
    subscription_state: SubscriptionState,
    ignores_capping: bool,
    /// For users who are not named.
    trigger_properties: Option<Map<String, Value>>,
}

impl SendRequest {
    /// Reads a body of `POST /messages/send`.
    pub fn read(
        body: &Members,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<Wanted, ApiError> {
        let Self { to, what } = Self { to: fields::read(body)?, what: fields::read(body)? };
        let messages = what.messages.map(|Messages(messages)| messages);
        let ignores_capping = what.override_frequency_capping.unwrap_or_default();
        to.wanted(messages.as_ref(), Place::Send, ignores_capping, settings, campaigns)
    }
}

impl ScheduleMessagesRequest {
    /// Reads a body of `POST /messages/schedule/create`. Whether the time is past is not looked
    /// at. `declared` are the message objects of the campaign that [`campaign_asked`] names.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<(When, Wanted), ApiError> {
        let Self { to, what } = Self { to: fields::read(body)?, what: fields::read(body)? };
        let messages = what.messages.map(|Messages(messages)| messages);
        let messages = messages.as_ref().or(declared);
        let ignores_capping = what.override_messaging_limits.unwrap_or_default();
        let wanted = to.wanted(messages, Place::Schedule, ignores_capping, settings, campaigns)?;
        Ok((what.schedule, wanted))
    }
}

fn given<'a>(body: &'a Members, name: &str) -> Option<&'a Value> {
    body.get(name).filter(|value| !value.is_null())
}

/// The campaign whose message objects are scheduled, since there are no others.
pub fn campaign_asked(body: &Members) -> Option<Uuid> {
    let id = given(body, "campaign_id").filter(|_| given(body, "messages").is_none());
    id.and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
}

/// What a call that sends counts against, before its fields are read.
pub fn budget(body: &Members) -> Budget {
    let is_named = |name: &&str| {
        let users = given(body, name);
        users.is_some_and(|users| users.as_array().is_none_or(|users| !users.is_empty()))
    };
    let is_there = |name: &&str| given(body, name).is_some();
    let is_broadcast = given(body, "broadcast") == Some(&Value::Bool(true));
    match USERS.iter().any(is_named) {
        false if is_broadcast || ["segment_id", "audience"].iter().any(is_there) => {
            Budget::MessagesSendAudience
        }
        _ => Budget::MessagesSend,
    }
}

impl To {
    fn wanted(
        self,
        messages: Option<&Map<String, Value>>,
        place: Place,
        ignores_capping: bool,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<Wanted, ApiError> {
        let ids = self.external_user_ids.unwrap_or_default().0;
        let aliases = self.user_aliases.unwrap_or_default().0;
        let is_named = !ids.is_empty() || !aliases.is_empty();
        let users = users(self.recipients.unwrap_or_default().0, ids, aliases)?;
        let segment_id = segment(self.segment_id.as_deref(), settings)?;
        let campaign = campaign(self.campaign_id.as_deref(), campaigns)?;
        let is_limited = segment_id.is_some() || self.audience.is_some();
        let wrong = match (self.broadcast.unwrap_or_default(), users.is_empty()) {
            (true, false) => Some("broadcast must not be true if users are given"),
            // Recipients add data to listed users, and do not replace them.
            _ if !is_named && !is_limited => {
                Some("one of external_user_ids, user_aliases, segment_id and audience is required")
            }
            (false, true) => Some("Set broadcast to true to send to a whole segment or audience"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(ApiError::invalid_field(wrong));
        }
        let (_, messages, problems) = contents(messages, place, settings)?;
        if let Some((_, campaign)) = campaign {
            check_variations(&messages, campaign)?;
        }
        let audience = self.audience.map(|audience| audience.to_json());
        Ok(Wanted {
            send_id: self.send_id.map(|SendId(id)| id),
            problems,
            campaign_id: campaign.map(|(id, _)| id),
            target: Target { users, segment_id, audience },
            messages,
            subscription_state: self.recipient_subscription_state.unwrap_or_default(),
            ignores_capping,
            trigger_properties: None,
        })
    }
}

/// A send of a campaign to listed users, which an audience may restrict; or with `broadcast` to an
/// audience, or to all users.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TriggerRequest {
    /// Of a campaign of type api that declares messages.
    #[schemars(with = "Uuid")]
    campaign_id: String,
    send_id: Option<SendId>,
    /// What templates find under `api_trigger_properties`; a recipient's own go before these.
    trigger_properties: Option<Properties>,
    #[schemars(extend("default" = false))]
    broadcast: Option<bool>,
    audience: Option<Audience>,
    recipients: Option<List<TriggerRecipient, 0, MOST_USERS>>,
}

/// A user, by one of two names.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = exactly_one(NAMES))]
struct TriggerRecipient {
    external_user_id: Option<Identifier>,
    user_alias: Option<UserAlias>,
    trigger_properties: Option<Properties>,
    /// Must be absent or empty: call `POST /users/track` first.
    attributes: Option<Map<String, Value>>,
}

/// A scheduled send of a campaign, with the users of a send without a schedule.
#[derive(Debug, JsonSchema)]
pub struct ScheduleCampaignRequest {
    #[serde(flatten)]
    _what: TriggerRequest,
    #[serde(flatten)]
    _time: ScheduleTime,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ScheduleTime {
    #[schemars(with = "ScheduleObject")]
    schedule: When,
}

impl ScheduleCampaignRequest {
    /// Reads a body of `POST /campaigns/trigger/schedule/create`. Whether the time is past is not
    /// looked at.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<(When, Wanted), ApiError> {
        let ScheduleTime { schedule } = fields::read(body)?;
        Ok((schedule, TriggerRequest::read(body, declared, settings, campaigns)?))
    }
}

impl TriggerRequest {
    /// Reads a body of `POST /campaigns/trigger/send`. `declared` are the message objects of its
    /// campaign.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<Wanted, ApiError> {
        let request: Self = fields::read(body)?;
        let invalid = |text: String| Err(ApiError::invalid_field(text));
        let campaign = campaign(Some(&request.campaign_id), campaigns)?.map(|(id, _)| id);
        let all = request.trigger_properties.map(|Properties(all)| all);
        let (mut users, mut seen) = (Vec::new(), HashSet::new());
        for (i, one) in request.recipients.unwrap_or_default().0.into_iter().enumerate() {
            if one.attributes.is_some_and(|attributes| !attributes.is_empty()) {
                return invalid(format!("recipients[{i}].attributes is not supported here"));
            }
            let user = User::of(one.external_user_id, one.user_alias)
                .map_err(|why| ApiError::invalid_field(format!("recipients[{i}] {why}")))?;
            let own = one.trigger_properties.map(|Properties(own)| own);
            let trigger_properties = match (all.clone(), own) {
                (Some(mut all), Some(own)) => {
                    all.extend(own);
                    Some(all)
                }
                (all, own) => own.or(all),
            };
            let named = Named { trigger_properties, ..user.into() };
            if seen.insert(named.who.clone()) {
                users.push(named);
            }
        }
        match (request.broadcast.unwrap_or_default(), users.is_empty()) {
            (true, false) => {
                return invalid("broadcast must not be true if users are given".into());
            }
            (false, true) => {
                return invalid("recipients is required, unless broadcast is true".into());
            }
            _ => {}
        }
        let (_, messages, problems) = contents(declared, Place::Schedule, settings)?;
        let audience = request.audience.map(|audience| audience.to_json());
        Ok(Wanted {
            send_id: request.send_id.map(|SendId(id)| id),
            problems,
            campaign_id: campaign,
            target: Target { users, segment_id: None, audience },
            messages,
            subscription_state: SubscriptionState::default(),
            ignores_capping: false,
            trigger_properties: all,
        })
    }
}

/// The message objects of a schedule that can be sent; the error says what is wrong with any.
pub fn scheduled_messages(
    messages: &Map<String, Value>,
    settings: &Settings,
) -> Result<Map<String, Value>, ApiError> {
    match contents(Some(messages), Place::Schedule, settings)? {
        (_, messages, problems) if problems.is_empty() => Ok(messages),
        (_, _, problems) => Err(refused(problems[0].text.clone(), &problems)),
    }
}

/// The message objects that can be sent, as read and as given, and the errors of the others.
type Contents = (Content, Map<String, Value>, Vec<MessageProblem>);

/// Reads message objects. The error is that none can be sent.
pub(crate) fn contents(
    messages: Option<&Map<String, Value>>,
    place: Place,
    settings: &Settings,
) -> Result<Contents, ApiError> {
    let no_message = |why: &str| {
        let problem = MessageProblem { text: why.to_owned(), path: "messages".to_owned() };
        refused(format!("{NO_MESSAGE}: {why}"), &[problem])
    };
    let messages = messages.ok_or_else(|| {
        no_message(match place {
            Place::Schedule => "messages is required, unless a campaign declares them",
            _ => "messages is required",
        })
    })?;
    let (content, taken, problems) = Content::read(messages, place, settings);
    let fatal = problems.iter().find(|problem| problem.is_fatal).map(Problem::to_string);
    let first = problems.first().map(|problem| format!("{NO_MESSAGE}: {problem}"));
    let problems = problems.into_iter().take(MOST_PROBLEMS);
    let problems = problems.map(|Problem { path, text, .. }| MessageProblem { text, path });
    let problems: Vec<MessageProblem> = problems.collect();
    match fatal {
        Some(message) => Err(refused(message, &problems)),
        None if taken.is_empty() => Err(match first {
            Some(message) => refused(message, &problems),
            None => no_message("messages is empty"),
        }),
        None => Ok((content, taken, problems)),
    }
}

/// The refusal of a request whose message objects are wrong.
pub(crate) fn refused(message: String, problems: &[MessageProblem]) -> ApiError {
    ApiError::InvalidMany(message, problems.iter().map(|problem| json!(problem)).collect())
}

/// All listed users, each once. A recipient who is also listed elsewhere keeps the recipient's
/// properties.
fn users(
    recipients: Vec<Recipient>,
    ids: Vec<Identifier>,
    aliases: Vec<UserAlias>,
) -> Result<Vec<Named>, ApiError> {
    if recipients.len() + ids.len() + aliases.len() > MOST_USERS {
        let all = format!("{}, {} and {}", USERS[0], USERS[1], USERS[2]);
        let text = format!("{all} must have at most {MOST_USERS} users in total");
        return Err(ApiError::invalid_field(text));
    }
    let mut all = Vec::new();
    for (i, Recipient { external_user_id, user_alias, trigger_properties }) in
        recipients.into_iter().enumerate()
    {
        let user = User::of(external_user_id, user_alias)
            .map_err(|why| ApiError::invalid_field(format!("{}[{i}] {why}", USERS[2])))?;
        let trigger_properties = trigger_properties.map(|Properties(all)| all);
        all.push(Named { trigger_properties, ..user.into() });
    }
    all.extend(ids.into_iter().map(|id| User::ExternalUserId(id).into()));
    all.extend(aliases.into_iter().map(|alias| User::UserAlias(alias).into()));
    let mut seen = HashSet::new();
    all.retain(|user| seen.insert(user.who.clone()));
    Ok(all)
}

/// The segment of a request. A text that is not a UUID counts as unknown.
pub(super) fn segment(id: Option<&str>, settings: &Settings) -> Result<Option<Uuid>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    let id = Uuid::try_parse(id).ok().filter(|id| settings.segments.contains(id));
    id.map(Some).ok_or_else(|| ApiError::invalid_field(UNKNOWN_SEGMENT))
}

fn campaign<'s>(
    id: Option<&str>,
    campaigns: &'s ApiCampaigns,
) -> Result<Option<(Uuid, &'s ApiCampaign)>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    let found = Uuid::try_parse(id).ok().and_then(|id| Some((id, campaigns.get(&id)?)));
    match found {
        None => Err(ApiError::Invalid(INVALID_CAMPAIGN.into())),
        Some((_, campaign)) if campaign.is_archived => {
            Err(ApiError::Invalid(ARCHIVED_CAMPAIGN.into()))
        }
        Some((_, campaign)) if campaign.is_paused => Err(ApiError::Invalid(PAUSED_CAMPAIGN.into())),
        found => Ok(found),
    }
}

/// Messages of a campaign are of variations that it has: their statistics are kept by these.
fn check_variations(messages: &Members, campaign: &ApiCampaign) -> Result<(), ApiError> {
    let unknown = messages.iter().find_map(|(channel, message)| {
        let id = message.get(VARIATION)?.as_str()?;
        (!campaign.variations.contains(&id.to_ascii_lowercase())).then_some((channel, id))
    });
    let Some((channel, id)) = unknown else { return Ok(()) };
    let path = format!("messages.{channel}.{VARIATION}");
    let text = format!("{:?} is not a variation of the campaign", beginning(id, MOST_SHOWN));
    let message = format!("{path}: {text}");
    Err(refused(message, &[MessageProblem { text, path }]))
}

impl Wanted {
    /// The order of an accepted request.
    pub fn order(
        &self,
        kind: Kind,
        received: Received,
        workspace_id: i32,
        request_id: &str,
    ) -> Order {
        Order {
            dispatch_id: received.id,
            workspace_id,
            kind,
            campaign_id: self.campaign_id,
            send_id: self.send_id.clone(),
            messages: self.messages.clone(),
            target: self.target.clone(),
            subscription_state: self.subscription_state,
            ignores_capping: self.ignores_capping,
            canvas_entry_properties: None,
            trigger_properties: self.trigger_properties.clone(),
            accepted_at: received.at,
            request_id: request_id.to_owned(),
        }
    }
}
