//! All that there are of something, as this process knows it, so that what there is none of can
//! be told without a look-up for each: anybody can ask for that.
//!
//! Whoever asks for what the list does not name waits for one that is read after they asked; one
//! is read at a time, for all that wait. So they cost the database no more than a few look-ups a
//! second, however many there are, and never stand in the way of those that the list names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{sleep, sleep_until};

use super::FindError;
use store::{StoreError, answered};

/// So many wait at most: each has a place among the requests under way.
const WAITING: usize = 128;

/// The time from one reading's beginning to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// When a reading is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A list, read again when it is asked for what it does not name.
pub struct Listing<T> {
    latest: Mutex<Option<Arc<T>>>,
    /// Whoever has it reads.
    turn: tokio::sync::Mutex<Option<Reading>>,
    places: Semaphore,
}

/// The last reading.
struct Reading {
    began: Instant,
    failed: Option<Arc<StoreError>>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self {
            latest: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            places: Semaphore::new(WAITING),
        }
    }
}

impl<T: Send + Sync + 'static> Listing<T> {
    /// The list as it was read last; none before it was.
    pub fn latest(&self) -> Option<Arc<T>> {
        self.latest.lock().clone()
    }

    /// Changes it: something that it names is no more.
    pub fn change(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        if let Some(list) = &mut *self.latest.lock() {
            change(Arc::make_mut(list));
        }
    }

    /// The list as it is now, or a little later.
    pub async fn renewed(
        &self,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, FindError> {
        let asked = Instant::now();
        let Ok(_place) = self.places.try_acquire() else {
            metrics::counter!("longshore_http_refused_total", "reason" => "keys").increment(1);
            return Err(FindError::Busy);
        };
        let mut turn = self.turn.lock().await;
        if let Some(Reading { began, failed }) = &*turn {
            let is_later = *began >= asked;
            match (failed, self.latest()) {
                (Some(error), _) if is_later => return Err(FindError::Store(error.clone())),
                (None, Some(list)) if is_later => return Ok(list),
                _ => sleep_until((*began + PAUSE).into()).await,
            }
        }
        let began = Instant::now();
        match answered(read, sleep(PATIENCE)).await {
            Ok(list) => {
                let list = Arc::new(list);
                *self.latest.lock() = Some(list.clone());
                *turn = Some(Reading { began, failed: None });
                Ok(list)
            }
            Err(error) => {
                let error = Arc::new(error);
                *turn = Some(Reading { began, failed: Some(error.clone()) });
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
        let listing = Arc::new(Listing::<usize>::default());
        let readings = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let (listing, readings) = (listing.clone(), readings.clone());
            async move {
                let read = async move {
                    sleep(Duration::from_millis(10)).await;
                    Ok(readings.fetch_add(1, Ordering::SeqCst))
                };
                listing.renewed(read).await
            }
        };
        let all = futures::future::join_all((0..WAITING + 10).map(|_| ask())).await;
        let busy = all.iter().filter(|one| matches!(one, Err(FindError::Busy))).count();
        assert_eq!(busy, 10);
        // The first began before the others had asked, the second after.
        assert!(readings.load(Ordering::SeqCst) <= 2);
        assert!(all.iter().flatten().all(|list| **list <= 1));
        let before = readings.load(Ordering::SeqCst);
        assert_eq!(*ask().await.unwrap(), before, "what was read before it asked is too old");
        assert_eq!(listing.latest().as_deref(), Some(&before));
        let seen = listing.latest();
        listing.change(|list| *list += 100);
        assert_eq!(listing.latest().as_deref(), Some(&(before + 100)));
        assert_eq!(seen.as_deref(), Some(&before), "whoever has it keeps it as it was");
    }

    #[tokio::test]
    async fn a_reading_that_fails_fails_for_all_that_wait() {
        let listing = Listing::<usize>::default();
        let fails = || listing.renewed(async { Err(StoreError::Silent) });
        let all = futures::future::join_all((0..5).map(|_| fails())).await;
        assert!(all.iter().all(|one| matches!(one, Err(FindError::Store(_)))));
        assert_eq!(*listing.renewed(async { Ok(7) }).await.unwrap(), 7);
    }
}
