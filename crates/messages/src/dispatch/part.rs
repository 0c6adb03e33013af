//! Works on a part of a dispatch: batch after batch, until all users are processed and no message
//! waits.
//!
//! While messages of one batch are sent, those of the next one are stored and rendered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use uuid::Uuid;

use super::batch::{Batch, PartReader};
use super::error::DispatchError;
use super::failure_log;
use super::guard::{Guard, LastState};
use super::job::Job;
use super::message_rows::{self, PartContext, Settled};
use super::part_rows::{self, Part, Recipients};
use super::send::{self, Ready};
use super::settle;
use super::state::{Counts, RowState, State};
use super::{Engine, ending, rows, telemetry, uncertain_rows};
use crate::app::App;
use kit::fail_point;
use kit::moment::Moment;
use kit::retry::{self, Retry as _, TimedRetries};
use runtime::kinds;
use runtime::traces;
use store::Tx;
use store::claims::{self, Claim, ClaimError};

/// The longest pause before the retry of a part whose work failed.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// How long messages are rendered before they are sent: with a slow template, the first ones must
/// not wait for all others.
const MAX_RENDER_TIME: Duration = Duration::from_secs(1);

/// Works on the part of a claim. If the dispatch has ended, drops the claim.
pub async fn run(
    engine: &Arc<Engine>,
    claim: &Claim,
    stop: &CancellationToken,
) -> Result<(), DispatchError> {
    let app = &engine.app;
    // The last worker of the part ended without settling it.
    if claim.attempt > 1
        && let Err(error) = mark_uncertain(app, claim).await
    {
        return match error {
            // Temporary failures do not count as attempts.
            DispatchError::Store(error)
                if error.can_retry() && !error.needs_newer_version() && !stop.is_cancelled() =>
            {
                tracing::warn!(%error, "dispatch part failed; retrying");
                let pause = Duration::from_millis(app.config.messages.retry_ms);
                Ok(claims::release_uncounted(&app.store, claim, pause).await?)
            }
            error => Err(error),
        };
    }
    if claim.attempt.unsigned_abs() > app.config.messages.attempts {
        give_up(app, claim, None).await?;
        return Ok(());
    }
    let result = work_on(engine, claim, stop).await;
    // The next attempt may have the number of this one, so it would not mark them.
    if matches!(result, Err(DispatchError::Unsettled(_))) && !stop.is_cancelled() {
        mark_uncertain(app, claim).await?;
    }
    let pause = match result {
        // Whoever has the fewest running parts is next.
        Err(DispatchError::TurnOver) => Duration::ZERO,
        // Temporary failures do not count as attempts.
        Err(DispatchError::Store(error) | DispatchError::Unsettled(error))
            if error.can_retry() && !error.needs_newer_version() && !stop.is_cancelled() =>
        {
            tracing::warn!(%error, "dispatch part failed; retrying");
            let base = Duration::from_millis(app.config.messages.retry_ms);
            retry::backoff(1, base, MAX_BACKOFF)
        }
        result => return result,
    };
    let mut tx = app.store.write().await?;
    claims::offer_again(&mut tx, claim, pause).await?;
    Ok(tx.commit().await?)
}

async fn work_on(
    engine: &Arc<Engine>,
    claim: &Claim,
    stop: &CancellationToken,
) -> Result<(), DispatchError> {
    let app = &engine.app;
    // Before the read, so that a later end wakes it.
    let last = LastState::new(app, claim);
    let (dispatch, part) = match load(app, claim).await? {
        Loaded::Open(reader) => {
            let (dispatch, part) = (reader.part.dispatch_id, reader.part.number);
            let guard = Arc::new(Guard::new(app, dispatch, *claim, last, stop));
            let (engine, stop) = (engine.clone(), stop.clone());
            let work = Work { engine, reader: *reader, unrendered: Batch::default(), guard, stop };
            match work.run().await {
                Err(DispatchError::Ended | DispatchError::Lost) => (dispatch, part),
                result => return result,
            }
        }
        Loaded::Ended(dispatch, part) => (dispatch, part),
        Loaded::Done => {
            let mut tx = app.store.write().await?;
            claims::finish(&mut tx, claim).await?;
            return Ok(tx.commit().await?);
        }
    };
    settle_ended(app, claim, dispatch, part).await
}

