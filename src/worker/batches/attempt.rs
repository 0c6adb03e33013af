//! One batch, from being taken to its end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::sync::RwLock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Handler, Options};
use crate::app::App;
use crate::faults::fail_point;
use crate::log::message_ids::{self, REMEMBERED, Scope};
use crate::log::offsets::{self, Place};
use crate::log::{Ack, Batch, Message};
use crate::panics;
use crate::retry::{self, Retry};
use crate::store::{StoreError, answered};
use crate::worker::messages::rows;

/// Noted beginnings without a clean end after which messages are tried alone.
const SUSPECT: i32 = 2;

/// Of these, beginnings alone after which a message is not tried any more: one may have been
/// that of a worker which ended for another reason just then.
const CONVICTED: i32 = 2;

/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a transaction may take, from a connection to its commit. One that takes longer
/// is left to its end: the guard tells whether it came to one.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between looks for remembered ids that are too old, in milliseconds of message time.
const SWEEP_EVERY: i64 = 10 * 60 * 1000;

/// What all batches of a runner share.
pub(super) struct Shared<H> {
    pub app: App,
    pub group: &'static str,
    pub handler: H,
    pub options: Options,
    /// Held for reading by who is at work; for writing by who must be alone.
    pub alone: RwLock<()>,
    /// By partition: up to which message time ids were swept.
    pub swept: Mutex<HashMap<i32, i64>>,
    pub shutdown: CancellationToken,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All of it is applied or buried.
    Done,
    /// The worker must end, or the partition went: whoever has it next goes on.
    HandedBack,
    /// The store says that the partition is elsewhere than this worker thinks.
    Lost,
}

