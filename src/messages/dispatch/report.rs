//! What is told about messages from elsewhere: what became of them after their channel had them.

use super::settle::Counts;
use super::{job, report_rows, rows};
use crate::messages::MessageId;
use crate::store::{StoreError, Tx};

/// What a channel says of a message some time after it took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Delivered,
    /// With the reason.
    Bounced(String),
}

/// Notes what a channel says of a message, once; answers whether there is such a message of which
/// it was not known.
pub async fn reported(
    tx: &mut Tx,
    workspace_id: i32,
    id: &MessageId,
    report: Report,
) -> Result<bool, StoreError> {
    let Some(told) = report_rows::report(tx, workspace_id, id, &report).await? else {
        return Ok(false);
    };
    let mut added = report_rows::Added::default();
    let mut counts = Counts::default();
    match report {
        Report::Delivered => added.delivered = 1,
        Report::Bounced(_) => added.bounced = 1,
    }
    // Its worker has not come to say that it was sent, and need not any more.
    if told.was_open {
        added.sent = 1;
        counts.add(id.channel, super::message_rows::RowState::Sent);
        super::part_rows::count(tx, id.dispatch_id, told.part, &counts.totals).await?;
    }
    if let Some(campaign) = told.campaign_id
        && let Some(dispatch) = rows::load(tx, id.dispatch_id).await?
    {
        let variation = job::variation(&dispatch.order, id.channel);
        let of = (workspace_id, campaign, variation, id.channel.name());
        report_rows::add_statistics(tx, of, &added).await?;
    }
    counts.emit();
    Ok(true)
}
