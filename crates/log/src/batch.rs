//! The output of a consumer: messages of one partition that are applied together.

use super::offsets::GroupOffset;
use crate::message::Message;

/// Messages of one partition, in order and at least one; applied together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The group's position, unless another worker was faster. Applying the batch moves it to
    /// [`next`](Self::next).
    pub position: GroupOffset,
    /// Whether it is the first batch since the partition was assigned.
    pub is_first: bool,
    pub messages: Vec<Message>,
}

impl Batch {
    /// The offset after the last message.
    pub fn next(&self) -> i64 {
        self.messages.last().map_or(self.position.next, |message| message.offset + 1)
    }
}

/// A batch on its way to [`Consumer::next`].
pub(super) struct Fetched {
    pub batch: Batch,
    pub partition: i32,
    /// The partition's epoch when this was read.
    pub epoch: u64,
    /// The offset of the last message.
    pub offset: i64,
}
