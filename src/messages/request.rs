//! What a call asks to be sent (src/gateway/README.md, Sending messages).

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::content::{Content, Place, Problem};
use super::members::{self, MOST_USERS, Members, member};
use super::order::{Kind, Named, Order, SubscriptionState, Target};
use crate::campaigns::{ApiCampaign, ApiCampaigns};
use crate::gateway::ApiError;
use crate::gateway::idempotency::Received;
use crate::messages::When;
use crate::workspaces::Budget;
use crate::workspaces::settings::Settings;
use kit::words::beginning;

/// Characters of a `send_id`.
pub const MOST_SEND_ID: usize = 64;

/// Names the variation of a campaign that a message object is.
const VARIATION: &str = "message_variation_id";

/// Characters of an unknown one that are repeated.
const MOST_SHOWN: usize = 64;

/// How many things that are wrong with message objects are said.
const MOST_PROBLEMS: usize = 100;

/// The members that name users.
const USERS: [&str; 3] = ["external_user_ids", "user_aliases", "recipients"];

pub const NO_MESSAGE: &str = "No message to send";
pub const INVALID_CAMPAIGN: &str = "Invalid Campaign ID";
pub const ARCHIVED_CAMPAIGN: &str = "The campaign is archived. Unarchive the campaign in order for trigger requests to take effect.";
pub const PAUSED_CAMPAIGN: &str =
    "The campaign is paused. Resume the campaign in order for trigger requests to take effect.";
pub const UNKNOWN_SEGMENT: &str = "segment_id is that of no segment of the workspace";

/// The members that both calls have, checked, with the messages that can be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub send_id: Option<String>,
    /// What is wrong with message objects that are left out.
    pub problems: Vec<Value>,
    campaign_id: Option<Uuid>,
    target: Target,
    messages: Map<String, Value>,
    subscription_state: SubscriptionState,
    ignores_capping: bool,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub message: String,
    /// What is wrong with message objects, where that is why.
    pub errors: Vec<Value>,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self { message, errors: Vec::new() }
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<Refused> for ApiError {
    fn from(Refused { message, errors }: Refused) -> Self {
        match errors.is_empty() {
            true => Self::Invalid(message),
            false => Self::InvalidMany(message, errors),
        }
    }
}

/// The members of `POST /messages/send`. Here and below the error names the member that is
/// wrong; unknown ones are ignored, and an explicit null means absent.
pub fn read_send(
    body: &Members,
    settings: &Settings,
    campaigns: &ApiCampaigns,
) -> Result<Wanted, Refused> {
    let ignores_capping = members::switch(body, "override_frequency_capping")?;
    let messages = members::object(body, "messages")?;
    read(body, messages, Place::Send, ignores_capping, settings, campaigns)
}

/// The members of `POST /messages/schedule/create`. Whether the time is past is not looked at.
/// `declared` are the message objects of the campaign that [`campaign_asked`] names.
pub fn read_schedule(
    body: &Members,
    declared: Option<&Map<String, Value>>,
    settings: &Settings,
    campaigns: &ApiCampaigns,
) -> Result<(When, Wanted), Refused> {
    let schedule = member(body, "schedule").ok_or("schedule is required")?;
    let when = When::read(schedule)?;
    let ignores_capping = members::switch(body, "override_messaging_limits")?;
    let messages = members::object(body, "messages")?.or(declared);
    let wanted = read(body, messages, Place::Schedule, ignores_capping, settings, campaigns)?;
    Ok((when, wanted))
}

/// The campaign whose message objects are scheduled, since there are no others.
pub fn campaign_asked(body: &Members) -> Option<Uuid> {
    let id = member(body, "campaign_id").filter(|_| member(body, "messages").is_none());
    id.and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
}

