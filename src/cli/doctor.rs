//! `longshore doctor`.

mod channels;

use std::fmt::Display;
use std::future::Future;
use std::io::ErrorKind;
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;

use super::CommandResult;
use super::table::{self, Cell, state, text};
use crate::config::Config;
use crate::setup::fixed::{self, FixedError};
use crate::setup::migrations::MIGRATIONS;
use crate::workspaces::{self, StorageError, storage};
use console_frame::oidc::provider::Provider;
use kit::clock::Clock;
use kit::private;
use kit::secrets::SecretKey;
use objects::{ObjectError, Objects, probe};
use store::{StoreError, inspect};

/// Time limit of a server.
const TIMEOUT: Duration = Duration::from_secs(5);

const IDENTITY_PROVIDER: &str = "identity provider";

/// How to fix a server that does not respond.
const FIX_SILENT: &str = "check the address and the firewall";

#[derive(clap::Args)]
#[command(
    after_help = "The checks run in parallel, each for at most 5 seconds. The exit status is 1 if a check fails.
No message is sent: the check of a workspace's relay only logs in, and the checks of providers and postback URLs only send an unsigned HEAD request.

Example:
  $ longshore doctor
  STATE  CHECK           RESULT
  ok     data directory  ./longshore-data is writable
  ok     database        SQLite, at this version (schema 2)
  ok     log             embedded, all topics are configured correctly
  FAIL   objects         s3://acme: the bucket acme does not exist — see LONGSHORE_OBJECTS_URL"
)]
pub struct Arguments {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    ok: bool,
    /// The checked part.
    #[serde(rename = "what")]
    subject: String,
    /// Its state, or its error.
    text: String,
    /// How to fix it.
    fix: Option<String>,
}

impl Finding {
    fn ok(subject: &str, text: impl Display) -> Self {
        Self { ok: true, subject: subject.into(), text: text.to_string(), fix: None }
    }

    fn fail(subject: &str, text: impl Display, fix: impl Display) -> Self {
        Self {
            ok: false,
            subject: subject.into(),
            text: text.to_string(),
            fix: Some(fix.to_string()).filter(|fix| !fix.is_empty()),
        }
    }

    fn row(&self) -> [Cell; 3] {
        let fix = self.fix.as_ref().map(|fix| format!(" — {fix}")).unwrap_or_default();
        let sign = if self.ok { "ok" } else { "FAIL" };
        [state(sign), text(&self.subject), text(format!("{}{fix}", self.text))]
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    if let Some(missing) = config.missing_installation() {
        print(arguments.json, &[Finding::fail("data directory", missing, "")])?;
        return Err("doctor: no usable installation, so the other checks did not run".into());
    }
    let mut findings = Vec::new();
    if keeps_data(&config) {
        findings.push(data_directory(&config));
    }
    let has_secret_key = match config.secret_key() {
        Ok(secrets) => {
            findings.extend(servers(config, secrets).await);
            true
        }
        Err(error) => {
            findings.push(Finding::fail("secret key", error, ""));
            false
        }
    };
    let findings = each_cause_once(findings);
    print(arguments.json, &findings)?;
    match findings.iter().filter(|finding| !finding.ok).count() {
        _ if !has_secret_key => Err("doctor: no secret key found, so the other checks did not \
                               run"
        .into()),
        0 => Ok(()),
        1 => Err("one check failed".into()),
        failed => Err(format!("{failed} checks failed").into()),
    }
}

fn print(is_json: bool, findings: &[Finding]) -> CommandResult {
    table::print(is_json, "checks", ["STATE", "CHECK", "RESULT"], findings, Finding::row)
}

/// The findings of all servers, checked at the same time.
async fn servers(config: Config, secrets: SecretKey) -> Vec<Finding> {
    let (database, log, objects, provider, workspaces) = tokio::join!(
        bounded("database", database(config.clone(), secrets.clone())),
        bounded("log", log(config.clone())),
        bounded("objects", objects(config.clone(), secrets.clone())),
        bounded(IDENTITY_PROVIDER, identity_provider(config.clone())),
        // The targets are in the database, and each server has its own time limit.
        async {
            tokio::join!(own_storage(&config, &secrets), channels::channels(&config, &secrets))
        },
    );
    let is_readable = database.iter().all(|finding| finding.ok);
    let (storages, channels) = workspaces;
    // The database's error is the cause.
    let readable = |findings: Result<Vec<Finding>, Finding>| match findings {
        Err(_) if !is_readable => Vec::new(),
        findings => findings.unwrap_or_else(|unreadable| vec![unreadable]),
    };
    [database, log, objects, provider, readable(storages), readable(channels)].concat()
}

/// Groups findings with the same cause: several checks fail when one server is down.
fn each_cause_once(findings: Vec<Finding>) -> Vec<Finding> {
    let mut causes: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = causes.iter_mut().find(|cause| {
            !finding.ok && !cause.ok && cause.text == finding.text && cause.fix == finding.fix
        });
        match same {
            Some(cause) if cause.subject.split(", ").any(|subject| subject == finding.subject) => {}
            Some(cause) => cause.subject = format!("{}, {}", cause.subject, finding.subject),
            None => causes.push(finding),
        }
    }
    causes
}

