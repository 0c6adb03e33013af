//! Orders as they stand in the log.

use serde::Deserialize;

use crate::messages::order::Order;
use crate::retry::Retry;

/// The version that this program writes and reads.
const VERSION: u32 = 1;

/// Why a message is no order.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("the message cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the message is of version {0}, which this worker does not know")]
    Version(u32),
}

impl Retry for MessageError {
    /// What a newer gateway wrote waits for a worker of its version.
    fn can_retry(&self) -> bool {
        matches!(self, Self::Version(_))
    }
}

/// The payload of a message of [`Topic::Messages`](crate::log::Topic::Messages).
pub fn encode(order: &Order) -> Vec<u8> {
    let order = serde_json::to_string(order).expect("an order is JSON");
    format!("{{\"v\":{VERSION},{}", &order[1..]).into_bytes()
}

/// Reads what [`encode`] wrote.
pub fn decode(payload: &[u8]) -> Result<Order, MessageError> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default = "version")]
        v: u32,
    }
    let Head { v } = serde_json::from_slice(payload)?;
    match v {
        VERSION => Ok(serde_json::from_slice(payload)?),
        other => Err(MessageError::Version(other)),
    }
}

fn version() -> u32 {
    VERSION
}
