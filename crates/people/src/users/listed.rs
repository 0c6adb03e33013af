//! Users in order of (slice, service_id), as a list names them: for few users of a large range,
//! which [`scan`](super::scan) would read as a whole.

use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use uuid::Uuid;

use super::moment::TransactionSnapshot;
use super::scan::UserRow;
use super::service_id;
use store::{StoreError, Tx, to_json};

/// Listed users of one workspace.
#[derive(Clone, Debug)]
pub struct ListedUsers<'a> {
    pub workspace: i32,
    /// In order of position.
    pub ids: &'a [Uuid],
    /// Whether activity is read, too.
    pub activity: bool,
}

/// Ids that are looked up with one statement.
const LISTED_AT_ONCE: usize = 1_000;

/// [`scan::read`](super::scan::read) for listed users, each of which is looked up by its id.
pub async fn read<E>(
    tx: &mut Tx,
    users: &ListedUsers<'_>,
    moment: &TransactionSnapshot,
    mut each: impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    for ids in users.ids.chunk_by(|a, b| service_id::slice(a).ok() == service_id::slice(b).ok()) {
        let slice = ids.first().map(service_id::slice).transpose()?.unwrap_or(0);
        for ids in ids.chunks(LISTED_AT_ONCE) {
            let (workspace, activity) = (users.workspace, users.activity);
            let listed = ListedInSlice { workspace, slice, ids, activity };
            let done = listed.read(tx, moment, &mut each).await?;
            if done.is_err() {
                return Ok(done);
            }
        }
    }
    Ok(Ok(()))
}

/// A user's id, document and activity.
type FoundUser = (Uuid, String, Option<Vec<u8>>);

struct ListedInSlice<'a> {
    workspace: i32,
    slice: i16,
    ids: &'a [Uuid],
    activity: bool,
}

impl ListedInSlice<'_> {
    async fn read<E>(
        &self,
        tx: &mut Tx,
        moment: &TransactionSnapshot,
        each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        let mut rows: BoxStream<'_, sqlx::Result<FoundUser>> = match tx {
            // The limits force one lookup in one partition's index per user, in the order of the
            // list.
            Tx::Postgres(tx) => sqlx::query_as(
                "SELECT found.service_id, found.doc, known.body
                 FROM unnest($3::uuid[]) AS listed (service_id)
                 CROSS JOIN LATERAL (
                     SELECT service_id, doc FROM users
                     WHERE slice = $1 AND workspace_id = $2 AND service_id = listed.service_id
                       AND (created_in IS NULL OR created_in < $4
                            OR created_in < $5 AND created_in <> ALL($6))
                     LIMIT 1
                 ) AS found
                 LEFT JOIN LATERAL (
                     SELECT body FROM activity
                     WHERE slice = $1 AND workspace_id = $2 AND service_id = listed.service_id
                       AND $7
                     LIMIT 1
                 ) AS known ON TRUE",
            )
            .bind(self.slice)
            .bind(self.workspace)
            .bind(self.ids)
            .bind(moment.ended)
            .bind(moment.next)
            .bind(&moment.open)
            .bind(self.activity)
            .fetch(&mut **tx),
            Tx::Sqlite(tx) => sqlx::query_as(
                "SELECT users.service_id, users.doc,
                     CASE WHEN $5
                          THEN (SELECT body FROM activity WHERE activity.key = users.key) END
                 FROM json_each($3) AS listed CROSS JOIN users
                 WHERE users.slice = $1 AND users.workspace_id = $2
                   AND users.service_id = unhex(listed.value, '-') AND users.created_in < $4",
            )
            .bind(self.slice)
            .bind(self.workspace)
            .bind(to_json(self.ids)?)
            .bind(moment.next)
            .bind(self.activity)
            .fetch(&mut **tx),
        };
        while let Some((service_id, doc, activity)) = rows.try_next().await? {
            let user = UserRow { service_id, doc: &doc, activity: activity.as_deref() };
            if let Err(stop) = each(user) {
                return Ok(Err(stop));
            }
        }
        Ok(Ok(()))
    }
}
