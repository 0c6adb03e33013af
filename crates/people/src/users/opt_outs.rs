//! The email addresses of users who unsubscribed, as their profiles have them, in the spelling in
//! which they are compared.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::address::compared;
use super::consent::Consent;
use super::optout_rows;
use super::profile::Profile;
use super::rows::{self, For, StoredUser};
use store::{StoreError, Tx};

/// Users whose profiles are in memory at the same time: many may have one address.
const PAGE: usize = 20;

/// The addresses of users who unsubscribed, and when. A profile that cannot be read is skipped.
pub(super) fn unsubscribed_emails(users: &[StoredUser]) -> BTreeMap<String, i64> {
    let mut opt_outs = BTreeMap::new();
    for user in users {
        let (Some(email), Ok(profile)) = (user.address(), Profile::parse(&user.doc)) else {
            continue;
        };
        let consent = Consent::read(&profile).with_opt_outs_at(user.attributes_at);
        if let Some(at) = consent.unsubscribed_at() {
            let last = opt_outs.entry(email.into_owned()).or_insert(at);
            *last = at.max(*last);
        }
    }
    opt_outs
}

/// Deletes the records that the addresses of users who were erased at a time are unsubscribed.
/// The users' rows must be deleted already. The record of an address stays as it is while another
/// user of it is unsubscribed: the next user who gets the address must be, too.
pub(super) async fn erase(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
    erased_at: i64,
) -> Result<(), StoreError> {
    let recorded = optout_rows::find(tx, workspace, emails).await?;
    let mut erased: Vec<&str> = emails.to_vec();
    erased.retain(|email| recorded.contains_key(&*compared(email)));
    // Waits for transactions that unsubscribe a user of an address.
    optout_rows::lock_rows(tx, workspace, &erased).await?;
    let users: Vec<Uuid> = rows::find_emails(tx, workspace, &erased).await?;
    for ids in users.chunks(PAGE) {
        if erased.is_empty() {
            break;
        }
        let users = rows::find_users(tx, workspace, ids, For::Reading).await?;
        let unsubscribed = unsubscribed_emails(&users);
        erased.retain(|email| !unsubscribed.contains_key(&*compared(email)));
    }
    // Including decisions at the time of the erasure.
    let erased: Vec<(&str, i64)> =
        erased.into_iter().map(|email| (email, erased_at.saturating_add(1))).collect();
    optout_rows::remove(tx, workspace, &erased).await
}
