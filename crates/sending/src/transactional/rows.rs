//! The SQL of transactional emails.
//!
//! The claim of an email ([`kinds::TRANSACTIONAL`]) names its worker. The columns `due_at`,
//! `again_at` and `owner` are the lease of release 0.1.0, whose workers may run at the same time
//! while a fleet is upgraded or rolled back.

use std::time::Duration;

use uuid::Uuid;

use super::State;
use kit::clock::{hours, millis};
use runtime::kinds;
use store::claims::{self, Claim};
use store::retention::OldRows;
use store::{StoreError, Tx, execute, from_row, now_sql, old_rows, on};

/// How long an external_send_id identifies its first send (docs/reference/api/transactional.md).
pub const KEY_LIFETIME: Duration = hours(24);

/// How long a request waits for another request in progress with the same external_send_id.
const SET_SHORT_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout TO '1s'";

/// How long workers of release 0.1.0 leave an email to newer workers.
const OLD_WORKER_DELAY: Duration = Duration::from_secs(10 * 60);

/// Maximum number of rows that one statement offers.
const OFFER_BATCH: i64 = 1_000;

/// An email to write.
#[derive(Debug)]
pub struct New<'a> {
    pub dispatch_id: Uuid,
    pub workspace_id: i32,
    pub campaign_id: Uuid,
    pub external_send_id: Option<&'a str>,
    /// JSON: [`User`](messages::recipient::User).
    pub recipient: &'a str,
    /// The attributes, in the form for [`immediate`](tracking::immediate).
    pub attributes: Option<&'a str>,
    /// A JSON object.
    pub trigger_properties: Option<&'a str>,
    pub request_id: &'a str,
    pub received_at: i64,
    pub enqueued_at: i64,
}

/// A stored email. Times are milliseconds since the epoch.
#[derive(Clone, Debug)]
pub struct Email {
    pub dispatch_id: Uuid,
    pub workspace_id: i32,
    pub campaign_id: Uuid,
    pub external_send_id: Option<String>,
    pub request_id: String,
    pub state: State,
    pub reason: Option<String>,
    /// The recipient and the data; deleted once the email is settled.
    pub recipient: Option<String>,
    pub trigger_properties: Option<String>,
    /// Kept until they are applied.
    pub attributes: Option<String>,
    /// Set once the user is known.
    pub service_id: Option<Uuid>,
    pub received_at: i64,
    pub enqueued_at: i64,
    /// When it was stored, by the database's clock; none if an earlier release stored it.
    pub accepted_at: Option<i64>,
    pub executed_at: Option<i64>,
    pub sent_at: Option<i64>,
    /// When the email changed to its state.
    pub state_at: i64,
    /// How often it was postponed.
    pub put_off: i32,
    /// The delivery of the last reported state.
    pub postback_id: Option<Uuid>,
    /// The hash of the address to which it is sent.
    pub address: Option<Vec<u8>>,
}
from_row! {
    Email {
        dispatch_id, workspace_id, campaign_id, external_send_id, request_id, state, reason,
        recipient, trigger_properties, attributes, service_id, received_at, enqueued_at,
        accepted_at, executed_at, sent_at, state_at, put_off, postback_id, address,
    }
}

/// The columns of an email.
macro_rules! columns {
    ($from:literal) => {
        concat!(
            "dispatch_id, workspace_id, campaign_id, external_send_id, request_id, state, reason,
             recipient, trigger_properties, attributes, service_id, received_at, enqueued_at,
             accepted_at, executed_at, sent_at, state_at, put_off, postback_id, address",
            $from
        )
    };
}

/// A statement that may name the database's time as `clock.now`.
macro_rules! at_now {
    ($tx:expr, $rest:expr) => {
        if $tx.is_postgres() {
            concat!("WITH clock (now) AS (SELECT ", now_sql!(postgres), ") ", $rest)
        } else {
            concat!("WITH clock (now) AS (SELECT ", now_sql!(sqlite), ") ", $rest)
        }
    };
}

// Accepting an email ----------------------------------------------------------------------

/// Assigns an external_send_id to a new email; returns whether it was free. If another request in
/// progress has it, waits for the end of that request, at most a second.
pub async fn take_key(
    tx: &mut Tx,
    workspace: i32,
    external_send_id: &str,
    dispatch_id: Uuid,
) -> Result<bool, StoreError> {
    if tx.is_postgres() {
        execute!(tx, sqlx::query(SET_SHORT_LOCK_TIMEOUT));
    }
    let sql = at_now!(
        tx,
        "INSERT INTO transactional_keys AS former
             (workspace_id, external_send_id, dispatch_id, taken_at)
         SELECT $1, $2, $3, clock.now FROM clock WHERE true
         ON CONFLICT (workspace_id, external_send_id) DO UPDATE
         SET dispatch_id = excluded.dispatch_id, taken_at = excluded.taken_at
         WHERE former.taken_at <= excluded.taken_at - $4"
    );
    let inserted = execute!(
        tx,
        sqlx::query(sql)
            .bind(workspace)
            .bind(external_send_id)
            .bind(dispatch_id)
            .bind(millis(KEY_LIFETIME))
    );
    Ok(inserted == 1)
}

