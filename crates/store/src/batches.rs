//! Runs the same statement of many requests as one, so that they share its round trip and commit.
//!
//! Requests are gathered by need, not by time: one that arrives while no statement runs is run at
//! once, and those that arrive meanwhile share the next statement.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{error::Elapsed, timeout};

use crate::StoreError;

/// Statements of a kind that run at the same time: one makes the largest batches, and a second one
/// runs while it is slow.
const MAX_RUNNING: usize = 2;

/// A statement that takes longer is slow, and delays no other requests.
const SLOW: Duration = Duration::from_millis(50);

/// How long the requests of a statement wait for it. Then it continues in the background, because
/// database work is never dropped halfway, and is no longer counted: on a connection that was cut
/// silently, it would never end. The pool limits how many continue.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Requests of one statement.
const MAX_REQUESTS: usize = 256;

type Results<R> = Result<Vec<R>, StoreError>;
type Running<R> = Pin<Box<dyn Future<Output = Results<R>> + Send>>;
type Statement<T, R> = Box<dyn Fn(Vec<T>) -> Running<R> + Send + Sync>;
type Answer<R> = oneshot::Sender<Result<R, StoreError>>;

/// A statement, and the requests that wait for it: each has a value, and gets a result.
pub struct Batches<T, R>(Arc<Inner<T, R>>);

struct Inner<T, R> {
    statement: Statement<T, R>,
    timeout: Duration,
    state: Mutex<State<T, R>>,
}

struct State<T, R> {
    waiting: Vec<(T, Answer<R>)>,
    running: usize,
    /// Those of them that have run for longer than [`SLOW`].
    slow: usize,
}

impl<T, R> State<T, R> {
    fn max_running(&self) -> usize {
        (1 + self.slow).min(MAX_RUNNING)
    }
}

