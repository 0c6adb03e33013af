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

use serde_json::{Map, Value};

use super::contents::Contents;
use super::reports::{Change, step};
use super::rows::{self, Email};
use super::{State, sla};
use crate::app::App;
use crate::campaigns::{self, Campaign, Kind};
use crate::kinds;
use crate::messages::content::{Content, Rendered};
use crate::messages::external::{Answers, External, MAX_ATTEMPTS, Unrendered};
use crate::messages::personalization::{Origin, Scope};
use crate::messages::recipient::User;
use crate::messages::{MessageId, Outcome, Outgoing, channels};
use crate::outbound::kept;
use crate::traces;
use crate::tracking::apply::{ApplyError, Ingest};
use crate::tracking::at_once::{self, Applied};
use crate::users::Recipient;
use crate::users::rows::{For, find_identifiers, find_users};
use crate::workspaces::Channel;
use crate::workspaces::settings::{self, Settings};
use kit::clock::{hours, millis};
use kit::fail_point;
use kit::retry::{Retry, Tries, pause};
use store::claims::{self, Claim, ClaimError};
use store::documents::parsed;
use store::{StoreError, Tx};
use template::Stop;

/// Reasons of aborted emails, for customers.
pub const NOT_EMAILABLE: &str = "User not emailable";
const NO_CAMPAIGN: &str = "Campaign does not exist";
const NOT_APPLICABLE: &str = "The recipient's attributes could not be stored";
const TOO_LARGE: &str = "The user's profile would be too large with these attributes";
const NOT_RENDERED: &str = "The email could not be rendered";
const NOT_PROCESSED: &str = "The email could not be processed";
const NOT_TAKEN: &str = "The sending partner did not accept the email in time";

/// Attempts of an email that may end without a clean end. The lease grows with each, so that an
/// email that ends its worker does so rarely, and not together with the same others.
const MOST_ATTEMPTS: i32 = 10;

/// The longest lease, and the longest pause before another try.
const LONGEST_LEASE: Duration = hours(1);
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

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

    fn needs_newer(&self) -> bool {
        match self {
            Self::Claim(error) => error.needs_newer(),
            Self::Store(error) => error.needs_newer(),
            Self::Apply(error) => error.needs_newer(),
        }
    }
}

/// Sends transactional emails.
pub struct Lane {
    app: App,
    ingest: Ingest,
    contents: Contents,
}

/// An email that is this worker's.
struct Begun {
    email: Email,
    claim: Claim,
    recipient: Option<Recipient>,
    campaign: Option<Campaign>,
    /// Why it is not even to be tried.
    refused: Option<&'static str>,
}

/// The result to store for an email.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Step(State, Option<String>),
    Later { reason: String, after: Option<Duration> },
}

impl End {
    fn aborted(reason: impl Into<String>) -> Self {
        Self::Step(State::Aborted, Some(kept(&reason.into())))
    }
}

impl Lane {
    pub fn new(app: &App) -> Self {
        let app = app.urgent();
        Self { ingest: Ingest::new(&app), app, contents: Contents::default() }
    }

