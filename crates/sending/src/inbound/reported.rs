//! Applies the status of a message after its channel accepted it.

use crate::app::App;
use crate::transactional;
use crate::transactional::State;
use crate::transactional::reports::Change;
use gateway::workspaces::Channel;
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
    for StatusUpdate { id, status, at, reason } in updates {
        let reason = reason.as_deref().unwrap_or_default();
        let (state, error, report) = match status {
            ReportedStatus::Processed => (State::Processed, None, None),
            ReportedStatus::Delivered => {
                (State::Delivered, None, Some(dispatch::Report::Delivered))
            }
            ReportedStatus::Bounced | ReportedStatus::Failed => {
                let report = dispatch::Report::Bounced(reason.to_owned());
                (State::Bounced, Some(reason), Some(report))
            }
        };
        let change = Change { state, at: *at, reason: error };
        let is_transactional = id.channel == Channel::Email
            && transactional::apply_report(tx, app, workspace, id, &change).await?;
        if !is_transactional {
            in_dispatches.extend(report.map(|report| (*id, report)));
        }
    }
    dispatch::store_reports(tx, workspace, &in_dispatches).await?;
    Ok(())
}
