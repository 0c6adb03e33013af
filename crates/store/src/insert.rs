//! Inserts many rows, with one statement for both databases.

/// Rows of one SQLite statement: well below its limit of parameters.
pub const SQLITE_ROWS: usize = 250;

/// Inserts rows in their order: all with one statement on PostgreSQL (one array for each column),
/// and [some](SQLITE_ROWS) with each statement on SQLite. Returns the number of written rows, or,
/// with a type after `=>`, the values of `RETURNING`. A first column in `[sqlite …]` exists only in
/// SQLite:
///
/// ```text
/// insert_rows!(tx, "emails", new, |row| {
///     workspace_id: workspace,
///     email: row.0.as_str(),
///     service_id: row.1,
/// }, "ON CONFLICT DO NOTHING")
/// ```
#[macro_export]
macro_rules! insert_rows {
    (
        $tx:expr, $table:literal, $rows:expr, |$row:ident| {
            $([sqlite $key:ident: $key_value:expr])?
            $first:ident: $value:expr $(, $column:ident: $next:expr)* $(,)?
        }, $rest:expr $(=> $returned:ty)?
    ) => {{
        let rows = &$rows[..];
        let mut inserted = $crate::insert_rows!(@begin $($returned)?);
        match $tx {
            _ if rows.is_empty() => {}
            $crate::Tx::Postgres(tx) => {
                let mut sql = sqlx::QueryBuilder::<sqlx::Postgres>::new(concat!(
                    "INSERT INTO ", $table, " (", stringify!($first),
                    $(", ", stringify!($column),)* ") SELECT * FROM unnest("
                ));
                let mut arrays = sql.separated(", ");
                $crate::insert_rows!(@array arrays, rows, $row, $value);
                $($crate::insert_rows!(@array arrays, rows, $row, $next);)*
                sql.push(") ").push($rest);
                $crate::insert_rows!(@run inserted, sql, tx $(, $returned)?);
            }
            $crate::Tx::Sqlite(tx) => {
                for rows in rows.chunks($crate::insert::SQLITE_ROWS) {
                    let mut sql = sqlx::QueryBuilder::<sqlx::Sqlite>::new(concat!(
                        "INSERT INTO ", $table, " (", $(stringify!($key), ", ",)?
                        stringify!($first), $(", ", stringify!($column),)* ") "
                    ));
                    sql.push_values(rows, |mut values, $row| {
                        $(values.push_bind($key_value);)?
                        values.push_bind($value);
                        $(values.push_bind($next);)*
                    });
                    sql.push(" ").push($rest);
                    $crate::insert_rows!(@run inserted, sql, tx $(, $returned)?);
                }
            }
        }
        inserted
    }};
    (@begin) => { 0_u64 };
    (@begin $returned:ty) => { Vec::<$returned>::new() };
    (@array $arrays:ident, $rows:ident, $row:ident, $value:expr) => {
        #[allow(unused_variables, reason = "a column may be the same in all rows")]
        let array: Vec<_> = $rows.iter().map(|$row| $value).collect();
        $arrays.push_bind(array);
    };
    (@run $inserted:ident, $sql:ident, $tx:ident) => {
        $inserted += $sql.build().execute(&mut **$tx).await?.rows_affected();
    };
    (@run $inserted:ident, $sql:ident, $tx:ident, $returned:ty) => {
        $inserted.extend($sql.build_query_as::<$returned>().fetch_all(&mut **$tx).await?);
    };
}