impl<T: Send + 'static, R: Send + 'static> Batches<T, R> {
    /// `statement` returns one result for each value, in their order. If it fails, all requests of
    /// the batch fail, so one value must not be a reason to fail.
    pub fn new<F>(statement: impl Fn(Vec<T>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Results<R>> + Send + 'static,
    {
        Self::with_timeout(statement, TIMEOUT)
    }

    fn with_timeout<F>(
        statement: impl Fn(Vec<T>) -> F + Send + Sync + 'static,
        timeout: Duration,
    ) -> Self
    where
        F: Future<Output = Results<R>> + Send + 'static,
    {
        let statement: Statement<T, R> = Box::new(move |values| Box::pin(statement(values)));
        let state = Mutex::new(State { waiting: Vec::new(), running: 0, slow: 0 });
        Self(Arc::new(Inner { statement, timeout, state }))
    }

    /// Runs a request in a batch. A request whose caller has stopped waiting runs nevertheless.
    pub async fn run(&self, value: T) -> Result<R, StoreError> {
        let (answer, result) = oneshot::channel();
        self.0.state.lock().waiting.push((value, answer));
        self.0.start();
        // The sender is gone only if a statement panicked.
        result.await.unwrap_or(Err(StoreError::Timeout))
    }
}

impl<T: Send + 'static, R: Send + 'static> Inner<T, R> {
    /// Runs the waiting requests, unless the statements that run are enough.
    fn start(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() && state.running < state.max_running() {
            state.running += 1;
            tokio::spawn(self.clone().run_waiting());
        }
    }

    /// Runs all waiting requests, batch after batch.
    async fn run_waiting(self: Arc<Self>) {
        while let Some((values, answers)) = self.next() {
            let inner = self.clone();
            // A task of its own, which continues after a timeout, and whose panic ends no other.
            let statement = tokio::spawn(async move { (inner.statement)(values).await });
            let results = match self.wait(statement).await {
                Ok(Ok(results)) => results.map_err(Arc::new),
                Ok(Err(_panic)) => continue,
                Err(_elapsed) => Err(Arc::new(StoreError::Timeout)),
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

    /// Waits for a statement, and lets another one run meanwhile if it is slow.
    async fn wait(
        self: &Arc<Self>,
        mut statement: JoinHandle<Results<R>>,
    ) -> Result<Result<Results<R>, JoinError>, Elapsed> {
        let slow = SLOW.min(self.timeout);
        if let Ok(ended) = timeout(slow, &mut statement).await {
            return Ok(ended);
        }
        self.state.lock().slow += 1;
        self.start();
        let ended = timeout(self.timeout - slow, statement).await;
        self.state.lock().slow -= 1;
        ended
    }

    /// The requests of the next statement; none if nothing waits, or if another statement serves
    /// the rest.
    fn next(&self) -> Option<(Vec<T>, Vec<Answer<R>>)> {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(MAX_REQUESTS);
        if count == 0 || state.running > state.max_running() {
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

    type Counts = Batches<u64, usize>;

    /// Returns for each value the number of all values, once `gate` has a permit.
    fn counts(gate: &Arc<Semaphore>, timeout: Duration) -> Arc<Counts> {
        let gate = gate.clone();
        let count = move |values: Vec<u64>| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(vec![values.len(); values.len()])
            }
        };
        Arc::new(Batches::with_timeout(count, timeout))
    }

    async fn run(counts: Arc<Counts>) -> usize {
        counts.run(1).await.unwrap()
    }

    /// Waits until so many statements run, and so many requests wait for the next one.
    async fn wait_for(counts: &Counts, running: usize, waiting: usize) {
        let is_reached = || {
            let state = counts.0.state.lock();
            state.running == running && state.waiting.len() == waiting
        };
        while !is_reached() {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn requests_gather_while_a_statement_runs() {
        let gate = Arc::new(Semaphore::new(0));
        let counts = counts(&gate, TIMEOUT);
        let (mut first, mut rest) = (JoinSet::new(), JoinSet::new());
        first.spawn(run(counts.clone()));
        wait_for(&counts, 1, 0).await;
        (0..20).for_each(|_| _ = rest.spawn(run(counts.clone())));
        // The first statement becomes slow, and another one takes all that wait.
        wait_for(&counts, MAX_RUNNING, 0).await;
        gate.add_permits(MAX_RUNNING);
        assert_eq!(first.join_all().await, [1]);
        assert_eq!(rest.join_all().await, [20; 20]);
        wait_for(&counts, 0, 0).await;
    }

    #[tokio::test]
    async fn slow_statements_are_limited() {
        let gate = Arc::new(Semaphore::new(0));
        let counts = counts(&gate, TIMEOUT);
        let mut results = JoinSet::new();
        for running in 1..=MAX_RUNNING {
            results.spawn(run(counts.clone()));
            wait_for(&counts, running, 0).await;
        }
        while counts.0.state.lock().slow < MAX_RUNNING {
            yield_now().await;
        }
        (0..20).for_each(|_| _ = results.spawn(run(counts.clone())));
        wait_for(&counts, MAX_RUNNING, 20).await;
        gate.add_permits(MAX_RUNNING + 1);
        let mut results = results.join_all().await;
        results.sort_unstable();
        assert_eq!(results[..MAX_RUNNING], [1; MAX_RUNNING]);
        assert_eq!(results[MAX_RUNNING..], [20; 20]);
        wait_for(&counts, 0, 0).await;
    }

    #[tokio::test]
    async fn a_batch_fails_as_a_whole_and_the_next_one_runs() {
        let batches = Batches::new(|values: Vec<&'static str>| async move {
            match values[..] {
                ["fail"] => Err(StoreError::ReadOnly("a standby")),
                ["panic"] => panic!("on purpose"),
                _ => Ok(values),
            }
        });
        let failed = batches.run("fail").await;
        assert!(matches!(failed, Err(StoreError::Shared(_))), "{failed:?}");
        let panicked = batches.run("panic").await;
        assert!(matches!(panicked, Err(StoreError::Timeout)), "{panicked:?}");
        assert_eq!(batches.run("run").await.unwrap(), "run");
    }

    #[tokio::test]
    async fn a_statement_continues_after_its_timeout() {
        let gate = Arc::new(Semaphore::new(0));
        let counts = counts(&gate, Duration::from_millis(10));
        let slow = counts.run(1).await;
        let Err(StoreError::Shared(error)) = slow else { panic!("{slow:?}") };
        assert!(matches!(*error, StoreError::Timeout), "{error:?}");
        // Its place is free, although it has not ended.
        wait_for(&counts, 0, 0).await;
        gate.add_permits(1);
        assert_eq!(gate.available_permits(), 0, "nothing waits for the permit");
    }

    #[tokio::test]
    async fn a_statement_continues_without_its_caller() {
        let gate = Arc::new(Semaphore::new(0));
        let counts = counts(&gate, TIMEOUT);
        let caller = tokio::spawn(run(counts.clone()));
        wait_for(&counts, 1, 0).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        gate.add_permits(1);
        assert_eq!(gate.available_permits(), 0, "nothing waits for the permit");
        wait_for(&counts, 0, 0).await;
    }
}
