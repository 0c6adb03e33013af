//! Batches small writes of many callers: writes that arrive during a transaction share the next
//! one. A dispatch sends hundreds of messages in parallel, and a transaction for each message would
//! be most of the work.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use kit::retry::Retry as _;
use store::StoreError;

/// Maximum number of writes in one transaction.
const MAX: usize = 500;

/// The waiting writes. Cheap to clone.
pub struct WriteBatcher<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    waiting: Vec<(T, oneshot::Sender<Result<(), WriteError>>)>,
    is_running: bool,
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    pub reason: String,
    pub can_retry: bool,
}

impl<T> Clone for WriteBatcher<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for WriteBatcher<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { waiting: Vec::new(), is_running: false })))
    }
}

impl<T: Send + 'static> WriteBatcher<T> {
    /// Writes this together with other waiting writes; returns once it is durable. The write
    /// happens even if the future is dropped.
    pub async fn write<W, F>(&self, one: T, write: W) -> Result<(), WriteError>
    where
        W: Fn(Vec<T>) -> F + Send + 'static,
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let begins = {
            let mut state = self.0.lock();
            state.waiting.push((one, done));
            !std::mem::replace(&mut state.is_running, true)
        };
        if begins {
            let together = self.clone();
            tokio::spawn(async move { together.work(write).await });
        }
        answer.await.unwrap_or_else(|_| {
            Err(WriteError { reason: "the write failed".into(), can_retry: true })
        })
    }

    async fn work<W, F>(self, write: W)
    where
        W: Fn(Vec<T>) -> F + Send + 'static,
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        // After a panic, the others must not wait forever.
        let mut at_work = RunningGuard { together: &self, is_finished: false };
        loop {
            let taken = {
                let mut state = self.0.lock();
                let most = state.waiting.len().min(MAX);
                let taken: Vec<_> = state.waiting.drain(..most).collect();
                if taken.is_empty() {
                    state.is_running = false;
                    at_work.is_finished = true;
                    return;
                }
                taken
            };
            let (all, done): (Vec<T>, Vec<_>) = taken.into_iter().unzip();
            let written = write(all).await.map_err(|error| WriteError {
                reason: error.to_string(),
                can_retry: error.can_retry(),
            });
            for done in done {
                // The caller may no longer wait.
                let _ = done.send(written.clone());
            }
        }
    }
}

struct RunningGuard<'t, T> {
    together: &'t WriteBatcher<T>,
    is_finished: bool,
}

impl<T> Drop for RunningGuard<'_, T> {
    fn drop(&mut self) {
        if !self.is_finished {
            let mut state = self.together.0.lock();
            state.is_running = false;
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn concurrent_writes_are_batched() {
        let together = WriteBatcher::default();
        let (calls, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let write = {
            let (calls, written) = (calls.clone(), written.clone());
            move |all: Vec<usize>| {
                calls.fetch_add(1, Ordering::SeqCst);
                let written = written.clone();
                async move {
                    tokio::task::yield_now().await;
                    written.lock().extend(all);
                    Ok(())
                }
            }
        };
        let all = (0..100).map(|n| together.write(n, write.clone()));
        assert!(futures::future::join_all(all).await.into_iter().all(|one| one.is_ok()));
        let mut written = written.lock().clone();
        written.sort_unstable();
        assert_eq!(written, (0..100).collect::<Vec<_>>());
        assert!(calls.load(Ordering::SeqCst) <= 3, "{calls:?}");
    }

    #[tokio::test]
    async fn a_failure_is_everybodys_and_a_panic_nobodys_end() {
        let together = WriteBatcher::default();
        let fails = |_| async { Err(StoreError::Timeout) };
        let failed = together.write(1, fails).await.unwrap_err();
        assert!(failed.can_retry && failed.reason.contains("did not respond"), "{failed:?}");
        let panics = |_| async { panic!("as planned") };
        assert!(together.write(2, panics).await.is_err());
        assert_eq!(together.write(3, |_| async { Ok(()) }).await, Ok(()));
    }
}
