//! Claims, on both databases.

use std::time::Duration;

use longshore::kinds;
use secrecy::ExposeSecret as _;
use store::Store;
use store::claims::{self, Claim, ClaimError, Job, Kind, Skipped};
use uuid::Uuid;

use crate::support::eventually;
use crate::support::stores::{STEPPED_CLOCK, TestStore, execute, on_both_stores};

on_both_stores!(
    concurrent_workers_claim_each_row_once,
    an_expired_lease_is_reassigned,
    claims_do_not_outlive_their_row,
    postponed_claims_are_given_again,
    delayed_claims_are_given_when_due_unless_withdrawn,
    a_small_job_does_not_wait_behind_a_large_one,
    no_job_has_more_than_its_share,
    workspaces_take_turns_however_many_jobs_they_have,
    workspaces_share_a_receiver,
    skipped_workspaces_go_to_other_workers,
    a_claim_shows_whether_other_workspaces_wait,
    released_claims_do_not_count_as_attempts,
    an_avoided_job_goes_to_other_workers,
    an_empty_poll_reports_when_the_next_row_is_due,
);

const LEASE: Duration = Duration::from_secs(60);
/// No limit, as for most kinds.
const MANY: u32 = u32::MAX;

async fn offer(store: &Store, job: Uuid, items: i64) {
    let mut tx = store.write().await.unwrap();
    claims::offer_range(&mut tx, kinds::EXPORT_PART, job, 0..items, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
}

async fn take(store: &Store, limit: u32, lease: Duration) -> Vec<Claim> {
    claims::take(store, kinds::EXPORT_PART, limit, MANY, lease, &[]).await.unwrap().claims
}

async fn finish(store: &Store, claim: &Claim) -> Result<(), ClaimError> {
    let mut tx = store.write().await.unwrap();
    claims::finish(&mut tx, claim).await?;
    tx.commit().await.unwrap();
    Ok(())
}

async fn concurrent_workers_claim_each_row_once(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    offer(store, job, 100).await;
    let workers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let (mut mine, mut empty) = (Vec::new(), 0);
            // Empty can also mean that other workers had the rows locked for a moment.
            while empty < 20 {
                let claims = take(&store, 3, LEASE).await;
                if claims.is_empty() {
                    empty += 1;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                for claim in claims {
                    finish(&store, &claim).await.unwrap();
                    mine.push(claim.item);
                }
            }
            mine
        })
    });
    let mut items = Vec::new();
    for worker in futures::future::join_all(workers).await {
        items.extend(worker.unwrap());
    }
    items.sort_unstable();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
}

async fn an_expired_lease_is_reassigned(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    offer(store, job, 1).await;
    let late = take(store, 1, Duration::ZERO).await.remove(0);
    assert_eq!(late.attempt, 1);
    let second = take(store, 1, LEASE).await.remove(0);
    assert_eq!((second.item, second.attempt), (0, 2));
    assert!(matches!(claims::renew(store, &late, LEASE).await, Err(ClaimError::Lost)));
    assert!(matches!(finish(store, &late).await, Err(ClaimError::Lost)));
    claims::renew(store, &second, LEASE).await.unwrap();
    finish(store, &second).await.unwrap();
    assert!(matches!(finish(store, &second).await, Err(ClaimError::Lost)));
}

