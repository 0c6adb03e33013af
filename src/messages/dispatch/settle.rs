//! What messages came to, counted: in the transaction that says it of each.

use std::collections::BTreeMap;

use super::error::DispatchError;
use super::message_rows::{self, Common, RowState, Settled};
use super::report_rows::Added;
use super::{job, part_rows, report_rows};
use crate::messages::Channel;
use crate::messages::order::Order;
use crate::store::{StoreError, Tx};

/// How many messages came to what, in all and by channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub totals: Added,
    pub by_channel: BTreeMap<(Channel, RowState), i64>,
}

impl Counts {
    pub fn add(&mut self, channel: Channel, state: RowState) {
        self.totals.add(state, 1);
        *self.by_channel.entry((channel, state)).or_default() += 1;
    }

    /// Whether nothing came to an end.
    fn is_empty(&self) -> bool {
        self.totals == Added::default()
    }

    /// Tells metrics, once all is committed.
    pub fn emit(&self) {
        for ((channel, state), count) in &self.by_channel {
            let labels = [("channel", channel.name()), ("outcome", state.name())];
            metrics::counter!("longshore_dispatch_messages_total", &labels)
                .increment(count.unsigned_abs());
        }
    }
}

/// Counts what messages came to, in their part and in their campaign's statistics.
pub(super) async fn count(
    tx: &mut Tx,
    order: &Order,
    common: Common,
    counts: &Counts,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    part_rows::count(tx, common.dispatch, common.part, &counts.totals).await?;
    let Some(campaign) = common.campaign else { return Ok(()) };
    // The last lock, since it is every part's; in the order of the keys.
    let mut rows: BTreeMap<(&str, &str), Added> = BTreeMap::new();
    for ((channel, state), count) in &counts.by_channel {
        let variation = job::variation(order, *channel);
        rows.entry((variation, channel.name())).or_default().add(*state, *count);
    }
    for ((variation, channel), added) in rows {
        let of = (common.workspace, campaign, variation, channel);
        report_rows::add_statistics(tx, of, &added).await?;
    }
    Ok(())
}

/// Writes down what became of messages; each counts once, whoever else did the same.
pub(super) async fn settle(
    tx: &mut Tx,
    order: &Order,
    common: Common,
    settled: &mut [Settled],
) -> Result<Counts, DispatchError> {
    // Two workers that settle the same, one of them late, wait for each other in order.
    settled.sort_unstable_by_key(|one| (one.service_id, one.channel));
    let mut counts = Counts::default();
    for (channel, state) in message_rows::settle(tx, common, settled).await? {
        counts.add(channel, state);
    }
    count(tx, order, common, &counts).await?;
    Ok(counts)
}
