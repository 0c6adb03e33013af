//! The users who have an email address, and the one of them that the address identifies.
//!
//! Any number of users may have one address, such as a placeholder. So only the keys of some of
//! them are in memory at the same time, without documents.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use uuid::Uuid;

use super::address::compared;
use super::rows::{self, For, StoredUser};
use super::service_id;
use store::{StoreError, Tx};

/// Users whose keys are read together.
const PAGE: usize = 5_000;

/// The rank of a user among those with an address. The address identifies the user with the highest
/// one: of those with an external id, otherwise of all, the one that was written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    has_external_id: bool,
    attributes_at: i64,
    pub service_id: Uuid,
}

impl Rank {
    pub fn new(user: &StoredUser) -> Self {
        let StoredUser { external_id, attributes_at, service_id, .. } = user;
        Self {
            has_external_id: external_id.is_some(),
            attributes_at: *attributes_at,
            service_id: *service_id,
        }
    }
}

/// The users that addresses identify among those who count, without documents, by the address
/// [as it is compared](compared).
pub async fn find(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
    counts: impl Fn(&StoredUser) -> bool,
) -> Result<HashMap<String, StoredUser>, StoreError> {
    let mut owners: HashMap<String, StoredUser> = HashMap::new();
    let visit = |user: StoredUser| {
        if let Some(email) = user.address().filter(|_| counts(&user)).map(Cow::into_owned)
            && owners.get(&email).is_none_or(|owner| Rank::new(owner) < Rank::new(&user))
        {
            owners.insert(email, user);
        }
        ControlFlow::Continue(())
    };
    for_each_holder(tx, workspace, emails, visit).await?;
    Ok(owners)
}

/// Passes on each user who has one of these addresses, in any spelling, without documents, until
/// `visit` breaks.
pub async fn for_each_holder(
    tx: &mut Tx,
    workspace: i32,
    emails: &[&str],
    mut visit: impl FnMut(StoredUser) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let emails_set: HashSet<Cow<'_, str>> = emails.iter().map(|email| compared(email)).collect();
    let mut hinted = rows::find_emails(tx, workspace, emails).await?;
    // In the order of the tables.
    hinted.sort_unstable_by_key(|id| (service_id::bucket(id).map(service_id::slice_of), *id));
    hinted.dedup();
    for ids in hinted.chunks(PAGE) {
        for user in rows::find_users(tx, workspace, ids, For::ReadingKeys).await? {
            if user.address().is_some_and(|email| emails_set.contains(&*email))
                && visit(user).is_break()
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_id_ranks_before_the_time_of_the_last_write() {
        let user = |external_id: Option<&str>, attributes_at: i64, id: u128| StoredUser {
            key: 0,
            service_id: Uuid::from_u128(id),
            external_id: external_id.map(str::to_owned),
            email: Some("x@acme.example".to_owned()),
            attributes_at,
            doc: String::new(),
        };
        let ascending = [
            user(None, 1, 9),
            user(None, 2, 1),
            user(Some("z"), 1, 1),
            user(Some("a"), 1, 2),
            user(Some("a"), 2, 1),
        ];
        assert!(ascending.iter().map(Rank::new).is_sorted_by(|a, b| a < b));
    }
}
