//! `/email/unsubscribe/{token}`: the address in the `List-Unsubscribe` header of every email that
//! is not transactional (RFC 8058).
//!
//! [Its token](messages::unsubscribe_token) identifies the user, and the address that got the email.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::app::App;
use gateway::ApiError;
use messages::unsubscribe_token;
use people::users::identifier::Identifier;
use people::users::recipient::{Recipient, Subscription};
use people::users::rows::{For, StoredUser, find_users};
use people::users::suppressions::{self, Address, AddressState, AddressStates, Hash};
use people::users::{merged_rows, service_id};
use store::StoreError;
use tracking::immediate::RequestOptOuts;
use tracking::message::{Attributes, DecidedAddress, Entries, Json, Object};

/// Maximum number of messages that a token may append in a window of this many milliseconds.
const MAX_APPENDS: u32 = 5;
pub(super) const WINDOW: i64 = 60 * 60 * 1_000;

/// Maximum number of POSTs of a token in a window of this many milliseconds, because each looks up
/// its user.
const MAX_POSTS: u32 = 30;
const POSTS_WINDOW: i64 = 60 * 1_000;

/// Maximum number of tokens whose POSTs and appends are counted.
const MAX_TOKENS: usize = 50_000;

/// A link that works.
#[derive(Debug)]
pub struct Link {
    /// Who is unsubscribed.
    target: Target,
    /// Whether that is so already, as far as changes are applied. A repeat is still appended, a few
    /// times, because an older change in the log could end the first decision.
    pub is_unsubscribed: bool,
}

/// Who a link unsubscribes.
#[derive(Debug)]
enum Target {
    /// The address that got the email, which the user has no more, or which is not known to be the
    /// user's because the store is down.
    Address(Hash),
    /// The user, who has this address. The decision also holds for the address.
    User { id: Uuid, email: Option<String> },
}

/// The link of a token; none if no user has the id, and the token has no address. The user may have
/// been merged into another one since. If the store is down, the link works.
///
/// If the database lost the creation of the user in a crash, the user is created again from the
/// log, with another id. The link then no longer works for the user, only for the address.
pub async fn link(app: &App, token: &unsubscribe_token::Recipient) -> Option<Link> {
    let unsubscribe_token::Recipient { workspace, user: id, address } = *token;
    service_id::bucket(&id)?;
    let lookup = async {
        let mut tx = app.request_queue.snapshot().await?;
        let present = merged_rows::present(&mut tx, workspace, id).await?;
        let user = find_users(&mut tx, workspace, &[present], For::Reading).await?.pop();
        let documents = user.iter().map(|user| (user.service_id, user.doc.as_str()));
        let states = AddressStates::look_up(&mut tx, workspace, documents).await?;
        let known = match &address {
            Some(hash) => AddressStates::of_hash(&mut tx, workspace, hash).await?,
            None => AddressState::default(),
        };
        let key = suppressions::stored_key(&mut tx, workspace).await?;
        Ok::<_, StoreError>((user, states, known, key))
    };
    let Ok((user, states, known, key)) = lookup.await else {
        let target = match address {
            Some(hash) => Target::Address(hash),
            None => Target::User { id, email: None },
        };
        return Some(Link { target, is_unsubscribed: false });
    };
    let hash_of = |email: &str| Some(key.as_ref()?.hash(&Address::Email(email.into())));
    let has_address =
        |user: &StoredUser| address.is_none() || user.email.as_deref().and_then(hash_of) == address;
    match (user.filter(has_address), address) {
        (Some(user), _) => {
            let is_unsubscribed =
                Recipient::read(user.service_id, &user.doc).is_ok_and(|mut read| {
                    states.apply(&mut read, &user.doc);
                    read.email_subscription() == Subscription::Unsubscribed
                });
            Some(Link { target: Target::User { id, email: user.email }, is_unsubscribed })
        }
        (None, Some(hash)) => {
            let is_unsubscribed = known.is_email_unsubscribed();
            Some(Link { target: Target::Address(hash), is_unsubscribed })
        }
        (None, None) => None,
    }
}

/// A count since the start of its window.
#[derive(Clone, Copy, Default)]
struct Count {
    since: i64,
    count: u32,
}

impl Count {
    fn is_current(&self, now: i64, window: i64) -> bool {
        self.count > 0 && (self.since..self.since + window).contains(&now)
    }

    /// Counts one more; an error at the limit.
    fn take(&mut self, now: i64, window: i64, limit: u32) -> Result<(), ApiError> {
        if !self.is_current(now, window) {
            *self = Self { since: now, count: 0 };
        }
        if self.count >= limit {
            return Err(ApiError::RateLimited((self.since + window - now + 999) / 1_000));
        }
        self.count += 1;
        Ok(())
    }
}

/// The recent requests of a token.
#[derive(Clone, Copy, Default)]
struct RecentRequests {
    posts: Count,
    appends: Count,
}

/// Recent POSTs and appended messages of each token, in this process: until the first message is
/// applied, repeats append more.
#[derive(Default)]
pub struct RecentUnsubscribes(Mutex<HashMap<(i32, Uuid), RecentRequests>>);