/// The email that has an external_send_id.
pub async fn by_key(
    tx: &mut Tx,
    workspace: i32,
    external_send_id: &str,
) -> Result<Option<Email>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(
            " FROM transactional_emails
              WHERE dispatch_id = (SELECT k.dispatch_id FROM transactional_keys k
                                   WHERE k.workspace_id = $1 AND k.external_send_id = $2)"
        )
    );
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(external_send_id).fetch_optional(c).await?))
}

/// Writes an email, and offers it to the workers.
pub async fn insert(tx: &mut Tx, new: &New<'_>) -> Result<(), StoreError> {
    let sql = at_now!(
        tx,
        "INSERT INTO transactional_emails
             (dispatch_id, workspace_id, campaign_id, external_send_id, recipient, attributes,
              trigger_properties, request_id, state, received_at, enqueued_at, accepted_at,
              state_at, due_at, again_at)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, 'processing', $9, $10, clock.now, $10,
                clock.now + $11, clock.now + $11
         FROM clock"
    );
    execute!(
        tx,
        sqlx::query(sql)
            .bind(new.dispatch_id)
            .bind(new.workspace_id)
            .bind(new.campaign_id)
            .bind(new.external_send_id)
            .bind(new.recipient)
            .bind(new.attributes)
            .bind(new.trigger_properties)
            .bind(new.request_id)
            .bind(new.received_at)
            .bind(new.enqueued_at)
            .bind(millis(OLD_WORKER_DELAY))
    );
    offer(tx, new.workspace_id, new.dispatch_id).await
}

async fn offer(tx: &mut Tx, workspace: i32, dispatch_id: Uuid) -> Result<(), StoreError> {
    let job = claims::Job::new(workspace, kinds::job_of_workspace(workspace));
    claims::offer(tx, kinds::TRANSACTIONAL, job, item_of(dispatch_id), Duration::ZERO).await
}

/// The item of an email's claim: the beginning of the email's id, so that the primary key finds it.
fn item_of(dispatch_id: Uuid) -> i64 {
    let (high, _) = dispatch_id.as_u64_pair();
    (high >> 1) as i64
}

/// The ids that begin with an item.
fn ids_of(item: i64) -> (Uuid, Uuid) {
    let first = item.unsigned_abs() << 1;
    (Uuid::from_u64_pair(first, 0), Uuid::from_u64_pair(first | 1, u64::MAX))
}

pub async fn by_id(tx: &mut Tx, dispatch_id: Uuid) -> Result<Option<Email>, StoreError> {
    let sql = concat!("SELECT ", columns!(" FROM transactional_emails WHERE dispatch_id = $1"));
    Ok(on!(tx, c => sqlx::query_as(sql).bind(dispatch_id).fetch_optional(c).await?))
}

/// The email with that id, locked until the end of the transaction.
pub async fn lock(tx: &mut Tx, dispatch_id: Uuid) -> Result<Option<Email>, StoreError> {
    let sql = if tx.is_postgres() {
        concat!("SELECT ", columns!(" FROM transactional_emails WHERE dispatch_id = $1 FOR UPDATE"))
    } else {
        return by_id(tx, dispatch_id).await;
    };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(dispatch_id).fetch_optional(c).await?))
}

// Sending -----------------------------------------------------------------------------------

/// The email of a claim, locked until the end of the transaction; none if it no longer waits.
pub async fn claimed(tx: &mut Tx, claim: &Claim) -> Result<Option<Email>, StoreError> {
    macro_rules! claimed {
        ($lock:literal) => {
            concat!(
                "SELECT ",
                columns!(" FROM transactional_emails WHERE dispatch_id BETWEEN $1 AND $2"),
                " AND workspace_id = $3 AND state = 'processing'",
                $lock
            )
        };
    }
    let sql = if tx.is_postgres() { claimed!(" FOR UPDATE") } else { claimed!("") };
    let (first, last) = ids_of(claim.item);
    let workspace = kinds::workspace_of_job(claim.job);
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(first).bind(last).bind(workspace).fetch_optional(c).await?))
}

