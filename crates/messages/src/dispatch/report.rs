//! Later reports about messages: their status after their channel accepted them.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::state::{Counts, OutcomeCounts, RowState};
use super::{bounces, job, part_rows, report_rows, rows};
use crate::MessageId;
use gateway::workspaces::Channel;
use kit::smtp::AddressBounce;
use people::users::suppressions::bounces::Bounce;
use runtime::history;
use store::{StoreError, Tx};

/// A channel's report about a message that it accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Delivered,
    Bounced {
        reason: String,
        /// Whether the address is the cause, and how; for how long it gets no emails, in
        /// milliseconds.
        address: Option<(AddressBounce, i64)>,
    },
}

/// Stores reports about messages, each once; returns how many were new. Reports about unknown
/// messages are ignored. The reports must be in the order of their ids. They are counted after all
/// are stored, to lock rows in the same order as other writers.
pub async fn store_reports(
    tx: &mut Tx,
    workspace_id: i32,
    reports: &[(MessageId, Report)],
) -> Result<usize, StoreError> {
    let (mut stored, mut sent) = (0, Counts::default());
    let mut reported = OutcomeCounts::default();
    let mut parts: BTreeMap<(Uuid, i64), Counts> = BTreeMap::new();
    let mut bounced: BTreeMap<Uuid, Vec<Bounce>> = BTreeMap::new();
    let mut by_campaign: BTreeMap<(Uuid, Uuid, Channel), OutcomeCounts> = BTreeMap::new();
    for (id, report) in reports {
        let message = report_rows::store_report(tx, workspace_id, id, report).await?;
        let Some(message) = message else { continue };
        stored += 1;
        let mut added = OutcomeCounts::default();
        match report {
            Report::Delivered => added.delivered = 1,
            Report::Bounced { .. } => added.bounced = 1,
        }
        if let Report::Bounced { address: Some((status, period)), .. } = report
            && id.channel == Channel::Email
            && let Some(address) = message.address(tx, workspace_id, id).await?
        {
            let bounce = Bounce { address, status: *status, period: *period };
            bounced.entry(id.dispatch_id).or_default().push(bounce);
        }
        // Each message counts once.
        if message.was_delivered {
            added.delivered = -1;
        }
        // The worker has not stored yet that it was sent, and no longer needs to.
        if message.was_open {
            added.sent = 1;
            let part = parts.entry((id.dispatch_id, message.part)).or_default();
            part.add(id.channel, RowState::Sent);
            sent.add(id.channel, RowState::Sent);
        }
        reported += added;
        if let Some(campaign) = message.campaign_id {
            *by_campaign.entry((campaign, id.dispatch_id, id.channel)).or_default() += added;
        }
    }
    for ((dispatch, part), counts) in &parts {
        part_rows::count(tx, *dispatch, *part, counts).await?;
    }
    history::count(tx, workspace_id, &reported.in_history()).await?;
    let mut statistics: BTreeMap<(Uuid, String, &str), OutcomeCounts> = BTreeMap::new();
    for ((campaign, dispatch, channel), added) in by_campaign {
        if let Some(dispatch) = rows::load(tx, dispatch).await? {
            let variation = job::variation(&dispatch.order, channel).to_owned();
            *statistics.entry((campaign, variation, channel.name())).or_default() += added;
        }
    }
    for ((campaign, variation, channel), added) in &statistics {
        let key = (workspace_id, *campaign, variation.as_str(), *channel);
        report_rows::add_statistics(tx, key, added).await?;
    }
    for (dispatch, bounced) in bounced {
        bounces::store(tx, workspace_id, dispatch, bounced).await?;
    }
    sent.emit();
    Ok(stored)
}
