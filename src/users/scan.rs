//! Users in order of (slice, service_id): what an export cuts into parts and reads.

use std::collections::HashMap;

use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{Postgres, Row as _, Sqlite, Transaction};
use uuid::Uuid;

use super::keys::{first_key, last_key};
use super::{Position, service_id};
use crate::store::{StoreError, Tx, on};

/// Bytes of activity that are read at once, about, and held while users stream past.
const ACTIVITY_BYTES: usize = 1 << 20;

/// Bodies of activity that are read first; then as many as the last were small, since each
/// reading costs two queries. 200 at a time, all fields of 100,000 users took 1.50 s where the
/// same records took 1.37 s in a shell's pipe; so, 300,000 took 3.88 s and 3.82 s.
const FIRST_ROWS: i64 = 1_000;

/// A group of users, cut into stretches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuts {
    pub users: i64,
    /// The last user of each stretch, ascending; the last one ends with the last user.
    pub ends: Vec<Position>,
    /// The largest service_id seen; later ones were created after this look.
    pub youngest: Uuid,
}

/// Cuts the users of `slices` (ascending) into stretches of `per_part`. Looks at the index
/// only.
pub async fn cut(
    tx: &mut Tx,
    workspace: i32,
    slices: &[i16],
    per_part: u32,
) -> Result<Cuts, StoreError> {
    let mut cuts = Cuts { users: 0, ends: Vec::new(), youngest: Uuid::nil() };
    let mut last = None;
    for &slice in slices {
        // Users are numbered from 1 over all slices: wanted are the multiples of
        // `per_part` and, for the count, the slice's last.
        let marks: Vec<(Uuid, i64)> = on!(&mut *tx, c => sqlx::query_as(
            "SELECT service_id, n FROM (
                 SELECT service_id, $4 + row_number() OVER (ORDER BY service_id) AS n,
                        lead(1) OVER (ORDER BY service_id) AS more
                 FROM users WHERE slice = $1 AND workspace_id = $2
             ) AS numbered
             WHERE n % $3 = 0 OR more IS NULL ORDER BY n",
        )
        .bind(slice).bind(workspace).bind(i64::from(per_part)).bind(cuts.users)
        .fetch_all(c).await?);
        for (service_id, number) in marks {
            let position = Position { slice, service_id };
            if number % i64::from(per_part) == 0 {
                cuts.ends.push(position);
            }
            cuts.users = number;
            cuts.youngest = cuts.youngest.max(service_id);
            last = Some(position);
        }
    }
    if let Some(last) = last
        && cuts.ends.last() != Some(&last)
    {
        cuts.ends.push(last);
    }
    Ok(cuts)
}

/// A stretch of users: those after `after`, up to and with `up_to`, in the slices of
/// `slices`, none younger than `youngest`.
#[derive(Clone, Debug)]
pub struct Stretch<'a> {
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

/// The part of a stretch that lies in one slice: users after `after`, up to and with `up_to`.
struct Range {
    workspace: i32,
    slice: i16,
    after: Uuid,
    up_to: Uuid,
    /// Bodies of activity that are read at once; none of them are wanted when 0.
    activity_rows: i64,
}

impl Stretch<'_> {
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

impl Range {
    /// Up to where users can be read with the activity at hand: up to `last`, where there is
    /// no more of it. Then more of it is read at once where its bodies are small, and less
    /// where they are large: one that has much in it is hundreds of kilobytes.
    fn reach<K: Copy>(&mut self, activity: &[(K, Vec<u8>)], last: K) -> K {
        let rows = activity.len();
        match activity.last() {
            Some((key, _)) if rows as i64 == self.activity_rows => {
                let bytes: usize = activity.iter().map(|(_, body)| body.len()).sum();
                self.activity_rows = (rows * ACTIVITY_BYTES / bytes.max(1)).clamp(20, 5_000) as i64;
                *key
            }
            _ => last,
        }
    }
}