/// Sees a batch through; it is acknowledged when all of it is done.
pub(super) async fn see_through<H: Handler>(
    shared: Arc<Shared<H>>,
    batch: Batch,
    ack: Ack,
) -> Ending {
    let began = Instant::now();
    let batch = Arc::new(batch);
    let place = batch.place.clone();
    let mut attempt =
        Attempt { shared: shared.clone(), batch: batch.clone(), ack, place, noted: None };
    let ending = attempt.run().await;
    if ending == Ending::Done {
        shared.sweep_ids(&batch).await;
        fail_point!("batch::done");
        attempt.ack.done();
    } else {
        attempt.forget_or_warn().await;
    }
    let topic = batch.messages[0].topic.name();
    let outcome = match ending {
        Ending::Done => "done",
        Ending::HandedBack => "handed_back",
        Ending::Lost => "lost",
    };
    metrics::counter!("longshore_batches_total", "topic" => topic, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("longshore_batch_messages", "topic" => topic)
        .record(batch.messages.len() as f64);
    metrics::histogram!("longshore_batch_seconds", "topic" => topic).record(began.elapsed());
    ending
}

/// Why a try came to nothing.
enum Failure {
    /// Another one may succeed; or this one did, and its answer was lost.
    Passing(String),
    /// It fails each time.
    Lasting(String),
    /// The partition is not where it was expected.
    Moved,
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    fn of(error: &(impl Retry + Display)) -> Self {
        match error.can_retry() {
            true => Self::Passing(error.to_string()),
            false => Self::Lasting(error.to_string()),
        }
    }
}

/// What became of some messages of a batch.
enum Step {
    Passed,
    /// They fail together: each half by itself may not.
    Halve,
    Ended(Ending),
}

/// How the notes of former attempts say that a batch is to be tried.
enum Care {
    Usual,
    /// Message by message, while nothing else is under way.
    Alone,
    /// Its first message ended workers that had nothing else under way.
    Bury(i32),
}

struct Attempt<H> {
    shared: Arc<Shared<H>>,
    batch: Arc<Batch>,
    ack: Ack,
    /// Up to where everything is applied.
    place: Place,
    /// The message of which a note is in the store, by its index.
    noted: Option<usize>,
}

impl<H: Handler> Attempt<H> {
    async fn run(&mut self) -> Ending {
        let care = match self.batch.is_first {
            true => match self.judge().await {
                Ok(care) => care,
                Err(ending) => return ending,
            },
            false => Care::Usual,
        };
        let shared = self.shared.clone();
        if let Care::Alone = care {
            let _alone = shared.alone.write().await;
            tracing::warn!("it ended workers: its messages are tried one by one");
            return self.one_by_one().await;
        }
        let _at_work = shared.alone.read().await;
        let mut first = 0;
        if let Care::Bury(attempts) = care {
            let reason = format!(
                "it ended its worker {attempts} times, the last {CONVICTED} while nothing else was \
                 under way"
            );
            if let Step::Ended(ending) = self.step(0..1, Some(reason)).await {
                return ending;
            }
            first = 1;
        } else if self.batch.is_first
            && let Some(ending) = self.noted(0, false).await
        {
            return ending;
        }
        self.in_pieces(first..self.batch.messages.len()).await
    }

    /// Applies messages together, and in smaller and smaller pieces where that fails.
    async fn in_pieces(&mut self, all: Range<usize>) -> Ending {
        let mut pieces = vec![all];
        while let Some(piece) = pieces.pop() {
            match self.step(piece.clone(), None).await {
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

    async fn one_by_one(&mut self) -> Ending {
        for index in 0..self.batch.messages.len() {
            if let Some(ending) = self.noted(index, true).await {
                return ending;
            }
            if let Step::Ended(ending) = self.step(index..index + 1, None).await {
                return ending;
            }
        }
        Ending::Done
    }

    /// Tries to apply messages until they are, or cannot be; with a reason, buries the only one.
    async fn step(&mut self, mut piece: Range<usize>, mut bury: Option<String>) -> Step {
        let mut tries = 0;
        loop {
            piece.start = piece.start.max(self.passed());
            if piece.is_empty() {
                return Step::Passed;
            }
            let (pause, text) = match self.commit(&piece, bury.clone()).await {
                Ok(()) => return Step::Passed,
                Err(Failure::Lasting(_)) if piece.len() > 1 => return Step::Halve,
                Err(Failure::Lasting(reason)) if bury.is_none() => {
                    bury = Some(reason);
                    continue;
                }
                Err(Failure::Moved) => (0, "the partition is not where it was".to_owned()),
                Err(Failure::Passing(text) | Failure::Lasting(text)) => (1, text),
            };
            tries += pause;
            if let Some(ending) = self.wait(tries, &text).await {
                return Step::Ended(ending);
            }
            // What the store has is what counts: this try may have come through unanswered.
            if let Some(ending) = self.look().await {
                return Step::Ended(ending);
            }
        }
    }

    /// Pauses before the next try; how to end, if there is to be none.
    async fn wait(&self, tries: u32, error: &str) -> Option<Ending> {
        if tries > 0 {
            tracing::warn!(error, tries, "the batch is tried again");
            let pause = retry::pause(tries, self.shared.options.pause, LONGEST_PAUSE);
            retry::wait(pause, &self.shared.shutdown).await;
        }
        let gone = self.shared.shutdown.is_cancelled() || !self.ack.is_ours();
        gone.then_some(Ending::HandedBack)
    }

    /// The first message that is not applied.
    fn passed(&self) -> usize {
        self.batch.messages.partition_point(|message| message.offset < self.place.next)
    }

    /// Reads where the partition is: on by what was applied, or away from this batch.
    async fn look(&mut self) -> Option<Ending> {
        let mut tries = 0;
        loop {
            let (shared, batch) = (self.shared.clone(), self.batch.clone());
            let place = async move {
                let Place { partition, consumer_group: group, .. } = &batch.place;
                let mut tx = shared.app.store.snapshot().await?;
                offsets::place(&mut tx, group, batch.messages[0].topic, *partition).await
            };
            let place: Result<_, StoreError> = answered(place, sleep(PATIENCE)).await;
            match place {
                Ok(Some(place))
                    if place.log_id == self.place.log_id
                        && (self.place.next..=self.batch.next()).contains(&place.next) =>
                {
                    self.place = place;
                    return None;
                }
                Ok(place) => {
                    tracing::warn!(?place, expected = ?self.place, "the partition was moved");
                    return Some(Ending::Lost);
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

    /// Applies messages, or buries the only one, together with the offset after them.
    async fn commit(&mut self, piece: &Range<usize>, bury: Option<String>) -> Result<(), Failure> {
        let work = Work {
            shared: self.shared.clone(),
            batch: self.batch.clone(),
            piece: piece.clone(),
            place: self.place.clone(),
            noted: self.noted.filter(|noted| piece.contains(noted)),
            bury,
        };
        let count = piece.len() as u64;
        let next = work.next();
        let buried = work.bury.clone();
        let done = AssertUnwindSafe(answered_failure(work.run())).catch_unwind().await;
        let repeated = match done {
            Ok(done) => done?,
            Err(panic) => {
                let text = format!("it panicked: {}", panics::text(&*panic));
                tracing::error!("{text}");
                return Err(Failure::Lasting(text));
            }
        };
        self.place.next = next;
        self.noted = self.noted.filter(|noted| !piece.contains(noted));
        let new = count - repeated;
        let outcome = if buried.is_some() { "dead_letter" } else { "done" };
        if let Some(reason) = buried.filter(|_| new > 0) {
            tracing::error!(offset = next - 1, reason, "the message is a dead letter now");
        }
        let topic = self.batch.messages[0].topic.name();
        for (outcome, count) in [(outcome, new), ("repeated", repeated)] {
            metrics::counter!("longshore_messages_total", "topic" => topic, "outcome" => outcome)
                .increment(count);
        }
        Ok(())
    }

    /// How the notes of former attempts say that the first message is to be tried.
    async fn judge(&mut self) -> Result<Care, Ending> {
        let mut tries = 0;
        loop {
            let (shared, batch) = (self.shared.clone(), self.batch.clone());
            let attempts = async move {
                let mut tx = shared.app.store.snapshot().await?;
                rows::attempts(&mut tx, shared.group, &batch.messages[0]).await
            };
            let attempts: Result<_, StoreError> = answered(attempts, sleep(PATIENCE)).await;
            match attempts {
                Ok(attempts) => {
                    self.noted = (attempts.count > 0).then_some(0);
                    return Ok(match attempts.count {
                        count if attempts.alone >= CONVICTED => Care::Bury(count),
                        count if attempts.alone > 0 || count >= SUSPECT => Care::Alone,
                        _ => Care::Usual,
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

    /// Notes that a message is begun; how to end, if that cannot be.
    async fn noted(&mut self, index: usize, alone: bool) -> Option<Ending> {
        let mut tries = 0;
        loop {
            let (shared, batch) = (self.shared.clone(), self.batch.clone());
            // It may be there even where the answer is lost.
            self.noted = Some(index);
            let note = async move {
                let mut tx = shared.app.store.write().await?;
                rows::note(&mut tx, shared.group, &batch.messages[index], alone).await?;
                tx.commit().await
            };
            let noted: Result<(), StoreError> = answered(note, sleep(PATIENCE)).await;
            let Err(error) = noted else { return None };
            tries += 1;
            if let Some(ending) = self.wait(tries, &error.to_string()).await {
                return Some(ending);
            }
        }
    }

    /// A note that stays behind makes the next worker more careful, and nothing else.
    async fn forget_or_warn(&mut self) {
        let Some(index) = self.noted else { return };
        let (shared, batch) = (self.shared.clone(), self.batch.clone());
        let forget = async move {
            let mut tx = shared.app.store.write().await?;
            rows::forget(&mut tx, shared.group, &batch.messages[index]).await?;
            tx.commit().await
        };
        let forgotten: Result<(), StoreError> = answered(forget, sleep(PATIENCE)).await;
        if let Err(error) = forgotten {
            tracing::warn!(%error, "the note of a batch could not be removed");
        }
    }
}

impl<H: Handler> Shared<H> {
    /// Forgets the ids of messages that are long past, now and then.
    async fn sweep_ids(self: &Arc<Self>, batch: &Batch) {
        let (first, partition) = (&batch.messages[0], batch.place.partition);
        {
            let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
            let last = swept.entry(partition).or_insert(i64::MIN);
            if first.appended_at.saturating_sub(*last) < SWEEP_EVERY {
                return;
            }
            *last = first.appended_at;
        }
        let (shared, topic, before) =
            (self.clone(), first.topic, first.appended_at.saturating_sub(REMEMBERED));
        let sweep = async move {
            let scope = Scope { group: shared.group, topic, partition };
            loop {
                let mut tx = shared.app.store.write().await?;
                let more = message_ids::sweep(&mut tx, scope, before).await?;
                tx.commit().await?;
                if !more {
                    return Ok(());
                }
            }
        };
        let swept: Result<(), StoreError> = answered(sweep, sleep(PATIENCE)).await;
        if let Err(error) = swept {
            tracing::warn!(%error, "ids of messages could not be swept; later again");
        }
    }
}

/// One transaction: some messages, and the offset after them.
struct Work<H> {
    shared: Arc<Shared<H>>,
    batch: Arc<Batch>,
    piece: Range<usize>,
    place: Place,
    noted: Option<usize>,
    /// Why the only message is to become a dead letter.
    bury: Option<String>,
}

impl<H: Handler> Work<H> {
    fn messages(&self) -> &[Message] {
        &self.batch.messages[self.piece.clone()]
    }

    fn next(&self) -> i64 {
        self.messages().last().map_or(self.place.next, |message| message.offset + 1)
    }

    fn scope(&self) -> Scope<'_> {
        Scope::of(self.shared.group, &self.messages()[0])
    }

    /// The messages that were not applied under their id before. Whatever is remembered
    /// between this look and the transaction moves the partition, and so ends this try.
    async fn new_messages(&self) -> Result<Cow<'_, [Message]>, Failure> {
        let messages = self.messages();
        let ids: Vec<Uuid> = messages.iter().filter_map(message_ids::id_of).collect();
        if ids.is_empty() {
            return Ok(Cow::Borrowed(messages));
        }
        let mut seen = {
            let mut tx = self.shared.app.store.snapshot().await?;
            message_ids::known(&mut tx, self.scope(), &ids).await?
        };
        let new: Vec<bool> = messages
            .iter()
            .map(|message| message_ids::id_of(message).is_none_or(|id| seen.insert(id)))
            .collect();
        if new.iter().all(|new| *new) {
            return Ok(Cow::Borrowed(messages));
        }
        let new = messages.iter().zip(new).filter(|(_, new)| *new);
        let new = new.map(|(message, _)| message.clone());
        Ok(Cow::Owned(new.collect()))
    }

    /// How many of the messages had been applied before.
    async fn run(self) -> Result<u64, Failure> {
        let handler = &self.shared.handler;
        let new = self.new_messages().await?;
        let repeated = (self.messages().len() - new.len()) as u64;
        let bury = self.bury.as_ref().filter(|_| !new.is_empty());
        let prepared = if new.is_empty() || bury.is_some() {
            None
        } else {
            let prepared = handler.prepare(&new).await;
            Some(prepared.map_err(|error| Failure::of(&error))?)
        };
        let mut tx = self.shared.app.store.write().await?;
        let topic = self.messages()[0].topic;
        if !offsets::advance(&mut tx, topic, &self.place, self.next()).await? {
            return Err(Failure::Moved);
        }
        let ids = new.iter().filter_map(|new| Some((message_ids::id_of(new)?, new.appended_at)));
        message_ids::remember(&mut tx, self.scope(), &ids.collect::<Vec<_>>()).await?;
        let applied = match &prepared {
            Some(prepared) => {
                let applied = handler.apply(&mut tx, prepared).await;
                Some(applied.map_err(|error| Failure::of(&error))?)
            }
            None => None,
        };
        if let Some(reason) = bury {
            let (now, message) = (self.shared.app.clock.now_ms(), &self.messages()[0]);
            let attempts = rows::attempts(&mut tx, self.shared.group, message).await?.count.max(1);
            rows::bury(&mut tx, self.shared.group, message, reason, attempts, now).await?;
        }
        if let Some(noted) = self.noted {
            rows::forget(&mut tx, self.shared.group, &self.batch.messages[noted]).await?;
        }
        fail_point!("batch::applied");
        // What the commit answers may be lost, so no error of it is the last word.
        tx.commit().await.map_err(|error| Failure::Passing(error.to_string()))?;
        fail_point!("batch::committed");
        applied.into_iter().for_each(|applied| handler.applied(applied));
        Ok(repeated)
    }
}

/// Waits for a transaction, no longer than for [`PATIENCE`].
async fn answered_failure(
    work: impl Future<Output = Result<u64, Failure>> + Send + 'static,
) -> Result<u64, Failure> {
    answered(work, sleep(PATIENCE)).await
}
