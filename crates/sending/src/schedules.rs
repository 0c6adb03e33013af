//! Scheduled sends, stored as rows that are visible as soon as the request has its response. The
//! requests here ([`api`]) create and cancel them; [`messages`] reads their messages.
//!
//! Each schedule has a row of [`claims`] that becomes due at the same time, so that one worker
//! claims it promptly ([`fire`]). A local time occurs at many moments, one after the other
//! ([`waves`]); the row is offered again for each. All workers use the database's clock, and so do
//! gateways when they check whether the time of a new schedule is in the past.

pub mod api;
mod broadcasts;
pub mod change;
mod contents;
mod create;
pub mod fire;
mod order;
pub mod request;
pub mod rows;
mod summary_rows;
pub mod sweep;
mod users;

use serde::Serialize;
use uuid::Uuid;

use kit::clock::{format_time, serialize_optional_time, serialize_time};
use messages::dispatch;
use messages::{Timing, When, waves};
use runtime::audit::Change;
use runtime::kinds;
use store::claims::{self};
use store::{StoreError, Tx, from_row, text_enum};

pub use contents::{Contents, ScheduleSummary};
pub use rows::{New, by_id, list};
pub use summary_rows::{audience, messages_with, missed, summary, unfinished};

text_enum! {
    /// The state of a scheduled send.
    #[derive(clap::ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum State {
        Pending = "pending",
        /// Some of its local times have passed, and others follow. Never stored: a row is sent as
        /// soon as its first time is.
        Sending = "sending",
        /// All of its times have passed, and at least one of them was sent.
        Sent = "sent",
        /// Its time passed while no worker could send it or its campaign was paused or archived, or
        /// there was no message to send.
        Missed = "missed",
        /// Cancelled, and messages in flight are not settled yet. Never stored: a row is cancelled
        /// at once.
        Cancelling = "cancelling",
        /// Cancelled, possibly after sending began.
        Cancelled = "cancelled",
    }
}

/// A scheduled send as stored. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Schedule {
    pub id: Uuid,
    #[serde(skip)]
    pub workspace_id: i32,
    /// The workspace's name.
    pub workspace: String,
    #[serde(serialize_with = "uuid::serde::simple::serialize")]
    pub dispatch_id: Uuid,
    /// None for a schedule of messages without a Canvas.
    pub canvas_id: Option<Uuid>,
    pub state: State,
    pub timing: Timing,
    #[serde(serialize_with = "serialize_time")]
    pub time: i64,
    #[serde(serialize_with = "serialize_time")]
    pub created_at: i64,
    /// When the schedule's time was set.
    #[serde(skip)]
    pub timed_at: i64,
    /// When sending began.
    #[serde(serialize_with = "serialize_optional_time")]
    pub sent_at: Option<i64>,
    /// When the last wave began, or when the schedule was cancelled.
    #[serde(serialize_with = "serialize_optional_time")]
    pub ended_at: Option<i64>,
    /// Moments of a local time up to this one are processed.
    #[serde(serialize_with = "serialize_optional_time")]
    pub reached_at: Option<i64>,
    /// Of the processed moments, those up to this one were missed.
    #[serde(serialize_with = "serialize_optional_time")]
    pub missed_at: Option<i64>,
    /// Why it was missed.
    pub error: Option<String>,
    pub request_id: String,
    /// The users and their data: a JSON object, from which users are removed when the schedule ends
    /// (`users`). Empty in a [`ScheduleSummary`].
    #[serde(serialize_with = "serialize_json")]
    pub request: String,
}
from_row! {
    Schedule {
        id, workspace_id, workspace, dispatch_id, canvas_id, state, timing, time, created_at,
        timed_at, sent_at, ended_at, reached_at, missed_at, error, request_id, request,
    }
}

impl Schedule {
    pub fn when(&self) -> When {
        When { timing: self.timing, time: self.time }
    }

    /// The next moment of a schedule that has not ended.
    pub fn next_at(&self) -> Option<i64> {
        let is_left = |moment: &i64| self.reached_at.is_none_or(|reached| *moment > reached);
        let left = waves::moments(self.when()).into_iter().find(is_left);
        left.filter(|_| self.ended_at.is_none())
    }

