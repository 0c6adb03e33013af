//! The history: each minute once, each piece of work once, and gaps where no process ran.

use longshore::history::{self, History, Metric, Sample, Step, Window};
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::support::stores::{TestStore, on_both_stores};

on_both_stores!(
    two_processes_record_a_minute_once,
    work_counts_once_if_it_is_committed,
    a_minute_that_nobody_recorded_is_a_gap,
    a_clock_that_jumps_back_doubles_nothing,
    hours_outlive_their_minutes,
);

const MINUTE: i64 = Step::Minute.ms();
const HOUR: i64 = Step::Hour.ms();

fn sample(waiting: i64) -> Sample {
    Sample { log_behind: Some(waiting), oldest_work_ms: waiting, dead_letters: waiting }
}

async fn record(store: &Store, now: i64, waiting: i64) -> bool {
    history::record(store, now, &sample(waiting)).await.expect("it is recorded")
}

async fn count(store: &Store, workspace: i32, amounts: &[(Metric, i64)]) {
    let mut tx = store.write().await.expect("a transaction");
    history::count(&mut tx, workspace, amounts).await.expect("it is counted");
    tx.commit().await.expect("a commit");
}

/// The values of `bins` steps from the step of `start`.
async fn read(store: &Store, workspace: Option<i32>, step: Step, start: i64, bins: i64) -> History {
    let start = step.start(start);
    let window = Window { step, start, end: start + bins * step.ms(), bin_ms: step.ms() };
    let mut tx = store.snapshot().await.expect("a transaction");
    // Tests record times that have not come yet.
    history::read_at(&mut tx, workspace, &window, i64::MAX).await.expect("it is read")
}

async fn two_processes_record_a_minute_once(test: TestStore) {
    let store = &test.store;
    let now = store.now().await.expect("a time");
    for minute in 0..20 {
        let at = now + minute * MINUTE;
        let results =
            tokio::join!(record(store, at, 10), record(store, at + 1, 20), record(store, at, 30));
        let winners = [results.0, results.1, results.2].into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1, "{results:?}");
    }
    let lag = read(store, None, Step::Minute, now, 20).await.values(Metric::LogBehind);
    let recorded: Vec<i64> = lag.iter().copied().flatten().collect();
    // The last minute has not ended.
    assert_eq!(recorded.len(), 19, "{lag:?}");
    assert!(recorded.iter().all(|behind| [10, 20, 30].contains(behind)), "{lag:?}");
}

async fn work_counts_once_if_it_is_committed(test: TestStore) {
    let store = &test.store;
    let (acme, beta) = (test.workspace("acme").await, test.workspace("beta").await);
    let now = store.now().await.expect("a time");
    let mut tx = store.write().await.expect("a transaction");
    history::count(&mut tx, acme, &[(Metric::MessagesSent, 999)]).await.expect("it is counted");
    drop(tx);
    let amounts = [(Metric::MessagesSent, 3), (Metric::MessagesFailed, 0)];
    let count_acme = async {
        for _ in 0..50 {
            count(store, acme, &amounts).await;
        }
    };
    let other = async {
        for _ in 0..50 {
            count(store, beta, &[(Metric::MessagesSent, 1), (Metric::ExportsDone, 1)]).await;
        }
    };
    let recorder = async {
        for minute in 0..5 {
            assert!(record(store, now + minute * MINUTE, 0).await);
        }
    };
    tokio::join!(count_acme, other, recorder);
    // What was counted last.
    assert!(record(store, now + HOUR, 0).await);

    let sum = async |workspace, metric| {
        let history = read(store, workspace, Step::Minute, now, 30).await;
        history.values(metric).into_iter().flatten().sum::<i64>()
    };
    assert_eq!(sum(Some(acme), Metric::MessagesSent).await, 150);
    assert_eq!(sum(Some(beta), Metric::MessagesSent).await, 50);
    assert_eq!(sum(None, Metric::MessagesSent).await, 200);
    assert_eq!(sum(None, Metric::ExportsDone).await, 50);
    assert_eq!(sum(Some(acme), Metric::MessagesFailed).await, 0);
    assert!(record(store, now + 2 * HOUR, 0).await);
    let hours = read(store, Some(acme), Step::Hour, now, 2).await.values(Metric::MessagesSent);
    assert_eq!(hours.into_iter().flatten().sum::<i64>(), 150);
}

async fn a_minute_that_nobody_recorded_is_a_gap(test: TestStore) {
    let store = &test.store;
    let acme = test.workspace("acme").await;
    let now = store.now().await.expect("a time");
    let nothing = read(store, Some(acme), Step::Minute, now, 3).await;
    assert_eq!((nothing.since, nothing.values(Metric::ExportsDone)), (None, vec![None; 3]));
    for minute in [0, 1, 4, 5] {
        assert!(record(store, now + minute * MINUTE, minute).await);
    }
    let history = read(store, Some(acme), Step::Minute, now, 6).await;
    let expected = [Some(0), Some(0), None, None, Some(0), None];
    assert_eq!(history.values(Metric::ExportsDone), expected);
    assert_eq!(history.since, Some(Step::Hour.start(now)));
    // Only the installation has a lag.
    assert_eq!(history.values(Metric::LogBehind), [None; 6]);
    let installation = read(store, None, Step::Minute, now, 6).await;
    let expected = [Some(0), Some(1), None, None, Some(4), None];
    assert_eq!(installation.values(Metric::LogBehind), expected);
}

async fn a_clock_that_jumps_back_doubles_nothing(test: TestStore) {
    let store = &test.store;
    let now = store.now().await.expect("a time");
    let start = Step::Minute.start(now);
    assert!(record(store, start + 2 * MINUTE, 5).await);
    assert!(record(store, start, 1).await, "the clock went back");
    assert!(record(store, start + MINUTE, 2).await);
    assert!(!record(store, start + 2 * MINUTE + 1, 9).await, "this minute comes a second time");
    assert!(record(store, start + 3 * MINUTE, 7).await);
    let lag = read(store, None, Step::Minute, start, 4).await.values(Metric::LogBehind);
    assert_eq!(lag, [Some(1), Some(2), Some(5), None]);
    let window = Window { step: Step::Minute, start, end: start + 4 * MINUTE, bin_ms: MINUTE };
    let mut tx = store.snapshot().await.expect("a transaction");
    let later = history::read_at(&mut tx, None, &window, start + MINUTE).await.expect("it is read");
    assert_eq!(later.values(Metric::LogBehind), [Some(1), None, None, None]);
}

async fn hours_outlive_their_minutes(test: TestStore) {
    let store = &test.store;
    let now = store.now().await.expect("a time");
    let days_ago = |days: i64| Step::Hour.start(now - days * 24 * HOUR);
    for (at, waiting) in [
        (days_ago(400), 1),
        (days_ago(2), 40),
        (days_ago(2) + MINUTE, 60),
        (days_ago(2) + 2 * MINUTE, 50),
        (now, 3),
    ] {
        assert!(record(store, at, waiting).await);
    }
    history::sweep(store, &CancellationToken::new()).await.expect("it is swept");
    let minutes = read(store, None, Step::Minute, days_ago(2), 3).await;
    assert_eq!(minutes.values(Metric::DeadLetters), [None; 3]);
    let hours = read(store, None, Step::Hour, days_ago(2), 1).await;
    assert_eq!(hours.values(Metric::DeadLetters), [Some(60)], "the highest value of the hour");
    assert_eq!(hours.since, Some(days_ago(2)));
    assert!(!record(store, now, 3).await, "the current minute is kept");
}
