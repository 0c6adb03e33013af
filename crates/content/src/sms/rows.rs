//! The SQL of invalid phone numbers.

use super::PhoneNumber;
use store::{Store, StoreError, Tx, from_row, insert_rows, on};

/// A number on the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNumber {
    /// The digits alone.
    pub number: String,
    pub reason: String,
    /// In milliseconds since the epoch.
    pub added_at: i64,
}
from_row! { InvalidNumber { number, reason, added_at } }

/// The numbers as one parameter for both databases.
fn digits(numbers: &[PhoneNumber]) -> Vec<&str> {
    numbers.iter().map(PhoneNumber::digits).collect()
}

fn json(numbers: &[PhoneNumber]) -> String {
    serde_json::Value::from(digits(numbers)).to_string()
}

/// Adds numbers to the list; returns how many are new. Numbers that were on the list keep their
/// reason.
pub async fn add(
    tx: &mut Tx,
    workspace: i32,
    numbers: &[PhoneNumber],
    reason: &str,
    now: i64,
) -> Result<u64, StoreError> {
    let mut numbers = digits(numbers);
    // In one order, so that two transactions do not deadlock.
    numbers.sort_unstable();
    Ok(insert_rows!(tx, "invalid_numbers", numbers, |number| {
        workspace_id: workspace,
        number: *number,
        reason: reason,
        added_at: now,
    }, "ON CONFLICT DO NOTHING"))
}

/// Removes numbers from the list; returns how many were on it.
pub async fn remove(
    tx: &mut Tx,
    workspace: i32,
    numbers: &[PhoneNumber],
) -> Result<u64, StoreError> {
    Ok(match tx {
        Tx::Postgres(tx) => {
            sqlx::query(
                // Locked in their order, so that two transactions do not deadlock.
                "WITH gone AS (
                     SELECT number FROM invalid_numbers
                     WHERE workspace_id = $1 AND number = ANY ($2) ORDER BY number FOR UPDATE)
                 DELETE FROM invalid_numbers
                 WHERE workspace_id = $1 AND number IN (SELECT number FROM gone)",
            )
            .bind(workspace)
            .bind(digits(numbers))
            .execute(&mut **tx)
            .await?
            .rows_affected()
        }
        Tx::Sqlite(tx) => sqlx::query(
            "DELETE FROM invalid_numbers
             WHERE workspace_id = $1 AND number IN (SELECT value FROM json_each($2))",
        )
        .bind(workspace)
        .bind(json(numbers))
        .execute(&mut **tx)
        .await?
        .rows_affected(),
    })
}

/// Whether a number is on the list.
pub async fn is_invalid(
    store: &Store,
    workspace: i32,
    number: &PhoneNumber,
) -> Result<bool, StoreError> {
    const SQL: &str = "SELECT 1 FROM invalid_numbers WHERE workspace_id = $1 AND number = $2";
    let found: Option<i32> = match store {
        Store::Postgres { pool, .. } => {
            sqlx::query_scalar(SQL)
                .bind(workspace)
                .bind(number.digits())
                .fetch_optional(pool)
                .await?
        }
        Store::Sqlite { read, .. } => {
            sqlx::query_scalar(SQL)
                .bind(workspace)
                .bind(number.digits())
                .fetch_optional(read)
                .await?
        }
    };
    Ok(found.is_some())
}

/// Numbers of the list after `after`, in order.
pub async fn list(
    tx: &mut Tx,
    workspace: i32,
    after: &str,
    limit: i64,
) -> Result<Vec<InvalidNumber>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT number, reason, added_at FROM invalid_numbers
         WHERE workspace_id = $1 AND number > $2 ORDER BY number LIMIT $3",
    )
    .bind(workspace).bind(after).bind(limit).fetch_all(c).await?))
}

/// Numbers of the list in order, from these digits on.
pub async fn list_from(
    tx: &mut Tx,
    workspace: i32,
    from: &str,
    limit: i64,
) -> Result<Vec<InvalidNumber>, StoreError> {
    Ok(on!(tx, c => sqlx::query_as(
        "SELECT number, reason, added_at FROM invalid_numbers
         WHERE workspace_id = $1 AND number >= $2 ORDER BY number LIMIT $3",
    )
    .bind(workspace).bind(from).bind(limit).fetch_all(c).await?))
}
