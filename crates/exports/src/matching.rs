//! Finds the users of an audience, for the plan of an export.
//!
//! Reads all users of the workspace once, in the plan's snapshot, slice by slice. Documents stream,
//! and only the fields that the audience depends on are read. The users of a part are written down
//! when the part is full, under the number of the attempt, so that memory does not grow with the
//! workspace. They count once the plan names the attempt.

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::chunk::{self, Chunk, Pages};
use super::error::check_stop;
use super::members::Collector;
use super::part_rows;
use super::plan::Parts;
use super::{Audience, ExportError, Failure};
use gateway::app::App;
use kit::compute::Cores;
use kit::pattern::TooCostly;
use kit::retry::Retry as _;
use people::audience::Matcher;
use people::users::activity::Activity;
use people::users::moment::TransactionSnapshot;
use people::users::scan::{self, UserRange, UserRow};
use people::users::suppressions::AddressStates;
use people::users::{Position, SLICES};
use store::claims::Claim;
use store::{StoreError, Tx};

/// Bytes of found users after which they are written.
const FLUSH_BYTES: usize = 1 << 20;

/// Unreadable users whose ids the customer gets.
const BROKEN_USERS_REPORTED: usize = 20;

/// The users to find.
pub(super) struct Search {
    pub workspace: i32,
    pub audience: Audience,
    pub matcher: Matcher,
    /// Users of a part.
    pub per_part: u32,
    /// The maximum of an export without own storage.
    pub max_users: Option<i64>,
    /// The time to which conditions on times refer, in milliseconds since the epoch.
    pub now: i64,
}

/// Splits the users in the audience into parts.
pub(super) async fn find(
    app: &App,
    claim: &Claim,
    search: Search,
    tx: Tx,
    stop: &CancellationToken,
) -> Result<Parts, ExportError> {
    let Search { workspace, audience, matcher, per_part, max_users, now } = search;
    let finder = Finder {
        app: app.clone(),
        claim: *claim,
        workspace,
        audience,
        max_users,
        now,
        matcher,
        cores: app.cores.clone(),
        stop: stop.clone(),
        chunk: Chunk::default(),
        addresses: AddressStates::default(),
        collector: Collector::new(per_part as usize),
        last_member: None,
        parts: Parts::default(),
        pending: Vec::new(),
        broken: Vec::new(),
        broken_count: 0,
    };
    let (runtime, span) = (Handle::current(), tracing::Span::current());
    let work = move || span.in_scope(|| runtime.block_on(finder.run(tx)));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| {
        let detail = format!("the thread of a plan panicked: {panic}");
        Err(ExportError::Transient(Failure::internal(detail)))
    })
}

struct Finder {
    app: App,
    claim: Claim,
    workspace: i32,
    audience: Audience,
    max_users: Option<i64>,
    now: i64,
    matcher: Matcher,
    cores: Cores,
    stop: CancellationToken,
    chunk: Chunk,
    /// Of the users of the chunk, if the audience depends on them.
    addresses: AddressStates,
    collector: Collector,
    last_member: Option<Position>,
    parts: Parts,
    /// The found users of parts that are not written yet: the part's number and stored form.
    pending: Vec<(i64, Vec<u8>)>,
    broken: Vec<(Uuid, String)>,
    broken_count: i64,
}

impl Finder {
    async fn run(mut self, mut tx: Tx) -> Result<Parts, ExportError> {
        let moment = TransactionSnapshot::endless();
        for slice in 0..SLICES {
            let range = UserRange {
                workspace: self.workspace,
                slices: &[slice],
                after: Position { slice, service_id: Uuid::nil() },
                up_to: Position { slice, service_id: Uuid::max() },
                youngest: Uuid::max(),
                activity: self.matcher.needs_activity(),
            };
            if self.matcher.needs_addresses() {
                self.read_with_addresses(&mut tx, range, slice).await?;
            } else {
                scan::read(&mut tx, &range, &moment, |user| self.take(&user, slice)).await??;
            }
            self.work(slice)?;
            if self.pending.iter().map(|(_, users)| users.len()).sum::<usize>() >= FLUSH_BYTES {
                self.flush().await?;
            }
        }
        tx.commit().await?;
        if self.broken_count > 0 {
            let failure = Failure::broken_users(self.broken_count, &self.broken);
            return Err(ExportError::Permanent(failure));
        }
        if self.collector.members() > 0 {
            self.end_part()?;
        }
        self.flush().await?;
        Ok(self.parts)
    }

