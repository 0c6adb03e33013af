//! A database that a newer program has migrated: who may run on it, and who says so.

use longshore::setup::migrations::MIGRATIONS;

use crate::support::fleet::{Backend, Fleet};
use crate::support::workspace::WorkspaceFile;
use crate::support::{eventually, stores};

/// The next schema, which adds only.
const NEXT: &str = "INSERT INTO _sqlx_migrations
        (version, description, success, checksum, execution_time)
    SELECT version + 1, 'of a newer program', success, checksum, 0
    FROM _sqlx_migrations ORDER BY version DESC LIMIT 1";

/// What a migration does that takes away what the schema before has.
const PAST: &str = "INSERT INTO settings (name, value)
    SELECT 'schema.oldest', max(version) FROM _sqlx_migrations WHERE true
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

const BACK: &str = "DELETE FROM settings WHERE name = 'schema.oldest'";

const NOTHING: &str = "DELETE FROM _sqlx_migrations";

async fn runs_on_a_newer_schema(backend: Backend) {
    let mut fleet = Fleet::start(backend, &[]).await;
    let api = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let (database, names) = (fleet.database_url(), names(backend));
    let own = fleet.run(&["doctor"]).await;
    let (schema, _) = MIGRATIONS.names().last().unwrap();
    let newer = format!("at schema {}, newer than this version's {schema}", schema + 1);
    assert!(own.contains(&format!("at this version (schema {schema})")), "{own}");

    stores::execute(&database, NEXT).await;
    for name in names {
        let (status, text) = fleet.readiness(name).await;
        assert_eq!(status, 200, "{text}");
        assert!(text.contains(&newer), "{text}");
        fleet.terminate(name).await;
        fleet.launch(name).await;
    }
    let told = fleet.run(&["migrate"]).await;
    assert!(told.contains(&format!("{newer}, which still works")), "{told}");
    assert!(told.contains("there is nothing to migrate"), "{told}");
    let found = fleet.run(&["doctor"]).await;
    assert!(found.contains(&newer), "{found}");
    api.done(&api.export_all().await.prefix).await;

    // From now on the program is too old.
    stores::execute(&database, PAST).await;
    let told = format!(
        "which needs a version with schema {} or newer; this version has {schema}: run a newer \
         longshore",
        schema + 1
    );
    for name in names {
        let (status, text) = fleet.readiness(name).await;
        assert!(status == 503 && text.contains(&told), "{status} {text}");
        fleet.terminate(name).await;
        fleet.launch_with(name, &[]).await;
        fleet.wait_until_exited(name).await;
    }
    for command in [&["migrate"][..], &["doctor"], &["key", "list"]] {
        let output = fleet.command(command).await;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!output.status.success() && said.contains(&told), "{command:?}: {said}");
    }

    // And back.
    stores::execute(&database, BACK).await;
    for name in names {
        fleet.launch(name).await;
    }
    api.done(&api.export_all().await.prefix).await;
    fleet.close().await;
}

fn names(backend: Backend) -> &'static [&'static str] {
    match backend {
        Backend::Embedded => &["standalone"],
        Backend::Fleet(_) => &["gateway", "worker-1"],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standalone() {
    runs_on_a_newer_schema(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_fleet() {
    runs_on_a_newer_schema(Backend::Fleet(1)).await;
}

/// A database that is older says what to run; the processes that see it so are not ready.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_schema_is_refused() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    // Else it could end by what it looks at as it starts.
    eventually("the worker works", || async { fleet.printed().contains("worker started") }).await;
    stores::execute(&fleet.database_url(), NOTHING).await;
    for name in ["gateway", "worker-1"] {
        eventually("it is not ready", || async { fleet.readiness(name).await.0 == 503 }).await;
        let (_, text) = fleet.readiness(name).await;
        assert!(text.contains("run `longshore migrate` of this version"), "{text}");
        fleet.terminate(name).await;
        fleet.launch_with(name, &[]).await;
        fleet.wait_until_exited(name).await;
    }
    let said = fleet.printed();
    assert!(said.contains("run `longshore migrate` of this version"), "{said}");
}

/// Who does not know all that is sealed must not rotate the key.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_program_rotates_no_key() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    stores::execute(&fleet.database_url(), NEXT).await;
    let old = fleet.config().secret_key.expect("a key");
    let old = secrecy::ExposeSecret::expose_secret(&old).to_owned();
    let new = kit::secrets::SecretKey::generate();
    let rotate = format!(
        "LONGSHORE_SECRET_KEY={new} LONGSHORE_SECRET_KEY_OLD={old} \"$LONGSHORE\" migrate \
         2> rotate.err && exit 1; grep -q 'only the newest version can rotate' rotate.err"
    );
    fleet.shell(&rotate).await;
    fleet.close().await;
}