/// Settles a part whose dispatch has ended, and releases its claim.
async fn settle_ended(
    app: &App,
    claim: &Claim,
    dispatch: Uuid,
    part: i64,
) -> Result<(), DispatchError> {
    let mut tx = app.store.write().await?;
    if rows::lock_open(&mut tx, dispatch).await? {
        // Still open: the claim itself was lost.
        return Err(DispatchError::Lost);
    }
    claims::finish(&mut tx, claim).await?;
    ending::settle_part(&mut tx, dispatch, part).await?;
    tx.commit().await?;
    telemetry::part("ended");
    Ok(())
}

/// Marks the messages that the last worker of the part may have sent without storing their outcome;
/// that may be this worker. Repeats have no effect.
async fn mark_uncertain(app: &App, claim: &Claim) -> Result<(), DispatchError> {
    let mut tx = app.store.write().await?;
    let Some(part) = find(&mut tx, claim).await? else { return Ok(()) };
    // Locked first, as everywhere.
    rows::lock_open(&mut tx, part.dispatch_id).await?;
    claims::extend(&mut tx, claim, app.config.lease()).await?;
    let (id, now) = (part.dispatch_id, app.clock.now_ms());
    uncertain_rows::mark_lost(&mut tx, id, part.number, now).await?;
    Ok(tx.commit().await?)
}

async fn find(tx: &mut Tx, claim: &Claim) -> Result<Option<Part>, DispatchError> {
    Ok(match claim.kind {
        kinds::DISPATCH_NAMED => part_rows::by_claim(tx, claim.job, claim.item).await?,
        _ => part_rows::by_number(tx, claim.job, claim.item).await?,
    })
}

/// The part of a claim.
enum Loaded {
    Open(Box<PartReader>),
    /// Its dispatch has ended early: the dispatch, and the number of the part.
    Ended(Uuid, i64),
    /// Nothing is left to do.
    Done,
}

async fn load(app: &App, claim: &Claim) -> Result<Loaded, DispatchError> {
    let mut tx = app.store.snapshot().await?;
    let Some(part) = find(&mut tx, claim).await?.filter(|part| !part.is_done) else {
        return Ok(Loaded::Done);
    };
    let Some(dispatch) = rows::load(&mut tx, part.dispatch_id).await? else {
        return Ok(Loaded::Done);
    };
    traces::continue_trace(&dispatch.order.request_id);
    if dispatch.state != State::Running {
        return Ok(Loaded::Ended(part.dispatch_id, part.number));
    }
    let job = Job::load(app, &mut tx, dispatch).await?;
    Ok(Loaded::Open(Box::new(PartReader::new(app, Arc::new(job), part, *claim))))
}

/// The work of this worker on a part.
struct Work {
    engine: Arc<Engine>,
    reader: PartReader,
    /// Messages that are stored and not rendered yet.
    unrendered: Batch,
    guard: Arc<Guard>,
    stop: CancellationToken,
}

impl Work {
    async fn run(mut self) -> Result<(), DispatchError> {
        self.resume().await?;
        let Some(mut ready) = self.next().await? else {
            return self.release(Vec::new()).await;
        };
        let mut settling = None;
        loop {
            let sending = tokio::spawn(self.send(ready).in_current_span());
            let next = self.next().await;
            let sent = join_task(sending).await;
            // Also if sending failed: the next attempt must not find the earlier messages open.
            if let Some(previous) = settling.take() {
                join_task(previous).await?;
            }
            let settled = sent?;
            fail_point!("dispatch::sent");
            if let Ok(None) = next
                && !self.must_halt()
            {
                return self.release(settled).await;
            }
            // The next messages are sent meanwhile.
            let task = tokio::spawn(self.settle(settled).in_current_span());
            match next {
                Ok(Some(next)) if !self.must_halt() && !self.guard.is_turn_over() => {
                    (ready, settling) = (next, Some(task));
                }
                next => {
                    join_task(task).await?;
                    if self.must_halt() {
                        return Err(self.halted());
                    }
                    return Err(next.err().unwrap_or(DispatchError::TurnOver));
                }
            }
        }
    }

    /// Sends messages that were stored before: those that another worker did not settle, and those
    /// whose next attempt is due.
    async fn resume(&mut self) -> Result<(), DispatchError> {
        let now = self.reader.app.clock.now_ms();
        while let Some(batch) = self.reader.open(now).await? {
            self.unrendered = batch;
            while !self.unrendered.is_empty() && !self.guard.is_turn_over() {
                let ready = self.render().await;
                let settled = self.send(ready).await?;
                self.settle(settled).await?;
                if self.must_halt() {
                    return Err(self.halted());
                }
            }
            self.reader.progress().await?;
            if self.guard.is_turn_over() {
                // The next turn begins with untried messages. If none are stored, store those of
                // some new users first, so that retries do not delay new users for ever.
                self.unrendered = Batch::default();
                if self.reader.has_untried().await? {
                    return Err(DispatchError::TurnOver);
                }
                break;
            }
        }
        Ok(())
    }

