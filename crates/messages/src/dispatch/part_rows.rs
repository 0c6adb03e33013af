//! The SQL of parts: their users, progress and outcomes.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::left_out::LeftOut;
use crate::dispatch::state::{Counts, MessageTotals};
use crate::order::{Named, Wave};
use gateway::workspaces::to_json;
use people::users::Position;
use people::users::suppressions::bounces::SentEmails;
use runtime::kinds;
use store::documents::parsed;
use store::{StoreError, Tx, execute, from_row, insert_rows, on};

/// A part to work on.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub dispatch_id: Uuid,
    pub number: i64,
    pub wave: Option<Wave>,
    pub recipients: Recipients,
    /// Whether all of its users have been processed.
    pub is_walked: bool,
    pub is_done: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Recipients {
    Named(Vec<Named>),
    /// Users after the first position, up to and including the second.
    UserRange(Position, Position),
}

/// The position of a part with listed users.
const NO_POSITION: Position = Position { slice: 0, service_id: Uuid::nil() };

pub(super) async fn insert_named(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    wave: Option<&Wave>,
    users: &[Named],
    (job, item): (Uuid, i64),
) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "INSERT INTO dispatch_parts (dispatch_id, part, wave, named, claim_job, claim_item,
                                         at_slice, at_id, to_slice, to_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $7, $8)",
        )
        .bind(dispatch)
        .bind(part)
        .bind(wave.map(to_json))
        .bind(to_json(users))
        .bind(job)
        .bind(item)
        .bind(NO_POSITION.slice)
        .bind(NO_POSITION.service_id)
    );
    Ok(())
}

/// Writes parts, numbered from `first`. Each ends with one of `ends`, and begins after the end of
/// the one before; the first begins after `from`.
pub(super) async fn insert(
    tx: &mut Tx,
    dispatch: Uuid,
    first: i64,
    wave: Option<&Wave>,
    from: Position,
    ends: &[Position],
) -> Result<(), StoreError> {
    let starts = std::iter::once(&from).chain(ends);
    let rows: Vec<(i64, &Position, &Position)> =
        (first..).zip(starts.zip(ends)).map(|(part, (from, to))| (part, from, to)).collect();
    let wave = wave.map(to_json);
    insert_rows!(tx, "dispatch_parts", rows, |row| {
        dispatch_id: dispatch,
        part: row.0,
        wave: wave.as_deref(),
        at_slice: row.1.slice,
        at_id: row.1.service_id,
        to_slice: row.2.slice,
        to_id: row.2.service_id,
    }, "");
    Ok(())
}

struct PartRow {
    dispatch_id: Uuid,
    part: i64,
    wave: Option<String>,
    named: Option<String>,
    at_slice: i16,
    at_id: Uuid,
    to_slice: i16,
    to_id: Uuid,
    is_walked: bool,
    is_done: bool,
}
from_row! {
    PartRow {
        dispatch_id, part, wave, named, at_slice, at_id, to_slice, to_id, is_walked, is_done,
    }
}

macro_rules! part {
    ($condition:literal) => {
        concat!(
            "SELECT dispatch_id, part, wave, named, at_slice, at_id, to_slice, to_id, is_walked,
                    is_done
             FROM dispatch_parts WHERE ",
            $condition
        )
    };
}

/// The part with this number.
pub(super) async fn by_number(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
) -> Result<Option<Part>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, PartRow>(part!("dispatch_id = $1 AND part = $2"))
        .bind(dispatch).bind(part).fetch_optional(c).await?)
    .map(read)
    .transpose()
}

/// The listed users of a dispatch: each of its waves has all of them. None if it has no list; empty
/// if all of its parts are done, because these no longer have theirs.
pub(super) async fn listed(tx: &mut Tx, dispatch: Uuid) -> Result<Option<Vec<Named>>, StoreError> {
    let named: Option<String> = on!(tx, c => sqlx::query_scalar(
        "SELECT named FROM dispatch_parts WHERE dispatch_id = $1 AND named IS NOT NULL
         ORDER BY is_done LIMIT 1",
    )
    .bind(dispatch).fetch_optional(c).await?);
    named.map(|named| parsed("dispatch_parts.named", dispatch, &named)).transpose()
}

/// The part of a claim for named users.
pub(super) async fn by_claim(
    tx: &mut Tx,
    job: Uuid,
    item: i64,
) -> Result<Option<Part>, StoreError> {
    on!(tx, c => sqlx::query_as::<_, PartRow>(part!("claim_job = $1 AND claim_item = $2"))
        .bind(job).bind(item).fetch_optional(c).await?)
    .map(read)
    .transpose()
}

