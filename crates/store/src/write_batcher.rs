//! Batches small writes of many callers: writes that arrive during a transaction share the next
//! one. A dispatch sends hundreds of messages in parallel, and a transaction for each message would
//! be most of the work.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::StoreError;
use kit::retry::Retry as _;

/// Maximum number of writes in one transaction.
const MAX_WRITES: usize = 500;

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
    /// Whether the row was certainly not written.
    pub is_busy: bool,
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
    /// Writes a row together with other waiting ones; returns once it is durable. It is written
    /// even if the future is dropped.
    pub async fn write<W, F>(&self, row: T, write: W) -> Result<(), WriteError>
    where
        W: Fn(Vec<T>) -> F + Send + 'static,
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        let must_start = {
            let mut state = self.0.lock();
            state.waiting.push((row, done));
            !std::mem::replace(&mut state.is_running, true)
        };
        if must_start {
            let batcher = self.clone();
            tokio::spawn(async move { batcher.work(write).await });
        }
        result.await.unwrap_or_else(|_| {
            let reason = "the write failed".into();
            Err(WriteError { reason, can_retry: true, is_busy: false })
        })
    }

    async fn work<W, F>(self, write: W)
    where
        W: Fn(Vec<T>) -> F + Send + 'static,
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        // After a panic, the others must not wait forever.
        let mut running = RunningGuard { batcher: &self, is_finished: false };
        loop {
            let batch = {
                let mut state = self.0.lock();
                let length = state.waiting.len().min(MAX_WRITES);
                let batch: Vec<_> = state.waiting.drain(..length).collect();
                if batch.is_empty() {
                    state.is_running = false;
                    running.is_finished = true;
                    return;
                }
                batch
            };
            let (rows, callers): (Vec<T>, Vec<_>) = batch.into_iter().unzip();
            let written = write(rows).await.map_err(|error| WriteError {
                reason: error.to_string(),
                can_retry: error.can_retry(),
                is_busy: crate::is_busy(&error),
            });
            for done in callers {
                // The caller may no longer wait.
                let _ = done.send(written.clone());
            }
        }
    }
}

struct RunningGuard<'t, T> {
    batcher: &'t WriteBatcher<T>,
    is_finished: bool,
}

impl<T> Drop for RunningGuard<'_, T> {
    fn drop(&mut self) {
        if !self.is_finished {
            let mut state = self.batcher.0.lock();
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
        let batcher = WriteBatcher::default();
        let (calls, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let write = {
            let (calls, written) = (calls.clone(), written.clone());
            move |rows: Vec<usize>| {
                calls.fetch_add(1, Ordering::SeqCst);
                let written = written.clone();
                async move {
                    tokio::task::yield_now().await;
                    written.lock().extend(rows);
                    Ok(())
                }
            }
        };
        let writes = (0..100).map(|row| batcher.write(row, write.clone()));
        let results = futures::future::join_all(writes).await;
        assert!(results.into_iter().all(|result| result.is_ok()));
        let mut written = written.lock().clone();
        written.sort_unstable();
        assert_eq!(written, (0..100).collect::<Vec<_>>());
        assert!(calls.load(Ordering::SeqCst) <= 3, "{calls:?}");
    }

    #[tokio::test]
    async fn a_failure_fails_all_its_writes_and_a_panic_ends_no_later_one() {
        let batcher = WriteBatcher::default();
        let fails = |_| async { Err(StoreError::Timeout) };
        let failed = batcher.write(1, fails).await.unwrap_err();
        assert!(failed.can_retry && failed.reason.contains("did not respond"), "{failed:?}");
        let panics = |_| async { panic!("as planned") };
        assert!(batcher.write(2, panics).await.is_err());
        assert_eq!(batcher.write(3, |_| async { Ok(()) }).await, Ok(()));
    }
}
