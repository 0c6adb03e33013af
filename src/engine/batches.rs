//! Batches to the work that they ask for, exactly once: what a batch changes and the offset
//! of its partition are one transaction, guarded by the offset that was expected.
//!
//! A store that is away makes the worker wait with its partitions. A batch that fails for
//! good is halved until the message is found; of that each part is tried by itself, and what
//! fails of it becomes a dead letter in the same transaction as the offset. One that is more
//! than a transaction may hold, or takes too long, is halved and done in parts as well.
//!
//! A batch that ends its process is found by the note made before the first one of an
//! assignment: noted twice without a clean end, its messages are tried one by one, alone; one
//! that was twice noted alone becomes a dead letter untried. So a killer ends at most five
//! workers, and neither its neighbours are taken for one, nor is a message whose worker was
//! ended by something else again and again.

pub mod arrays;
mod attempt;
pub mod dead_letters;
mod failure;
mod parts;
mod rows;
mod shared;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::attempt::{Ending, see_through};
use self::shared::Shared;
use super::wait_for_log;
use crate::app::App;
use crate::config::Config;
use kit::retry::Retry;
use log::offsets::{self, Place};
use log::{Ack, Batch, Consumer, Limits, Message, Standing, Standings, Topic};
use store::{StoreError, Tx, answered};

/// Between looks at how far behind the partitions are, and whether stopped ones may go on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the store may take to say where a stopped partition goes on.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

/// Does what messages ask for, in a transaction that is not its own.
pub trait Handler: Send + Sync + 'static {
    type Error: Retry + Display + From<StoreError> + Send;
    /// What is made of messages before the transaction; may borrow from them.
    type Prepared<'m>: Send + Sync;
    /// What is told of messages once they are applied.
    type Applied: Send;

    /// Does what needs no part in the transaction, such as reading the messages; may be done
    /// again, and for some of the messages, whatever comes of the transaction.
    fn prepare<'m>(
        &self,
        messages: &'m [Message],
    ) -> impl Future<Output = Result<Self::Prepared<'m>, Self::Error>> + Send;

    /// Changes what is to be changed. The offset's row is locked already. After an error
    /// nothing of it stays.
    fn apply(
        &self,
        tx: &mut Tx,
        prepared: &Self::Prepared<'_>,
    ) -> impl Future<Output = Result<Self::Applied, Self::Error>> + Send;

    /// A message as several, in order, that come to the same one after the other; by itself
    /// where it asks for one thing only or cannot be read.
    fn split(&self, message: &Message) -> Vec<Message> {
        vec![message.clone()]
    }

    /// The message of some of the parts that one was [`split`](Self::split) into; at least one.
    fn join(&self, parts: &[&Message]) -> Message {
        parts[0].clone()
    }

    /// The transaction is committed: for metrics. A process that ends at this very
    /// moment never gets here.
    fn applied(&self, _applied: Self::Applied) {}
}

/// How batches are worked on.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub limits: Limits,
    /// For what is under way when the worker must end.
    pub drain: Duration,
    /// The pause before the second try of a batch; it doubles from there, to 10 seconds.
    pub pause: Duration,
}

impl Options {
    pub fn new(config: &Config) -> Self {
        let worker = &config.worker;
        Self {
            limits: Limits {
                messages: worker.batch_messages,
                bytes: worker.batch_bytes,
                in_flight: worker.batches_in_flight,
            },
            drain: Duration::from_secs(worker.drain_seconds),
            pause: Duration::from_millis(100),
        }
    }
}

/// Has `handler` apply the messages of `topic` until `shutdown`; then takes no more, and
/// finishes or hands back what is under way.
pub async fn run(
    app: &App,
    group: &'static str,
    topic: Topic,
    handler: impl Handler,
    options: Options,
    shutdown: CancellationToken,
) {
    let shared = Arc::new(Shared {
        app: app.clone(),
        group,
        handler,
        options,
        alone: RwLock::new(()),
        swept: Mutex::new(HashMap::new()),
        waiting: Mutex::new(BTreeMap::new()),
        shutdown,
    });
    let mut runner = Runner { shared, topic, tasks: JoinSet::new(), reported: BTreeSet::new() };
    let mut failures = 0;
    while !runner.shared.shutdown.is_cancelled() {
        match app.log.batches(group, topic, &app.store, options.limits) {
            Ok((consumer, standings)) => runner.consume(consumer, &standings, &mut failures).await,
            Err(error) => wait_for_log(&error, &mut failures, &runner.shared.shutdown).await,
        }
    }
    runner.report(&[], &[]);
}

struct Runner<H> {
    shared: Arc<Shared<H>>,
    topic: Topic,
    tasks: JoinSet<Ending>,
    /// The partitions that metrics tell of.
    reported: BTreeSet<i32>,
}

