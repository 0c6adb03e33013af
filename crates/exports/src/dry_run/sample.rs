//! Counts the users of an export, and reads a sample of them: stretches of users from all slices,
//! spread over all ages. Bounded in time, users and memory.

use std::io;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::archive::{Packer, Shape};
use crate::chunk::{self, Chunk, Pages};
use crate::error::check_stop;
use crate::matching::{Undecided, decide};
use crate::project::{Broken, Projector};
use crate::warnings;
use crate::{ExportError, Failure};
use kit::compute::Cores;
use people::audience::Matcher;
use people::users::Position;
use people::users::moment::TransactionSnapshot;
use people::users::sample::{self, SliceCounts};
use people::users::scan::{self, UserRange, UserRow};
use people::users::suppressions::AddressStates;
use runtime::fairness::Reservation;
use store::{StoreError, Tx};

/// If the time of a sample is over, it still gets some users, but not for much longer.
const MIN_SAMPLE: i64 = 500;
const MAX_OVERTIME: Duration = Duration::from_secs(15);

/// Users that are read to estimate how many are in an audience.
const MATCHED_USERS: i64 = 20_000;

/// Users whose lines are compressed to estimate the bytes, and maximum bytes of these lines.
const LINES: i64 = 2_000;
const LINE_BYTES: usize = 4 << 20;

/// The fractional part of the golden ratio: its multiples, modulo 1, are spread evenly.
const SPREAD: f64 = 0.618_033_988_749_894_9;

/// Which users to sample, and why.
pub(super) struct SampleSpec {
    pub workspace: i32,
    pub slices: Vec<i16>,
    /// The condition of the audience; none if all users of the slices are in it.
    pub matcher: Option<Matcher>,
    /// Whether lines need the activity of users.
    pub line_activity: bool,
    /// Creates the lines; none if the bytes are known.
    pub projector: Option<Projector>,
    pub shape: Shape,
    pub users_per_file: u32,
    pub now: Timestamp,
    /// Maximum number of users of the audience to return.
    pub kept: usize,
    /// Names of custom attributes to look for.
    pub attributes: Vec<String>,
    pub effort: Effort,
}

/// How long a sample may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// A request waits for it that needs no estimate.
    Glance,
    Estimate,
    /// All users are read, however long that takes.
    Exact,
}

impl Effort {
    /// When counting ends that starts now; likewise reading.
    fn deadline(self) -> Instant {
        Instant::now()
            + match self {
                Self::Glance => Duration::from_millis(50),
                Self::Estimate => Duration::from_secs(1),
                // Longer than any count takes.
                Self::Exact => Duration::from_secs(365 * 24 * 60 * 60),
            }
    }
}

/// Users that were read together, and how many of them are in the audience.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    pub read: i64,
    pub matched: i64,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub counts: SliceCounts,
    pub stretches: Vec<Stretch>,
    /// Users whose stored profile is unreadable.
    pub broken: i64,
    pub lines: Lines,
    /// Some users of the audience, each of the sample equally likely.
    pub kept: Vec<Uuid>,
    /// The attributes that no user of the audience in the sample has. If the sample has no such
    /// user: those that no user who was read has.
    pub unseen_attributes: Vec<String>,
}

/// Sampled lines, and their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub users: i64,
    pub files: i64,
    pub bytes: i64,
    /// Bytes of a file without users.
    pub empty_file: i64,
}

/// Reads a sample in the snapshot of `tx`. Holds `slot` to the end. Stops if the client of the
/// request that this task handles disconnects.
pub(super) async fn take(
    cores: &Cores,
    spec: SampleSpec,
    tx: Tx,
    slot: Reservation,
) -> Result<Sample, ExportError> {
    let cores = cores.clone();
    let (runtime, span) = (Handle::current(), tracing::Span::current());
    let stop = gateway::client_gone();
    let work = move || {
        let _slot = slot;
        span.in_scope(|| runtime.block_on(async { Sampler::new(cores, spec, stop)?.run(tx).await }))
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| {
        let detail = format!("the thread of a dry run panicked: {panic}");
        Err(ExportError::Transient(Failure::internal(detail)))
    })
}

struct Sampler {
    cores: Cores,
    workspace: i32,
    slices: Vec<i16>,
    matcher: Option<Matcher>,
    activity: bool,
    now: i64,
    writer: Option<LineWriter>,
    kept: Reservoir,
    /// The attributes that were not seen yet in users of the audience, each as in a profile.
    unseen: Vec<(String, String)>,
    /// The same for all users, as long as none is in the audience.
    unseen_outside: Vec<(String, String)>,
    has_members: bool,
    effort: Effort,
    /// When counting ends, and later reading.
    deadline: Instant,
    stop: CancellationToken,
    read: i64,
    chunk: Chunk,
    /// Of the users of the chunk, if the audience depends on them.
    addresses: AddressStates,
    /// The current stretch.
    stretch: Stretch,
    sample: Sample,
}

