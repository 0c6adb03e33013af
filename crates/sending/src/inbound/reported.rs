//! Applies the status of a message after its channel accepted it.

use crate::app::App;
use crate::transactional;
use crate::transactional::State;
use crate::transactional::reports::Change;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::{self, Email};
use kit::smtp::AddressBounce;
use messages::{MessageId, dispatch};
use store::{StoreError, Tx};

kit::named! {
    /// The status of a message.
    pub enum ReportedStatus {
        /// Only emails: the relay prepares the email for the recipient's provider.
        Processed = "processed",
        Delivered = "delivered",
        /// Only emails: the recipient's provider rejected the email.
        Bounced = "bounced",
        /// Any other failed delivery.
        Failed = "failed",
    }
}

/// A report about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusUpdate {
    pub id: MessageId,
    pub status: ReportedStatus,
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The reason of a failed delivery.
    pub reason: Option<String>,
    /// Whether the email address is the cause, and how.
    pub address: Option<AddressBounce>,
}

/// Updates transactional emails and dispatches, in the caller's transaction. The reports must be in
/// the order of their ids.
pub async fn apply_updates(
    app: &App,
    tx: &mut Tx,
    workspace: i32,
    updates: &[StatusUpdate],
) -> Result<(), StoreError> {
    let mut in_dispatches = Vec::new();
    let period = if updates.iter().any(|update| update.address.is_some()) {
        let settings = settings::find(app, workspace).await?;
        settings.email.as_ref().map_or(0, Email::bounce_period)
    } else {
        0
    };
    for StatusUpdate { id, status, at, reason, address } in updates {
        let address = address.filter(|_| period > 0).map(|status| (status, period));
        let reason = reason.as_deref().unwrap_or_default();
        let (state, error, report) = match status {
            ReportedStatus::Processed => (State::Processed, None, None),
            ReportedStatus::Delivered => {
                (State::Delivered, None, Some(dispatch::Report::Delivered))
            }
            ReportedStatus::Bounced | ReportedStatus::Failed => {
                let report = dispatch::Report::Bounced { reason: reason.to_owned(), address };
                (State::Bounced, Some(reason), Some(report))
            }
        };
        let change = Change { state, at: *at, reason: error, bounce: address };
        let is_transactional = id.channel == Channel::Email
            && transactional::apply_report(tx, app, workspace, id, &change).await?;
        if !is_transactional {
            in_dispatches.extend(report.map(|report| (*id, report)));
        }
    }
    dispatch::store_reports(tx, workspace, &in_dispatches).await?;
    Ok(())
}
