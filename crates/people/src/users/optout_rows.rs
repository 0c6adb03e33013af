//! The SQL of email addresses whose users unsubscribed. An address is stored as hashes of its
//! [spellings](super::address), so that it is not readable; it is found again when another user
//! gets it.

use std::collections::{BTreeMap, HashMap};

use store::{StoreError, Tx, fetch_listed, insert_rows};

use super::address;
use super::erased_rows::{Name, name_hashes};

/// The class of the addresses' advisory locks in PostgreSQL.
const LOCK_CLASS: i32 = 0x6f70_746f;

/// When the users of these addresses unsubscribed, for those that are unsubscribed, by the address
/// [as it is compared](address::compared).
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
) -> Result<HashMap<String, i64>, StoreError> {
    let by_hash: Vec<([u8; 32], &str)> =
        emails.iter().flat_map(|email| hashes_of(email).map(move |hash| (hash, *email))).collect();
    let hashes: Vec<[u8; 32]> = by_hash.iter().map(|(hash, _)| *hash).collect();
    let found: Vec<(Vec<u8>, i64)> = fetch_listed!(
        tx,
        query_as,
        each hashes(hashes),
        "SELECT who, decided_at FROM unsubscribed_emails WHERE workspace_id = $2 AND who",
        workspace
    );
    let found: HashMap<Vec<u8>, i64> = found.into_iter().collect();
    let mut decided: HashMap<String, i64> = HashMap::new();
    for (hash, email) in by_hash {
        let Some(at) = found.get(&hash[..]) else { continue };
        let last = decided.entry(address::compared(email).into_owned()).or_insert(*at);
        *last = (*last).max(*at);
    }
    Ok(decided)
}

fn hashes_of(email: &str) -> impl Iterator<Item = [u8; 32]> + use<> {
    name_hashes(Name::Email, email).into_iter()
}

/// Locks addresses until the end of the transaction: those that users get, against transactions
/// that unsubscribe them. There is a limited number of locks, each for many addresses.
pub async fn lock(
    tx: &mut Tx,
    workspace: i32,
    new_emails: &[&str],
    unsubscribed: &[&str],
) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    // By lock; whether it is exclusive.
    let mut locks: BTreeMap<i32, bool> = BTreeMap::new();
    for (emails, is_exclusive) in [(new_emails, false), (unsubscribed, true)] {
        for hash in emails.iter().flat_map(|email| hashes_of(email)) {
            locks.insert(i32::from(hash[0]) ^ (workspace << 8), is_exclusive);
        }
    }
    if locks.is_empty() {
        return Ok(());
    }
    let (locks, exclusive): (Vec<i32>, Vec<bool>) = locks.into_iter().unzip();
    // The rows of a function are processed one by one, in order.
    sqlx::query(
        "SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock($1, lock)
                ELSE pg_advisory_xact_lock_shared($1, lock) END
         FROM unnest($2::int[], $3::boolean[]) WITH ORDINALITY AS locks (lock, exclusive, number)
         ORDER BY number",
    )
    .bind(LOCK_CLASS)
    .bind(locks)
    .bind(exclusive)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Locks the rows of addresses until the end of the transaction, in their order.
pub(super) async fn lock_rows(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
) -> Result<(), StoreError> {
    let Tx::Postgres(tx) = tx else { return Ok(()) };
    let hashes: Vec<[u8; 32]> = emails.iter().flat_map(|email| hashes_of(email)).collect();
    sqlx::query(
        "SELECT 1 FROM unsubscribed_emails WHERE workspace_id = $1 AND who = ANY($2)
         ORDER BY who FOR UPDATE",
    )
    .bind(workspace)
    .bind(hashes.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Stores when the users of addresses unsubscribed; each address once.
pub async fn put(tx: &mut Tx, workspace: i32, new: &[(&str, i64)]) -> Result<(), StoreError> {
    let new = sorted(new);
    insert_rows!(tx, "unsubscribed_emails", new, |new| {
        workspace_id: workspace,
        who: &new.0[..],
        decided_at: new.1,
    }, "ON CONFLICT (workspace_id, who) DO UPDATE SET decided_at = excluded.decided_at
        WHERE unsubscribed_emails.decided_at < excluded.decided_at");
    Ok(())
}

/// Deletes addresses whose users subscribed again at a time.
pub async fn remove(
    tx: &mut Tx,
    workspace: i32,
    subscribed: &[(&str, i64)],
) -> Result<(), StoreError> {
    let subscribed = sorted(subscribed);
    match tx {
        _ if subscribed.is_empty() => {}
        Tx::Postgres(tx) => {
            let (hashes, times): (Vec<&[u8]>, Vec<i64>) =
                subscribed.iter().map(|(hash, at)| (&hash[..], *at)).unzip();
            sqlx::query(
                "DELETE FROM unsubscribed_emails
                 USING unnest($2::bytea[], $3::bigint[]) AS subscribed (who, at)
                 WHERE workspace_id = $1 AND unsubscribed_emails.who = subscribed.who
                   AND decided_at < subscribed.at",
            )
            .bind(workspace)
            .bind(hashes)
            .bind(times)
            .execute(&mut **tx)
            .await?;
        }
        Tx::Sqlite(tx) => {
            for (hash, at) in subscribed {
                sqlx::query(
                    "DELETE FROM unsubscribed_emails
                     WHERE workspace_id = $1 AND who = $2 AND decided_at < $3",
                )
                .bind(workspace)
                .bind(&hash[..])
                .bind(at)
                .execute(&mut **tx)
                .await?;
            }
        }
    }
    Ok(())
}

/// The hashes, in the order in which rows are locked.
fn sorted(emails: &[(&str, i64)]) -> Vec<([u8; 32], i64)> {
    let hashes = |(email, at): &(&str, i64)| {
        let at = *at;
        hashes_of(email).map(move |hash| (hash, at))
    };
    let mut hashes: Vec<_> = emails.iter().flat_map(hashes).collect();
    hashes.sort_unstable();
    hashes
}
