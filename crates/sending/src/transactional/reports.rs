//! Applies a relay's reports about accepted emails (docs/reference/api/reports.md):
//! processed, delivered, bounced.

use super::postbacks::{self, Postback};
use super::rows::{self, Email, Step};
use super::{State, bounces, sla};
use crate::app::App;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::{self, Settings};
use kit::fail_point;
use kit::smtp::AddressBounce;
use messages::MessageId;
use messages::dispatch;
use messages::dispatch::state::OutcomeCounts;
use runtime::history::{self, Metric};
use store::{StoreError, Tx};

/// The new state of an email.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub state: State,
    pub at: i64,
    pub reason: Option<&'a str>,
    /// Whether the address is the cause, and how; for how long it gets no emails, in milliseconds.
    pub bounce: Option<(AddressBounce, i64)>,
}

/// Stores a report and its postback, in the caller's transaction; returns whether the message is a
/// transactional email of the workspace. A late or repeated report has no effect.
///
/// A report can arrive before the worker has stored that the email was sent, or after the worker
/// died. It proves that the relay accepted the email, so the email counts as sent.
pub async fn apply_report(
    tx: &mut Tx,
    app: &App,
    workspace: i32,
    id: &MessageId,
    change: &Change<'_>,
) -> Result<bool, StoreError> {
    let email = rows::lock(tx, id.dispatch_id).await?;
    let email = email.filter(|email| email.workspace_id == workspace);
    let Some(mut email) = email else { return Ok(false) };
    let has_same_user = email.service_id.is_none_or(|service_id| service_id == id.service_id);
    if !has_same_user || !email.state.leads_to(change.state) {
        return Ok(true);
    }
    let settings = settings::find(app, email.workspace_id).await?;
    if email.state == State::Processing {
        let sent = Change { state: State::Sent, at: change.at, reason: None, bounce: None };
        change_state(tx, app, &settings, &mut email, &sent).await?;
        sla::count(&email);
    }
    change_state(tx, app, &settings, &mut email, change).await?;
    sla::count(&email);
    fail_point!("transactional::reported");
    Ok(true)
}

/// Changes the state, with its postback; returns whether the email was in the expected state. If
/// not, nothing of this transaction may be committed.
pub async fn change_state(
    tx: &mut Tx,
    app: &App,
    settings: &Settings,
    email: &mut Email,
    change: &Change<'_>,
) -> Result<bool, StoreError> {
    let Change { state, at, reason, bounce } = *change;
    let postback = Postback::new(email, state, at, reason);
    let postback_id = postbacks::enqueue(tx, app, settings, email, &postback).await?;
    let step = Step {
        from: email.state,
        to: state,
        at,
        reason: reason.map(str::to_owned),
        sent_at: (state == State::Sent).then_some(at),
        postback_id,
    };
    if !rows::advance(tx, email.dispatch_id, &step).await? {
        return Ok(false);
    }
    let counted = match state {
        State::Sent => Some(Metric::MessagesSent),
        State::Bounced | State::Aborted => Some(Metric::MessagesFailed),
        State::Processing | State::Processed | State::Delivered => None,
    };
    if let Some(metric) = counted {
        history::count(tx, email.workspace_id, &[(metric, 1)]).await?;
    }
    let mut counts = OutcomeCounts::default();
    match state {
        State::Sent => counts.sent = 1,
        State::Delivered => counts.delivered = 1,
        State::Bounced => counts.bounced = 1,
        State::Aborted => counts.aborted = 1,
        State::Processing | State::Processed => {}
    }
    if counts != OutcomeCounts::default() {
        let key = (email.workspace_id, email.campaign_id, "", Channel::Email.name());
        dispatch::add_statistics(tx, key, &counts).await?;
    }
    (email.state, email.state_at, email.reason) = (state, at, step.reason);
    email.sent_at = step.sent_at.or(email.sent_at);
    email.postback_id = postback_id.or(email.postback_id);
    if let Some((status, period)) = bounce {
        bounces::store(tx, email, status, period).await?;
    }
    Ok(true)
}
