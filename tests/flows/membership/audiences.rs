//! Who is part of an export of an audience: exactly those who matched when it was planned.

use kit::json::ObjectText;
use longshore::exports::{Audience, ExportError, State, audience, plan};
use longshore::workspaces::segments;

use super::*;

on_both_stores!(World =>
    an_audience_has_the_users_who_matched_at_the_plan,
    an_audience_of_nobody_is_an_empty_export,
    a_plan_that_is_repeated_finds_the_same_users,
    the_built_in_segment_has_all_users,
    an_unreadable_user_fails_the_plan,
);

impl World {
    /// Users `u 0`, `u 1`, …, with their number as an attribute.
    async fn import_numbered(&self, count: usize) {
        let user = |n| json!({ "external_id": format!("u {n}"), "custom_attributes": { "n": n } });
        self.import_lines((0..count).map(user)).await;
    }

    async fn import_lines(&self, lines: impl Iterator<Item = Value>) {
        let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
        let input = Input::new("users", Cursor::new(lines.join("\n")));
        let (store, clock) = (self.base.app.store.clone(), self.base.app.clock.clone());
        let importer = Importer::new(store, clock, self.workspace.clone());
        let summary = importer.run(vec![input], |_| {}).await.unwrap();
        assert_eq!((summary.lines, summary.bad), (lines.len() as u64, 0));
    }

    fn job_of(&self, target: Value) -> Job {
        let target = ObjectText::from(target.as_object().unwrap());
        let segment_id = audience::id_of_connected(self.workspace.id, &target);
        Job { audience: Audience::Connected(target), segment_id, ..self.base.job() }
    }

    async fn planned_of(&self, target: Value) -> Job {
        let job = self.job_of(target);
        self.base.insert(&job).await;
        self.base.plan(&job).await;
        job
    }
}

/// Those whose number compares like this.
fn numbered(comparison: &str, value: usize) -> Value {
    json!({ "custom_attribute": {
        "custom_attribute_name": "n", "comparison": comparison, "value": value } })
}

/// Of few, about half and nearly all users: their parts are stored and read in different ways.
async fn an_audience_has_the_users_who_matched_at_the_plan(world: World) {
    world.import_numbered(300).await;
    for size in [1, 3, 17, 120, 180, 297, 300] {
        let job = world.planned_of(numbered("less_than", size)).await;
        let progress = world.base.progress(&job).await;
        let files = size.div_ceil(5) as i64;
        assert_eq!((progress.users, progress.parts), (Some(size as i64), Some(files)), "{size}");
        // Who matches later, and who does not any more.
        let other = |n: usize| json!({ "external_id": format!("u {n}"), "custom_attributes": { "n": 300 - n } });
        world.import_lines((0..300).map(other)).await;
        world
            .import_lines((300..310).map(|n| {
                json!({
            "external_id": format!("u {n}"), "custom_attributes": { "n": 0 } })
            }))
            .await;
        erase::erase(&world.base.app.store, &world.workspace, "u 0").await.unwrap();
        world.holds(&job, (1..size).map(|n| format!("u {n}"))).await;
        for statement in ["DELETE FROM users", "DELETE FROM identifiers", "DELETE FROM erased"] {
            world.sql(statement).await;
        }
        world.import_numbered(300).await;
    }
}

async fn an_audience_of_nobody_is_an_empty_export(world: World) {
    world.import_numbered(12).await;
    let job = world.planned_of(numbered("less_than", 0)).await;
    let progress = world.base.progress(&job).await;
    assert_eq!((progress.state, progress.users), (State::Finishing, Some(0)));
}

/// A planner that was too slow has written what it found, and must not replace what counts.
async fn a_plan_that_is_repeated_finds_the_same_users(world: World) {
    world.import_numbered(100).await;
    let job = world.job_of(numbered("less_than", 40));
    world.base.insert(&job).await;
    let stop = CancellationToken::new();
    let late = world.base.take_plan(&job, std::time::Duration::ZERO).await;
    let claim = world.base.take(kinds::EXPORT_PLAN, &job, LEASE).await.remove(0);
    plan::plan(&world.base.app, &claim, &stop).await.unwrap();
    let other = json!({ "external_id": "u 90", "custom_attributes": { "n": 1 } });
    world.import_lines([other].into_iter()).await;
    let repeated = plan::plan(&world.base.app, &late, &stop).await;
    assert!(matches!(repeated, Ok(()) | Err(ExportError::Lost)), "{repeated:?}");
    world.holds(&job, (0..40).map(|n| format!("u {n}"))).await;
}

async fn the_built_in_segment_has_all_users(world: World) {
    world.import_numbered(23).await;
    let segment_id = segments::all_users_id(world.workspace.id);
    let job = Job { audience: Audience::Segment, segment_id, ..world.base.job() };
    world.base.insert(&job).await;
    world.base.plan(&job).await;
    assert_eq!(world.base.progress(&job).await.plan.unwrap().members, None);
    world.holds(&job, (0..23).map(|n| format!("u {n}"))).await;
}

/// Whether the user is part of it is unknown.
async fn an_unreadable_user_fails_the_plan(world: World) {
    world.import_numbered(12).await;
    world.sql("UPDATE users SET doc = '{' WHERE external_id = 'u 5'").await;
    let job = world.planned_of(numbered("less_than", 3)).await;
    let progress = world.base.progress(&job).await;
    assert_eq!(progress.state, State::Failed);
    assert!(progress.error.unwrap().contains("profiles of 1 users"));
}