/// Reads a stretch in order, handing each user to `each`, whose error ends the reading and is
/// answered in the inner result. Users stream past; only some activity is held. What the
/// transaction sees is what is read: give it a [snapshot](crate::store::Store::snapshot).
pub async fn read<E>(
    tx: &mut Tx,
    stretch: &Stretch<'_>,
    mut each: impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    for range in stretch.ranges() {
        let done = match tx {
            Tx::Postgres(tx) => read_postgres(tx, range, &mut each).await?,
            Tx::Sqlite(tx) => read_sqlite(tx, range, &mut each).await?,
        };
        if done.is_err() {
            return Ok(done);
        }
    }
    Ok(Ok(()))
}

async fn read_postgres<E>(
    tx: &mut Transaction<'static, Postgres>,
    mut range: Range,
    each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    while range.after < range.up_to {
        let activity: Vec<(Uuid, Vec<u8>)> = match range.activity_rows {
            0 => Vec::new(),
            rows => {
                sqlx::query_as(
                    "SELECT service_id, body FROM activity
                     WHERE slice = $1 AND workspace_id = $2 AND service_id > $3 AND service_id <= $4
                     ORDER BY service_id LIMIT $5",
                )
                .bind(range.slice)
                .bind(range.workspace)
                .bind(range.after)
                .bind(range.up_to)
                .bind(rows)
                .fetch_all(&mut **tx)
                .await?
            }
        };
        // Users whose activity is at hand.
        let up_to = range.reach(&activity, range.up_to);
        let activity: HashMap<Uuid, Vec<u8>> = activity.into_iter().collect();
        let mut users = sqlx::query(
            "SELECT service_id, doc FROM users
             WHERE slice = $1 AND workspace_id = $2 AND service_id > $3 AND service_id <= $4
             ORDER BY service_id",
        )
        .bind(range.slice)
        .bind(range.workspace)
        .bind(range.after)
        .bind(up_to)
        .fetch(&mut **tx);
        while let Some(row) = users.try_next().await? {
            let service_id = row.try_get(0)?;
            let activity = activity.get(&service_id).map(Vec::as_slice);
            if let Err(stop) = each(UserRow { service_id, doc: row.try_get(1)?, activity }) {
                return Ok(Err(stop));
            }
        }
        range.after = up_to;
    }
    Ok(Ok(()))
}

/// SQLite keeps a slice's users by key, in order of their milliseconds; those of one
/// millisecond are put in order here.
async fn read_sqlite<E>(
    tx: &mut Transaction<'static, Sqlite>,
    mut range: Range,
    each: &mut impl FnMut(UserRow<'_>) -> Result<(), E>,
) -> Result<Result<(), E>, StoreError> {
    if range.after >= range.up_to {
        return Ok(Ok(()));
    }
    let mut after = first_key(range.slice, service_id::millis(&range.after)) - 1;
    let last = last_key(range.slice, service_id::millis(&range.up_to));
    let mut together = Together::default();
    while after < last {
        let mut activity: Vec<(i64, Vec<u8>)> = sqlx::query_as(
            "SELECT key, body FROM activity WHERE key > $1 AND key <= $2 ORDER BY key LIMIT $3",
        )
        .bind(after)
        .bind(last)
        .bind(range.activity_rows)
        .fetch_all(&mut **tx)
        .await?;
        let up_to = range.reach(&activity, last);
        let mut activity = activity.drain(..).peekable();
        let mut users = sqlx::query(
            "SELECT key, workspace_id, service_id, doc FROM users
             WHERE key > $1 AND key <= $2 ORDER BY key",
        )
        .bind(after)
        .bind(up_to)
        .fetch(&mut **tx);
        while let Some(row) = users.try_next().await? {
            let (key, workspace): (i64, i32) = (row.try_get(0)?, row.try_get(1)?);
            let id: Uuid = row.try_get(2)?;
            let mut body = None;
            while let Some((at, found)) = activity.next_if(|(at, _)| *at <= key) {
                body = (at == key).then_some(found);
            }
            if workspace != range.workspace || id <= range.after || id > range.up_to {
                continue;
            }
            if let Err(stop) = together.push(id, row, body, each)? {
                return Ok(Err(stop));
            }
        }
        after = up_to;
    }
    together.flush(each)
}

/// Users of one millisecond, who come in any order.
#[derive(Default)]
struct Together {
    users: Vec<(Uuid, SqliteRow, Option<Vec<u8>>)>,
}

impl Together {
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
