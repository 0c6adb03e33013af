//! Planning an export: begun by a message or without one, by one planner.

use std::time::Duration;

use log::Message;
use longshore::engine::batches::Handler as _;
use longshore::exports::intake::{self, PlanExports};
use longshore::exports::rows;
use longshore::exports::{ExportError, Failure, Job, State, plan, state};
use longshore::kinds;
use longshore::topics;
use longshore::users::Position;
use store::claims::{self, Claim};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::export_world::{LEASE, SLICES, World};
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    many_planners_plan_once,
    a_lost_message_only_delays_the_planning,
    a_message_has_a_job_planned_at_once_and_once,
    a_message_leaves_a_planning_that_was_begun,
    jobs_of_the_release_before_are_planned,
    planning_that_never_finishes_fails_the_job,
    a_planner_that_loses_fails_nothing,
);

async fn many_planners_plan_once(world: World) {
    world.add_users(12).await;
    let job = world.queued().await;
    // All but the last have lost their claim and do not know it.
    let mut claims = Vec::new();
    for lease in [Duration::ZERO, Duration::ZERO, Duration::ZERO, LEASE] {
        claims.push(world.take_plan(&job, lease).await);
    }
    let planners = claims.into_iter().map(|claim| {
        let app = world.app.clone();
        tokio::spawn(async move { plan::plan(&app, &claim, &CancellationToken::new()).await })
    });
    for planned in futures::future::join_all(planners).await {
        let planned = planned.unwrap();
        assert!(matches!(planned, Ok(()) | Err(ExportError::Lost)), "{planned:?}");
    }
    let progress = world.progress(&job).await;
    assert_eq!(progress.state, State::Running);
    assert_eq!((progress.users, progress.parts, progress.parts_left), (Some(12), Some(3), Some(3)));
    let made = progress.plan.unwrap();
    assert_eq!(made.slices, SLICES);
    assert_eq!(made.first_day.until(made.last_day).unwrap().get_days(), 89);
    assert_eq!(made.upload_date, made.last_day);

    let part_to_do = |number| rows::part_to_do(&world.app.store, job.id, number);
    let mut after = Position { slice: SLICES[0], service_id: Uuid::nil() };
    for number in 1..=3 {
        let (_, plan, part) = part_to_do(number).await.unwrap().unwrap();
        assert_eq!(plan, made);
        assert_eq!(part.from, after, "each part begins where the one before ends");
        assert!(part.from < part.to);
        after = part.to;
    }
    assert_eq!((after.slice, after.service_id), (SLICES[1], made.youngest));
    assert!(part_to_do(4).await.unwrap().is_none());

    // A repeated message finds nothing to plan, even if the users have changed.
    world.add_user(SLICES[0], 100).await;
    world.plan(&job).await;
    assert_eq!(world.progress(&job).await.plan, Some(made));
    world.plan(&world.job()).await;
    let items: Vec<i64> =
        world.take(kinds::EXPORT_PART, &job, LEASE).await.iter().map(|claim| claim.item).collect();
    assert_eq!(items, [1, 2, 3]);
    assert!(world.cancel(&job).await);
    world.assert_ended(&job, State::Cancelled).await;
    world.plan(&job).await;
    assert_eq!(world.progress(&job).await.state, State::Cancelled);
}

/// The message that announces a job.
fn announcing(job: &Job) -> Message {
    let id = job.id.to_string().into_bytes();
    Message {
        topic: topics::EXPORTS,
        partition: 0,
        offset: 0,
        appended_at: 0,
        log_time: None,
        key: id.clone(),
        payload: id,
        request_id: String::new(),
    }
}

impl World {
    /// A job as a call writes it.
    async fn asked_for(&self) -> Job {
        let job = self.job();
        let mut tx = self.app.store.write().await.unwrap();
        intake::insert(&self.app, &mut tx, &job).await.unwrap();
        tx.commit().await.unwrap();
        job
    }

