//! Reads, projects and compresses a part to a file in memory.
//!
//! All of it runs on a separate thread: it reads users in one snapshot, a chunk at a time, and
//! projects and compresses each chunk before it reads the next. The database sends into the
//! connection's buffer in parallel, so reading overlaps with computing, and only a chunk, the
//! uncompressed rest and the file are in memory. Computing needs a processor permit, reading does
//! not.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::archive::{Packed, Packer, Shape};
use super::fields::FieldSet;
use super::part_rows::PartRow;
use super::project::{Broken, Projector};
use super::telemetry::stage;
use super::{ExportError, Failure, Plan};
use gateway::app::App;
use kit::compute::{Cores, MemoryReservation};
use people::users::moment::TransactionSnapshot;
use people::users::scan::{self, UserRange, UserRow};
use store::StoreError;

/// Stored bytes that are projected together.
const CHUNK: usize = 512 << 10;

/// Initial reservation of a part: enough for 5,000 users of 1.4 KB.
const FIRST_RESERVATION: usize = 20 << 20;

/// The part to pack.
#[derive(Clone, Debug)]
pub(super) struct PackSpec {
    pub workspace: i32,
    pub plan: Plan,
    pub part: PartRow,
    pub fields: FieldSet,
    pub shape: Shape,
    pub entry_name: String,
    pub time: Timestamp,
}

/// A file, and its properties.
#[derive(Debug)]
pub(super) struct PackedPart {
    pub file: Packed,
    pub users: i64,
    pub broken: Vec<Broken>,
    /// The memory of the file.
    pub reserved: MemoryReservation,
}

/// Reads, projects and compresses. A part that needs more memory restarts with twice as much.
pub(super) async fn pack(
    app: &App,
    spec: &PackSpec,
    stop: &CancellationToken,
) -> Result<PackedPart, ExportError> {
    let mut bytes = FIRST_RESERVATION;
    loop {
        let reserved = tokio::select! {
            reserved = app.memory.reserve(bytes) => reserved,
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
    let range = UserRange {
        workspace: spec.workspace,
        slices: &spec.plan.slices,
        after: spec.part.from,
        up_to: spec.part.to,
        youngest,
        activity: spec.fields.needs_activity(),
    };
    let mut tx = app.store.snapshot().await?;
    scan::read(&mut tx, &range, moment, |user| pipeline.take(&user)).await??;
    tx.commit().await?;
    let reading = began.elapsed().saturating_sub(pipeline.working);
    stage("read", reading, pipeline.stored_bytes);
    pipeline.finish()
}

/// Turns users into a file.
struct Pipeline {
    chunk: Chunk,
    projector: Projector,
    packer: Packer,
    cores: Cores,
    reserved: MemoryReservation,
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
        reserved: MemoryReservation,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            chunk: Chunk::default(),
            projector: Projector::new(&spec.fields, &spec.plan),
            packer: Packer::new(spec.shape, spec.entry_name.clone(), spec.time),
            cores: cores.clone(),
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
        if self.chunk.bytes() >= CHUNK { self.work() } else { Ok(()) }
    }

    /// Projects the chunk, and compresses what exceeds the buffer.
    fn work(&mut self) -> Result<(), PackError> {
        if self.stop.is_cancelled() {
            return Err(PackError::Failed(ExportError::Stopped));
        }
        let began = Instant::now();
        let needed = self.packer.held_bytes() + 2 * self.chunk.bytes();
        if needed > self.reserved.bytes() && !self.reserved.try_grow(needed) {
            return Err(PackError::OutOfMemory);
        }
        self.stored_bytes += self.chunk.bytes() as u64;
        let cores = self.cores.clone();
        cores.compute(|| self.project())?;
        self.chunk.clear();
        self.working += began.elapsed();
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
        let Self { packer, cores, mut reserved, users, broken, .. } = self;
        let (file, finishing) = cores.compute(|| {
            let began = Instant::now();
            (packer.finish(), began.elapsed())
        });
        let file = file?;
        reserved.shrink(file.bytes.len());
        stage("project", self.projecting, file.raw_bytes);
        stage("compress", self.compressing + finishing, file.bytes.len() as u64);
        Ok(PackedPart { file, users, broken, reserved })
    }
}

/// Users read from the database, for the projector.
#[derive(Default)]
struct Chunk {
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
    fn push(&mut self, user: &UserRow<'_>) {
        let document = self.documents.len()..self.documents.len() + user.doc.len();
        self.documents.push_str(user.doc);
        let activity = user.activity.map(|activity| {
            let start = self.activities.len();
            self.activities.extend_from_slice(activity);
            start..self.activities.len()
        });
        self.users.push(Stored { service_id: user.service_id, document, activity });
    }

    fn bytes(&self) -> usize {
        self.documents.len() + self.activities.len()
    }

    fn users(&self) -> impl Iterator<Item = UserRow<'_>> {
        self.users.iter().map(|stored| UserRow {
            service_id: stored.service_id,
            doc: &self.documents[stored.document.clone()],
            activity: stored.activity.clone().map(|range| &self.activities[range]),
        })
    }

    fn clear(&mut self) {
        self.documents.clear();
        self.activities.clear();
        self.users.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use jiff::civil::date;

    use super::*;
    use kit::compute::Memory;
    use people::users::Position;

    const KIB: usize = 1 << 10;

    fn spec() -> PackSpec {
        let first = Position { slice: 0, service_id: Uuid::nil() };
        PackSpec {
            workspace: 1,
            plan: Plan {
                slices: vec![0],
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
            fields: FieldSet::parse(&["email".into()]).unwrap(),
            shape: Shape::Gzip,
            entry_name: "part.json".into(),
            time: Timestamp::UNIX_EPOCH,
        }
    }

    fn pipeline(reserved: MemoryReservation, stop: &CancellationToken) -> Pipeline {
        Pipeline::new(&Cores::new(1), &spec(), reserved, stop)
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
        let memory = Memory::new(64 << 20);
        let mut pipeline = pipeline(memory.reserve(4 << 20).await, &CancellationToken::new());
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

    #[tokio::test]
    async fn no_users_produce_an_empty_file() {
        let memory = Memory::new(1 << 20);
        let pipeline = pipeline(memory.reserve(KIB).await, &CancellationToken::new());
        let part = pipeline.finish().unwrap();
        assert_eq!((part.users, part.file.raw_bytes, part.broken.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn memory_grows_where_it_is_free_and_ends_the_work_where_it_is_not() {
        let memory = Memory::new(8 << 20);
        let fill =
            |pipeline: &mut Pipeline| (0..2_000).try_for_each(|n| take(pipeline, n, &document(n)));
        let mut alone = pipeline(memory.reserve(2 << 20).await, &CancellationToken::new());
        fill(&mut alone).unwrap();
        assert!(alone.reserved.bytes() > 2 << 20);
        drop(alone);
        let other = memory.reserve(6 << 20).await;
        let mut limited = pipeline(memory.reserve(2 << 20).await, &CancellationToken::new());
        assert!(matches!(fill(&mut limited), Err(PackError::OutOfMemory)));
        drop(other);
    }

    #[tokio::test]
    async fn stopped_work_ends() {
        let memory = Memory::new(8 << 20);
        let stop = CancellationToken::new();
        let mut pipeline = pipeline(memory.reserve(2 << 20).await, &stop);
        take(&mut pipeline, 1, &document(1)).unwrap();
        stop.cancel();
        assert!(matches!(pipeline.finish(), Err(PackError::Failed(ExportError::Stopped))));
    }
}
