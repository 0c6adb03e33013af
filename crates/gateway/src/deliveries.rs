//! Callbacks, postbacks and notifications: stored before they are sent, and retried for a day.
//! Requests are signed, except those to Slack, and never go into a private network.
//!
//! ```text
//! pending ──2xx──> delivered
//!    │  └─ anything else: again after a growing pause, or after the time in the receiver's
//!    │     `Retry-After`, until `retry_until` ──> given_up
//!    └──<── resend ──<── delivered │ given_up
//! ```
//!
//! A delivery is sent at least once, with one `webhook-id`. Every status except 2xx is retried,
//! including 410: a proxy in front of a receiver that moves can return it. A receiver that no
//! longer exists costs only a few requests an hour for a day.
//!
//! A delivery that [follows](NewDelivery::follows) another one is offered to the workers only after
//! that has ended, so that deliveries about one subject arrive in order.
//!
//! Notifications by email go to the workspace's relay ([`EmailSender`]), with one Message-ID. A
//! notification whose receiver is no longer declared is given up at once.

mod rows;
mod send;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use url::{Origin, Url};
use uuid::Uuid;

use crate::app::App;
use crate::workspaces::notify::{SLACK, WEBHOOK};
use kit::clock::{Clock, from_ms, hours, millis};
use kit::fail_point;
use kit::panics;
use kit::retry::{Retry, backoff};
use runtime::config::Config;
use runtime::fairness::{Holder, SLOT_BYTES, SharedMemory};
use runtime::kinds;
use runtime::outbound::{Failure, shown};
use runtime::traces;
use store::claims::{self, Claim, ClaimError, Job};
use store::{StoreError, Tx, from_row, text_enum};

pub use rows::{by_id, list};
pub use send::{EmailContent, EmailSender, NotificationEmail};

use rows::AttemptResult;
use send::Unsent;

/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(3_600);

/// How long a delivery waits for a slot of its workspace, and then without a claim.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// The slots for attempts in this process. A workspace gets at most as many as it leaves free, so
/// that its slow receivers do not stop the others' deliveries.
pub struct DeliverySlots(SharedMemory);

impl DeliverySlots {
    pub fn new(config: &Config) -> Self {
        Self(SharedMemory::halves(2 * config.deliveries.in_flight * SLOT_BYTES))
    }
}

/// The kind of the callback of an export.
pub const EXPORT_CALLBACK: &str = "export_callback";

/// The kind of a postback about a transactional email's status.
pub const STATUS_POSTBACK: &str = "transactional_postback";

/// The kinds of notifications about exports: signed requests, requests to Slack, and emails.
pub const EXPORT_NOTIFICATION: &str = "export_notification";
pub const SLACK_NOTIFICATION: &str = "slack_notification";
pub const EMAIL_NOTIFICATION: &str = "email_notification";

/// The beginning of the `url` of an email, before the address.
pub const MAILTO: &str = "mailto:";

/// A new delivery.
pub struct NewDelivery {
    pub workspace_id: i32,
    /// One of the kinds above.
    pub kind: &'static str,
    /// Its subject, such as the export's `object_prefix`.
    pub subject: String,
    /// The delivery that must end before this one is sent.
    pub follows: Option<Uuid>,
    /// For a notification, a reference to its URL, or `mailto:` and the address of an email.
    pub url: String,
    /// The JSON body, as it will be sent and signed; for an email, [`EmailContent`].
    pub body: String,
    pub request_id: String,
}

text_enum! {
    /// The state of a delivery.
    #[derive(clap::ValueEnum)]
    #[value(rename_all = "snake_case")]
    pub enum State {
        /// Waiting for the first or the next attempt.
        Pending = "pending",
        Delivered = "delivered",
        /// Not accepted before the time limit.
        GivenUp = "given_up",
    }
}

/// A stored delivery. Times are milliseconds since the epoch, and ISO 8601 in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Delivery {
    pub id: Uuid,
    #[serde(skip)]
    pub workspace_id: i32,
    /// The workspace's name.
    pub workspace: String,
    pub kind: String,
    pub subject: String,
    /// May hold secrets: [`shown_url`](Self::shown_url) is for printing.
    #[serde(serialize_with = "serialize_shown")]
    pub url: String,
    pub body: String,
    /// The job of its claim: the workspace's deliveries to the receiver.
    #[serde(skip)]
    pub job: Uuid,
    #[serde(skip)]
    pub item: i64,
    pub state: State,
    pub request_id: String,
    pub attempts: i32,
    #[serde(serialize_with = "as_time")]
    pub created_at: i64,
    /// When attempts end and the delivery is given up.
    #[serde(serialize_with = "as_time")]
    pub retry_until: i64,
    /// When the next attempt is due, while pending.
    #[serde(serialize_with = "as_optional_time")]
    pub next_at: Option<i64>,
    /// The outcome of the last attempt: the receiver's status, and the error.
    pub last_status: Option<i32>,
    pub last_error: Option<String>,
    #[serde(serialize_with = "as_optional_time")]
    pub finished_at: Option<i64>,
}
from_row! {
    Delivery {
        id, workspace_id, workspace, kind, subject, url, body, job, item, state, request_id,
        attempts, created_at, retry_until, next_at, last_status, last_error, finished_at,
    }
}