fn read(row: PartRow) -> Result<Part, StoreError> {
    let id = row.dispatch_id;
    let wave =
        row.wave.as_deref().map(|text| parsed("dispatch_parts.wave", id, text)).transpose()?;
    let recipients = match &row.named {
        Some(named) => Recipients::Named(parsed("dispatch_parts.named", id, named)?),
        None => Recipients::UserRange(
            Position { slice: row.at_slice, service_id: row.at_id },
            Position { slice: row.to_slice, service_id: row.to_id },
        ),
    };
    let PartRow { part: number, is_walked, is_done, .. } = row;
    Ok(Part { dispatch_id: id, number, wave, recipients, is_walked, is_done })
}

/// The progress of a part.
pub(super) struct PartProgress {
    pub position: Position,
    pub is_walked: bool,
    /// Users who were processed, without those of other waves; and how many of them were excluded
    /// from some or all messages.
    pub walked: i64,
    pub left_out: LeftOut,
    /// The listed users, if their list changes.
    pub named: Option<Vec<Named>>,
}

/// Advances a part; returns whether its dispatch is still running.
pub(super) async fn advance(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    progress: &PartProgress,
) -> Result<bool, StoreError> {
    let advanced = execute!(
        tx,
        sqlx::query(
            "UPDATE dispatch_parts
             SET at_slice = $3, at_id = $4, is_walked = $5, walked = walked + $6,
                 unknown = unknown + $7, not_in_audience = not_in_audience + $8,
                 control_group = control_group + $9, unsubscribed = unsubscribed + $10,
                 capped = capped + $11, named = COALESCE($12, named),
                 too_late = too_late + $13
             WHERE dispatch_id = $1 AND part = $2
               AND EXISTS (SELECT 1 FROM dispatches WHERE id = $1 AND state = 'running')",
        )
        .bind(dispatch)
        .bind(part)
        .bind(progress.position.slice)
        .bind(progress.position.service_id)
        .bind(progress.is_walked)
        .bind(progress.walked)
        .bind(progress.left_out.unknown)
        .bind(progress.left_out.not_in_audience)
        .bind(progress.left_out.control_group)
        .bind(progress.left_out.unsubscribed)
        .bind(progress.left_out.capped)
        .bind(progress.named.as_ref().map(to_json))
        .bind(progress.left_out.too_late)
    );
    Ok(advanced == 1)
}

/// Counts the outcomes of a part's messages.
pub(super) async fn count(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    counts: &Counts,
) -> Result<(), StoreError> {
    let totals = &counts.totals;
    execute!(
        tx,
        sqlx::query(
            "UPDATE dispatch_parts
             SET sent = sent + $3, unreachable = unreachable + $4, aborted = aborted + $5,
                 failed = failed + $6, bounced = bounced + $7,
                 emails = COALESCE(emails, sent + bounced) + $8
             WHERE dispatch_id = $1 AND part = $2",
        )
        .bind(dispatch)
        .bind(part)
        .bind(totals.sent)
        .bind(totals.unreachable)
        .bind(totals.aborted)
        .bind(totals.failed)
        .bind(totals.bounced)
        .bind(counts.emails())
    );
    Ok(())
}

/// What a dispatch has sent.
pub(super) async fn sent_emails(tx: &mut Tx, dispatch: Uuid) -> Result<SentEmails, StoreError> {
    let (emails, has_ended) = on!(tx, c => sqlx::query_as(
        "SELECT CAST(COALESCE(sum(COALESCE(emails, sent + bounced)), 0) AS BIGINT),
                EXISTS (SELECT 1 FROM dispatches WHERE id = $1 AND finished_at IS NOT NULL)
         FROM dispatch_parts WHERE dispatch_id = $1",
    )
    .bind(dispatch).fetch_one(c).await?);
    Ok(SentEmails { emails, has_ended })
}

/// The counts of parts, added up: the columns of [`MessageTotals`] and [`LeftOut`].
pub const SUMMED_COUNTS: &str = "
    CAST(COALESCE(sum(sent), 0) AS BIGINT) AS sent,
    CAST(COALESCE(sum(unreachable), 0) AS BIGINT) AS unreachable,
    CAST(COALESCE(sum(aborted), 0) AS BIGINT) AS aborted,
    CAST(COALESCE(sum(failed), 0) AS BIGINT) AS failed,
    CAST(COALESCE(sum(bounced), 0) AS BIGINT) AS bounced,
    CAST(COALESCE(sum(unknown), 0) AS BIGINT) AS unknown,
    CAST(COALESCE(sum(not_in_audience), 0) AS BIGINT) AS not_in_audience,
    CAST(COALESCE(sum(control_group), 0) AS BIGINT) AS control_group,
    CAST(COALESCE(sum(too_late), 0) AS BIGINT) AS too_late,
    CAST(COALESCE(sum(unsubscribed), 0) AS BIGINT) AS unsubscribed,
    CAST(COALESCE(sum(capped), 0) AS BIGINT) AS capped";

