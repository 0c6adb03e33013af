//! Stores and counts the outcomes of messages in one transaction.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::DispatchError;
use super::failure_log::{self, Reasons};
use super::message_rows::{self, PartContext, Settled};
use super::state::{Counts, OutcomeCounts};
use super::{Engine, bounces, job, part_rows, report_rows};
use crate::order::Order;
use kit::fail_point;
use kit::moment::Moment;
use kit::retry::{Retry as _, TimedRetries};
use runtime::history;
use store::{StoreError, Tx};

/// How long an outcome waits to be stored together with others.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Counts the outcomes of messages, in their part and in their campaign's statistics.
pub(super) async fn count(
    tx: &mut Tx,
    order: &Order,
    context: PartContext,
    counts: &Counts,
) -> Result<(), StoreError> {
    if counts.is_empty() {
        return Ok(());
    }
    part_rows::count(tx, context.dispatch, context.part, counts).await?;
    history::count(tx, context.workspace, &counts.totals.in_history()).await?;
    let Some(campaign) = context.campaign else { return Ok(()) };
    // Locked last, because all parts share these rows; in the order of their keys.
    let mut rows: BTreeMap<(&str, &str), OutcomeCounts> = BTreeMap::new();
    for ((channel, state), count) in &counts.by_channel {
        let variation = job::variation(order, *channel);
        rows.entry((variation, channel.name())).or_default().add(*state, *count);
    }
    for ((variation, channel), added) in rows {
        let key = (context.workspace, campaign, variation, channel);
        report_rows::add_statistics(tx, key, &added).await?;
    }
    Ok(())
}

/// Stores the outcomes of messages. Each counts once, even if another worker also stores it.
pub(super) async fn settle(
    tx: &mut Tx,
    order: &Order,
    context: PartContext,
    settled: &mut [Settled],
) -> Result<Counts, DispatchError> {
    // Sorted, so that two workers that settle the same messages do not deadlock.
    settled.sort_unstable_by_key(|message| (message.service_id, message.channel));
    let mut unwritten: Vec<&Settled> = settled.iter().collect();
    let (mut counts, mut bounced) = (Counts::default(), Vec::new());
    // Repeated for messages that another writer changed at the same moment, if they are still open.
    for _ in 0..2 {
        let mut written = HashSet::new();
        for (user, channel, state) in message_rows::settle(tx, context, &unwritten).await? {
            counts.add(channel, state);
            written.insert((user, channel));
        }
        unwritten.retain(|message| {
            let is_written = written.contains(&(message.service_id, message.channel));
            bounced.extend(message.bounce.clone().filter(|_| is_written));
            !is_written
        });
    }
    count(tx, order, context, &counts).await?;
    bounces::store(tx, context.workspace, context.dispatch, bounced).await?;
    Ok(counts)
}

/// Stores the outcomes of messages, with retries for as long as a lease, because a message without
/// a stored outcome is sent again. Needs no claim: the messages were sent. The error is
/// [`DispatchError::Unsettled`].
pub(super) async fn store_outcomes(
    engine: &Engine,
    order: &Order,
    context: PartContext,
    mut settled: Vec<Settled>,
) -> Result<(), DispatchError> {
    if settled.is_empty() {
        return Ok(());
    }
    let app = &engine.app;
    let reasons = failure_log::reasons(&settled);
    let mut tries = TimedRetries::within(app.config.lease());
    loop {
        let storing = async {
            let mut tx = app.store.write().await?;
            let counts = settle(&mut tx, order, context, &mut settled).await?;
            tx.commit().await?;
            Ok(counts)
        };
        match storing.await {
            Err(DispatchError::Store(error)) if error.can_retry() && tries.again().await => {
                tracing::warn!(%error, "cannot store the status of messages; retrying");
            }
            Err(DispatchError::Store(error)) => return Err(DispatchError::Unsettled(error)),
            stored => {
                fail_point!("dispatch::settled");
                emit(engine, context, &stored?, &reasons);
                return Ok(());
            }
        }
    }
}

/// Updates metrics and the log, after the commit.
pub(super) fn emit(engine: &Engine, context: PartContext, counts: &Counts, reasons: &Reasons) {
    counts.emit();
    engine.failure_log.log(context.dispatch, counts, reasons);
}

/// Stores outcomes as they arrive, several together if they arrive quickly; at `halt` at once,
/// because another worker may have the part and sends what has no outcome. Returns the last ones,
/// which are not stored yet.
pub(super) async fn collect_outcomes(
    engine: &Engine,
    order: &Order,
    context: PartContext,
    mut outcomes: UnboundedReceiver<Settled>,
    halt: &CancellationToken,
) -> Result<Vec<Settled>, DispatchError> {
    let (mut settled, mut is_halted) = (Vec::new(), false);
    let mut flush_at = Moment::now() + FLUSH_INTERVAL;
    loop {
        tokio::select! {
            received = timeout(flush_at.remaining(), outcomes.recv()) => match received {
                Ok(Some(message)) => {
                    settled.push(message);
                    continue;
                }
                Ok(None) => return Ok(settled),
                Err(_) => {}
            },
            () = halt.cancelled(), if !is_halted => is_halted = true,
        }
        store_outcomes(engine, order, context, std::mem::take(&mut settled)).await?;
        flush_at = Moment::now() + FLUSH_INTERVAL;
    }
}
