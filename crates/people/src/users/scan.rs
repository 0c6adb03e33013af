//! Users in order of (slice, service_id), which an export splits into parts and reads.

use std::iter::Peekable;
use std::pin::pin;

use futures::{Stream, TryStreamExt as _};
use sqlx::sqlite::SqliteRow;
use sqlx::{Postgres, Row as _, Sqlite};
use uuid::Uuid;

use super::keys::{first_key, last_key};
use super::moment::TransactionSnapshot;
use super::{Position, service_id};
use store::{OpenTransaction, StoreError, Tx, on};

/// Approximate bytes of activity that are read together, and held while users stream past.
const ACTIVITY_BYTES: usize = 1 << 20;

/// Bytes of activity after which no more is read.
const BUFFER_BYTES: usize = 2 * ACTIVITY_BYTES;

/// Number of bodies of activity that are read first; later reads adapt to the size of the bodies,
/// because each read costs two queries. With 200 at a time, exporting all fields of 100,000 users
/// took 1.50 s, and a shell's pipe of the same records 1.37 s. With this, 300,000 took 3.88 s and
/// 3.82 s.
const FIRST_ROWS: i64 = 1_000;
const MAX_ROWS: i64 = 5_000;

/// A group of users, split into ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartBoundaries {
    pub users: i64,
    /// The last user of each range, ascending; the last one ends with the last user.
    pub ends: Vec<Position>,
    /// The largest service_id seen.
    pub youngest: Uuid,
}

/// Splits the users of `slices` (ascending) into ranges of `per_part`. Uses only the index, which
/// is scanned twice: 85 ms for 300,000 users, where one scan that numbers all of them
/// (`row_number`) takes 160 ms.
///
/// Ends early when there are more than `max_ranges`: the result then has more, but not all.
pub async fn cut(
    tx: &mut Tx,
    workspace: i32,
    slices: &[i16],
    per_part: u32,
    max_ranges: usize,
) -> Result<PartBoundaries, StoreError> {
    forbid_sort(tx).await?;
    let per_part = i64::from(per_part);
    let mut boundaries = PartBoundaries { users: 0, ends: Vec::new(), youngest: Uuid::nil() };
    // Users after the last end, and the last of them.
    let (mut behind, mut last) = (0, None);
    for &slice in slices {
        let (mut remaining, youngest) = count(tx, workspace, slice).await?;
        let Some(youngest) = youngest else { continue };
        boundaries.users += remaining;
        boundaries.youngest = boundaries.youngest.max(youngest);
        let mut after = Uuid::nil();
        while behind + remaining >= per_part {
            let nth = per_part - behind;
            after = nth_after(tx, workspace, slice, after, nth).await?;
            boundaries.ends.push(Position { slice, service_id: after });
            if boundaries.ends.len() > max_ranges {
                return Ok(boundaries);
            }
            (behind, remaining) = (0, remaining - nth);
        }
        behind += remaining;
        last = Some(Position { slice, service_id: youngest });
    }
    boundaries.ends.extend(last.filter(|_| behind > 0));
    Ok(boundaries)
}

/// The number of users of a slice, and the youngest one.
pub(super) async fn count(
    tx: &mut Tx,
    workspace: i32,
    slice: i16,
) -> Result<(i64, Option<Uuid>), StoreError> {
    let counted = on!(tx, c => sqlx::query_as(
        "SELECT count(*), (SELECT service_id FROM users WHERE slice = $1 AND workspace_id = $2
                           ORDER BY service_id DESC LIMIT 1)
         FROM users WHERE slice = $1 AND workspace_id = $2",
    )
    .bind(slice).bind(workspace).fetch_one(c).await?);
    Ok(counted)
}

/// The existing `nth` user (from 1) after `after`.
pub(super) async fn nth_after(
    tx: &mut Tx,
    workspace: i32,
    slice: i16,
    after: Uuid,
    nth: i64,
) -> Result<Uuid, StoreError> {
    let found = on!(tx, c => sqlx::query_scalar(
        "SELECT service_id FROM users WHERE slice = $1 AND workspace_id = $2 AND service_id > $3
         ORDER BY service_id LIMIT 1 OFFSET $4",
    )
    .bind(slice).bind(workspace).bind(after).bind(nth - 1).fetch_one(c).await?);
    Ok(found)
}

