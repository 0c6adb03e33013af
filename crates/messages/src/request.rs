//! Parses requests that send messages (docs/reference/api/send-messages.md).

mod recipients;
mod trigger;

use std::collections::HashSet;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::content::{Content, MessageSource, Messages, Problem};
use super::order::{Kind, Named, Order, SubscriptionState, Target};
use super::recipient::{IDENTIFIER_FIELDS, MAX_USERS, Members, Properties, User};
use crate::When;
use crate::app::App;
use crate::when::ScheduleObject;
use content::campaigns::{ApiCampaign, ApiCampaigns};
use gateway::formats::{Identifier, List, UserAlias, exactly_one};
use gateway::idempotency::Received;
use gateway::warnings::{Warning, Warnings};
use gateway::workspaces::settings::Settings;
use gateway::workspaces::{Budget, Channel, email_templates, template_rows};
use gateway::{ApiError, fields};
use kit::json::TreeObject;
use kit::words::{about_field, beginning};
use people::audience::Audience;

pub use recipients::RecipientsSendRequest;
pub use trigger::{ScheduleCampaignRequest, TriggerRequest};

/// Maximum characters of a `send_id`.
const MAX_SEND_ID_LENGTH: usize = 64;

/// The field of a message object that names its variation of the campaign.
const VARIATION: &str = "message_variation_id";

/// Maximum characters of an unknown variation in an error message.
const MAX_SHOWN_CHARACTERS: usize = 64;

/// Maximum number of errors of message objects in a response.
const MAX_PROBLEMS: usize = 100;

/// The fields that list users.
const USERS: [&str; 3] = ["external_user_ids", "user_aliases", "recipients"];

pub const NO_MESSAGE: &str = "No message to send";
pub const INVALID_CAMPAIGN: &str = "Invalid Campaign ID";
pub const ARCHIVED_CAMPAIGN: &str = "The campaign is archived. Unarchive the campaign in order \
    for trigger requests to take effect.";
pub const PAUSED_CAMPAIGN: &str =
    "The campaign is paused. Resume the campaign in order for trigger requests to take effect.";
pub const UNKNOWN_SEGMENT: &str = "segment_id does not match a segment in this workspace";

/// The messages and their users. Either at most 50 users in `external_user_ids`, `user_aliases` and
/// `recipients` together, optionally limited to a segment and an audience. Or, with `broadcast`, a
/// segment, an audience, or the users of a segment who are in an audience.
#[derive(Debug, JsonSchema)]
pub struct SendRequest {
    #[serde(flatten)]
    _to: To,
    #[serde(flatten)]
    _to_send: ToSend,
}

/// The messages to send.
#[derive(Debug, Deserialize, JsonSchema)]
struct ToSend {
    #[schemars(with = "Messages")]
    messages: Option<Messages>,
    /// If true, frequency capping does not apply.
    #[schemars(extend("default" = false))]
    override_frequency_capping: Option<bool>,
}

/// The messages to schedule, their time, and their users as for an immediate send. Without
/// `messages`, the message objects that the campaign declares at the time of this request are
/// scheduled.
#[derive(Debug, JsonSchema)]
pub struct ScheduleMessagesRequest {
    #[serde(flatten)]
    _to: To,
    #[serde(flatten)]
    _to_schedule: ToSchedule,
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
    /// If true, frequency capping does not apply.
    #[schemars(extend("default" = false))]
    override_messaging_limits: Option<bool>,
}

/// The users and the campaign.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = require_recipients)]
struct To {
    /// Must be true to send to a whole segment or audience, and must not be true if users are
    /// given.
    #[schemars(extend("default" = false))]
    broadcast: Option<bool>,
    /// The external ids of users.
    external_user_ids: Option<List<Identifier, 0, MAX_USERS>>,
    /// The aliases of users.
    user_aliases: Option<List<UserAlias, 0, MAX_USERS>>,
    /// More users, each with properties for the templates. Not allowed as the only target of the
    /// request.
    recipients: Option<List<Recipient, 0, MAX_USERS>>,
    /// The id of a segment that the workspace file declares.
    #[schemars(with = "Option<Uuid>")]
    segment_id: Option<String>,
    /// Limits the users of the request, or of the segment, to those in this audience.
    audience: Option<Audience>,
    /// The id of a campaign of type `api`; the messages count in its statistics.
    #[schemars(with = "Option<Uuid>")]
    campaign_id: Option<String>,
    /// Your own identifier of the send; returned in the response.
    send_id: Option<SendId>,
    /// Which users get emails and push messages, by their `email_subscribe` or `push_subscribe`:
    /// only opted-in users; opted-in and subscribed users; or all users, including unsubscribed
    /// ones. SMS and WhatsApp messages always require that the user is in the message's
    /// subscription group. Webhooks and content cards are sent to all users.
    #[schemars(extend("default" = SubscriptionState::default()))]
    recipient_subscription_state: Option<SubscriptionState>,
}