    /// Whether no other message may start.
    fn must_halt(&self) -> bool {
        self.guard.halt().is_cancelled()
    }

    /// Why no other message may start.
    fn halted(&self) -> DispatchError {
        if self.stop.is_cancelled() { DispatchError::Stopped } else { DispatchError::Ended }
    }

    /// The next messages, as many as are held at a time; none if all users were processed.
    async fn next(&mut self) -> Result<Option<Ready>, DispatchError> {
        while !self.must_halt() {
            if !self.unrendered.is_empty() {
                return Ok(Some(self.render().await));
            }
            match self.reader.next(self.guard.halt()).await? {
                None => return Ok(None),
                Some(batch) => self.unrendered = batch,
            }
        }
        Err(self.halted())
    }

    async fn render(&mut self) -> Ready {
        let (app, began) = (&self.reader.app, Moment::now());
        let (mut batch, now) = (std::mem::take(&mut self.unrendered), app.clock.now_ms());
        let mut ready = Ready::new(&mut batch);
        while !batch.is_empty()
            && !ready.is_full()
            && began.elapsed() < MAX_RENDER_TIME
            && !self.must_halt()
        {
            let (job, halt) = (self.reader.job.clone(), self.guard.halt().clone());
            let computing = app.compute(job.order.workspace_id, move || {
                ready.render(&job, &mut batch, now, &halt);
                (ready, batch)
            });
            (ready, batch) = computing.await;
        }
        metrics::histogram!("longshore_dispatch_render_seconds").record(began.elapsed());
        self.unrendered = batch;
        ready
    }

    /// Sends messages; returns the last outcomes, which are not stored yet.
    fn send(
        &self,
        ready: Ready,
    ) -> impl Future<Output = Result<Vec<Settled>, DispatchError>> + Send + 'static {
        fail_point!("dispatch::rendered");
        self.guard.begin_turn();
        let (engine, job) = (self.engine.clone(), self.reader.job.clone());
        let (guard, stop) = (self.guard.clone(), self.stop.clone());
        let is_named = matches!(self.reader.part.recipients, Recipients::Named(_));
        let context = self.reader.context();
        async move {
            let sends = if is_named { &engine.named } else { &engine.parts };
            let (sender, outcomes) = unbounded_channel();
            let sending = send::send(&engine.app, &job, sends, ready, (&guard, &stop), sender);
            let collecting =
                settle::collect_outcomes(&engine, &job.order, context, outcomes, guard.halt());
            let ((), unstored) = tokio::join!(sending, collecting);
            unstored
        }
    }

    /// Stores the outcomes of messages.
    fn settle(
        &self,
        settled: Vec<Settled>,
    ) -> impl Future<Output = Result<(), DispatchError>> + Send + use<> {
        let (engine, job) = (self.engine.clone(), self.reader.job.clone());
        let context = self.reader.context();
        async move { settle::store_outcomes(&engine, &job.order, context, settled).await }
    }

    /// Stores the last outcomes, and releases the part: as done, or until the next waiting message
    /// is due.
    async fn release(&self, mut settled: Vec<Settled>) -> Result<(), DispatchError> {
        let mut tries = TimedRetries::within(self.reader.app.config.lease());
        loop {
            match self.try_release(&mut settled).await {
                Err(DispatchError::Store(error)) if error.can_retry() && tries.again().await => {
                    tracing::warn!(%error, "cannot release a part; retrying");
                }
                Err(DispatchError::Lost) => {
                    self.settle(settled).await?;
                    return Err(DispatchError::Lost);
                }
                // They were sent.
                Err(DispatchError::Store(error)) if !settled.is_empty() => {
                    return Err(DispatchError::Unsettled(error));
                }
                result => return result,
            }
        }
    }

    async fn try_release(&self, settled: &mut [Settled]) -> Result<(), DispatchError> {
        let PartReader { app, job, part, claim, .. } = &self.reader;
        let id = part.dispatch_id;
        let mut tx = app.store.write().await?;
        // Locked first, as everywhere.
        if !rows::lock_open(&mut tx, id).await? {
            return Err(DispatchError::Lost);
        }
        let counts = settle::settle(&mut tx, &job.order, self.reader.context(), settled).await?;
        let outcome = match message_rows::next_open(&mut tx, id, part.number).await? {
            Some(at) => {
                // Not for each waiting message separately.
                let min_delay = app.config.messages.retry_ms / 4;
                let delay = at.saturating_sub(app.clock.now_ms()).max(0).unsigned_abs();
                let delay = Duration::from_millis(delay.max(min_delay));
                claims::offer_again(&mut tx, claim, delay).await?;
                "waits"
            }
            None => {
                claims::finish(&mut tx, claim).await?;
                finish(&mut tx, part).await?;
                "done"
            }
        };
        fail_point!("dispatch::leaving");
        tx.commit().await?;
        fail_point!("dispatch::left");
        let reasons = failure_log::reasons(settled);
        settle::emit(&self.engine, self.reader.context(), &counts, &reasons);
        telemetry::part(outcome);
        Ok(())
    }
}