impl Delivery {
    /// The `webhook-id`: the same for every attempt.
    pub fn message_id(&self) -> String {
        format!("msg_{}", self.id.simple())
    }

    /// The URL without its secrets.
    pub fn shown_url(&self) -> String {
        shown_receiver(&self.url)
    }

    async fn offer(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let job = Job::new(self.workspace_id, self.job).to_receiver(receiver(&self.url));
        claims::offer(tx, kinds::DELIVERY, job, self.item, Duration::ZERO).await
    }
}

fn serialize_shown<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown_receiver(url))
}

/// The receiver of a URL without secrets: an email address, or a server.
fn shown_receiver(url: &str) -> String {
    if url.starts_with(MAILTO) { url.to_owned() } else { shown(server_url(url)) }
}

/// The URL of the server of a reference; any other URL as it is.
fn server_url(url: &str) -> &str {
    url.strip_prefix(SLACK).or_else(|| url.strip_prefix(WEBHOOK)).unwrap_or(url)
}

fn as_time<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    from_ms(*ms).serialize(serializer)
}

fn as_optional_time<S: Serializer>(ms: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    ms.map(from_ms).serialize(serializer)
}

/// Selects the deliveries of a list.
#[derive(Clone, Debug)]
pub struct Filter {
    pub state: Option<State>,
    /// A workspace's name.
    pub workspace: Option<String>,
    /// Their subject: an export's object_prefix, a transactional email's dispatch_id.
    pub subject: Option<String>,
    pub limit: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("unknown delivery {0}")]
    Unknown(Uuid),
    #[error("delivery {0} is still pending: it is retried automatically")]
    Pending(Uuid),
}

impl Retry for DeliveryError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Claim(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Unknown(_) | Self::Pending(_) => false,
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Claim(error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
            Self::Unknown(_) | Self::Pending(_) => false,
        }
    }
}

/// Stores the delivery and offers it to the workers, in the caller's transaction.
pub async fn enqueue(
    tx: &mut Tx,
    config: &Config,
    clock: &Clock,
    delivery: NewDelivery,
) -> Result<Uuid, StoreError> {
    let id = Uuid::now_v7();
    let receiver = receiver(&delivery.url);
    let (job, item) = (job(delivery.workspace_id, receiver), kinds::item_of(id));
    let now = clock.now_ms();
    let new = rows::New {
        id,
        workspace_id: delivery.workspace_id,
        kind: delivery.kind,
        subject: &delivery.subject,
        url: &delivery.url,
        body: &delivery.body,
        job,
        item,
        request_id: &delivery.request_id,
        created_at: now,
        retry_until: now + retry_ms(config),
        follows: delivery.follows,
    };
    let must_wait = match delivery.follows {
        Some(earlier) => rows::is_pending(tx, earlier).await?,
        None => false,
    };
    rows::insert(tx, &new).await?;
    if !must_wait {
        let job = Job::new(delivery.workspace_id, job).to_receiver(receiver);
        claims::offer(tx, kinds::DELIVERY, job, item, Duration::ZERO).await?;
    }
    Ok(id)
}

/// Offers the delivery that follows one that ends in this transaction. Both this and the insert of
/// a following delivery lock the row, so a concurrent insert either sees the end, or this waits for
/// the insert.
async fn offer_next(tx: &mut Tx, id: Uuid) -> Result<(), StoreError> {
    for delivery in rows::following(tx, id).await? {
        delivery.offer(tx).await?;
    }
    Ok(())
}

