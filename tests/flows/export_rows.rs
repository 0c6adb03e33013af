//! What an export's rows promise, on both databases: planned once, counted once, finished
//! once, whoever races and whoever comes late.

mod planning;

use std::sync::Arc;
use std::time::Duration;

use kit::json::ObjectText;
use longshore::app::App;
use longshore::exports::held;
use longshore::exports::overview::{self, Filter, ListPosition};
use longshore::exports::rows::{self, PartResult};
use longshore::exports::{Audience, Cause, ExportError, Job, State, finish, state, storage_health};
use longshore::kinds;
use longshore::users::Position;
use objects::ObjectError;
use serde_json::json;
use store::Store;
use store::claims::{Claim, ClaimError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::export_world::{LEASE, SLICES, World, position};
use crate::support::stores::{self, on_both_stores, on_pool, on_postgres};

on_both_stores!(World =>
    empty_exports_only_need_finishing,
    one_of_the_last_parts_brings_the_finishing,
    many_parts_are_counted_once,
    a_part_counts_once_and_for_its_last_claim,
    a_cancelled_job_counts_no_more_parts,
    cancelling_races_with_the_last_part,
    exports_over_the_user_limit_fail_with_advice,
    exports_over_the_size_limit_fail_with_advice,
    exports_without_unreadable_users_say_so,
    jobs_that_crash_their_workers_fail,
    exports_are_listed_newest_first_in_pages,
    files_that_are_being_written_may_have_an_erased_user,
);

impl World {
    /// Users in the group and next to it, `count` of them in the group.
    async fn add_users(&self, count: i64) {
        for n in 0..count {
            self.add_user(SLICES[(n % 2) as usize], n).await;
            self.add_user(50, n).await;
        }
    }

    /// A running job of so many parts, all of them claimed.
    async fn running(&self, parts: i64) -> (Job, Vec<Claim>) {
        let job = self.queued().await;
        self.run_parts(&job, parts).await;
        let claims = self.take(kinds::EXPORT_PART, &job, LEASE).await;
        assert_eq!(claims.len() as i64, parts);
        (job, claims)
    }

    /// Parts of five users each, as far as anybody counts.
    async fn run_parts(&self, job: &Job, parts: i64) {
        let end = |n| Position { slice: SLICES[0], service_id: Uuid::from_u128(n) };
        let ends: Vec<Position> = (1..=parts).map(|part| end(part as u128)).collect();
        self.run(job, parts * 5, &ends).await;
    }

    async fn limit(&self, column: &str, limit: i64) {
        let sql = format!("UPDATE workspaces SET {column} = $1 WHERE id = $2");
        on_pool!(&self.test.store, pool => {
            let update = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(limit).bind(self.workspace);
            update.execute(pool).await.map(drop)
        })
        .unwrap();
    }

    async fn part_done(&self, claim: &Claim, result: &PartResult) -> Result<bool, ClaimError> {
        part_done(&self.app, claim, result).await
    }

    async fn cancel(&self, job: &Job) -> bool {
        cancel(&self.app, job).await
    }

    /// The bodies of the callbacks written for the job.
    async fn callbacks(&self, job: &Job) -> Vec<serde_json::Value> {
        let sql = "SELECT body FROM deliveries WHERE subject = $1";
        let bodies: Vec<String> = on_pool!(&self.test.store, pool => {
            sqlx::query_scalar(sql).bind(&job.object_prefix).fetch_all(pool).await
        })
        .unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    /// The job is over: nobody can work on it, and its cleaning is offered.
    async fn assert_ended(&self, job: &Job, state: State) {
        let progress = self.progress(job).await;
        assert_eq!(progress.state, state);
        assert!(progress.finished_at.is_some());
        assert!(self.take(kinds::EXPORT_PLAN, job, LEASE).await.is_empty());
        assert!(self.take(kinds::EXPORT_PART, job, LEASE).await.is_empty());
        assert!(self.take(kinds::EXPORT_FINISH, job, LEASE).await.is_empty());
        assert_eq!(self.take(kinds::EXPORT_CLEANUP, job, LEASE).await.len(), 1);
    }
}

async fn part_done(app: &App, claim: &Claim, result: &PartResult) -> Result<bool, ClaimError> {
    let mut tx = app.store.write().await?;
    let last = state::part_done(app, &mut tx, claim, result).await?;
    tx.commit().await?;
    Ok(last)
}

async fn cancel(app: &App, job: &Job) -> bool {
    let mut tx = app.store.write().await.unwrap();
    let cancelled = state::cancel(app, &mut tx, job).await.unwrap();
    tx.commit().await.unwrap();
    cancelled.is_some()
}

fn result() -> PartResult {
    PartResult {
        users: 5,
        raw_bytes: 500,
        bytes: 100,
        crc32: u32::MAX,
        sha256: None,
        broken: vec![],
    }
}

async fn empty_exports_only_need_finishing(world: World) {
    let job = world.queued().await;
    world.plan(&job).await;
    let progress = world.progress(&job).await;
    assert_eq!(
        (progress.state, progress.users, progress.parts),
        (State::Finishing, Some(0), Some(0))
    );
    assert!(progress.completed_at.is_some());
    assert!(world.take(kinds::EXPORT_PART, &job, LEASE).await.is_empty());
    let claim = world.take(kinds::EXPORT_FINISH, &job, LEASE).await.remove(0);
    finish::finish(&world.app, &claim, &CancellationToken::new()).await.unwrap();
    let progress = world.progress(&job).await;
    assert_eq!((progress.state, progress.archive), (State::Done, Some(1)));
    assert!(progress.expires_at > progress.finished_at);
    let callbacks = world.callbacks(&job).await;
    assert_eq!(callbacks.len(), 1);
    assert_eq!(callbacks[0]["success"], true);
    assert!(callbacks[0]["url"].as_str().unwrap().contains(&job.object_prefix));
    let again = finish::finish(&world.app, &claim, &CancellationToken::new()).await;
    assert!(matches!(again, Err(ExportError::Lost)));
    world.assert_ended(&job, State::Done).await;
}

async fn one_of_the_last_parts_brings_the_finishing(world: World) {
    for _ in 0..5 {
        let (job, claims) = world.running(4).await;
        let workers = claims.into_iter().map(|claim| {
            let app = world.app.clone();
            tokio::spawn(async move { part_done(&app, &claim, &result()).await.unwrap() })
        });
        let last: Vec<bool> =
            futures::future::join_all(workers).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(last.iter().filter(|last| **last).count(), 1);
        let progress = world.progress(&job).await;
        assert_eq!((progress.state, progress.parts_left), (State::Finishing, Some(0)));
        assert_eq!((progress.users_done, progress.files_done, progress.bytes_done), (20, 4, 400));
        assert_eq!(world.take(kinds::EXPORT_FINISH, &job, LEASE).await.len(), 1);
        let winners = world.winners(&job).await;
        assert_eq!(winners.iter().map(|winner| winner.part).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(winners.iter().all(|winner| winner.crc32 == u32::MAX && winner.attempt == 1));
        assert!(!world.cancel(&job).await, "a job in finishing cannot be cancelled");
        assert_eq!(world.progress(&job).await.state, State::Finishing);
    }
}

/// With own storage they are counted in several rows.
async fn many_parts_are_counted_once(world: World) {
    const PARTS: i64 = 131;
    let job = Job { storage_id: Some(Uuid::new_v4()), ..world.job() };
    world.insert(&job).await;
    world.run_parts(&job, PARTS).await;
    let mut last = 0;
    loop {
        let claims = world.take(kinds::EXPORT_PART, &job, LEASE).await;
        if claims.is_empty() {
            break;
        }
        let workers = claims.chunks(20).map(<[Claim]>::to_vec).map(|claims| {
            let app = world.app.clone();
            tokio::spawn(async move {
                let mut last = 0;
                for claim in claims {
                    last += usize::from(part_done(&app, &claim, &result()).await.unwrap());
                }
                last
            })
        });
        let counted = futures::future::join_all(workers).await.into_iter().map(Result::unwrap);
        last += counted.sum::<usize>();
    }
    assert_eq!(last, 1);
    let progress = world.progress(&job).await;
    assert_eq!((progress.state, progress.parts_left), (State::Finishing, Some(0)));
    assert_eq!((progress.users_done, progress.files_done), (PARTS * 5, PARTS));
    assert_eq!(progress.bytes_done, PARTS * 100);
    assert_eq!(world.take(kinds::EXPORT_FINISH, &job, LEASE).await.len(), 1);
}

async fn files_that_are_being_written_may_have_an_erased_user(world: World) {
    let job = world.queued().await;
    world.run(&job, 5, &[position(SLICES[0], 9)]).await;
    let user = position(SLICES[0], 5).service_id;
    let downloads = async || {
        let mut tx = world.app.store.snapshot().await.unwrap();
        held::downloads_with(&mut tx, world.workspace, &[user], 0).await.unwrap()
    };
    assert_eq!(downloads().await, []);
    let _claims = world.take(kinds::EXPORT_PART, &job, LEASE).await;
    let named = downloads().await;
    assert_eq!(named.len(), 1);
    assert_eq!((&named[0].object_prefix, named[0].expires_at), (&job.object_prefix, None));
}

async fn a_part_counts_once_and_for_its_last_claim(world: World) {
    let job = world.queued().await;
    world.run_parts(&job, 1).await;
    let late = world.take(kinds::EXPORT_PART, &job, Duration::ZERO).await.remove(0);
    let claim = world.take(kinds::EXPORT_PART, &job, LEASE).await.remove(0);
    assert_eq!((late.attempt, claim.attempt), (1, 2));
    assert!(matches!(world.part_done(&late, &result()).await, Err(ClaimError::Lost)));
    let progress = world.progress(&job).await;
    assert_eq!((progress.parts_left, progress.users_done), (Some(1), 0));
    // Giving up with a lost claim fails nothing.
    let gave_up = state::give_up(&world.app, &late, None).await;
    assert!(matches!(gave_up, Err(ClaimError::Lost)));
    assert_eq!(world.progress(&job).await.state, State::Running);

    assert!(world.part_done(&claim, &result()).await.unwrap());
    assert!(matches!(world.part_done(&claim, &result()).await, Err(ClaimError::Lost)));
    assert_eq!(world.progress(&job).await.users_done, 5);
    assert_eq!(world.winners(&job).await[0].attempt, 2);
    world.take(kinds::EXPORT_FINISH, &job, LEASE).await;
}

async fn a_cancelled_job_counts_no_more_parts(world: World) {
    let (job, claims) = world.running(2).await;
    let is_to_do =
        async |part| rows::part_to_do(&world.app.store, job.id, part).await.unwrap().is_some();
    assert!(is_to_do(claims[0].item).await);
    assert!(!world.part_done(&claims[0], &result()).await.unwrap());
    assert!(!is_to_do(claims[0].item).await && is_to_do(claims[1].item).await);
    assert!(world.cancel(&job).await);
    assert!(!is_to_do(claims[1].item).await);
    assert!(matches!(world.part_done(&claims[1], &result()).await, Err(ClaimError::Lost)));
    assert!(!world.cancel(&job).await);
    world.assert_ended(&job, State::Cancelled).await;
    assert!(world.callbacks(&job).await.is_empty(), "who cancels needs no callback");
}

async fn cancelling_races_with_the_last_part(world: World) {
    for _ in 0..10 {
        let (job, claims) = world.running(1).await;
        let job = Arc::new(job);
        let (app, claim) = (world.app.clone(), claims[0]);
        let last = tokio::spawn(async move { part_done(&app, &claim, &result()).await });
        let (app, cancelled) = (world.app.clone(), job.clone());
        let cancelled = tokio::spawn(async move { cancel(&app, &cancelled).await });
        match (last.await.unwrap(), cancelled.await.unwrap()) {
            (Ok(true), false) => {
                assert_eq!(world.progress(&job).await.state, State::Finishing);
                assert_eq!(world.take(kinds::EXPORT_FINISH, &job, LEASE).await.len(), 1);
            }
            (Err(ClaimError::Lost), true) => world.assert_ended(&job, State::Cancelled).await,
            other => panic!("{other:?}"),
        }
    }
}

mod at_once {
    use super::*;

    // SQLite has one writer.
    on_postgres!(World => a_failure_of_the_storage_is_stored_while_the_job_is_cancelled,);

    /// Both lock the job before its claims. A worker that held its claim meanwhile would make the
    /// cancellation fail.
    async fn a_failure_of_the_storage_is_stored_while_the_job_is_cancelled(world: World) {
        let Store::Postgres { pool, .. } = &world.test.store else { panic!("not PostgreSQL") };
        let (job, claims) = world.running(1).await;
        let mut tx = world.app.store.write().await.unwrap();
        assert!(rows::is_running(&mut tx, job.id).await.unwrap());
        let (app, claim) = (world.app.clone(), claims[0]);
        let noted = tokio::spawn(async move {
            let error = ExportError::Own(ObjectError::Unavailable("down".into()));
            storage_health::noted(&app, &claim, async { Err(error) }).await
        });
        stores::wait_until_blocked(pool).await;
        let claim = sqlx::query("SELECT 1 FROM claims WHERE job = $1 FOR UPDATE NOWAIT");
        assert_eq!(claim.bind(job.id).fetch_all(pool).await.unwrap().len(), 1);
        assert!(state::cancel(&world.app, &mut tx, &job).await.unwrap().is_some());
        tx.commit().await.unwrap();
        assert!(noted.await.unwrap().is_err());
        let progress = world.progress(&job).await;
        assert_eq!((progress.state, progress.error), (State::Cancelled, None));
    }
}

async fn exports_over_the_user_limit_fail_with_advice(world: World) {
    world.limit("export_users_limit", 3).await;
    world.add_users(4).await;
    let job = world.queued().await;
    world.plan(&job).await;
    world.assert_ended(&job, State::Failed).await;
    let error = world.progress(&job).await.error.unwrap();
    assert!(error.contains("4 users") && error.contains('3') && error.contains("S3"), "{error}");
    let callbacks = world.callbacks(&job).await;
    assert_eq!(callbacks, [json!({ "success": false, "error": error })]);

    // The search for an audience ends at the limit.
    let audience = json!({ "custom_attribute": {
        "custom_attribute_name": "b", "comparison": "equals", "value": 1 } });
    let audience = ObjectText::from(audience.as_object().unwrap());
    let searched = Job { audience: Audience::Connected(audience.clone()), ..world.job() };
    world.insert(&searched).await;
    world.plan(&searched).await;
    let progress = world.progress(&searched).await;
    assert_eq!(progress.state, State::Failed);
    let error = progress.error.unwrap();
    assert!(error.contains("more than 3 users") && error.contains("S3"), "{error}");

    // Own storage has no limit.
    let own_audience = Job {
        audience: Audience::Connected(audience),
        storage_id: Some(Uuid::new_v4()),
        ..world.job()
    };
    world.insert(&own_audience).await;
    world.plan(&own_audience).await;
    assert_eq!(world.progress(&own_audience).await.users, Some(8));
    assert!(world.cancel(&own_audience).await);
    let own = Job { storage_id: Some(Uuid::new_v4()), ..world.job() };
    world.insert(&own).await;
    world.plan(&own).await;
    assert_eq!(world.progress(&own).await.state, State::Running);
    assert!(world.cancel(&own).await);
    assert_eq!(world.progress(&own).await.state, State::Cancelled);
}

async fn exports_over_the_size_limit_fail_with_advice(world: World) {
    world.limit("export_bytes_limit", 200).await;
    let (job, claims) = world.running(3).await;
    assert!(!world.part_done(&claims[0], &result()).await.unwrap());
    assert!(!world.part_done(&claims[1], &result()).await.unwrap());
    assert_eq!(world.progress(&job).await.state, State::Running, "the limit itself is allowed");
    assert!(!world.part_done(&claims[2], &result()).await.unwrap());
    world.assert_ended(&job, State::Failed).await;
    let error = world.progress(&job).await.error.unwrap();
    assert!(error.contains("200 bytes") && error.contains("fewer fields"), "{error}");
    assert_eq!(world.callbacks(&job).await[0]["error"], error);
}

async fn exports_without_unreadable_users_say_so(world: World) {
    let (job, claims) = world.running(2).await;
    let id = Uuid::new_v4();
    let broken = PartResult { broken: vec![(id, "not JSON".into())], users: 4, ..result() };
    assert!(!world.part_done(&claims[0], &broken).await.unwrap());
    assert!(world.part_done(&claims[1], &result()).await.unwrap());
    let claim = world.take(kinds::EXPORT_FINISH, &job, LEASE).await.remove(0);
    let error = finish::finish(&world.app, &claim, &CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.failure().cause, Cause::BrokenUsers);
    assert!(error.failure().detail.contains("not JSON"));
    state::give_up(&world.app, &claim, Some(&error)).await.unwrap();
    world.assert_ended(&job, State::Failed).await;
    let progress = world.progress(&job).await;
    assert!(progress.error.unwrap().contains(&id.to_string()));
    assert_eq!(progress.broken_users, 1);
}

async fn jobs_that_crash_their_workers_fail(world: World) {
    let (job, claims) = world.running(1).await;
    state::give_up(&world.app, &claims[0], None).await.unwrap();
    world.assert_ended(&job, State::Failed).await;
    assert_eq!(world.callbacks(&job).await[0]["success"], false);
}

async fn exports_are_listed_newest_first_in_pages(world: World) {
    let mut wanted = Vec::new();
    for n in 0..5 {
        // Two of them at the same moment.
        let job = Job { requested_at: i64::MAX / 2 + n / 2, ..world.job() };
        world.insert(&job).await;
        wanted.push((job.requested_at, job.id));
    }
    wanted.sort_unstable();
    wanted.reverse();
    let mut tx = world.app.store.snapshot().await.unwrap();
    let (mut found, mut before) = (Vec::new(), None);
    let page_of = |workspace, before| Filter {
        workspace: Some(workspace),
        before,
        limit: 2,
        ..Filter::default()
    };
    while found.len() < 5 {
        let filter = page_of(world.workspace, before);
        let page = overview::jobs(&world.app.gateway, &mut tx, &filter).await.unwrap();
        found.extend(page.iter().map(|(job, _)| (job.requested_at, job.id)));
        before = page.last().map(|(job, _)| ListPosition::from(job));
    }
    assert_eq!(found[..5], wanted);
    let filter = page_of(world.workspace + 1, None);
    let elsewhere = overview::jobs(&world.app.gateway, &mut tx, &filter).await;
    assert!(elsewhere.unwrap().is_empty());
}
