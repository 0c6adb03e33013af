//! Attempts at a delivery, whose outcomes are stored.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::rows::{self, AttemptResult};
use super::send::{self, EmailSender, Unsent};
use super::{Delivery, DeliveryError, State, offer_next};
use gateway::app::App;
use kit::clock::millis;
use kit::moment::Moment;
use kit::retry::backoff;
use kit::{fail_point, panics};
use runtime::app::queue::held_by;
use runtime::fairness::Holder;
use runtime::outbound::Failure;
use runtime::traces;
use store::claims::{self, Claim, ClaimError};

/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(3_600);

/// Makes one attempt at the delivery of `claim`, and stores its outcome together with the end of
/// the claim. [`ClaimError::Lost`]: another worker has claimed the delivery, and its attempt
/// counts.
pub async fn run(
    app: &App,
    emails: &impl EmailSender,
    claim: &Claim,
    stop: &CancellationToken,
) -> Result<(), DeliveryError> {
    let mut tx = app.store.snapshot().await?;
    let found = rows::by_claim(&mut tx, claim.job, claim.item).await?;
    tx.commit().await?;
    let Some(delivery) = found.filter(|delivery| delivery.state == State::Pending) else {
        return withdraw(app, claim).await;
    };
    let span = tracing::info_span!(
        "delivery",
        request_id = tracing::field::Empty,
        delivery = %delivery.id,
        kind = delivery.kind,
        attempt = claim.attempt,
    );
    let work = async {
        traces::continue_trace(&delivery.request_id);
        attempt(app, emails, claim, stop, &delivery).await
    };
    held_by(Holder::Workspace(delivery.workspace_id), work.instrument(span)).await
}

async fn attempt(
    app: &App,
    emails: &impl EmailSender,
    claim: &Claim,
    stop: &CancellationToken,
    delivery: &Delivery,
) -> Result<(), DeliveryError> {
    let started = Moment::now();
    // A panic is a failed attempt like any other.
    let sending = send::send_until_stopped(app, emails, claim, delivery, stop);
    let sent = AssertUnwindSafe(sending).catch_unwind().await;
    let result = sent.unwrap_or_else(|panic| {
        let text = format!("the attempt panicked: {}", panics::text(&*panic));
        Ok(Some(Err(Failure::no_response(text).into())))
    })?;
    let Some(result) = result else {
        // Another worker may claim it immediately.
        return Ok(claims::release(&app.store, claim, Duration::ZERO).await?);
    };
    metrics::histogram!("longshore_delivery_attempt_seconds").record(started.elapsed());
    fail_point!("delivery::answered");
    let outcome = match settle(app, claim, delivery, result).await {
        Ok(outcome) => outcome,
        Err(ClaimError::Lost) => "lost",
        Err(error) => return Err(error.into()),
    };
    metrics::counter!("longshore_deliveries_total", "outcome" => outcome).increment(1);
    if outcome == "lost" { Err(ClaimError::Lost.into()) } else { Ok(()) }
}

/// Gives up the delivery of a claim that cannot be attempted, once its time limit has passed; until
/// then delays it by `pause`. Does not read the row, which may be the cause of the failure.
pub async fn give_up_after_deadline(
    app: &App,
    claim: &Claim,
    reason: &str,
    pause: Duration,
) -> Result<(), ClaimError> {
    let mut tx = app.store.write().await?;
    let error = Failure::no_response(reason).error;
    let now = app.clock.now_ms();
    let Some(id) = rows::give_up(&mut tx, claim.job, claim.item, now, &error).await? else {
        claims::postpone(&mut tx, claim, pause).await?;
        return Ok(tx.commit().await?);
    };
    claims::finish(&mut tx, claim).await?;
    offer_next(&mut tx, id).await?;
    tx.commit().await?;
    tracing::error!(error, "delivery given up");
    metrics::counter!("longshore_deliveries_total", "outcome" => "given_up").increment(1);
    Ok(())
}

/// Ends a claim that has no pending delivery.
async fn withdraw(app: &App, claim: &Claim) -> Result<(), DeliveryError> {
    tracing::warn!(job = %claim.job, item = claim.item, "claim without a pending delivery");
    let mut tx = app.store.write().await?;
    claims::finish(&mut tx, claim).await?;
    tx.commit().await?;
    Ok(())
}