    /// The last moment of its time: when the last users are due.
    pub fn last_at(&self) -> Option<i64> {
        waves::moments(self.when()).last().copied()
    }

    /// The number of moments of the schedule's time, and how many of them are processed.
    pub fn moments(&self) -> (usize, usize) {
        let moments = waves::moments(self.when());
        let is_reached = |moment: &&i64| self.reached_at.is_some_and(|reached| **moment <= reached);
        (moments.len(), moments.iter().filter(is_reached).count())
    }
}

/// A position in an ordered list of schedules: a time, in milliseconds since the epoch, and an id.
pub type Position = (i64, Uuid);

/// Selects the schedules of a list.
#[derive(Clone, Debug)]
pub struct Filter {
    pub state: Option<State>,
    /// A workspace's name.
    pub workspace: Option<String>,
    /// Only those after this one, in the order of the list.
    pub after: Option<Uuid>,
    pub limit: u32,
}

impl New {
    /// What the audit log has about a new schedule.
    fn change(&self) -> Change {
        let details = serde_json::json!({
            "dispatch_id": self.dispatch_id.simple().to_string(),
            "canvas_id": self.canvas_id,
            "timing": self.when.timing.name(),
            "time": format_time(self.when.time),
        });
        Change::new("schedule.create", self.id.to_string(), details)
    }
}

/// Writes a schedule, with the claim that fires it at its time.
pub async fn insert(tx: &mut Tx, new: &New) -> Result<(), StoreError> {
    let (job, item) = (job(new.workspace_id), kinds::item_of(new.id));
    rows::insert(tx, new, item).await?;
    let offered = claims::Job::new(new.workspace_id, job);
    claims::offer_at(tx, kinds::SCHEDULE, offered, item, new.when.earliest()).await
}

/// A schedule that was to be cancelled.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// As it was before.
    pub schedule: Schedule,
    /// Its state now.
    pub state: State,
}

impl Cancellation {
    /// What the audit log has about it; none if it changed nothing.
    pub fn change(&self) -> Option<Change> {
        let (before, after) = (self.schedule.state.name(), self.state.name());
        Change::from_states("schedule.cancel", self.schedule.id.to_string(), before, after)
    }
}

/// Cancels a schedule. A pending one is not sent; of a started one, messages in flight are still
/// sent, and no others. None for an unknown schedule.
pub async fn cancel(tx: &mut Tx, id: Uuid, now: i64) -> Result<Option<Cancellation>, StoreError> {
    let Some(schedule) = rows::lock(tx, id).await? else { return Ok(None) };
    let is_open = match schedule.state {
        State::Pending => true,
        State::Sending | State::Sent => {
            let under_way = dispatch::cancel(tx, schedule.dispatch_id).await?;
            under_way.is_some() || schedule.ended_at.is_none()
        }
        State::Missed | State::Cancelling | State::Cancelled => false,
    };
    if !is_open {
        return Ok(Some(Cancellation { state: schedule.state, schedule }));
    }
    rows::cancel(tx, id, users::without_users(&schedule).as_deref(), now).await?;
    let job = job(schedule.workspace_id);
    claims::withdraw_one(tx, kinds::SCHEDULE, job, kinds::item_of(id)).await?;
    let state = rows::by_id(tx, id).await?.map(|schedule| schedule.state);
    Ok(state.map(|state| Cancellation { schedule, state }))
}

/// Changes the time of a locked schedule of which nothing is sent. The new time was set at
/// `timed_at`.
pub(crate) async fn move_to(
    tx: &mut Tx,
    schedule: &Schedule,
    when: When,
    timed_at: i64,
) -> Result<(), StoreError> {
    rows::reschedule(tx, schedule, when, timed_at).await?;
    let (job, item) = (job(schedule.workspace_id), kinds::item_of(schedule.id));
    claims::withdraw_one(tx, kinds::SCHEDULE, job, item).await?;
    let offered = claims::Job::new(schedule.workspace_id, job);
    claims::offer_at(tx, kinds::SCHEDULE, offered, item, when.earliest()).await
}

/// The job of schedules' claims: one per workspace, so that workspaces take turns.
fn job(workspace: i32) -> Uuid {
    Uuid::from_u64_pair(0, workspace.unsigned_abs().into())
}

fn serialize_json<S: serde::Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
    value.serialize(serializer)
}