/// Stores when the processing of an email began, its user, and that the attributes are applied, so
/// that they are never applied again. The email must be locked by this transaction.
pub async fn store_start(
    tx: &mut Tx,
    dispatch_id: Uuid,
    executed_at: i64,
    service_id: Option<Uuid>,
    address: Option<&[u8]>,
) -> Result<(), StoreError> {
    let sql = at_now!(
        tx,
        "UPDATE transactional_emails
         SET executed_at = $2, service_id = $3, attributes = NULL, due_at = clock.now + $4,
             again_at = clock.now + $4, address = $5
         FROM clock WHERE dispatch_id = $1"
    );
    execute!(
        tx,
        sqlx::query(sql)
            .bind(dispatch_id)
            .bind(executed_at)
            .bind(service_id)
            .bind(millis(OLD_WORKER_DELAY))
            .bind(address)
    );
    Ok(())
}

/// Stores that an email waits for another attempt, and how long.
pub async fn put_off(tx: &mut Tx, dispatch_id: Uuid, pause: Duration) -> Result<(), StoreError> {
    let sql = at_now!(
        tx,
        "UPDATE transactional_emails
         SET due_at = clock.now + $2, again_at = clock.now + $2, put_off = put_off + 1
         FROM clock WHERE dispatch_id = $1"
    );
    let pause = millis(pause.saturating_add(OLD_WORKER_DELAY));
    execute!(tx, sqlx::query(sql).bind(dispatch_id).bind(pause));
    Ok(())
}

/// A step from one state to another.
#[derive(Clone, Debug)]
pub struct Step {
    pub from: State,
    pub to: State,
    pub at: i64,
    pub reason: Option<String>,
    /// Only for the step to `sent`.
    pub sent_at: Option<i64>,
    /// The delivery of its postback.
    pub postback_id: Option<Uuid>,
}

/// Changes the state; returns whether the email was in the expected state. Deletes the data for its
/// template.
pub async fn advance(tx: &mut Tx, dispatch_id: Uuid, step: &Step) -> Result<bool, StoreError> {
    let advanced = execute!(
        tx,
        sqlx::query(
            "UPDATE transactional_emails
             SET state = $3, state_at = $4, reason = $5, sent_at = coalesce($6, sent_at),
                 postback_id = coalesce($7, postback_id), owner = NULL, recipient = NULL,
                 trigger_properties = NULL, attributes = NULL
             WHERE dispatch_id = $1 AND state = $2",
        )
        .bind(dispatch_id)
        .bind(step.from.name())
        .bind(step.to.name())
        .bind(step.at)
        .bind(step.reason.as_deref())
        .bind(step.sent_at)
        .bind(step.postback_id)
    );
    Ok(advanced == 1)
}

// Waiting ------------------------------------------------------------------------------------

/// Whether any email waits that only workers of release 0.1.0 would process.
pub async fn any_without_claim(tx: &mut Tx) -> Result<bool, StoreError> {
    let sql = at_now!(
        tx,
        "SELECT 1 FROM transactional_emails, clock
         WHERE state = 'processing' AND again_at <= clock.now LIMIT 1"
    );
    Ok(on!(tx, c => sqlx::query_scalar::<_, i32>(sql).fetch_optional(c).await?).is_some())
}

/// Offers some of these emails, the oldest first, unless a worker of that release has them; returns
/// how many.
pub async fn offer_some(tx: &mut Tx) -> Result<usize, StoreError> {
    macro_rules! offered {
        ($lock:literal) => {
            at_now!(
                tx,
                concat!(
                    "UPDATE transactional_emails
                     SET due_at = clock.now + $1, again_at = clock.now + $1
                     FROM clock WHERE due_at <= clock.now AND dispatch_id IN (
                         SELECT dispatch_id FROM transactional_emails
                         WHERE state = 'processing' AND again_at <= (SELECT now FROM clock)
                         ORDER BY again_at LIMIT $2 ",
                    $lock,
                    ") RETURNING workspace_id, dispatch_id"
                )
            )
        };
    }
    let sql = if tx.is_postgres() { offered!("FOR UPDATE SKIP LOCKED") } else { offered!("") };
    let emails: Vec<(i32, Uuid)> = on!(tx, c => sqlx::query_as(sql)
        .bind(millis(OLD_WORKER_DELAY)).bind(OFFER_BATCH).fetch_all(c).await?);
    for (workspace, dispatch_id) in &emails {
        offer(tx, *workspace, *dispatch_id).await?;
    }
    Ok(emails.len())
}

// Deletion -----------------------------------------------------------------------------------

/// Emails that were received before a time, are settled, and whose postbacks are deleted: the
/// erasure of a user finds postbacks by their email. The subquery forces an index lookup for each
/// email.
pub const OLD_EMAILS: OldRows = old_rows!(
    "transactional_emails",
    "received_at < $1 AND state <> 'processing'
     AND (SELECT deliveries.id FROM deliveries
          WHERE deliveries.id = transactional_emails.postback_id) IS NULL",
    1_000
);

/// Keys stored before a time.
pub const OLD_KEYS: OldRows =
    old_rows!("transactional_keys", "taken_at < $1", 1_000, key = "workspace_id, external_send_id");

/// Deletes a user's emails and their postbacks. Locks the emails first, as the change of a state
/// does: otherwise the postback of a change that is not committed would stay.
pub async fn erase_user(tx: &mut Tx, workspace: i32, service_id: Uuid) -> Result<(), StoreError> {
    if tx.is_postgres() {
        let sql = "SELECT 1 FROM transactional_emails WHERE workspace_id = $1 AND service_id = $2
                   ORDER BY dispatch_id FOR UPDATE";
        execute!(tx, sqlx::query(sql).bind(workspace).bind(service_id));
    }
    let statements = [
        "DELETE FROM deliveries WHERE id IN (
             WITH RECURSIVE told (id) AS (
                 SELECT postback_id FROM transactional_emails
                 WHERE workspace_id = $1 AND service_id = $2 AND postback_id IS NOT NULL
                 UNION ALL
                 SELECT d.follows FROM deliveries d JOIN told ON told.id = d.id
                 WHERE d.follows IS NOT NULL)
             SELECT id FROM told)",
        "DELETE FROM transactional_emails WHERE workspace_id = $1 AND service_id = $2",
    ];
    for sql in statements {
        execute!(tx, sqlx::query(sql).bind(workspace).bind(service_id));
    }
    Ok(())
}