    /// Reads users page by page, with what was decided about their addresses.
    async fn read_with_addresses(
        &mut self,
        tx: &mut Tx,
        range: UserRange<'_>,
        slice: i16,
    ) -> Result<(), ExportError> {
        let mut pages = Pages::new(range);
        while let Some(page) = pages.next(tx).await? {
            self.addresses = page.addresses;
            for user in page.chunk.users() {
                self.parts.youngest = self.parts.youngest.max(user.service_id);
            }
            self.chunk = page.chunk;
            self.work(slice)?;
        }
        Ok(())
    }

    fn take(&mut self, user: &UserRow<'_>, slice: i16) -> Result<(), ExportError> {
        self.parts.youngest = self.parts.youngest.max(user.service_id);
        self.chunk.push(user);
        if self.chunk.bytes() >= chunk::BYTES { self.work(slice) } else { Ok(()) }
    }

    /// Decides for the users of the chunk.
    fn work(&mut self, slice: i16) -> Result<(), ExportError> {
        let chunk = std::mem::take(&mut self.chunk);
        let (cores, workspace) = (self.cores.clone(), self.workspace);
        let decide = |user: UserRow<'_>| self.decide(&user, slice);
        let worked = cores.compute_each(workspace, chunk.users(), decide);
        self.chunk = chunk.cleared();
        worked
    }

    fn decide(&mut self, user: &UserRow<'_>, slice: i16) -> Result<(), ExportError> {
        check_stop(&self.stop)?;
        let service_id = user.service_id;
        match decide(&self.matcher, user, &self.addresses, self.now) {
            Ok(is_member) => self.add(Position { slice, service_id }, is_member),
            Err(Undecided::Newer(reason)) => {
                let detail = format!("the activity of {service_id} ({reason})");
                Err(StoreError::Newer(detail).into())
            }
            Err(Undecided::Costly(error)) => Err(error.into()),
            Err(Undecided::Broken(reason)) => {
                self.broken_count += 1;
                if self.broken.len() < BROKEN_USERS_REPORTED {
                    self.broken.push((service_id, reason));
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, user: Position, is_member: bool) -> Result<(), ExportError> {
        self.collector.add(user.service_id, is_member);
        if is_member {
            self.last_member = Some(user);
            if self.collector.is_full() {
                self.end_part()?;
            }
        }
        Ok(())
    }

    /// Ends the part with the last member: users after it are of the next one, or of none.
    ///
    /// Checks the limits here, because the rest of the workspace may take long to read.
    fn end_part(&mut self) -> Result<(), ExportError> {
        let Some(end) = self.last_member else { return Ok(()) };
        let users = self.collector.members() as i64;
        self.parts.add(end, users);
        self.parts.check_count()?;
        if let Some(limit) = self.max_users.filter(|limit| self.parts.users > *limit) {
            return Err(ExportError::Permanent(Failure::more_users_than(&self.audience, limit)));
        }
        self.pending.push((self.parts.count(), self.collector.take().encode()));
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), ExportError> {
        let mut tx = self.app.store.write().await?;
        part_rows::put_members(&mut tx, &self.claim, &self.pending).await?;
        tx.commit().await?;
        self.pending.clear();
        Ok(())
    }
}

/// Why it is unknown whether a user is in an audience.
pub(super) enum Undecided {
    /// The stored data is unreadable.
    Broken(String),
    /// A newer program wrote the data.
    Newer(String),
    Costly(TooCostly),
}

/// Whether a user is in the audience, as of `now`.
pub(super) fn decide(
    matcher: &Matcher,
    user: &UserRow<'_>,
    addresses: &AddressStates,
    now: i64,
) -> Result<bool, Undecided> {
    let mut recipient = matcher
        .read(user.service_id, user.doc)
        .map_err(|_| Undecided::Broken("the document is not JSON".into()))?;
    addresses.apply(&mut recipient, user.doc);
    let activity = user.activity.map(Activity::decode).transpose().map_err(|error| {
        let reason = error.to_string();
        if error.needs_newer_version() {
            Undecided::Newer(reason)
        } else {
            Undecided::Broken(reason)
        }
    })?;
    matcher.holds(&recipient, activity.as_ref(), now).map_err(Undecided::Costly)
}
