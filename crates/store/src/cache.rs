//! A process's cache of stored values, refreshed in the background.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::{StoreError, within_timeout};
use kit::moment::Moment;

/// The pause after a failed read, if a value is cached.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a cache uses its values.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// The value's name in the log.
    pub name: &'static str,
    /// From this age on, a value is refreshed in the background.
    pub refresh_after: Duration,
    /// From this age on, callers wait for the refresh, unless the last read failed.
    pub wait_after: Duration,
    /// How long a caller waits if a value is cached.
    pub read_timeout: Duration,
    /// How long a value is used that cannot be refreshed.
    pub max_age: Duration,
    /// Time limit of a read; callers wait that long if no value is cached.
    pub give_up: Duration,
    /// Maximum number of cached values; the oldest read is evicted first.
    pub capacity: usize,
    /// Concurrent reads, of cached keys and of other keys each.
    pub reads: usize,
    /// Errors after which a cached value is still used. Other errors evict it.
    pub keep_on_error: fn(&StoreError) -> bool,
}

/// Values by their keys. Look up only keys that exist in the store, because each lookup is a read.
pub struct Cache<K, V> {
    settings: CacheSettings,
    entries: Mutex<HashMap<K, Entry<V>>>,
    /// Permits for reads, of cached keys and of other keys.
    refreshes: Semaphore,
    first_reads: Semaphore,
}

struct Entry<V> {
    /// With the time when the read started.
    value: Option<(Arc<V>, Moment)>,
    reading: Option<Reading<V>>,
    failed: Option<Moment>,
}

/// The result of a read.
pub type ReadResult<V> = Result<Arc<V>, Arc<StoreError>>;

/// What a caller gets.
enum Found<V> {
    Done(ReadResult<V>),
    /// The read that the caller waits for, and the value that it would replace.
    Reading(Option<Arc<V>>, Reading<V>),
}

/// A read in progress, shared by all callers that wait for it.
struct Reading<V> {
    since: Moment,
    result: watch::Receiver<Option<ReadResult<V>>>,
}

// A derived implementation would require `V: Clone`.
impl<V> Clone for Reading<V> {
    fn clone(&self) -> Self {
        Self { since: self.since, result: self.result.clone() }
    }
}

impl<V> Reading<V> {
    fn is_under_way(&self) -> bool {
        self.result.has_changed().is_ok()
    }

    async fn wait(mut self, read_timeout: Duration) -> ReadResult<V> {
        let timed_out = || Err(Arc::new(StoreError::Timeout));
        let remaining = read_timeout.saturating_sub(self.since.elapsed());
        match timeout(remaining, self.result.wait_for(Option::is_some)).await {
            Ok(Ok(result)) => result.clone().unwrap_or_else(timed_out),
            Ok(Err(_)) | Err(_) => timed_out(),
        }
    }
}

