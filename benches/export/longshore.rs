//! Longshore itself: a gateway and one worker on PostgreSQL, Kafka and the S3 server.

use std::process::Command;
use std::time::Instant;

use longshore::config::Config;
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use store::Store;

use crate::FieldChoice;
use crate::pipes;
use crate::report::Measured;
use crate::settle::settle;
use crate::support::api::EXPORT;
use crate::support::archives;
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::{Api, WorkspaceFile};

/// What a record takes from the activity next to its document.
pub const OF_ACTIVITY: [&str; 3] = ["purchases", "custom_events", "total_revenue"];

const WORKER: &str = "worker-1";

const SEGMENT: &str = "/users/export/segment";

pub struct Installation {
    fleet: Fleet,
    api: Api,
    storage: TestStorage,
    users: usize,
    pub store: Store,
    pool: PgPool,
}

impl Installation {
    /// A new one, with a workspace of so many users, all in the control group.
    pub async fn with_users(users: usize) -> Self {
        let storage = TestStorage::s3().await;
        let settings = [
            ("RUST_LOG", "warn".to_owned()),
            ("LONGSHORE_DATABASE__MAX_CONNECTIONS", "16".to_owned()),
            ("LONGSHORE_WORKER__POLL_MS", "500".to_owned()),
        ];
        let fleet = Fleet::start(Backend::Fleet(1), &settings).await;
        let workspace = WorkspaceFile::new("bench")
            .permitted(&["users.export.global_control_group", "users.export.segment"])
            .with_storage(&storage);
        let api = fleet.apply(&[workspace]).await.remove(0);
        fleet
            .shell(&format!("\"$LONGSHORE\" generate --users {users} | \"$LONGSHORE\" import -"))
            .await;
        let pool = PgPool::connect(&fleet.database_url()).await.expect("PostgreSQL answers");
        let config = Config {
            database: longshore::config::Database {
                url: Some(fleet.database_url().into()),
                ..Config::default().database
            },
            ..Config::default()
        };
        let store = longshore::app::connect(&config).await.expect("the store opens");
        let installation = Self { fleet, api, storage, users, store, pool };
        settle(&installation.pool).await;
        installation
    }

    /// Updates a tenth of the users, at random places, and restarts PostgreSQL.
    pub async fn age(&self) {
        // A blank at the end changes no record, and writes each row again.
        let sql = "UPDATE users SET doc = doc || ' ' WHERE random() < 0.1";
        sqlx::query(sql).execute(&self.pool).await.expect("the users are updated");
        settle(&self.pool).await;
        let services = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/services");
        let done = Command::new(services).args(["restart", "postgres"]).status();
        assert!(done.expect("scripts/services runs").success());
    }

    pub fn database_url(&self) -> String {
        self.fleet.database_url()
    }

    pub async fn close(self) {
        self.pool.close().await;
        self.store.close().await;
        self.fleet.close().await;
    }

    /// Exports once, from the request to `done`.
    pub async fn export(&self, choice: &FieldChoice) -> Measured {
        self.fleet.reset_peak(WORKER);
        let raw_before = self.raw_bytes().await;
        let status = self.done(choice).await;
        let time = |name: &str| -> jiff::Timestamp {
            status[name].as_str().and_then(|text| text.parse().ok()).expect("a time")
        };
        let seconds = time("finished_at").duration_since(time("requested_at")).as_secs_f64();
        let measured = Measured {
            name: format!("longshore, {}", choice.name),
            seconds,
            raw_bytes: self.raw_bytes().await - raw_before,
            bytes: status["bytes"].as_u64().expect("bytes"),
            resident: Some(self.fleet.peak(WORKER)),
        };
        self.empty().await;
        measured
    }

