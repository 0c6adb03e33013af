//! The backup guide, tried: a base backup of PostgreSQL and its WAL are taken under the mixed
//! load, the database is lost, and it is restored to a moment before the last requests. Then
//! everything must be as the guide says: what the log has is applied again, and only what the
//! guide names is lost. `scripts/chaos restore` runs it.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::load::Load;
use super::recovery::recovered;
use super::stage::{Plan, Stage};
use super::{Servers, count, number, seed};
use crate::support::process;

/// How long the load runs before the backup, between it and the moment to restore, and after that.
fn stretch() -> Duration {
    Duration::from_secs(number("STRETCH_SECONDS").unwrap_or(30))
}

const SETTINGS: [(&str, &str); 5] = [
    ("LONGSHORE_LOG__PARTITIONS", "6"),
    ("LONGSHORE_EXPORTS__USERS_PER_FILE", "500"),
    ("LONGSHORE_EXPORTS__REQUEUE_SECONDS", "5"),
    ("LONGSHORE_MESSAGES__RETRY_MS", "500"),
    ("LONGSHORE_DELIVERIES__RETRY_MS", "500"),
];

/// Functions of the shell for what follows.
const PRELUDE: &str = r#"
set -euo pipefail
PATH=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1):$PATH
sql() { psql -XAtq "$SERVER" -c "$1"; }
"#;

/// Has the server archive its WAL. It must start again for that.
const ARCHIVE: &str = r#"
mkdir "$BACKUP/archive"
chown -R --reference="$(sql 'SHOW data_directory')" "$BACKUP"
sql "ALTER SYSTEM SET archive_mode = on"
sql "ALTER SYSTEM SET archive_timeout = '5s'"
sql "ALTER SYSTEM SET archive_command = 'test ! -f $BACKUP/archive/%f && cp %p $BACKUP/archive/%f'"
"#;

const BASE_BACKUP: &str = r#"
pg_basebackup --pgdata="$BACKUP/base" --wal-method=stream --checkpoint=fast --dbname="$SERVER"
"#;

/// Prints the moment that is restored.
const MOMENT: &str = "sql 'SELECT clock_timestamp()'";

/// Waits until the WAL of now is archived, and prints where the data is.
const ARCHIVED: &str = r#"
segment=$(sql "SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
until [[ -f $BACKUP/archive/$segment ]]; do sleep 0.2; done
sql 'SHOW data_directory'
"#;

/// What the runbook says, with the server stopped.
const RESTORE: &str = r#"
owner=$(stat -c %u:%g "$PGDATA")
rm -rf "$PGDATA"
cp -a "$BACKUP/base" "$PGDATA"
echo "restore_command = 'cp $BACKUP/archive/%f %p'
recovery_target_time = '$MOMENT'
recovery_target_action = 'promote'" >> "$PGDATA/postgresql.auto.conf"
touch "$PGDATA/recovery.signal"
chown -R "$owner" "$PGDATA"
chmod 700 "$PGDATA"
"#;

const PROMOTED: &str = r#"
until [[ $(sql 'SELECT pg_is_in_recovery()') == f ]]; do sleep 0.2; done
"#;

/// Runs lines of shell; returns what they print.
async fn shell(lines: &str, backup: &Path, variables: &[(&str, &str)]) -> String {
    let server = std::env::var("LONGSHORE_TEST_POSTGRES");
    let server = server.expect("LONGSHORE_TEST_POSTGRES: scripts/chaos restore sets it");
    let mut command = process::program("bash", Path::new("/"), &Default::default());
    command.args(["-c", &format!("{PRELUDE}{lines}")]).stderr(Stdio::inherit());
    command.env("SERVER", server).env("BACKUP", backup).envs(variables.iter().copied());
    let output = process::output(command).await;
    assert!(output.status.success(), "{lines} ended with {}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "loses the database: scripts/chaos restore"]
async fn on_request() {
    let servers = Servers::new(&[]);
    let backup = TempDir::new().expect("a folder for the backup");
    let backup = backup.path();
    shell(ARCHIVE, backup, &[]).await;
    servers.tell("restart postgres").await;
    let settings = SETTINGS.map(|(name, value)| (name, value.to_owned())).into();
    let stage = Stage::new(Plan {
        seed: seed(),
        users: count("USERS", 2_000),
        pace: count("PACE", 100) as u32,
        ahead: Duration::from_secs(20),
        settings,
        with_clocks: false,
    })
    .await;
    let mut load = Load::start(stage.world.clone());
    recovered(&stage).await;
    tokio::time::sleep(stretch()).await;

    let since = Instant::now();
    shell(BASE_BACKUP, backup, &[]).await;
    println!("base backup taken under load in {:.1} s", since.elapsed().as_secs_f64());
    tokio::time::sleep(stretch()).await;

    let (messages, _) = stage.world.books.due(i64::MAX);
    let exports = stage.check_exports().await;
    let moment = shell(MOMENT, backup, &[]).await;
    println!("the moment to restore: {moment}, after {exports} exports that are done");
    tokio::time::sleep(stretch()).await;
    load.check();
    load.stop().await;
    let exports_since = stage.check_exports().await;
    let data = shell(ARCHIVED, backup, &[]).await;

    println!("the database is lost");
    servers.tell("signal postgres KILL").await;
    for name in stage.herd.names() {
        stage.herd.terminate(&name).await;
    }
    let since = Instant::now();
    shell(RESTORE, backup, &[("PGDATA", &data), ("MOMENT", &moment)]).await;
    servers.tell("start postgres").await;
    shell(PROMOTED, backup, &[]).await;
    for words in [&["migrate"][..], &["doctor"], &["log", "status"]] {
        let printed = stage.fleet.run(words).await;
        println!("longshore {}:\n{}", words.join(" "), printed.trim());
    }
    for name in stage.herd.names() {
        stage.herd.start(&name);
    }
    stage.herd.all_ready().await;
    println!("ready {:.1} s after the restore began", since.elapsed().as_secs_f64());

    let known: HashSet<_> = messages.into_iter().collect();
    let lost = stage.world.books.leave_lost(&known, &stage.world.taken);
    println!(
        "lost, as the guide says: {} transactional emails and {} schedules that were requested \
         after the moment and not sent; {exports_since} exports are unknown, their files are there",
        lost.transactional, lost.schedules
    );
    println!("{}", stage.check().await);
}