impl Sampler {
    fn new(cores: Cores, spec: SampleSpec, stop: CancellationToken) -> Result<Self, ExportError> {
        let SampleSpec { workspace, slices, matcher, projector, now, attributes, .. } = spec;
        let writer = projector.map(|projector| {
            // As long as the names of a real export.
            let entry_name = format!("{}-{}_000001.json", Uuid::nil(), now.as_second());
            let per_file = i64::from(spec.users_per_file);
            LineWriter::new(projector, spec.shape, per_file, entry_name, now)
        });
        let writer = writer.transpose().map_err(compressing)?;
        let needs_activity = matcher.as_ref().is_some_and(Matcher::needs_activity);
        let unseen = warnings::as_in_documents(attributes);
        Ok(Self {
            cores,
            workspace,
            slices,
            matcher,
            activity: needs_activity || (spec.line_activity && writer.is_some()),
            now: now.as_millisecond(),
            writer,
            unseen_outside: unseen.clone(),
            unseen,
            has_members: false,
            kept: Reservoir { limit: spec.kept, ..Reservoir::default() },
            effort: spec.effort,
            deadline: spec.effort.deadline(),
            stop,
            read: 0,
            chunk: Chunk::default(),
            addresses: AddressStates::default(),
            stretch: Stretch::default(),
            sample: Sample::default(),
        })
    }

    async fn run(mut self, mut tx: Tx) -> Result<Sample, ExportError> {
        let counts = sample::count(&mut tx, self.workspace, &self.slices, self.deadline).await?;
        let needs_users = self.kept.limit > 0 || !self.unseen.is_empty();
        if self.matcher.is_some() || self.writer.is_some() || needs_users {
            self.read(&mut tx, &counts).await?;
        }
        tx.commit().await?;
        let mut sample = self.sample;
        sample.counts = counts;
        sample.kept = self.kept.users;
        let unseen = if self.has_members { self.unseen } else { self.unseen_outside };
        sample.unseen_attributes = unseen.into_iter().map(|(_, name)| name).collect();
        if let Some(writer) = self.writer {
            let finish = || writer.finish();
            let lines = self.cores.compute_slice(self.workspace, finish);
            sample.lines = lines.map_err(compressing)?;
        }
        Ok(sample)
    }

    /// Reads a stretch of each slice, or all of it if there are few users.
    async fn read(&mut self, tx: &mut Tx, counts: &SliceCounts) -> Result<(), ExportError> {
        let limit = match self.matcher {
            _ if self.effort == Effort::Exact => i64::MAX,
            Some(_) => MATCHED_USERS,
            None => LINES,
        };
        let slices = counts.slices.len().max(1) as i64;
        let per_slice =
            |limit: i64| if counts.users <= limit { i64::MAX } else { limit / slices + 1 };
        self.deadline = self.effort.deadline();
        for (index, &(slice, count)) in counts.slices.iter().enumerate() {
            if self.is_over() {
                break;
            }
            let users = count.min(per_slice(limit));
            if users == 0 {
                continue;
            }
            if let Some(writer) = &mut self.writer {
                writer.lines_left = per_slice(LINES);
            }
            for (skipped, users) in pieces(index, count, users) {
                self.read_piece(tx, slice, skipped, users).await?;
            }
            self.sample.stretches.push(std::mem::take(&mut self.stretch));
        }
        Ok(())
    }

    /// Reads the users of a slice after the first `skipped` ones.
    async fn read_piece(
        &mut self,
        tx: &mut Tx,
        slice: i16,
        skipped: i64,
        users: i64,
    ) -> Result<(), ExportError> {
        let (after, up_to) = sample::stretch(tx, self.workspace, slice, skipped, users).await?;
        let range = UserRange {
            workspace: self.workspace,
            slices: &[slice],
            after: Position { slice, service_id: after },
            up_to: Position { slice, service_id: up_to },
            youngest: Uuid::max(),
            activity: self.activity,
        };
        if self.matcher.as_ref().is_some_and(Matcher::needs_addresses) {
            let mut pages = Pages::new(range);
            while let Some(page) = pages.next(tx).await? {
                (self.addresses, self.chunk) = (page.addresses, page.chunk);
                self.work()?;
            }
            return Ok(());
        }
        let endless = TransactionSnapshot::endless();
        scan::read(tx, &range, &endless, |user| self.take(&user)).await??;
        self.work()
    }