/// Stores the outcome of an attempt, in one transaction with the claim; returns the outcome.
async fn settle(
    app: &App,
    claim: &Claim,
    delivery: &Delivery,
    result: Result<u16, Unsent>,
) -> Result<&'static str, ClaimError> {
    let now = app.clock.now_ms();
    let attempt = u32::try_from(claim.attempt).unwrap_or(1);
    let base = Duration::from_millis(app.config.deliveries.retry_ms);
    let pause = backoff(attempt, base, MAX_BACKOFF);
    let next = state_after(result, now, delivery.retry_until, pause);
    let mut tx = app.store.write().await?;
    match next.next_at {
        Some(next_at) => {
            let delay = Duration::from_millis(next_at.saturating_sub(now).max(0) as u64);
            claims::postpone(&mut tx, claim, delay).await?;
        }
        None => claims::finish(&mut tx, claim).await?,
    }
    rows::record_attempt(&mut tx, delivery.id, &next).await?;
    if next.state != State::Pending {
        offer_next(&mut tx, delivery.id).await?;
    }
    tx.commit().await?;
    log_result(&next);
    Ok(match next.state {
        State::Pending => "retried",
        State::Delivered => "delivered",
        State::GivenUp => "given_up",
    })
}

/// The state of a delivery after an attempt. The next one is after `pause`, or later if the
/// receiver asks for that. The last attempt happens when the time limit is reached.
fn state_after(
    result: Result<u16, Unsent>,
    now: i64,
    retry_until: i64,
    pause: Duration,
) -> AttemptResult {
    match result {
        Ok(status) => AttemptResult {
            state: State::Delivered,
            next_at: None,
            status: Some(status),
            error: None,
            finished_at: Some(now),
        },
        // Without a receiver, there is nothing to retry.
        Err(Unsent::Undeclared(path)) => AttemptResult {
            state: State::GivenUp,
            next_at: None,
            status: None,
            error: Some(format!("the workspace no longer declares this receiver in {path}")),
            finished_at: Some(now),
        },
        Err(Unsent::Failed(Failure { status, retry_after, error })) => {
            let is_over = now >= retry_until;
            let pause = pause.max(retry_after.unwrap_or_default());
            let next_at = now.saturating_add(millis(pause)).min(retry_until);
            AttemptResult {
                state: if is_over { State::GivenUp } else { State::Pending },
                next_at: (!is_over).then_some(next_at),
                status,
                error: Some(error),
                finished_at: is_over.then_some(now),
            }
        }
    }
}

fn log_result(result: &AttemptResult) {
    let (status, error) = (result.status, result.error.as_deref().unwrap_or_default());
    match result.state {
        State::Delivered => tracing::info!(status, "delivered"),
        State::Pending => tracing::warn!(status, error, "delivery failed; retrying"),
        State::GivenUp => tracing::error!(status, error, "delivery given up"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_retried_until_the_time_limit() {
        let asking = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            Err(Failure { status: Some(410), retry_after, error: "gone".into() }.into())
        };
        let (failure, pause) = (|| asking(0), Duration::from_millis(500));
        let next = state_after(failure(), 1_000, 9_000, pause);
        assert_eq!((next.state, next.next_at), (State::Pending, Some(1_500)));
        // The receiver can ask for a longer pause, but not for a shorter one.
        let next = state_after(asking(3), 1_000, 9_000, pause);
        assert_eq!((next.state, next.next_at), (State::Pending, Some(4_000)));
        let next = state_after(asking(60), 1_000, 9_000, pause);
        assert_eq!((next.state, next.next_at), (State::Pending, Some(9_000)));
        // The last attempt is exactly at the end, not before it.
        let next = state_after(failure(), 8_900, 9_000, pause);
        assert_eq!((next.state, next.next_at), (State::Pending, Some(9_000)));
        let next = state_after(failure(), 9_000, 9_000, pause);
        assert_eq!((next.state, next.next_at), (State::GivenUp, None));
        assert_eq!((next.status, next.finished_at), (Some(410), Some(9_000)));
        let next = state_after(Ok(204), 9_999, 9_000, pause);
        assert_eq!((next.state, next.status, next.error), (State::Delivered, Some(204), None));
    }

    #[test]
    fn a_delivery_without_a_receiver_ends_before_its_time_limit() {
        let next = state_after(Err(Unsent::Undeclared("notify")), 1_000, 9_000, Duration::ZERO);
        assert_eq!((next.state, next.next_at), (State::GivenUp, None));
        assert_eq!((next.status, next.finished_at), (None, Some(1_000)));
        assert!(next.error.is_some());
    }
}
