//! Parts of an export on both databases: every user is in a file once, an attempt that comes late
//! harms nothing, and errors are reported.

use std::time::Duration;

use bytes::Bytes;
use longshore::app::App;
use longshore::exports::paths;
use longshore::exports::rows::{self, PartResult, Winner};
use longshore::exports::{Cause, ExportError, Job, State, part, state};
use longshore::kinds;
use longshore::users::Position;
use objects::PutOptions;
use store::claims::{self, Claim};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::export_world::{self, LEASE, SLICES, read};
use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(
    every_user_is_in_a_file_once,
    users_that_are_deleted_or_broken,
    stopped_late_and_cancelled_work_is_discarded,
);

/// A running export in parts of five users, without own storage.
struct World {
    base: export_world::World,
    app: App,
    job: Job,
}

fn position(n: i64, users: i64) -> Position {
    export_world::position(SLICES[usize::from(n >= users / 2)], n)
}

impl World {
    async fn new(test: TestStore, users: i64) -> Self {
        let base = export_world::World::new(test).await;
        for n in 0..users {
            base.add_user(position(n, users).slice, n).await;
        }
        let job = base.queued().await;
        let ends: Vec<Position> = (1..=users)
            .filter(|n| n % 5 == 0 || *n == users)
            .map(|n| position(n - 1, users))
            .collect();
        base.run(&job, users, &ends).await;
        Self { app: base.app.clone(), base, job }
    }

    fn line(n: i64) -> String {
        let day = "2026-09-10T00:26:40.000Z";
        format!(
            "{{\"external_id\":\"user {n}\",\"custom_attributes\":{{\"a\":{n}}},\
             \"purchases\":[{{\"name\":\"tea\",\"first\":\"{day}\",\"last\":\"{day}\",\"count\":2}}]}}\n"
        )
    }

    /// Every part that can be claimed.
    async fn take(&self) -> Vec<Claim> {
        self.base.take(kinds::EXPORT_PART, &self.job, LEASE).await
    }

    async fn run(&self, claim: &Claim) -> Result<(), ExportError> {
        part::run(&self.app, claim, &CancellationToken::new()).await
    }

    async fn state(&self) -> State {
        self.base.progress(&self.job).await.state
    }

    async fn winners(&self) -> Vec<Winner> {
        self.base.winners(&self.job).await
    }

    async fn zip(&self) -> Vec<(String, String)> {
        self.base.zip(&self.job).await
    }
}

async fn every_user_is_in_a_file_once(test: TestStore) {
    let world = World::new(test, 12).await;
    let claims = world.take().await;
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
}

async fn users_that_are_deleted_or_broken(test: TestStore) {
    let world = World::new(test, 12).await;
    let broken = position(1, 12).service_id;
    world.base.execute("UPDATE users SET doc = '{' WHERE service_id = $1", broken).await;
    for n in 5..10 {
        let gone = position(n, 12).service_id;
        world.base.execute("DELETE FROM users WHERE service_id = $1", gone).await;
    }
    for claim in world.take().await {
        world.run(&claim).await.unwrap();
    }
    // The first would lack a user, so there is no file of it that anybody could take for whole.
    let winners = world.winners().await;
    assert_eq!(winners.iter().map(|w| w.users).collect::<Vec<_>>(), [0, 0, 2]);
    for part in [1, 2] {
        let none = paths::segment(world.job.id, part, 1);
        assert_eq!(world.app.objects.head(&none).await.unwrap(), None);
    }
    let text: Vec<String> = world.zip().await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(text, [(10..12).map(World::line).collect::<String>()]);
    let mut tx = world.app.store.snapshot().await.unwrap();
    let told = rows::broken_users(&mut tx, world.job.id, 10).await.unwrap();
    drop(tx);
    assert_eq!(told.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [broken]);
}

async fn stopped_late_and_cancelled_work_is_discarded(test: TestStore) {
    let world = World::new(test, 10).await;
    let claims = world.take().await;
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = part::run(&world.app, &claims[0], &stop).await;
    assert!(matches!(stopped, Err(ExportError::Stopped)), "{stopped:?}");
    // The claim goes to another worker, who does it; the first one comes late.
    let mut tx = world.app.store.write().await.unwrap();
    claims::postpone(&mut tx, &claims[0], Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
    let second = world.take().await[0];
    assert_eq!((second.item, second.attempt), (claims[0].item, 2));
    world.run(&second).await.unwrap();
    let late = world.run(&claims[0]).await;
    assert!(matches!(late, Err(ExportError::Lost)), "{late:?}");
    assert_eq!(world.winners().await.len(), 1);
    // A part of a job that has ended is not worked on.
    let mut tx = world.app.store.write().await.unwrap();
    assert!(state::cancel(&world.app, &mut tx, &world.job).await.unwrap().is_some());
    tx.commit().await.unwrap();
    let withdrawn = world.run(&claims[1]).await;
    assert!(matches!(withdrawn, Err(ExportError::Lost)));
    let key = paths::segment(world.job.id, claims[1].item, 1);
    assert_eq!(world.app.objects.head(&key).await.unwrap(), None);
}

/// In own storage all attempts at a part share a name.
#[tokio::test]
async fn files_are_written_once_and_reused() {
    let test = TestStore::sqlite().await;
    let app = App::open(test.config.clone()).await.unwrap();
    let folder = paths::own_folder(Uuid::new_v4(), app.clock.today(), "prefix");
    let key = format!("{folder}name.zip");
    let write = |body: &'static [u8], users: i64| {
        let (bytes, broken) = (body.len() as i64, Vec::new());
        let (crc32, sha256) = (users as u32, Some([users as u8; 32]));
        let result = PartResult { users, raw_bytes: 100, bytes, crc32, sha256, broken };
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
    assert!(in_the_way && error.to_string().contains(&key), "{error}");
    assert_eq!(read(&app.objects, &key).await, b"foreign");
}
