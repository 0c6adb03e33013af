//! When an object counts as received, among those that other gateways got.

use log::Message;

/// The time by which changes are ordered, in milliseconds since the epoch. It is the log's time of
/// the message, because gateways' clocks differ, and a clock can be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderTime {
    ms: i64,
    /// Whether it is the log's, or the database's.
    is_shared: bool,
}

impl OrderTime {
    /// The time of a message, with objects that a gateway received at a time by its own clock.
    pub fn of_message(message: &Message, received_at: i64) -> Self {
        message.log_time.map_or(Self::by_gateway(received_at), Self::by_log)
    }

    pub fn by_log(ms: i64) -> Self {
        Self { ms, is_shared: true }
    }

    /// The time of a gateway: of a message in a topic that `migrate` has not changed yet.
    pub fn by_gateway(ms: i64) -> Self {
        Self { ms, is_shared: false }
    }

    pub fn ms(self) -> i64 {
        self.ms
    }

    /// The time of a decision that is applied at a time of the database's clock.
    pub fn decided(self, now: i64) -> i64 {
        self.ms.min(self.latest(now))
    }

    /// The latest time of a decision that is applied at a time of the database's clock: if a
    /// gateway's clock is ahead, its decisions must not outlast later ones.
    pub fn latest(self, now: i64) -> i64 {
        if self.is_shared { i64::MAX } else { now }
    }
}
