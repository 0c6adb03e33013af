//! What a schedule sends, and to which users.

use uuid::Uuid;

use super::Schedule;
use store::from_row;

/// A schedule for lists, without its request.
#[derive(Clone, Debug)]
pub struct ScheduleSummary {
    /// Its request is empty.
    pub schedule: Schedule,
    pub contents: Contents,
}
from_row! { ScheduleSummary {} flatten { schedule, contents } }

/// What a request sends, without the messages and the identifiers of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The API identifier of a campaign or a Canvas.
    pub campaign_id: Option<Uuid>,
    pub send_id: Option<String>,
    /// The channels of its messages, with commas; none for a Canvas, whose messages are those at
    /// its time.
    pub channels: Option<String>,
    /// Number of listed users. If it is 0, all users who match the other fields.
    pub listed_users: i64,
    pub segment_id: Option<Uuid>,
    /// Whether the request has a connected audience.
    pub is_limited: bool,
}
from_row! {
    Contents { campaign_id, send_id, channels, listed_users, segment_id, is_limited }
}

impl Contents {
    /// Whether it is for a whole segment or audience, or for all users.
    pub fn is_broadcast(&self) -> bool {
        self.listed_users == 0
    }
}