/// What all parts of a dispatch did.
pub(super) struct PartTotals {
    /// Users who were processed.
    pub walked: i64,
    pub messages: MessageTotals,
    pub left_out: LeftOut,
}
from_row! { PartTotals { walked } flatten { messages, left_out } }

pub(super) async fn totals(tx: &mut Tx, dispatch: Uuid) -> Result<PartTotals, StoreError> {
    let sql = AssertSqlSafe(format!(
        "SELECT CAST(COALESCE(sum(walked), 0) AS BIGINT) AS walked, {SUMMED_COUNTS}
         FROM dispatch_parts WHERE dispatch_id = $1"
    ));
    Ok(on!(tx, c => sqlx::query_as(sql).bind(dispatch).fetch_one(c).await?))
}

/// Withdraws the claims of a dispatch's parts that no worker holds. Returns the parts whose last
/// worker stopped, and returned its claim without settling them.
pub(super) async fn withdraw_unheld(tx: &mut Tx, dispatch: Uuid) -> Result<Vec<i64>, StoreError> {
    // The statements that delete also report the attempts: a claim that a worker returns meanwhile
    // either is reported, or stays for the next worker.
    let mut withdrawn: Vec<(i64, i32)> = on!(&mut *tx, c => sqlx::query_as(
        "DELETE FROM claims WHERE kind = $2 AND job = $1 AND owner IS NULL
         RETURNING item, attempt",
    )
    .bind(dispatch).bind(kinds::DISPATCH_PART.name()).fetch_all(c).await?);
    let named: Vec<(i64, i32)> = on!(tx, c => sqlx::query_as(
        "DELETE FROM claims
         WHERE kind = $2 AND owner IS NULL
           AND (job, item) IN (SELECT claim_job, claim_item FROM dispatch_parts
                               WHERE dispatch_id = $1 AND claim_item IS NOT NULL)
         RETURNING (SELECT part FROM dispatch_parts
                    WHERE claim_job = claims.job AND claim_item = claims.item), attempt",
    )
    .bind(dispatch).bind(kinds::DISPATCH_NAMED.name()).fetch_all(c).await?);
    withdrawn.extend(named);
    let returned = withdrawn.into_iter().filter(|(_, attempt)| *attempt > 0);
    Ok(returned.map(|(part, _)| part).collect())
}

pub(super) async fn mark_done(tx: &mut Tx, dispatch: Uuid, part: i64) -> Result<(), StoreError> {
    execute!(
        tx,
        sqlx::query(
            "UPDATE dispatch_parts SET is_done = TRUE, named = CASE WHEN named IS NULL THEN NULL
                                                                   ELSE '[]' END,
                                       claim_job = NULL, claim_item = NULL
             WHERE dispatch_id = $1 AND part = $2",
        )
        .bind(dispatch)
        .bind(part)
    );
    Ok(())
}

/// The largest number of messages that a dispatch may still send after it ended early: the
/// unsettled ones of the parts that workers hold. Each worker checks before each message that its
/// dispatch is running, so these are the only ones that can be in flight.
pub async fn count_in_flight(tx: &mut Tx, dispatch: Uuid) -> Result<i64, StoreError> {
    // Counted part by part: the others may have millions of messages.
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT CAST(COALESCE(sum((
                    SELECT count(*) FROM messages
                    WHERE dispatch_id = $1 AND part = held.part
                      AND state IN ('pending', 'waiting', 'cancelled'))), 0) AS BIGINT)
         FROM (SELECT item AS part FROM claims WHERE kind = 'dispatch_part' AND job = $1
               UNION ALL
               SELECT named.part FROM dispatch_parts named
               JOIN claims ON claims.kind = 'dispatch_named'
                AND claims.job = named.claim_job AND claims.item = named.claim_item
               WHERE named.dispatch_id = $1) AS held",
    )
    .bind(dispatch).fetch_one(c).await?))
}

/// After the commit of a cancellation, waits for the batches that workers are storing: their
/// transactions began while the dispatch was running, and their messages may go out. Each of them
/// holds its claim from its beginning. SQLite has one writer, so it has no such transactions.
pub async fn wait_for_batches(tx: &mut Tx, dispatch: Uuid) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    for sql in [
        "SELECT 1 FROM claims WHERE kind = 'dispatch_part' AND job = $1 FOR SHARE",
        "SELECT 1 FROM dispatch_parts named
         JOIN claims ON claims.kind = 'dispatch_named'
          AND claims.job = named.claim_job AND claims.item = named.claim_item
         WHERE named.dispatch_id = $1 FOR SHARE OF claims",
    ] {
        sqlx::query(sql).bind(dispatch).execute(&mut **tx).await?;
    }
    Ok(())
}