    /// Whether the time is over. Then the users that were read already are ignored.
    fn is_over(&self) -> bool {
        let overtime = Instant::now().saturating_duration_since(self.deadline);
        let allowed = if self.read >= MIN_SAMPLE { Duration::ZERO } else { MAX_OVERTIME };
        overtime > allowed
    }

    fn take(&mut self, user: &UserRow<'_>) -> Result<(), ExportError> {
        self.chunk.push(user);
        if self.chunk.bytes() >= chunk::BYTES { self.work() } else { Ok(()) }
    }

    fn work(&mut self) -> Result<(), ExportError> {
        let chunk = std::mem::take(&mut self.chunk);
        let (cores, workspace) = (self.cores.clone(), self.workspace);
        let worked = cores.compute_each(workspace, chunk.users(), |user| self.add(&user));
        self.chunk = chunk.cleared();
        worked
    }

    fn add(&mut self, user: &UserRow<'_>) -> Result<(), ExportError> {
        check_stop(&self.stop)?;
        if self.is_over() {
            return Ok(());
        }
        self.read += 1;
        self.stretch.read += 1;
        let newer = |reason: &str| {
            StoreError::Newer(format!("the activity of {} ({reason})", user.service_id))
        };
        let is_member = match &self.matcher {
            None => Ok(true),
            Some(matcher) => decide(matcher, user, &self.addresses, self.now),
        };
        let is_member = match is_member {
            Ok(is_member) => is_member,
            Err(Undecided::Costly(error)) => return Err(error.into()),
            Err(Undecided::Newer(reason)) => return Err(newer(&reason).into()),
            Err(Undecided::Broken(_)) => {
                self.sample.broken += 1;
                false
            }
        };
        let is_unseen = |(text, _): &(String, String)| !user.doc.contains(text.as_str());
        if !is_member {
            if !self.has_members {
                self.unseen_outside.retain(is_unseen);
            }
            return Ok(());
        }
        self.stretch.matched += 1;
        self.has_members = true;
        self.kept.offer(user.service_id);
        self.unseen.retain(is_unseen);
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match writer.write(user).map_err(compressing)? {
            Ok(()) => Ok(()),
            Err(broken) if broken.needs_newer_version => Err(newer(&broken.reason).into()),
            Err(_) => {
                self.sample.broken += 1;
                Ok(())
            }
        }
    }
}

/// Some of the users that it is offered, each equally likely.
#[derive(Debug, Default)]
struct Reservoir {
    limit: usize,
    offered: usize,
    users: Vec<Uuid>,
}

impl Reservoir {
    fn offer(&mut self, user: Uuid) {
        self.offered += 1;
        if self.users.len() < self.limit {
            self.users.push(user);
        } else if self.limit > 0 {
            let index = rand::random_range(0..self.offered);
            if let Some(replaced) = self.users.get_mut(index) {
                *replaced = user;
            }
        }
    }
}

/// A stretch of `users` of the `count` users of a slice, each with the users that it skips. It
/// starts anywhere and continues at the beginning, so that each user is equally likely to be in it.
fn pieces(index: usize, count: i64, users: i64) -> impl Iterator<Item = (i64, i64)> {
    let start = (count as f64 * (index as f64 * SPREAD).fract()) as i64;
    let first = users.min(count - start);
    [(start, first), (0, users - first)].into_iter().filter(|(_, users)| *users > 0)
}

fn compressing(error: io::Error) -> ExportError {
    ExportError::Transient(Failure::internal(format!("compressing: {error}")))
}

/// Writes lines to files as an export does, and only counts their bytes.
struct LineWriter {
    projector: Projector,
    shape: Shape,
    per_file: i64,
    entry_name: String,
    time: Timestamp,
    packer: Packer,
    in_file: i64,
    line_bytes: usize,
    /// Lines that the current stretch may still have.
    lines_left: i64,
    lines: Lines,
}

impl LineWriter {
    fn new(
        projector: Projector,
        shape: Shape,
        per_file: i64,
        entry_name: String,
        time: Timestamp,
    ) -> io::Result<Self> {
        let packer = || Packer::new(shape, entry_name.clone(), time);
        let empty_file = packer().finish()?.bytes.len() as i64;
        Ok(Self {
            packer: packer(),
            projector,
            shape,
            per_file,
            entry_name,
            time,
            in_file: 0,
            line_bytes: 0,
            lines_left: i64::MAX,
            lines: Lines { empty_file, ..Lines::default() },
        })
    }

