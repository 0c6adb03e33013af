//! Exports without workers: a test takes each step itself.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use kit::clock::{from_ms, utc_date};
use longshore::app::App;
use longshore::exports::archive::{Entry, central_directory};
use longshore::exports::paths;
use longshore::exports::plan;
use longshore::exports::rows::{self, Winner};
use longshore::exports::{Audience, Format, Job, Plan, Progress, state};
use longshore::kinds;
use longshore::users::activity::Activity;
use longshore::users::{Position, service_id};
use objects::Objects;
use store::Store;
use store::claims::{self, Claim, Kind};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::archives;
use super::stores::{TestStore, on_pool};

/// Those of the control group.
pub const SLICES: [i16; 2] = [3, 70];

/// When the users were created, in milliseconds; the window of an export begins then.
pub const CREATED: i64 = 1_789_000_000_000;

pub const LEASE: Duration = Duration::from_secs(60);

/// A workspace with a control group, in a store of its own; files of five users.
pub struct World {
    pub app: App,
    pub workspace: i32,
    segment_id: Uuid,
    pub test: TestStore,
}

/// Where the user of a number is.
pub fn position(slice: i16, n: i64) -> Position {
    let bucket = slice.unsigned_abs() * 100;
    Position { slice, service_id: service_id::new(CREATED + n, 0, bucket, n as u64) }
}

impl World {
    pub async fn new(mut test: TestStore) -> Self {
        test.config.exports.users_per_file = 5;
        let app = App::open(test.config.clone()).await.unwrap();
        app.log.create_topics().await.unwrap();
        let (workspace, segment_id) = (test.workspace("acme").await, Uuid::new_v4());
        let sql = "INSERT INTO control_groups (segment_id, workspace_id, percent, slices, active, created_at)
                   VALUES ($1, $2, 2, $3, TRUE, 0)";
        on_pool!(&test.store, pool => {
            let insert = sqlx::query(sql).bind(segment_id).bind(workspace);
            insert.bind(format!("{SLICES:?}")).execute(pool).await.map(drop)
        })
        .unwrap();
        Self { app, workspace, segment_id, test }
    }

    /// A user with a purchase.
    pub async fn add_user(&self, slice: i16, n: i64) {
        let doc = format!(
            r#"{{"external_id":"user {n}","email":"private","custom_attributes":{{"a":{n},"b":1}}}}"#
        );
        let mut activity = Activity::default();
        activity.record_purchase("tea", CREATED, 2, None);
        // SQLite's tables have a key of their own.
        let (column, key) = match &self.test.store {
            Store::Postgres { .. } => ("", String::new()),
            Store::Sqlite { .. } => {
                ("key, ", format!("{}, ", i64::from(slice) << 56 | (CREATED + n) << 14))
            }
        };
        let user = format!(
            "INSERT INTO users ({column}slice, workspace_id, service_id, attributes_at, doc)
             VALUES ({key}$1, $2, $3, 0, $4)"
        );
        let purchase = format!(
            "INSERT INTO activity ({column}slice, workspace_id, service_id, body)
             VALUES ({key}$1, $2, $3, $4)"
        );
        let id = position(slice, n).service_id;
        on_pool!(&self.test.store, pool => {
            let insert = |sql| sqlx::query(sqlx::AssertSqlSafe(sql));
            let user = insert(user).bind(slice).bind(self.workspace).bind(id).bind(doc);
            user.execute(pool).await.unwrap();
            let purchase = insert(purchase).bind(slice).bind(self.workspace).bind(id);
            purchase.bind(activity.encode()).execute(pool).await.unwrap();
        });
    }

    /// Runs a statement with an id, behind the program's back.
    pub async fn execute(&self, sql: &'static str, id: Uuid) {
        let done = on_pool!(&self.test.store, pool => {
            sqlx::query(sql).bind(id).execute(pool).await.map(|done| done.rows_affected())
        });
        assert_eq!(done.expect(sql), 1, "{sql}");
    }

    pub fn job(&self) -> Job {
        let now = self.app.clock.now();
        Job {
            id: Uuid::new_v4(),
            workspace_id: self.workspace,
            object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
            audience: Audience::ControlGroup,
            segment_id: self.segment_id,
            users_per_file: None,
            fields: ["external_id", "custom_attributes.a", "purchases"].map(String::from).into(),
            format: Format::Zip,
            storage_id: None,
            destination: None,
            callback_endpoint: Some("https://callbacks.example/ready".into()),
            request_id: "a-request".into(),
            requested_at: now.as_millisecond(),
        }
    }

