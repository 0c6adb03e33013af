//! The SQL of the developer console.

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use store::documents::as_postgres_json;
use store::{StoreError, Tx, from_row, on};

/// A record of the developer console.
#[derive(Clone, Debug)]
pub struct ConsoleRecord {
    pub dispatch_id: Uuid,
    pub at: i64,
    /// A JSON object.
    pub record: String,
}
from_row! { ConsoleRecord { dispatch_id, at, record } }

/// A record without its messages, which may be large.
#[derive(Clone, Debug)]
pub struct ConsoleSummary {
    pub dispatch_id: Uuid,
    pub at: i64,
    /// The name of the [`Kind`](messages::order::Kind).
    pub call: Option<String>,
    pub request_id: Option<String>,
    pub segment_id: Option<String>,
    pub send_id: Option<String>,
    /// The counts of users and messages, as JSON.
    pub results: Option<String>,
}
from_row! {
    ConsoleSummary { dispatch_id, at, call, request_id, segment_id, send_id, results }
}

/// Selects the records after a position, the latest first. The first condition selects a range of
/// the index.
const PAGE: &str = "SELECT dispatch_id, at, record FROM console_log
     WHERE workspace_id = $1 AND at <= $2 AND (at < $2 OR dispatch_id < $3)
     ORDER BY at DESC, dispatch_id DESC LIMIT $4";

/// A workspace's latest records; only those after `after` in this order. Empty if the workspace
/// lacks that record.
pub async fn console_records(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<ConsoleRecord>, StoreError> {
    let Some((at, id)) = position(tx, workspace, after).await? else { return Ok(Vec::new()) };
    Ok(on!(tx, c => sqlx::query_as(PAGE)
        .bind(workspace).bind(at).bind(id).bind(i64::from(limit)).fetch_all(c).await?))
}

/// The same records as [`console_records`], without their messages.
pub async fn console_summaries(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<ConsoleSummary>, StoreError> {
    let Some((at, id)) = position(tx, workspace, after).await? else { return Ok(Vec::new()) };
    let fields: &str = if tx.is_postgres() {
        let record = as_postgres_json("record");
        &format!(
            "SELECT dispatch_id, at, sent.* FROM page
             CROSS JOIN LATERAL json_to_record({record})
                 AS sent (call TEXT, request_id TEXT, segment_id TEXT, send_id TEXT, results TEXT)"
        )
    } else {
        "SELECT dispatch_id, at, record ->> '$.call' AS call,
                record ->> '$.request_id' AS request_id, record ->> '$.segment_id' AS segment_id,
                record ->> '$.send_id' AS send_id, record ->> '$.results' AS results
         FROM page"
    };
    let sql =
        AssertSqlSafe(format!("WITH page AS ({PAGE}) {fields} ORDER BY at DESC, dispatch_id DESC"));
    Ok(on!(tx, c => sqlx::query_as(sql)
        .bind(workspace).bind(at).bind(id).bind(i64::from(limit)).fetch_all(c).await?))
}

/// The position of the record `after`, or before all records. None if the workspace lacks that
/// record.
async fn position(
    tx: &mut Tx,
    workspace: i32,
    after: Option<Uuid>,
) -> Result<Option<(i64, Uuid)>, StoreError> {
    match after {
        Some(id) => Ok(at(tx, workspace, id).await?.map(|at| (at, id))),
        None => Ok(Some((i64::MAX, Uuid::nil()))),
    }
}

async fn at(tx: &mut Tx, workspace: i32, id: Uuid) -> Result<Option<i64>, StoreError> {
    Ok(on!(tx, c => sqlx::query_scalar(
        "SELECT at FROM console_log WHERE dispatch_id = $2 AND workspace_id = $1",
    )
    .bind(workspace).bind(id).fetch_optional(c).await?))
}
