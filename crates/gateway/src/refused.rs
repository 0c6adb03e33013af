//! Requests that are refused although their API key or SCIM token is valid: from a network that is
//! not allowed, or without the permission. Each gateway limits them for each key and token, so that
//! they do not use up the budget of other requests. Those that have no budget are not counted.

use std::collections::HashMap;

use parking_lot::Mutex;
use tracing::Instrument as _;
use uuid::Uuid;

use super::{ApiError, COMPANY};
use crate::app::App;
use crate::audit;
use crate::workspaces::{Budget, Limit};
use runtime::app::queue::held_by;
use runtime::audit::Entry;
use runtime::fairness::Holder;

/// Refused requests of a credential in a minute, at one gateway. Further ones get 429.
const PER_MINUTE: u32 = 60;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// The part of a budget that the refused requests of a credential can use, and how many requests
/// that is at least.
const BUDGET_PART: u32 = 10;
const MIN_PER_BUDGET: u32 = 2;

/// Credentials after which those of earlier minutes are removed.
const MAX_UNCLEANED: usize = 1_000;

/// The refused requests of every credential. Only existing credentials are counted.
#[derive(Default)]
pub struct RefusedRequests(Mutex<HashMap<Uuid, Refused>>);

#[derive(Default)]
struct Refused {
    in_minute: Window,
    /// The entries in the audit log: a client that is configured wrongly repeats its requests.
    recorded: Window,
    by_budget: HashMap<Budget, Window>,
}

/// A count in the window with this number.
#[derive(Clone, Copy, Default)]
struct Window {
    number: i64,
    count: u32,
}

impl Window {
    /// Counts a request unless `limit` is reached; returns whether it did.
    fn count(&mut self, now: i64, length_ms: i64, limit: u32) -> bool {
        let number = now / length_ms;
        if self.number != number {
            *self = Self { number, count: 0 };
        }
        let is_within = self.count < limit;
        self.count += u32::from(is_within);
        is_within
    }
}

impl RefusedRequests {
    fn count(&self, credential: Uuid, now: i64) -> Result<(), ApiError> {
        let mut credentials = self.0.lock();
        if credentials.len() >= MAX_UNCLEANED && !credentials.contains_key(&credential) {
            let this_minute = now / MINUTE_MS;
            let this_hour = now / HOUR_MS;
            credentials.retain(|_, refused| {
                let Window { number, count } = refused.recorded;
                refused.in_minute.number == this_minute || (count > 0 && number == this_hour)
            });
        }
        let refused = credentials.entry(credential).or_default();
        if refused.in_minute.count(now, MINUTE_MS, PER_MINUTE) {
            return Ok(());
        }
        metrics::counter!("longshore_rate_limit_refused_total", "budget" => "refused").increment(1);
        let remaining_ms = MINUTE_MS - now.rem_euclid(MINUTE_MS);
        Err(ApiError::RateLimited((remaining_ms + 999) / 1_000))
    }

    fn uses_budget(&self, credential: Uuid, budget: Budget, limit: Limit, now: i64) -> bool {
        let length_ms = i64::from(limit.seconds) * 1_000;
        let part = (limit.requests / BUDGET_PART).max(MIN_PER_BUDGET);
        let mut credentials = self.0.lock();
        let windows = &mut credentials.entry(credential).or_default().by_budget;
        windows.entry(budget).or_default().count(now, length_ms, part)
    }
}

/// Records the first refused request of a credential in an hour, at this gateway.
pub fn record(app: &App, credential: Uuid, entry: impl FnOnce() -> Entry) {
    let now = app.clock.now_ms();
    let is_first = {
        let mut credentials = app.refused_requests.0.lock();
        credentials.entry(credential).or_default().recorded.count(now, HOUR_MS, 1)
    };
    if is_first {
        let entry = entry();
        let holder = Holder::Workspace(entry.workspace_id.unwrap_or(COMPANY));
        tokio::spawn(held_by(holder, audit::write(app.clone(), entry)).in_current_span());
    }
}

/// Counts a refused request of a credential; an error if there were too many in this minute.
pub fn count(app: &App, credential: Uuid) -> Result<(), ApiError> {
    app.refused_requests.count(credential, app.clock.now_ms())
}

/// Whether a refused request of a credential counts against a budget, too. In each window of the
/// budget, only a tenth of it can be used in this way.
pub fn uses_budget(app: &App, credential: Uuid, budget: Budget, limit: Limit) -> bool {
    app.refused_requests.uses_budget(credential, budget, limit, app.clock.now_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_has_few_refused_requests_in_a_minute() {
        let (refused, key, other_key) =
            (RefusedRequests::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        let now = 7 * MINUTE_MS + 500;
        for _ in 0..PER_MINUTE {
            refused.count(key, now).unwrap();
        }
        assert!(matches!(refused.count(key, now), Err(ApiError::RateLimited(60))));
        let later = refused.count(key, now + 58_800);
        assert!(matches!(later, Err(ApiError::RateLimited(1))), "{later:?}");
        refused.count(other_key, now).unwrap();
        refused.count(key, now + MINUTE_MS).unwrap();
    }

    #[test]
    fn refused_requests_use_a_tenth_of_a_budget() {
        let (refused, key) = (RefusedRequests::default(), Uuid::from_u128(1));
        let limit = |requests| Limit { requests, seconds: 3 };
        let used = |budget, requests, now| {
            (0..1_000).filter(|_| refused.uses_budget(key, budget, limit(requests), now)).count()
        };
        assert_eq!(used(Budget::UsersTrack, 3_000, 0), 300);
        assert_eq!(used(Budget::UsersTrack, 3_000, 2_999), 0);
        assert_eq!(used(Budget::Catalogs, 4, 2_999), 2, "each budget for itself");
        assert_eq!(used(Budget::UsersTrack, 3_000, 3_000), 300, "in the next window");
    }

    #[test]
    fn credentials_of_earlier_minutes_are_removed() {
        let refused = RefusedRequests::default();
        for number in 0..3 * MAX_UNCLEANED as u128 {
            let now = i64::try_from(number).unwrap() * MINUTE_MS / 100;
            refused.count(Uuid::from_u128(number + 1), now).unwrap();
        }
        assert!(refused.0.lock().len() <= MAX_UNCLEANED + 100);
    }
}
