//! Reads, projects and compresses a part to a file: in memory or, if it is large, in pieces.
//!
//! All of it runs on a separate thread: it reads users in one snapshot, a chunk at a time, and
//! projects and compresses each chunk before it reads the next. The database sends into the
//! connection's buffer in parallel, so reading overlaps with computing, and only a chunk, the
//! uncompressed rest and the file or its next piece are in memory. Computing needs a processor
//! permit, reading does not.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::archive::{Packed, Packer, Shape};
use super::chunk::{self, Chunk};
use super::members::Selection;
use super::part_rows::{PartRow, Sha256Hash};
use super::project::{Broken, Projector};
use super::spill::{PIECE_BYTES, Spill};
use super::telemetry::stage;
use super::{ExportError, Failure, Plan};
use gateway::app::App;
use kit::compute::Cores;
use objects::STREAM_MEMORY_BYTES;
use people::users::Position;
use people::users::listed::{self, ListedUsers};
use people::users::moment::TransactionSnapshot;
use people::users::scan::{self, UserRange, UserRow};
use people::users::suppressions::{self, AddressStates};
use proof::fields::FieldSet;
use runtime::fairness::{Holder, Reservation};
use store::{StoreError, Tx};

/// Initial reservation of a part: enough for 5,000 users of 1.4 KB.
const FIRST_RESERVATION: usize = 20 << 20;

/// Users that are read together with what was decided about their addresses.
const USERS_AT_ONCE: i64 = 300;

/// The part to pack.
#[derive(Clone, Debug)]
pub(super) struct PackSpec {
    pub workspace: i32,
    pub plan: Plan,
    pub part: PartRow,
    pub selection: Arc<Selection>,
    pub fields: FieldSet,
    pub shape: Shape,
    pub entry_name: String,
    pub time: Timestamp,
    /// Where a large file is built; empty.
    pub spill: Spill,
}

/// A file, and its properties.
#[derive(Debug)]
pub(super) struct PackedPart {
    pub file: Packed,
    /// The data of a large file.
    pub spill: Spill,
    /// None if the file is large.
    pub sha256: Option<Sha256Hash>,
    pub users: i64,
    pub broken: Vec<Broken>,
    /// The memory of the selection, and of the file or of its upload.
    pub reserved: Reservation,
}

/// Reads, projects and compresses. A part that needs more memory restarts with twice as much.
pub(super) async fn pack(
    app: &App,
    spec: &PackSpec,
    stop: &CancellationToken,
) -> Result<PackedPart, ExportError> {
    let (workspace, mut bytes) = (Holder::Workspace(spec.workspace), FIRST_RESERVATION);
    loop {
        let reserved = tokio::select! {
            reserved = app.memory.reserve(workspace, bytes) => reserved,
            () = stop.cancelled() => return Err(ExportError::Stopped),
        };
        let (reserved_bytes, is_all_memory) = (reserved.bytes(), reserved.is_all());
        let pipeline = Pipeline::new(&app.cores, spec, reserved, stop);
        match on_own_thread(app.clone(), spec.clone(), pipeline).await {
            Err(PackError::OutOfMemory) if is_all_memory => {
                return Err(ExportError::Permanent(Failure::too_large(reserved_bytes)));
            }
            Err(PackError::OutOfMemory) => {
                metrics::counter!("longshore_export_part_memory_restarts_total").increment(1);
                bytes = reserved_bytes.saturating_mul(2);
            }
            Err(PackError::Failed(error)) => return Err(error),
            Ok(packed) => return Ok(packed),
        }
    }
}

async fn on_own_thread(
    app: App,
    spec: PackSpec,
    pipeline: Pipeline,
) -> Result<PackedPart, PackError> {
    let (runtime, span) = (Handle::current(), tracing::Span::current());
    let work = move || span.in_scope(|| runtime.block_on(read(&app, &spec, pipeline)));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| {
        Err(PackError::fault(format!("the thread of a part panicked: {panic}")))
    })
}

/// Why a thread ended early.
#[derive(Debug)]
enum PackError {
    /// More memory is required.
    OutOfMemory,
    Failed(ExportError),
}

impl PackError {
    fn fault(detail: String) -> Self {
        Self::Failed(ExportError::Transient(Failure::internal(detail)))
    }
}

