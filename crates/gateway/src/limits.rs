//! Rate limits (docs/reference/api/rate-limits.md): fixed windows, counted together for all
//! gateways.
//!
//! The count is a row in the database, and the database's clock defines the window. A gateway
//! reserves several requests at once and accepts requests from this reserve. Before it is used up,
//! it reserves more in the background. It reserves what waiting requests need, and little more
//! ([`spare`]): only the unused reserve of a gateway can be missing when another one rejects
//! requests. The limit is never exceeded.
//!
//! While the database does not respond for a budget, a gateway counts it alone, up to the last
//! known remainder of the window, or the whole limit; and reports its count when the database is
//! back. Each budget has its own query, so a slow response for one does not affect the others.

mod rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use self::rows::Counted;
use crate::app::App;
use crate::workspaces::{Budget, Limit};
use store::StoreError;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// How long requests wait for the database before their gateway counts alone, and the pause before
/// the next query.
const TIMEOUT: Duration = Duration::from_secs(1);

/// After this time a query counts as lost and is repeated, which may count requests twice.
const LOST: Duration = Duration::from_secs(60);

/// How many requests a gateway reserves in addition to the waiting ones. It holds at most twice as
/// many at a time, so that four gateways hold at most a hundredth of the limit.
fn spare(limit: Limit) -> i64 {
    i64::from(limit.requests) / 800
}

/// The state of a budget after a request was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetStatus {
    /// Requests per window.
    limit: u32,
    /// Requests left in this window.
    remaining: i64,
    /// When the window ends, in seconds since the Unix epoch.
    reset: i64,
    /// Seconds until a retry, if the request exceeds the limit.
    pub retry_after: Option<i64>,
}

impl BudgetStatus {
    /// Writes the state to the headers of a response.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset));
    }
}

/// Counts a request of a workspace, or of the [`COMPANY`](super::COMPANY).
pub async fn count(app: &App, workspace: i32, budget: Budget, limit: Limit) -> BudgetStatus {
    let counter = BudgetCounter { app, key: Key { workspace, budget, limit } };
    loop {
        match counter.next() {
            Next::Counted { budget_status, is_local } => {
                if is_local {
                    metrics::counter!("longshore_rate_limit_local_fallback_total", "budget" => budget.name())
                        .increment(1);
                }
                if budget_status.retry_after.is_some() {
                    metrics::counter!("longshore_rate_limit_refused_total", "budget" => budget.name())
                        .increment(1);
                }
                return budget_status;
            }
            Next::Wait { mut lease, waiting: _waiting } => {
                // If the sender is dropped, another request queries again.
                let _ = lease.changed().await;
            }
        }
    }
}

/// The state of a budget without counting a request.
pub async fn status(app: &App, workspace: i32, budget: Budget, limit: Limit) -> BudgetStatus {
    let counter = BudgetCounter { app, key: Key { workspace, budget, limit } };
    if let Some(mut lease) = counter.read_count() {
        // If the sender is dropped, the count stays unknown.
        let _ = lease.changed().await;
    }
    counter.in_window(|window| window.status(None))
}

/// A changed limit gets a separate window, but uses the same row in the database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    workspace: i32,
    budget: Budget,
    limit: Limit,
}

/// The state of every budget in this process.
#[derive(Default)]
pub struct Limits(Mutex<State>);

#[derive(Default)]
struct State {
    windows: HashMap<Key, BudgetWindow>,
}

/// One budget in one window. Times are milliseconds since the Unix epoch.
struct BudgetWindow {
    limit: Limit,
    /// The end of the window by the database's clock, and by this process's own.
    ends_at: i64,
    ends_at_local: i64,
    /// Requests that the fleet has reserved, as of the last query; none before it.
    reserved: Option<i64>,
    /// Requests reserved by this gateway and not used yet.
    unused: i64,
    /// Whether this gateway reserved them without the database.
    is_local: bool,
    /// Requests that were accepted without the database and are not reported yet.
    unreported: i64,
    /// Number of requests that wait for a reserve.
    waiting: i64,
    /// Notifies waiting requests when a query has a response.
    leased: watch::Sender<()>,
    is_querying: bool,
    /// When the last query timed out. Only for this budget: a slow response for one says nothing
    /// about the others.
    failed_at: Option<Instant>,
}

