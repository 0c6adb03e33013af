//! The SQL of email addresses whose users unsubscribed. An address is stored as a hash, so that it
//! is not readable; it is found again when another user gets it.

use std::collections::{BTreeMap, HashMap};

use store::{StoreError, Tx, fetch_listed, insert_rows};

use super::erased_rows::{Name, name_hash};

/// The class of the addresses' advisory locks in PostgreSQL.
const LOCK_CLASS: i32 = 0x6f70_746f;

/// When the users of these addresses unsubscribed, for those that are unsubscribed.
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
) -> Result<HashMap<String, i64>, StoreError> {
    let hashes: Vec<[u8; 32]> = emails.iter().map(|email| name_hash(Name::Email, email)).collect();
    let found: Vec<(Vec<u8>, i64)> = fetch_listed!(
        tx,
        query_as,
        each hashes(hashes),
        "SELECT who, decided_at FROM unsubscribed_emails WHERE workspace_id = $2 AND who",
        workspace
    );
    let found: HashMap<Vec<u8>, i64> = found.into_iter().collect();
    let decided_at = |hash: &[u8; 32]| found.get(&hash[..]).copied();
    let by_hash = emails.iter().zip(&hashes);
    Ok(by_hash.filter_map(|(email, hash)| Some(((*email).to_owned(), decided_at(hash)?))).collect())
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
    let lock_number = |email: &&str| i32::from(name_hash(Name::Email, email)[0]) ^ (workspace << 8);
    // By lock; whether it is exclusive.
    let mut locks: BTreeMap<i32, bool> =
        new_emails.iter().map(|email| (lock_number(email), false)).collect();
    locks.extend(unsubscribed.iter().map(|email| (lock_number(email), true)));
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
    let hashes: Vec<[u8; 32]> = emails.iter().map(|email| name_hash(Name::Email, email)).collect();
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
    let mut hashes: Vec<_> =
        emails.iter().map(|(email, at)| (name_hash(Name::Email, email), *at)).collect();
    hashes.sort_unstable();
    hashes
}
