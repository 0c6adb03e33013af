//! Runs work: batches of the log, and claims shared among workers. It knows nothing about the
//! content of the work.

pub mod batches;
pub mod shares;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use kit::retry;
use log::LogError;

/// The first and the longest pause before the log is read again after an error.
const RECONNECT: Duration = Duration::from_millis(500);
const LONGEST_RECONNECT: Duration = Duration::from_secs(10);

/// Waits before the log is read again, longer each time.
async fn wait_for_log(error: &LogError, failures: &mut u32, shutdown: &CancellationToken) {
    tracing::warn!(%error, "cannot read messages; retrying");
    *failures = failures.saturating_add(1);
    retry::wait(retry::backoff(*failures, RECONNECT, LONGEST_RECONNECT), shutdown).await;
}

/// Spawns a loop with the current span.
pub fn spawn(loops: &mut JoinSet<()>, work: impl Future<Output = ()> + Send + 'static) {
    loops.spawn(work.in_current_span());
}
