//! Tries the changes of commands again while others hold their rows.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{CommandResult, Error};
use gateway::ApiError;
use kit::retry::{Retry as _, TimedRetries};
use store::StoreError;

/// How long to try a change: a worker that stopped inside a transaction keeps its locks for a
/// minute.
const MAX_TIME: Duration = Duration::from_secs(90);

/// When the command shows what it waits for.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Runs a change, one transaction, and tries it again while the database is busy: its rows are
/// locked, or there is no free connection. After some seconds, a line on standard error says so.
///
/// Only a transaction that has certainly not been committed is run again
/// ([`store::is_busy`]).
pub async fn while_busy<T>(change: impl AsyncFnMut() -> CommandResult<T>) -> CommandResult<T> {
    run(Notice::after_seconds(), is_busy, change).await
}

/// [`while_busy`] for a change that has no further effect if it is repeated: tries it again after
/// every error of the database that may pass, also if it may have been committed.
pub async fn until_done<T>(change: impl AsyncFnMut() -> CommandResult<T>) -> CommandResult<T> {
    let can_retry =
        |error: &Error| is_busy(error) || error.downcast_ref().is_some_and(StoreError::can_retry);
    run(Notice::after_seconds(), can_retry, change).await
}

/// [`while_busy`] for a change that may take long by itself: the line appears only after a failure.
pub async fn long_while_busy<T>(change: impl AsyncFnMut() -> CommandResult<T>) -> CommandResult<T> {
    run(Notice::after_failure(), is_busy, change).await
}

async fn run<T>(
    mut notice: Notice,
    can_retry: impl Fn(&Error) -> bool,
    mut change: impl AsyncFnMut() -> CommandResult<T>,
) -> CommandResult<T> {
    let mut tries = TimedRetries::within(MAX_TIME);
    loop {
        let error = match notice.during(change()).await {
            Err(error) if can_retry(&error) => error,
            result => return result,
        };
        let seconds = MAX_TIME.as_secs();
        notice.text = Some(format!("waiting for the database, for up to {seconds} s: {error}"));
        if !notice.during(tries.again()).await {
            return Err(error);
        }
    }
}

fn is_busy(error: &Error) -> bool {
    error.is::<Busy>() || store::is_busy(error.as_ref())
}

/// An error of a domain that is described as for requests.
pub fn api_error(about: &str, error: ApiError) -> Error {
    let text = format!("{about}: {}", error.message());
    match error {
        // The transaction is dropped, or has an idempotency key.
        ApiError::Unavailable(detail) => Box::new(Busy(format!("{about}: {detail}"))),
        _ => text.into(),
    }
}

/// The database could not serve a statement of a transaction now.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Busy(String);

/// The line that says what the command waits for, shown once.
struct Notice {
    at: Instant,
    /// None until it is known.
    text: Option<String>,
    is_shown: bool,
}

impl Notice {
    fn after_failure() -> Self {
        Self { at: Instant::now() + NOTICE_AFTER, text: None, is_shown: false }
    }

    /// The work may just be slow: until it fails, the cause is unknown.
    fn after_seconds() -> Self {
        let seconds = MAX_TIME.as_secs();
        let text = format!(
            "still waiting for the database; while others hold the rows, this tries again for up to \
             {seconds} s"
        );
        Self { text: Some(text), ..Self::after_failure() }
    }

    /// Runs `work`, and shows the line when its time comes. The work is never dropped halfway.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Some(text) = self.text.as_ref().filter(|_| !self.is_shown) {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep_until(self.at) => {}
            }
            eprintln!("longshore: {text}");
            self.is_shown = true;
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn tries(error: impl Fn() -> Error) -> (usize, bool) {
        let mut tries = 0;
        let done = while_busy(async || {
            tries += 1;
            if tries < 3 { Err(error()) } else { Ok(()) }
        });
        let is_done = done.await.is_ok();
        (tries, is_done)
    }

    #[tokio::test]
    async fn only_a_busy_database_is_tried_again() {
        let busy = || StoreError::from(sqlx::Error::PoolTimedOut);
        assert_eq!(tries(|| busy().into()).await, (3, true));
        let passed_on = || crate::workspaces::keys::KeyError::Store(busy());
        assert_eq!(tries(|| passed_on().into()).await, (3, true));
        let of_request = || api_error("it", ApiError::Unavailable("a lock timeout".into()));
        assert_eq!(tries(of_request).await, (3, true));

        assert_eq!(tries(|| "it does not exist".into()).await, (1, false));
        // It may have been committed.
        assert_eq!(tries(|| lost().into()).await, (1, false));
    }

    fn lost() -> StoreError {
        sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into()).into()
    }

    #[tokio::test]
    async fn a_change_that_may_be_repeated_is_tried_again_after_a_lost_connection() {
        for (error, expected) in [(Some(lost()), 3), (None, 1)] {
            let (mut tries, error) = (0, error.map(Arc::new));
            let done = until_done(async || {
                tries += 1;
                match &error {
                    Some(_) if tries == 3 => Ok(()),
                    Some(error) => Err(StoreError::Shared(error.clone()).into()),
                    None => Err("it does not exist".into()),
                }
            });
            assert_eq!(done.await.is_ok(), expected == 3);
            assert_eq!(tries, expected);
        }
    }
}