/// The `nth` user (from 1) after `after` in a slice, up to and including `up_to`; none if there are
/// fewer.
pub async fn nth_within(
    tx: &mut Tx,
    workspace: i32,
    slice: i16,
    (after, up_to): (Uuid, Uuid),
    nth: i64,
) -> Result<Option<Uuid>, StoreError> {
    let found = on!(tx, c => sqlx::query_scalar(
        "SELECT service_id FROM users
         WHERE slice = $1 AND workspace_id = $2 AND service_id > $3 AND service_id <= $4
         ORDER BY service_id LIMIT 1 OFFSET $5",
    )
    .bind(slice).bind(workspace).bind(after).bind(up_to).bind(nth - 1).fetch_optional(c).await?);
    Ok(found)
}

/// A range of users: those after `after`, up to and including `up_to`, in the slices of `slices`,
/// none younger than `youngest`.
#[derive(Clone, Debug)]
pub struct UserRange<'a> {
    pub workspace: i32,
    pub slices: &'a [i16],
    pub after: Position,
    pub up_to: Position,
    pub youngest: Uuid,
    /// Whether activity is read, too.
    pub activity: bool,
}

/// A user as stored: the document is serialized JSON ([`super::profile`]), the activity is
/// packed ([`super::activity`]).
pub struct UserRow<'a> {
    pub service_id: Uuid,
    pub doc: &'a str,
    pub activity: Option<&'a [u8]>,
}

/// The part of a range in one slice: users after `after`, up to and including `up_to`.
struct Range {
    workspace: i32,
    slice: i16,
    after: Uuid,
    up_to: Uuid,
    /// Bodies of activity that are read together; 0 if they are not needed.
    activity_rows: i64,
}

impl<'a> UserRange<'a> {
    /// The same users, a range for each slice.
    pub fn by_slice(&self) -> Vec<UserRange<'a>> {
        let within = self.after.slice..=self.up_to.slice;
        let slices = self.slices.iter().filter(|slice| within.contains(slice));
        let range = |slice: &i16| {
            let (start, end) = (Uuid::nil(), Uuid::max());
            let after = if *slice == self.after.slice { self.after.service_id } else { start };
            let up_to = if *slice == self.up_to.slice { self.up_to.service_id } else { end };
            UserRange {
                after: Position { slice: *slice, service_id: after },
                up_to: Position { slice: *slice, service_id: up_to },
                ..self.clone()
            }
        };
        slices.map(range).collect()
    }
}

impl UserRange<'_> {
    fn ranges(&self) -> impl Iterator<Item = Range> {
        let within = self.after.slice..=self.up_to.slice;
        self.slices.iter().filter(move |slice| within.contains(slice)).map(|&slice| {
            let after = if slice == self.after.slice { self.after.service_id } else { Uuid::nil() };
            let up_to = if slice == self.up_to.slice { self.up_to.service_id } else { Uuid::max() };
            let up_to = up_to.min(self.youngest);
            let activity_rows = if self.activity { FIRST_ROWS } else { 0 };
            Range { workspace: self.workspace, slice, after, up_to, activity_rows }
        })
    }
}

/// Some activity in order, by the key of its user.
struct Activities<K> {
    bodies: Vec<(K, Vec<u8>)>,
    /// The last user whose activity was read.
    up_to: K,
}

impl Range {
    /// Reads the activity up to `last`, as long as there is room for it. Reads more the next time
    /// if bodies are small, and fewer if they are large: a body can have hundreds of kilobytes.
    async fn read_activity<K: Copy>(
        &mut self,
        rows: impl Stream<Item = sqlx::Result<(K, Vec<u8>)>>,
        last: K,
    ) -> sqlx::Result<Activities<K>> {
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        if self.activity_rows == 0 {
            return Ok(Activities { bodies, up_to: last });
        }
        let mut rows = pin!(rows);
        while bytes < BUFFER_BYTES
            && let Some((key, body)) = rows.try_next().await?
        {
            bytes += body.len();
            bodies.push((key, body));
        }
        let is_all = bytes < BUFFER_BYTES && (bodies.len() as i64) < self.activity_rows;
        let up_to = match bodies.last() {
            Some((key, _)) if !is_all => *key,
            _ => last,
        };
        let fitting = bodies.len() * ACTIVITY_BYTES / bytes.max(1);
        self.activity_rows = (fitting as i64).clamp(20, 2 * self.activity_rows).min(MAX_ROWS);
        Ok(Activities { bodies, up_to })
    }
}

/// Reads a range in order, and passes each user that existed at `moment` to `each`, whose error
/// ends the reading and is returned in the inner result. Users stream past; only some activity is
/// held. It reads what the transaction sees: pass a [snapshot](store::Store::snapshot).
pub async fn read<E>(
    tx: &mut Tx,
    users: &UserRange<'_>,
    moment: &TransactionSnapshot,
    mut each: impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    forbid_sort(tx).await?;
    for range in users.ranges() {
        let done = match tx {
            Tx::Postgres(tx) => read_postgres(tx, range, moment, &mut each).await?,
            Tx::Sqlite(tx) => read_sqlite(tx, range, moment, &mut each).await?,
        };
        if done.is_err() {
            return Ok(done);
        }
    }
    Ok(Ok(()))
}

