//! Fetches the rows whose column has one of many values, in both databases.

/// Fetches the rows whose column has one of the values, with `query_as` or `query_scalar`. The
/// statement ends with the column. The values are `$1`, an array in PostgreSQL and JSON in SQLite;
/// other parameters begin with `$2`:
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
#[macro_export]
macro_rules! fetch_listed {
    (
        $tx:expr, $query:ident, $kind:ident($values:expr), $sql:literal $(, $bound:expr)* $(,)?
    ) => {
        match $tx {
            $crate::Tx::Postgres(tx) => {
                sqlx::$query(concat!($sql, " = ANY($1)"))
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
