//! Users that are worked on together, so that a processor is taken once for many of them.

use std::ops::Range;

use uuid::Uuid;

use people::users::scan::UserRow;

/// Stored bytes of a full chunk.
pub(super) const BYTES: usize = 512 << 10;

/// Users read from the database.
#[derive(Default)]
pub(super) struct Chunk {
    documents: String,
    activities: Vec<u8>,
    users: Vec<Stored>,
}

/// The position of a user in a chunk.
struct Stored {
    service_id: Uuid,
    document: Range<usize>,
    activity: Option<Range<usize>>,
}

impl Chunk {
    /// With the memory of a full chunk: one that grows is copied each time.
    pub fn with_memory() -> Self {
        Self { documents: String::with_capacity(BYTES + BYTES / 8), ..Self::default() }
    }

    pub fn push(&mut self, user: &UserRow<'_>) {
        let document = self.documents.len()..self.documents.len() + user.doc.len();
        self.documents.push_str(user.doc);
        let activity = user.activity.map(|activity| {
            let start = self.activities.len();
            self.activities.extend_from_slice(activity);
            start..self.activities.len()
        });
        self.users.push(Stored { service_id: user.service_id, document, activity });
    }

    pub fn bytes(&self) -> usize {
        self.documents.len() + self.activities.len()
    }

    pub fn users(&self) -> impl Iterator<Item = UserRow<'_>> {
        self.users.iter().map(|stored| UserRow {
            service_id: stored.service_id,
            doc: &self.documents[stored.document.clone()],
            activity: stored.activity.clone().map(|range| &self.activities[range]),
        })
    }

    pub fn clear(&mut self) {
        self.documents.clear();
        self.activities.clear();
        self.users.clear();
    }

    /// Empty, with its memory.
    pub fn cleared(mut self) -> Self {
        self.clear();
        self
    }
}
