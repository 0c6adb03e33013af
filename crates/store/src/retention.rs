//! Deletes old rows, some in each transaction.

use tokio_util::sync::CancellationToken;

use super::{Store, StoreError, execute, on};

/// The old rows of one table, and the statements that delete them; created by
/// [`old_rows!`](crate::old_rows).
#[derive(Clone, Copy, Debug)]
pub struct OldRows {
    pub any: &'static str,
    pub postgres: &'static str,
    pub sqlite: &'static str,
}

/// The [`OldRows`] of a table by a condition, and how many one transaction deletes. Parameters of
/// the condition are integers. A table that has no `rowid` in SQLite names its `key`:
///
/// ```text
/// old_rows!("content_cards", "expires_at <= $1", 5_000)
/// ```
#[macro_export]
macro_rules! old_rows {
    ($table:literal, $old:literal, $at_once:literal $(, key = $key:literal)?) => {
        $crate::old_rows!(@ $table, $old, $at_once, $($key,)? "rowid")
    };
    (@ $table:literal, $old:literal, $at_once:literal, $key:literal $(, $_:literal)?) => {
        $crate::retention::OldRows {
            any: concat!("SELECT EXISTS (SELECT 1 FROM ", $table, " WHERE ", $old, ")"),
            // An array, because PostgreSQL might reverse the order of a join.
            postgres: concat!(
                "DELETE FROM ", $table, " WHERE ctid = ANY (ARRAY (SELECT ctid FROM ", $table,
                " WHERE ", $old, " LIMIT ", $at_once, " FOR UPDATE SKIP LOCKED))"
            ),
            sqlite: concat!(
                "DELETE FROM ", $table, " WHERE (", $key, ") IN (SELECT ", $key, " FROM ", $table,
                " WHERE ", $old, " LIMIT ", $at_once, ")"
            ),
        }
    };
}

impl OldRows {
    /// Deletes all old rows with these values of the condition's parameters, until `stop`: also
    /// those that become old because others were deleted.
    pub async fn delete(
        &self,
        store: &Store,
        values: &[i64],
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        // An idle SQLite never takes the write lock for this.
        let mut tx = store.snapshot().await?;
        let mut more: bool = on!(&mut tx, c => {
            let query = sqlx::query_scalar(self.any);
            values.iter().fold(query, |query, value| query.bind(*value)).fetch_one(c).await?
        });
        drop(tx);
        let sql = if store.is_postgres() { self.postgres } else { self.sqlite };
        while more && !stop.is_cancelled() {
            let mut tx = store.write().await?;
            let deleted = execute!(
                &mut tx,
                values.iter().fold(sqlx::query(sql), |query, value| query.bind(*value))
            );
            more = deleted > 0;
            tx.commit().await?;
        }
        Ok(())
    }
}
