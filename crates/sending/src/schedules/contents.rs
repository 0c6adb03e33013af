//! The messages and the audience of a schedule.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use uuid::Uuid;

use super::Schedule;
use messages::order::Order;
use store::StoreError;
use store::documents::parsed;

/// The messages and the audience of a schedule, without the identifiers of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The API identifier of a campaign or a Canvas.
    pub campaign_id: Option<Uuid>,
    pub send_id: Option<String>,
    /// The channels of its messages; empty for a Canvas, whose messages are those at its time.
    pub channels: Vec<String>,
    /// Number of listed users. If it is 0, all users who match the other fields.
    pub listed_users: usize,
    pub segment_id: Option<Uuid>,
    /// A connected audience, as JSON.
    pub audience: Option<Value>,
}

/// The users of a Canvas, as they are stored. The audience is not read: that would compile its
/// regular expressions.
#[derive(Deserialize)]
struct CanvasTarget {
    recipients: Option<Vec<IgnoredAny>>,
    audience: Option<Value>,
}

impl Contents {
    /// Whether it is for a whole segment or audience, or for all users.
    pub fn is_broadcast(&self) -> bool {
        self.listed_users == 0
    }
}

impl Schedule {
    pub fn contents(&self) -> Result<Contents, StoreError> {
        const COLUMN: &str = "schedules.request";
        if self.canvas_id.is_some() {
            let CanvasTarget { recipients, audience } = parsed(COLUMN, self.id, &self.request)?;
            return Ok(Contents {
                campaign_id: self.canvas_id,
                send_id: None,
                channels: Vec::new(),
                listed_users: recipients.map_or(0, |users| users.len()),
                segment_id: None,
                audience,
            });
        }
        let Order { campaign_id, send_id, messages, target, .. } =
            Order::from_row(COLUMN, self.id, &self.request)?;
        Ok(Contents {
            campaign_id,
            send_id,
            channels: messages.into_iter().map(|(channel, _)| channel).collect(),
            listed_users: target.users.len(),
            segment_id: target.segment_id,
            audience: target.audience,
        })
    }
}