/// Sends an ended delivery again, with the same `webhook-id` and a new time limit.
pub async fn resend(app: &App, id: Uuid) -> Result<(), DeliveryError> {
    let mut tx = app.store.write().await?;
    let delivery = rows::by_id(&mut tx, id).await?.ok_or(DeliveryError::Unknown(id))?;
    let now = app.clock.now_ms();
    if !rows::reopen(&mut tx, id, now, now + retry_ms(&app.config)).await? {
        return Err(DeliveryError::Pending(id));
    }
    delivery.offer(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

/// The receiver of a URL: the same for one scheme, host and port, so that a slow receiver delays no
/// other. Each email address is a receiver.
fn receiver(url: &str) -> Uuid {
    let origin = Url::parse(server_url(url)).ok().map(|url| url.origin());
    let origin = origin.filter(Origin::is_tuple).map(|origin| origin.ascii_serialization());
    hashed(origin.as_deref().unwrap_or(url).as_bytes())
}

/// The job of a workspace's deliveries to a receiver: so workspaces take turns at it.
fn job(workspace: i32, receiver: Uuid) -> Uuid {
    hashed(&[receiver.as_bytes().as_slice(), &workspace.to_be_bytes()].concat())
}

fn hashed(bytes: &[u8]) -> Uuid {
    let mut id = [0; 16];
    id.copy_from_slice(&Sha256::digest(bytes)[..16]);
    uuid::Builder::from_custom_bytes(id).into_uuid()
}

/// The time limit of a delivery, in milliseconds.
pub fn retry_ms(config: &Config) -> i64 {
    millis(hours(config.deliveries.retry_hours))
}

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
    let workspace = Holder::Workspace(delivery.workspace_id);
    let _slot = tokio::select! {
        biased;
        slot = app.delivery_slots.0.reserve(workspace, SLOT_BYTES) => slot,
        // Others wait for the claim's slot.
        () = tokio::time::sleep(FULL_PAUSE) => {
            return Ok(claims::release_uncounted(&app.store, claim, FULL_PAUSE).await?);
        }
        () = stop.cancelled() => {
            return Ok(claims::release_uncounted(&app.store, claim, Duration::ZERO).await?);
        }
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
    work.instrument(span).await
}

async fn attempt(
    app: &App,
    emails: &impl EmailSender,
    claim: &Claim,
    stop: &CancellationToken,
    delivery: &Delivery,
) -> Result<(), DeliveryError> {
    let started = Instant::now();
    // A panic is a failed attempt like any other.
    let sending = send::send_until_stopped(app, emails, delivery, stop);
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

/// The state of a delivery after an attempt. The next one is after `pause`, or later if the receiver
/// asks for that. The last attempt happens when the time limit is reached.
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
        Err(Unsent::Undeclared) => AttemptResult {
            state: State::GivenUp,
            next_at: None,
            status: None,
            error: Some("the workspace no longer declares this receiver in notify".into()),
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
    fn a_receiver_is_a_scheme_a_host_and_a_port() {
        let example = receiver("https://example.com/a?b");
        for same in ["https://EXAMPLE.com:443/c", "https://user@example.com"] {
            assert_eq!(receiver(same), example, "{same}");
        }
        for other in
            ["http://example.com/a?b", "https://example.com:8443/", "https://a.example.com"]
        {
            assert_ne!(receiver(other), example, "{other}");
        }
        assert_ne!(receiver("no address"), receiver("none either"));
        assert_ne!(receiver("mailto:a@h"), receiver("mailto:b@h"));
        assert_eq!(receiver("slack+https://example.com/#hash"), example);
        assert_eq!(receiver("notify+https://example.com/#hash"), example);
        assert_eq!(job(1, example), job(1, example));
        assert_ne!(job(1, example), job(2, example), "a job is of one workspace");
        assert_ne!(job(1, example), job(1, receiver("http://example.com")));
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (url, expected) in [
            ("https://ann:pass@h/services/T1/hidden?token=hidden123#f", "https://h"),
            ("https://h:8443/p", "https://h:8443"),
            ("http://[::1]:80/", "http://[::1]"),
            ("mailto:hidden@h", "***"),
            ("no address?token=hidden123", "***"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn a_list_shows_addresses_of_emails_and_servers_of_others() {
        for (url, expected) in [
            ("mailto:ops@acme.example", "mailto:ops@acme.example"),
            ("slack+https://hooks.slack.example/#hash", "https://hooks.slack.example"),
            ("notify+https://hooks.example/#hash", "https://hooks.example"),
            ("https://h/services/hidden", "https://h"),
        ] {
            assert_eq!(shown_receiver(url), expected);
        }
    }

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
    fn a_notification_without_a_receiver_ends_before_its_time_limit() {
        let next = state_after(Err(Unsent::Undeclared), 1_000, 9_000, Duration::ZERO);
        assert_eq!((next.state, next.next_at), (State::GivenUp, None));
        assert_eq!((next.status, next.finished_at), (None, Some(1_000)));
        assert!(next.error.is_some());
    }
}