    /// Sends the email of a claim, unless it does not wait any more.
    pub async fn handle(&self, claim: &Claim) -> Result<(), SendError> {
        // Before there is a transaction, because they may need another connection.
        let settings = settings::of(&self.app, kinds::workspace_of_job(claim.job)).await;
        let settings = match settings {
            Err(error) if error.needs_newer() => return Err(error.into()),
            settings => settings,
        };
        match self.begin(claim).await {
            Ok(Some(begun)) => self.see_through(begun, settings).await,
            Ok(None) => Ok(()),
            // It is not this email that is wrong, so the attempt does not count.
            Err(error) if error.can_retry() && !error.needs_newer() => {
                tracing::warn!(%error, "cannot start an email; retrying later");
                Ok(claims::leave(&self.app.store, claim, FIRST_PAUSE).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// Settles an email that can never be sent.
    pub async fn give_up(&self, claim: &Claim) -> Result<(), ClaimError> {
        let settings = settings::of(&self.app, kinds::workspace_of_job(claim.job)).await?;
        let mut tx = self.app.store.write().await?;
        let email = rows::claimed(&mut tx, claim).await?;
        let Some(mut email) = email else { return end_claim(tx, claim).await };
        claims::finish(&mut tx, claim).await?;
        let now = self.app.clock.now_ms();
        let change = Change { state: State::Aborted, at: now, reason: Some(NOT_PROCESSED) };
        step(&mut tx, &self.app, &settings, &mut email, &change).await?;
        tx.commit().await?;
        sla::count(&email);
        Ok(())
    }

    /// Stores the recipient's attributes and finds the user, in one transaction; none if the email
    /// no longer waits.
    async fn begin(&self, claim: &Claim) -> Result<Option<Begun>, SendError> {
        let mut tx = self.app.store.write().await?;
        claims::extend(&mut tx, claim, lease(self.app.config.lease(), claim.attempt)).await?;
        let Some(email) = rows::claimed(&mut tx, claim).await? else {
            end_claim(tx, claim).await?;
            return Ok(None);
        };
        traces::follow(&email.request_id);
        let (applied, refused) = match &email.attributes {
            Some(attributes) => self.apply(&mut tx, attributes).await?,
            None => (None, None),
        };
        let (user, refused) = match find(&mut tx, &email).await {
            Ok(user) => (user, refused),
            // Waiting does not change it.
            Err(StoreError::Corrupt(why)) => {
                tracing::error!(why, "cannot read an email's recipient");
                (None, refused.or(Some(NOT_PROCESSED)))
            }
            Err(error) => return Err(error.into()),
        };
        let campaign = campaigns::by_id(&mut tx, email.workspace_id, email.campaign_id).await?;
        let (now, service_id) =
            (self.app.clock.now_ms(), user.as_ref().map(|user| user.service_id));
        rows::begun(&mut tx, email.dispatch_id, now, service_id).await?;
        tx.commit().await?;
        applied.into_iter().for_each(Applied::committed);
        fail_point!("transactional::claimed");
        let email = Email { executed_at: Some(now), service_id, ..email };
        let refused = refused.or((claim.attempt > MOST_ATTEMPTS).then_some(NOT_PROCESSED));
        Ok(Some(Begun { email, claim: *claim, recipient: user, campaign, refused }))
    }

    /// Applies attributes, or reverts them and returns why they are invalid.
    async fn apply(
        &self,
        tx: &mut Tx,
        attributes: &str,
    ) -> Result<(Option<Applied>, Option<&'static str>), SendError> {
        tx.begin_piece().await?;
        match at_once::apply(&self.ingest, tx, attributes).await {
            Ok(applied) => {
                tx.keep().await?;
                let refused = applied.is_too_large().then_some(TOO_LARGE);
                Ok((Some(applied), refused))
            }
            Err(error) if error.can_retry() => Err(error.into()),
            Err(error) => {
                tracing::error!(%error, "cannot store the attributes of an email's recipient");
                tx.undo().await?;
                Ok((None, Some(NOT_APPLICABLE)))
            }
        }
    }

    async fn see_through(
        &self,
        begun: Begun,
        settings: Result<Arc<Settings>, StoreError>,
    ) -> Result<(), SendError> {
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => return Ok(self.put_off(&begun, &error.to_string(), None).await?),
        };
        let end = self.hand_over(&begun, &settings).await;
        fail_point!("transactional::answered");
        let mut tries = Tries::within(self.app.config.lease());
        // An accepted email must be stored as sent, or it is sent again.
        loop {
            match self.settle(&begun, &settings, &end).await {
                Err(error) if error.can_retry() && tries.again().await => {
                    tracing::warn!(%error, "cannot store the status of an email; retrying");
                }
                settled => return Ok(settled?),
            }
        }
    }

    /// Renders the email and sends it to the relay.
    async fn hand_over(&self, begun: &Begun, settings: &Settings) -> End {
        let Begun { email, recipient, campaign, refused, .. } = begun;
        if let Some(reason) = refused {
            return End::aborted(*reason);
        }
        let Some(recipient) = recipient.as_ref().filter(|user| is_emailable(user)) else {
            return End::aborted(NOT_EMAILABLE);
        };
        let campaign = campaign.as_ref().filter(|campaign| campaign.kind == Kind::Transactional);
        let Some(campaign) = campaign else { return End::aborted(NO_CAMPAIGN) };
        let content = match self.contents.of(email.workspace_id, campaign, settings) {
            Ok(content) => content,
            Err(why) => {
                tracing::error!(campaign = %campaign.id, why, "the email of a campaign is invalid");
                return End::aborted(format!("{NOT_RENDERED}: {why}"));
            }
        };
        let origin = Origin {
            is_canvas: false,
            api_id: Some(campaign.id.to_string()),
            name: Some(campaign.name.clone()),
            dispatch_id: email.dispatch_id.simple().to_string(),
        };
        let rendered = self.render(email, recipient, settings, &content, &origin).await;
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(end) => return end,
        };
        let message = Outgoing {
            workspace_id: email.workspace_id,
            settings,
            id: MessageId {
                dispatch_id: email.dispatch_id,
                service_id: recipient.service_id,
                channel: Channel::Email,
            },
            recipient,
            rendered: &rendered,
            is_transactional: true,
            campaign_id: Some(email.campaign_id),
            send_id: None,
            request_id: &email.request_id,
        };
        channels::send(&self.app, message).await.into()
    }

    /// Renders on processors that only this lane waits for.
    async fn render(
        &self,
        email: &Email,
        recipient: &Recipient,
        settings: &Settings,
        content: &Content,
        origin: &Origin,
    ) -> Result<Rendered, End> {
        let Some(message) = content.messages().first() else {
            return Err(End::aborted(NOT_RENDERED));
        };
        let now = self.app.clock.now_ms();
        let properties: Option<Map<String, Value>> =
            email.trigger_properties.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let render = |answers: &Answers| {
            message.render(&Scope {
                api_trigger_properties: properties.as_ref(),
                origin: Some(origin),
                answers: Some(answers),
                ..Scope::of(&recipient.profile, now)
            })
        };
        let (app, workspace_id) = (&self.app, email.workspace_id);
        let external = External { app, workspace_id, settings, is_urgent: true };
        let rendered = external.render(None, &mut Vec::new(), render).await;
        rendered.map_err(|unrendered| match unrendered {
            Unrendered::Stopped(Stop::Aborted(reason)) => End::aborted(reason),
            Unrendered::Stopped(Stop::Failed(why)) => {
                End::aborted(format!("{NOT_RENDERED}: {why}"))
            }
            Unrendered::Stopped(Stop::Needs(_)) => End::aborted(NOT_RENDERED),
            Unrendered::Later { reason, is_counted: true, .. }
                if email.put_off + 1 >= MAX_ATTEMPTS =>
            {
                End::aborted(reason)
            }
            Unrendered::Later { reason, after, .. } => End::Later { reason, after },
        })
    }

    /// Stores the outcome of an email, with its postback.
    async fn settle(
        &self,
        begun: &Begun,
        settings: &Settings,
        end: &End,
    ) -> Result<(), ClaimError> {
        let now = self.app.clock.now_ms();
        let (state, reason) = match end {
            End::Step(state, reason) => (*state, reason.as_deref()),
            End::Later { reason, after } => {
                if now < self.retried_until(&begun.email) {
                    return self.put_off(begun, reason, *after).await;
                }
                tracing::warn!(reason, "email aborted: the relay did not accept it in time");
                (State::Aborted, Some(NOT_TAKEN))
            }
        };
        let mut tx = self.app.store.write().await?;
        claims::finish(&mut tx, &begun.claim).await?;
        let change = Change { state, at: now, reason };
        // As it is in the store: an uncommitted change is retried.
        let mut email = begun.email.clone();
        if !step(&mut tx, &self.app, settings, &mut email, &change).await? {
            drop(tx);
            tracing::info!("the relay already reported the email's status");
            return end_claim(self.app.store.write().await?, &begun.claim).await;
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
        begun: &Begun,
        reason: &str,
        after: Option<Duration>,
    ) -> Result<(), ClaimError> {
        let left_ms = self.retried_until(&begun.email) - self.app.clock.now_ms();
        let tries = u32::try_from(begun.email.put_off).unwrap_or_default() + 1;
        let pause = pause(tries, FIRST_PAUSE, LONGEST_PAUSE).max(after.unwrap_or_default());
        // The last try is at the very end.
        let pause = pause.min(Duration::from_millis(left_ms.max(1_000).unsigned_abs()));
        let mut tx = self.app.store.write().await?;
        claims::offer_again(&mut tx, &begun.claim, pause).await?;
        rows::put_off(&mut tx, begun.email.dispatch_id, pause).await?;
        tx.commit().await?;
        tracing::warn!(reason, ?pause, "the relay did not accept the email; retrying later");
        metrics::counter!("longshore_transactional_put_off_total").increment(1);
        Ok(())
    }

    fn retried_until(&self, email: &Email) -> i64 {
        email.received_at + millis(hours(self.app.config.messages.retry_hours))
    }
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Sent => Self::Step(State::Sent, None),
            Outcome::Unreachable(why) => {
                tracing::info!(why, "email aborted: the user is not emailable");
                Self::aborted(NOT_EMAILABLE)
            }
            Outcome::Bounced(reason) => Self::Step(State::Bounced, Some(kept(&reason))),
            Outcome::Failed(reason) => Self::aborted(reason),
            Outcome::Later { reason, after } => Self::Later { reason, after },
        }
    }
}

fn is_emailable(user: &Recipient) -> bool {
    user.email().is_some_and(|email| !email.is_empty())
}

/// Removes the claim of an email that does not wait any more.
async fn end_claim(mut tx: Tx, claim: &Claim) -> Result<(), ClaimError> {
    claims::finish(&mut tx, claim).await?;
    Ok(tx.commit().await?)
}

/// The lease of an attempt. After an attempt without a clean end it is longer each time, and not as
/// long as that of the others that were in progress with it.
fn lease(first: Duration, attempt: i32) -> Duration {
    match u32::try_from(attempt) {
        Ok(attempt @ 2..) => {
            pause(attempt, first.saturating_mul(2), LONGEST_LEASE.max(first)).max(first)
        }
        _ => first,
    }
}

/// The user, in the current state.
async fn find(tx: &mut Tx, email: &Email) -> Result<Option<Recipient>, StoreError> {
    let workspace = email.workspace_id;
    let service_id = match (email.service_id, &email.recipient) {
        (Some(id), _) => Some(id),
        (None, Some(recipient)) => {
            let named: User =
                parsed("transactional_emails.recipient", email.dispatch_id, recipient)?;
            let (kind, value) = named.key();
            let found = find_identifiers(tx, workspace, kind, &[&value]).await?;
            found.first().map(|found| found.service_id)
        }
        (None, None) => None,
    };
    let Some(id) = service_id else { return Ok(None) };
    let found = find_users(tx, workspace, &[id], For::Reading).await?;
    let Some(user) = found.into_iter().next() else { return Ok(None) };
    let recipient = Recipient::read(id, &user.doc)
        .map_err(|error| StoreError::Corrupt(format!("the profile of {id}: {error}")))?;
    Ok(Some(recipient))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_map_to_states() {
        for (outcome, end) in [
            (Outcome::Sent, End::Step(State::Sent, None)),
            (Outcome::Unreachable("x".into()), End::aborted(NOT_EMAILABLE)),
            (Outcome::Bounced("550".into()), End::Step(State::Bounced, Some("550".into()))),
            (Outcome::Failed("why".into()), End::aborted("why")),
        ] {
            assert_eq!(End::from(outcome), end);
        }
    }

    #[test]
    fn leases_grow_with_each_attempt() {
        let first = Duration::from_secs(30);
        assert_eq!(lease(first, 1), first);
        for attempt in 2..=MOST_ATTEMPTS {
            let again = lease(first, attempt);
            assert!(
                again >= first.saturating_mul(1 << (attempt - 1).min(5)),
                "{attempt}: {again:?}"
            );
            assert!(again <= LONGEST_LEASE);
        }
    }
}
