//! Planning: splits the users of a dispatch without listed users into parts, once. The parts of a
//! send to the recipients of an earlier dispatch are those of that dispatch.

use std::time::Duration;

use uuid::Uuid;

use super::error::DispatchError;
use super::rows::{self, Plan};
use super::{ending, job, part_rows, past, past_rows};
use crate::app::App;
use crate::dispatch::state::State;
use crate::order::{PastRecipients, Wave};
use kit::fail_point;
use people::users::scan::{self, PartBoundaries};
use people::users::{Position, SLICES};
use runtime::kinds;
use runtime::traces;
use store::Tx;
use store::claims::{self, Claim, ClaimError};

/// Splits the users of a claim's wave into parts. If the dispatch has ended, drops the claim.
pub async fn plan(app: &App, claim: &Claim) -> Result<(), DispatchError> {
    let attempts = app.config.messages.attempts;
    if claim.attempt.unsigned_abs() > attempts {
        let text = format!("planning ended its worker in {attempts} attempts");
        return Err(DispatchError::Permanent(text));
    }
    let mut tx = app.store.snapshot().await?;
    let dispatch = rows::load(&mut tx, claim.job).await?;
    let wave = rows::wave(&mut tx, claim.job, claim.item).await?;
    let running = dispatch.filter(|dispatch| !dispatch.state.is_final());
    let (Some(dispatch), Some(wave)) = (running, wave) else {
        drop(tx);
        let mut tx = app.store.write().await?;
        claims::finish(&mut tx, claim).await?;
        return Ok(tx.commit().await?);
    };
    let order = &dispatch.order;
    traces::continue_trace(&order.request_id);
    job::check(&mut tx, order, dispatch.kept.as_ref()).await?;
    let segment = match dispatch.segment {
        Some(segment) => Some(segment),
        None => job::segment(&mut tx, order).await?,
    };
    let boundaries = match &order.target.recipients_of {
        Some(past) => parts_of_past(&mut tx, order.workspace_id, past).await?,
        None => {
            // Including the slices of the control group, because its excluded users are counted.
            let slices: Vec<i16> = (0..SLICES).collect();
            let per_part = app.config.messages.part_users;
            scan::cut(&mut tx, order.workspace_id, &slices, per_part, usize::MAX).await?
        }
    };
    drop(tx);
    fail_point!("dispatch::looked");
    write(app, claim, order.workspace_id, wave.as_ref(), segment.as_deref(), &boundaries).await
}

/// One part for each part of the earlier dispatch, with the same number: its users are those with
/// messages in that part.
async fn parts_of_past(
    tx: &mut Tx,
    workspace: i32,
    past: &PastRecipients,
) -> Result<PartBoundaries, DispatchError> {
    let parts = past::parts(tx, workspace, past).await?;
    let users = past_rows::count_users(tx, past).await?;
    let before_all = Position { slice: 0, service_id: Uuid::nil() };
    let ends = (0..parts).map(|_| before_all).collect();
    Ok(PartBoundaries { ends, users, youngest: Uuid::max() })
}

/// Stores the plan in one transaction: the parts and their claims.
async fn write(
    app: &App,
    claim: &Claim,
    workspace: i32,
    wave: Option<&Wave>,
    segment: Option<&str>,
    boundaries: &PartBoundaries,
) -> Result<(), DispatchError> {
    let (id, now) = (claim.job, app.clock.now_ms());
    let PartBoundaries { ends, youngest, users } = boundaries;
    let parts = ends.len() as i64;
    let plan = Plan { segment, youngest: *youngest, users: *users, parts };
    let mut tx = app.store.write().await?;
    let last = rows::add_parts(&mut tx, id, &plan, now).await?.ok_or(DispatchError::Lost)?;
    claims::finish(&mut tx, claim).await?;
    let first = last - parts + 1;
    part_rows::insert(&mut tx, id, first, wave, Position::START, ends).await?;
    let job = claims::Job::new(workspace, id);
    claims::offer_range(&mut tx, kinds::DISPATCH_PART, job, first..last + 1, Duration::ZERO)
        .await?;
    if parts == 0 {
        ending::finish(&mut tx, id).await?;
    }
    tx.commit().await?;
    fail_point!("dispatch::planned");
    claims::analyze_if_many(&app.store, parts).await;
    tracing::info!(dispatch = %id.simple(), users, parts, "planned");
    Ok(())
}

/// Fails a dispatch that cannot be planned.
pub async fn give_up(
    app: &App,
    claim: &Claim,
    error: Option<&DispatchError>,
) -> Result<(), ClaimError> {
    if matches!(error, Some(DispatchError::Lost | DispatchError::Stopped)) {
        return Err(ClaimError::Lost);
    }
    let note = error.map_or_else(|| "planning did not finish".to_owned(), ToString::to_string);
    let mut tx = app.store.write().await?;
    ending::end_early(&mut tx, claim.job, State::Failed, Some(&note)).await?;
    Ok(tx.commit().await?)
}