/// Runs a check in its own task, so that a check that takes too long is abandoned and not
/// interrupted.
async fn bounded(
    subject: &str,
    check: impl Future<Output = Vec<Finding>> + Send + 'static,
) -> Vec<Finding> {
    match tokio::time::timeout(TIMEOUT, tokio::spawn(check)).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => {
            vec![Finding::fail(subject, format!("the check itself failed: {error}"), "")]
        }
        Err(_) => vec![silent(subject)],
    }
}

fn silent(subject: &str) -> Finding {
    let text = format!("no response within {} s", TIMEOUT.as_secs());
    Finding::fail(subject, text, FIX_SILENT)
}

/// Reads workspaces' declarations, in its own task.
async fn declared<T: Send + 'static>(
    read: impl Future<Output = Result<T, StorageError>> + Send + 'static,
) -> Result<T, StorageError> {
    let silent = || StorageError::from(StoreError::Timeout);
    match tokio::time::timeout(TIMEOUT, tokio::spawn(read)).await {
        Ok(Ok(declared)) => declared,
        Ok(Err(_)) | Err(_) => Err(silent()),
    }
}

/// Whether the data directory holds any data: in a fleet it holds none, and may be read-only.
fn keeps_data(config: &Config) -> bool {
    config.database.url.is_none()
        || config.objects.url.is_none()
        || config.secret_key.is_none()
        || config.log.url == "embedded"
}

fn data_directory(config: &Config) -> Finding {
    let directory = config.data.display();
    let trial = config.data.join(format!(".doctor.{}", std::process::id()));
    let written = private::directory(&config.data)
        .and_then(|()| std::fs::write(&trial, b"Written by `longshore doctor`.\n"))
        .and_then(|()| std::fs::remove_file(&trial));
    match written {
        Ok(()) => Finding::ok("data directory", format!("{directory} is writable")),
        Err(error) => {
            let fix = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space on its disk",
                _ => "allow this user to write to it, or set LONGSHORE_DATA",
            };
            Finding::fail("data directory", format!("{directory}: {error}"), fix)
        }
    }
}

async fn database(config: Config, secrets: SecretKey) -> Vec<Finding> {
    const SUBJECT: &str = "database";
    const FIX: &str = "start it, create the missing database or role, or set \
                        LONGSHORE_DATABASE_URL";
    let (name, problems) = match inspect::inspect_server(&config.database_url()).await {
        Ok(Some(server)) => {
            let now = jiff::Timestamp::now().as_millisecond();
            let (major, minor) = (server.version / 10_000, server.version % 10_000);
            (format!("PostgreSQL {major}.{minor}"), server.problems(now))
        }
        Ok(None) => ("SQLite".to_owned(), Vec::new()),
        Err(error) => {
            // A transaction pooler changes the connection between transactions.
            let is_pooled = error.to_string().contains("prepared statement");
            let fix = if is_pooled {
                "use the pooler in session mode, or connect to PostgreSQL directly"
            } else {
                FIX
            };
            return vec![Finding::fail(SUBJECT, error, fix)];
        }
    };
    let mut findings: Vec<Finding> =
        problems.into_iter().map(|problem| Finding::fail(SUBJECT, problem, "")).collect();
    match at_this_version(&config, &secrets).await {
        Err(error) => findings.push(Finding::fail(SUBJECT, &error, fix_file(&error, ""))),
        Ok(state) if findings.is_empty() => {
            findings.push(Finding::ok(SUBJECT, format!("{name}, {state}")));
        }
        Ok(_) => {}
    }
    findings
}

