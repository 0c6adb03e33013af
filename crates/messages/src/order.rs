//! An order: the messages to send and their users, from a request, a schedule or a trigger.
//! [`in_log`] is its form in the log. Start with [`Order`].

pub mod in_log;

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::Timing;
use crate::message_outcome::OutcomeFilter;
use kit::json::{ObjectText, TreeObject};
use store::documents::parsed_up_to;
use store::{StoreError, text_enum};

/// An order to send messages, stored as JSON in the log and in its dispatch's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Order {
    /// The id of the dispatch that the order becomes.
    pub dispatch_id: Uuid,
    /// The workspace's id in the store.
    pub workspace_id: i32,
    #[schemars(with = "String", extend("enum" = Kind::ALL.map(Kind::name)))]
    pub kind: Kind,
    /// A campaign's or a Canvas's API identifier.
    pub campaign_id: Option<Uuid>,
    pub send_id: Option<String>,
    /// The accepted message objects, by channel.
    pub messages: Map<String, Value>,
    pub target: Target,
    pub subscription_state: SubscriptionState,
    /// If true, frequency capping does not apply.
    pub ignores_capping: bool,
    /// `canvas_entry_properties` in the templates of all users.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub canvas_entry_properties: Option<TreeObject>,
    /// `api_trigger_properties` in the templates of users who are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub trigger_properties: Option<TreeObject>,
    /// Milliseconds since the epoch.
    pub accepted_at: i64,
    /// Who asked for it, as in the audit log, such as `key:app`. None for a purchase that starts a
    /// campaign, and for orders of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// In the log, this is a header.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(skip)]
    pub request_id: String,
}

/// The newest version of an order that this program writes and reads. An order has the oldest
/// version that can express it.
const VERSION: u32 = 3;

/// An order to send messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Order")]
pub struct Versioned<'a> {
    /// 2 if the order has `trigger_properties`, else 1.
    v: u32,
    #[serde(flatten)]
    order: &'a Order,
}

impl Order {
    /// JSON with its version, for the log and for rows.
    pub fn to_json(&self) -> String {
        let v = match self {
            // Never in the log.
            Self { target: Target { recipients_of: Some(_), .. }, .. } => VERSION,
            Self { trigger_properties: Some(_), .. } => 2,
            _ => 1,
        };
        serde_json::to_string(&Versioned { v, order: self }).expect("an order is JSON")
    }

    /// The order in a column.
    pub fn from_row(column: &str, row: impl Display, text: &str) -> Result<Self, StoreError> {
        parsed_up_to(VERSION, column, row, text)
    }
}

text_enum! {
    /// The origin of the order.
    pub enum Kind {
        /// `/messages/send`.
        Send = "send",
        /// `/messages/schedule/create`.
        Schedule = "schedule",
        Canvas = "canvas",
        /// A purchase that starts a campaign.
        Triggered = "triggered",
        /// `/messages/live_activity/start`.
        LiveActivity = "live_activity",
    }
}

impl Kind {
    /// Whether users of the global control group are excluded (docs/explanation/delivery.md).
    pub fn excludes_control_group(self) -> bool {
        matches!(self, Self::Canvas | Self::Triggered)
    }
}

/// The recipients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Listed users. If empty, all users who match the other fields.
    pub users: Vec<Named>,
    /// The id of a segment of the workspace file.
    pub segment_id: Option<Uuid>,
    /// A connected audience, as JSON.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub audience: Option<ObjectText>,
    /// Only the recipients of an earlier dispatch. Without other fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub recipients_of: Option<PastRecipients>,
}

/// The users for which an earlier dispatch has a message that one of these filters selects. That
/// dispatch has ended, so that its messages are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRecipients {
    pub dispatch_id: Uuid,
    pub outcomes: Vec<OutcomeFilter>,
}

/// A listed user, with the data for this user only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Named {
    pub who: Who,
    /// `api_trigger_properties` in the user's templates.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub trigger_properties: Option<ObjectText>,
    /// `canvas_entry_properties` in the user's templates; these override those of all users.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub canvas_entry_properties: Option<ObjectText>,
    /// `event_properties` in the user's templates: those of the purchase that started the campaign.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub event_properties: Option<ObjectText>,
}

impl Named {
    /// Whether there is data for this user.
    pub(crate) fn has_data(&self) -> bool {
        let Self { who: _, trigger_properties, canvas_entry_properties, event_properties } = self;
        [trigger_properties, canvas_entry_properties, event_properties]
            .into_iter()
            .any(Option::is_some)
    }
}

impl From<Who> for Named {
    /// A user without further data.
    fn from(who: Who) -> Self {
        Self {
            who,
            trigger_properties: None,
            canvas_entry_properties: None,
            event_properties: None,
        }
    }
}

#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    ExternalId(String),
    Alias { label: String, name: String },
    ServiceId(Uuid),
}

/// `recipient_subscription_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SubscriptionState {
    OptedIn,
    #[default]
    Subscribed,
    All,
}

/// Some of an order's users, if their times differ: those whose time came since the wave before
/// ([`crate::waves`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// Users whose own time is at or before this time, in milliseconds since the epoch,
    pub at_ms: i64,
    /// and after this time. Users with an earlier time are too late, and get no messages.
    pub after_ms: i64,
    /// The time of the wave before, which included users with an earlier time. None in the first
    /// wave, and in those that version 0.2.0 stored.
    #[serde(default)]
    pub previous_ms: Option<i64>,
    /// The time of the last wave that was sent: users between it and `after_ms` are too late, and
    /// count in this wave. Set when the wave is added to its dispatch.
    #[serde(default)]
    pub sent_before_ms: Option<i64>,
    pub timing: Timing,
    /// The local time, in milliseconds since the epoch as if it were in UTC.
    pub time: i64,
    /// When the order was scheduled. A best hour before that does not count.
    pub made_at: i64,
    /// No other wave follows.
    pub is_last: bool,
}
