//! Processes a waiting email.
//!
//! ```text
//! apply attributes, find the user ──commit──> render ──> relay ──> step and postback ──commit
//! ```
//!
//! A worker that has lost the claim stores nothing. A worker that ends in between leaves a claim
//! whose lease expires.

use std::sync::Arc;
use std::time::Duration;

use super::contents::{ContentResult, Contents};
use super::recipient;
use super::reports::{Change, change_state};
use super::rows::{self, Email};
use super::{State, sla};
use crate::app::App;
use content::campaigns::{self, Campaign, Kind};
use gateway::workspaces::Channel;
use gateway::workspaces::settings::{self, Settings};
use kit::clock::{hours, millis};
use kit::fail_point;
use kit::json::TreeObject;
use kit::moment::Moment;
use kit::retry::{Retry, TimedRetries, backoff};
use kit::smtp::AddressBounce;
use messages::content::{Content, Rendered};
use messages::external::{Answers, External, MAX_ATTEMPTS, RenderError};
use messages::personalization::{Origin, Scope, Unsubscribe};
use messages::{MessageId, Outcome, Outgoing, channels, unsubscribe_token};
use people::users::Recipient;
use people::users::suppressions::{self, Address, Hash};
use runtime::kinds;
use runtime::outbound::stored_text;
use runtime::traces;
use store::claims::{self, Claim, ClaimError};
use store::{StoreError, Tx};
use template::Stop;
use tracking::apply::{ApplyError, Ingest};
use tracking::immediate::{self, Applied};

/// Reasons of aborted emails, for customers.
pub const NOT_EMAILABLE: &str = "User not emailable";
const NO_CAMPAIGN: &str = "Campaign does not exist";
const NOT_APPLICABLE: &str = "The recipient's attributes could not be stored";
const TOO_LARGE: &str = "The user's profile would be too large with these attributes";
const NOT_RENDERED: &str = "The email could not be rendered";
const NOT_PROCESSED: &str = "The email could not be processed";
const NOT_ACCEPTED: &str = "The sending partner did not accept the email in time";

/// Maximum number of attempts of an email without a clean end. The lease grows with each, so that
/// an email that ends its worker does so rarely, and not always together with the same other
/// emails.
const MAX_CLAIM_ATTEMPTS: i32 = 10;

/// The longest lease, and the longest backoff before a retry.
const MAX_LEASE: Duration = hours(1);
const INITIAL_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Retry for SendError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Claim(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Apply(error) => error.can_retry(),
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Claim(error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
            Self::Apply(error) => error.needs_newer_version(),
        }
    }
}

/// Sends transactional emails.
pub struct TransactionalSender {
    app: App,
    ingest: Ingest,
    contents: Contents,
}

/// An email that this worker has claimed.
struct StartedEmail {
    email: Email,
    claim: Claim,
    /// When the claim was last known to be valid.
    asked_at: Moment,
    recipient: Option<Recipient>,
    /// The hash of the recipient's address, for the link to unsubscribe.
    address: Option<Hash>,
    campaign: Option<Campaign>,
    /// Why the email cannot be sent at all.
    abort_reason: Option<&'static str>,
}

/// The result to store for an email.
#[derive(Debug, PartialEq, Eq)]
enum EmailOutcome {
    Step(State, Option<String>),
    /// With the reason, and whether the address is the cause.
    Bounced(String, Option<AddressBounce>),
    Later {
        reason: String,
        after: Option<Duration>,
    },
}

impl EmailOutcome {
    fn aborted(reason: impl Into<String>) -> Self {
        Self::Step(State::Aborted, Some(stored_text(&reason.into())))
    }
}

impl TransactionalSender {
    pub fn new(app: &App) -> Self {
        let app = app.for_transactional();
        Self { ingest: Ingest::new(&app), app, contents: Contents::default() }
    }