impl From<StoreError> for PackError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ExportError> for PackError {
    fn from(error: ExportError) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for PackError {
    fn from(error: io::Error) -> Self {
        Self::fault(format!("compressing: {error}"))
    }
}

async fn read(app: &App, spec: &PackSpec, mut pipeline: Pipeline) -> Result<PackedPart, PackError> {
    let began = Instant::now();
    let endless = TransactionSnapshot::endless();
    let (moment, youngest) = match &spec.plan.moment {
        Some(moment) => (moment, Uuid::max()),
        None => (&endless, spec.plan.youngest),
    };
    let (workspace, activity) = (spec.workspace, spec.fields.needs_activity());
    let range = UserRange {
        workspace,
        slices: &spec.plan.slices,
        after: spec.part.from,
        up_to: spec.part.to,
        youngest,
        activity,
    };
    let mut tx = app.store.snapshot().await?;
    if spec.fields.needs_addresses() && suppressions::has_any(&mut tx, workspace).await? {
        read_with_addresses(&mut tx, spec, (&range, moment), &mut pipeline).await?;
        tx.commit().await?;
        return pipeline.finish();
    }
    match &*spec.selection {
        Selection::All => {
            scan::read(&mut tx, &range, moment, |user| pipeline.take(&user)).await??;
        }
        Selection::Filter(filter) => {
            let mut filter = filter.begin();
            let each = |user: UserRow<'_>| {
                if filter.passes(&user.service_id) { pipeline.take(&user) } else { Ok(()) }
            };
            scan::read(&mut tx, &range, moment, each).await??;
        }
        Selection::Only(ids) => {
            let users = ListedUsers { workspace, ids, activity };
            listed::read(&mut tx, &users, moment, |user| pipeline.take(&user)).await??;
        }
    }
    tx.commit().await?;
    let reading = began.elapsed().saturating_sub(pipeline.working);
    stage("read", reading, pipeline.stored_bytes);
    pipeline.finish()
}

/// Reads users some at a time, with what was decided about their addresses.
async fn read_with_addresses(
    tx: &mut Tx,
    spec: &PackSpec,
    (range, moment): (&UserRange<'_>, &TransactionSnapshot),
    pipeline: &mut Pipeline,
) -> Result<(), PackError> {
    let workspace = spec.workspace;
    if let Selection::Only(ids) = &*spec.selection {
        for ids in ids.chunks(USERS_AT_ONCE as usize) {
            let users = ListedUsers { workspace, ids, activity: range.activity };
            listed::read(tx, &users, moment, |user| pipeline.push(&user)).await??;
            pipeline.work_with_addresses(tx, workspace).await?;
        }
        return Ok(());
    }
    let mut filter = match &*spec.selection {
        Selection::Filter(filter) => Some(filter.begin()),
        Selection::All | Selection::Only(_) => None,
    };
    for mut piece in range.by_slice() {
        let (slice, up_to) = (piece.after.slice, piece.up_to);
        loop {
            let within = (piece.after.service_id, up_to.service_id);
            let last = scan::nth_within(tx, workspace, slice, within, USERS_AT_ONCE).await?;
            piece.up_to = last.map_or(up_to, |service_id| Position { slice, service_id });
            let each = |user: UserRow<'_>| {
                let passes = filter.as_mut().is_none_or(|filter| filter.passes(&user.service_id));
                if passes { pipeline.push(&user) } else { Ok(()) }
            };
            scan::read(tx, &piece, moment, each).await??;
            pipeline.work_with_addresses(tx, workspace).await?;
            if last.is_none() {
                break;
            }
            piece.after = piece.up_to;
        }
    }
    Ok(())
}

/// Turns users into a file.
struct Pipeline {
    /// Bytes of the selection, which is held as long as the file.
    selection_bytes: usize,
    chunk: Chunk,
    projector: Projector,
    packer: Packer,
    spill: Spill,
    cores: Cores,
    workspace: i32,
    reserved: Reservation,
    stop: CancellationToken,
    users: i64,
    broken: Vec<Broken>,
    stored_bytes: u64,
    /// Time spent on chunks, including the wait for a processor.
    working: Duration,
    projecting: Duration,
    compressing: Duration,
}