enum Next {
    Counted {
        budget_status: BudgetStatus,
        is_local: bool,
    },
    /// Wait for the query that is in progress.
    Wait {
        lease: watch::Receiver<()>,
        waiting: Waiting,
    },
}

impl BudgetWindow {
    fn new(limit: Limit) -> Self {
        Self {
            limit,
            ends_at: 0,
            ends_at_local: 0,
            reserved: None,
            unused: 0,
            is_local: false,
            unreported: 0,
            waiting: 0,
            leased: watch::Sender::new(()),
            is_querying: false,
            failed_at: None,
        }
    }

    /// Starts with zero if the window is over.
    fn roll_over(&mut self, now: i64) {
        let length = i64::from(self.limit.seconds) * 1_000;
        // The database's window may be the next one; before that, a clock was set back.
        if (self.ends_at_local - 2 * length..self.ends_at_local).contains(&now) {
            return;
        }
        self.ends_at_local = now - now.rem_euclid(length) + length;
        self.ends_at = self.ends_at_local;
        (self.reserved, self.unused, self.unreported) = (None, 0, 0);
        self.is_local = false;
    }

    /// Continues without the database, with the last known remainder of the window.
    fn count_locally(&mut self) {
        if !self.is_local {
            self.is_local = true;
            self.unused += (self.requests() - self.reserved.unwrap_or(0)).max(0);
            self.reserved = Some(self.requests());
        }
    }

    /// Whether requests do not wait for the database, because it did not respond recently; later it
    /// may have recovered unnoticed.
    fn has_no_database(&self) -> bool {
        let is_recent = |failed_at: Instant| failed_at.elapsed() < LOST;
        self.failed_at.is_some_and(|failed_at| self.is_querying || is_recent(failed_at))
    }

    fn requests(&self) -> i64 {
        self.limit.requests.into()
    }

    fn is_used_up(&self) -> bool {
        self.reserved.is_some_and(|reserved| reserved >= self.requests())
    }

    /// Accepts or rejects a request; none if the database must be queried first.
    fn take(&mut self, now: i64) -> Option<BudgetStatus> {
        let is_accepted = self.unused > 0;
        if is_accepted {
            self.unused -= 1;
            self.unreported += i64::from(self.is_local);
        } else if !self.is_used_up() {
            return None;
        }
        Some(self.status((!is_accepted).then(|| (self.ends_at_local - now + 999) / 1_000)))
    }

    fn status(&self, retry_after: Option<i64>) -> BudgetStatus {
        let unreserved = (self.requests() - self.reserved.unwrap_or(0)).max(0);
        BudgetStatus {
            limit: self.limit.requests,
            remaining: unreserved + self.unused,
            reset: self.ends_at / 1_000,
            retry_after,
        }
    }

    /// How many requests to reserve now; none if there is no need, or a query is in progress.
    fn to_reserve(&self) -> Option<i64> {
        let spare = spare(self.limit);
        let must_query = if self.is_local {
            self.failed_at.is_none_or(|failed_at| failed_at.elapsed() >= TIMEOUT)
        } else if self.is_used_up() {
            false
        } else {
            self.unused < self.waiting || (self.unused <= spare && spare > 0)
        };
        let requests = (self.waiting - self.unused).max(0) + self.unreported + spare;
        (must_query && !self.is_querying).then_some(requests)
    }

    /// Applies the response to a query for `requested` requests, sent at `sent_at` by this
    /// process's clock. The time before the query is used, so that the window ends too early rather
    /// than too late: too early costs another query, too late would reject requests of the next
    /// window.
    fn apply_response(&mut self, sent_at: i64, requested: i64, counted: &Counted) {
        let before = counted.used - requested;
        // A smaller count than before: the row is new, without what this gateway had reserved.
        let is_new = before < self.reserved.unwrap_or(0);
        if self.is_local || is_new || counted.ends_at != self.ends_at {
            self.unused = 0;
        }
        let granted = (self.requests() - before).clamp(0, requested) - self.unreported;
        self.unused += granted.max(0);
        self.unreported = (-granted).max(0);
        self.reserved = Some(counted.used);
        self.is_local = false;
        self.failed_at = None;
        self.ends_at = counted.ends_at;
        self.ends_at_local = counted.ends_at - counted.now + sent_at;
    }
}

/// Counts requests in the window of a budget.
struct BudgetCounter<'a> {
    app: &'a App,
    key: Key,
}

