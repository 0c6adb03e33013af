//! Fires scheduled sends when they are due.
//!
//! A schedule is fired in one transaction: it updates the schedule's row, starts its dispatch, and
//! finishes its claim or offers it again for the next wave. So it is fired once, whatever fails and
//! however many workers poll for it. A schedule that no worker could fire in time is still sent if
//! it is less than `messages.late_minutes` late; otherwise it is missed, and reported. A time at
//! which its campaign is paused, archived or removed is missed, too.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::rows::{self, Fired};
use super::{Schedule, State, order, users};
use crate::app::App;
use content::campaigns;
use kit::clock::{format_time, hours, millis};
use kit::retry::{self, Retry};
use messages::Timing;
use messages::dispatch;
use messages::order::Order;
use messages::waves::{self, Progress, Step};
use runtime::traces;
use store::claims::{self, Claim, ClaimError};
use store::{StoreError, Tx};

/// Interval between queries for missed schedules, and how long they are reported.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
const MISSED_REPORT_PERIOD: Duration = hours(24);

/// The reason for a missed moment of an active campaign.
const LATE: &str = "its time passed while no worker could send it";

/// Why a schedule could not be fired.
#[derive(Debug, thiserror::Error)]
pub enum FireError {
    #[error("the Canvas declares no messages")]
    NoMessages,
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for FireError {
    fn can_retry(&self) -> bool {
        match self {
            Self::NoMessages => false,
            Self::Claim(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::NoMessages => false,
            Self::Claim(error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
        }
    }
}

/// The outcome of a schedule, for metrics and logs after the commit.
struct FireOutcome {
    id: Uuid,
    /// When the sent moment was due, if a moment was sent.
    begun: Option<i64>,
    is_first: bool,
    now: i64,
    /// Number of moments that were missed, and why.
    missed: u64,
    reason: String,
    /// Whether nothing of the schedule was or will be sent.
    is_missed: bool,
    request_id: String,
}

/// Fires the due moments of a claim's schedule.
pub async fn fire(app: &App, claim: &Claim) -> Result<(), FireError> {
    let mut tx = app.store.write().await?;
    let outcome = fire_in(app, &mut tx, claim).await?;
    tx.commit().await?;
    if let Some(outcome) = outcome {
        let is_missed = outcome.is_missed;
        outcome.emit();
        if is_missed {
            log_missed(app).await;
        }
    }
    Ok(())
}

async fn fire_in(app: &App, tx: &mut Tx, claim: &Claim) -> Result<Option<FireOutcome>, FireError> {
    let Some(mut schedule) = find(tx, claim).await? else {
        claims::finish(tx, claim).await?;
        return Ok(None);
    };
    if schedule.ended_at.is_some() {
        // The Canvas was removed before its last wave.
        if matches!(schedule.state, State::Cancelling | State::Cancelled)
            && schedule.sent_at.is_some()
        {
            dispatch::cancel(tx, schedule.dispatch_id).await?;
        }
        let request =
            app.cores.compute_here(schedule.workspace_id, || users::without_users(&schedule));
        if let Some(request) = request {
            rows::set_request(tx, schedule.id, &request).await?;
        }
        claims::finish(tx, claim).await?;
        return Ok(None);
    }
    traces::continue_trace(&schedule.request_id);
    let now = claims::now(tx).await?;
    let progress = Progress { reached: schedule.reached_at, missed: schedule.missed_at };
    let late_ms = millis(Duration::from_secs(60 * app.config.messages.late_minutes));
    let step = || waves::step(schedule.when(), schedule.timed_at, progress, now, late_ms);
    let mut step = app.cores.compute_here(schedule.workspace_id, step);
    let without_erased = users::without_erased(app, tx, &schedule).await?;
    if let Some(request) = &without_erased {
        schedule.request.clone_from(request);
    }
    let order = match order::build(tx, &schedule, now).await {
        // A newer version may be able to read it, so this one must not mark it as missed.
        Err(error) if step.wave.is_some() || error.needs_newer_version() => return Err(error),
        order => order.ok(),
    };
    let inactive_state = match order.as_ref().and_then(|order| order.campaign_id) {
        Some(campaign) if step.wave.is_some() => {
            let state = campaigns::inactive(tx, schedule.workspace_id, campaign).await?;
            // A send that has begun ends without its campaign.
            state.filter(|state| schedule.sent_at.is_none() || state != campaigns::REMOVED)
        }
        _ => None,
    };
    if inactive_state.is_some() {
        step.miss_wave();
    }
    let reason =
        inactive_state.map_or_else(|| LATE.to_owned(), |state| format!("the campaign {state}"));
    let begins = step.wave.is_some();
    let sent_at = schedule.sent_at.or(begins.then_some(now));
    let ends = step.next_at.is_none();
    let is_missed = sent_at.is_none() && ends;
    let without_users =
        || app.cores.compute_here(schedule.workspace_id, || users::without_users(&schedule));
    let fired = Fired {
        state: match (sent_at, is_missed) {
            (_, true) => State::Missed,
            (Some(_), _) => State::Sent,
            (None, _) => State::Pending,
        },
        progress: step.progress,
        sent_at,
        ended_at: ends.then_some(now),
        error: is_missed.then_some(reason.as_str()),
        request: ends.then(without_users).flatten().or(without_erased),
    };
    if !rows::store_fired(tx, &schedule, &fired).await? {
        return Err(ClaimError::Lost.into());
    }
    send(tx, &schedule, &step, order.as_ref()).await?;
    claims::finish(tx, claim).await?;
    if let Some(next_at) = step.next_at {
        // Offered again, so that the next wave starts with all attempts.
        let job = claims::Job::new(schedule.workspace_id, claim.job);
        claims::offer_at(tx, claim.kind, job, claim.item, next_at).await?;
    }
    // Moments before the schedule's time was set do not count as missed.
    let missed = step.missed.iter().filter(|moment| **moment >= schedule.timed_at).count();
    Ok(Some(FireOutcome {
        id: schedule.id,
        begun: step.wave.map(|wave| wave.at_ms),
        is_first: schedule.sent_at.is_none(),
        now,
        missed: missed as u64,
        reason,
        is_missed,
        request_id: schedule.request_id,
    }))
}

/// The schedule of a claim, locked.
async fn find(tx: &mut Tx, claim: &Claim) -> Result<Option<Schedule>, StoreError> {
    let (_, workspace) = claim.job.as_u64_pair();
    let Ok(workspace) = i32::try_from(workspace) else { return Ok(None) };
    rows::lock_item(tx, workspace, claim.item).await
}

/// Adds a step to the dispatch.
async fn send(
    tx: &mut Tx,
    schedule: &Schedule,
    step: &Step,
    order: Option<&Order>,
) -> Result<(), StoreError> {
    match (step.wave, order) {
        (Some(_), Some(order)) if schedule.timing == Timing::Instant => {
            dispatch::begin(tx, order).await
        }
        (Some(wave), Some(order)) => {
            dispatch::add_wave(tx, schedule.dispatch_id, order, wave).await
        }
        _ if step.next_at.is_none() && schedule.sent_at.is_some() => {
            dispatch::end_waves(tx, schedule.dispatch_id).await
        }
        _ => Ok(()),
    }
}

impl FireOutcome {
    fn emit(self) {
        let Self { id: schedule, missed, .. } = self;
        let request_id = traces::without_trace(&self.request_id);
        if let Some(due) = self.begun {
            let outcome = if self.is_first { "begun" } else { "wave" };
            metrics::counter!("longshore_schedules_fired_total", "outcome" => outcome).increment(1);
            let late = Duration::from_millis(self.now.saturating_sub(due).unsigned_abs());
            metrics::histogram!("longshore_schedule_delay_seconds").record(late.as_secs_f64());
            tracing::info!(%schedule, request_id, outcome, ?late, "schedule sent");
        }
        if missed > 0 {
            metrics::counter!("longshore_schedules_fired_total", "outcome" => "missed")
                .increment(missed);
            let (now, reason) = (format_time(self.now), self.reason);
            tracing::error!(
                %schedule, request_id, missed, now, reason,
                "schedule missed some of its times"
            );
        }
        if self.is_missed {
            tracing::error!(%schedule, request_id, "schedule missed: no message was sent");
        }
    }
}

/// Marks a schedule that can never be sent as missed; waves that have started continue.
pub async fn give_up(
    app: &App,
    claim: &Claim,
    error: Option<&FireError>,
) -> Result<(), ClaimError> {
    let reason = error.map_or_else(|| "it ended its worker repeatedly".into(), ToString::to_string);
    let mut tx = app.store.write().await?;
    let unfinished = find(&mut tx, claim).await?.filter(|schedule| schedule.ended_at.is_none());
    if let Some(schedule) = &unfinished {
        let now = claims::now(&mut tx).await?;
        let is_begun = schedule.sent_at.is_some();
        let fired = Fired {
            state: if is_begun { State::Sent } else { State::Missed },
            progress: Progress { reached: schedule.reached_at, missed: schedule.missed_at },
            sent_at: schedule.sent_at,
            ended_at: Some(now),
            error: Some(&reason),
            request: app
                .cores
                .compute_here(schedule.workspace_id, || users::without_users(schedule)),
        };
        rows::store_fired(&mut tx, schedule, &fired).await?;
        if is_begun {
            dispatch::end_waves(&mut tx, schedule.dispatch_id).await?;
        }
    }
    claims::finish(&mut tx, claim).await?;
    tx.commit().await?;
    if let Some(schedule) = unfinished {
        metrics::counter!("longshore_schedules_fired_total", "outcome" => "missed").increment(1);
        tracing::error!(schedule = %schedule.id, reason, "cannot send a schedule");
    }
    log_missed(app).await;
    Ok(())
}

/// Reports missed schedules at `/readyz` for a day, whichever worker missed them.
pub async fn watch_missed(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        log_missed(&app).await;
        retry::wait(CHECK_INTERVAL, &shutdown).await;
    }
}

async fn log_missed(app: &App) {
    let lines = match missed(app).await {
        Ok(0) => Vec::new(),
        Ok(count) => vec![format!(
            "{count} schedules were missed in the last day: run `longshore schedules list --state \
             missed`"
        )],
        Err(error) => {
            tracing::warn!(%error, "cannot query missed schedules");
            return;
        }
    };
    app.health_warnings.set("schedules", lines);
}

async fn missed(app: &App) -> Result<i64, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let now = claims::now(&mut tx).await?;
    rows::missed_since(&mut tx, now - millis(MISSED_REPORT_PERIOD)).await
}