async fn delayed_claims_are_given_when_due_unless_withdrawn(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    let mut tx = store.write().await.unwrap();
    let now = claims::now(&mut tx).await.unwrap();
    let due_later = now + 500;
    for (item, due_at) in [(1, now), (2, due_later), (3, now + 60_000), (4, now), (1, now)] {
        claims::offer_at(&mut tx, kinds::EXPORT_PART, job, item, due_at).await.unwrap();
    }
    claims::withdraw_one(&mut tx, kinds::EXPORT_PART, job, 4).await.unwrap();
    tx.commit().await.unwrap();
    let mut items = Vec::new();
    while items.len() < 2 {
        for claim in take(store, 4, LEASE).await {
            let now = claims::now(&mut store.snapshot().await.unwrap()).await.unwrap();
            assert!(claim.item != 2 || now >= due_later, "{claim:?} at {now}");
            items.push(claim.item);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(items, [1, 2]);
}

async fn postponed_claims_are_given_again(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    offer(store, job, 1).await;
    let first = take(store, 1, LEASE).await.remove(0);
    let mut tx = store.write().await.unwrap();
    claims::postpone(&mut tx, &first, LEASE).await.unwrap();
    tx.commit().await.unwrap();
    assert!(take(store, 1, LEASE).await.is_empty());
    assert!(matches!(claims::renew(store, &first, LEASE).await, Err(ClaimError::Lost)));
    let mut tx = store.write().await.unwrap();
    claims::withdraw(&mut tx, kinds::EXPORT_PART, job).await.unwrap();
    // Offered again it is a new row.
    claims::offer(&mut tx, kinds::EXPORT_PART, job, 0, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
    let again = take(store, 1, LEASE).await.remove(0);
    finish(store, &again).await.unwrap();
}

/// Leases end by the database's clock. Once it has been set forward, a worker takes over nothing
/// for a lease, in which those that are well renew theirs.
#[tokio::test]
async fn nothing_is_taken_over_while_the_databases_clock_is_not_trusted() {
    const BRIEF: Duration = Duration::from_secs(2);
    let test = TestStore::postgres().await;
    let url = test.config.database.url.as_ref().unwrap().expose_secret();
    for sql in STEPPED_CLOCK {
        execute(url, sql).await;
    }
    let [healthy, other] = [(); 2].map(|()| longshore::app::connect(&test.config));
    let (healthy, other) = (healthy.await.unwrap(), other.await.unwrap());
    offer(&healthy, Uuid::new_v4(), 1).await;
    let claim = take(&healthy, 1, BRIEF).await.remove(0);
    assert!(!claim.is_taken_over && take(&other, 1, BRIEF).await.is_empty());
    let mut steps = healthy.database_clock().steps();

    execute(url, "UPDATE stepped.clock SET ahead = '1 hour'").await;
    assert!(take(&other, 1, BRIEF).await.is_empty(), "the row looks expired");
    // Rows that nobody holds are not concerned.
    offer(&other, Uuid::new_v4(), 1).await;
    assert!(!take(&other, 1, BRIEF).await.remove(0).is_taken_over);
    assert!(take(&healthy, 1, BRIEF).await.is_empty());
    assert!(steps.has_changed().unwrap(), "so it renews its leases at once");
    steps.mark_unchanged();
    claims::check_held(&healthy, &claim, claim.asked_at).await.unwrap();
    claims::renew(&healthy, &claim, BRIEF).await.unwrap();

    // Later it expires as always.
    eventually("the row is taken over", async || {
        let taken = take(&other, 4, BRIEF).await;
        let same = taken.iter().find(|taken| taken.job == claim.job);
        same.is_some_and(|taken| taken.is_taken_over)
    })
    .await;
    let lost = claims::check_held(&healthy, &claim, claim.asked_at).await;
    assert!(matches!(lost, Err(ClaimError::Lost)), "{lost:?}");
    assert!(!steps.has_changed().unwrap());
}

async fn claims_do_not_outlive_their_row(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    offer(store, job, 1).await;
    let late = take(store, 1, Duration::ZERO).await.remove(0);
    finish(store, &take(store, 1, LEASE).await.remove(0)).await.unwrap();
    offer(store, job, 1).await;
    let new = take(store, 1, LEASE).await.remove(0);
    assert_eq!((late.item, late.attempt), (new.item, new.attempt));
    assert!(matches!(claims::renew(store, &late, LEASE).await, Err(ClaimError::Lost)));
    let handed_back = claims::release(store, &late, Duration::ZERO).await;
    assert!(matches!(handed_back, Err(ClaimError::Lost)));
    assert!(matches!(finish(store, &late).await, Err(ClaimError::Lost)));
    finish(store, &new).await.unwrap();
}

async fn a_small_job_does_not_wait_behind_a_large_one(test: TestStore) {
    let store = &test.store;
    // Jobs that are not due change nothing.
    let mut tx = store.write().await.unwrap();
    for _ in 0..150 {
        claims::offer(&mut tx, kinds::EXPORT_PART, Uuid::new_v4(), 0, LEASE * 60).await.unwrap();
    }
    tx.commit().await.unwrap();
    for items in [50, 500] {
        let (large, small) = (Uuid::new_v4(), Uuid::new_v4());
        offer(store, large, items).await;
        let first = take(store, 10, LEASE).await;
        assert!(first.iter().all(|claim| claim.job == large), "of {items}");
        offer(store, small, 2).await;
        let next = take(store, 10, LEASE).await;
        assert_eq!(next.len(), 2, "of {items}");
        assert!(next.iter().all(|claim| claim.job == small), "of {items}");
        let mut tx = store.write().await.unwrap();
        for job in [large, small] {
            claims::withdraw(&mut tx, kinds::EXPORT_PART, job).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
}

async fn no_job_has_more_than_its_share(test: TestStore) {
    let store = &test.store;
    let job = Uuid::new_v4();
    offer(store, job, 10).await;
    let take_two = || claims::take(store, kinds::EXPORT_PART, 5, 2, LEASE, &[]);
    let taken = take_two().await.unwrap().claims;
    assert_eq!(taken.len(), 2);
    let none = take_two().await.unwrap();
    assert!(none.claims.is_empty());
    assert_eq!(none.next, Some(Duration::ZERO), "others are due");
    finish(store, &taken[0]).await.unwrap();
    assert_eq!(take_two().await.unwrap().claims.len(), 1);
    // Another kind's rows are another matter.
    assert!(
        claims::take(store, kinds::DELIVERY, 5, 2, LEASE, &[]).await.unwrap().claims.is_empty()
    );
}

async fn offer_of(store: &Store, kind: Kind, job: impl Into<Job>, items: i64) {
    let mut tx = store.write().await.unwrap();
    claims::offer_range(&mut tx, kind, job, 0..items, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
}

async fn workspaces_take_turns_however_many_jobs_they_have(test: TestStore) {
    let store = &test.store;
    for _ in 0..50 {
        offer_of(store, kinds::EXPORT_PART, Job::new(1, Uuid::new_v4()), 2).await;
    }
    offer_of(store, kinds::EXPORT_PART, Job::new(2, Uuid::new_v4()), 9).await;
    offer_of(store, kinds::EXPORT_PART, Job::new(3, Uuid::new_v4()), 9).await;
    for round in 0..9 {
        let mut workspaces = Vec::new();
        for _ in 0..3 {
            workspaces.extend(take(store, 1, LEASE).await.iter().map(|claim| claim.workspace));
        }
        workspaces.sort_unstable();
        assert_eq!(workspaces, [1, 2, 3], "round {round}");
    }
    // A row that is offered again is still its workspace's.
    let claim = take(store, 1, LEASE).await.remove(0);
    let mut tx = store.write().await.unwrap();
    claims::offer_again(&mut tx, &claim, Duration::ZERO).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(claim.workspace, 1);
    assert!(take(store, 1, LEASE).await.iter().all(|claim| claim.workspace == 1));
}

async fn workspaces_share_a_receiver(test: TestStore) {
    const PER_RECEIVER: u32 = 4;
    let (store, receiver) = (&test.store, Uuid::new_v4());
    let offer = async |workspace| {
        let job = Job::new(workspace, Uuid::new_v4()).to_receiver(receiver);
        offer_of(store, kinds::DELIVERY, job, 9).await;
    };
    let take = async || {
        let claims = claims::take(store, kinds::DELIVERY, 4, PER_RECEIVER, LEASE, &[]).await;
        claims.unwrap().claims
    };
    offer(1).await;
    let first = take().await;
    assert_eq!(first.len(), 3, "one place is left for others");
    assert!(take().await.is_empty());
    offer(2).await;
    let second = take().await;
    assert_eq!((second.len(), second[0].workspace), (1, 2));
    assert!(take().await.is_empty(), "the receiver has no more places");
    finish(store, &first[0]).await.unwrap();
    assert_eq!(take().await[0].workspace, 2, "it has fewer in progress");

    // What an older program offered has the receiver as its job, and no workspace.
    finish(store, &first[1]).await.unwrap();
    offer_of(store, kinds::DELIVERY, receiver, 9).await;
    assert_eq!(take().await[0].workspace, 0);
    assert!(take().await.is_empty());
    // Another receiver has its own places.
    offer_of(store, kinds::DELIVERY, Job::new(1, Uuid::new_v4()), 9).await;
    assert_eq!(take().await.len(), 4);
}

async fn skipped_workspaces_go_to_other_workers(test: TestStore) {
    let store = &test.store;
    for workspace in [1, 2] {
        offer_of(store, kinds::EXPORT_PART, Job::new(workspace, Uuid::new_v4()), 9).await;
    }
    let take = async |workspaces: &[i32]| -> Vec<i32> {
        let skipped = Skipped { jobs: &[], workspaces };
        let taken = claims::take_except(store, kinds::EXPORT_PART, 1, MANY, LEASE, skipped).await;
        taken.unwrap().claims.iter().map(|claim| claim.workspace).collect()
    };
    for _ in 0..3 {
        assert_eq!(take(&[1]).await, [2]);
    }
    assert_eq!(take(&[]).await, [1]);
    assert!(take(&[2, 1]).await.is_empty());
}

async fn a_claim_shows_whether_other_workspaces_wait(test: TestStore) {
    let store = &test.store;
    let take = async |workspaces: &[i32]| {
        let skipped = Skipped { jobs: &[], workspaces };
        let taken = claims::take_except(store, kinds::EXPORT_PART, 1, MANY, LEASE, skipped).await;
        let taken = taken.unwrap();
        (taken.claims.len(), taken.next, taken.is_only_workspace)
    };
    let now = Some(Duration::ZERO);
    offer_of(store, kinds::EXPORT_PART, Job::new(1, Uuid::from_u128(5)), 9).await;
    assert_eq!(take(&[]).await, (1, None, true));
    assert_eq!(take(&[1]).await, (0, None, false), "only an offer changes that");
    assert_eq!(take(&[2]).await, (1, None, true));
    for other in [4, 6] {
        offer_of(store, kinds::EXPORT_PART, Job::new(1, Uuid::from_u128(other)), 9).await;
        assert_eq!(take(&[]).await, (1, now, true));
        assert_eq!(take(&[1]).await, (0, now, false));
        assert_eq!(take(&[2]).await, (1, now, true));
    }
    offer_of(store, kinds::EXPORT_PART, Job::new(2, Uuid::from_u128(7)), 9).await;
    assert_eq!(take(&[]).await, (1, now, false));
    assert_eq!(take(&[1]).await, (1, now, false));
}

/// Each worker counts what the others have claimed, however many claim at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_claim_together_keep_to_the_limit_of_a_receiver() {
    let test = TestStore::postgres().await;
    let receiver = Uuid::new_v4();
    for workspace in 1..=3 {
        let job = Job::new(workspace, Uuid::new_v4()).to_receiver(receiver);
        offer_of(&test.store, kinds::DELIVERY, job, 20).await;
    }
    for _ in 0..10 {
        let workers = (0..8).map(|_| {
            let store = test.store.clone();
            tokio::spawn(async move {
                claims::take(&store, kinds::DELIVERY, 4, 4, LEASE, &[]).await.unwrap().claims
            })
        });
        let mut taken = Vec::new();
        for worker in futures::future::join_all(workers).await {
            taken.extend(worker.unwrap());
        }
        assert_eq!(taken.len(), 4, "{taken:?}");
        for workspace in 1..=3 {
            let own = taken.iter().filter(|claim| claim.workspace == workspace).count();
            assert!(own <= 3, "{taken:?}");
        }
        for claim in taken {
            claims::release(&test.store, &claim, Duration::ZERO).await.unwrap();
        }
    }
}

async fn released_claims_do_not_count_as_attempts(test: TestStore) {
    let store = &test.store;
    offer(store, Uuid::new_v4(), 1).await;
    let sleeper = take(store, 1, Duration::ZERO).await.remove(0);
    let second = take(store, 1, LEASE).await.remove(0);
    assert_eq!((sleeper.attempt, second.attempt), (1, 2));
    claims::release_uncounted(store, &second, Duration::ZERO).await.unwrap();
    // What the sleeper may still write goes by another number.
    let third = take(store, 1, LEASE).await.remove(0);
    assert_eq!(third.attempt, 2);
    assert!(matches!(finish(store, &second).await, Err(ClaimError::Lost)));
    finish(store, &third).await.unwrap();
}

async fn an_avoided_job_goes_to_other_workers(test: TestStore) {
    let store = &test.store;
    let (avoided, other) = (Uuid::new_v4(), Uuid::new_v4());
    let take = async |avoided: &[Uuid]| -> Vec<Uuid> {
        let taken =
            claims::take(store, kinds::EXPORT_PART, 2, MANY, LEASE, avoided).await.unwrap().claims;
        taken.iter().map(|claim| claim.job).collect()
    };
    offer(store, avoided, 10).await;
    assert!(take(&[avoided]).await.is_empty());
    offer(store, other, 4).await;
    assert_eq!(take(&[avoided]).await, [other; 2]);
    // It has fewest in progress.
    assert_eq!(take(&[]).await, [avoided; 2]);
    assert_eq!(take(&[avoided]).await, [other; 2]);
    assert!(take(&[avoided, other]).await.is_empty());
}

/// Somebody froze between the end of its claim and the commit: its job has fewest in progress, and
/// nobody can take of it.
#[tokio::test]
async fn locked_rows_of_a_job_do_not_block_others() {
    let test = TestStore::postgres().await;
    let store = &test.store;
    let (frozen, other) = (Uuid::new_v4(), Uuid::new_v4());
    offer(store, frozen, 1).await;
    let claim = take(store, 1, Duration::ZERO).await.remove(0);
    let mut tx = store.write().await.unwrap();
    claims::finish(&mut tx, &claim).await.unwrap();
    offer(store, other, 10).await;
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.extend(take(store, 2, LEASE).await);
    }
    assert_eq!(taken.len(), 10);
    assert!(taken.iter().all(|claim| claim.job == other));
    tx.commit().await.unwrap();
}

async fn an_empty_poll_reports_when_the_next_row_is_due(test: TestStore) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let (store, job) = (&test.store, Uuid::new_v4());
    let look = || async {
        let lease = 2 * HOUR;
        claims::take(store, kinds::EXPORT_PART, 1, MANY, lease, &[]).await.unwrap()
    };
    let is_within = |next: Option<Duration>, hours: u32| {
        let next = next.expect("there is a row");
        assert!(next > HOUR * (hours - 1) && next <= HOUR * hours, "{next:?}");
    };
    assert_eq!(look().await.next, None);
    let mut tx = store.write().await.unwrap();
    claims::offer(&mut tx, kinds::EXPORT_PART, job, 0, HOUR * 5).await.unwrap();
    claims::offer(&mut tx, kinds::EXPORT_PART, job, 1, HOUR * 7).await.unwrap();
    claims::offer(&mut tx, kinds::DELIVERY, job, 0, HOUR).await.unwrap();
    tx.commit().await.unwrap();
    is_within(look().await.next, 5);
    // A lease is due as well.
    offer(store, Uuid::new_v4(), 1).await;
    assert_eq!(look().await.claims.len(), 1);
    is_within(look().await.next, 2);
}