    async fn apply(&self, messages: &[Message]) {
        let handler = PlanExports;
        let jobs = handler.prepare(messages).await.unwrap();
        let mut tx = self.app.store.write().await.unwrap();
        handler.apply(&mut tx, &jobs).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn plans(&self, job: &Job) -> Vec<Claim> {
        self.take(kinds::EXPORT_PLAN, job, LEASE).await
    }
}

async fn a_lost_message_only_delays_the_planning(world: World) {
    world.add_users(1).await;
    let job = world.asked_for().await;
    assert!(world.plans(&job).await.is_empty(), "its message is waited for");
    let passed = "UPDATE claims SET due_at = due_at - 30000 WHERE job = $1";
    assert_eq!(world.app.config.exports.requeue_seconds, 30);
    world.execute(passed, job.id).await;
    let claim = world.plans(&job).await.remove(0);
    plan::plan(&world.app, &claim, &CancellationToken::new()).await.unwrap();
    assert_eq!(world.progress(&job).await.state, State::Running);
    assert!(world.cancel(&job).await);
}

async fn a_message_has_a_job_planned_at_once_and_once(world: World) {
    world.add_users(1).await;
    let job = world.asked_for().await;
    let (message, unknown) = (announcing(&job), announcing(&world.job()));
    world.apply(&[message.clone(), unknown, message.clone()]).await;
    let claims = world.plans(&job).await;
    assert_eq!(claims.len(), 1);
    plan::plan(&world.app, &claims[0], &CancellationToken::new()).await.unwrap();
    let planned = world.progress(&job).await;
    assert_eq!(planned.state, State::Running);
    // It comes again when the job is planned, and when it has ended.
    world.apply(std::slice::from_ref(&message)).await;
    assert!(world.plans(&job).await.is_empty());
    assert_eq!(world.progress(&job).await.plan, planned.plan);
    assert!(world.cancel(&job).await);
    world.apply(&[message]).await;
    assert!(world.plans(&job).await.is_empty());
}

async fn a_message_leaves_a_planning_that_was_begun(world: World) {
    let job = world.asked_for().await;
    world.apply(&[announcing(&job)]).await;
    let claim = world.plans(&job).await.remove(0);
    world.apply(&[announcing(&job)]).await;
    assert!(world.plans(&job).await.is_empty(), "somebody has it");
    claims::release(&world.app.store, &claim, LEASE).await.unwrap();
    world.apply(&[announcing(&job)]).await;
    assert!(world.plans(&job).await.is_empty(), "it pauses before the next try");
    assert!(world.cancel(&job).await);
}

/// The release before offers no planning, and its messages may be lost.
async fn jobs_of_the_release_before_are_planned(world: World) {
    world.add_users(1).await;
    let (queued, planning) = (world.queued().await, world.queued().await);
    let (running, _) = world.running(1).await;
    let begun = "UPDATE export_jobs SET state = 'planning', plan_attempts = 1 WHERE id = $1";
    world.execute(begun, planning.id).await;
    assert_eq!(intake::offer_missing(&world.app).await.unwrap(), 2);
    assert_eq!(intake::offer_missing(&world.app).await.unwrap(), 0);
    for _ in 0..2 {
        let store = &world.app.store;
        let taken = claims::take(store, kinds::EXPORT_PLAN, 4, 4, LEASE, &[]).await.unwrap();
        plan::plan(&world.app, &taken.claims[0], &CancellationToken::new()).await.unwrap();
    }
    for job in [&queued, &planning] {
        assert_eq!(world.progress(job).await.state, State::Running);
        assert!(world.cancel(job).await);
    }
    // Also one of which there is only the message.
    let announced = world.queued().await;
    world.apply(&[announcing(&announced)]).await;
    assert_eq!(world.plans(&announced).await.len(), 1);
    assert!(world.cancel(&announced).await && world.cancel(&running).await);
}

/// Planning that ends its workers each time is not begun for ever.
async fn planning_that_never_finishes_fails_the_job(world: World) {
    let job = world.queued().await;
    let claim = world.take_plan(&job, LEASE).await;
    state::give_up(&world.app, &claim, None).await.unwrap();
    world.assert_ended(&job, State::Failed).await;
    assert_eq!(world.callbacks(&job).await[0]["success"], false);
}

async fn a_planner_that_loses_fails_nothing(world: World) {
    let (job, _) = world.running(1).await;
    let claim = world.take_plan(&job, LEASE).await;
    let failure = ExportError::Permanent(Failure::internal("too late"));
    state::give_up(&world.app, &claim, Some(&failure)).await.unwrap();
    assert_eq!(world.progress(&job).await.state, State::Running);
    assert!(world.cancel(&job).await);
}
