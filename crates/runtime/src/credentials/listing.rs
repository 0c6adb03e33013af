//! A process's cached list of all existing keys of one kind, so that unknown ones, which anyone can
//! send, are rejected without a lookup.
//!
//! A caller with an unlisted key waits for a list that is read after its call; one list is read at
//! a time, for all callers. So unknown keys cost the database only a few reads per second, however
//! many there are, and never delay listed keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{sleep, sleep_until};

use super::FindError;
use store::{StoreError, within_timeout};

/// Maximum number of waiting callers: each occupies a request.
const WAITING: usize = 128;

/// The interval between two reads.
const PAUSE: Duration = Duration::from_millis(100);

/// Time limit of a read.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A list, read again when a caller has an unlisted key.
pub struct CachedList<T> {
    latest: Mutex<Option<Arc<T>>>,
    /// The holder reads.
    last_reading: tokio::sync::Mutex<Option<Reading>>,
    waiting: Semaphore,
}

/// The last reading.
struct Reading {
    began: Instant,
    failed: Option<Arc<StoreError>>,
}

impl<T> Default for CachedList<T> {
    fn default() -> Self {
        Self {
            latest: Mutex::default(),
            last_reading: tokio::sync::Mutex::default(),
            waiting: Semaphore::new(WAITING),
        }
    }
}

impl<T: Send + Sync + 'static> CachedList<T> {
    /// The last list; none before the first read.
    pub fn latest(&self) -> Option<Arc<T>> {
        self.latest.lock().clone()
    }

    /// Changes it: a listed key was deleted.
    pub fn change(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        if let Some(list) = &mut *self.latest.lock() {
            change(Arc::make_mut(list));
        }
    }

    /// The list as of now, or a little later.
    pub async fn refresh(
        &self,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, FindError> {
        let called_at = Instant::now();
        let Ok(_permit) = self.waiting.try_acquire() else {
            metrics::counter!("longshore_http_refused_total", "reason" => "keys").increment(1);
            return Err(FindError::Busy);
        };
        let mut last_reading = self.last_reading.lock().await;
        if let Some(Reading { began, failed }) = &*last_reading {
            let is_later = *began >= called_at;
            match (failed, self.latest()) {
                (Some(error), _) if is_later => return Err(FindError::Store(error.clone())),
                (None, Some(list)) if is_later => return Ok(list),
                _ => sleep_until((*began + PAUSE).into()).await,
            }
        }
        let began = Instant::now();
        match within_timeout(read, sleep(TIMEOUT)).await {
            Ok(list) => {
                let list = Arc::new(list);
                *self.latest.lock() = Some(list.clone());
                *last_reading = Some(Reading { began, failed: None });
                Ok(list)
            }
            Err(error) => {
                let error = Arc::new(error);
                *last_reading = Some(Reading { began, failed: Some(error.clone()) });
                Err(FindError::Store(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn one_reading_is_for_all_that_wait() {
        let listing = Arc::new(CachedList::<usize>::default());
        let readings = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let (listing, readings) = (listing.clone(), readings.clone());
            async move {
                let read = async move {
                    sleep(Duration::from_millis(10)).await;
                    Ok(readings.fetch_add(1, Ordering::SeqCst))
                };
                listing.refresh(read).await
            }
        };
        let results = futures::future::join_all((0..WAITING + 10).map(|_| ask())).await;
        let busy = results.iter().filter(|result| matches!(result, Err(FindError::Busy))).count();
        assert_eq!(busy, 10);
        // The first read began before the other calls, the second after them.
        assert!(readings.load(Ordering::SeqCst) <= 2);
        assert!(results.iter().flatten().all(|list| **list <= 1));
        let before = readings.load(Ordering::SeqCst);
        assert_eq!(*ask().await.unwrap(), before, "what was read before it asked is too old");
        assert_eq!(listing.latest().as_deref(), Some(&before));
        let old_list = listing.latest();
        listing.change(|list| *list += 100);
        assert_eq!(listing.latest().as_deref(), Some(&(before + 100)));
        assert_eq!(old_list.as_deref(), Some(&before), "holders keep the old list");
    }

    #[tokio::test]
    async fn a_reading_that_fails_fails_for_all_that_wait() {
        let listing = CachedList::<usize>::default();
        let fails = || listing.refresh(async { Err(StoreError::Timeout) });
        let results = futures::future::join_all((0..5).map(|_| fails())).await;
        assert!(results.iter().all(|result| matches!(result, Err(FindError::Store(_)))));
        assert_eq!(*listing.refresh(async { Ok(7) }).await.unwrap(), 7);
    }
}
