//! The database is down, lies, has no room, or does not let anybody in any more.

use serde_json::json;
use url::Url;
use uuid::Uuid;

use super::{BROKEN_WAYS, Scene, endure, outage};
use crate::support::api::{Accepted, EXPORT};
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::process::{self, Process, free_port};
use crate::support::proxy::{Proxy, ProxyMode};
use crate::support::storage::TestStorage;
use crate::support::temporary::Temporary;
use crate::support::{servers, stores};

/// While it runs, and while it starts.
#[tokio::test(flavor = "multi_thread")]
async fn standalone_ends_well_while_the_database_is_down() {
    let database = stores::Database::create().await;
    let proxy = Proxy::to(&database.url()).await;
    let fleet = Fleet::new_empty(Backend::Embedded, &[]).await;
    let ops = format!("127.0.0.1:{}", free_port());
    let mut environment = fleet.environment().clone();
    environment.insert("LONGSHORE_DATABASE_URL".into(), proxy.instead_of(&database.url()));
    environment.insert("LONGSHORE_OPS_LISTEN".into(), ops.clone());
    environment.insert("LONGSHORE_CONSOLE_LISTEN".into(), "off".into());
    let is_alive = async || {
        let response = reqwest::get(format!("http://{ops}/healthz")).await;
        response.is_ok_and(|response| response.status() == 200)
    };
    let start = |name: &str| {
        let mut command = process::command(fleet.directory(), &environment);
        command.arg("standalone");
        Process::start(name, fleet.directory(), command)
    };
    for (name, mode) in [("closed", ProxyMode::Closed), ("stuck", ProxyMode::Stuck)] {
        let mut running = start(name);
        let has_started = async || running.printed().contains("standalone started");
        eventually("it has started", has_started).await;
        proxy.set(mode);
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        assert!(running.terminate().await.success(), "{}", running.printed());
        proxy.set(ProxyMode::Open);
    }
    proxy.set(ProxyMode::Stuck);
    let mut starting = start("starting");
    eventually("it starts", is_alive).await;
    let status = starting.terminate().await;
    assert!(status.success(), "{status}: {}", starting.printed());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn outages_of_the_database() {
    // Of its own, since it is locked out later.
    let role = format!("test_{}", Uuid::new_v4().simple());
    servers::administer(format!("CREATE ROLE {role} LOGIN SUPERUSER")).await;
    let _role = Temporary::Role(role.clone());
    let mut database = Url::parse(&servers::variable("LONGSHORE_TEST_POSTGRES")).unwrap();
    database.set_username(&role).unwrap();
    // While only some connections are refused the work continues, and must not come to its end.
    let parts = 60 + outage().as_secs() as usize * 5;
    let scene = Scene::with(TestStorage::s3().await, parts, database.as_str()).await;
    let accepted = scene.half_done("/").await;
    for way in BROKEN_WAYS {
        scene.database.set(way);
        endure(&scene.fleet, &format!("the database: {way:?}")).await;
        outage_is_reported(&scene).await;
        scene.database.set(ProxyMode::Open);
        goes_on(&scene, &accepted).await;
    }
    has_no_room(&scene).await;
    goes_on(&scene, &accepted).await;
    refuses(&scene, &role).await;
    goes_on(&scene, &accepted).await;
    scene.ends_whole(&accepted, "/").await;
    scene.leaves_only(1).await;
}

/// The gateway takes what it can, and no worker can do anything.
async fn outage_is_reported(scene: &Scene) {
    for (name, expected) in [("gateway", 200), ("worker-1", 503)] {
        let (status, text) = scene.fleet.readiness(name).await;
        assert_eq!((status, text.contains("the database")), (expected, true), "{name}: {text}");
    }
}

async fn goes_on(scene: &Scene, accepted: &Accepted) {
    scene.recovered().await;
    scene.more_files(accepted, 1).await;
}

/// What PostgreSQL answers to writes when its disk is full, here from triggers. Tables are locked
/// for them one at a time, and not again to make room: the workers, who continue, lock them in
/// another order.
const FILL: [&str; 2] = [
    "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file \"base/1/2\": No space left on device'
            USING ERRCODE = 'disk_full';
     END $$",
    "DO $$ DECLARE t TEXT; BEGIN
        FOREACH t IN ARRAY ARRAY['claims', 'export_jobs', 'export_parts', 'deliveries',
                                 'message_attempts', 'dead_letters', 'settings'] LOOP
            EXECUTE format('CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON %I
                            EXECUTE FUNCTION no_room()', t);
            COMMIT;
        END LOOP;
     END $$",
];
const MAKE_ROOM: &str = "CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RETURN NULL; END $$";

async fn has_no_room(scene: &Scene) {
    let database = scene.fleet.database_url();
    for sql in FILL {
        stores::execute(&database, sql).await;
    }
    let answer = scene.api.post(EXPORT, &json!({ "fields_to_export": ["email"] })).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    rejected_writes_are_reported(&scene.fleet).await;
    endure(&scene.fleet, "the database: full").await;
    stores::execute(&database, MAKE_ROOM).await;
}

/// The gateway still accepts what goes to Kafka; no worker can do anything.
async fn rejected_writes_are_reported(fleet: &Fleet) {
    for (name, status) in [("gateway", 200), ("worker-1", 503)] {
        eventually(&format!("{name} reports that writes fail"), async || {
            let (got, text) = fleet.readiness(name).await;
            got == status && text.contains("cannot write to the database")
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_rejects_writes_is_reported() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let database = fleet.database_url();
    for sql in FILL {
        stores::execute(&database, sql).await;
    }
    rejected_writes_are_reported(&fleet).await;
    stores::execute(&database, MAKE_ROOM).await;
    fleet.ready("worker-1").await;
    eventually("the warning ends", async || {
        fleet.readiness("gateway").await == (200, "ready\n".into())
    })
    .await;
    fleet.close().await;
}

/// The role may not log in any more, and who was in is put out: first some, then all.
async fn refuses(scene: &Scene, role: &str) {
    let put_out = |limit: &str| {
        servers::administer(format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE usename = '{role}' ORDER BY random() LIMIT {limit}"
        ))
    };
    servers::administer(format!("ALTER ROLE {role} NOLOGIN")).await;
    put_out("3").await;
    endure(&scene.fleet, "the database: some connections refused").await;
    put_out("ALL").await;
    endure(&scene.fleet, "the database: all connections refused").await;
    outage_is_reported(scene).await;
    let doctor = scene.fleet.command(&["doctor"]).await;
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(!doctor.status.success() && said.contains("not permitted to log in"), "{said}");
    servers::administer(format!("ALTER ROLE {role} LOGIN")).await;
}
