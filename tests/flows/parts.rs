//! Parts of an export on both databases: every user is in a file once, an attempt that comes
//! late harms nothing, and what is broken is told.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use longshore::app::App;
use longshore::claims::{self, Claim, Kind};
use longshore::clock::from_ms;
use longshore::exports::archive::{Entry, central_directory};
use longshore::exports::rows::{self, PartResult, Winner};
use longshore::exports::{Cause, ExportError, Format, Job, Plan, State, part, state};
use longshore::objects::{ObjectKey, Objects, PutOptions};
use longshore::store::Store;
use longshore::users::Position;
use longshore::users::activity::Activity;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::stores::TestStore;

const SLICES: [i16; 2] = [3, 70];
const USERS_PER_PART: i64 = 5;
/// When the users were created, in milliseconds; the window of the export begins then.
const CREATED: i64 = 1_789_000_000_000;

/// Runs a statement of the test's own on either database.
macro_rules! execute {
    ($store:expr, $sql:expr $(, $bind:expr)*) => {
        match $store {
            Store::Postgres(pool) => {
                sqlx::query($sql)$(.bind($bind))*.execute(pool).await.map(|done| done.rows_affected())
            }
            Store::Sqlite { write, .. } => {
                sqlx::query($sql)$(.bind($bind))*.execute(write).await.map(|done| done.rows_affected())
            }
        }
        .expect($sql)
    };
}

/// A running export of `users` users in parts of [`USERS_PER_PART`], without own storage.
struct World {
    test: TestStore,
    app: App,
    job: Job,
    users: i64,
}

fn position(n: i64, users: i64) -> Position {
    let slice = SLICES[usize::from(n >= users / 2)];
    let ms = (CREATED + n) as u128;
    Position { slice, service_id: Uuid::from_u128(ms << 80 | 7 << 76 | 2 << 62 | n as u128) }
}

impl World {
    async fn new(test: TestStore, users: i64) -> Self {
        let app = App::open(test.config.clone()).await.unwrap();
        let now = app.clock.now();
        let job = Job {
            id: Uuid::new_v4(),
            workspace_id: test.workspace("acme").await,
            object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
            segment_id: Uuid::new_v4(),
            fields: ["external_id", "custom_attributes.a", "purchases"].map(String::from).into(),
            format: Format::Zip,
            storage_id: None,
            callback_endpoint: None,
            request_id: "a-request".into(),
            requested_at: now.as_millisecond(),
        };
        let world = Self { test, app, job, users };
        for n in 0..users {
            world.add_user(n).await;
        }
        world.plan().await;
        world
    }

    async fn add_user(&self, n: i64) {
        let Position { slice, service_id } = position(n, self.users);
        let doc = format!(
            r#"{{"external_id":"user {n}","email":"private","custom_attributes":{{"a":{n},"b":1}}}}"#
        );
        let mut activity = Activity::default();
        activity.record_purchase("tea", CREATED, 2);
        let body = activity.encode();
        let (workspace, key) =
            (self.job.workspace_id, i64::from(slice) << 56 | (CREATED + n) << 14);
        match &self.test.store {
            Store::Postgres(_) => {
                execute!(
                    &self.test.store,
                    "INSERT INTO users (slice, workspace_id, service_id, attributes_at, doc)
                     VALUES ($1, $2, $3, 0, $4)",
                    slice,
                    workspace,
                    service_id,
                    &doc
                );
                execute!(
                    &self.test.store,
                    "INSERT INTO activity (slice, workspace_id, service_id, body)
                     VALUES ($1, $2, $3, $4)",
                    slice,
                    workspace,
                    service_id,
                    &body
                );
            }
            Store::Sqlite { .. } => {
                execute!(
                    &self.test.store,
                    "INSERT INTO users (key, slice, workspace_id, service_id, attributes_at, doc)
                     VALUES ($1, $2, $3, $4, 0, $5)",
                    key,
                    slice,
                    workspace,
                    service_id,
                    &doc
                );
                execute!(
                    &self.test.store,
                    "INSERT INTO activity (key, slice, workspace_id, service_id, body)
                     VALUES ($1, $2, $3, $4, $5)",
                    key,
                    slice,
                    workspace,
                    service_id,
                    &body
                );
            }
        }
    }

    fn line(n: i64) -> String {
        let day = "2026-09-10T00:26:40.000Z";
        format!(
            "{{\"external_id\":\"user {n}\",\"custom_attributes\":{{\"a\":{n}}},\
             \"purchases\":[{{\"name\":\"tea\",\"first\":\"{day}\",\"last\":\"{day}\",\"count\":2}}]}}\n"
        )
    }

