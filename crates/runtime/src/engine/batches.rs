//! Applies batches of messages exactly once: the changes of a batch and the offset of its partition
//! are one transaction, guarded by the expected offset.
//!
//! A batch's commit does not wait for the disk. If the database crashes and loses it, changes and
//! offset go back together, and the [positions] notice that the messages must be applied again.
//!
//! When the store is down, the worker waits with its partitions. A batch that fails permanently is
//! halved until the message is found. Each part of that message is tried separately, and failing
//! parts become a dead letter in the same transaction as the offset. A batch that is too large for
//! a transaction, or takes too long, is also halved and split into parts. A message that is too
//! large even then becomes a dead letter after ten minutes.
//!
//! A batch that ends its process is found by the record written before the first batch of an
//! assignment. After two recorded starts without a clean end, its messages are tried one by one,
//! alone; a message with two recorded starts alone becomes a dead letter without another attempt.
//! So a fatal message ends at most five workers. Other messages of its batch are not blamed, and
//! neither is a message whose worker was repeatedly ended by something else.

pub mod arrays;
mod attempt;
pub mod dead_letters;
mod failure;
mod parts;
mod positions;
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
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::attempt::{Ending, process_batch};
use self::positions::Positions;
use self::shared::Shared;
use super::wait_for_log;
use crate::app::App;
use crate::config::Config;
use crate::traces;
use kit::moment::Moment;
use kit::retry::Retry;
use log::{Ack, Batch, Consumer, ConsumerStatus, Limits, Message, PartitionStatus, Topic};
use store::{StoreError, Tx};

/// Interval between reports of the partitions' lag.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Applies messages in the caller's transaction.
pub trait Handler: Send + Sync + 'static {
    type Error: Retry + Display + From<StoreError> + Send;
    /// Data prepared from messages before the transaction; may borrow from them.
    type Prepared<'m>: Send + Sync;
    /// Data for metrics once messages are applied.
    type Applied: Send;

    /// Does the work that needs no transaction, such as parsing the messages. May be repeated, and
    /// for some of the messages, whatever happens to the transaction.
    fn prepare<'m>(
        &self,
        messages: &'m [Message],
    ) -> impl Future<Output = Result<Self::Prepared<'m>, Self::Error>> + Send;

    /// Makes the changes. The offset's row is already locked. After an error, all changes are
    /// rolled back.
    fn apply(
        &self,
        tx: &mut Tx,
        prepared: &Self::Prepared<'_>,
    ) -> impl Future<Output = Result<Self::Applied, Self::Error>> + Send;

    /// Splits a message into several, in order, that have the same effect one after the other;
    /// returns the message itself if it has only one part or is unreadable.
    fn split(&self, message: &Message) -> Vec<Message> {
        vec![message.clone()]
    }

    /// The message of some parts of a [`split`](Self::split) one; at least one part.
    fn join(&self, parts: &[&Message]) -> Message {
        parts[0].clone()
    }

    /// Called after the commit, for metrics. A process that ends at this very moment never calls
    /// it. A crash of the database may revert the commit even now.
    fn applied(&self, _applied: Self::Applied) {}

    /// Called when the database has lost commits, before their messages are applied again: clears
    /// the caches that learned from them.
    fn lost_commits(&self) {}
}

/// Options of the processing.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub limits: Limits,
    /// Time limit for work in progress when the worker must stop.
    pub drain: Duration,
    /// The pause before the second attempt at a batch; it doubles, to 10 seconds.
    pub pause: Duration,
    /// How long a message must be too large by itself before it becomes a dead letter.
    pub too_large_time: Duration,
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
            too_large_time: Duration::from_secs(10 * 60),
        }
    }
}

/// Applies the messages of `topic` with `handler` until `shutdown`; then stops reading, and
/// finishes or returns the work in progress.
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
            Ok((consumer, statuses)) => runner.consume(consumer, &statuses, &mut failures).await,
            Err(error) => wait_for_log(&error, &mut failures, &runner.shared.shutdown).await,
        }
    }
    runner.report(&[], &[]);
}

