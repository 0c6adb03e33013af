//! The SQL of messages that were not accepted, as far as is known, but may have been sent
//! (docs/runbooks/stop-a-wrong-send.md).
//!
//! [`settle`](super::message_rows::settle) marks messages whose receiver did not respond,
//! [`mark_lost`] those of a lost worker. The mark stays until an attempt is accepted, also if the
//! message is given up before that.

use uuid::Uuid;

use super::message_rows::{LOST_WORKER, lock_unsettled};
use store::{StoreError, Tx, execute};

/// Whether a message may have been sent, as a condition on its row. [`LOST_WORKER`] alone is the
/// mark in rows that are older than the column. Outcomes that 0.2.0 stores leave the column as it
/// is, also if the message was sent.
pub const MAY_HAVE_BEEN_SENT: &str = "((may_have_been_sent
       OR COALESCE(reason, '') = 'its worker was lost or stopped: the message may have been sent')
      AND state NOT IN ('sent', 'delivered'))";

/// Marks the messages of a part that its last worker may have sent without storing their outcome:
/// all without an outcome, except those whose next attempt is not due.
pub(super) async fn mark_lost(
    tx: &mut Tx,
    dispatch: Uuid,
    part: i64,
    now: i64,
) -> Result<(), StoreError> {
    lock_unsettled(tx, dispatch, part).await?;
    execute!(
        tx,
        sqlx::query(
            "UPDATE messages SET reason = $3, may_have_been_sent = TRUE
             WHERE dispatch_id = $1 AND part = $2 AND state IN ('pending', 'waiting', 'cancelled')
               AND COALESCE(next_at, 0) <= $4",
        )
        .bind(dispatch)
        .bind(part)
        .bind(LOST_WORKER)
        .bind(now)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_rows_without_the_column_count() {
        assert!(MAY_HAVE_BEEN_SENT.contains(&format!("'{LOST_WORKER}'")));
    }
}
