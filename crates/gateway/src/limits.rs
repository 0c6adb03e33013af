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
    let counter = BudgetCounter { app, key: (workspace, budget, limit) };
    loop {
        match counter.next() {
            Next::Counted { budget_status, alone } => {
                if alone {
                    metrics::counter!("longshore_rate_limit_alone_total", "budget" => budget.name())
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
    let counter = BudgetCounter { app, key: (workspace, budget, limit) };
    if counter.is_unknown() {
        counter.look().await;
    }
    counter.in_window(|account| account.status(None))
}

/// A changed limit gets a separate account, but uses the same row in the database.
type Key = (i32, Budget, Limit);

/// The state of every budget in this process.
#[derive(Default)]
pub struct Limits(Mutex<State>);

#[derive(Default)]
struct State {
    accounts: HashMap<Key, BudgetWindow>,
}

/// One budget in one window. Times are milliseconds since the Unix epoch.
struct BudgetWindow {
    limit: Limit,
    /// The end of the window by the database's clock, and by this process's own.
    ends_at: i64,
    ends_here: i64,
    /// Requests that the fleet has reserved, as of the last query; none before it.
    given: Option<i64>,
    /// Requests reserved by this gateway and not used yet.
    left: i64,
    /// Whether this gateway granted them without the database.
    is_alone: bool,
    /// Requests that were accepted without the database and are not reported yet.
    owed: i64,
    /// Number of requests that wait for a reserve.
    waiting: i64,
    /// Notifies waiting requests when a query has a response.
    leased: watch::Sender<()>,
    is_asking: bool,
    /// When the last query timed out. Only for this budget: a slow response for one says nothing
    /// about the others.
    failed: Option<Instant>,
}

enum Next {
    Counted {
        budget_status: BudgetStatus,
        alone: bool,
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
            ends_here: 0,
            given: None,
            left: 0,
            is_alone: false,
            owed: 0,
            waiting: 0,
            leased: watch::Sender::new(()),
            is_asking: false,
            failed: None,
        }
    }

    /// Starts with zero if the window is over.
    fn enter(&mut self, now: i64) {
        let length = i64::from(self.limit.seconds) * 1_000;
        // The database's window may be the next one; before that, a clock was set back.
        if (self.ends_here - 2 * length..self.ends_here).contains(&now) {
            return;
        }
        self.ends_here = now - now.rem_euclid(length) + length;
        self.ends_at = self.ends_here;
        (self.given, self.left, self.owed) = (None, 0, 0);
        self.is_alone = false;
    }

    /// Continues without the database, with the last known remainder of the window.
    fn go_alone(&mut self) {
        if !self.is_alone {
            self.is_alone = true;
            self.left += (self.requests() - self.given.unwrap_or(0)).max(0);
            self.given = Some(self.requests());
        }
    }

    /// Whether requests do not wait for the database, because it did not respond recently; later it
    /// may have recovered unnoticed.
    fn is_away(&self) -> bool {
        let is_new = |failed: Instant| failed.elapsed() < LOST;
        self.failed.is_some_and(|failed| self.is_asking || is_new(failed))
    }

    fn requests(&self) -> i64 {
        self.limit.requests.into()
    }

    fn is_used_up(&self) -> bool {
        self.given.is_some_and(|given| given >= self.requests())
    }

    /// Accepts or rejects a request; none if the database must be queried first.
    fn take(&mut self, now: i64) -> Option<BudgetStatus> {
        let is_taken = self.left > 0;
        if is_taken {
            self.left -= 1;
            self.owed += i64::from(self.is_alone);
        } else if !self.is_used_up() {
            return None;
        }
        Some(self.status((!is_taken).then(|| (self.ends_here - now + 999) / 1_000)))
    }

    fn status(&self, retry_after: Option<i64>) -> BudgetStatus {
        let ungiven = (self.requests() - self.given.unwrap_or(0)).max(0);
        BudgetStatus {
            limit: self.limit.requests,
            remaining: ungiven + self.left,
            reset: self.ends_at / 1_000,
            retry_after,
        }
    }

    /// How many requests to reserve now; none if there is no need, or a query is in progress.
    fn wanted(&self) -> Option<i64> {
        let spare = spare(self.limit);
        let is_wanted = match self.is_alone {
            true => self.failed.is_none_or(|failed| failed.elapsed() >= TIMEOUT),
            false if self.is_used_up() => false,
            false => self.left < self.waiting || (self.left <= spare && spare > 0),
        };
        let wanted = (self.waiting - self.left).max(0) + self.owed + spare;
        (is_wanted && !self.is_asking).then_some(wanted)
    }

    /// Applies the response to a query for `asked` requests, sent at `sent` by this process's
    /// clock. The time before the query is used, so that the window ends too early rather than too
    /// late: too early costs another query, too late would reject requests of the next window.
    fn apply_response(&mut self, sent: i64, asked: i64, counted: &Counted) {
        let ends_here = counted.ends_at - counted.now + sent;
        if self.is_alone || counted.ends_at != self.ends_at {
            self.left = 0;
        }
        let before = counted.used - asked;
        let got = (self.requests() - before).clamp(0, asked) - self.owed;
        self.left += got.max(0);
        self.owed = (-got).max(0);
        self.given = Some(counted.used);
        self.is_alone = false;
        self.failed = None;
        (self.ends_at, self.ends_here) = (counted.ends_at, ends_here);
    }
}

/// The account of a request.
struct BudgetCounter<'a> {
    app: &'a App,
    key: Key,
}

impl<'a> BudgetCounter<'a> {
    /// Reads or changes the account, in the current window.
    fn in_window<T>(&self, work: impl FnOnce(&mut BudgetWindow) -> T) -> T {
        let mut state = self.app.limits.0.lock();
        let account =
            state.accounts.entry(self.key).or_insert_with(|| BudgetWindow::new(self.key.2));
        account.enter(self.app.clock.now_ms());
        work(account)
    }

    /// Whether this gateway has not yet read the count of the window from the database.
    fn is_unknown(&self) -> bool {
        self.in_window(|account| account.given.is_none())
    }

    /// Reads the count of the window, without a request. If the database does not respond, it stays
    /// unknown.
    async fn look(&self) {
        let (store, key, now) = (self.app.store.clone(), self.key, self.app.clock.now_ms());
        let read = tokio::spawn(async move { rows::lease(&store, key, 0, now).await });
        if let Ok(Ok(Ok(counted))) = timeout(TIMEOUT, read).await {
            self.in_window(|account| account.apply_response(now, 0, &counted));
        }
    }

    /// Counts a request if no query is needed; otherwise starts one.
    fn next(&self) -> Next {
        let now = self.app.clock.now_ms();
        let mut state = self.app.limits.0.lock();
        let account =
            state.accounts.entry(self.key).or_insert_with(|| BudgetWindow::new(self.key.2));
        account.enter(now);
        let budget_status = match account.take(now) {
            None if account.is_away() => {
                account.go_alone();
                account.take(now)
            }
            budget_status => budget_status,
        };
        account.waiting += i64::from(budget_status.is_none());
        if let Some(wanted) = account.wanted() {
            self.begin(account, wanted);
        }
        match budget_status {
            Some(budget_status) => Next::Counted { budget_status, alone: account.is_alone },
            None => Next::Wait {
                lease: account.leased.subscribe(),
                waiting: Waiting { limits: self.app.limits.clone(), key: self.key },
            },
        }
    }

    /// Queries the database in its own task. If it does not respond in time, requests continue
    /// without it; but the query may still take effect later, so no other query is sent before it
    /// has ended.
    fn begin(&self, account: &mut BudgetWindow, wanted: i64) {
        account.is_asking = true;
        let (app, key) = (self.app.clone(), self.key);
        tokio::spawn(async move {
            let _asked = Asked { limits: app.limits.clone(), key };
            let (counter, now) = (BudgetCounter { app: &app, key }, app.clock.now_ms());
            let store = app.store.clone();
            let lease = tokio::spawn(async move { rows::lease(&store, key, wanted, now).await });
            let mut lease =
                std::pin::pin!(lease.map(|done| done.unwrap_or(Err(StoreError::Timeout))));
            let counted = match timeout(TIMEOUT, &mut lease).await {
                Ok(counted) => counted,
                Err(_) => {
                    counter.settle(now, wanted, Err(StoreError::Timeout));
                    timeout(LOST, lease).await.unwrap_or(Err(StoreError::Timeout))
                }
            };
            counter.settle(now, wanted, counted);
        });
    }

    fn settle(&self, sent: i64, asked: i64, counted: Result<Counted, StoreError>) {
        let (workspace, budget, _) = self.key;
        let mut state = self.app.limits.0.lock();
        let Some(account) = state.accounts.get_mut(&self.key) else { return };
        let was_alone = account.failed.is_some();
        match &counted {
            Ok(counted) => account.apply_response(sent, asked, counted),
            Err(_) => {
                account.failed = Some(Instant::now());
                account.go_alone();
            }
        }
        account.leased.send_replace(());
        drop(state);
        let budget = budget.name();
        match counted {
            Ok(_) if was_alone => {
                tracing::info!(workspace, budget, "rate limits are shared by all gateways again");
            }
            Err(error) if !was_alone => {
                tracing::warn!(workspace, budget, %error, "rate limits are counted by this gateway \
                                                           alone");
            }
            _ => {}
        }
    }
}

/// A query in progress: when dropped, the waiting requests are notified.
struct Asked {
    limits: Arc<Limits>,
    key: Key,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(account) = self.limits.0.lock().accounts.get_mut(&self.key) {
            account.is_asking = false;
            account.leased.send_replace(());
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
        if let Some(account) = self.limits.0.lock().accounts.get_mut(&self.key) {
            account.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
