//! One batch, from its start to its end.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Handler;
use super::failure::{Failure, caught};
use super::positions::Difference;
use super::rows;
use super::shared::{ApplyMode, Shared, TIMEOUT};
use super::work::{Done, Work};
use kit::fail_point;
use kit::moment::Moment;
use kit::retry;
use log::offsets::{self, GroupOffset};
use log::{Ack, Batch};
use store::{StoreError, within_timeout};

/// Number of recorded starts without a clean end after which messages are tried alone.
const MAX_SHARED_STARTS: i32 = 2;

/// Number of starts alone after which a message is not tried again. It is more than one, because a
/// worker may have ended for another reason.
const MAX_ALONE_STARTS: i32 = 2;

/// Number of attempts in a row after which a message that is too large by itself may become a dead
/// letter, once [`Options::too_large_time`](super::Options) has passed. The stored position is read
/// between them, so an unavailable database never causes that.
const MIN_TOO_LARGE_TRIES: u32 = 5;

/// The longest pause between attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// An attempt that failed after a longer time was slow because of its size.
const LONG: Duration = Duration::from_secs(60);

/// Attempts after which operators see the cause of a waiting partition.
const REPORT_AFTER_TRIES: u32 = 3;

/// The end of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All of it is applied or became dead letters.
    Done,
    /// The worker must stop, or the partition was revoked: its next owner continues.
    HandedBack,
    /// The database lost commits, so the partition is read again from the stored position.
    Reverted,
    /// The stored position differs from this worker's for another reason.
    Lost,
}