/// What a call of `/messages/send` counts against.
pub fn budget(body: &Members) -> Budget {
    let is_named = |name: &&str| names_somebody(body, name);
    let is_there = |name: &&str| member(body, name).is_some();
    match USERS.iter().any(is_named) {
        false if ["segment_id", "audience"].iter().any(is_there) => Budget::MessagesSendAudience,
        _ => Budget::MessagesSend,
    }
}

/// Whether a member that names users has some, or is none.
fn names_somebody(body: &Members, name: &str) -> bool {
    let users = member(body, name);
    users.is_some_and(|users| users.as_array().is_none_or(|users| !users.is_empty()))
}

fn read(
    body: &Members,
    messages: Option<&Map<String, Value>>,
    place: Place,
    ignores_capping: bool,
    settings: &Settings,
    campaigns: &ApiCampaigns,
) -> Result<Wanted, Refused> {
    let (users, broadcast) = (users(body)?, members::switch(body, "broadcast")?);
    let is_named = [USERS[0], USERS[1]].iter().any(|name| names_somebody(body, name));
    let segment_id = segment(body, settings)?;
    let audience = members::audience(body, "audience")?.map(|audience| audience.to_json());
    let (campaign, send_id) = (campaign(body, campaigns)?, send_id(body)?);
    let subscription_state = subscription_state(body)?;
    let is_limited = segment_id.is_some() || audience.is_some();
    match (broadcast, users.is_empty()) {
        (true, false) => return Err("broadcast must not be true where users are named".into()),
        // Recipients add to those who are named, and do not replace them.
        _ if !is_named && !is_limited => {
            let options = [USERS[0], USERS[1], "segment_id"].join(", ");
            return Err(format!("one of {options} and audience is required").into());
        }
        (false, true) => {
            let alone = "broadcast must be true where a segment or an audience is meant as a whole";
            return Err(alone.into());
        }
        _ => {}
    }
    let (messages, problems) = contents(messages, place, settings)?;
    if let Some((_, campaign)) = campaign {
        check_variations(&messages, campaign)?;
    }
    Ok(Wanted {
        send_id,
        problems,
        campaign_id: campaign.map(|(id, _)| id),
        target: Target { users, segment_id, audience },
        messages,
        subscription_state,
        ignores_capping,
    })
}

/// The message objects that can be sent, and what is wrong with the others.
fn contents(
    messages: Option<&Map<String, Value>>,
    place: Place,
    settings: &Settings,
) -> Result<(Map<String, Value>, Vec<Value>), Refused> {
    let no_message = |why: &str| Refused {
        message: NO_MESSAGE.into(),
        errors: vec![json!({ "type": why, "path": "messages" })],
    };
    let messages = messages.ok_or_else(|| {
        no_message(match place {
            Place::Schedule => "messages is required, unless a campaign declares them",
            _ => "messages is required",
        })
    })?;
    let (_, taken, problems) = Content::read(messages, place, settings);
    let fatal = problems.iter().find(|problem| problem.is_fatal);
    let message = fatal.map(|Problem { path, text, .. }| format!("{path}: {text}"));
    let errors = problems.iter().take(MOST_PROBLEMS);
    let errors = errors.map(|Problem { path, text, .. }| json!({ "type": text, "path": path }));
    let errors: Vec<Value> = errors.collect();
    match message {
        Some(message) => Err(Refused { message, errors }),
        None if taken.is_empty() && errors.is_empty() => Err(no_message("it has no message")),
        None if taken.is_empty() => Err(Refused { message: NO_MESSAGE.into(), errors }),
        None => Ok((taken, errors)),
    }
}

