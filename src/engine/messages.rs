//! Messages to the work that they ask for: side by side, those of one key one after
//! another; retried in place for as long as it may help; a dead letter where it cannot.
//!
//! A message that ends its process is found by the note made before it is begun. Noted
//! twice without a clean end, it is tried alone; noted alone, it becomes a dead letter
//! untried. So a killer ends at most three workers, and no neighbour is taken for one.

mod attempt;
pub mod dead_letters;
pub(super) mod rows;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::attempt::{Shared, see_through};
use super::wait_for_log;
use crate::app::App;
use crate::config::Config;
use kit::retry::Retry;
use log::{Ack, Consumer, Message, Topic};

/// Messages held for each that may be at work: those that pause before another try, or
/// wait for one of their key, hold up nobody else until there are so many of them.
const HELD_PER_SLOT: usize = 16;

/// Does what a message asks for. It may be given the same message again: after a crash, a
/// rebalance, or an append whose answer was lost.
pub trait Handler: Send + Sync + 'static {
    type Error: Retry + Display + Send;

    fn handle(&self, message: &Message) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// How messages are worked on.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Messages at work at once.
    pub in_flight: u32,
    /// For what is under way when the worker must end.
    pub drain: Duration,
    /// The pause before the second try of a message; it doubles from there, to 30 seconds.
    pub pause: Duration,
    /// Whether it is noted of each message that it is begun. Not where what the handler does is
    /// rows that say so themselves: notes are three transactions a message.
    pub is_noted: bool,
}

impl Options {
    pub fn new(config: &Config) -> Self {
        Self {
            in_flight: u32::try_from(config.worker.messages_in_flight).unwrap_or(u32::MAX).max(1),
            drain: Duration::from_secs(config.worker.drain_seconds),
            pause: Duration::from_millis(500),
            is_noted: true,
        }
    }
}

/// Has `handler` do the messages of `topic` until `shutdown`; then takes no more, and
/// finishes or hands back what is under way.
pub async fn run(
    app: &App,
    group: &'static str,
    topic: Topic,
    handler: impl Handler,
    options: Options,
    shutdown: CancellationToken,
) {
    let slots = Semaphore::new(options.in_flight as usize);
    let shared = Arc::new(Shared {
        app: app.clone(),
        group,
        handler,
        options,
        slots,
        waiting: Mutex::new(BTreeMap::new()),
        shutdown,
    });
    let mut lanes = Lanes { shared: shared.clone(), tasks: JoinSet::new(), busy: HashMap::new() };
    let (mut failures, mut left) = (0, None);
    let held = (options.in_flight as usize).saturating_mul(HELD_PER_SLOT);
    while !shared.shutdown.is_cancelled() {
        match app.log.consumer(group, topic, held.min(Semaphore::MAX_PERMITS)) {
            Ok(consumer) => left = consume(&shared, consumer, &mut lanes, &mut failures).await,
            Err(error) => wait_for_log(&error, &mut failures, &shared.shutdown).await,
        }
    }
    drain(&shared, left, &mut lanes).await;
}

/// Takes messages from one consumer until it is of no more use, or the runner stops and
/// has it left.
async fn consume<H: Handler>(
    shared: &Shared<H>,
    mut consumer: Consumer,
    lanes: &mut Lanes<H>,
    failures: &mut u32,
) -> Option<Consumer> {
    loop {
        tokio::select! {
            biased;
            () = shared.shutdown.cancelled() => return Some(consumer),
            Some(ended) = lanes.tasks.join_next_with_id() => lanes.ended(ended),
            next = consumer.next() => match next {
                Ok((message, ack)) => {
                    *failures = 0;
                    lanes.add(message, ack);
                }
                Err(error) if consumer.is_closed() => {
                    wait_for_log(&error, failures, &shared.shutdown).await;
                    return None;
                }
                // It tries again at its own pace. To wait here would be to wait once more for
                // each error that it told before the log was back.
                Err(error) => tracing::warn!(%error, "no messages can be taken for now"),
            },
        }
    }
}

/// Hands back what is not begun, and lets what is under way end until the deadline.
async fn drain<H: Handler>(shared: &Shared<H>, consumer: Option<Consumer>, lanes: &mut Lanes<H>) {
    let deadline = Instant::now() + shared.options.drain;
    lanes.busy.values_mut().for_each(|lane| lane.waiting.clear());
    if let Some(consumer) = consumer {
        consumer.drain(shared.options.drain).await;
    }
    while let Ok(Some(ended)) = timeout_at(deadline, lanes.tasks.join_next_with_id()).await {
        lanes.ended(ended);
    }
    // What is still at work is handed back: it is not the message that ends this worker.
    // It is not aborted, since database work must run to its end.
    for lane in lanes.busy.values() {
        tracing::warn!(offset = lane.message.offset, "handed back: not done within the deadline");
        let forget = shared.forget(&lane.message);
        if let Err(error) = forget.await {
            tracing::warn!(%error, "the note of a message could not be removed");
        }
    }
    lanes.tasks.detach_all();
}

/// The messages that this runner has, those of one key in a lane of their own.
struct Lanes<H> {
    shared: Arc<Shared<H>>,
    tasks: JoinSet<()>,
    /// By the task that is at work.
    busy: HashMap<Id, Lane>,
}

struct Lane {
    /// The one at work.
    message: Arc<Message>,
    waiting: VecDeque<(Message, Ack)>,
}

impl Lane {
    /// A message that repeats one which already waits asks for nothing more: it is done with
    /// that one, since what is acknowledged counts only once all before it is. So repeats of
    /// what fails for long cannot fill the room of other keys.
    fn add(&mut self, message: Message, ack: Ack) {
        match self.waiting.back() {
            Some((last, _)) if last.payload == message.payload => ack.done(),
            _ => self.waiting.push_back((message, ack)),
        }
    }
}

impl<H: Handler> Lanes<H> {
    fn add(&mut self, message: Message, ack: Ack) {
        match self.busy.values_mut().find(|lane| lane.message.key == message.key) {
            Some(lane) => lane.add(message, ack),
            None => self.begin(message, ack, VecDeque::new()),
        }
    }

    fn begin(&mut self, message: Message, ack: Ack, waiting: VecDeque<(Message, Ack)>) {
        let span = tracing::info_span!(
            "message",
            request_id = message.request_id,
            topic = message.topic.name(),
            partition = message.partition,
            offset = message.offset,
        );
        let message = Arc::new(message);
        let (shared, at_work) = (self.shared.clone(), message.clone());
        let work = async move { see_through(&shared, &at_work, ack).await };
        let task = self.tasks.spawn(work.instrument(span));
        self.busy.insert(task.id(), Lane { message, waiting });
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            // Panics of the handler are caught before: this is a fault of the runner's own.
            Err(error) => {
                tracing::error!(%error, "a message's task failed; the message comes again later");
                error.id()
            }
        };
        let Some(mut lane) = self.busy.remove(&id) else { return };
        if let Some((message, ack)) = lane.waiting.pop_front() {
            self.begin(message, ack, lane.waiting);
        }
    }
}