    /// Sends the email of a claim, if it still waits.
    pub async fn handle(&self, claim: &Claim) -> Result<(), SendError> {
        // Read before the transaction begins, because this may need another connection.
        let settings = settings::find(&self.app, kinds::workspace_of_job(claim.job)).await;
        let settings = match settings {
            Err(error) if error.needs_newer_version() => return Err(error.into()),
            settings => settings,
        };
        match self.begin(claim).await {
            Ok(Some(started)) => self.send_and_settle(started, settings).await,
            Ok(None) => Ok(()),
            // The cause is not this email, so the attempt does not count.
            Err(error) if error.can_retry() && !error.needs_newer_version() => {
                tracing::warn!(%error, "cannot start an email; retrying later");
                Ok(claims::release_uncounted(&self.app.store, claim, INITIAL_BACKOFF).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// Settles an email that can never be sent.
    pub async fn give_up(&self, claim: &Claim) -> Result<(), ClaimError> {
        let settings = settings::find(&self.app, kinds::workspace_of_job(claim.job)).await?;
        let mut tx = self.app.store.write().await?;
        let email = rows::claimed(&mut tx, claim).await?;
        let Some(mut email) = email else { return end_claim(tx, claim).await };
        claims::finish(&mut tx, claim).await?;
        let now = self.app.clock.now_ms();
        let change =
            Change { state: State::Aborted, at: now, reason: Some(NOT_PROCESSED), bounce: None };
        change_state(&mut tx, &self.app, &settings, &mut email, &change).await?;
        tx.commit().await?;
        sla::count(&email);
        Ok(())
    }

    /// Stores the recipient's attributes and finds the user, in one transaction; none if the email
    /// no longer waits.
    async fn begin(&self, claim: &Claim) -> Result<Option<StartedEmail>, SendError> {
        let mut tx = self.app.store.write().await?;
        claims::extend(&mut tx, claim, lease(self.app.config.lease(), claim.attempt)).await?;
        let Some(email) = rows::claimed(&mut tx, claim).await? else {
            end_claim(tx, claim).await?;
            return Ok(None);
        };
        traces::continue_trace(&email.request_id);
        let (applied, abort_reason) = match &email.attributes {
            Some(attributes) => {
                let at = email.accepted_at.unwrap_or(email.received_at);
                self.apply(&mut tx, attributes, at).await?
            }
            None => (None, None),
        };
        let (user, abort_reason) = match recipient::find(&mut tx, &email).await {
            Ok(user) => (user, abort_reason),
            // A retry would not help.
            Err(StoreError::Corrupt(why)) => {
                tracing::error!(why, "cannot read an email's recipient");
                (None, abort_reason.or(Some(NOT_PROCESSED)))
            }
            Err(error) => return Err(error.into()),
        };
        let campaign = campaigns::by_id(&mut tx, email.workspace_id, email.campaign_id).await?;
        let address = match user.as_ref().and_then(Recipient::email) {
            Some(to) => {
                let key = suppressions::key(&mut tx, email.workspace_id).await?;
                Some(key.hash(&Address::Email(to.into())))
            }
            None => None,
        };
        let (now, service_id) =
            (self.app.clock.now_ms(), user.as_ref().map(|user| user.service_id));
        let hash = address.as_ref().map(|hash| &hash[..]);
        rows::store_start(&mut tx, email.dispatch_id, now, service_id, hash).await?;
        // Nobody takes over the claim before the commit.
        let asked_at = Moment::now();
        tx.commit().await?;
        applied.into_iter().for_each(Applied::committed);
        fail_point!("transactional::claimed");
        let address_of = address.map(|hash| hash.to_vec());
        let email = Email { executed_at: Some(now), service_id, address: address_of, ..email };
        let abort_reason =
            abort_reason.or((claim.attempt > MAX_CLAIM_ATTEMPTS).then_some(NOT_PROCESSED));
        let (claim, recipient) = (*claim, user);
        let started =
            StartedEmail { email, claim, asked_at, recipient, address, campaign, abort_reason };
        Ok(Some(started))
    }

    /// Applies attributes that were received at a time, or reverts them and returns why they are
    /// invalid.
    async fn apply(
        &self,
        tx: &mut Tx,
        attributes: &str,
        at: i64,
    ) -> Result<(Option<Applied>, Option<&'static str>), SendError> {
        tx.savepoint().await?;
        match immediate::apply(&self.ingest, tx, attributes, at).await {
            Ok(applied) => {
                tx.release_savepoint().await?;
                let abort_reason = applied.is_too_large().then_some(TOO_LARGE);
                Ok((Some(applied), abort_reason))
            }
            Err(error) if error.can_retry() => Err(error.into()),
            Err(error) => {
                tracing::error!(%error, "cannot store the attributes of an email's recipient");
                tx.rollback_to_savepoint().await?;
                Ok((None, Some(NOT_APPLICABLE)))
            }
        }
    }

    async fn send_and_settle(
        &self,
        started: StartedEmail,
        settings: Result<Arc<Settings>, StoreError>,
    ) -> Result<(), SendError> {
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => return Ok(self.put_off(&started, &error.to_string(), None).await?),
        };
        let outcome = self.render_and_send(&started).await?;
        fail_point!("transactional::answered");
        let mut tries = TimedRetries::within(self.app.config.lease());
        // An accepted email must be stored as sent, or it is sent again.
        loop {
            match self.settle(&started, &settings, &outcome).await {
                Err(error) if error.can_retry() && tries.again().await => {
                    tracing::warn!(%error, "cannot store the status of an email; retrying");
                }
                settled => return Ok(settled?),
            }
        }
    }

    /// Renders the email and sends it to the relay, unless another worker has its claim.
    async fn render_and_send(&self, started: &StartedEmail) -> Result<EmailOutcome, ClaimError> {
        let StartedEmail { email, recipient, address, campaign, abort_reason, .. } = started;
        if let Some(reason) = abort_reason {
            return Ok(EmailOutcome::aborted(*reason));
        }
        let Some(recipient) = recipient.as_ref().filter(|user| is_emailable(user)) else {
            return Ok(EmailOutcome::aborted(NOT_EMAILABLE));
        };
        if recipient.stopped.is_some() {
            return Ok(EmailOutcome::aborted(NOT_EMAILABLE));
        }
        let campaign = campaign.as_ref().filter(|campaign| campaign.kind == Kind::Transactional);
        let Some(campaign) = campaign else { return Ok(EmailOutcome::aborted(NO_CAMPAIGN)) };
        if let Some(state) = campaign.inactive() {
            return Ok(EmailOutcome::aborted(format!("Campaign is {state}")));
        }
        let (settings, content) = match self.content(email.workspace_id, campaign).await {
            Ok((settings, Ok(content))) => (settings, content),
            Err(error) => {
                return Ok(EmailOutcome::Later { reason: error.to_string(), after: None });
            }
            Ok((_, Err(why))) => {
                tracing::error!(campaign = %campaign.id, why, "the email of a campaign is invalid");
                return Ok(EmailOutcome::aborted(format!("{NOT_RENDERED}: {why}")));
            }
        };
        let origin = Origin {
            is_canvas: false,
            api_id: Some(campaign.id.to_string()),
            name: Some(campaign.name.clone()),
            dispatch_id: email.dispatch_id.simple().to_string(),
        };
        let rendered =
            self.render(email, (recipient, *address), &settings, &content, &origin).await;
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(outcome) => return Ok(outcome),
        };
        let message = Outgoing {
            workspace_id: email.workspace_id,
            settings: &settings,
            id: MessageId {
                dispatch_id: email.dispatch_id,
                service_id: recipient.service_id,
                channel: Channel::Email,
            },
            recipient,
            rendered: &rendered,
            address: None,
            is_transactional: true,
            campaign_id: Some(email.campaign_id),
            send_id: None,
            request_id: &email.request_id,
        };
        claims::check_held(&self.app.store, &started.claim, started.asked_at).await?;
        Ok(channels::send(&self.app, message).await.into())
    }

    /// A campaign's email, or why it is invalid, with the settings that it is valid for.
    async fn content(
        &self,
        workspace: i32,
        campaign: &Campaign,
    ) -> Result<(Arc<Settings>, ContentResult), StoreError> {
        let cached = settings::find(&self.app, workspace).await?;
        let content = self.contents.get(workspace, campaign, &cached);
        if content.as_ref().is_ok_and(|content| !content.has_unknown_sources()) {
            return Ok((cached, content));
        }
        let mut tx = self.app.store.snapshot().await?;
        let current = settings::read_current(&self.app, &mut tx, workspace);
        let current = Arc::new(Box::pin(current).await?);
        let content = self.contents.get(workspace, campaign, &current);
        Ok((current, content))
    }

    /// Renders on processors that are reserved for transactional emails.
    async fn render(
        &self,
        email: &Email,
        (recipient, address): (&Recipient, Option<Hash>),
        settings: &Settings,
        content: &Content,
        origin: &Origin,
    ) -> Result<Rendered, EmailOutcome> {
        let Some(message) = content.messages().first() else {
            return Err(EmailOutcome::aborted(NOT_RENDERED));
        };
        let now = self.app.clock.now_ms();
        let properties =
            email.trigger_properties.as_deref().and_then(|text| TreeObject::parse(text).ok());
        let (workspace_id, user) = (email.workspace_id, recipient.service_id);
        let link = unsubscribe_token::Recipient { workspace: workspace_id, user, address };
        let unsubscribe = Unsubscribe { app: &self.app, recipient: link };
        let render = |answers: &Answers| {
            message.render(&Scope {
                api_trigger_properties: properties.as_ref(),
                origin: Some(origin),
                unsubscribe: Some(unsubscribe),
                answers: Some(answers),
                custom: Some(&recipient.custom),
                ..Scope::from_profile(&recipient.profile, now)
            })
        };
        let app = &self.app;
        let external = External { app, workspace_id, settings, is_urgent: true, time: None };
        let rendered = external.render(None, &mut Vec::new(), render).await;
        rendered.map_err(|error| match error {
            RenderError::Stopped(Stop::Aborted(reason)) => EmailOutcome::aborted(reason),
            RenderError::Stopped(Stop::Failed(why)) => {
                EmailOutcome::aborted(format!("{NOT_RENDERED}: {why}"))
            }
            RenderError::Stopped(Stop::Needs(_)) => EmailOutcome::aborted(NOT_RENDERED),
            RenderError::Later { reason, is_counted: true, .. }
                if email.put_off + 1 >= MAX_ATTEMPTS =>
            {
                EmailOutcome::aborted(reason)
            }
            RenderError::Later { reason, after, .. } => EmailOutcome::Later { reason, after },
        })
    }

    /// Stores the outcome of an email, with its postback.
    async fn settle(
        &self,
        started: &StartedEmail,
        settings: &Settings,
        outcome: &EmailOutcome,
    ) -> Result<(), ClaimError> {
        let now = self.app.clock.now_ms();
        let (state, reason) = match outcome {
            EmailOutcome::Step(state, reason) => (*state, reason.as_deref()),
            EmailOutcome::Bounced(reason, _) => (State::Bounced, Some(reason.as_str())),
            EmailOutcome::Later { reason, after } => {
                if now < self.retried_until(&started.email) {
                    return self.put_off(started, reason, *after).await;
                }
                tracing::warn!(reason, "email aborted: the relay did not accept it in time");
                (State::Aborted, Some(NOT_ACCEPTED))
            }
        };
        let mut tx = self.app.store.write().await?;
        claims::finish(&mut tx, &started.claim).await?;
        let period = settings.email.as_ref().map_or(0, settings::Email::bounce_period);
        let bounce = match outcome {
            EmailOutcome::Bounced(_, Some(status)) if period > 0 => Some((*status, period)),
            _ => None,
        };
        let change = Change { state, at: now, reason, bounce };
        // In the stored state: an uncommitted change is retried.
        let mut email = started.email.clone();
        if !change_state(&mut tx, &self.app, settings, &mut email, &change).await? {
            drop(tx);
            tracing::info!("the relay already reported the email's status");
            return end_claim(self.app.store.write().await?, &started.claim).await;
        }
        fail_point!("transactional::noted");
        tx.commit().await?;
        fail_point!("transactional::settled");
        sla::count(&email);
        let (dispatch, took) = (email.dispatch_id.simple(), now - email.received_at);
        tracing::info!(%dispatch, state = state.name(), reason, took, "settled");
        Ok(())
    }

    async fn put_off(
        &self,
        started: &StartedEmail,
        reason: &str,
        after: Option<Duration>,
    ) -> Result<(), ClaimError> {
        let remaining_ms = self.retried_until(&started.email) - self.app.clock.now_ms();
        let tries = u32::try_from(started.email.put_off).unwrap_or_default() + 1;
        let backoff = backoff(tries, INITIAL_BACKOFF, MAX_BACKOFF).max(after.unwrap_or_default());
        // The last attempt is at the end of the time limit.
        let backoff = backoff.min(Duration::from_millis(remaining_ms.max(1_000).unsigned_abs()));
        let mut tx = self.app.store.write().await?;
        claims::offer_again(&mut tx, &started.claim, backoff).await?;
        rows::put_off(&mut tx, started.email.dispatch_id, backoff).await?;
        tx.commit().await?;
        tracing::warn!(reason, ?backoff, "the relay did not accept the email; retrying later");
        metrics::counter!("longshore_transactional_retries_total").increment(1);
        Ok(())
    }

    fn retried_until(&self, email: &Email) -> i64 {
        email.received_at + millis(hours(self.app.config.messages.retry_hours))
    }
}

impl From<Outcome> for EmailOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Sent => Self::Step(State::Sent, None),
            Outcome::Unreachable(why) => {
                tracing::info!(why, "email aborted: the user is not emailable");
                Self::aborted(NOT_EMAILABLE)
            }
            Outcome::Bounced { reason, address } => Self::Bounced(stored_text(&reason), address),
            Outcome::Failed(reason) => Self::aborted(reason),
            Outcome::Later { reason, after } | Outcome::NoResponse { reason, after } => {
                Self::Later { reason, after }
            }
        }
    }
}

