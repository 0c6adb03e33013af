//! The SQL of the recipients of an earlier dispatch as the users of a later one.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::uncertain_rows::MAY_HAVE_BEEN_SENT;
use crate::message_outcome::OutcomeFilter;
use crate::order::PastRecipients;
use store::documents::as_postgres_json;
use store::{StoreError, Tx, on};

/// Number of parts of a workspace's dispatch; none if it does not exist.
pub(super) async fn parts(
    tx: &mut Tx,
    workspace: i32,
    dispatch: Uuid,
) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT parts FROM dispatches WHERE workspace_id = $1 AND id = $2",
    )
    .bind(workspace).bind(dispatch).fetch_optional(c).await?))
}

/// A field of a column with an order, in SQL.
pub fn order_field(tx: &Tx, path: &[&str]) -> String {
    if tx.is_postgres() {
        let (order, path) = (as_postgres_json("order_json"), path.join(","));
        format!("{order} #>> '{{{path}}}'")
    } else {
        format!("order_json ->> '$.{}'", path.join("."))
    }
}

/// The earlier dispatches of a workspace to whose recipients dispatches send that have not ended.
pub(super) async fn in_use(tx: &mut Tx, workspace: i32) -> Result<Vec<Uuid>, StoreError> {
    let past = order_field(tx, &["target", "recipients_of", "dispatch_id"]);
    let sql = AssertSqlSafe(format!(
        "SELECT DISTINCT {past} FROM dispatches
         WHERE workspace_id = $1 AND finished_at IS NULL
           AND order_json LIKE '%\"recipients_of\":%'"
    ));
    let ids: Vec<Option<String>> =
        on!(tx, c => sqlx::query_scalar(sql).bind(workspace).fetch_all(c).await?);
    Ok(ids.into_iter().flatten().filter_map(|id| Uuid::try_parse(&id).ok()).collect())
}

/// Whether one of the filters selects a message, as a condition on its row.
pub fn outcome_condition(filters: &[OutcomeFilter], ended_early: bool) -> String {
    let outcomes = filters.iter().filter_map(|filter| filter.outcome());
    let states = outcomes.flat_map(|outcome| outcome.row_states(ended_early));
    let mut states: Vec<String> = states.map(|state| format!("'{state}'")).collect();
    if states.is_empty() {
        states.push("NULL".to_owned());
    }
    let states = format!("state IN ({})", states.join(", "));
    if filters.contains(&OutcomeFilter::MayHaveBeenSent) {
        format!("({states} OR {MAY_HAVE_BEEN_SENT})")
    } else {
        states
    }
}

/// Whether a message went to one of the recipients, as a condition on its row. Their dispatch has
/// ended; whether early makes no difference, because a dispatch that is done has no open messages.
fn past_condition(past: &PastRecipients) -> String {
    outcome_condition(&past.outcomes, true)
}

/// Number of recipients, each once for a part.
pub async fn count_users(tx: &mut Tx, past: &PastRecipients) -> Result<i64, StoreError> {
    let is_recipient = past_condition(past);
    let sql = AssertSqlSafe(format!(
        "SELECT count(*) FROM (SELECT DISTINCT part, service_id FROM messages
                               WHERE dispatch_id = $1 AND {is_recipient}) AS recipients"
    ));
    Ok(on!(tx, c => sqlx::query_scalar(sql).bind(past.dispatch_id).fetch_one(c).await?))
}

/// Recipients in a part of the earlier dispatch, after a user, in order.
pub(super) async fn users_of_part(
    tx: &mut Tx,
    past: &PastRecipients,
    part: i64,
    after: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>, StoreError> {
    let is_recipient = past_condition(past);
    let sql = AssertSqlSafe(format!(
        "SELECT DISTINCT service_id FROM messages
         WHERE dispatch_id = $1 AND part = $2 AND service_id > $3 AND {is_recipient}
         ORDER BY service_id LIMIT $4"
    ));
    Ok(on!(tx, c => sqlx::query_scalar(sql)
        .bind(past.dispatch_id).bind(part).bind(after).bind(limit).fetch_all(c).await?))
}

/// Whether a user is a recipient.
pub(super) async fn is_past_recipient(
    tx: &mut Tx,
    workspace: i32,
    past: &PastRecipients,
    user: Uuid,
) -> Result<bool, StoreError> {
    let is_recipient = past_condition(past);
    // By users, not by dispatches: [`super::message_rows::settle`] says why.
    let sql = AssertSqlSafe(format!(
        "SELECT EXISTS (SELECT 1 FROM messages
                        WHERE workspace_id = $1 AND service_id = $2
                          AND (dispatch_id = $3) IS TRUE AND {is_recipient})"
    ));
    Ok(on!(tx, c => sqlx::query_scalar(sql)
        .bind(workspace).bind(user).bind(past.dispatch_id).fetch_one(c).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_a_condition_in_sql() {
        let accepted = [OutcomeFilter::Sent, OutcomeFilter::Delivered];
        assert_eq!(outcome_condition(&accepted, true), "state IN ('sent', 'delivered')");
        assert_eq!(outcome_condition(&[OutcomeFilter::Cancelled], false), "state IN ('cancelled')");
        assert_eq!(outcome_condition(&[OutcomeFilter::Waiting], true), "state IN (NULL)");
        let marked = format!("(state IN (NULL) OR {MAY_HAVE_BEEN_SENT})");
        assert_eq!(outcome_condition(&[OutcomeFilter::MayHaveBeenSent], true), marked);
    }
}
