//! Who is told what became of a message after its channel had it.

use crate::app::App;
use crate::messages::transactional::State;
use crate::messages::transactional::reports::Change;
use crate::messages::{Channel, MessageId, dispatch, transactional};
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

/// Tells transactional emails and dispatches, in the caller's transaction.
pub async fn tell(app: &App, tx: &mut Tx, workspace: i32, news: &News) -> Result<(), StoreError> {
    let reason = news.reason.as_deref().unwrap_or_default();
    let (state, why) = match news.became {
        Became::Processed => (State::Processed, None),
        Became::Delivered => (State::Delivered, None),
        Became::Bounced | Became::Failed => (State::Bounced, Some(reason)),
    };
    let change = Change { state, at: news.at, reason: why };
    if news.id.channel == Channel::Email
        && transactional::reported(tx, app, workspace, &news.id, &change).await?
    {
        return Ok(());
    }
    let report = match news.became {
        Became::Processed => return Ok(()),
        Became::Delivered => dispatch::Report::Delivered,
        Became::Bounced | Became::Failed => dispatch::Report::Bounced(reason.to_owned()),
    };
    dispatch::reported(tx, workspace, &news.id, report).await?;
    Ok(())
}
