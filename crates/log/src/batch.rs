//! What a consumer gives out: messages of one partition that are applied together.

use super::offsets::Place;
use crate::message::Message;

/// Messages of one partition, in order and never none; applied together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Where the group is, unless somebody else was faster: what applying it moves on, to
    /// [`next`](Self::next).
    pub place: Place,
    /// Whether it is the first one since the partition was assigned.
    pub is_first: bool,
    pub messages: Vec<Message>,
}

impl Batch {
    /// The offset after the last message.
    pub fn next(&self) -> i64 {
        self.messages.last().map_or(self.place.next, |message| message.offset + 1)
    }
}

/// A batch on its way to [`Consumer::next`], with its place.
pub(super) struct Fetched {
    pub batch: Batch,
    pub partition: i32,
    /// Of the partition, when this was read.
    pub epoch: u64,
    /// The offset of the last message.
    pub offset: i64,
}