    fn write(&mut self, user: &UserRow<'_>) -> io::Result<Result<(), Broken>> {
        if self.lines_left <= 0 || self.line_bytes >= LINE_BYTES {
            return Ok(Ok(()));
        }
        let Self { projector, packer, line_bytes, .. } = self;
        let written = packer.append(|out| {
            let before = out.len();
            let written = projector.line(user, out);
            *line_bytes += out.len() - before;
            written
        })?;
        if written.is_ok() {
            self.lines_left -= 1;
            self.lines.users += 1;
            self.in_file += 1;
            if self.in_file >= self.per_file {
                self.end_file()?;
            }
        }
        Ok(written)
    }

    fn end_file(&mut self) -> io::Result<()> {
        if self.in_file > 0 {
            let next = Packer::new(self.shape, self.entry_name.clone(), self.time);
            let file = std::mem::replace(&mut self.packer, next).finish()?;
            self.lines.files += 1;
            self.lines.bytes += file.bytes.len() as i64;
            self.in_file = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Lines> {
        self.end_file()?;
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use proof::fields::FieldSet;

    #[test]
    fn stretches_have_each_user_equally_often() {
        for (count, users) in [(300, 200), (300, 300), (1_000, 20), (1, 1), (7, 3)] {
            let mut sampled = vec![0; count as usize];
            for index in 0..100 {
                let pieces: Vec<(i64, i64)> = pieces(index, count, users).collect();
                assert_eq!(pieces.iter().map(|(_, users)| users).sum::<i64>(), users);
                for (skipped, users) in pieces {
                    (skipped..skipped + users).for_each(|user| sampled[user as usize] += 1);
                }
            }
            let expected = 100.0 * users as f64 / count as f64;
            for times in sampled {
                assert!((f64::from(times) - expected).abs() <= 5.0, "{times} of {expected}");
            }
        }
    }

    #[test]
    fn each_user_is_kept_equally_often() {
        let mut often = [0; 10];
        for _ in 0..1_000 {
            let mut kept = Reservoir { limit: 3, ..Reservoir::default() };
            (0..10).for_each(|user| kept.offer(Uuid::from_u128(user)));
            assert_eq!(kept.users.len(), 3);
            kept.users.iter().for_each(|user| often[user.as_u128() as usize] += 1);
        }
        // 300 of 1,000 each, with a standard deviation of 14.
        assert!(often.iter().all(|times| (200..400).contains(times)), "{often:?}");
        let mut few = Reservoir { limit: 3, ..Reservoir::default() };
        few.offer(Uuid::nil());
        assert_eq!(few.users, [Uuid::nil()]);
        let mut none = Reservoir::default();
        none.offer(Uuid::nil());
        assert!(none.users.is_empty());
    }

    #[test]
    fn files_have_the_bytes_of_an_export() {
        let fields = FieldSet::parse(&["email".into()]).unwrap();
        let day = date(2026, 11, 21);
        let projector = Projector::for_days(&fields, (day, day), "USD", &Default::default());
        let new = |per_file| {
            let (name, time) = ("part.json".to_owned(), Timestamp::UNIX_EPOCH);
            LineWriter::new(projector.clone(), Shape::Zip, per_file, name, time).unwrap()
        };
        let write = |writer: &mut LineWriter, users: u128| {
            for number in 0..users {
                let doc = format!(r#"{{"email":"user-{number}@acme.example","phone":"+1"}}"#);
                let service_id = Uuid::from_u128(number);
                let user = UserRow { service_id, doc: &doc, activity: None };
                writer.write(&user).unwrap().unwrap();
            }
        };
        let empty = new(5_000).finish().unwrap();
        assert_eq!((empty.users, empty.files, empty.bytes), (0, 0, 0));
        let mut writer = new(5_000);
        write(&mut writer, 100);
        let large = writer.finish().unwrap();
        assert_eq!((large.users, large.files, large.empty_file), (100, 1, empty.empty_file));
        let mut writer = new(30);
        write(&mut writer, 100);
        let small = writer.finish().unwrap();
        assert_eq!((small.users, small.files), (100, 4));
        assert!(small.bytes > large.bytes && large.bytes > large.empty_file, "{large:?} {small:?}");
        // The lines of the next stretch still count.
        let mut limited = new(5_000);
        limited.lines_left = 10;
        write(&mut limited, 100);
        limited.lines_left = 10;
        write(&mut limited, 100);
        assert_eq!(limited.finish().unwrap().users, 20);
    }
}
