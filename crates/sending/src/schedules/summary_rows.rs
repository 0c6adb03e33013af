//! The SQL of lists of schedules: what each sends, and to which users, without its request.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::rows::{schedule_state, select};
use super::{Position, ScheduleSummary};
use messages::dispatch::shown_state;
use store::documents::{as_postgres_json, parsed};
use store::{StoreError, Tx, fetch_listed, on};

/// The query for the schedules that a condition selects, as [`ScheduleSummary`], in an order.
/// `condition` may have an order and a limit, too.
fn summaries_sql(tx: &Tx, condition: &str, order: &str) -> AssertSqlSafe<String> {
    const SUMMARIES: &str = select!(
        "'' AS request, coalesce(s.canvas_id, contents.campaign_id) AS campaign_id,
         contents.send_id, contents.channels, contents.listed_users, contents.segment_id,
         contents.is_limited",
        "JOIN contents ON contents.id = s.id"
    );
    // Only what a list shows of a request: its messages and its audience may be large. A request
    // for a Canvas has its users without a target.
    let contents: &str = if tx.is_postgres() {
        let request = as_postgres_json("found.request");
        &format!(
            "SELECT found.id, CAST(sent.campaign_id AS uuid) AS campaign_id, sent.send_id,
                    (SELECT string_agg(channel, ',') FROM json_object_keys(sent.messages) AS channel)
                        AS channels,
                    CAST(coalesce(json_array_length(coalesce(target.users, sent.recipients)), 0)
                         AS BIGINT) AS listed_users,
                    CAST(target.segment_id AS uuid) AS segment_id,
                    coalesce(target.audience, sent.audience) IS NOT NULL AS is_limited
             FROM found
             CROSS JOIN LATERAL json_to_record({request})
                 AS sent (campaign_id TEXT, send_id TEXT, messages JSON, target JSON,
                          recipients JSON, audience TEXT)
             CROSS JOIN LATERAL json_to_record(coalesce(sent.target, '{{}}'))
                 AS target (users JSON, segment_id TEXT, audience TEXT)"
        )
    } else {
        "SELECT id, unhex(request ->> '$.campaign_id', '-') AS campaign_id,
                request ->> '$.send_id' AS send_id,
                (SELECT group_concat(key) FROM json_each(request, '$.messages')) AS channels,
                coalesce(json_array_length(request, '$.target.users'),
                         json_array_length(request, '$.recipients'), 0) AS listed_users,
                unhex(request ->> '$.target.segment_id', '-') AS segment_id,
                coalesce(request ->> '$.target.audience', request ->> '$.audience') IS NOT NULL
                    AS is_limited
         FROM found"
    };
    AssertSqlSafe(format!(
        "WITH found AS (SELECT s.id, s.request FROM schedules s WHERE {condition}),
              contents AS ({contents})
         {SUMMARIES} ORDER BY {order}"
    ))
}

/// A schedule of a workspace.
pub async fn summary(
    tx: &mut Tx,
    workspace: i32,
    id: Uuid,
) -> Result<Option<ScheduleSummary>, StoreError> {
    let sql = summaries_sql(tx, "s.workspace_id = $1 AND s.id = $2", "s.id");
    Ok(on!(tx, c => sqlx::query_as(sql).bind(workspace).bind(id).fetch_optional(c).await?))
}

/// The audience in a schedule's request, as JSON, if it has one.
pub async fn audience(tx: &mut Tx, id: Uuid) -> Result<Option<String>, StoreError> {
    let sql = if tx.is_postgres() {
        let request = as_postgres_json("request");
        format!(
            "SELECT coalesce(request -> 'target' ->> 'audience', request ->> 'audience')
             FROM (SELECT {request} AS request FROM schedules WHERE id = $1) AS s"
        )
    } else {
        "SELECT coalesce(request ->> '$.target.audience', request ->> '$.audience')
         FROM schedules WHERE id = $1"
            .to_owned()
    };
    let found: Option<Option<String>> =
        on!(tx, c => sqlx::query_scalar(AssertSqlSafe(sql)).bind(id).fetch_optional(c).await?);
    Ok(found.flatten())
}

/// The messages of those of these schedules whose requests may contain a text, by their ids. Not of
/// schedules of Canvases, whose messages are those at their time.
pub async fn messages_with(
    tx: &mut Tx,
    ids: &[Uuid],
    text: &str,
) -> Result<HashMap<Uuid, Value>, StoreError> {
    let found: Vec<(Uuid, String)> = fetch_listed!(
        tx,
        query_as,
        ids(ids),
        "SELECT id, request FROM schedules
         WHERE canvas_id IS NULL AND request LIKE $2 AND id",
        format!("%{text}%")
    );
    let messages = |(id, request): (Uuid, String)| {
        let mut request: Value = parsed("schedules.request", id, &request)?;
        Ok((id, request["messages"].take()))
    };
    found.into_iter().map(messages).collect()
}

/// Schedules of a workspace that still send something, up to a time, in the order of their times.
pub(super) async fn pending(
    tx: &mut Tx,
    workspace: i32,
    until: i64,
    limit: i64,
) -> Result<Vec<ScheduleSummary>, StoreError> {
    let sql = summaries_sql(
        tx,
        "s.workspace_id = $1 AND s.ended_at IS NULL AND s.time <= $2
         ORDER BY s.time, s.id LIMIT $3",
        "s.time, s.id",
    );
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(until).bind(limit).fetch_all(c).await?))
}

/// Schedules of a workspace that still send something, after a position in the order of their
/// times.
pub async fn unfinished(
    tx: &mut Tx,
    workspace: i32,
    (time, id): Position,
    limit: i64,
) -> Result<Vec<ScheduleSummary>, StoreError> {
    let sql = summaries_sql(
        tx,
        "s.workspace_id = $1 AND s.ended_at IS NULL AND (s.time, s.id) > ($2, $3)
         ORDER BY s.time, s.id LIMIT $4",
        "s.time, s.id",
    );
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(time).bind(id).bind(limit).fetch_all(c).await?))
}

/// Schedules of a workspace that were missed before a position, the latest first.
pub async fn missed(
    tx: &mut Tx,
    workspace: i32,
    (ended_at, id): Position,
    limit: i64,
) -> Result<Vec<ScheduleSummary>, StoreError> {
    let sql = summaries_sql(
        tx,
        "s.workspace_id = $1 AND s.state = 'missed' AND (s.ended_at, s.id) < ($2, $3)
         ORDER BY s.ended_at DESC, s.id DESC LIMIT $4",
        "s.ended_at DESC, s.id DESC",
    );
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(ended_at).bind(id).bind(limit).fetch_all(c).await?))
}