/// The result of a task; a panic of the task is propagated.
async fn join_task<T>(task: JoinHandle<T>) -> T {
    task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Marks a part as done, and its dispatch if no other work is left.
async fn finish(tx: &mut Tx, part: &Part) -> Result<(), DispatchError> {
    if !rows::count_part_done(tx, part.dispatch_id).await? {
        return Err(DispatchError::Lost);
    }
    part_rows::mark_done(tx, part.dispatch_id, part.number).await?;
    Ok(ending::finish(tx, part.dispatch_id).await?)
}

/// Called if the work of a claim failed, or repeatedly ended its worker. The messages in progress
/// fail, and the part continues after them. Without messages in progress, the part is given up, and
/// its dispatch gets the reason. A problem of the whole dispatch ends it.
pub async fn give_up(
    app: &App,
    claim: &Claim,
    error: Option<&DispatchError>,
) -> Result<(), ClaimError> {
    if matches!(error, Some(DispatchError::Lost | DispatchError::Stopped | DispatchError::Ended)) {
        return Err(ClaimError::Lost);
    }
    match try_give_up(app, claim, error).await {
        Ok(()) => Ok(()),
        Err(DispatchError::Store(error)) => Err(error.into()),
        Err(_) => Err(ClaimError::Lost),
    }
}

async fn try_give_up(
    app: &App,
    claim: &Claim,
    error: Option<&DispatchError>,
) -> Result<(), DispatchError> {
    let why =
        error.map_or_else(|| "it ended its worker repeatedly".to_owned(), ToString::to_string);
    let mut tx = app.store.write().await?;
    let Some(part) = find(&mut tx, claim).await? else {
        claims::finish(&mut tx, claim).await?;
        return Ok(tx.commit().await?);
    };
    let id = part.dispatch_id;
    if let Some(DispatchError::Permanent(_) | DispatchError::Costly(_)) = error {
        ending::end_early(&mut tx, id, State::Failed, Some(&why)).await?;
        claims::finish(&mut tx, claim).await?;
        ending::settle_part(&mut tx, id, part.number).await?;
        return Ok(tx.commit().await?);
    }
    let is_open = rows::lock_open(&mut tx, id).await?;
    claims::finish(&mut tx, claim).await?;
    if !is_open {
        ending::settle_part(&mut tx, id, part.number).await?;
        return Ok(tx.commit().await?);
    }
    let failed = message_rows::fail_open(&mut tx, id, part.number, &why).await?;
    let mut counts = Counts::default();
    failed.iter().for_each(|channel| counts.add(*channel, RowState::Failed));
    if let Some(dispatch) = rows::load(&mut tx, id).await? {
        let order = dispatch.order;
        let context = PartContext::new(order.workspace_id, order.campaign_id, &part);
        settle::count(&mut tx, &order, context, &counts).await?;
    }
    if failed.is_empty() {
        rows::set_note(&mut tx, id, &format!("part {} was given up: {why}", part.number)).await?;
        finish(&mut tx, &part).await?;
        telemetry::part("given_up");
    } else {
        let job = claims::Job::new(claim.workspace, claim.job);
        claims::offer(&mut tx, claim.kind, job, claim.item, Duration::ZERO).await?;
    }
    tx.commit().await?;
    counts.emit();
    tracing::error!(part = part.number, messages = failed.len(), "dispatch part given up: {why}");
    Ok(())
}