impl<H: Handler> Runner<H> {
    /// Takes batches from one consumer until the runner stops, or the partitions must be
    /// taken anew from where the store says.
    async fn consume(&mut self, mut consumer: Consumer, standings: &Standings, failures: &mut u32) {
        let shutdown = self.shared.shutdown.clone();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ending::Done | Ending::HandedBack) => {}
                    Ok(Ending::Lost) => break,
                    // Panics of the handler are caught before: this is a fault of the runner's.
                    Err(error) => {
                        tracing::error!(%error, "a batch's task failed; the batch comes again");
                        break;
                    }
                },
                _ = looks.tick() => {
                    let waiting = standings.waiting();
                    let standings = standings.all(self.shared.app.clock.now_ms());
                    self.report(&standings, &waiting);
                    if self.may_go_on(&standings).await {
                        tracing::info!("a stopped partition was reset: taking the partitions anew");
                        break;
                    }
                }
                next = consumer.next() => match next {
                    Ok((batch, ack)) => {
                        *failures = 0;
                        self.begin(batch, ack);
                    }
                    Err(error) => {
                        wait_for_log(&error, failures, &shutdown).await;
                        if consumer.is_closed() {
                            break;
                        }
                    }
                },
            }
        }
        self.leave(consumer).await;
    }

    fn begin(&mut self, batch: Batch, ack: Ack) {
        let span = tracing::info_span!(
            "batch",
            topic = self.topic.name(),
            partition = batch.place.partition,
            from = batch.place.next,
            messages = batch.messages.len(),
        );
        let work = see_through(self.shared.clone(), batch, ack);
        self.tasks.spawn(work.instrument(span));
    }

    /// Lets what is under way end until the deadline. What does not is not aborted, since
    /// database work must run to its end; should it commit yet, the guard keeps it right.
    async fn leave(&mut self, consumer: Consumer) {
        let deadline = Instant::now() + self.shared.options.drain;
        consumer.drain(self.shared.options.drain).await;
        while let Ok(Some(_)) = timeout_at(deadline, self.tasks.join_next()).await {}
        if !self.tasks.is_empty() {
            tracing::warn!(batches = self.tasks.len(), "not done within the deadline");
        }
        self.tasks.detach_all();
    }

    /// Tells how the partitions stand; those that went stand at nothing.
    fn report(&mut self, standings: &[Standing], waiting: &[i32]) {
        let now = self.shared.app.clock.now_ms();
        for standing in standings {
            let waiting = standing.since.map_or(0, |since| (now - since).max(0));
            self.gauge(standing.partition, standing.behind, waiting);
        }
        let held: BTreeSet<i32> = standings.iter().map(|standing| standing.partition).collect();
        self.reported.difference(&held).for_each(|partition| self.gauge(*partition, 0, 0));
        self.reported = held;
        let stopped = standings.iter().filter_map(|standing| standing.stopped.as_ref());
        let mut lines: Vec<String> = stopped.map(|(_, reason)| reason.clone()).collect();
        let (topic, group) = (self.topic.name(), self.shared.group);
        metrics::gauge!("longshore_log_stopped_partitions", "topic" => topic, "group" => group)
            .set(lines.len() as f64);
        metrics::gauge!("longshore_log_waiting_partitions", "topic" => topic, "group" => group)
            .set(waiting.len() as f64);
        lines.extend(waiting.iter().map(|partition| {
            format!(
                "partition {partition} of {topic} waits: the log does not say what it has of it, \
                 or the database not where to go on"
            )
        }));
        lines.extend(self.shared.told());
        self.shared.app.notices.set(self.topic.name(), lines);
    }

    fn gauge(&self, partition: i32, behind: i64, waiting_ms: i64) {
        let labels = [
            ("topic", self.topic.name().to_owned()),
            ("group", self.shared.group.to_owned()),
            ("partition", partition.to_string()),
        ];
        metrics::gauge!("longshore_log_lag_messages", &labels).set(behind as f64);
        metrics::gauge!("longshore_log_lag_seconds", &labels).set(waiting_ms as f64 / 1000.0);
    }

    /// Whether the store says something else about a stopped partition than when it stopped.
    async fn may_go_on(&self, standings: &[Standing]) -> bool {
        let stopped = standings.iter().filter_map(|standing| standing.stopped.clone());
        let stopped: Vec<Place> = stopped.map(|(place, _)| place).collect();
        if stopped.is_empty() {
            return false;
        }
        let (store, topic) = (self.shared.app.store.clone(), self.topic);
        let places = async move { offsets::places(&mut store.snapshot().await?, topic).await };
        let places: Result<Vec<Place>, StoreError> =
            answered(places, tokio::time::sleep(LOOK_PATIENCE)).await;
        match places {
            Ok(places) => stopped.iter().any(|place| !places.contains(place)),
            Err(error) => {
                tracing::warn!(%error, "whether a stopped partition may go on is not known");
                false
            }
        }
    }
}
