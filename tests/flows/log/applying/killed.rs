//! Workers that are killed, by chance and by messages.

use std::process::Command;

use longshore::topics;

use super::*;

on_both!(
    long on_kafka:
    killed_at_random_moments_all_is_applied_once,
    a_crashing_message_alone_becomes_a_dead_letter,
    killed_workers_make_no_dead_letters,
);

/// A runner in a process of its own, which can be killed; not a test by itself.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "other tests start it as a process of its own"]
async fn a_process_that_applies_on_request() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::load(None, std::env::vars_os(), Mode::Command).unwrap();
    telemetry::init_tracing(&config).unwrap();
    let app = App::open(config).await.unwrap();
    let never = CancellationToken::new();
    batches::run(&app, GROUP, topics::TRACKING, Tally::default(), options(), never).await;
}

fn start_process(installation: &Installation, failpoints: &str) -> Process {
    let directory = &installation.test.config.data;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "log::applying::killed::a_process_that_applies_on_request",
        "--ignored",
        "--nocapture",
    ]);
    command.envs(installation.environment()).env("FAILPOINTS", failpoints);
    Process::start("applies", directory, command)
}

async fn wait_until_exited(process: &mut Process) {
    for _ in 0..6_000 {
        if !process.is_running() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it goes on\n{}", process.tail());
}

async fn killed_at_random_moments_all_is_applied_once(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut appended = 0;
    for round in 0..6u64 {
        for partition in 0..4 {
            log.append(tracked(partition, appended, 150)).await.unwrap();
        }
        appended += 150;
        let done = tally(&store).await.len();
        let mut process = start_process(&installation, "");
        eventually("it works", async || tally(&store).await.len() > done).await;
        tokio::time::sleep(Duration::from_millis(round * 23)).await;
        process.kill();
    }
    let _process = start_process(&installation, "");
    until_applied(&store, 4 * appended).await;
    assert!(buried(&store).await.is_empty());
    log.close().await;
}

async fn a_crashing_message_alone_becomes_a_dead_letter(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    let mut messages = tracked(0, 0, 10);
    messages[6] = tracking(0, "kill");
    log.append(messages).await.unwrap();
    log.append(tracked(1, 0, 10)).await.unwrap();
    let mut deaths = 0;
    let mut process = start_process(&installation, "");
    while buried(&store).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !process.is_running() {
            deaths += 1;
            assert!(deaths <= 5, "{}", process.tail());
            process = start_process(&installation, "");
        }
    }
    until_applied(&store, 19).await;
    let letters = buried(&store).await;
    assert_eq!((letters.len(), letters[0].position), (1, 6));
    assert!(letters[0].reason.contains("while no other work was running"), "{letters:?}");
    eventually("no note is left", async || notes(&store).await == 0).await;
    assert_eq!(deaths, 4, "it was among the first of an assignment");
    log.close().await;
}

/// What killed them was somebody else: they are together twice, and alone once.
async fn killed_workers_make_no_dead_letters(test_log: TestLog) {
    let installation = prepared(test_log).await;
    let (store, log) = installation.open().await;
    log.append(vec![tracking(0, "hang 1"), tracking(0, "hang 2")]).await.unwrap();
    let sql = "SELECT coalesce(max(attempts), 0) FROM message_attempts";
    for kill in 1..=3 {
        let mut process = start_process(&installation, "");
        eventually("it is at work", async || {
            let begun: i32 =
                on_pool!(&store, pool => sqlx::query_scalar(sql).fetch_one(pool).await).unwrap();
            begun == kill
        })
        .await;
        process.kill();
    }
    let handler = Tally::default();
    handler.healed.store(true, Ordering::SeqCst);
    let running = Running::start(&installation.test_log.config, handler).await;
    until_applied(&store, 2).await;
    running.stop().await;
    assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
    log.close().await;
}

#[cfg(debug_assertions)]
mod killed_around_the_commit {
    use super::super::repeated::{doubled, under_ids};
    use super::*;

    on_both!(long on_kafka: before_the_commit, after_the_commit, before_the_acknowledgement,);

    /// Of messages some of which come twice under their ids, each is applied once.
    async fn killed_at(test_log: TestLog, point: &str) {
        let installation = prepared(test_log).await;
        let (store, log) = installation.open().await;
        for partition in 0..4 {
            let (without, under) = (tracked(partition, 0, 60), tracked(partition, 60, 40));
            log.append(without).await.unwrap();
            log.append(doubled(&under_ids(1, under))).await.unwrap();
        }
        // At the very first batch, and in the middle.
        for at in [1, 7] {
            wait_until_exited(&mut start_process(&installation, &format!("{point}@{at}=kill")))
                .await;
        }
        let _process = start_process(&installation, "");
        until_applied(&store, 400).await;
        for partition in 0..4 {
            eventually("all is done", async || next(&store, partition).await == 140).await;
        }
        eventually("no note is left", async || notes(&store).await == 0).await;
        log.close().await;
    }

    /// Who sleeps before its first note, and wakes when another is done, notes nothing.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sleeper_leaves_no_note() {
        let installation = prepared(TestLog::kafka()).await;
        let (store, log) = installation.open().await;
        let sleeper = start_process(&installation, "batch::begun=stop");
        log.append(tracked(0, 0, 10)).await.unwrap();
        let is_asleep = async || sleeper.status("State").starts_with('T');
        eventually("it sleeps", is_asleep).await;
        let running = Running::start(&installation.test_log.config, Tally::default()).await;
        until_applied(&store, 10).await;
        sleeper.signal("CONT");
        let is_awake = async || sleeper.printed().contains("another worker has applied messages");
        eventually("it is awake", is_awake).await;
        running.stop().await;
        assert_eq!((buried(&store).await.len(), notes(&store).await), (0, 0));
        log.close().await;
    }

    async fn before_the_commit(test_log: TestLog) {
        killed_at(test_log, "batch::applied").await;
    }

    async fn after_the_commit(test_log: TestLog) {
        killed_at(test_log, "batch::committed").await;
    }

    async fn before_the_acknowledgement(test_log: TestLog) {
        killed_at(test_log, "batch::done").await;
    }
}
