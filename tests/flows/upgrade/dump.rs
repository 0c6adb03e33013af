//! A store as SQL text, and back: small, and the same whichever server reads it. Without `phones`,
//! whose rows triggers write.

use std::path::Path;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};

/// What sqlx makes, as far as it is not a migration's.
const MIGRATIONS: &str = "CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY, description TEXT NOT NULL,
    installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL,
    checksum BYTEA NOT NULL, execution_time BIGINT NOT NULL);";

async fn sqlite(file: &Path) -> SqliteConnection {
    let options =
        SqliteConnectOptions::new().filename(file).create_if_missing(true).foreign_keys(false);
    SqliteConnection::connect_with(&options).await.expect("the file opens")
}

async fn postgres(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("PostgreSQL answers")
}

/// All of a SQLite file.
pub async fn of_file(file: &Path) -> String {
    let mut c = sqlite(file).await;
    let schema: Vec<String> = sqlx::query_scalar(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
         ORDER BY type = 'index', rowid",
    )
    .fetch_all(&mut c)
    .await
    .expect("the schema");
    let mut text: String = schema.iter().map(|sql| format!("{sql};\n")).collect();
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_master
         WHERE type = 'table' AND (name NOT LIKE 'sqlite_%' OR name = 'sqlite_sequence')
           AND name <> 'phones'
         ORDER BY name = 'sqlite_sequence', rowid",
    )
    .fetch_all(&mut c)
    .await
    .expect("the tables");
    for table in tables {
        let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info($1)")
            .bind(&table)
            .fetch_all(&mut c)
            .await
            .expect("the columns");
        if table == "sqlite_sequence" {
            text.push_str("DELETE FROM sqlite_sequence;\n");
        }
        let names: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
        let quoted: Vec<String> = names.iter().map(|name| format!("quote({name})")).collect();
        let sql = format!("SELECT {} FROM {table}", quoted.join(" || ', ' || "));
        let rows: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut c).await.expect("rows");
        push_rows(&mut text, &table, &names, rows);
    }
    c.close().await.expect("it closes");
    text
}

/// What is in the tables of a PostgreSQL database: the tables are those of the migrations that it
/// says.
pub async fn of_database(url: &str) -> String {
    let mut c = postgres(url).await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
           AND NOT relispartition AND relname <> 'phones' ORDER BY relname <> '_sqlx_migrations', oid",
    )
    .fetch_all(&mut c)
    .await
    .expect("the tables");
    let mut text = String::new();
    for table in tables {
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT quote_ident(attname) FROM pg_attribute
             WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        )
        .bind(&table)
        .fetch_all(&mut c)
        .await
        .expect("the columns");
        let quoted: Vec<String> =
            names.iter().map(|name| format!("quote_nullable({name}::text)")).collect();
        let sql = format!("SELECT concat_ws(', ', {}) FROM {table}", quoted.join(", "));
        let rows: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut c).await.expect("rows");
        push_rows(&mut text, &table, &names, rows);
    }
    c.close().await.expect("it closes");
    text
}

fn push_rows(text: &mut String, table: &str, names: &[String], mut rows: Vec<String>) {
    rows.sort_unstable();
    for row in rows {
        text.push_str(&format!("INSERT INTO {table} ({}) VALUES ({row});\n", names.join(", ")));
    }
}

/// Makes a SQLite file of its text.
pub async fn to_file(file: &Path, text: &str) {
    let mut c = sqlite(file).await;
    let text = format!("BEGIN; {text} COMMIT;");
    c.execute(sqlx::raw_sql(AssertSqlSafe(text))).await.expect("the text is SQL");
    c.close().await.expect("it closes");
}

/// Makes the tables of so many migrations in an empty database, and fills them.
pub async fn to_database(url: &str, text: &str) {
    let migrations = text.matches("INSERT INTO _sqlx_migrations ").count();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/migrations/postgres");
    let files = std::fs::read_dir(folder).expect("the migrations");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut all = MIGRATIONS.to_owned();
    for file in files.iter().take(migrations) {
        all.push_str(&std::fs::read_to_string(file).expect("a migration"));
    }
    // The text has those that migrations add.
    all.push_str("DELETE FROM settings;\n");
    all.push_str(text);
    for table in ["workspaces", "catalogs"] {
        all.push_str(&format!(
            "SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table};\n"
        ));
    }
    let mut c = postgres(url).await;
    c.execute(sqlx::raw_sql(AssertSqlSafe(all))).await.expect("the text is SQL");
    c.close().await.expect("it closes");
}

/// Moves every time in the rows on by so many milliseconds.
pub async fn shift(url: &str, ms: i64) {
    // Others are derived from them: from messages, from files.
    let fixed = [("idempotency_claims", "received_at"), ("export_jobs", "requested_at")];
    let is_time = |table: &str, column: &str| {
        !fixed.contains(&(table, column)) && column.ends_with("_at")
            || column.ends_with("_until")
            || [("console_log", "at"), ("schedules", "time")].contains(&(table, column))
    };
    let columns = "SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c
                   JOIN pg_class t ON t.relname = c.table_name AND NOT t.relispartition
                   WHERE c.table_schema = 'public' AND c.data_type = 'bigint'";
    let update = |(table, column): &(String, String)| {
        format!("UPDATE {table} SET \"{column}\" = \"{column}\" + {ms};\n")
    };
    if url.starts_with("postgres") {
        let mut c = postgres(url).await;
        let mut all: Vec<(String, String)> =
            sqlx::query_as(columns).fetch_all(&mut c).await.expect("the columns");
        all.retain(|(table, column)| is_time(table, column));
        let sql: String = all.iter().map(update).collect();
        c.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("the times move");
        return c.close().await.expect("it closes");
    }
    let mut c = sqlite(Path::new(url.trim_start_matches("sqlite://"))).await;
    let columns = "SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
                   WHERE t.type = 'table' AND c.type IN ('INTEGER', 'BIGINT')";
    let mut all: Vec<(String, String)> =
        sqlx::query_as(columns).fetch_all(&mut c).await.expect("the columns");
    all.retain(|(table, column)| is_time(table, column));
    let sql: String = all.iter().map(update).collect();
    c.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("the times move");
    c.close().await.expect("it closes");
}
