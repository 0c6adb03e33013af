//! One message, from being taken to a clean end: done, a dead letter, or handed back.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::rows::{self, Attempts};
use super::{Handler, Options};
use crate::app::App;
use kit::fail_point;
use kit::panics;
use kit::retry::{self, Retry};
use log::{Ack, Message, Topic};
use store::StoreError;

/// Noted beginnings without a clean end after which a message is tried alone.
const SUSPECT: i32 = 2;

/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What all messages of a runner share.
pub(super) struct Shared<H> {
    pub app: App,
    pub group: &'static str,
    pub handler: H,
    pub options: Options,
    /// One permit a message at work; who must be alone takes all.
    pub slots: Semaphore,
    /// By partition: the offset of a message that waits for a newer worker, and why. Told to
    /// operators.
    pub waiting: Mutex<BTreeMap<i32, (i64, String)>>,
    pub shutdown: CancellationToken,
}

impl<H> Shared<H> {
    fn waits(&self, message: &Message, error: &str) {
        let Message { topic, partition, offset, .. } = message;
        let text =
            format!("partition {partition} of {} waits at offset {offset}: {error}", topic.name());
        self.tell(message.topic, |waiting| {
            if waiting.get(partition).is_none_or(|(first, _)| offset <= first) {
                waiting.insert(*partition, (*offset, text));
            }
        });
    }

    fn waits_no_more(&self, message: &Message) {
        self.tell(message.topic, |waiting| {
            if waiting.get(&message.partition).is_some_and(|(first, _)| *first == message.offset) {
                waiting.remove(&message.partition);
            }
        });
    }

    fn tell(&self, topic: Topic, change: impl FnOnce(&mut BTreeMap<i32, (i64, String)>)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut waiting);
        let lines = waiting.values().map(|(_, text)| text.clone()).collect();
        self.app.notices.set(topic.name(), lines);
    }

    /// Removes the note of a message that came to a clean end.
    pub async fn forget(&self, message: &Message) -> Result<(), StoreError> {
        if !self.options.is_noted {
            return Ok(());
        }
        let mut tx = self.app.store.write().await?;
        rows::forget(&mut tx, self.group, message).await?;
        tx.commit().await
    }
}

/// How a try of the handler ended.
enum Outcome {
    Done,
    Refused(String),
    Failed(String),
    /// Only a newer worker can do it.
    Newer(String),
    Panicked(String),
}

/// What to do with a message, as far as its notes tell.
enum Verdict {
    Try {
        alone: bool,
    },
    /// It ended a worker while nothing else was under way.
    Kills(Attempts),
}

/// Sees a message through. It is acknowledged when done or buried; otherwise it is handed
/// back by dropping its acknowledgement.
pub(super) async fn see_through<H: Handler>(shared: &Shared<H>, message: &Message, ack: Ack) {
    let began = Instant::now();
    let attempt = Attempt {
        shared,
        message,
        tries: 0,
        begun: None,
        done: false,
        last_panic: None,
        waited: false,
    };
    let outcome = attempt.run(&ack).await;
    if outcome != "handed_back" {
        fail_point!("message::done");
        ack.done();
    }
    let topic = message.topic.name();
    metrics::counter!("longshore_messages_total", "topic" => topic, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("longshore_message_seconds", "topic" => topic).record(began.elapsed());
}

struct Attempt<'a, H> {
    shared: &'a Shared<H>,
    message: &'a Message,
    tries: u32,
    /// Whether a note of this very attempt is or may be in the store, and whether it says
    /// alone: it must not be taken for the note of a worker that ended.
    begun: Option<bool>,
    /// The handler is done with it, and only its note is to be removed.
    done: bool,
    last_panic: Option<String>,
    /// Whether operators were told that it waits.
    waited: bool,
}