struct Runner<H> {
    shared: Arc<Shared<H>>,
    topic: Topic,
    tasks: JoinSet<Ending>,
    /// The partitions with reported metrics.
    reported: BTreeSet<i32>,
}

impl<H: Handler> Runner<H> {
    /// Processes the batches of one consumer until the runner stops, or the partitions must be read
    /// again from the stored positions.
    async fn consume(
        &mut self,
        mut consumer: Consumer,
        statuses: &ConsumerStatus,
        failures: &mut u32,
    ) {
        let shutdown = self.shared.shutdown.clone();
        let mut reports = interval(REPORT_INTERVAL);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut positions = Positions::new(&self.shared.app.store, self.shared.group, self.topic);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ending::Done | Ending::HandedBack | Ending::Reverted) => {}
                    Ok(Ending::Lost) => break,
                    // Panics of the handler are caught earlier: this is a bug of the runner.
                    Err(error) => {
                        tracing::error!(%error, "a batch's task failed; the batch will be \
                                                 processed again");
                        break;
                    }
                },
                read = positions.read() => {
                    if positions.compare(read, statuses, &self.shared.handler) {
                        tracing::info!("a stopped partition was reset; reading the partitions \
                                        again");
                        break;
                    }
                }
                _ = reports.tick() => {
                    let waiting = statuses.waiting();
                    let partitions = statuses.partitions(self.shared.app.clock.now_ms());
                    self.report(&partitions, &waiting);
                    positions.query_if_due(&partitions, statuses);
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
            partition = batch.position.partition,
            from = batch.position.next,
            messages = batch.messages.len(),
        );
        let request_ids = batch.messages.iter().map(|message| message.request_id.as_str());
        traces::link(&span, request_ids);
        let work = process_batch(self.shared.clone(), batch, ack);
        self.tasks.spawn(work.instrument(span));
    }

    /// Waits for the work in progress until the deadline. The rest is not aborted, because database
    /// work must run to its end; if it still commits, the guard keeps the result correct.
    async fn leave(&mut self, consumer: Consumer) {
        let deadline = Moment::now() + self.shared.options.drain;
        consumer.drain(self.shared.options.drain).await;
        while let Ok(Some(_)) = timeout(deadline.remaining(), self.tasks.join_next()).await {}
        if !self.tasks.is_empty() {
            tracing::warn!(batches = self.tasks.len(), "batches were not done before the deadline");
        }
        self.tasks.detach_all();
    }

    /// Reports the state of the partitions; revoked ones report zero.
    fn report(&mut self, statuses: &[PartitionStatus], waiting: &[i32]) {
        let now = self.shared.app.clock.now_ms();
        for status in statuses {
            let waiting = status.since.map_or(0, |since| (now - since).max(0));
            self.gauge(status.partition, status.behind, waiting);
        }
        let assigned: BTreeSet<i32> = statuses.iter().map(|status| status.partition).collect();
        self.reported.difference(&assigned).for_each(|partition| self.gauge(*partition, 0, 0));
        self.reported = assigned;
        let stopped = statuses.iter().filter_map(|status| status.stopped.as_ref());
        let mut lines: Vec<String> = stopped.map(|(_, reason)| reason.clone()).collect();
        let (topic, group) = (self.topic.name(), self.shared.group);
        metrics::gauge!("longshore_log_stopped_partitions", "topic" => topic, "group" => group)
            .set(lines.len() as f64);
        metrics::gauge!("longshore_log_waiting_partitions", "topic" => topic, "group" => group)
            .set(waiting.len() as f64);
        lines.extend(waiting.iter().map(|partition| {
            format!(
                "partition {partition} of {topic} waits: cannot read its offsets from the log, or \
                 its position from the database"
            )
        }));
        lines.extend(self.shared.waiting_reasons());
        self.shared.app.health_warnings.set(self.topic.name(), lines);
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
}
