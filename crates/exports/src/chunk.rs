//! Users that are worked on together, so that a processor is taken once for many of them.

use std::collections::HashMap;
use std::ops::Range;

use uuid::Uuid;

use people::users::large_rows;
use people::users::scan::{self, UserRange, UserRow};
use people::users::suppressions::AddressStates;
use store::{StoreError, Tx};

/// Stored bytes of a full chunk.
pub(super) const BYTES: usize = 512 << 10;

/// Users of the first page, before the size of their documents is known, and of the largest one.
const FIRST_PAGE_USERS: i64 = 50;
const MAX_PAGE_USERS: i64 = 2_000;

/// The users of a range, a page at a time, with what was decided about their addresses.
pub(super) struct Pages<'r> {
    /// Those that were not read yet; none at the end.
    rest: Option<UserRange<'r>>,
    /// Users of the next page: fewer if their documents are large.
    limit: i64,
}

/// Some users.
pub(super) struct Page {
    pub chunk: Chunk,
    pub addresses: AddressStates,
}

impl<'r> Pages<'r> {
    pub fn new(range: UserRange<'r>) -> Self {
        Self { rest: Some(range), limit: FIRST_PAGE_USERS }
    }

    pub async fn next(&mut self, tx: &mut Tx) -> Result<Option<Page>, StoreError> {
        let Some(range) = self.rest.take() else { return Ok(None) };
        let (users, last) = scan::page(tx, &range, self.limit).await?;
        let documents = users.iter().map(|(id, document)| (*id, document.as_str()));
        let addresses = AddressStates::look_up(tx, range.workspace, documents).await?;
        let bodies: HashMap<Uuid, Vec<u8>> = if range.activity {
            let ids: Vec<Uuid> = users.iter().map(|(id, _)| *id).collect();
            large_rows::bodies(tx, range.workspace, &ids).await?.into_iter().collect()
        } else {
            HashMap::new()
        };
        let mut chunk = Chunk::default();
        for (service_id, document) in &users {
            let activity = bodies.get(service_id).map(Vec::as_slice);
            chunk.push(&UserRow { service_id: *service_id, doc: document, activity });
        }
        let fitting = users.len() * BYTES / chunk.bytes().max(1);
        self.limit = (fitting as i64).clamp(1, MAX_PAGE_USERS);
        self.rest = last.map(|after| UserRange { after, ..range });
        Ok(Some(Page { chunk, addresses }))
    }
}

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

    /// The same, with what applies to users with their addresses.
    pub fn with_addresses(&self, addresses: &AddressStates) -> Self {
        let mut applied = Self::with_memory();
        for user in self.users() {
            let state = addresses.of_user(user.service_id);
            let document = state.and_then(|state| state.applied(user.doc));
            applied.push(&UserRow { doc: document.as_deref().unwrap_or(user.doc), ..user });
        }
        applied
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