impl RecentUnsubscribes {
    /// Counts a POST of the token of this user; an error at the token's limit.
    pub fn take_post(&self, user: (i32, Uuid), now: i64) -> Result<(), ApiError> {
        let mut recent = self.0.lock();
        if recent.len() >= MAX_TOKENS && !recent.contains_key(&user) {
            recent.retain(|_, requests| {
                requests.posts.is_current(now, POSTS_WINDOW)
                    || requests.appends.is_current(now, WINDOW)
            });
            if recent.len() >= MAX_TOKENS {
                recent.clear();
            }
        }
        recent.entry(user).or_default().posts.take(now, POSTS_WINDOW, MAX_POSTS)
    }

    /// Counts an append of a token with a counted POST; an error at its limit.
    pub fn take(&self, user: (i32, Uuid), now: i64) -> Result<(), ApiError> {
        self.0.lock().entry(user).or_default().appends.take(now, WINDOW, MAX_APPENDS)
    }

    /// Counts an append that only repeats a decision, unless that leaves none for a new one.
    pub fn take_repeat(&self, user: (i32, Uuid), now: i64) -> bool {
        let mut recent = self.0.lock();
        let appends = &mut recent.entry(user).or_default().appends;
        appends.take(now, WINDOW, MAX_APPENDS - 1).is_ok()
    }

    /// Uncounts an append that failed.
    pub fn give_back(&self, user: (i32, Uuid)) {
        if let Some(requests) = self.0.lock().get_mut(&user) {
            requests.appends.count = requests.appends.count.saturating_sub(1);
        }
    }
}

/// Unsubscribes an address from emails, and the user who has it. The change is a tracked attribute,
/// which only a decision that is received later ends. Returns once it is durable and, unless the
/// database is busy, applied.
pub async fn unsubscribe(
    app: &App,
    workspace: i32,
    link: Link,
    request_id: String,
) -> Result<(), ApiError> {
    let received_at = app.clock.now_ms();
    let messages_and_opt_outs = || -> Result<_, String> {
        let objects = objects(link.target)?;
        let request = tracking::Request {
            workspace,
            received_at,
            partitions: app.config.log.partitions,
            request_id,
            alias: None,
        };
        let messages = tracking::messages(objects, &request).map_err(|error| error.to_string())?;
        let opt_outs = RequestOptOuts::among(workspace, received_at, &messages);
        Ok((messages, opt_outs))
    };
    let (messages, opt_outs) = messages_and_opt_outs()
        .map_err(|error| ApiError::Internal(format!("a message cannot be written: {error}")))?;
    let log_times = app.log.append(messages).await?;
    metrics::counter!("longshore_message_reports_total", "type" => "unsubscribed").increment(1);
    opt_outs.apply(app, &log_times).await;
    Ok(())
}

fn objects(target: Target) -> Result<Vec<Object<'static>>, String> {
    let states = || -> Result<_, String> {
        let value = Json::compact(r#""unsubscribed""#.into())?;
        Ok(Entries(vec![("email_subscribe".into(), value)]))
    };
    let by_address = |address| -> Result<_, String> {
        let attributes = Attributes::about_address(address, states()?, Entries::default());
        Ok(Object::Attributes(attributes))
    };
    match target {
        Target::Address(hash) => {
            let hash = suppressions::hash_to_hex(&hash).into();
            Ok(vec![by_address(DecidedAddress::EmailHash(hash))?])
        }
        Target::User { id, email } => {
            let user = Identifier::ServiceId(id);
            let own = Attributes::states(user, states()?, Entries::default());
            let mut objects = vec![Object::Attributes(own)];
            if let Some(email) = email {
                objects.push(by_address(DecidedAddress::Email(email.into()))?);
            }
            Ok(objects)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_by_a_token_are_limited() {
        let (recent, ann, ben) =
            (RecentUnsubscribes::default(), (1, Uuid::now_v7()), (1, Uuid::now_v7()));
        let now = 1_700_000_000_000;
        for _ in 0..MAX_APPENDS {
            recent.take(ann, now).unwrap();
        }
        let error = recent.take(ann, now + 1_000).unwrap_err();
        assert!(matches!(error, ApiError::RateLimited(3_599)), "{error:?}");
        recent.take(ben, now).unwrap();
        // One that failed does not count.
        recent.give_back(ann);
        recent.take(ann, now + 1_000).unwrap();
        assert!(recent.take(ann, now + 1_000).is_err());
        recent.take(ann, now + WINDOW).unwrap();
    }

    #[test]
    fn requests_with_a_token_are_limited() {
        let (recent, ann, ben) =
            (RecentUnsubscribes::default(), (1, Uuid::now_v7()), (1, Uuid::now_v7()));
        let now = 1_700_000_000_000;
        for _ in 0..MAX_POSTS {
            recent.take_post(ann, now).unwrap();
        }
        let error = recent.take_post(ann, now + 1_000).unwrap_err();
        assert!(matches!(error, ApiError::RateLimited(59)), "{error:?}");
        recent.take_post(ben, now).unwrap();
        recent.take_post(ann, now + POSTS_WINDOW).unwrap();
        // What is remembered is bounded.
        for number in 0..MAX_TOKENS as u128 + 10 {
            recent.take_post((2, Uuid::from_u128(number)), now + WINDOW).unwrap();
        }
        assert!(recent.0.lock().len() <= MAX_TOKENS);
    }
}
