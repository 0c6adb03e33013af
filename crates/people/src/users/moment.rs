//! The users that existed at a moment: exactly those created by transactions that had ended by
//! then.
//!
//! A user's row has the transaction that created it (`created_in`), which later writes do not
//! change. In SQLite, which has one writer, transactions that create users are counted. In
//! PostgreSQL it is the number of the server's transaction, with the number of the server's start
//! (`server_starts`) in its upper bits: transactions of an earlier start have all ended, on any
//! server.

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use store::retention::OldRows;
use store::{Store, StoreError, Tx, old_rows};

/// The starts of the server before the newest. A server that comes back gets a new number, also if
/// it has an old row.
const OLD_STARTS: OldRows =
    old_rows!("server_starts", "number < (SELECT max(number) FROM server_starts)", 1_000);

/// Deletes what is known of earlier starts of the server. Only PostgreSQL has them.
pub async fn sweep(store: &Store, stop: &CancellationToken) -> Result<(), StoreError> {
    if store.is_postgres() {
        OLD_STARTS.delete(store, &[], stop).await?;
    }
    Ok(())
}

/// The user-creating transactions that a snapshot sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionSnapshot {
    /// All transactions before this one had ended.
    pub(super) ended: i64,
    /// Neither this transaction nor a later one had ended.
    pub(super) next: i64,
    /// The transactions between the two that had not ended.
    pub(super) open: Vec<i64>,
}

impl TransactionSnapshot {
    /// After all transactions that there will ever be.
    pub const fn endless() -> Self {
        Self { ended: i64::MAX, next: i64::MAX, open: Vec::new() }
    }

    /// The moment of a [snapshot](store::Store::snapshot).
    pub async fn current(tx: &mut Tx) -> Result<Self, StoreError> {
        let (ended, next, open) = match tx {
            Tx::Postgres(tx) => {
                // All values are from one snapshot, the transaction's.
                sqlx::query_as::<_, (i64, i64, Vec<i64>)>(
                    "SELECT server << 48 | pg_snapshot_xmin(seen)::text::bigint,
                            server << 48 | pg_snapshot_xmax(seen)::text::bigint,
                            ARRAY(SELECT server << 48 | open::text::bigint
                                  FROM pg_snapshot_xip(seen) AS open)
                     FROM (SELECT server_number() AS server, pg_current_snapshot() AS seen
                           OFFSET 0) AS now",
                )
                .fetch_one(&mut **tx)
                .await?
            }
            Tx::Sqlite(tx) => {
                let next = sqlx::query_scalar("SELECT number + 1 FROM creations")
                    .fetch_one(&mut **tx)
                    .await?;
                (next, next, Vec::new())
            }
        };
        Ok(Self { ended, next, open })
    }
}