// The SLA ------------------------------------------------------------------------------------

/// The emails of a campaign in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hour {
    pub workspace: String,
    pub campaign_id: Uuid,
    /// When the hour began.
    pub hour: i64,
    /// Emails that were received, except aborted ones and those whose minute is not over.
    pub emails: i64,
    /// Emails that the relay accepted or rejected within a minute.
    pub in_time: i64,
    /// Emails that the package covers (the first ones of the hour), and how many of these were in
    /// time.
    pub covered: i64,
    pub covered_in_time: i64,
    /// Number of emails per hour that the package covers; none if the campaign does not declare it,
    /// or was deleted.
    pub package: Option<i64>,
}
from_row! {
    Hour {
        workspace, campaign_id, hour, emails, in_time, covered, covered_in_time, package,
    }
}

/// The hours since a time, oldest first, of one workspace or of all. An email that the relay
/// rejected immediately also counts, with the time of the rejection.
pub async fn hours_since(
    tx: &mut Tx,
    workspace: Option<&str>,
    since: i64,
) -> Result<Vec<Hour>, StoreError> {
    macro_rules! hours {
        ($package:literal) => {
            at_now!(
                tx,
                concat!(
                    ", handed AS (
                         SELECT workspace_id, campaign_id, dispatch_id, received_at,
                                COALESCE(sent_at, CASE WHEN state = 'bounced' THEN state_at END)
                                    AS handed_at
                         FROM transactional_emails
                         WHERE received_at >= $2 AND state <> 'aborted'
                     ), emails AS (
                         SELECT e.workspace_id, e.campaign_id,
                                e.received_at - e.received_at % 3600000 AS hour,
                                CASE WHEN e.handed_at - e.received_at <= 60000 THEN 1 ELSE 0 END
                                    AS in_time,
                                row_number() OVER (
                                    PARTITION BY e.workspace_id, e.campaign_id,
                                                 e.received_at - e.received_at % 3600000
                                    ORDER BY e.received_at, e.dispatch_id) AS number
                         FROM handed e, clock
                         WHERE e.handed_at IS NOT NULL OR e.received_at < clock.now - 60000
                     ), packages AS (
                         SELECT c.workspace_id, c.id, CAST(",
                    $package,
                    " AS BIGINT) AS package FROM campaigns c WHERE c.kind = 'transactional'
                     )
                     SELECT w.name AS workspace, e.campaign_id, e.hour, count(*) AS emails,
                            CAST(sum(e.in_time) AS BIGINT) AS in_time,
                            CAST(sum(CASE WHEN e.number <= p.package THEN 1 ELSE 0 END) AS BIGINT)
                                AS covered,
                            CAST(sum(CASE WHEN e.number <= p.package THEN e.in_time ELSE 0 END)
                                AS BIGINT) AS covered_in_time,
                            p.package
                     FROM emails e
                     JOIN workspaces w ON w.id = e.workspace_id
                     LEFT JOIN packages p
                         ON p.workspace_id = e.workspace_id AND p.id = e.campaign_id
                     WHERE $1 IS NULL OR w.name = $1
                     GROUP BY w.name, e.campaign_id, e.hour, p.package
                     ORDER BY w.name, e.campaign_id, e.hour"
                )
            )
        };
    }
    let sql = if tx.is_postgres() {
        hours!("c.content::json ->> 'sla_per_hour'")
    } else {
        hours!("c.content ->> 'sla_per_hour'")
    };
    Ok(on!(tx, c => sqlx::query_as(sql).bind(workspace).bind(since).fetch_all(c).await?))
}