/// How to fix a damaged SQLite file; for any other error, `other`.
fn fix_file(error: &impl Display, other: &'static str) -> &'static str {
    // SQLite's texts of SQLITE_NOTADB and SQLITE_CORRUPT.
    let texts = ["file is not a database", "database disk image is malformed"];
    let error = error.to_string();
    if texts.iter().any(|text| error.contains(text)) {
        "the file is damaged: follow the runbook \"Restore a backup\" \
         (docs/runbooks/restore-backup.md)"
    } else {
        other
    }
}

/// These errors already say what to run or to set.
async fn at_this_version(config: &Config, secrets: &SecretKey) -> Result<String, FixedError> {
    let store = crate::app::connect(config).await?;
    if MIGRATIONS.is_new_directory(&store).await? {
        return Ok("new: the next command sets it up".into());
    }
    let schema = MIGRATIONS.check(&store).await?;
    let mut tx = store.snapshot().await?;
    fixed::check_partitions(&mut tx, config.log.partitions).await?;
    fixed::check_secret_key(&mut tx, secrets).await?;
    tx.commit().await?;
    let mut state = schema.to_string();
    if let Err(error) = store.wake().check_notifications().await {
        let why = match error {
            StoreError::Pooled => error.to_string(),
            _ => format!("notifications do not arrive ({error})"),
        };
        let poll = config.worker.poll_ms;
        state += &format!("; {why}: idle workers poll every {poll} ms");
    }
    store.close().await;
    Ok(state)
}

async fn log(config: Config) -> Vec<Finding> {
    const SUBJECT: &str = "log";
    const FIX: &str = "start it, or set LONGSHORE_LOG_URL";
    let log = match crate::app::open_log(&config).await {
        Ok(log) => log,
        Err(error) => return vec![Finding::fail(SUBJECT, &error, fix_file(&error, FIX))],
    };
    let findings = match log.check(stored_partitions(&config).await).await {
        Ok(problems) if problems.is_empty() => {
            let kind = if config.log.url == "embedded" { "embedded" } else { "Kafka" };
            vec![Finding::ok(SUBJECT, format!("{kind}, all topics are configured correctly"))]
        }
        Ok(problems) => {
            problems.into_iter().map(|problem| Finding::fail(SUBJECT, problem, "")).collect()
        }
        Err(error) => vec![Finding::fail(SUBJECT, &error, fix_file(&error, FIX))],
    };
    log.close().await;
    findings
}

/// The number of partitions that the installation must keep, if the database has it.
async fn stored_partitions(config: &Config) -> Option<u32> {
    let store = crate::app::connect(config).await.ok()?;
    let stored = match store.snapshot().await {
        Ok(mut tx) => fixed::stored_partitions(&mut tx).await.ok().flatten(),
        Err(_) => None,
    };
    store.close().await;
    stored
}

async fn objects(config: Config, secrets: SecretKey) -> Vec<Finding> {
    const SUBJECT: &str = "objects";
    let tried = async {
        let objects = Objects::open(&config.objects_url(), &secrets).await?;
        probe::build_storage(&objects).await?;
        Ok::<_, ObjectError>(objects)
    };
    vec![match tried.await {
        Ok(objects) => Finding::ok(SUBJECT, format!("{objects} is usable")),
        Err(error) => Finding::fail(SUBJECT, error, "see LONGSHORE_OBJECTS_URL"),
    }]
}

/// The identity provider of the console, if there is one: what a sign-in reads before it trusts a
/// token.
async fn identity_provider(config: Config) -> Vec<Finding> {
    let Some(provider) = Provider::from_config(&config) else { return Vec::new() };
    let issuer = &provider.client.issuer;
    vec![match provider.check(&Clock::system()).await {
        Ok(()) => Finding::ok(IDENTITY_PROVIDER, format!("{issuer} is usable")),
        Err(refusal) => {
            let fix = "see console.oidc.issuer (LONGSHORE_CONSOLE_OIDC_ISSUER)";
            Finding::fail(IDENTITY_PROVIDER, format!("{issuer}: {}", refusal.cause()), fix)
        }
    }]
}

/// The own storage of each workspace. Fails if the database cannot list it.
async fn own_storage(config: &Config, secrets: &SecretKey) -> Result<Vec<Finding>, Finding> {
    let all = match declared(storages(config.clone(), secrets.clone())).await {
        Ok(all) => all,
        Err(StorageError::Store(error)) => return Err(Finding::fail("workspaces", error, "")),
        Err(error) => return Ok(vec![Finding::fail("workspaces", error, "")]),
    };
    let tried = all.into_iter().map(|(subject, settings)| async move {
        let check = try_storage(subject.clone(), settings);
        bounded(&subject, async move { vec![check.await] }).await
    });
    Ok(join_all(tried).await.concat())
}

/// All storages, with the subjects of their findings.
async fn storages(
    config: Config,
    secrets: SecretKey,
) -> Result<Vec<(String, storage::Settings)>, StorageError> {
    let store = crate::app::connect(&config).await?;
    let mut all = Vec::new();
    if !MIGRATIONS.is_new_directory(&store).await? {
        let mut tx = store.snapshot().await?;
        for workspace in workspaces::list(&mut tx).await? {
            for id in [workspace.s3_storage, workspace.azure_storage].into_iter().flatten() {
                let settings = storage::settings(&mut tx, &secrets, id).await?;
                all.push((format!("storage.{} of {}", settings.kind(), workspace.name), settings));
            }
            for named in storage::named(&mut tx, &secrets, workspace.id).await? {
                let subject = format!("storages.{} of {}", named.name, workspace.name);
                all.push((subject, named.settings));
            }
        }
        tx.commit().await?;
    }
    store.close().await;
    Ok(all)
}

async fn try_storage(subject: String, settings: storage::Settings) -> Finding {
    let tried = async { probe::own_storage(&settings.connect().await?).await };
    match tried.await {
        Ok(limits) => {
            let written = format!("{} is writable", settings.location());
            let limits = limits.iter().map(ToString::to_string);
            let texts: Vec<String> = std::iter::once(written).chain(limits).collect();
            Finding::ok(&subject, texts.join("; "))
        }
        Err(error) => {
            Finding::fail(&subject, error, "fix it in the workspace file, and apply the file")
        }
    }
}