/// A user, identified by exactly one of `external_user_id` and `user_alias`. Templates can read
/// `trigger_properties` as `api_trigger_properties`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MessageRecipient", transform = exactly_one(IDENTIFIER_FIELDS))]
struct Recipient {
    external_user_id: Option<Identifier>,
    user_alias: Option<UserAlias>,
    trigger_properties: Option<Properties>,
}

/// Your own identifier of a send.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "minLength" = 1, "maxLength" = MAX_SEND_ID_LENGTH, "pattern" = "^[ -~]*$",
))]
struct SendId(String);

impl TryFrom<String> for SendId {
    type Error = String;

    fn try_from(id: String) -> Result<Self, String> {
        let is_plain = id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if is_plain && (1..=MAX_SEND_ID_LENGTH).contains(&id.len()) {
            Ok(Self(id))
        } else {
            Err(format!("must be 1 to {MAX_SEND_ID_LENGTH} printable ASCII characters"))
        }
    }
}

/// The conditions that [`To::checked`] checks.
fn require_recipients(schema: &mut Schema) {
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
    let [segment, audience] = limits.map(|(name, _)| {
        json!({
            "properties": {
                // Neither may be null.
                "segment_id": { "type": "string" }, "audience": { "type": "object" },
                "broadcast": { "const": true },
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

impl From<Problem> for MessageProblem {
    fn from(Problem { path, text, .. }: Problem) -> Self {
        Self { text, path }
    }
}

/// The checked fields that both kinds of requests have, and the messages that can be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedSend {
    pub send_id: Option<String>,
    /// The errors of message objects that are not sent.
    pub problems: Vec<MessageProblem>,
    /// Fields that have no effect.
    pub warnings: Vec<Warning>,
    campaign_id: Option<Uuid>,
    target: Target,
    messages: Map<String, Value>,
    subscription_state: SubscriptionState,
    ignores_capping: bool,
    /// For users who are not listed.
    trigger_properties: Option<TreeObject>,
}

impl SendRequest {
    /// Reads a body of `POST /messages/send`.
    pub fn read(
        body: &Members,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<CheckedSend, ApiError> {
        let ((to, to_send), warnings) = fields::read_request_both::<To, ToSend>(body)?;
        let messages = to_send.messages.map(|Messages(messages)| messages);
        let ignores_capping = to_send.override_frequency_capping.unwrap_or_default();
        let checked = to.checked(
            messages.as_ref(),
            MessageSource::Send,
            ignores_capping,
            settings,
            campaigns,
        )?;
        Ok(checked.with_unknown_fields(warnings))
    }
}

impl ScheduleMessagesRequest {
    /// Reads a body of `POST /messages/schedule/create`. Does not check whether the time is in the
    /// past. `declared` are the message objects of the campaign that [`requested_campaign`] names.
    pub fn read(
        body: &Members,
        declared: Option<&Map<String, Value>>,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<(When, CheckedSend), ApiError> {
        let ((to, to_schedule), warnings) = fields::read_request_both::<To, ToSchedule>(body)?;
        let messages = to_schedule.messages.map(|Messages(messages)| messages);
        let messages = messages.as_ref().or(declared);
        let ignores_capping = to_schedule.override_messaging_limits.unwrap_or_default();
        let checked =
            to.checked(messages, MessageSource::Schedule, ignores_capping, settings, campaigns)?;
        Ok((to_schedule.schedule, checked.with_unknown_fields(warnings)))
    }
}

fn given<'a>(body: &'a Members, name: &str) -> Option<&'a Value> {
    body.get(name).filter(|value| !value.is_null())
}

/// The campaign whose message objects are scheduled, if the request has none.
pub fn requested_campaign(body: &Members) -> Option<Uuid> {
    let id = given(body, "campaign_id").filter(|_| given(body, "messages").is_none());
    id.and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
}

/// Fills the email object of a request from its email template. An object with an unknown template
/// stays as it is, and is rejected when it is read.
pub async fn fill_email(app: &App, workspace: i32, members: &mut Members) -> Result<(), ApiError> {
    let messages = members.get_mut("messages");
    let email = messages.and_then(|messages| messages.get_mut(Channel::Email.name()));
    let Some(email) = email.and_then(Value::as_object_mut) else { return Ok(()) };
    let Some(id) = email_templates::template_id(email) else { return Ok(()) };
    let mut tx = app.request_queue.snapshot().await?;
    if let Some(template) = template_rows::email_template(&mut tx, workspace, id).await? {
        template.fill(email);
    }
    Ok(())
}

/// The budget of a request, determined before its fields are read.
pub fn budget(body: &Members) -> Budget {
    let lists_users = |name: &&str| {
        let users = given(body, name);
        users.is_some_and(|users| users.as_array().is_none_or(|users| !users.is_empty()))
    };
    let is_given = |name: &&str| given(body, name).is_some();
    let is_broadcast = given(body, "broadcast") == Some(&Value::Bool(true));
    let has_audience = is_broadcast || ["segment_id", "audience"].iter().any(is_given);
    if has_audience && !USERS.iter().any(lists_users) {
        Budget::MessagesSendAudience
    } else {
        Budget::MessagesSend
    }
}

impl To {
    fn checked(
        self,
        messages: Option<&Map<String, Value>>,
        source: MessageSource,
        ignores_capping: bool,
        settings: &Settings,
        campaigns: &ApiCampaigns,
    ) -> Result<CheckedSend, ApiError> {
        let ids = self.external_user_ids.unwrap_or_default().0;
        let aliases = self.user_aliases.unwrap_or_default().0;
        let lists_users = !ids.is_empty() || !aliases.is_empty();
        let users = users(self.recipients.unwrap_or_default().0, ids, aliases)?;
        let segment_id = segment(self.segment_id.as_deref(), settings)?;
        let campaign = campaign(self.campaign_id.as_deref(), campaigns)?;
        let is_limited = segment_id.is_some() || self.audience.is_some();
        let error = match (self.broadcast.unwrap_or_default(), users.is_empty()) {
            (true, false) => Some("broadcast must not be true if users are given"),
            // Recipients add data to listed users, and do not replace them.
            _ if !lists_users && !is_limited => Some(
                "at least one of external_user_ids, user_aliases, segment_id and audience is \
                 required",
            ),
            (false, true) => Some("Set broadcast to true to send to a whole segment or audience"),
            _ => None,
        };
        if let Some(error) = error {
            return Err(ApiError::invalid_field(error));
        }
        let (_, messages, problems) = contents(messages, source, settings)?;
        if let Some((_, campaign)) = campaign {
            check_variations(&messages, campaign)?;
        }
        let warnings = audience_warnings(self.audience.as_ref());
        let audience = self.audience.map(|audience| audience.to_json());
        Ok(CheckedSend {
            send_id: self.send_id.map(|SendId(id)| id),
            problems,
            warnings,
            campaign_id: campaign.map(|(id, _)| id),
            target: Target { users, segment_id, audience, recipients_of: None },
            messages,
            subscription_state: self.recipient_subscription_state.unwrap_or_default(),
            ignores_capping,
            trigger_properties: None,
        })
    }
}

/// The message objects of a schedule, all of which must be valid; the error names the invalid ones.
pub fn scheduled_messages(
    messages: &Map<String, Value>,
    settings: &Settings,
) -> Result<Map<String, Value>, ApiError> {
    match contents(Some(messages), MessageSource::Schedule, settings)? {
        (_, messages, problems) if problems.is_empty() => Ok(messages),
        (_, _, problems) => Err(rejected(problems[0].text.clone(), &problems)),
    }
}

/// The message objects that can be sent, parsed and as JSON, and the errors of the others.
type Contents = (Content, Map<String, Value>, Vec<MessageProblem>);

/// Reads message objects; returns an error if none can be sent.
pub fn contents(
    messages: Option<&Map<String, Value>>,
    source: MessageSource,
    settings: &Settings,
) -> Result<Contents, ApiError> {
    let messages = messages.ok_or_else(|| {
        no_message(match source {
            MessageSource::Schedule => {
                "messages is required, unless the campaign declares messages"
            }
            _ => "messages is required",
        })
    })?;
    let (content, accepted, problems) = Content::read(messages, source, settings);
    let fatal = problems.iter().find(|problem| problem.is_fatal).map(Problem::to_string);
    let first = problems.first().map(|problem| format!("{NO_MESSAGE}: {problem}"));
    let problems = problems.into_iter().take(MAX_PROBLEMS);
    let problems: Vec<MessageProblem> = problems.map(MessageProblem::from).collect();
    match fatal {
        Some(message) => Err(rejected(message, &problems)),
        None if accepted.is_empty() => Err(match first {
            Some(message) => rejected(message, &problems),
            None => no_message("messages is empty"),
        }),
        None => Ok((content, accepted, problems)),
    }
}

/// The error of a request without message objects.
fn no_message(why: &str) -> ApiError {
    let problem = MessageProblem { text: why.to_owned(), path: "messages".to_owned() };
    rejected(format!("{NO_MESSAGE}: {why}"), &[problem])
}

/// The error of a request that is rejected for its message objects.
pub fn rejected(message: String, problems: &[MessageProblem]) -> ApiError {
    ApiError::InvalidMany(message, problems.iter().map(|problem| json!(problem)).collect())
}

/// All listed users, each once. A recipient who is also listed elsewhere keeps the recipient's
/// properties.
fn users(
    recipients: Vec<Recipient>,
    ids: Vec<Identifier>,
    aliases: Vec<UserAlias>,
) -> Result<Vec<Named>, ApiError> {
    if recipients.len() + ids.len() + aliases.len() > MAX_USERS {
        let fields = format!("{}, {} and {}", USERS[0], USERS[1], USERS[2]);
        let text = format!("{fields} must have at most {MAX_USERS} users in total");
        return Err(ApiError::invalid_field(text));
    }
    let mut users: Vec<Named> = Vec::new();
    for (index, Recipient { external_user_id, user_alias, trigger_properties }) in
        recipients.into_iter().enumerate()
    {
        let user = User::from_fields(external_user_id, user_alias)
            .map_err(|why| ApiError::invalid_field(format!("{}[{index}] {why}", USERS[2])))?;
        let trigger_properties = trigger_properties.map(|Properties(properties)| properties);
        users.push(Named { trigger_properties, ..user.into() });
    }
    users.extend(ids.into_iter().map(|id| User::ExternalUserId(id).into()));
    users.extend(aliases.into_iter().map(|alias| User::UserAlias(alias).into()));
    let mut seen = HashSet::new();
    users.retain(|user| seen.insert(user.who.clone()));
    Ok(users)
}

/// The segment of a request. A value that is not a UUID counts as unknown.
pub fn segment(id: Option<&str>, settings: &Settings) -> Result<Option<Uuid>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    let id = Uuid::try_parse(id).ok().filter(|id| settings.segments.contains(id));
    id.map(Some).ok_or_else(|| ApiError::invalid_field(UNKNOWN_SEGMENT))
}

fn campaign<'s>(
    id: Option<&str>,
    campaigns: &'s ApiCampaigns,
) -> Result<Option<(Uuid, &'s ApiCampaign)>, ApiError> {
    let Some(id) = id else { return Ok(None) };
    let campaign = Uuid::try_parse(id).ok().and_then(|id| Some((id, campaigns.get(&id)?)));
    match campaign {
        None => Err(ApiError::Invalid(INVALID_CAMPAIGN.into())),
        Some((_, campaign)) if campaign.is_archived => {
            Err(ApiError::Invalid(ARCHIVED_CAMPAIGN.into()))
        }
        Some((_, campaign)) if campaign.is_paused => Err(ApiError::Invalid(PAUSED_CAMPAIGN.into())),
        campaign => Ok(campaign),
    }
}

/// Checks that the campaign has the variations of the messages, because its statistics are by
/// variation.
fn check_variations(messages: &Members, campaign: &ApiCampaign) -> Result<(), ApiError> {
    let unknown = messages.iter().find_map(|(channel, message)| {
        let id = message.get(VARIATION)?.as_str()?;
        (!campaign.variations.contains(&id.to_ascii_lowercase())).then_some((channel, id))
    });
    let Some((channel, id)) = unknown else { return Ok(()) };
    let path = format!("messages.{channel}.{VARIATION}");
    let text =
        format!("{:?} is not a variation of the campaign", beginning(id, MAX_SHOWN_CHARACTERS));
    let message = about_field(&path, &text);
    Err(rejected(message, &[MessageProblem { text, path }]))
}

/// The warnings about the `audience` of a request.
fn audience_warnings(audience: Option<&Audience>) -> Vec<Warning> {
    audience.map_or_else(Vec::new, |audience| audience.warnings("audience"))
}

impl CheckedSend {
    fn with_unknown_fields(self, warnings: Vec<Warning>) -> Self {
        let mut all = Warnings::from(warnings);
        all.extend(self.warnings);
        Self { warnings: all.into_vec(), ..self }
    }

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
            requested_by: None,
            request_id: request_id.to_owned(),
        }
    }
}
