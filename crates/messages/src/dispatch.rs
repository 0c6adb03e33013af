//! Sends an order to its users in parts, each message once.
//!
//! ```text
//! order ──begin──> planning ──plan──> running ──last part──> done
//!                      └──────────────────┴────> failed │ cancelled
//! ```
//!
//! A dispatch that is cancelled is shown as cancelling until its workers have settled the messages
//! in flight: each worker checks before each message that the dispatch is running (`guard`). It also
//! checks that the user still wants the message (`waiting_users`).
//!
//! An order becomes a dispatch ([`begin`]). Listed users are one part; other users are split into
//! parts, once (`plan`). The fleet works on parts in parallel, each in batches (`part`). Each
//! message is a row of `messages`, written in the transaction that advances the part (`batch`).
//! Then it is rendered and sent (`send`), and its outcome is stored (`settle`). A row that was
//! written but not settled is sent again with the same [`MessageId`](super::MessageId) by the next
//! worker of the part. A message that was not accepted is retried until it is accepted or
//! `messages.retry_hours` are over; the part waits for it.
//!
//! Frequency capping (`capping`) applies only to messages of campaigns and Canvases, and counts
//! only those. A send without a `campaign_id` has no statistics and does not count for capping,
//! because `override_frequency_capping` concerns only campaigns.
//!
//! | file | is about |
//! |---|---|
//! | `intake`, `plan`, `part` | the three kinds of work: orders of the log, plans, parts |
//! | `job`, `batch`, `named`, `past`, `left_out`, `capping` | which users of a part get which messages |
//! | `send`, `starts`, `guard`, `waiting_users`, `settle`, `failure_log` | the attempts at messages, and their outcomes |
//! | `kept` | what a dispatch keeps of the workspace file from its beginning |
//! | `explain` | why a user got no message |
//! | `ending`, `report`, `bounces`, [`sweep`] | the end of a dispatch, later reports about its messages, bounces, its deletion |
//! | `rows`, `part_rows`, `message_rows`, `uncertain_rows` | the SQL of dispatches, parts and messages; of messages that may have been sent |
//! | `past_rows`, `report_rows`, `console_rows`, `kept_rows` | the SQL of recipients of earlier dispatches, of reports and statistics, of the developer console, of kept content blocks |
//! | [`state`], `error`, `telemetry` | states and counts, errors, metrics |
//!
//! Start with [`begin`], then `part`.

mod batch;
mod bounces;
mod capping;
mod console_rows;
mod ending;
mod error;
mod explain;
mod failure_log;
mod guard;
mod intake;
mod job;
mod kept;
mod kept_rows;
mod left_out;
mod message_rows;
mod named;
mod part;
mod part_rows;
mod past;
mod past_rows;
mod plan;
mod recipient;
mod report;
mod report_rows;
mod rows;
mod send;
mod settle;
mod starts;
pub mod state;
pub mod sweep;
pub(crate) mod telemetry;
mod uncertain_rows;
mod waiting_users;

use std::time::Duration;

use rand::RngExt as _;
use uuid::Uuid;

use self::failure_log::FailureLog;
use self::kept::Kept;
use super::order::{Order, Wave};
use crate::app::App;
use runtime::fairness::{SLOT_BYTES, SharedMemory};
use runtime::kinds;
use store::claims::{self, Job};
use store::{StoreError, Tx};

pub use crate::message_outcome::{MessageOutcome, OutcomeFilter};
pub use ending::cancel;
pub use error::DispatchError;
pub use explain::{Explanation, Unsent, WhyNot, explain, explain_unsent};
pub use intake::OrderHandler;
pub use kept::included_blocks;
pub use kept_rows::{RunningDispatch, messages_of, running};
pub use left_out::LeftOut;
pub use message_rows::erase_user;
pub use part::{give_up as give_up_part, run as run_part};
pub use part_rows::{SUMMED_COUNTS, count_in_flight, wait_for_batches};
pub use past_rows::{count_users as count_recipients, order_field, outcome_condition};
pub use plan::{give_up as give_up_plan, plan};
pub use report::{Report, store_reports};
pub use report_rows::{Receipt, add_statistics, email_address, receipts, sent_at};
pub use rows::shown_state;
pub use state::State;
pub use uncertain_rows::MAY_HAVE_BEEN_SENT;