impl<H: Handler> Attempt<'_, H> {
    /// Tries until there is a clean end, which it names.
    async fn run(mut self, ack: &Ack) -> &'static str {
        loop {
            match self.once().await {
                Ok(Some(outcome)) => {
                    self.waits_no_more();
                    return outcome;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the store cannot be reached: the message waits");
                }
            }
            self.tries = self.tries.saturating_add(1);
            let pause = retry::pause(self.tries, self.shared.options.pause, LONGEST_PAUSE);
            retry::wait(pause, &self.shared.shutdown).await;
            if self.shared.shutdown.is_cancelled() || !ack.is_ours() {
                break;
            }
        }
        if self.begun.is_some() {
            self.forget_or_warn().await;
        }
        self.waits_no_more();
        "handed_back"
    }

    fn waits_no_more(&self) {
        if self.waited {
            self.shared.waits_no_more(self.message);
        }
    }

    /// One try: the name of its clean end, or none if it is to be tried again.
    async fn once(&mut self) -> Result<Option<&'static str>, StoreError> {
        if self.done {
            return self.forget_done().await.map(Some);
        }
        let alone = match self.begun {
            Some(alone) => alone,
            None => match self.judge().await? {
                Verdict::Kills(attempts) => return self.bury_killer(attempts).await.map(Some),
                Verdict::Try { alone } => alone,
            },
        };
        let all = self.shared.options.in_flight;
        let permits = if alone { all } else { 1 };
        // Held until the note is gone: the next one may end the worker.
        let slot = tokio::select! {
            slot = self.shared.slots.acquire_many(permits) => slot,
            () = self.shared.shutdown.cancelled() => return Ok(Some("handed_back")),
        };
        if slot.is_err() {
            return Ok(Some("handed_back"));
        }
        self.begun = Some(alone);
        self.note(alone).await?;
        match self.handle().await {
            Outcome::Done => {
                self.done = true;
                self.forget_done().await.map(Some)
            }
            Outcome::Failed(error) => {
                tracing::warn!(error, tries = self.tries + 1, "the message is tried again later");
                self.forget_or_warn().await;
                Ok(None)
            }
            Outcome::Newer(error) => {
                tracing::warn!(error, "the message waits for a newer worker");
                self.shared.waits(self.message, &error);
                self.waited = true;
                self.forget_or_warn().await;
                Ok(None)
            }
            Outcome::Refused(reason) => self.bury(&reason, self.tries_so_far()).await.map(Some),
            Outcome::Panicked(reason) => {
                tracing::error!(reason, "the handler panicked");
                // The note stays, as that of an unclean end.
                self.begun = None;
                self.last_panic = Some(reason);
                Ok(None)
            }
        }
    }

    async fn judge(&self) -> Result<Verdict, StoreError> {
        if !self.shared.options.is_noted {
            return Ok(Verdict::Try { alone: false });
        }
        let mut tx = self.shared.app.store.snapshot().await?;
        let attempts = rows::attempts(&mut tx, self.shared.group, self.message).await?;
        Ok(if attempts.alone > 0 {
            Verdict::Kills(attempts)
        } else {
            Verdict::Try { alone: attempts.count >= SUSPECT }
        })
    }

    async fn note(&self, alone: bool) -> Result<(), StoreError> {
        if !self.shared.options.is_noted {
            return Ok(());
        }
        let mut tx = self.shared.app.store.write().await?;
        rows::note(&mut tx, self.shared.group, self.message, alone).await?;
        tx.commit().await
    }

    async fn handle(&self) -> Outcome {
        let handled = AssertUnwindSafe(self.shared.handler.handle(self.message)).catch_unwind();
        match handled.await {
            Ok(Ok(())) => Outcome::Done,
            Ok(Err(error)) if error.needs_newer() => Outcome::Newer(error.to_string()),
            Ok(Err(error)) if error.can_retry() => Outcome::Failed(error.to_string()),
            Ok(Err(error)) => Outcome::Refused(error.to_string()),
            Err(panic) => Outcome::Panicked(panics::text(&*panic).to_owned()),
        }
    }

    fn tries_so_far(&self) -> i32 {
        i32::try_from(self.tries).unwrap_or(i32::MAX).saturating_add(1)
    }

    async fn bury_killer(&self, attempts: Attempts) -> Result<&'static str, StoreError> {
        let reason = match &self.last_panic {
            Some(panic) => format!("the handler panicked each time, also alone: {panic}"),
            None => format!(
                "it ended its worker {} times, the last time while nothing else was under way",
                attempts.count
            ),
        };
        self.bury(&reason, attempts.count).await
    }

    async fn bury(&self, reason: &str, attempts: i32) -> Result<&'static str, StoreError> {
        let (app, group) = (&self.shared.app, self.shared.group);
        let mut tx = app.store.write().await?;
        rows::bury(&mut tx, group, self.message, reason, attempts, app.clock.now_ms()).await?;
        rows::forget(&mut tx, group, self.message).await?;
        tx.commit().await?;
        tracing::error!(reason, attempts, "the message is a dead letter now");
        Ok("dead_letter")
    }

    /// What is done is acknowledged only without its note: after that nobody would remove it.
    async fn forget_done(&mut self) -> Result<&'static str, StoreError> {
        self.shared.forget(self.message).await?;
        Ok("done")
    }

    /// A note that stays behind makes the next worker more careful, and nothing else.
    async fn forget_or_warn(&mut self) {
        match self.shared.forget(self.message).await {
            Ok(()) => self.begun = None,
            Err(error) => tracing::warn!(%error, "the note of a message could not be removed"),
        }
    }
}
