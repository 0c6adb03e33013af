//! Rate limits (src/gateway/README.md, Rate limits): fixed windows, counted once for all
//! gateways.
//!
//! The count is a row of the database, and the database's clock says which window it is of. A
//! gateway asks for several requests at once and takes calls from what it got; before that is
//! used up it asks for more, beside the calls. It asks for what calls wait for, and for little
//! beyond ([`spare`]): what a gateway has and does not use is all that can be missing where
//! another one refuses. More than the limit is never given out.
//!
//! While the database does not answer about a budget, a gateway counts it alone, up to what it
//! last knew to be left of the window, or the whole limit; and reports it when the database is
//! back. Each budget is asked for by itself, so a slow answer about one leaves the others as they
//! are.

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

/// How long calls wait for the database before their gateway counts alone, and the pause
/// before it asks again.
const PATIENCE: Duration = Duration::from_secs(1);

/// When what the database was asked counts as lost: then it is asked again, and may count twice
/// what it was told alone.
const LOST: Duration = Duration::from_secs(60);

/// How many requests a gateway asks for beyond those that wait. It has at most twice as many
/// at a time, so that four gateways have no more than a hundredth of the limit.
fn spare(limit: Limit) -> i64 {
    i64::from(limit.requests) / 800
}

/// How a budget stands, once a request was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Requests in a window.
    limit: u32,
    /// Requests left in this one.
    remaining: i64,
    /// When it ends: seconds since the Unix epoch.
    reset: i64,
    /// In how many seconds to come again, where the request is one too many.
    pub retry_after: Option<i64>,
}

impl Standing {
    /// Says it in the headers of an answer.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset));
    }
}

/// Counts a request of a workspace, or of the [`COMPANY`](super::COMPANY).
pub async fn count(app: &App, workspace: i32, budget: Budget, limit: Limit) -> Standing {
    let place = Place { app, limits: app.kept(), key: (workspace, budget, limit) };
    loop {
        match place.next() {
            Next::Counted { standing, alone } => {
                if alone {
                    metrics::counter!("longshore_rate_limit_alone_total", "budget" => budget.name())
                        .increment(1);
                }
                if standing.retry_after.is_some() {
                    metrics::counter!("longshore_rate_limit_refused_total", "budget" => budget.name())
                        .increment(1);
                }
                return standing;
            }
            Next::Wait { mut lease, waiting: _waiting } => {
                // An end without a word is one as well: then somebody asks again.
                let _ = lease.changed().await;
            }
        }
    }
}

/// A limit that was changed is an account of its own, with the same row of the database.
type Key = (i32, Budget, Limit);

/// What this process knows of every budget.
#[derive(Default)]
pub struct Limits(Mutex<State>);

#[derive(Default)]
struct State {
    accounts: HashMap<Key, Account>,
}

/// One budget in one window. Times are milliseconds since the Unix epoch.
struct Account {
    limit: Limit,
    /// The end of the window by the database's clock, and by this process's own.
    ends_at: i64,
    ends_here: i64,
    /// Requests that the fleet was given, when the database was last asked; none before it was.
    given: Option<i64>,
    /// Requests that this gateway has and that are not used yet.
    left: i64,
    /// Whether they are what it gave itself.
    is_alone: bool,
    /// Requests that were taken alone and are not reported yet.
    owed: i64,
    /// Calls that wait for a lease.
    waiting: i64,
    /// Told when the database was asked and the answer is in.
    leased: watch::Sender<()>,
    is_asking: bool,
    /// When the database was last asked, if it did not answer in time. Of this budget alone: a slow
    /// answer about one says nothing of the others.
    failed: Option<Instant>,
}

enum Next {
    Counted {
        standing: Standing,
        alone: bool,
    },
    /// Until the database was asked, which somebody does.
    Wait {
        lease: watch::Receiver<()>,
        waiting: Waiting,
    },
}

impl Account {
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

    /// Begins with nothing where the window is over.
    fn enter(&mut self, now: i64) {
        let length = i64::from(self.limit.seconds) * 1_000;
        // The database's window may be the next one; before that, a clock was put back.
        if (self.ends_here - 2 * length..self.ends_here).contains(&now) {
            return;
        }
        self.ends_here = now - now.rem_euclid(length) + length;
        self.ends_at = self.ends_here;
        (self.given, self.left, self.owed) = (None, 0, 0);
        self.is_alone = false;
    }

    /// Goes on without the database, with all that it was known to have.
    fn go_alone(&mut self) {
        if !self.is_alone {
            self.is_alone = true;
            self.left += (self.requests() - self.given.unwrap_or(0)).max(0);
            self.given = Some(self.requests());
        }
    }