    pub async fn queued(&self) -> Job {
        let job = self.job();
        self.insert(&job).await;
        job
    }

    pub async fn insert(&self, job: &Job) {
        let mut tx = self.app.store.write().await.unwrap();
        rows::insert(&mut tx, job).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Offers the planning of a job, and takes it.
    pub async fn take_plan(&self, job: &Job, lease: Duration) -> Claim {
        let mut tx = self.app.store.write().await.unwrap();
        claims::offer(&mut tx, kinds::EXPORT_PLAN, job.id, 0, Duration::ZERO).await.unwrap();
        tx.commit().await.unwrap();
        self.take(kinds::EXPORT_PLAN, job, lease).await.remove(0)
    }

    /// Plans a job, or gives it up, as a worker does.
    pub async fn plan(&self, job: &Job) {
        let claim = self.take_plan(job, LEASE).await;
        if let Err(error) = plan::plan(&self.app, &claim, &CancellationToken::new()).await {
            state::give_up(&self.app, &claim, Some(&error)).await.unwrap();
        }
    }

    /// Brings a job to `running`: parts that end so are to be claimed.
    pub async fn run(&self, job: &Job, users: i64, ends: &[Position]) {
        let day = utc_date(from_ms(CREATED));
        let plan = Plan {
            slices: SLICES.into(),
            members: None,
            segment: None,
            planned_at: None,
            moment: None,
            youngest: Uuid::max(),
            first_day: day,
            last_day: day,
            upload_date: day,
            seed: Uuid::new_v4(),
            currency: "USD".into(),
            exchange_rates: Default::default(),
        };
        let (now, parts) = (self.app.clock.now_ms(), ends.len() as i64);
        let mut tx = self.app.store.write().await.unwrap();
        assert!(rows::begin_running(&mut tx, job, &plan, users, parts, now).await.unwrap());
        let from = Position { slice: 0, service_id: Uuid::nil() };
        rows::insert_parts(&mut tx, job.id, from, ends).await.unwrap();
        let (kind, items) = (kinds::EXPORT_PART, 1..parts + 1);
        claims::offer_range(&mut tx, kind, job.id, items, Duration::ZERO).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Every claimable row of a kind, which all are the job's.
    pub async fn take(&self, kind: Kind, job: &Job, lease: Duration) -> Vec<Claim> {
        let store = &self.app.store;
        let claims = claims::take(store, kind, 100, 100, lease, &[]).await.unwrap().claims;
        assert!(claims.iter().all(|claim| claim.job == job.id), "{claims:?}");
        claims
    }

    pub async fn progress(&self, job: &Job) -> Progress {
        let mut tx = self.app.store.snapshot().await.unwrap();
        rows::load(&mut tx, job.id).await.unwrap().unwrap().1
    }

    pub async fn winners(&self, job: &Job) -> Vec<Winner> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        rows::winners(&mut tx, job.id).await.unwrap()
    }

    /// What is in the ZIP that the winners' segments make, by entry.
    pub async fn zip(&self, job: &Job) -> Vec<(String, String)> {
        let mut zip = Vec::new();
        let mut entries = Vec::new();
        for winner in self.winners(job).await.into_iter().filter(|winner| winner.bytes > 0) {
            let Winner { part, attempt, bytes, .. } = winner;
            let key = paths::segment(job.id, part, attempt);
            let segment = read(&self.app.objects, &key).await;
            assert_eq!(segment.len() as u64, bytes);
            zip.extend(segment);
            entries.push(Entry {
                name: job.entry_name(part),
                crc32: winner.crc32,
                raw_bytes: winner.raw_bytes,
                stored_bytes: bytes,
            });
        }
        zip.extend(central_directory(&entries, from_ms(job.requested_at)));
        let text = |bytes| String::from_utf8(bytes).expect("files are UTF-8");
        archives::unzip(&zip).into_iter().map(|file| (file.name, text(file.bytes))).collect()
    }
}

/// All of an object.
pub async fn read(objects: &Objects, path: &str) -> Vec<u8> {
    let chunks: Vec<Bytes> = objects.get(path).await.unwrap().try_collect().await.unwrap();
    chunks.concat()
}