    /// Brings the job to `running`, with all of its parts to be claimed.
    async fn plan(&self) {
        let day = longshore::clock::utc_date(from_ms(CREATED));
        let plan = Plan {
            slices: SLICES.into(),
            youngest: Uuid::max(),
            first_day: day,
            last_day: day,
            upload_date: day,
            seed: Uuid::new_v4(),
            currency: "USD".into(),
            exchange_rates: BTreeMap::new(),
        };
        let ends: Vec<Position> = (1..=self.users)
            .filter(|n| n % USERS_PER_PART == 0 || *n == self.users)
            .map(|n| position(n - 1, self.users))
            .collect();
        let parts = ends.len() as i64;
        let from = Position { slice: 0, service_id: Uuid::nil() };
        let mut tx = self.app.store.write().await.unwrap();
        rows::insert(&mut tx, &self.job).await.unwrap();
        let now = self.app.clock.now_ms();
        rows::begin_planning(&mut tx, self.job.id, now).await.unwrap();
        let running = rows::begin_running(&mut tx, self.job.id, &plan, self.users, parts, now);
        assert!(running.await.unwrap());
        rows::insert_parts(&mut tx, self.job.id, from, &ends).await.unwrap();
        let offer = claims::offer_range(
            &mut tx,
            Kind::ExportPart,
            self.job.id,
            1..parts + 1,
            Duration::ZERO,
        );
        offer.await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn take(&self, limit: u32) -> Vec<Claim> {
        let lease = Duration::from_secs(60);
        let store = &self.app.store;
        claims::take(store, Kind::ExportPart, Uuid::new_v4(), limit, 100, lease).await.unwrap()
    }

    async fn run(&self, claim: &Claim) -> Result<(), ExportError> {
        part::run(&self.app, claim, &CancellationToken::new()).await
    }

    async fn state(&self) -> State {
        let mut tx = self.app.store.snapshot().await.unwrap();
        rows::load(&mut tx, self.job.id).await.unwrap().unwrap().1.state
    }

    async fn winners(&self) -> Vec<Winner> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        rows::winners(&mut tx, self.job.id).await.unwrap()
    }

    /// What is in the ZIP that the winners' segments make, by entry.
    async fn zip(&self) -> Vec<(String, String)> {
        let mut zip = Vec::new();
        let mut entries = Vec::new();
        for winner in self.winners().await.into_iter().filter(|winner| winner.bytes > 0) {
            let Winner { part, attempt, bytes, .. } = winner;
            let key = ObjectKey::ExportSegment { job: self.job.id, part, attempt };
            let segment = read(&self.app.objects, &key).await;
            assert_eq!(segment.len() as u64, bytes);
            zip.extend(segment);
            entries.push(Entry {
                name: self.job.entry_name(part),
                crc32: winner.crc32,
                raw_bytes: winner.raw_bytes,
                stored_bytes: bytes,
            });
        }
        zip.extend(central_directory(&entries, from_ms(self.job.requested_at)));
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
        (0..zip.len())
            .map(|index| {
                let mut entry = zip.by_index(index).unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.name().unwrap().into_owned(), text)
            })
            .collect()
    }

    async fn close(self) {
        self.app.store.close().await;
        self.test.close().await;
    }
}

async fn read(objects: &Objects, key: &ObjectKey) -> Vec<u8> {
    let chunks: Vec<Bytes> = objects.get(key).await.unwrap().try_collect().await.unwrap();
    chunks.concat()
}

async fn every_user_is_in_a_file_once(test: TestStore) {
    let world = World::new(test, 12).await;
    let claims = world.take(10).await;
    assert_eq!(claims.len(), 3);
    let (done, rest) = claims.split_at(2);
    for claim in done {
        world.run(claim).await.unwrap();
    }
    assert_eq!(world.state().await, State::Running);
    world.run(&rest[0]).await.unwrap();
    assert_eq!(world.state().await, State::Finishing);
    let expected: Vec<(String, String)> = (1..=3)
        .zip([0..5, 5..10, 10..12])
        .map(|(part, users)| (world.job.entry_name(part), users.map(World::line).collect()))
        .collect();
    assert_eq!(world.zip().await, expected);
    world.close().await;
}