fn is_emailable(user: &Recipient) -> bool {
    user.email().is_some_and(|email| !email.is_empty())
}

/// Removes the claim of an email that no longer waits.
async fn end_claim(mut tx: Tx, claim: &Claim) -> Result<(), ClaimError> {
    claims::finish(&mut tx, claim).await?;
    Ok(tx.commit().await?)
}

/// The lease of an attempt. After each attempt without a clean end it is longer, and its length
/// differs from those of other emails that were in progress at the same time.
fn lease(first: Duration, attempt: i32) -> Duration {
    match u32::try_from(attempt) {
        Ok(attempt @ 2..) => {
            backoff(attempt, first.saturating_mul(2), MAX_LEASE.max(first)).max(first)
        }
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_map_to_states() {
        for (outcome, expected) in [
            (Outcome::Sent, EmailOutcome::Step(State::Sent, None)),
            (Outcome::Unreachable("x".into()), EmailOutcome::aborted(NOT_EMAILABLE)),
            (
                Outcome::Bounced { reason: "550".into(), address: None },
                EmailOutcome::Bounced("550".into(), None),
            ),
            (Outcome::Failed("why".into()), EmailOutcome::aborted("why")),
        ] {
            assert_eq!(EmailOutcome::from(outcome), expected);
        }
    }

    #[test]
    fn leases_grow_with_each_attempt() {
        let first = Duration::from_secs(30);
        assert_eq!(lease(first, 1), first);
        for attempt in 2..=MAX_CLAIM_ATTEMPTS {
            let lease = lease(first, attempt);
            assert!(
                lease >= first.saturating_mul(1 << (attempt - 1).min(5)),
                "{attempt}: {lease:?}"
            );
            assert!(lease <= MAX_LEASE);
        }
    }
}
