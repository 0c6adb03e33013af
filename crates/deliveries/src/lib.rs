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
//! `resend` makes a pending delivery due at once. If it is due already, or a worker makes an
//! attempt at it, `resend` has no effect. Its time limit and the pauses after further failures stay
//! the same, so that repeated requests do not prolong the attempts.
//!
//! A delivery is sent at least once, with one `webhook-id`. Every status except 2xx is retried,
//! including 410: a proxy in front of a receiver that moves can return it. A receiver that no
//! longer exists costs only a few requests an hour for a day.
//!
//! A delivery that [follows](NewDelivery::follows) another one is offered to the workers only after
//! that has ended, so that deliveries about one subject arrive in order.
//!
//! Notifications by email go to the workspace's relay ([`EmailSender`]), with one Message-ID.
//!
//! A receiver that the workspace file no longer declares gets nothing more: its notifications are
//! given up at the next attempt. A postback goes to the URL that is declared at the attempt, and is
//! given up if there is none.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | the requests of a workspace for its deliveries |
//! | `attempt`, `send` | one attempt and its outcome; what is sent, by the kind of the delivery |
//! | `rows`, `list_rows`, `given_up_rows` | the SQL |
//!
//! It promises: a delivery that was stored is sent until its receiver accepts it or its time limit
//! is reached, whichever process dies. A workspace's slow receivers do not delay the deliveries of
//! others.
//!
//! Start with [`enqueue`], which stores a delivery in the transaction of its cause, and [`run`].

pub mod api;
mod attempt;
mod given_up_rows;
mod list_rows;
mod rows;
mod send;

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use url::{Origin, Url};
use uuid::Uuid;

use gateway::app::App;
use gateway::workspaces::notify::{SLACK, WEBHOOK};
use kit::clock::{Clock, from_ms, hours, millis};
use kit::derived_ids;
use kit::retry::Retry;
use runtime::audit::{self, Change};
use runtime::config::Config;
use runtime::kinds;
use runtime::outbound::shown;
use store::claims::{self, ClaimError, Job};
use store::{StoreError, Tx, from_row, text_enum};

pub use api::ListedDelivery;
pub use attempt::{give_up_after_deadline, run};
pub use given_up_rows::{GivenUp, given_up_since};
pub use list_rows::{DeliveryPage, Key, Selection, about, find as find_listed, list_for_workspace};
pub use rows::{by_id, find_for_workspace, list};
pub use send::{EmailContent, EmailSender, NotificationEmail};

/// The kind of the callback of an export.
pub const EXPORT_CALLBACK: &str = "export_callback";

/// The kind of a postback about a transactional email's status.
pub const STATUS_POSTBACK: &str = "transactional_postback";

/// The kinds of notifications about exports: signed requests, requests to Slack, and emails.
pub const EXPORT_NOTIFICATION: &str = "export_notification";
pub const SLACK_NOTIFICATION: &str = "slack_notification";
pub const EMAIL_NOTIFICATION: &str = "email_notification";

/// All kinds.
pub const KINDS: [&str; 5] =
    [EXPORT_CALLBACK, STATUS_POSTBACK, EXPORT_NOTIFICATION, SLACK_NOTIFICATION, EMAIL_NOTIFICATION];

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
    /// May have addresses that need no key: [`shown_body`](Self::shown_body) is for printing.
    #[serde(serialize_with = "serialize_shown_body")]
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
        webhook_id(self.id)
    }

    /// The URL without its secrets.
    pub fn shown_url(&self) -> String {
        shown_receiver(&self.url)
    }

    /// The body without the signatures of download addresses.
    pub fn shown_body(&self) -> String {
        without_signatures(&self.body)
    }

    /// The job of its claim.
    fn claim_job(&self) -> Job {
        Job::new(self.workspace_id, self.job).to_receiver(receiver(&self.url))
    }
}

/// The `webhook-id` of a delivery.
fn webhook_id(id: Uuid) -> String {
    format!("msg_{}", id.simple())
}

fn serialize_shown<S: Serializer>(url: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown_receiver(url))
}

fn serialize_shown_body<S: Serializer>(body: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&without_signatures(body))
}

/// Replaces the signatures of the download addresses in a text.
fn without_signatures(text: &str) -> String {
    const PARAMETER: &str = "signature=";
    let is_signature = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '%');
    let mut parts = text.split(PARAMETER);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(is_signature);
        let mask = if rest.len() < part.len() { "***" } else { "" };
        shown.extend([PARAMETER, mask, rest]);
    }
    shown
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
    /// Only those after this one, in the order of the list.
    pub after: Option<Uuid>,
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
    #[error(
        "delivery {0} waits for the delivery before it about the same subject: resend that one, \
         see `longshore deliveries list --subject`"
    )]
    Waiting(Uuid),
}

impl Retry for DeliveryError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Claim(error) => error.can_retry(),
            Self::Store(error) => error.can_retry(),
            Self::Unknown(_) | Self::Waiting(_) => false,
        }
    }

    fn needs_newer_version(&self) -> bool {
        match self {
            Self::Claim(error) => error.needs_newer_version(),
            Self::Store(error) => error.needs_newer_version(),
            Self::Unknown(_) | Self::Waiting(_) => false,
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
        Some(earlier) => rows::lock_state(tx, earlier).await? == Some(State::Pending),
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
        let job = delivery.claim_job();
        claims::offer(tx, kinds::DELIVERY, job, delivery.item, Duration::ZERO).await?;
    }
    Ok(())
}

