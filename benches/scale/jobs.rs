//! Exports on paper: jobs with parts and claims, as planning leaves them, of users that are not
//! there.

use std::time::Duration;

use longshore::app::App;
use longshore::exports::rows;
use longshore::exports::{Audience, Format, Job, Plan, Progress, state};
use longshore::kinds;
use longshore::users::Position;
use sqlx::PgPool;
use store::claims::{self, Claim};
use uuid::Uuid;

pub const PER_PART: i64 = 5_000;

/// Who asks, and where it goes.
pub struct ExportRequester {
    app: App,
    workspace: i32,
    segment_id: Uuid,
    storage: Uuid,
}

impl ExportRequester {
    /// For the one workspace, which has storage of its own.
    pub async fn new(app: &App, pool: &PgPool) -> Self {
        let sql = "SELECT workspaces.id, segment_id, s3_storage
                   FROM workspaces JOIN control_groups ON workspace_id = workspaces.id";
        let found: (i32, Uuid, Uuid) =
            sqlx::query_as(sql).fetch_one(pool).await.expect("a workspace");
        let (workspace, segment_id, storage) = found;
        Self { app: app.clone(), workspace, segment_id, storage }
    }

    /// A job that waits to be planned.
    pub async fn queue(&self) -> Job {
        let now = self.app.clock.now();
        let job = Job {
            id: Uuid::new_v4(),
            workspace_id: self.workspace,
            object_prefix: format!("{}-{}", Uuid::new_v4(), now.as_second()),
            audience: Audience::ControlGroup,
            segment_id: self.segment_id,
            users_per_file: None,
            fields: crate::support::api::ALL_FIELDS.map(str::to_owned).into(),
            format: Format::Zip,
            storage_id: Some(self.storage),
            destination: None,
            callback_endpoint: None,
            request_id: "bench".into(),
            requested_at: now.as_millisecond(),
        };
        let mut tx = self.app.store.write().await.expect("PostgreSQL answers");
        rows::insert(&mut tx, &job).await.expect("a row");
        tx.commit().await.expect("PostgreSQL answers");
        job
    }

    /// Offers the planning of a job, and takes it.
    pub async fn take_plan(&self, job: &Job) -> Claim {
        let mut tx = self.app.store.write().await.expect("PostgreSQL answers");
        let (kind, lease) = (kinds::EXPORT_PLAN, Duration::from_secs(600));
        claims::offer(&mut tx, kind, job.id, 0, Duration::ZERO).await.expect("a row");
        tx.commit().await.expect("PostgreSQL answers");
        let claimed = claims::take(&self.app.store, kind, 1, 1, lease, &[]).await;
        claimed.expect("PostgreSQL answers").claims.remove(0)
    }

    /// Makes it a running one of so many parts, as the last step of planning does.
    pub async fn run(&self, job: &Job, parts: i64) {
        let today = self.app.clock.today();
        let plan = Plan {
            slices: (0..100).collect(),
            members: None,
            segment: None,
            planned_at: None,
            moment: None,
            youngest: Uuid::max(),
            first_day: today,
            last_day: today,
            upload_date: today,
            seed: Uuid::new_v4(),
            currency: "USD".into(),
            exchange_rates: Default::default(),
        };
        let end = |part: i64| Position {
            slice: i16::try_from(part * 100 / (parts + 1)).expect("a slice"),
            service_id: Uuid::from_u128(part.unsigned_abs().into()),
        };
        let ends: Vec<Position> = (1..=parts).map(end).collect();
        let now = self.app.clock.now_ms();
        let mut tx = self.app.store.write().await.expect("PostgreSQL answers");
        let begun = rows::begin_running(&mut tx, job, &plan, parts * PER_PART, parts, now);
        assert!(begun.await.expect("a row"), "nobody else runs it");
        let from = Position { slice: 0, service_id: Uuid::nil() };
        rows::insert_parts(&mut tx, job.id, from, &ends).await.expect("rows");
        let items = 1..parts + 1;
        claims::offer_range(&mut tx, kinds::EXPORT_PART, job.id, items, Duration::ZERO)
            .await
            .expect("rows");
        tx.commit().await.expect("PostgreSQL answers");
        claims::analyze_if_many(&self.app.store, parts).await;
    }

    pub async fn progress(&self, job: &Job) -> Progress {
        let mut tx = self.app.store.snapshot().await.expect("PostgreSQL answers");
        rows::load(&mut tx, job.id).await.expect("PostgreSQL answers").expect("a job").1
    }

    /// Ends a job that is not done, and takes back what it offered.
    pub async fn cancel(&self, job: &Job) {
        let mut tx = self.app.store.write().await.expect("PostgreSQL answers");
        state::cancel(&self.app, &mut tx, job).await.expect("PostgreSQL answers");
        for kind in [kinds::EXPORT_PART, kinds::EXPORT_FINISH, kinds::EXPORT_CLEANUP] {
            claims::withdraw(&mut tx, kind, job.id).await.expect("PostgreSQL answers");
        }
        tx.commit().await.expect("PostgreSQL answers");
    }
}