impl<'a> BudgetCounter<'a> {
    /// Reads or changes the current window.
    fn in_window<T>(&self, work: impl FnOnce(&mut BudgetWindow) -> T) -> T {
        let mut state = self.app.limits.0.lock();
        let window =
            state.windows.entry(self.key).or_insert_with(|| BudgetWindow::new(self.key.limit));
        window.roll_over(self.app.clock.now_ms());
        work(window)
    }

    /// Reads the count of the window, if it is unknown, without a request. Returns what notifies
    /// about the end of the query, which all that wait share.
    fn read_count(&self) -> Option<watch::Receiver<()>> {
        self.in_window(|window| {
            if window.reserved.is_some() || window.has_no_database() {
                return None;
            }
            let lease = window.leased.subscribe();
            if !window.is_querying {
                self.start_query(window, 0);
            }
            Some(lease)
        })
    }

    /// Counts a request if no query is needed; otherwise starts one.
    fn next(&self) -> Next {
        let now = self.app.clock.now_ms();
        let mut state = self.app.limits.0.lock();
        let window =
            state.windows.entry(self.key).or_insert_with(|| BudgetWindow::new(self.key.limit));
        window.roll_over(now);
        let budget_status = match window.take(now) {
            None if window.has_no_database() => {
                window.count_locally();
                window.take(now)
            }
            budget_status => budget_status,
        };
        window.waiting += i64::from(budget_status.is_none());
        if let Some(requests) = window.to_reserve() {
            self.start_query(window, requests);
        }
        match budget_status {
            Some(budget_status) => Next::Counted { budget_status, is_local: window.is_local },
            None => Next::Wait {
                lease: window.leased.subscribe(),
                waiting: Waiting { limits: self.app.limits.clone(), key: self.key },
            },
        }
    }

    /// Queries the database in its own task. If it does not respond in time, requests continue
    /// without it; but the query may still take effect later, so no other query is sent before it
    /// has ended.
    fn start_query(&self, window: &mut BudgetWindow, requests: i64) {
        window.is_querying = true;
        let (app, key) = (self.app.clone(), self.key);
        tokio::spawn(async move {
            let _query = Query { limits: app.limits.clone(), key };
            let (counter, now) = (BudgetCounter { app: &app, key }, app.clock.now_ms());
            let store = app.store.clone();
            let lease = tokio::spawn(async move { rows::lease(&store, key, requests, now).await });
            let mut lease =
                std::pin::pin!(lease.map(|done| done.unwrap_or(Err(StoreError::Timeout))));
            let counted = match timeout(TIMEOUT, &mut lease).await {
                Ok(counted) => counted,
                Err(_) => {
                    counter.settle(now, requests, Err(StoreError::Timeout));
                    timeout(LOST, lease).await.unwrap_or(Err(StoreError::Timeout))
                }
            };
            counter.settle(now, requests, counted);
        });
    }

    fn settle(&self, sent_at: i64, requested: i64, counted: Result<Counted, StoreError>) {
        let Key { workspace, budget, .. } = self.key;
        let mut state = self.app.limits.0.lock();
        let Some(window) = state.windows.get_mut(&self.key) else { return };
        let was_local = window.failed_at.is_some();
        match &counted {
            Ok(counted) => window.apply_response(sent_at, requested, counted),
            Err(_) => {
                window.failed_at = Some(Instant::now());
                window.count_locally();
            }
        }
        window.leased.send_replace(());
        drop(state);
        let budget = budget.name();
        match counted {
            Ok(_) if was_local => {
                tracing::info!(workspace, budget, "rate limits are shared by all gateways again");
            }
            Err(error) if !was_local => {
                tracing::warn!(workspace, budget, %error, "rate limits are counted by this gateway \
                                                           alone");
            }
            _ => {}
        }
    }
}

/// A query in progress: when dropped, the waiting requests are notified.
struct Query {
    limits: Arc<Limits>,
    key: Key,
}

impl Drop for Query {
    fn drop(&mut self) {
        if let Some(window) = self.limits.0.lock().windows.get_mut(&self.key) {
            window.is_querying = false;
            window.leased.send_replace(());
        }
    }
}

/// A waiting request, counted as such until this is dropped.
struct Waiting {
    limits: Arc<Limits>,
    key: Key,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(window) = self.limits.0.lock().windows.get_mut(&self.key) {
            window.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