impl<K, V> Cache<K, V>
where
    K: Copy + Debug + Eq + Hash + Send + 'static,
    V: Send + Sync + 'static,
{
    pub fn new(settings: CacheSettings) -> Arc<Self> {
        let [refreshes, first_reads] = [(); 2].map(|()| Semaphore::new(settings.reads));
        Arc::new(Self { settings, entries: Mutex::default(), refreshes, first_reads })
    }

    /// Evicts a value: the next call reads it again.
    pub fn evict(&self, key: &K) {
        self.entries.lock().remove(key);
    }

    /// Whether a value, or a read of it, exists.
    pub fn knows(&self, key: &K) -> bool {
        self.entries.lock().contains_key(key)
    }

    /// The value of a key; `read` reads it from the store if it is missing or too old.
    ///
    /// Not an `async fn`, whose future would have space for `read`: tens of kilobytes in each
    /// request, although most need no read.
    pub fn get<R>(self: &Arc<Self>, key: K, read: R) -> impl Future<Output = ReadResult<V>>
    where
        R: Future<Output = Result<V, StoreError>> + Send + 'static,
    {
        let found = self.find(key, read);
        async move {
            let (value, reading) = match found {
                Found::Done(result) => return result,
                Found::Reading(value, reading) => (value, reading),
            };
            let settings = &self.settings;
            let read_timeout =
                if value.is_some() { settings.read_timeout } else { settings.give_up };
            match (reading.wait(read_timeout).await, value) {
                (Err(error), Some(value)) if (settings.keep_on_error)(&error) => Ok(value),
                (result, _) => result,
            }
        }
    }

    /// Starts a read if the value is missing or too old.
    fn find(
        self: &Arc<Self>,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
    ) -> Found<V> {
        let settings = &self.settings;
        let mut entries = self.entries.lock();
        let empty = || Entry { value: None, reading: None, failed: None };
        let entry = entries.entry(key).or_insert_with(empty);
        let age = entry.value.as_ref().map_or(Duration::MAX, |(_, began)| began.elapsed());
        let value = entry.value.as_ref().map(|(value, _)| value.clone());
        let value = value.filter(|_| age < settings.max_age);
        let is_paused = entry.failed.is_some_and(|at| at.elapsed() < PAUSE);
        if age >= settings.refresh_after && !is_paused {
            let under_way = entry.reading.take().filter(Reading::is_under_way);
            let begin = || self.begin(key, read, entry.value.is_some());
            entry.reading = Some(under_way.unwrap_or_else(begin));
        }
        match (value, &entry.reading) {
            // After a failed read, callers do not wait for the next.
            (Some(value), _) if age < settings.wait_after || entry.failed.is_some() => {
                Found::Done(Ok(value))
            }
            (value, Some(reading)) => Found::Reading(value, reading.clone()),
            (value, None) => Found::Done(value.ok_or_else(|| Arc::new(StoreError::Timeout))),
        }
    }

    /// Starts a read in its own task.
    fn begin(
        self: &Arc<Self>,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
        is_known: bool,
    ) -> Reading<V> {
        let (sender, result) = watch::channel(None);
        let cache = self.clone();
        tokio::spawn(async move {
            let reads = if is_known { &cache.refreshes } else { &cache.first_reads };
            let _permit = reads.acquire().await;
            let began = Moment::now();
            let read = within_timeout(read, sleep(cache.settings.give_up)).await;
            let result = read.map(Arc::new).map_err(Arc::new);
            cache.store_result(key, began, &result);
            sender.send_replace(Some(result));
        });
        Reading { since: Moment::now(), result }
    }

    fn store_result(&self, key: K, began: Moment, result: &ReadResult<V>) {
        let mut entries = self.entries.lock();
        match (result, entries.get_mut(&key)) {
            (Ok(value), _) => {
                let value = Some((value.clone(), began));
                entries.insert(key, Entry { value, reading: None, failed: None });
                if entries.len() > self.settings.capacity {
                    let read = entries.iter().filter_map(|(key, entry)| {
                        entry.value.as_ref().map(|(_, began)| (*began, *key))
                    });
                    let oldest = read.min_by_key(|(began, _)| *began);
                    oldest.and_then(|(_, key)| entries.remove(&key));
                }
            }
            (Err(error), Some(entry))
                if entry.value.is_some() && (self.settings.keep_on_error)(error) =>
            {
                let name = self.settings.name;
                tracing::warn!(%error, "cannot refresh the cached {name}; still using it");
                (entry.reading, entry.failed) = (None, Some(Moment::now()));
            }
            (Err(_), _) => {
                entries.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const RULES: CacheSettings = CacheSettings {
        name: "number",
        refresh_after: Duration::ZERO,
        wait_after: Duration::ZERO,
        read_timeout: Duration::MAX,
        max_age: Duration::MAX,
        give_up: Duration::from_secs(60),
        capacity: 10,
        reads: 2,
        keep_on_error: |error| matches!(error, StoreError::Timeout),
    };

    fn silent() -> impl Future<Output = Result<i32, StoreError>> {
        ready(Err(StoreError::Timeout))
    }

    #[tokio::test]
    async fn fresh_values_are_not_read() {
        let cache = Cache::new(CacheSettings { refresh_after: Duration::MAX, ..RULES });
        assert_eq!(*cache.get(1, ready(Ok(1))).await.unwrap(), 1);
        assert_eq!(*cache.get(1, pending()).await.unwrap(), 1);
        assert!(cache.knows(&1) && !cache.knows(&2));
    }

    #[tokio::test]
    async fn a_lookup_has_no_space_for_the_read() {
        const LARGE: usize = 12 << 10;
        let cache = Cache::new(RULES);
        let read = async {
            let large = [1_u8; LARGE];
            tokio::task::yield_now().await;
            Ok(large.len())
        };
        assert!(size_of_val(&read) >= LARGE);
        let lookup = cache.get(1, read);
        assert!(size_of_val(&lookup) < 1 << 10, "{} bytes", size_of_val(&lookup));
        assert_eq!(*lookup.await.unwrap(), LARGE);
    }

    #[tokio::test]
    async fn values_are_refreshed_in_the_background() {
        let cache = Cache::new(CacheSettings { wait_after: Duration::MAX, ..RULES });
        cache.get(1, ready(Ok(1))).await.unwrap();
        assert_eq!(*cache.get(1, ready(Ok(2))).await.unwrap(), 1);
        while *cache.get(1, ready(Ok(2))).await.unwrap() != 2 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn old_values_are_waited_for_and_survive_a_silent_store() {
        let cache = Cache::new(RULES);
        assert!(cache.get(1, silent()).await.is_err());
        assert!(!cache.knows(&1), "keys without a value are evicted");
        cache.get(1, ready(Ok(1))).await.unwrap();
        assert_eq!(*cache.get(1, ready(Ok(2))).await.unwrap(), 2);
        assert_eq!(*cache.get(1, silent()).await.unwrap(), 2);
        // Callers no longer wait after that.
        assert_eq!(*cache.get(1, pending()).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn other_errors_are_reported_at_once() {
        let cache = Cache::new(RULES);
        cache.get(1, ready(Ok(1))).await.unwrap();
        let newer = || ready(Err(StoreError::Newer("a number".into())));
        assert!(cache.get(1, newer()).await.is_err() && !cache.knows(&1));
    }

    #[tokio::test]
    async fn values_that_cannot_be_read_again_are_used_for_a_while() {
        let cache = Cache::new(CacheSettings { max_age: Duration::ZERO, ..RULES });
        cache.get(1, ready(Ok(1))).await.unwrap();
        assert!(cache.get(1, silent()).await.is_err());
    }

    #[tokio::test]
    async fn calls_share_a_read() {
        let (cache, reads) = (
            Cache::new(CacheSettings { refresh_after: Duration::MAX, ..RULES }),
            AtomicUsize::new(0),
        );
        let reads = Arc::new(reads);
        let ask = |_| {
            let (cache, reads) = (cache.clone(), reads.clone());
            let read = async move {
                tokio::task::yield_now().await;
                Ok(reads.fetch_add(1, Ordering::SeqCst))
            };
            tokio::spawn(async move { cache.get(1, read).await.unwrap() })
        };
        for call in (0..100).map(ask).collect::<Vec<_>>() {
            assert_eq!(*call.await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn the_oldest_value_is_evicted_first() {
        let cache =
            Cache::new(CacheSettings { refresh_after: Duration::MAX, capacity: 2, ..RULES });
        for key in 1..=3 {
            cache.get(key, ready(Ok(key))).await.unwrap();
        }
        assert!(!cache.knows(&1) && cache.knows(&2) && cache.knows(&3));
    }
}