    /// Requests an export; returns its status once it is done.
    async fn done(&self, choice: &FieldChoice) -> Value {
        let mut body = json!({ "fields_to_export": choice.fields });
        let path = match &choice.audience {
            None => EXPORT,
            Some(audience) => {
                body["audience"] = audience.clone();
                SEGMENT
            }
        };
        let accepted = self.api.post(path, &body).await;
        let prefix =
            accepted.body["object_prefix"].as_str().unwrap_or_else(|| panic!("{accepted:?}"));
        let status = self.api.done(prefix).await;
        if choice.audience.is_none() {
            assert_eq!(status["users"]["done"], self.users, "{status}");
        }
        status
    }

    /// The check of an export's files, next to `sha256sum` over the same files.
    pub async fn verify(&self, choice: &FieldChoice) -> [Measured; 2] {
        let bytes = self.done(choice).await["bytes"].as_u64().expect("bytes");
        let directory = tempfile::tempdir().expect("a temporary directory");
        for key in self.storage.list().await {
            let path = directory.path().join(&key);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, self.storage.get(&key).await).expect("the file is written");
        }
        self.empty().await;
        let manifest = "$(find . -name '*.manifest.json')";
        let sums = "cd \"$(dirname \"$(find . -name '*.SHA256SUMS')\")\" && \
                    sha256sum --quiet -c ./*.SHA256SUMS";
        let verify = format!("\"$LONGSHORE\" export verify --unsigned \"{manifest}\"");
        let run = |name: &str, line: &str| {
            let began = Instant::now();
            let output = Command::new("bash")
                .args(["-c", &format!("set -euo pipefail; {line}")])
                .env("LONGSHORE", env!("CARGO_BIN_EXE_longshore"))
                .current_dir(directory.path())
                .output()
                .expect("bash runs");
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
            let seconds = began.elapsed().as_secs_f64();
            Measured { name: name.to_owned(), seconds, raw_bytes: bytes, bytes, resident: None }
        };
        // The files are in the page cache for both.
        run("sha256sum", sums);
        [run("sha256sum", sums), run("export verify", &verify)]
    }

    async fn empty(&self) {
        self.storage.destroy().await;
        self.storage.restore().await;
    }

    /// Bytes of lines that the worker has made so far.
    async fn raw_bytes(&self) -> u64 {
        let metrics = self.fleet.metrics(WORKER).await;
        let line = metrics.lines().find(|line| {
            line.starts_with("longshore_export_stage_bytes_total") && line.contains("project")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    /// Lays what an export shows of each user's activity next to the documents as text, since SQL
    /// cannot read it where it is packed: so a join in SQL makes the same records.
    pub async fn keep_records_as_text(&self) {
        let sql = "CREATE TABLE activity_text (slice smallint, service_id uuid, body text,
                       PRIMARY KEY (slice, service_id))";
        sqlx::query(sql).execute(&self.pool).await.expect("a table");
        let fields: Vec<&str> =
            ["service_id", "random_bucket"].into_iter().chain(OF_ACTIVITY).collect();
        let accepted = self.api.export(&json!({ "fields_to_export": fields })).await;
        self.api.done(&accepted.prefix).await;
        for key in self.storage.list_files().await {
            let file = archives::unzip(&self.storage.get(&key).await).remove(0);
            let (mut slices, mut ids, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
            for line in String::from_utf8(file.bytes).expect("UTF-8").lines() {
                let mut user: Map<String, Value> = serde_json::from_str(line).expect("JSON");
                let slice = user.remove("random_bucket").and_then(|bucket| bucket.as_i64());
                slices.push(i16::try_from(slice.expect("a bucket") / 100).expect("a slice"));
                ids.push(user.remove("service_id").expect("an id").as_str().unwrap().to_owned());
                let body = Value::from(user).to_string();
                bodies.push(body[1..body.len() - 1].to_owned());
            }
            let sql = "INSERT INTO activity_text
                       SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::text[])";
            let insert = sqlx::query(AssertSqlSafe(sql)).bind(slices).bind(ids).bind(bodies);
            insert.execute(&self.pool).await.expect("rows");
        }
        self.empty().await;
        // A user's record as the pipes' query has it, for programs that read tables.
        let sql = format!("CREATE VIEW record_lines (line) AS {}", pipes::RECORDS);
        sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("a view");
        settle(&self.pool).await;
    }
}
