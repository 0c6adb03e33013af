//! Whether a retry can help, and how long to wait before it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

/// Implemented by every error: whether the same operation may succeed later without a change.
pub trait Retry {
    fn can_retry(&self) -> bool {
        false
    }

    /// Whether the operation was too large, so that smaller pieces of it may succeed.
    fn is_too_large(&self) -> bool {
        false
    }

    /// Whether a newer program wrote something that this one does not know (see the documents of
    /// the store). The work has not failed: it waits for a newer program, and no attempt is
    /// counted.
    fn needs_newer_version(&self) -> bool {
        false
    }

    /// Whether the work waits for a server that others run, until a time limit of its own. No
    /// attempt is counted.
    fn waits(&self) -> bool {
        false
    }

    /// Whether the operation was rejected because of this machine's clock. If the clock is wrong,
    /// the work has not failed either: another machine can do it.
    fn is_clock_error(&self) -> bool {
        false
    }
}

/// Waits until `pause` has passed or `stop` is cancelled.
pub async fn wait(pause: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = stop.cancelled() => {}
    }
}

/// Runs `work` until `stop`, with a pause after each run. Logs an error as `failed`, and continues.
pub async fn repeat<E: Display, F: Future<Output = Result<(), E>>>(
    pause: Duration,
    stop: &CancellationToken,
    failed: &str,
    mut work: impl FnMut() -> F,
) {
    while !stop.is_cancelled() {
        if let Err(error) = work().await {
            tracing::warn!(%error, "{failed}");
        }
        wait(pause, stop).await;
    }
}

/// A pause that doubles with each attempt up to `cap`. Jitter over its upper half spreads the
/// retries of tasks that failed together.
///
/// `attempt` counts from 1.
pub fn backoff(attempt: u32, base: Duration, cap: Duration) -> Duration {
    let doubled = base.saturating_mul(1u32 << attempt.saturating_sub(1).min(20));
    doubled.min(cap).mul_f64(rand::rng().random_range(0.5..=1.0))
}

/// Attempts within a bounded time, for work that must not be given up early.
pub struct TimedRetries {
    deadline: Instant,
    failures: u32,
}

impl TimedRetries {
    pub fn within(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, failures: 0 }
    }

    /// Waits before another attempt; false once the time is over.
    pub async fn again(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        let pause = backoff(self.failures, Duration::from_millis(50), Duration::from_secs(2));
        if Instant::now() + pause > self.deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeats_until_stopped_even_if_the_work_fails() {
        let (stop, mut times) = (CancellationToken::new(), 0);
        let work = || {
            times += 1;
            if times == 3 {
                stop.cancel();
            }
            std::future::ready(Err("it fails"))
        };
        repeat(Duration::ZERO, &stop, "the work failed", work).await;
        assert_eq!(times, 3);
    }

    #[test]
    fn pauses_grow_to_the_cap_and_no_further() {
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(60));
        for (attempt, max_seconds) in [(1, 1), (2, 2), (4, 8), (7, 60), (u32::MAX, 60)] {
            let pause = backoff(attempt, base, cap);
            assert!(pause <= Duration::from_secs(max_seconds), "attempt {attempt}: {pause:?}");
            assert!(pause >= Duration::from_secs(max_seconds) / 2, "attempt {attempt}: {pause:?}");
        }
    }
}
