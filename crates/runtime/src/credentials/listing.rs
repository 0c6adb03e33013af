//! A process's cached list of all existing keys of one kind, so that unknown ones, which anyone can
//! send, are rejected without a lookup.
//!
//! A caller with an unlisted key waits for a list that is read after its call; one list is read at
//! a time, for all callers. So unknown keys cost the database only a few reads per second, however
//! many there are, and never delay listed keys.
//!
//! With slots, the callers with a new key share a place, so that a burst of first requests with it
//! waits for one list. Once a list without the key was read, further ones need a place each.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::FindError;
use kit::moment::Moment;
use store::{StoreError, within_timeout};

/// Places of waiting callers: each occupies a request.
const PLACES: usize = 128;

/// The interval between two reads.
const PAUSE: Duration = Duration::from_millis(100);

/// Time limit of a read.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A list of keys `K`, read again when a caller has an unlisted one.
pub struct CachedList<K, T> {
    latest: Mutex<Option<Arc<T>>>,
    /// The holder reads.
    last_reading: tokio::sync::Mutex<Option<Reading>>,
    waiting: Mutex<Waiting<K>>,
    places: Arc<Semaphore>,
    /// For callers that share a place, if they do: each occupies a request, too.
    slots: Option<Arc<Semaphore>>,
}

/// The callers that wait.
struct Waiting<K> {
    keys: HashMap<K, Callers>,
    /// When the last reading that has ended began.
    last_began: Option<Moment>,
}

/// The callers that wait for a key.
struct Callers {
    /// When the first of them began to wait.
    since: Moment,
    count: usize,
}

/// The last reading.
struct Reading {
    began: Moment,
    failed: Option<Arc<StoreError>>,
}

/// A waiting caller, until this is dropped.
struct Caller<'a, K: Eq + Hash> {
    waiting: &'a Mutex<Waiting<K>>,
    key: K,
    _permit: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> Drop for Caller<'_, K> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        let keys = &mut waiting.keys;
        if let Some(callers) = keys.get_mut(&self.key) {
            callers.count -= 1;
            if callers.count == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

impl<K: Clone + Eq + Hash, T: Send + Sync + 'static> CachedList<K, T> {
    /// `slots` limits the callers that share a place. Further ones need a place each, and without
    /// `slots`, all do.
    pub fn new(slots: Option<Arc<Semaphore>>) -> Self {
        Self {
            latest: Mutex::default(),
            last_reading: tokio::sync::Mutex::default(),
            waiting: Mutex::new(Waiting { keys: HashMap::new(), last_began: None }),
            places: Arc::new(Semaphore::new(PLACES)),
            slots,
        }
    }

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

    /// The list as of now, or a little later, for a caller with this key.
    pub async fn refresh(
        &self,
        key: &K,
        read: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<Arc<T>, FindError> {
        let called_at = Moment::now();
        let Some(_caller) = self.enter(key, called_at) else {
            metrics::counter!("longshore_http_refused_total", "reason" => "keys").increment(1);
            return Err(FindError::Busy);
        };
        let mut last_reading = self.last_reading.lock().await;
        if let Some(Reading { began, failed }) = &*last_reading {
            let is_later = *began >= called_at;
            match (failed, self.latest()) {
                (Some(error), _) if is_later => return Err(FindError::Store(error.clone())),
                (None, Some(list)) if is_later => return Ok(list),
                _ => sleep((*began + PAUSE).remaining()).await,
            }
        }
        let began = Moment::now();
        let read = within_timeout(read, sleep(TIMEOUT)).await;
        self.waiting.lock().last_began = Some(began);
        match read {
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

    /// Begins to wait, if there is a place.
    fn enter(&self, key: &K, now: Moment) -> Option<Caller<'_, K>> {
        let mut waiting = self.waiting.lock();
        let Waiting { keys, last_began } = &mut *waiting;
        let is_before = |since: Moment| last_began.is_none_or(|began| began < since);
        let can_share = keys.get(key).is_some_and(|callers| is_before(callers.since));
        let slots = self.slots.clone().filter(|_| can_share);
        let slot = slots.and_then(|slots| slots.try_acquire_owned().ok());
        let permit = slot.or_else(|| self.places.clone().try_acquire_owned().ok())?;
        let callers = keys.entry(key.clone()).or_insert(Callers { since: now, count: 0 });
        callers.count += 1;
        Some(Caller { waiting: &self.waiting, key: key.clone(), _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::{join, join_all};

    use super::*;

    fn new_list(slots: usize) -> CachedList<usize, usize> {
        CachedList::new(Some(Arc::new(Semaphore::new(slots))))
    }

    #[tokio::test]
    async fn one_reading_is_for_all_that_wait() {
        let listing = Arc::new(new_list(1_024));
        let readings = Arc::new(AtomicUsize::new(0));
        let ask = |key: usize| {
            let (listing, readings) = (listing.clone(), readings.clone());
            async move {
                let read = async move {
                    sleep(Duration::from_millis(10)).await;
                    Ok(readings.fetch_add(1, Ordering::SeqCst))
                };
                listing.refresh(&key, read).await
            }
        };
        let results = join_all((0..PLACES + 10).map(ask)).await;
        assert_eq!(count_busy(&results), 10);
        // The first read began before the other calls, the second after them.
        assert!(readings.load(Ordering::SeqCst) <= 2);
        assert!(results.iter().flatten().all(|list| **list <= 1));
        let before = readings.load(Ordering::SeqCst);
        assert_eq!(*ask(0).await.unwrap(), before, "what was read before it asked is too old");
        assert_eq!(listing.latest().as_deref(), Some(&before));
        let old_list = listing.latest();
        listing.change(|list| *list += 100);
        assert_eq!(listing.latest().as_deref(), Some(&(before + 100)));
        assert_eq!(old_list.as_deref(), Some(&before), "holders keep the old list");
    }

    fn count_busy(results: &[Result<Arc<usize>, FindError>]) -> usize {
        results.iter().filter(|result| matches!(result, Err(FindError::Busy))).count()
    }

    #[tokio::test]
    async fn the_callers_with_a_new_key_share_a_place() {
        const SLOTS: usize = 1_000;
        let listing = new_list(SLOTS);
        let ask = |key: usize| {
            let listing = &listing;
            async move {
                let read = async {
                    sleep(Duration::from_millis(10)).await;
                    Ok(0)
                };
                listing.refresh(&key, read).await
            }
        };
        // The first one has a place, and the last ones.
        let results = join_all((0..SLOTS + PLACES + 3).map(|_| ask(0))).await;
        assert_eq!(count_busy(&results), 3);
        assert_eq!(listing.slots.as_ref().unwrap().available_permits(), SLOTS);
        // A list without the key was read since the first of them waits.
        let others = async {
            listing.waiting.lock().last_began = Some(Moment::now());
            join_all((0..SLOTS).map(|_| ask(1))).await
        };
        let (first, results) = join(ask(1), others).await;
        assert!(first.is_ok());
        assert_eq!(count_busy(&results), SLOTS - (PLACES - 1));
        assert!(listing.waiting.lock().keys.is_empty());
    }

    #[tokio::test]
    async fn a_reading_that_fails_fails_for_all_that_wait() {
        let listing = new_list(8);
        let fails = |key: usize| {
            let listing = &listing;
            async move { listing.refresh(&key, async { Err(StoreError::Timeout) }).await }
        };
        let results = join_all((0..5).map(fails)).await;
        assert!(results.iter().all(|result| matches!(result, Err(FindError::Store(_)))));
        assert_eq!(*listing.refresh(&0, async { Ok(7) }).await.unwrap(), 7);
    }
}