/// Everybody who is named, each once. Who is a recipient too has the recipient's properties.
fn users(body: &Members) -> Result<Vec<Named>, String> {
    let [ids, aliases, recipients] = USERS;
    let recipients = members::users(body, recipients, "objects", recipient)?;
    let ids = members::users(body, ids, "strings", |id, path| {
        members::identifier(id, path).map(members::User::ExternalUserId)
    })?;
    let aliases = members::users(body, aliases, "objects", members::user_alias)?;
    if recipients.len() + ids.len() + aliases.len() > MOST_USERS {
        let all = format!("{}, {} and {}", USERS[0], USERS[1], USERS[2]);
        return Err(format!("{all} must have at most {MOST_USERS} users together"));
    }
    let named = ids.into_iter().chain(aliases).map(members::named);
    let mut seen = HashSet::new();
    Ok(recipients.into_iter().chain(named).filter(|user| seen.insert(user.who.clone())).collect())
}

fn recipient(value: &Value, path: &str) -> Result<Named, String> {
    let recipient = value.as_object().ok_or_else(|| format!("{path} must be an object"))?;
    let user = members::user(recipient, path)?;
    let trigger_properties =
        members::properties(recipient, "trigger_properties", &format!("{path}."))?;
    Ok(Named { trigger_properties, ..members::named(user) })
}

/// The segment that may be named as `segment_id`. What is no UUID is as unknown as one that no
/// segment has.
pub(super) fn segment(body: &Members, settings: &Settings) -> Result<Option<Uuid>, String> {
    let Some(id) = members::text(body, "segment_id")? else { return Ok(None) };
    let id = Uuid::try_parse(id).ok().filter(|id| settings.segments.contains(id));
    id.map(Some).ok_or_else(|| UNKNOWN_SEGMENT.to_owned())
}

fn campaign<'s>(
    body: &Members,
    campaigns: &'s ApiCampaigns,
) -> Result<Option<(Uuid, &'s ApiCampaign)>, String> {
    let Some(id) = members::text(body, "campaign_id")? else { return Ok(None) };
    let id = Uuid::try_parse(id).map_err(|_| INVALID_CAMPAIGN)?;
    let campaign = campaigns.get(&id).ok_or(INVALID_CAMPAIGN)?;
    match campaign {
        campaign if campaign.is_archived => Err(ARCHIVED_CAMPAIGN.into()),
        campaign if campaign.is_paused => Err(PAUSED_CAMPAIGN.into()),
        campaign => Ok(Some((id, campaign))),
    }
}

/// Messages of a campaign are of variations that it has: their statistics are kept by these.
fn check_variations(messages: &Members, campaign: &ApiCampaign) -> Result<(), Refused> {
    let unknown = messages.iter().find_map(|(channel, message)| {
        let id = message.get(VARIATION)?.as_str()?;
        (!campaign.variations.contains(&id.to_ascii_lowercase())).then_some((channel, id))
    });
    let Some((channel, id)) = unknown else { return Ok(()) };
    let path = format!("messages.{channel}.{VARIATION}");
    let text = format!("{:?} is not a variation of the campaign", beginning(id, MOST_SHOWN));
    let errors = vec![json!({ "type": text, "path": path })];
    Err(Refused { message: format!("{path}: {text}"), errors })
}

fn send_id(body: &Members) -> Result<Option<String>, String> {
    let Some(id) = members::text(body, "send_id")? else { return Ok(None) };
    let is_plain = id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match is_plain && (1..=MOST_SEND_ID).contains(&id.len()) {
        true => Ok(Some(id.to_owned())),
        false => Err(format!("send_id must be 1 to {MOST_SEND_ID} printable ASCII characters")),
    }
}

fn subscription_state(body: &Members) -> Result<SubscriptionState, String> {
    const NAME: &str = "recipient_subscription_state";
    match members::text(body, NAME)? {
        None => Ok(SubscriptionState::default()),
        Some("opted_in") => Ok(SubscriptionState::OptedIn),
        Some("subscribed") => Ok(SubscriptionState::Subscribed),
        Some("all") => Ok(SubscriptionState::All),
        Some(_) => Err(format!("{NAME} must be one of opted_in, subscribed and all")),
    }
}

impl Wanted {
    /// What it orders, once it is accepted.
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
            accepted_at: received.at,
            request_id: request_id.to_owned(),
        }
    }
}
