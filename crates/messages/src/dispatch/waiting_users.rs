//! The users of messages that wait to be sent.
//!
//! A send can take minutes, and users who unsubscribe, lose an address or are erased meanwhile must
//! get nothing. So the users are read again before a message starts, unless they were read shortly
//! before. One statement reads also the users of the messages after it, which start soon.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::DispatchError;
use super::guard::PAUSE;
use super::recipient::{check_again, unreadable_profile};
use super::state::RowState;
use crate::app::App;
use crate::order::SubscriptionState;
use gateway::workspaces::Channel;
use kit::moment::Moment;
use kit::retry;
use people::users::Recipient;
use people::users::rows::{For, StoredUser, find_users};
use people::users::suppressions::AddressStates;
use store::{StoreError, within_timeout};

/// How long users that were read can be sent messages. After this time, a user's decision to get no
/// messages also holds for messages that wait already.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Number of messages whose users one statement reads.
const READ_AHEAD: usize = 100;

/// Contact data of a user as read again: none if the user no longer exists; or why the profile is
/// unreadable.
type Contact = Option<Result<Arc<Recipient>, &'static str>>;

struct LatestUser {
    read_at: Moment,
    contact: Contact,
}

/// The users of a group of messages. Each message is known by its index.
pub(super) struct WaitingUsers {
    users: Vec<Uuid>,
    /// When all users were read with the group.
    read_at: Option<Moment>,
    /// The users that were read again since.
    latest: HashMap<Uuid, LatestUser>,
}

impl WaitingUsers {
    /// `users` has the user of each message, and all of them were read at `read_at`.
    pub fn new(users: Vec<Uuid>, read_at: Option<Moment>) -> Self {
        Self { users, read_at, latest: HashMap::new() }
    }

    /// Whether the user of a message was read shortly before.
    pub fn is_fresh(&self, message: usize) -> bool {
        let latest = self.latest.get(&self.users[message]);
        let read_at = latest.map(|user| user.read_at).or(self.read_at);
        read_at.is_some_and(|at| at.elapsed() < MAX_AGE)
    }

    /// Reads the user of a message again if that is due. Waits while the store cannot be read, until
    /// `halt`.
    pub async fn refresh(
        &mut self,
        app: &App,
        workspace: i32,
        message: usize,
        halt: &CancellationToken,
    ) {
        while !self.is_fresh(message) && !halt.is_cancelled() {
            match self.read(app, workspace, message, halt).await {
                Ok(contacts) => {
                    // From the end of the read, so that a slow store is not read all the time.
                    let read_at = Moment::now();
                    let latest = |(id, contact)| (id, LatestUser { read_at, contact });
                    self.latest.extend(contacts.into_iter().map(latest));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the users of waiting messages");
                    retry::wait(PAUSE, halt).await;
                }
            }
        }
    }

    async fn read(
        &self,
        app: &App,
        workspace: i32,
        message: usize,
        halt: &CancellationToken,
    ) -> Result<HashMap<Uuid, Contact>, DispatchError> {
        let store = app.store.clone();
        let ids: HashSet<Uuid> = self.users[message..].iter().take(READ_AHEAD).copied().collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut contacts: HashMap<Uuid, Contact> = ids.iter().map(|id| (*id, None)).collect();
        let reading = async move {
            let mut tx = store.snapshot().await?;
            let users = find_users(&mut tx, workspace, &ids, For::Reading).await?;
            let documents = users.iter().map(|user| (user.service_id, user.doc.as_str()));
            let addresses = AddressStates::look_up(&mut tx, workspace, documents).await?;
            Ok::<_, StoreError>((users, addresses))
        };
        let (stored, addresses) = within_timeout(reading, halt.cancelled()).await?;
        let computing = app.compute(workspace, move || {
            contacts.extend(stored.into_iter().map(|user| read_contact(user, &addresses)));
            contacts
        });
        Ok(computing.await)
    }

    /// The user of a message, if it was read again. The error is the outcome of a message that can
    /// no longer be sent.
    pub fn latest(
        &self,
        message: usize,
        channel: Channel,
        required: SubscriptionState,
    ) -> Result<Option<Arc<Recipient>>, (RowState, &'static str)> {
        let Some(user) = self.latest.get(&self.users[message]) else { return Ok(None) };
        let contact = &user.contact;
        let recipient = contact.as_ref().map(|contact| contact.as_deref().map_err(|why| *why));
        check_again(recipient, channel, required)?;
        Ok(contact.clone().and_then(Result::ok))
    }
}

fn read_contact(user: StoredUser, addresses: &AddressStates) -> (Uuid, Contact) {
    let StoredUser { service_id, doc, .. } = user;
    let contact = Recipient::read_contact(service_id, &doc).map(|mut user| {
        addresses.apply(&mut user, &doc);
        user
    });
    let contact = contact.map_err(|error| unreadable_profile(service_id, &error));
    (service_id, Some(contact.map(Arc::new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_start_only_if_the_latest_state_of_their_user_allows_it() {
        let [ann, bob, cid, dee] = [1, 2, 3, 4].map(Uuid::from_u128);
        let mut users = WaitingUsers::new(vec![ann, ann, bob, cid, dee], Some(Moment::now()));
        let (email, webhook) = (Channel::Email, Channel::Webhook);
        let latest = |users: &WaitingUsers, message, channel| {
            let latest = users.latest(message, channel, SubscriptionState::Subscribed);
            latest.map(|user| user.map(|user| user.service_id)).map_err(|(state, _)| state)
        };
        assert!((0..5).all(|message| users.is_fresh(message)));
        assert_eq!(latest(&users, 0, email), Ok(None), "as it was read with the group");
        let read_again = |document: Option<&str>| {
            let contact = document.map(|document| {
                Recipient::read_contact(ann, document).map(Arc::new).map_err(|_| "unreadable")
            });
            LatestUser { read_at: Moment::now(), contact }
        };
        users.latest.extend([
            (ann, read_again(Some(r#"{"email_subscribe": "unsubscribed"}"#))),
            (bob, read_again(Some("{"))),
            (cid, read_again(None)),
        ]);
        assert_eq!(latest(&users, 0, email), Err(RowState::Unreachable));
        assert_eq!(latest(&users, 1, webhook), Ok(Some(ann)));
        assert_eq!(latest(&users, 2, email), Err(RowState::Failed));
        assert_eq!(latest(&users, 3, webhook), Err(RowState::Failed), "erased");
        assert_eq!(latest(&users, 4, webhook), Ok(None), "not read again");
        users.read_at = Moment::now().checked_sub(MAX_AGE);
        assert!(users.is_fresh(3) && !users.is_fresh(4));
    }
}
