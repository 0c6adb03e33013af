//! The audit log: who changed what, when and from where (docs/how-to/audit-log.md).
//!
//! An entry is written in the transaction of its change, where the change has one: both exist, or
//! neither. It never has a secret, nor data of a user: users are named by their `service_id`, which
//! refers to nothing once they are erased.

use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::App;
use crate::audit_rows::{self as rows, OLD};
use kit::clock::serialize_time;
use store::{StoreError, Tx};

/// How long entries are kept.
pub const KEEP_DAYS: i64 = 365;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A change, and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// None for the whole installation.
    pub workspace_id: Option<i32>,
    /// `key:NAME`, `scim:NAME`, `command:USER`, `console:NAME` or `dashboard:NAME`.
    pub actor: String,
    /// What was done, such as `export.cancel`.
    pub action: &'static str,
    /// The name or id of what was changed.
    pub object: String,
    /// The client's address; the host for commands.
    pub address: Option<String>,
    /// A JSON object: the state `before` and `after`, where there are both.
    pub details: Value,
}

impl Entry {
    /// A change by a command: its actor is the person who runs this process, and its address the
    /// host, as the operating system reports them.
    pub fn from_command(
        workspace_id: Option<i32>,
        action: &'static str,
        object: impl Into<String>,
        details: Value,
    ) -> Self {
        let actor = command_actor();
        Self { workspace_id, actor, action, object: object.into(), address: host(), details }
    }
}

/// A change, without who made it: the domain of the object assembles it once, for requests, pages
/// and commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What was done, such as `export.cancel`.
    pub action: &'static str,
    /// The name or id of what was changed.
    pub object: String,
    /// A JSON object.
    pub details: Value,
}

impl Change {
    /// `details` is a JSON object.
    pub fn new(action: &'static str, object: impl Into<String>, details: Value) -> Self {
        Self { action, object: object.into(), details }
    }

    /// A change of the state of an object; none if the state is the same. The state `before` must
    /// have been read from a locked row.
    pub fn from_states(
        action: &'static str,
        object: impl Into<String>,
        before: &'static str,
        after: &'static str,
    ) -> Option<Self> {
        let details = json!({ "before": before, "after": after });
        (before != after).then(|| Self::new(action, object, details))
    }
}

/// The actor of changes by this process as a command.
pub fn command_actor() -> String {
    format!("command:{}", operator())
}

/// The name of the person, also behind sudo; in a container without names, the number of the user.
pub fn operator() -> String {
    let mut names = ["SUDO_USER", "LOGNAME", "USER"].into_iter().filter_map(|name| {
        std::env::var(name).ok().filter(|user| !user.is_empty() && !user.contains(char::is_control))
    });
    names.next().or_else(process_user).unwrap_or_else(|| "unknown".to_owned())
}

/// The name of the user of this process, or its number.
fn process_user() -> Option<String> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&uid)).then(|| name.to_owned())
    });
    Some(name.unwrap_or(uid))
}

/// The name of this machine, or of this pod.
pub(crate) fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A stored [`Entry`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    pub id: Uuid,
    /// In milliseconds since the epoch; ISO 8601 in JSON.
    #[serde(serialize_with = "serialize_time")]
    pub at: i64,
    /// None for the whole installation, and after the workspace's removal.
    pub workspace: Option<String>,
    pub actor: String,
    pub action: String,
    pub object: String,
    pub address: Option<String>,
    pub details: Value,
}

/// The time and the id of an entry: its position in the log.
pub type Position = (i64, Uuid);

/// Which entries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// None for all of them, and those of the whole installation.
    pub workspace_id: Option<i32>,
    pub actor: Option<String>,
    /// The beginning of the action: `export.` for all changes of exports.
    pub action: Option<String>,
    /// Not older than this, in milliseconds since the epoch.
    pub since: Option<i64>,
    /// Only entries older than this one, the last of the previous page.
    pub before: Option<Position>,
    pub limit: i64,
}

/// Writes an entry, with the change if `tx` is its transaction.
pub async fn record(tx: &mut Tx, now: i64, entry: &Entry) -> Result<(), StoreError> {
    rows::insert(tx, Uuid::now_v7(), now, entry).await
}

/// Records a change by a command ([`Entry::from_command`]), in its transaction.
pub async fn record_command(
    tx: &mut Tx,
    now: i64,
    workspace_id: Option<i32>,
    (action, object): (&'static str, impl Into<String>),
    details: Value,
) -> Result<(), StoreError> {
    record(tx, now, &Entry::from_command(workspace_id, action, object, details)).await
}

/// The latest entries that match, the latest first.
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Record>, StoreError> {
    rows::list(tx, filter).await
}

/// The position of the entry with an id.
pub async fn position(tx: &mut Tx, id: Uuid) -> Result<Option<Position>, StoreError> {
    rows::position(tx, id).await
}

/// Deletes the entries that are older than [`KEEP_DAYS`].
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let now = app.database_now(&mut app.store.snapshot().await?).await?;
    OLD.delete(&app.store, &[now - KEEP_DAYS * DAY_MS], stop).await
}