/// Sends an ended delivery again, with the same `webhook-id` and a new time limit; or a pending one
/// at once. For a command.
pub async fn resend(app: &App, id: Uuid) -> Result<(), DeliveryError> {
    let mut tx = app.store.write().await?;
    let delivery = rows::by_id(&mut tx, id).await?.ok_or(DeliveryError::Unknown(id))?;
    reopen_by_command(app, &mut tx, &delivery).await?;
    tx.commit().await?;
    Ok(())
}

/// [`resend`] of a workspace's delivery, in the caller's transaction. Returns the change, if there
/// is one.
pub async fn resend_for_workspace(
    app: &App,
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<Change>, DeliveryError> {
    let found = rows::find_for_workspace(tx, workspace, id).await?;
    let found = found.ok_or(DeliveryError::Unknown(id))?;
    reopen(app, tx, &found).await
}

/// [`resend`], if the delivery is still in this state. Returns whether it is.
pub async fn resend_in_state(app: &App, id: Uuid, state: State) -> Result<bool, DeliveryError> {
    let mut tx = app.store.write().await?;
    let found = rows::by_id(&mut tx, id).await?;
    let Some(delivery) = found.filter(|delivery| delivery.state == state) else {
        return Ok(false);
    };
    reopen_by_command(app, &mut tx, &delivery).await?;
    tx.commit().await?;
    Ok(true)
}

async fn reopen_by_command(
    app: &App,
    tx: &mut Tx,
    delivery: &Delivery,
) -> Result<(), DeliveryError> {
    let Some(Change { action, object, details }) = reopen(app, tx, delivery).await? else {
        return Ok(());
    };
    let (now, workspace) = (app.clock.now_ms(), Some(delivery.workspace_id));
    Ok(audit::record_command(tx, now, workspace, (action, object), details).await?)
}

/// Makes a delivery pending and due, whatever its state is by now. One that is due, or at which a
/// worker makes an attempt, stays as it is. Returns the change for the audit log, if there is one.
async fn reopen(
    app: &App,
    tx: &mut Tx,
    delivery: &Delivery,
) -> Result<Option<Change>, DeliveryError> {
    if rows::is_waiting(tx, delivery.id).await? {
        return Err(DeliveryError::Waiting(delivery.id));
    }
    let now = app.clock.now_ms();
    // The claim first: the end of an attempt locks both in this order.
    let is_due = claims::make_due(tx, kinds::DELIVERY, delivery.claim_job(), delivery.item).await?;
    if !is_due {
        return Ok(None);
    }
    let before = rows::lock_state(tx, delivery.id).await?.unwrap_or(delivery.state);
    rows::reopen(tx, delivery.id, now, now + retry_ms(&app.config)).await?;
    // What is pending is sent sooner: a change, although its state stays.
    let states = json!({ "before": before.name(), "after": State::Pending.name() });
    Ok(Some(Change::new("delivery.resend", delivery.id.to_string(), states)))
}

/// Deletes deliveries that ended `transactional.keep_days` ago.
pub async fn sweep(app: &App, stop: &CancellationToken) -> Result<(), StoreError> {
    let kept = millis(hours(24 * u64::from(app.config.transactional.keep_days)));
    rows::OLD.delete(&app.store, &[app.store.now().await? - kept], stop).await
}

/// The receiver of a URL: the same for one scheme, host and port, so that a slow receiver delays no
/// other. Each email address is a receiver.
fn receiver(url: &str) -> Uuid {
    let origin = Url::parse(server_url(url)).ok().map(|url| url.origin());
    let origin = origin.filter(Origin::is_tuple).map(|origin| origin.ascii_serialization());
    derived_ids::v8(&[origin.as_deref().unwrap_or(url).as_bytes()])
}

/// The job of a workspace's deliveries to a receiver: so workspaces take turns at it.
fn job(workspace: i32, receiver: Uuid) -> Uuid {
    derived_ids::v8(&[receiver.as_bytes(), &workspace.to_be_bytes()])
}

/// The time limit of a delivery, in milliseconds.
pub fn retry_ms(config: &Config) -> i64 {
    millis(hours(config.deliveries.retry_hours))
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
    fn stored_receivers_and_jobs_keep_their_ids() {
        let id = |text: &str| Uuid::parse_str(text).unwrap();
        let example = receiver("https://example.com/a?b");
        assert_eq!(example, id("100680ad-546c-86a5-b7f4-2f52df33b4cf"));
        let ops = receiver("mailto:ops@acme.example");
        assert_eq!(ops, id("118e44d3-17ed-8556-ad00-04de924a3579"));
        assert_eq!(job(1, example), id("dfe762a3-9f2b-8f9e-9b0c-ad1f181df187"));
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
    fn a_shown_body_has_no_signatures() {
        for (body, expected) in [
            (r#"{"success":true}"#, r#"{"success":true}"#),
            (
                r#"{"url":"https://h/download?signature=dqIqj_f-o","m":"https://h/m?signature=x%3D&a=1"}"#,
                r#"{"url":"https://h/download?signature=***","m":"https://h/m?signature=***&a=1"}"#,
            ),
            ("<https://h/d?signature=é|d> signature=", "<https://h/d?signature=é|d> signature="),
        ] {
            assert_eq!(without_signatures(body), expected);
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
}
