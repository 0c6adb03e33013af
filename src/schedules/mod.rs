//! Sends that wait for their time: rows, readable the moment their call is answered. A Canvas's
//! are made and cancelled by the calls here ([`api`]). Nothing here sends anything.

pub mod api;
pub(crate) mod openapi;
pub(crate) mod request;
pub(crate) mod rows;
mod when;

use serde::Serialize;
use uuid::Uuid;

use crate::clock::serialize_time;
use crate::store::{StoreError, Tx};

pub use rows::{by_id, list};
pub use when::{Timing, When};

/// How far a scheduled send has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum State {
    Pending,
    /// Begun at least: it cannot be cancelled any more.
    Sent,
    Cancelled,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A scheduled send as stored. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize, sqlx::FromRow)]
pub struct Schedule {
    pub id: Uuid,
    #[serde(skip)]
    pub workspace_id: i32,
    /// The workspace's name.
    pub workspace: String,
    #[serde(serialize_with = "serialize_dispatch_id")]
    pub dispatch_id: Uuid,
    /// None of a message's own.
    pub canvas_id: Option<Uuid>,
    pub state: State,
    pub timing: Timing,
    #[serde(serialize_with = "serialize_time")]
    pub time: i64,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    /// When it was sent or cancelled.
    #[serde(serialize_with = "serialize_ended")]
    pub ended_at: Option<i64>,
    pub request_id: String,
    /// To whom, and with what: a JSON object.
    #[serde(serialize_with = "serialize_json")]
    pub request: String,
}

/// Which schedules to list, and how many at most.
#[derive(Clone, Debug)]
pub struct Filter {
    pub state: Option<State>,
    /// A workspace's name.
    pub workspace: Option<String>,
    pub limit: u32,
}

/// Cancels what is still pending; answers the state from then on, none where there is no such
/// schedule.
pub async fn cancel(tx: &mut Tx, id: Uuid, now: i64) -> Result<Option<State>, StoreError> {
    if rows::cancel(tx, id, now).await? {
        return Ok(Some(State::Cancelled));
    }
    Ok(by_id(tx, id).await?.map(|schedule| schedule.state))
}

/// A dispatch's id as answers have it: 32 hexadecimal digits.
fn serialize_dispatch_id<S: serde::Serializer>(
    id: &Uuid,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&id.simple())
}

fn serialize_ended<S: serde::Serializer>(
    ms: &Option<i64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => serialize_time(ms, serializer),
        None => serializer.serialize_none(),
    }
}

fn serialize_json<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}