/// Processes a batch until its end; acknowledges it when all of it is done.
pub(super) async fn process_batch<H: Handler>(
    shared: Arc<Shared<H>>,
    batch: Batch,
    ack: Ack,
) -> Ending {
    let began = Moment::now();
    let batch = Arc::new(batch);
    let position = batch.position.clone();
    let mut attempt =
        Attempt { shared: shared.clone(), batch: batch.clone(), ack, position, recorded: None };
    let ending = attempt.run().await;
    if ending == Ending::Done {
        shared.sweep_ids(&batch).await;
        fail_point!("batch::done");
        attempt.ack.done();
    } else {
        attempt.delete_record().await;
        if ending == Ending::Reverted {
            shared.handler.lost_commits();
            attempt.ack.restart();
        }
    }
    shared.clear_waiting(batch.position.partition);
    let topic = batch.messages[0].topic.name();
    let outcome = match ending {
        Ending::Done => "done",
        Ending::HandedBack => "handed_back",
        Ending::Reverted => "reverted",
        Ending::Lost => "lost",
    };
    metrics::counter!("longshore_batches_total", "topic" => topic, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("longshore_batch_messages", "topic" => topic)
        .record(batch.messages.len() as f64);
    metrics::histogram!("longshore_batch_seconds", "topic" => topic).record(began.elapsed());
    ending
}

/// The result for some messages of a batch.
enum Step {
    Passed,
    /// They fail together; each half alone may succeed.
    Halve,
    Ended(Ending),
}

/// The caution that recorded earlier attempts require.
enum Caution {
    Usual,
    /// Message by message, while no other work runs.
    Alone,
    /// Its first message ended workers that were running no other work.
    DeadLetter(i32),
}

struct Attempt<H> {
    shared: Arc<Shared<H>>,
    batch: Arc<Batch>,
    ack: Ack,
    /// The position before which everything is applied.
    position: GroupOffset,
    /// The index of the message with a stored record.
    recorded: Option<usize>,
}

impl<H: Handler> Attempt<H> {
    async fn run(&mut self) -> Ending {
        let caution = if self.batch.is_first {
            match self.check_attempts().await {
                Ok(caution) => caution,
                Err(ending) => return ending,
            }
        } else {
            Caution::Usual
        };
        if let Caution::Alone = caution {
            tracing::warn!("workers were lost on this batch; trying its messages one by one");
            return self.apply_one_by_one().await;
        }
        let mut first = 0;
        if let Caution::DeadLetter(attempts) = caution {
            let reason = format!(
                "its worker was lost {attempts} times, the last {MAX_ALONE_STARTS} times while no other \
                 work was running"
            );
            if let Step::Ended(ending) = self.step(0..1, ApplyMode::DeadLetter(reason), false).await
            {
                return ending;
            }
            first = 1;
        } else if self.batch.is_first
            && let Some(ending) = self.record_first_start().await
        {
            return ending;
        }
        self.apply_in_pieces(first..self.batch.messages.len()).await
    }

    /// Applies messages together, and in smaller and smaller pieces if that fails.
    async fn apply_in_pieces(&mut self, messages: Range<usize>) -> Ending {
        let mut pieces = vec![messages];
        while let Some(piece) = pieces.pop() {
            match self.step(piece.clone(), ApplyMode::Together, false).await {
                Step::Passed => {}
                Step::Halve => {
                    let middle = piece.start + piece.len() / 2;
                    pieces.push(middle..piece.end);
                    pieces.push(piece.start..middle);
                }
                Step::Ended(ending) => return ending,
            }
        }
        Ending::Done
    }

    async fn apply_one_by_one(&mut self) -> Ending {
        for index in 0..self.batch.messages.len() {
            let step = self.step(index..index + 1, ApplyMode::Together, true).await;
            if let Step::Ended(ending) = step {
                return ending;
            }
        }
        Ending::Done
    }

    /// Tries messages until they are applied, or cannot be applied together.
    async fn step(&mut self, mut piece: Range<usize>, mut mode: ApplyMode, alone: bool) -> Step {
        let mut tries = 0;
        let (mut too_large_tries, mut too_large_since) = (0, Moment::now());
        loop {
            piece.start = piece.start.max(self.first_unapplied());
            if piece.is_empty() {
                return Step::Passed;
            }
            let (pause, text) = match self.try_once(&piece, &mode, alone).await {
                Ok(()) => {
                    self.shared.clear_waiting(self.position.partition);
                    return Step::Passed;
                }
                Err(Failure::Permanent(_) | Failure::TooLarge(_) | Failure::Newer(_))
                    if piece.len() > 1 =>
                {
                    return Step::Halve;
                }
                Err(Failure::TooLarge(_)) if matches!(mode, ApplyMode::Together) => {
                    mode = ApplyMode::InParts;
                    (too_large_tries, too_large_since) = (0, Moment::now());
                    continue;
                }
                Err(Failure::TooLarge(text)) if matches!(mode, ApplyMode::InParts) => {
                    too_large_tries += 1;
                    let time = too_large_since.elapsed();
                    if too_large_tries >= MIN_TOO_LARGE_TRIES
                        && time >= self.shared.options.too_large_time
                    {
                        mode = mode.after(format!("it is too large for a transaction: {text}"));
                        continue;
                    }
                    (1, text)
                }
                Err(Failure::Permanent(reason)) if !matches!(mode, ApplyMode::DeadLetter(_)) => {
                    mode = mode.after(reason);
                    continue;
                }
                Err(Failure::Stopped) => return Step::Ended(Ending::HandedBack),
                Err(Failure::OffsetMoved) => (0, "the partition's position has changed".to_owned()),
                Err(Failure::Newer(text)) => {
                    // Reported immediately, because only an upgrade helps.
                    tries = tries.max(REPORT_AFTER_TRIES - 1);
                    (1, text)
                }
                Err(
                    Failure::Transient(text) | Failure::TooLarge(text) | Failure::Permanent(text),
                ) => {
                    (too_large_tries, too_large_since) = (0, Moment::now());
                    (1, text)
                }
            };
            tries += pause;
            if let Some(ending) = self.wait(tries, &text).await {
                return Step::Ended(ending);
            }
            // The store decides: this attempt may have been committed although its response was
            // lost.
            if let Some(ending) = self.reload_position().await {
                return Step::Ended(ending);
            }
        }
    }

    /// One attempt. A record that says "alone" is stored only while no other work runs: the message
    /// must not be blamed for other work.
    async fn try_once(
        &mut self,
        piece: &Range<usize>,
        mode: &ApplyMode,
        alone: bool,
    ) -> Result<(), Failure> {
        let shared = self.shared.clone();
        if !alone {
            let _at_work = shared.unless_stopped(shared.alone.read()).await?;
            return self.commit(piece, mode).await;
        }
        let _alone = shared.unless_stopped(shared.alone.write()).await?;
        let result = match self.record_start(piece.start, true).await {
            Ok(true) => self.commit(piece, mode).await,
            Ok(false) => Err(Failure::OffsetMoved),
            Err(error) => Err(error.into()),
        };
        if result.is_err() {
            self.delete_record().await;
        }
        result
    }

    /// Pauses before the next attempt; returns the ending if no attempt is left.
    async fn wait(&self, tries: u32, error: &str) -> Option<Ending> {
        if tries > 0 {
            tracing::warn!(error, tries, "batch failed; retrying");
            if tries >= REPORT_AFTER_TRIES {
                self.shared.set_waiting(self.batch.messages[0].topic, &self.position, error);
            }
            let pause = retry::backoff(tries, self.shared.options.pause, MAX_BACKOFF);
            retry::wait(pause, &self.shared.shutdown).await;
        }
        let must_stop = self.shared.shutdown.is_cancelled() || !self.ack.is_assigned();
        must_stop.then_some(Ending::HandedBack)
    }

    /// The first message that is not applied.
    fn first_unapplied(&self) -> usize {
        self.batch.messages.partition_point(|message| message.offset < self.position.next)
    }

    /// Reads the stored position: it has moved with the applied messages, or away from this batch.
    async fn reload_position(&mut self) -> Option<Ending> {
        let mut tries = 0;
        loop {
            let (shared, batch) = (self.shared.clone(), self.batch.clone());
            let position = async move {
                let GroupOffset { partition, consumer_group: group, .. } = &batch.position;
                let mut tx = shared.app.store.snapshot().await?;
                offsets::position(&mut tx, group, batch.messages[0].topic, *partition).await
            };
            let position: Result<_, StoreError> = within_timeout(position, sleep(TIMEOUT)).await;
            match position {
                Ok(Some(position))
                    if position.log_id == self.position.log_id
                        && (self.position.next..=self.batch.next()).contains(&position.next) =>
                {
                    self.position = position;
                    return None;
                }
                Ok(stored) => {
                    let topic = self.batch.messages[0].topic;
                    let difference = Difference::between(&self.position, stored.as_ref());
                    difference.report(topic, &self.position, stored.as_ref());
                    return Some(match difference {
                        Difference::LostCommits => Ending::Reverted,
                        Difference::Reset | Difference::Advanced => Ending::Lost,
                    });
                }
                Err(error) => {
                    tries += 1;
                    if let Some(ending) = self.wait(tries, &error.to_string()).await {
                        return Some(ending);
                    }
                }
            }
        }
    }

    /// Applies messages together with the offset after them.
    async fn commit(&mut self, piece: &Range<usize>, mode: &ApplyMode) -> Result<(), Failure> {
        let began = Moment::now();
        let work = Work {
            shared: self.shared.clone(),
            batch: self.batch.clone(),
            piece: piece.clone(),
            position: self.position.clone(),
            recorded: self.recorded.filter(|recorded| piece.contains(recorded)),
            mode: mode.clone(),
        };
        let next = work.next();
        let done = caught(within_timeout(work.run(), sleep(TIMEOUT))).await;
        let Done { new, repeated, dead_letter } = done.map_err(|failure| match failure {
            Failure::Transient(text) if began.elapsed() >= LONG => Failure::TooLarge(text),
            failure => failure,
        })?;
        self.position.next = next;
        self.recorded = self.recorded.filter(|recorded| !piece.contains(recorded));
        let outcome = if dead_letter.is_some() { "dead_letter" } else { "done" };
        if let Some(reason) = dead_letter {
            tracing::error!(offset = next - 1, reason, "message became a dead letter");
        }
        let topic = self.batch.messages[0].topic.name();
        for (outcome, count) in [(outcome, new), ("repeated", repeated)] {
            metrics::counter!("longshore_log_processed_total", "topic" => topic, "outcome" => outcome)
                .increment(count);
        }
        Ok(())
    }

    /// The caution that the records require for the first message.
    async fn check_attempts(&mut self) -> Result<Caution, Ending> {
        let mut tries = 0;
        loop {
            let (shared, batch) = (self.shared.clone(), self.batch.clone());
            let attempts = async move {
                let mut tx = shared.app.store.snapshot().await?;
                rows::attempts(&mut tx, shared.group, &batch.messages[0]).await
            };
            let attempts: Result<_, StoreError> = within_timeout(attempts, sleep(TIMEOUT)).await;
            match attempts {
                Ok(attempts) => {
                    self.recorded = (attempts.count > 0).then_some(0);
                    return Ok(match attempts.count {
                        count if attempts.alone >= MAX_ALONE_STARTS => Caution::DeadLetter(count),
                        count if attempts.alone > 0 || count >= MAX_SHARED_STARTS => Caution::Alone,
                        _ => Caution::Usual,
                    });
                }
                Err(error) => {
                    tries += 1;
                    if let Some(ending) = self.wait(tries, &error.to_string()).await {
                        return Err(ending);
                    }
                }
            }
        }
    }

    /// Records the start of the first message; returns how to end if that is impossible.
    async fn record_first_start(&mut self) -> Option<Ending> {
        let shared = self.shared.clone();
        let mut tries = 0;
        loop {
            let recorded = match shared.unless_stopped(shared.alone.read()).await {
                Ok(_at_work) => self.record_start(0, false).await,
                Err(_) => return Some(Ending::HandedBack),
            };
            let error = match recorded {
                Ok(true) => return None,
                Ok(false) => {
                    let (topic, expected) = (self.batch.messages[0].topic, self.position.clone());
                    return Some(self.reload_position().await.unwrap_or_else(|| {
                        Difference::Advanced.report(topic, &expected, Some(&self.position));
                        Ending::Lost
                    }));
                }
                Err(error) => error,
            };
            tries += 1;
            if let Some(ending) = self.wait(tries, &error.to_string()).await {
                return Some(ending);
            }
        }
    }

    /// Records the start of a message, unless the stored position has changed: its new owner would
    /// never delete the record.
    async fn record_start(&mut self, index: usize, alone: bool) -> Result<bool, StoreError> {
        let (shared, batch) = (self.shared.clone(), self.batch.clone());
        let position = self.position.clone();
        // It may be stored even if the response was lost.
        self.recorded = Some(index);
        fail_point!("batch::begun");
        let recording = async move {
            let mut tx = shared.app.store.write().await?;
            let message = &batch.messages[index];
            let is_current =
                offsets::advance(&mut tx, message.topic, &position, position.next).await?;
            if is_current {
                rows::record_start(&mut tx, shared.group, message, alone).await?;
                tx.commit().await?;
            }
            Ok(is_current)
        };
        within_timeout(recording, sleep(TIMEOUT)).await
    }

    /// A record that stays only makes the next worker more careful.
    async fn delete_record(&mut self) {
        let Some(index) = self.recorded else { return };
        let (shared, batch) = (self.shared.clone(), self.batch.clone());
        let deletion = async move {
            let mut tx = shared.app.store.write().await?;
            rows::delete_attempts(&mut tx, shared.group, &batch.messages[index]).await?;
            tx.commit().await
        };
        let deleted: Result<(), StoreError> = within_timeout(deletion, sleep(TIMEOUT)).await;
        if let Err(error) = deleted {
            tracing::warn!(%error, "cannot delete the record of a batch");
        }
    }
}