/// Limits that all dispatches of a process share.
pub struct Engine {
    pub app: App,
    /// Permits to send messages: to users of parts, and to listed users. A workspace gets at most
    /// as many as it leaves free, so that its slow receivers do not stop the others' messages.
    parts: SharedMemory,
    named: SharedMemory,
    failure_log: FailureLog,
}

impl Engine {
    pub fn new(app: &App) -> Self {
        let permits = || SharedMemory::halves(2 * app.config.messages.sends_in_flight * SLOT_BYTES);
        Self {
            app: app.clone(),
            parts: permits(),
            named: permits(),
            failure_log: FailureLog::default(),
        }
    }
}

/// Turns an order into a dispatch, in the caller's transaction. Repeats have no effect.
pub async fn begin(tx: &mut Tx, order: &Order) -> Result<(), StoreError> {
    let kept = Kept::begin(tx, order).await?;
    begin_with(tx, order, &kept).await
}

/// The same with what the dispatch keeps.
async fn begin_with(tx: &mut Tx, order: &Order, kept: &Kept) -> Result<(), StoreError> {
    if rows::insert(tx, order, Some(kept), true).await? {
        add(tx, order, None).await?;
    }
    Ok(())
}

/// Turns an order into a dispatch that has failed for this reason. Repeats have no effect.
async fn refuse(tx: &mut Tx, order: &Order, reason: &str) -> Result<(), StoreError> {
    if rows::insert(tx, order, None, true).await? {
        // The part records that the send is for listed users. Ending it withdraws its claim.
        add(tx, order, None).await?;
        ending::end_early(tx, order.dispatch_id, State::Failed, Some(reason)).await?;
    }
    Ok(())
}

/// Adds a wave to a dispatch; the first wave starts the dispatch. Repeats have no effect. A
/// dispatch that has ended or was cancelled does not change.
pub async fn add_wave(
    tx: &mut Tx,
    dispatch_id: Uuid,
    order: &Order,
    wave: Wave,
) -> Result<(), StoreError> {
    debug_assert_eq!(dispatch_id, order.dispatch_id);
    if !rows::exists(tx, dispatch_id).await? {
        let kept = Kept::begin(tx, order).await?;
        rows::insert(tx, order, Some(&kept), false).await?;
    }
    if !rows::lock_open(tx, dispatch_id).await? {
        return Ok(());
    }
    let sent_before_ms = rows::last_wave_at(tx, dispatch_id).await?;
    let wave = Wave { sent_before_ms, ..wave };
    if rows::insert_wave(tx, dispatch_id, Some(&wave)).await? {
        add(tx, order, Some(&wave)).await?;
    }
    if wave.is_last {
        rows::mark_waves_complete(tx, dispatch_id).await?;
        // If the wave existed already, the dispatch may be complete.
        ending::finish(tx, dispatch_id).await?;
    }
    Ok(())
}

/// Marks the last wave: the dispatch ends when its present waves end.
pub async fn end_waves(tx: &mut Tx, dispatch_id: Uuid) -> Result<(), StoreError> {
    if rows::lock_open(tx, dispatch_id).await? {
        rows::mark_waves_complete(tx, dispatch_id).await?;
        ending::finish(tx, dispatch_id).await?;
    }
    Ok(())
}

/// Offers the work of a wave to the workers.
async fn add(tx: &mut Tx, order: &Order, wave: Option<&Wave>) -> Result<(), StoreError> {
    let id = order.dispatch_id;
    if order.target.users.is_empty() {
        if wave.is_none() {
            rows::insert_wave(tx, id, None).await?;
        }
        rows::add_plan(tx, id).await?;
        let (job, item) = (Job::new(order.workspace_id, id), rows::wave_number(wave));
        return claims::offer(tx, kinds::DISPATCH_PLAN, job, item, Duration::ZERO).await;
    }
    let users = order.target.users.len() as i64;
    let part = rows::add_named(tx, id, users).await?;
    let job = kinds::job_of_workspace(order.workspace_id);
    let item = rand::rng().random_range(0..i64::MAX);
    part_rows::insert_named(tx, id, part, wave, &order.target.users, (job, item)).await?;
    let job = Job::new(order.workspace_id, job);
    claims::offer(tx, kinds::DISPATCH_NAMED, job, item, Duration::ZERO).await
}
