//! Fetches the rows whose column has one of many values, in both databases.

/// Fetches the rows whose column has one of the values, with `query_as` or `query_scalar`. Several
/// rows may have the same value. The statement ends with the column. The values are `$1`, an array
/// in PostgreSQL and JSON in SQLite; other parameters begin with `$2`:
///
/// ```text
/// let kept: Vec<(Uuid, Uuid)> = fetch_listed!(
///     tx, query_as, ids(ids),
///     "SELECT service_id, kept_as FROM merged_users WHERE workspace_id = $2 AND service_id",
///     workspace,
/// );
/// ```
///
/// The values are `plain` (texts or numbers), `ids`, or `hashes` (a slice of arrays of bytes).
///
/// After `each` follows the same for a table that may be large before PostgreSQL has statistics of
/// it: an index lookup for each value, whatever the planner expects. No other index of the table
/// may begin with the same columns, because the planner could use that one, once for each value.
#[macro_export]
macro_rules! fetch_listed {
    ($tx:expr, $query:ident, each $kind:ident($values:expr), $sql:literal $($bound:tt)*) => {
        // PostgreSQL plans a subquery with OFFSET separately. As a join, it reads all 50,000 rows
        // of a table to find 700: 20 ms instead of 3.
        $crate::fetch_listed!(
            @fetch
            concat!(
                "SELECT found.* FROM (SELECT DISTINCT unnest($1)) AS listed (value)
                 CROSS JOIN LATERAL (", $sql, " = listed.value OFFSET 0) AS found"
            ),
            $tx, $query, $kind($values), $sql $($bound)*
        )
    };
    ($tx:expr, $query:ident, $kind:ident($values:expr), $sql:literal $($bound:tt)*) => {
        $crate::fetch_listed!(
            @fetch concat!($sql, " = ANY($1)"), $tx, $query, $kind($values), $sql $($bound)*
        )
    };
    (
        @fetch $postgres:expr,
        $tx:expr, $query:ident, $kind:ident($values:expr), $sql:literal $(, $bound:expr)* $(,)?
    ) => {
        match $tx {
            _ if $values.is_empty() => Vec::new(),
            $crate::Tx::Postgres(tx) => {
                sqlx::$query($postgres)
                    .bind($crate::fetch_listed!(@array $kind $values))
                    $(.bind($bound))*
                    .fetch_all(&mut **tx)
                    .await?
            }
            $crate::Tx::Sqlite(tx) => {
                sqlx::$query(concat!(
                    $sql, " IN (SELECT ", $crate::fetch_listed!(@element $kind),
                    " FROM json_each($1) AS listed)"
                ))
                .bind($crate::fetch_listed!(@json $kind $values))
                $(.bind($bound))*
                .fetch_all(&mut **tx)
                .await?
            }
        }
    };
    (@array hashes $values:expr) => {
        $values.iter().map(|hash| &hash[..]).collect::<Vec<&[u8]>>()
    };
    (@array $kind:ident $values:expr) => { $values };
    (@element plain) => { "listed.value" };
    (@element $kind:ident) => { "unhex(listed.value, '-')" };
    (@json hashes $values:expr) => {
        $crate::to_json(&$values.iter().map(hex::encode).collect::<Vec<String>>())?
    };
    (@json $kind:ident $values:expr) => { $crate::to_json($values)? };
}
