//! Applies the status of a message after its channel accepted it.

use crate::app::App;
use crate::messages::{MessageId, dispatch};
use crate::transactional;
use crate::transactional::State;
use crate::transactional::reports::Change;
use crate::workspaces::Channel;
use store::{StoreError, Tx};

kit::named! {
    /// The status of a message.
    pub enum Became {
        /// An email: the relay prepares it for the recipient's provider.
        Processed = "processed",
        Delivered = "delivered",
        /// An email: the recipient's provider rejected it.
        Bounced = "bounced",
        /// Any other failed delivery.
        Failed = "failed",
    }
}

/// A report about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub id: MessageId,
    pub became: Became,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The reason of a failed delivery.
    pub reason: Option<String>,
}

/// Updates transactional emails and dispatches, in the caller's transaction. The reports must be in
/// the order of their ids.
pub async fn tell(app: &App, tx: &mut Tx, workspace: i32, news: &[News]) -> Result<(), StoreError> {
    let mut of_dispatches = Vec::new();
    for News { id, became, at, reason } in news {
        let reason = reason.as_deref().unwrap_or_default();
        let (state, why, report) = match became {
            Became::Processed => (State::Processed, None, None),
            Became::Delivered => (State::Delivered, None, Some(dispatch::Report::Delivered)),
            Became::Bounced | Became::Failed => {
                let report = dispatch::Report::Bounced(reason.to_owned());
                (State::Bounced, Some(reason), Some(report))
            }
        };
        let change = Change { state, at: *at, reason: why };
        let is_transactional = id.channel == Channel::Email
            && transactional::reported(tx, app, workspace, id, &change).await?;
        if !is_transactional {
            of_dispatches.extend(report.map(|report| (*id, report)));
        }
    }
    dispatch::reported(tx, workspace, &of_dispatches).await?;
    Ok(())
}
