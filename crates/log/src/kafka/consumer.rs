//! Consumes from Kafka, message by message: a thread polls and hands messages over, works on
//! none itself, and goes on polling while the workers are busy, so that the group never
//! misses it.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::consumer::Consumer as _;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::member::{Member, Offsets, TICK, explain, owned};
use super::{QUEUE_KBYTES, Settings};
use crate::consumer::{Consumer, Fetched};
use crate::message::{LogError, Message, Topic};

/// How long the workers may leave the hand-over full before the partitions are paused:
/// pausing throws away what librdkafka has fetched, so short waits are sat out.
const STALL: Duration = Duration::from_secs(1);

/// Messages waiting to be taken, beside those under way.
const HAND_OVER: usize = 64;

pub(super) fn open(
    settings: &Settings,
    group: &str,
    topic: Topic,
    in_flight: usize,
) -> Result<Consumer, LogError> {
    let properties = [("queued.max.messages.kbytes", QUEUE_KBYTES)];
    let member = Member::join(settings, group, topic, Offsets::Committed, &properties)?;
    let (sender, fetched) = mpsc::channel(in_flight.clamp(1, HAND_OVER));
    let partitions = member.partitions.clone();
    let membership = member.spawn(move |member| {
        let poller = Poller {
            member,
            topic,
            sender,
            waiting: VecDeque::new(),
            full_since: None,
            paused: false,
        };
        poller.run();
    })?;
    let source = Box::new(membership);
    Ok(Consumer::new(group, topic, in_flight, fetched, partitions, source))
}

struct Poller {
    member: Member,
    topic: Topic,
    sender: mpsc::Sender<Result<Fetched<Message>, LogError>>,
    /// Messages that found no room yet.
    waiting: VecDeque<Fetched<Message>>,
    full_since: Option<Instant>,
    paused: bool,
}

impl Poller {
    fn run(mut self) {
        let mut usable = true;
        while usable && self.member.stopping().is_none() && !self.sender.is_closed() {
            if self.hand_over() {
                self.resume();
                usable = self.poll();
            } else if self.full_since.get_or_insert_with(Instant::now).elapsed() < STALL {
                thread::park_timeout(TICK);
            } else {
                if !self.paused {
                    self.pause();
                }
                usable = self.poll();
            }
            self.member.commit_if_due();
        }
        self.member.finish();
    }

    /// Hands over what waits, as far as there is room; says whether nothing waits any more.
    fn hand_over(&mut self) -> bool {
        while let Some(fetched) = self.waiting.pop_front() {
            match self.sender.try_send(Ok(fetched)) {
                Ok(()) | Err(TrySendError::Closed(_)) => {}
                Err(TrySendError::Full(unsent)) => {
                    self.waiting.extend(unsent);
                    self.waiting.rotate_right(1);
                    return false;
                }
            }
        }
        self.full_since = None;
        true
    }

    /// Takes one message or serves one event; `false` once this client can do no more.
    fn poll(&mut self) -> bool {
        match self.member.client.poll(TICK) {
            None => {}
            Some(Ok(message)) => {
                if let Some(epoch) = self.member.partitions.epoch(message.partition()) {
                    let message = owned(&message, self.topic);
                    self.waiting.push_back(Fetched::message(message, epoch));
                }
                if self.paused {
                    // It is of a partition that was assigned after the others were paused.
                    self.pause();
                }
            }
            Some(Err(error)) => {
                let (error, fatal) = explain(error);
                // Who has no room for it has messages to work on.
                let _ = self.sender.try_send(Err(error));
                return !fatal;
            }
        }
        true
    }

    fn pause(&mut self) {
        let paused =
            self.member.client.assignment().and_then(|list| self.member.client.pause(&list));
        self.paused |= paused.is_ok();
    }

    fn resume(&mut self) {
        if self.paused {
            let resumed =
                self.member.client.assignment().and_then(|list| self.member.client.resume(&list));
            self.paused = resumed.is_err();
        }
    }
}
