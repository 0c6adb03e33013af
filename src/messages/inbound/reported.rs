//! Who is told what became of a message after its channel had it.

use crate::app::App;
use crate::messages::MessageId;
use crate::store::{StoreError, Tx};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// An email: the relay prepares it for the recipient's provider.
    Processed,
    Delivered,
    /// An email: the recipient's provider does not take it.
    Bounced,
    /// Anything else that did not arrive.
    Failed,
}

impl Became {
    /// What metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Failed => "failed",
        }
    }
}

/// A report about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub id: MessageId,
    pub became: Became,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// Why, where it did not arrive.
    pub reason: Option<String>,
}

/// Tells dispatches and transactional emails, in the caller's transaction.
pub async fn tell(
    _app: &App,
    _tx: &mut Tx,
    _workspace: i32,
    _news: &News,
) -> Result<(), StoreError> {
    Ok(())
}