/// Users with their documents, and the last of them.
pub type Page = (Vec<(Uuid, String)>, Option<Position>);

/// The first users of a range, at most `limit`, and where the next ones begin; none if these are
/// all. Their activity is not read.
pub async fn page(tx: &mut Tx, range: &UserRange<'_>, limit: i64) -> Result<Page, StoreError> {
    let mut users: Vec<(Uuid, String)> = Vec::new();
    for range in range.ranges().filter(|range| range.after < range.up_to) {
        let remaining = limit - users.len() as i64;
        let more: Vec<(Uuid, String)> = on!(tx, c => sqlx::query_as(
            "SELECT service_id, doc FROM users
             WHERE slice = $1 AND workspace_id = $2 AND service_id > $3 AND service_id <= $4
             ORDER BY service_id LIMIT $5",
        )
        .bind(range.slice).bind(range.workspace).bind(range.after).bind(range.up_to).bind(remaining)
        .fetch_all(c).await?);
        let is_full = more.len() as i64 >= remaining;
        users.extend(more);
        if is_full {
            let last = users.last().map(|(id, _)| Position { slice: range.slice, service_id: *id });
            return Ok((users, last));
        }
    }
    Ok((users, None))
}

/// Makes PostgreSQL scan the index: for a whole slice it prefers to read the table and sort the
/// documents, which takes 7.0 ms instead of 1.9 ms (3,000 users).
pub(super) async fn forbid_sort(tx: &mut Tx) -> Result<(), StoreError> {
    if let Tx::Postgres(tx) = tx {
        sqlx::query("SET LOCAL enable_sort = off").execute(&mut **tx).await?;
    }
    Ok(())
}

async fn read_postgres<E>(
    tx: &mut OpenTransaction<Postgres>,
    mut range: Range,
    moment: &TransactionSnapshot,
    each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    while range.after < range.up_to {
        // The server stops when there is no more room: its output is read to the end, used or not.
        // It knows the length of a body without reading it.
        let rows = sqlx::query_as(
            "SELECT service_id, body FROM (
                 SELECT service_id, body,
                     sum(octet_length(body)) OVER (ORDER BY service_id ROWS UNBOUNDED PRECEDING)
                         - octet_length(body) AS bytes_before
                 FROM (SELECT service_id, body FROM activity
                       WHERE slice = $1 AND workspace_id = $2
                         AND service_id > $3 AND service_id <= $4
                       ORDER BY service_id LIMIT $5) AS next
             ) AS counted
             WHERE bytes_before < $6 ORDER BY service_id",
        )
        .bind(range.slice)
        .bind(range.workspace)
        .bind(range.after)
        .bind(range.up_to)
        .bind(range.activity_rows)
        .bind(BUFFER_BYTES as i64)
        .fetch(&mut **tx);
        let Activities { bodies, up_to } = range.read_activity(rows, range.up_to).await?;
        let mut bodies = bodies.into_iter().peekable();
        let mut users = sqlx::query(
            "SELECT service_id, doc FROM users
             WHERE slice = $1 AND workspace_id = $2 AND service_id > $3 AND service_id <= $4
               AND (created_in IS NULL OR created_in < $5
                    OR created_in < $6 AND created_in <> ALL($7))
             ORDER BY service_id",
        )
        .bind(range.slice)
        .bind(range.workspace)
        .bind(range.after)
        .bind(up_to)
        .bind(moment.ended)
        .bind(moment.next)
        .bind(&moment.open)
        .fetch(&mut **tx);
        while let Some(row) = users.try_next().await? {
            let service_id = row.try_get(0)?;
            let activity = body_of(&mut bodies, &service_id);
            let (doc, activity) = (row.try_get(1)?, activity.as_deref());
            if let Err(stop) = each(UserRow { service_id, doc, activity }) {
                return Ok(Err(stop));
            }
        }
        range.after = up_to;
    }
    Ok(Ok(()))
}

/// The body of a user's activity, from the bodies after those of the users before, in order. Skips
/// those of users that are not read.
fn body_of<K: Ord>(
    bodies: &mut Peekable<impl Iterator<Item = (K, Vec<u8>)>>,
    user: &K,
) -> Option<Vec<u8>> {
    while bodies.next_if(|(key, _)| key < user).is_some() {}
    bodies.next_if(|(key, _)| key == user).map(|(_, body)| body)
}