impl Pipeline {
    fn new(
        cores: &Cores,
        spec: &PackSpec,
        reserved: Reservation,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            selection_bytes: spec.selection.bytes(),
            chunk: Chunk::with_memory(),
            projector: Projector::new(&spec.fields, &spec.plan),
            packer: Packer::new(spec.shape, spec.entry_name.clone(), spec.time),
            spill: spec.spill.clone(),
            cores: cores.clone(),
            workspace: spec.workspace,
            reserved,
            stop: stop.clone(),
            users: 0,
            broken: Vec::new(),
            stored_bytes: 0,
            working: Duration::ZERO,
            projecting: Duration::ZERO,
            compressing: Duration::ZERO,
        }
    }

    fn take(&mut self, user: &UserRow<'_>) -> Result<(), PackError> {
        self.chunk.push(user);
        if self.chunk.bytes() >= chunk::BYTES { self.work() } else { Ok(()) }
    }

    /// Adds a user to the chunk, for [`work_with_addresses`](Self::work_with_addresses).
    fn push(&mut self, user: &UserRow<'_>) -> Result<(), PackError> {
        self.chunk.push(user);
        self.reserve(self.packer.held_bytes() + 3 * self.chunk.bytes())
    }

    /// Applies what was decided about the addresses of the chunk's users, and works on them.
    async fn work_with_addresses(&mut self, tx: &mut Tx, workspace: i32) -> Result<(), PackError> {
        let documents = self.chunk.users().map(|user| (user.service_id, user.doc));
        let addresses = AddressStates::look_up(tx, workspace, documents).await?;
        if !addresses.is_empty() {
            self.chunk = self.chunk.with_addresses(&addresses);
        }
        self.work()
    }

    /// Projects the chunk, compresses what exceeds the buffer, and writes the data of a large file.
    fn work(&mut self) -> Result<(), PackError> {
        if self.stop.is_cancelled() {
            return Err(PackError::Failed(ExportError::Stopped));
        }
        let began = Instant::now();
        self.reserve(self.packer.held_bytes() + 2 * self.chunk.bytes())?;
        self.stored_bytes += self.chunk.bytes() as u64;
        let cores = self.cores.clone();
        cores.compute_slice(self.workspace, || self.project())?;
        self.chunk.clear();
        if let Some(piece) = self.packer.take(PIECE_BYTES) {
            self.spill.put(piece)?;
        }
        self.working += began.elapsed();
        Ok(())
    }

    /// Ensures that this much is reserved in addition to the selection.
    fn reserve(&mut self, bytes: usize) -> Result<(), PackError> {
        let needed = self.selection_bytes + bytes;
        if needed > self.reserved.bytes() && !self.reserved.try_grow(needed) {
            return Err(PackError::OutOfMemory);
        }
        Ok(())
    }

    fn project(&mut self) -> Result<(), PackError> {
        let began = Instant::now();
        let Self { chunk, projector, packer, users, broken, .. } = self;
        let mut newer = None;
        let projecting = packer.append(|out| {
            for user in chunk.users() {
                match projector.line(&user, out) {
                    Ok(()) => *users += 1,
                    Err(user) if user.needs_newer_version => newer = Some(user),
                    Err(user) => broken.push(user),
                }
            }
            began.elapsed()
        })?;
        if let Some(Broken { service_id, reason, .. }) = newer {
            return Err(
                StoreError::Newer(format!("the activity of {service_id} ({reason})")).into()
            );
        }
        self.projecting += projecting;
        self.compressing += began.elapsed() - projecting;
        Ok(())
    }

    fn finish(mut self) -> Result<PackedPart, PackError> {
        self.work()?;
        if !self.spill.is_empty() {
            self.reserve(STREAM_MEMORY_BYTES)?;
        }
        let Self { selection_bytes, packer, mut spill, cores, workspace, mut reserved, .. } = self;
        let (users, broken) = (self.users, self.broken);
        let (file, finishing) = cores.compute_slice(workspace, || {
            let began = Instant::now();
            (packer.finish(), began.elapsed())
        });
        let mut file = file?;
        stage("project", self.projecting, file.raw_bytes);
        stage("compress", self.compressing + finishing, file.stored_bytes());
        if !spill.is_empty() {
            file.taken += file.bytes.len() as u64;
            spill.put(std::mem::take(&mut file.bytes))?;
            reserved.shrink(selection_bytes + STREAM_MEMORY_BYTES);
            return Ok(PackedPart { file, spill, sha256: None, users, broken, reserved });
        }
        reserved.shrink(selection_bytes + file.bytes.len());
        let (sha256, hashing) = cores.compute_slice(workspace, || {
            let began = Instant::now();
            (Sha256::digest(&file.bytes).into(), began.elapsed())
        });
        stage("hash", hashing, file.bytes.len() as u64);
        Ok(PackedPart { file, spill, sha256: Some(sha256), users, broken, reserved })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use futures::TryStreamExt as _;
    use jiff::civil::date;
    use objects::Objects;
    use tempfile::TempDir;

    use super::*;
    use crate::spill::LargeFile;
    use kit::secrets::SecretKey;
    use people::users::Position;
    use runtime::fairness::SharedMemory;

    const KIB: usize = 1 << 10;

    fn memory(bytes: usize) -> SharedMemory {
        SharedMemory::leaving(bytes, 0)
    }

    async fn hold(memory: &SharedMemory, bytes: usize) -> Reservation {
        memory.reserve(Holder::Workspace(1), bytes).await
    }

    async fn spec(directory: &TempDir) -> PackSpec {
        let secrets = SecretKey::parse(&SecretKey::generate(), None).unwrap();
        let url = format!("file://{}", directory.path().display());
        let objects = Objects::open(&url, &secrets).await.unwrap();
        let first = Position { slice: 0, service_id: Uuid::nil() };
        PackSpec {
            workspace: 1,
            plan: Plan {
                slices: vec![0],
                members: None,
                segment: None,
                planned_at: None,
                moment: None,
                youngest: Uuid::max(),
                first_day: date(2026, 8, 24),
                last_day: date(2026, 11, 21),
                upload_date: date(2026, 11, 21),
                seed: Uuid::nil(),
                currency: "USD".into(),
                exchange_rates: Default::default(),
            },
            part: PartRow { from: first, to: first },
            selection: Arc::new(Selection::All),
            fields: FieldSet::parse(&["email".into()]).unwrap(),
            shape: Shape::Gzip,
            entry_name: "part.json".into(),
            time: Timestamp::UNIX_EPOCH,
            spill: Spill::new(objects, "parts/1.1.piece-".into()),
        }
    }

    async fn pipeline(reserved: Reservation, stop: &CancellationToken) -> Pipeline {
        let spec = spec(&tempfile::tempdir().unwrap()).await;
        Pipeline::new(&Cores::new(1), &spec, reserved, stop)
    }

    /// Documents of about a kilobyte, most of it in `email`.
    fn document(n: usize) -> String {
        format!(r#"{{"email":"{n:01000}","phone":"not wanted"}}"#)
    }

    fn take(pipeline: &mut Pipeline, n: usize, doc: &str) -> Result<(), PackError> {
        let service_id = Uuid::from_u128(n as u128);
        pipeline.take(&UserRow { service_id, doc, activity: None })
    }

    #[tokio::test]
    async fn every_user_is_written_or_reported_as_broken() {
        let memory = memory(64 << 20);
        let mut pipeline = pipeline(hold(&memory, 4 << 20).await, &CancellationToken::new()).await;
        let mut lines = String::new();
        for n in 0..2_000 {
            if n % 500 == 7 {
                take(&mut pipeline, n, "{\"email\":").unwrap();
            } else {
                take(&mut pipeline, n, &document(n)).unwrap();
                lines += &format!("{{\"email\":\"{n:01000}\"}}\n");
            }
        }
        let part = pipeline.finish().unwrap();
        assert_eq!(part.users, 1_996);
        let broken: Vec<u128> = part.broken.iter().map(|b| b.service_id.as_u128()).collect();
        assert_eq!(broken, [7, 507, 1_007, 1_507]);
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&part.file.bytes[..]).read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == lines);
        assert_eq!(part.file.raw_bytes, lines.len() as u64);
        // Only the file is still held.
        assert_eq!(part.reserved.bytes(), part.file.bytes.len().next_multiple_of(KIB));
    }

    /// The data does not compress, so that it is in several pieces.
    fn large_document(n: u64) -> String {
        let mut number = n;
        let digits: String = (0..4_000)
            .map(|_| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:016x}", number)
            })
            .collect();
        format!(r#"{{"email":"{digits}"}}"#)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_file_is_built_in_pieces_with_little_memory() {
        let directory = tempfile::tempdir().unwrap();
        let spec = spec(&directory).await;
        let memory = memory(40 << 20);
        let reserved = hold(&memory, FIRST_RESERVATION).await;
        let mut pipeline =
            Pipeline::new(&Cores::new(1), &spec, reserved, &CancellationToken::new());
        let pack = move || {
            for n in 0..2_000 {
                take(&mut pipeline, n, &large_document(n as u64)).unwrap();
            }
            pipeline.finish().unwrap()
        };
        let mut part = tokio::task::spawn_blocking(pack).await.unwrap();
        assert_eq!(part.reserved.bytes(), STREAM_MEMORY_BYTES);
        assert!(part.file.taken as usize > 3 * PIECE_BYTES && part.file.bytes.is_empty());
        let objects = spec.spill.objects().clone();
        let file = LargeFile::from_packed(&mut part.file, part.spill).unwrap();
        let (stop, options) = (CancellationToken::new(), objects::PutOptions::default());
        let sha256 = file.hash(&stop).await.unwrap();
        file.upload(&objects, "file.gz", options, sha256, &stop, ExportError::Own).await.unwrap();
        let chunks: Vec<bytes::Bytes> =
            objects.get("file.gz").await.unwrap().try_collect().await.unwrap();
        let uploaded = chunks.concat();
        assert_eq!(uploaded.len() as u64, file.bytes);
        assert_eq!(Sha256::digest(&uploaded)[..], sha256[..]);
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&uploaded[..]).read_to_string(&mut unpacked).unwrap();
        let lines: String = (0..2_000).map(|n| large_document(n) + "\n").collect();
        assert!(unpacked == lines);
    }

    #[tokio::test]
    async fn no_users_produce_an_empty_file() {
        let memory = memory(1 << 20);
        let pipeline = pipeline(hold(&memory, KIB).await, &CancellationToken::new()).await;
        let part = pipeline.finish().unwrap();
        assert_eq!((part.users, part.file.raw_bytes, part.broken.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn the_found_users_count_as_memory() {
        let memory = memory(1 << 20);
        let selection = Arc::new(Selection::Only(vec![Uuid::nil(); 1_000]));
        let spec = PackSpec { selection, ..spec(&tempfile::tempdir().unwrap()).await };
        let reserved = hold(&memory, KIB).await;
        let pipeline = Pipeline::new(&Cores::new(1), &spec, reserved, &CancellationToken::new());
        let part = pipeline.finish().unwrap();
        let expected = 16_000 + part.file.bytes.len();
        assert_eq!(part.reserved.bytes(), expected.next_multiple_of(KIB));
    }

    #[tokio::test]
    async fn memory_grows_where_it_is_free_and_ends_the_work_where_it_is_not() {
        let memory = memory(8 << 20);
        let fill =
            |pipeline: &mut Pipeline| (0..2_000).try_for_each(|n| take(pipeline, n, &document(n)));
        let mut alone = pipeline(hold(&memory, 2 << 20).await, &CancellationToken::new()).await;
        fill(&mut alone).unwrap();
        assert!(alone.reserved.bytes() > 2 << 20);
        drop(alone);
        let other = hold(&memory, 6 << 20).await;
        let mut limited = pipeline(hold(&memory, 2 << 20).await, &CancellationToken::new()).await;
        assert!(matches!(fill(&mut limited), Err(PackError::OutOfMemory)));
        drop(other);
    }

    #[tokio::test]
    async fn stopped_work_ends() {
        let memory = memory(8 << 20);
        let stop = CancellationToken::new();
        let mut pipeline = pipeline(hold(&memory, 2 << 20).await, &stop).await;
        take(&mut pipeline, 1, &document(1)).unwrap();
        stop.cancel();
        assert!(matches!(pipeline.finish(), Err(PackError::Failed(ExportError::Stopped))));
    }
}
