//! Runs the same statement of many requests as one, so that they share its round trip and commit.
//!
//! Requests are gathered by need, not by time: one that finds a free place runs at once, and those
//! that arrive while all places are in use share the next statement.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::{StoreError, within_timeout};

/// Statements of a kind that run at the same time. Fewer make larger batches; with a second one, a
/// slow statement does not delay all others.
const PLACES: usize = 2;

/// How long the requests of a statement wait for it; it continues in the background.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Requests of one statement.
const MAX_REQUESTS: usize = 256;

type Answer<R> = oneshot::Sender<Result<R, StoreError>>;

/// The waiting requests of one kind of statement: each has a value, and gets a result. Cheap to
/// clone.
pub struct Batches<T, R>(Arc<Mutex<State<T, R>>>);

struct State<T, R> {
    waiting: Vec<(T, Answer<R>)>,
    running: usize,
}

impl<T, R> Default for Batches<T, R> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { waiting: Vec::new(), running: 0 })))
    }
}

impl<T, R> Clone for Batches<T, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + 'static, R: Send + 'static> Batches<T, R> {
    /// Runs a request in a batch. `execute` is the same for all requests: it returns one result for
    /// each value, in their order. If it fails, all requests of the batch fail. A request whose
    /// caller has stopped waiting runs nevertheless.
    pub async fn run<F>(
        &self,
        value: T,
        execute: impl Fn(Vec<T>) -> F + Send + 'static,
    ) -> Result<R, StoreError>
    where
        F: Future<Output = Result<Vec<R>, StoreError>> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        let has_place = {
            let mut state = self.0.lock();
            state.waiting.push((value, answer));
            let has_place = state.running < PLACES;
            state.running += usize::from(has_place);
            has_place
        };
        if has_place {
            tokio::spawn(self.clone().run_waiting(execute));
        }
        // The sender is gone only if a statement panicked.
        result.await.unwrap_or(Err(StoreError::Timeout))
    }

    /// Runs all waiting requests, batch after batch.
    async fn run_waiting<F>(self, execute: impl Fn(Vec<T>) -> F)
    where
        F: Future<Output = Result<Vec<R>, StoreError>> + Send + 'static,
    {
        while let Some((values, answers)) = self.next() {
            // A task of its own, so that others run after a panic.
            let statement = within_timeout(execute(values), sleep(TIMEOUT));
            let results = match tokio::spawn(statement).await {
                Ok(results) => results.map_err(Arc::new),
                Err(_) => continue,
            };
            let mut results = results.map(Vec::into_iter);
            for answer in answers {
                let result = match &mut results {
                    Ok(results) => results.next().ok_or(StoreError::Timeout),
                    Err(error) => Err(StoreError::Shared(error.clone())),
                };
                // The receiver is gone if the caller has stopped waiting.
                let _ = answer.send(result);
            }
        }
    }

    /// The requests of the next statement. If nothing waits: none, and the place is free.
    fn next(&self) -> Option<(Vec<T>, Vec<Answer<R>>)> {
        let mut state = self.0.lock();
        let count = state.waiting.len().min(MAX_REQUESTS);
        if count == 0 {
            state.running -= 1;
            return None;
        }
        Some(state.waiting.drain(..count).unzip())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    /// Returns the number of values for each of them.
    async fn count(values: Vec<u64>) -> Result<Vec<usize>, StoreError> {
        Ok(vec![values.len(); values.len()])
    }

    #[tokio::test]
    async fn requests_gather_while_all_places_are_in_use() {
        let (batches, gate) = (Batches::default(), Arc::new(Semaphore::new(0)));
        let (mut first, mut rest) = (JoinSet::new(), JoinSet::new());
        let request = || {
            let (batches, gate) = (batches.clone(), gate.clone());
            async move {
                let execute = move |values| {
                    let gate = gate.clone();
                    async move {
                        gate.acquire().await.unwrap().forget();
                        count(values).await
                    }
                };
                batches.run(1, execute).await.unwrap()
            }
        };
        for _ in 0..PLACES {
            first.spawn(request());
            // It has its place before the next one comes.
            while !batches.0.lock().waiting.is_empty() || batches.0.lock().running == 0 {
                yield_now().await;
            }
            for _ in 0..10 {
                yield_now().await;
            }
        }
        (0..20).for_each(|_| _ = rest.spawn(request()));
        while batches.0.lock().waiting.len() < 20 {
            yield_now().await;
        }
        gate.add_permits(PLACES + 20);
        assert_eq!(first.join_all().await, [1; PLACES]);
        assert_eq!(rest.join_all().await, [20; 20]);
        assert_eq!(batches.0.lock().running, 0);
    }

    #[tokio::test]
    async fn a_batch_fails_as_a_whole_and_the_next_one_runs() {
        let batches = Batches::<u64, usize>::default();
        let failed = batches.run(1, |_| async { Err(StoreError::ReadOnly("a standby")) }).await;
        assert!(matches!(failed, Err(StoreError::Shared(_))), "{failed:?}");
        let panicked = batches.run(1, |_| async { panic!("on purpose") }).await;
        assert!(matches!(panicked, Err(StoreError::Timeout)), "{panicked:?}");
        assert_eq!(batches.run(1, count).await.unwrap(), 1);
    }
}
