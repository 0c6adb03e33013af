//! `/email/unsubscribe/{token}`: the address in the `List-Unsubscribe` header of every email that
//! is not transactional (RFC 8058).
//!
//! [Its token](messages::unsubscribe_token) identifies the user.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::app::App;
use gateway::ApiError;
use people::users::recipient::{Recipient, Subscription};
use people::users::rows::{For, find_users};
use people::users::{identifier, merged_rows, service_id};
use store::StoreError;
use tracking::immediate::RequestOptOuts;
use tracking::{self, message};

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
    /// The user's email address; none if there is none, or if it is not known because the store is
    /// down.
    pub email: Option<String>,
    /// Whether the user is already unsubscribed, as far as changes are applied. A repeat is still
    /// appended, a few times, because an older change in the log could end the first decision.
    pub is_unsubscribed: bool,
}

/// A user's link; none if no user has the id. The user may have been merged into another one since.
/// If the store is down, the link works.
///
/// If the database lost the creation of the user in a crash, the user is created again from the
/// log, with another id. The link then no longer works.
pub async fn link(app: &App, (workspace, user): (i32, Uuid)) -> Option<Link> {
    service_id::bucket(&user)?;
    let lookup = async {
        let mut tx = app.request_queue.snapshot().await?;
        let user = merged_rows::present(&mut tx, workspace, user).await?;
        Ok::<_, StoreError>(find_users(&mut tx, workspace, &[user], For::Reading).await?.pop())
    };
    let Ok(found) = lookup.await else { return Some(Link { email: None, is_unsubscribed: false }) };
    let user = found?;
    let is_unsubscribed = Recipient::read(user.service_id, &user.doc)
        .is_ok_and(|user| user.email_subscription() == Subscription::Unsubscribed);
    Some(Link { email: user.email, is_unsubscribed })
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

/// Unsubscribes a user from emails, and the address to which they go: other users may have it, too.
/// The change is a tracked attribute, which only a decision that is received later ends. Returns
/// once it is durable and, unless the database is busy, applied.
pub async fn unsubscribe(
    app: &App,
    (workspace, user): (i32, Uuid),
    email: Option<String>,
    request_id: String,
) -> Result<(), ApiError> {
    let object = |user| -> Result<_, String> {
        let value = message::Json::compact(r#""unsubscribed""#.into())?;
        Ok(message::Object::Attributes(message::Attributes {
            user,
            update_only: true,
            fields: message::Entries(vec![("email_subscribe".into(), value)]),
            custom: message::Entries::default(),
            inc: message::Entries::default(),
            add: message::Entries::default(),
            remove: message::Entries::default(),
            groups: message::Entries::default(),
        }))
    };
    let received_at = app.clock.now_ms();
    let messages_and_opt_outs = || -> Result<_, String> {
        let by_email = email.map(|email| identifier::Identifier::Email(email.into()));
        let users = std::iter::once(identifier::Identifier::ServiceId(user)).chain(by_email);
        let objects = users.map(object).collect::<Result<Vec<_>, _>>()?;
        let opt_outs = RequestOptOuts::among(workspace, received_at, &objects);
        let request = tracking::Request {
            workspace,
            received_at,
            partitions: app.config.log.partitions,
            request_id,
            alias: None,
        };
        let messages = tracking::messages(objects, &request).map_err(|error| error.to_string())?;
        Ok((messages, opt_outs))
    };
    let (messages, opt_outs) = messages_and_opt_outs()
        .map_err(|error| ApiError::Internal(format!("a message cannot be written: {error}")))?;
    app.log.append(messages).await?;
    metrics::counter!("longshore_message_reports_total", "type" => "unsubscribed").increment(1);
    opt_outs.apply(app).await;
    Ok(())
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
