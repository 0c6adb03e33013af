//! Writes the users of a batch.

use std::collections::HashSet;

use jiff::civil::Date;
use uuid::Uuid;

use super::super::{ImportError, new_rows};
use super::{ImportedUser, ImportedUsers};
use crate::users::rows::{self, Identifier, StoredUser};
use crate::users::suppressions::{self, NewDecision};
use crate::users::{activity_rows, keys, service_id};
use store::{StoreError, Tx};

/// Users to write, and their packed activity, as in [`activity_rows::put_activity`].
#[derive(Default)]
struct Rows {
    users: Vec<StoredUser>,
    activity: Vec<(i64, Uuid, Vec<u8>)>,
}

impl ImportedUsers<'_> {
    /// Writes the changed users. Identifiers before profiles before activity, each in the order of
    /// their keys, so that writers never deadlock.
    ///
    /// `can_copy`: PostgreSQL copies the rows of new users, which takes less time. This is a
    /// conflict if a row exists.
    pub async fn write(
        self,
        tx: &mut Tx,
        workspace: i32,
        today: Date,
        now_ms: i64,
        can_copy: bool,
    ) -> Result<(), ImportError> {
        let mut imported: Vec<ImportedUser<'_>> =
            self.imported.into_iter().filter(|user| user.change.is_some()).collect();
        imported.sort_by_cached_key(|user| {
            (service_id::slice(&user.service_id).unwrap_or(i16::MAX), user.service_id)
        });
        let copies = can_copy && tx.is_postgres();
        write_identifiers(tx, workspace, &imported, copies).await?;
        let keys = user_keys(tx, &imported).await?;
        let opt_outs: Vec<NewDecision<'_>> =
            imported.iter().flat_map(|user| user.opt_outs.iter().cloned()).collect();
        let (mut copied, mut upserted) = (Rows::default(), Rows::default());
        for (user, key) in imported.into_iter().zip(keys) {
            let Some(change) = user.change else { continue };
            let rows = if copies && user.stored.is_none() { &mut copied } else { &mut upserted };
            if let Some(activity) = change.activity {
                let activity = activity.pruned(today);
                // Empty new activity needs no row; existing activity is replaced with nothing.
                if user.stored.is_some() || !activity.is_empty() {
                    rows.activity.push((key, user.service_id, activity.encode()));
                }
            }
            rows.users.push(StoredUser {
                key,
                service_id: user.service_id,
                external_id: user.external_id,
                email: user.email,
                attributes_at: if change.activity.is_some() { now_ms } else { user.written.0 },
                doc: change.doc,
            });
        }
        if let Tx::Postgres(tx) = tx {
            new_rows::copy_users(tx, workspace, &copied.users).await.map_err(conflict)?;
            new_rows::copy_activity(tx, workspace, &copied.activity).await.map_err(conflict)?;
        }
        rows::put_users(tx, workspace, &upserted.users).await?;
        activity_rows::put_activity(tx, workspace, &upserted.activity).await?;
        suppressions::decide(tx, workspace, &opt_outs).await?;
        Ok(self.tokens.write(tx, workspace).await?)
    }
}

/// Adds and removes the identifiers and email hints of the changed users.
async fn write_identifiers(
    tx: &mut Tx,
    workspace: i32,
    imported: &[ImportedUser<'_>],
    copies: bool,
) -> Result<(), ImportError> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    let (mut emails, mut former_emails) = (Vec::new(), Vec::new());
    for user in imported {
        let identifier = |(kind, value)| Identifier { kind, value, service_id: user.service_id };
        if user.stored.is_some() {
            let before: HashSet<_> = user.stored_identifiers().into_iter().collect();
            let after: HashSet<_> = user.identifiers().into_iter().collect();
            removed.extend(before.difference(&after).cloned().map(identifier));
            added.extend(after.difference(&before).cloned().map(identifier));
        } else {
            added.extend(user.identifiers().into_iter().map(identifier));
        }
        let stored_email = user.stored.as_ref().and_then(|stored| stored.email.as_ref());
        if stored_email != user.email.as_ref() {
            former_emails.extend(stored_email.cloned().map(|email| (email, user.service_id)));
            emails.extend(user.email.clone().map(|email| (email, user.service_id)));
        }
    }
    removed.sort_unstable();
    for identifier in &removed {
        rows::remove_identifier(tx, workspace, identifier).await?;
    }
    added.sort_unstable();
    former_emails.sort_unstable();
    emails.sort_unstable();
    match tx {
        Tx::Postgres(tx) if copies => {
            new_rows::copy_identifiers(tx, workspace, &added).await.map_err(conflict)?;
            new_rows::copy_emails(tx, workspace, &emails).await.map_err(conflict)?;
        }
        _ => {
            if rows::add_identifiers(tx, workspace, &added).await? != added.len() as u64 {
                return Err(ImportError::Conflict);
            }
            rows::add_emails(tx, workspace, &emails).await?;
        }
    }
    Ok(rows::remove_emails(tx, workspace, &former_emails).await?)
}

/// The error of a copy: a row exists, mostly because another transaction has created it.
fn conflict(error: StoreError) -> ImportError {
    if error.is_unique_violation() { ImportError::Conflict } else { error.into() }
}

/// SQLite's keys of users: existing and new ones.
async fn user_keys(tx: &mut Tx, imported: &[ImportedUser<'_>]) -> Result<Vec<i64>, StoreError> {
    let new: Vec<Uuid> =
        imported.iter().filter(|user| user.stored.is_none()).map(|user| user.service_id).collect();
    let mut new = keys::allocate_keys(tx, &new).await?.into_iter();
    let key = |user: &ImportedUser<'_>| match &user.stored {
        Some(stored) => Some(stored.key),
        None => new.next(),
    };
    Ok(imported.iter().filter_map(key).collect())
}