/// SQLite orders a slice's users by key, and so by milliseconds; users of one millisecond are
/// sorted here.
async fn read_sqlite<E>(
    tx: &mut OpenTransaction<Sqlite>,
    mut range: Range,
    moment: &TransactionSnapshot,
    each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    if range.after >= range.up_to {
        return Ok(Ok(()));
    }
    let mut after = first_key(range.slice, service_id::millis(&range.after)) - 1;
    let last = last_key(range.slice, service_id::millis(&range.up_to));
    let mut buffer = RowBuffer::default();
    while after < last {
        let rows = sqlx::query_as(
            "SELECT key, body FROM activity WHERE key > $1 AND key <= $2 ORDER BY key LIMIT $3",
        )
        .bind(after)
        .bind(last)
        .bind(range.activity_rows)
        .fetch(&mut **tx);
        let Activities { bodies, up_to } = range.read_activity(rows, last).await?;
        let mut bodies = bodies.into_iter().peekable();
        let mut users = sqlx::query(
            "SELECT key, workspace_id, service_id, doc FROM users
             WHERE key > $1 AND key <= $2 AND created_in < $3 ORDER BY key",
        )
        .bind(after)
        .bind(up_to)
        .bind(moment.next)
        .fetch(&mut **tx);
        while let Some(row) = users.try_next().await? {
            let (key, workspace): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
            let id: Uuid = row.try_get(2)?;
            let body = body_of(&mut bodies, &key);
            if workspace != range.workspace || id <= range.after || id > range.up_to {
                continue;
            }
            if let Err(stop) = buffer.push(id, row, body, each)? {
                return Ok(Err(stop));
            }
        }
        after = up_to;
    }
    buffer.flush(each)
}

/// Users of one millisecond, in any order.
#[derive(Default)]
struct RowBuffer {
    users: Vec<(Uuid, SqliteRow, Option<Vec<u8>>)>,
}

impl RowBuffer {
    fn push<E>(
        &mut self,
        id: Uuid,
        row: SqliteRow,
        activity: Option<Vec<u8>>,
        each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        let before = self.users.last().map(|(id, _, _)| service_id::millis(id));
        let mut done = Ok(Ok(()));
        if before.is_some_and(|before| before != service_id::millis(&id)) {
            done = self.flush(each);
        }
        self.users.push((id, row, activity));
        done
    }

    fn flush<E>(
        &mut self,
        each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
    ) -> Result<Result<(), E>, StoreError> {
        self.users.sort_unstable_by_key(|(id, _, _)| *id);
        for (service_id, row, activity) in self.users.drain(..) {
            let doc = row.try_get(3)?;
            let activity = activity.as_deref();
            if let Err(stop) = each(UserRow { service_id, doc, activity }) {
                return Ok(Err(stop));
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn range(activity_rows: i64) -> Range {
        let (after, up_to) = (Uuid::nil(), Uuid::max());
        Range { workspace: 1, slice: 0, after, up_to, activity_rows }
    }

    /// Checks how many bodies of one size are used, and how many are read the next time.
    async fn read_activity(range: &mut Range, count: usize, size: usize) -> (usize, i64) {
        let limit = usize::try_from(range.activity_rows).unwrap().min(count);
        let rows = (1..=limit as i64).map(|key| Ok((key, vec![0; size])));
        let read = range.read_activity(stream::iter(rows), i64::MAX).await.unwrap();
        (read.bodies.len(), read.up_to)
    }

    #[tokio::test]
    async fn small_activity_is_read_in_growing_batches() {
        let mut range = range(FIRST_ROWS);
        assert_eq!(read_activity(&mut range, 1_000_000, 100).await, (1_000, 1_000));
        assert_eq!(read_activity(&mut range, 1_000_000, 100).await, (2_000, 2_000));
        assert_eq!(read_activity(&mut range, 1_000_000, 100).await, (4_000, 4_000));
        assert_eq!(read_activity(&mut range, 1_000_000, 100).await, (5_000, 5_000));
        assert_eq!(read_activity(&mut range, 4_999, 100).await, (4_999, i64::MAX));
    }

    #[tokio::test]
    async fn large_activity_stays_within_the_memory_limit() {
        let mut range = range(FIRST_ROWS);
        let size = ACTIVITY_BYTES / 4;
        assert_eq!(read_activity(&mut range, 1_000_000, size).await, (8, 8));
        assert_eq!(read_activity(&mut range, 1_000_000, size).await, (8, 8));
        assert_eq!(read_activity(&mut range, 7, size).await, (7, i64::MAX));
    }

    #[tokio::test]
    async fn nothing_is_read_without_activity() {
        let mut range = range(0);
        assert_eq!(read_activity(&mut range, 10, 100).await, (0, i64::MAX));
    }
}