async fn users_that_are_deleted_or_broken(test: TestStore) {
    let world = World::new(test, 12).await;
    let broken = position(1, 12).service_id;
    execute!(&world.test.store, "UPDATE users SET doc = '{' WHERE service_id = $1", broken);
    for n in 5..10 {
        let gone = position(n, 12).service_id;
        execute!(&world.test.store, "DELETE FROM users WHERE service_id = $1", gone);
    }
    for claim in world.take(10).await {
        world.run(&claim).await.unwrap();
    }
    // The first would lack a user, so there is no file of it that anybody could take for whole.
    let winners = world.winners().await;
    assert_eq!(winners.iter().map(|w| w.users).collect::<Vec<_>>(), [0, 0, 2]);
    for part in [1, 2] {
        let none = ObjectKey::ExportSegment { job: world.job.id, part, attempt: 1 };
        assert_eq!(world.app.objects.head(&none).await.unwrap(), None);
    }
    let text: Vec<String> = world.zip().await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(text, [(10..12).map(World::line).collect::<String>()]);
    let mut tx = world.app.store.snapshot().await.unwrap();
    let told = rows::broken_users(&mut tx, world.job.id, 10).await.unwrap();
    drop(tx);
    assert_eq!(told.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [broken]);
    world.close().await;
}

async fn work_that_is_stopped_late_or_not_wanted(test: TestStore) {
    let world = World::new(test, 10).await;
    let claims = world.take(2).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = part::run(&world.app, &claims[0], &stop).await;
    assert!(matches!(stopped, Err(ExportError::Stopped)), "{stopped:?}");
    // The claim goes to another worker, who does it; the first one comes late.
    let mut tx = world.app.store.write().await.unwrap();
    claims::put_off(&mut tx, &claims[0], Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
    let second = world.take(1).await[0];
    assert_eq!((second.item, second.attempt), (claims[0].item, 2));
    world.run(&second).await.unwrap();
    let late = world.run(&claims[0]).await;
    assert!(matches!(late, Err(ExportError::Lost)), "{late:?}");
    assert_eq!(world.winners().await.len(), 1);
    // A part of a job that has ended is not worked on.
    let mut tx = world.app.store.write().await.unwrap();
    assert!(state::cancel(&world.app, &mut tx, &world.job).await.unwrap());
    tx.commit().await.unwrap();
    let withdrawn = world.run(&claims[1]).await;
    assert!(matches!(withdrawn, Err(ExportError::Lost)));
    let key = ObjectKey::ExportSegment { job: world.job.id, part: claims[1].item, attempt: 1 };
    assert_eq!(world.app.objects.head(&key).await.unwrap(), None);
    world.close().await;
}

#[tokio::test]
async fn every_user_is_in_a_file_once_sqlite() {
    every_user_is_in_a_file_once(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn every_user_is_in_a_file_once_postgres() {
    every_user_is_in_a_file_once(TestStore::postgres().await).await;
}

#[tokio::test]
async fn users_that_are_deleted_or_broken_sqlite() {
    users_that_are_deleted_or_broken(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn users_that_are_deleted_or_broken_postgres() {
    users_that_are_deleted_or_broken(TestStore::postgres().await).await;
}

#[tokio::test]
async fn work_that_is_stopped_late_or_not_wanted_sqlite() {
    work_that_is_stopped_late_or_not_wanted(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn work_that_is_stopped_late_or_not_wanted_postgres() {
    work_that_is_stopped_late_or_not_wanted(TestStore::postgres().await).await;
}

/// In own storage all attempts at a part share a name.
#[tokio::test]
async fn a_file_is_written_once_and_taken_over() {
    let test = TestStore::sqlite().await;
    let app = App::open(test.config.clone()).await.unwrap();
    let key = ObjectKey::ExportFile {
        segment_id: Uuid::new_v4(),
        date: app.clock.today(),
        object_prefix: "prefix".into(),
        name: "name".into(),
        extension: "zip",
    };
    let write = |body: &'static [u8], users: i64| {
        let (bytes, broken) = (body.len() as i64, Vec::new());
        let result = PartResult { users, raw_bytes: 100, bytes, crc32: users as u32, broken };
        let (objects, key) = (app.objects.clone(), key.clone());
        async move {
            part::write_once(&objects, &key, "application/zip", Bytes::from_static(body), result)
                .await
        }
    };
    let first = write(b"first", 5).await.unwrap();
    // What the second attempt read is another count.
    assert_eq!(write(b"the second", 4).await.unwrap(), first);
    assert_eq!(read(&app.objects, &key).await, b"first");
    // An object that says nothing of itself is not one of ours.
    app.objects.delete(&key).await.unwrap();
    let foreign = Bytes::from_static(b"foreign");
    app.objects.put(&key, foreign, PutOptions::default()).await.unwrap();
    let error = write(b"first", 5).await.unwrap_err();
    let in_the_way = matches!(&error, ExportError::Permanent(f) if f.cause == Cause::OwnStorage);
    assert!(in_the_way && error.to_string().contains(&key.path()), "{error}");
    assert_eq!(read(&app.objects, &key).await, b"foreign");
    test.close().await;
}