    /// Whether calls do not wait for the database, since it did not answer a while ago; later
    /// it may have come back without anybody asking about this budget.
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

    /// Takes a request, or refuses it; none where the database must be asked first.
    fn take(&mut self, now: i64) -> Option<Standing> {
        let is_taken = self.left > 0;
        if is_taken {
            self.left -= 1;
            self.owed += i64::from(self.is_alone);
        } else if !self.is_used_up() {
            return None;
        }
        let ungiven = (self.requests() - self.given.unwrap_or(0)).max(0);
        Some(Standing {
            limit: self.limit.requests,
            remaining: ungiven + self.left,
            reset: self.ends_at / 1_000,
            retry_after: (!is_taken).then(|| (self.ends_here - now + 999) / 1_000),
        })
    }

    /// How many requests the database is to be asked for now; none is asked for if there is
    /// no need, or somebody asks already.
    fn wanted(&self) -> Option<i64> {
        let spare = spare(self.limit);
        let is_wanted = match self.is_alone {
            true => self.failed.is_none_or(|failed| failed.elapsed() >= PATIENCE),
            false if self.is_used_up() => false,
            false => self.left < self.waiting || (self.left <= spare && spare > 0),
        };
        let wanted = (self.waiting - self.left).max(0) + self.owed + spare;
        (is_wanted && !self.is_asking).then_some(wanted)
    }

    /// Takes in what the database said when it was asked for so many requests at `sent`, by this
    /// process's clock. By that the window ends rather too early, and then the database is asked
    /// once more; too late would be to refuse what the next one has.
    fn learn(&mut self, sent: i64, asked: i64, counted: &Counted) {
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

/// Where a request is counted.
struct Place<'a> {
    app: &'a App,
    limits: Arc<Limits>,
    key: Key,
}

impl<'a> Place<'a> {
    /// Counts a request if the database need not be asked for it; else has it asked.
    fn next(&self) -> Next {
        let now = self.app.clock.now_ms();
        let mut state = self.limits.0.lock();
        let account = state.accounts.entry(self.key).or_insert_with(|| Account::new(self.key.2));
        account.enter(now);
        let standing = match account.take(now) {
            None if account.is_away() => {
                account.go_alone();
                account.take(now)
            }
            standing => standing,
        };
        account.waiting += i64::from(standing.is_none());
        if let Some(wanted) = account.wanted() {
            self.begin(account, wanted);
        }
        match standing {
            Some(standing) => Next::Counted { standing, alone: account.is_alone },
            None => Next::Wait {
                lease: account.leased.subscribe(),
                waiting: Waiting { limits: self.limits.clone(), key: self.key },
            },
        }
    }

    /// Asks the database for so many requests, in a task of its own. Where it does not answer in
    /// time calls go on without it; but what it was asked it may do however late, so it is asked
    /// nothing more before that has come to its end.
    fn begin(&self, account: &mut Account, wanted: i64) {
        account.is_asking = true;
        let (app, limits, key) = (self.app.clone(), self.limits.clone(), self.key);
        tokio::spawn(async move {
            let _asked = Asked { limits: limits.clone(), key };
            let (place, now) = (Place { app: &app, limits, key }, app.clock.now_ms());
            let store = app.store.clone();
            let lease = tokio::spawn(async move { rows::lease(&store, key, wanted, now).await });
            let mut lease =
                std::pin::pin!(lease.map(|done| done.unwrap_or(Err(StoreError::Silent))));
            let counted = match timeout(PATIENCE, &mut lease).await {
                Ok(counted) => counted,
                Err(_) => {
                    place.settle(now, wanted, Err(StoreError::Silent));
                    timeout(LOST, lease).await.unwrap_or(Err(StoreError::Silent))
                }
            };
            place.settle(now, wanted, counted);
        });
    }

    fn settle(&self, sent: i64, asked: i64, counted: Result<Counted, StoreError>) {
        let (workspace, budget, _) = self.key;
        let mut state = self.limits.0.lock();
        let Some(account) = state.accounts.get_mut(&self.key) else { return };
        let was_alone = account.failed.is_some();
        match &counted {
            Ok(counted) => account.learn(sent, asked, counted),
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
                tracing::info!(workspace, budget, "rate limit counted for all gateways again");
            }
            Err(error) if !was_alone => {
                tracing::warn!(workspace, budget, %error, "rate limit counted by this gateway alone");
            }
            _ => {}
        }
    }
}

/// That the database was asked: dropped, whoever waits is told.
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

/// A call that waits and is counted as such, until this is dropped.
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
