//! Stores and counts the outcomes of messages in one transaction.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use super::complaints::{self, Reasons};
use super::error::DispatchError;
use super::message_rows::{self, Common, Settled};
use super::state::{Added, Counts};
use super::{Engine, job, part_rows, report_rows};
use crate::messages::order::Order;
use kit::fail_point;
use kit::retry::{Retry as _, Tries};
use store::{StoreError, Tx};

/// How long an outcome waits for others, to be stored together.
const WITHIN: Duration = Duration::from_secs(1);

/// Counts the outcomes of messages, in their part and in their campaign's statistics.
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

/// Stores the outcomes of messages; each counts once, even if another worker stores it, too.
pub(super) async fn settle(
    tx: &mut Tx,
    order: &Order,
    common: Common,
    settled: &mut [Settled],
) -> Result<Counts, DispatchError> {
    // Two workers that settle the same, one of them late, wait for each other in order.
    settled.sort_unstable_by_key(|one| (one.service_id, one.channel));
    let mut left: Vec<&Settled> = settled.iter().collect();
    let mut counts = Counts::default();
    // Again for those that somebody else changed at the same moment, if they are still open.
    for _ in 0..2 {
        let mut written = HashSet::new();
        for (user, channel, state) in message_rows::settle(tx, common, &left).await? {
            counts.add(channel, state);
            written.insert((user, channel));
        }
        left.retain(|one| !written.contains(&(one.service_id, one.channel)));
    }
    count(tx, order, common, &counts).await?;
    Ok(counts)
}

/// Stores the outcomes of messages, with retries for as long as a lease, because a message without
/// a stored outcome is sent again. It needs no claim: the messages were sent.
pub(super) async fn note(
    engine: &Engine,
    order: &Order,
    common: Common,
    mut settled: Vec<Settled>,
) -> Result<(), DispatchError> {
    if settled.is_empty() {
        return Ok(());
    }
    let app = &engine.app;
    let reasons = complaints::reasons(&settled);
    let mut tries = Tries::within(app.config.lease());
    loop {
        let noted = async {
            let mut tx = app.store.write().await?;
            let counts = settle(&mut tx, order, common, &mut settled).await?;
            tx.commit().await?;
            Ok(counts)
        };
        match noted.await {
            Err(DispatchError::Store(error)) if error.can_retry() && tries.again().await => {
                tracing::warn!(%error, "cannot store the status of messages; retrying");
            }
            noted => {
                fail_point!("dispatch::settled");
                told(engine, common, &noted?, &reasons);
                return Ok(());
            }
        }
    }
}

/// Updates metrics and the operator's log, once all is committed.
pub(super) fn told(engine: &Engine, common: Common, counts: &Counts, reasons: &Reasons) {
    counts.emit();
    engine.complaints.say(common.dispatch, counts, reasons);
}

/// Stores outcomes as they arrive: those of quick messages together, for which nothing waits long.
/// Returns the last ones, which are not stored yet.
pub(super) async fn keep(
    engine: &Engine,
    order: &Order,
    common: Common,
    mut came: UnboundedReceiver<Settled>,
) -> Result<Vec<Settled>, DispatchError> {
    let mut settled = Vec::new();
    let mut until = Instant::now() + WITHIN;
    loop {
        match timeout_at(until, came.recv()).await {
            Ok(Some(one)) => settled.push(one),
            Ok(None) => return Ok(settled),
            Err(_) => {
                note(engine, order, common, std::mem::take(&mut settled)).await?;
                until = Instant::now() + WITHIN;
            }
        }
    }
}
