//! What a process keeps of the store, read again beside the calls that use it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::{StoreError, answered};

/// The pause after a read that failed, where a value is known.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long a cache goes on with what it read.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What the log calls a value.
    pub name: &'static str,
    /// From this age on a value is read again beside the calls.
    pub fresh: Duration,
    /// From this age on calls wait for that, unless the read before failed.
    pub confirmed: Duration,
    /// How long a call waits where a value is known.
    pub patience: Duration,
    /// How long a value is used that cannot be read again.
    pub kept: Duration,
    /// When a read is given up; calls wait for that long where no value is known.
    pub give_up: Duration,
    /// Values that are known at most: the one read longest ago goes first.
    pub most: usize,
    /// Reads at once, of known values and of others each.
    pub reads: usize,
    /// Errors after which a known value is used. After others it is forgotten.
    pub survives: fn(&StoreError) -> bool,
}

/// Values by their keys. Only keys that have a value in the store are to be asked for: whatever
/// is asked for is read.
pub struct Cache<K, V> {
    rules: Rules,
    entries: Mutex<HashMap<K, Entry<V>>>,
    /// Places for reads, of known values and of others.
    known: Semaphore,
    first: Semaphore,
}

struct Entry<V> {
    /// With the time when the store was asked for it.
    value: Option<(Arc<V>, Instant)>,
    reading: Option<Reading<V>>,
    failed: Option<Instant>,
}

type Found<V> = Result<Arc<V>, Arc<StoreError>>;

/// A read that is under way, for all calls that wait for it.
struct Reading<V> {
    since: Instant,
    found: watch::Receiver<Option<Found<V>>>,
}

// Derived, it would require values that can be cloned.
impl<V> Clone for Reading<V> {
    fn clone(&self) -> Self {
        Self { since: self.since, found: self.found.clone() }
    }
}

impl<V> Reading<V> {
    fn is_under_way(&self) -> bool {
        self.found.has_changed().is_ok()
    }

    async fn found(mut self, patience: Duration) -> Found<V> {
        let silent = || Err(Arc::new(StoreError::Silent));
        let rest = patience.saturating_sub(self.since.elapsed());
        match timeout(rest, self.found.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().unwrap_or_else(silent),
            Ok(Err(_)) | Err(_) => silent(),
        }
    }
}

impl<K, V> Cache<K, V>
where
    K: Copy + Debug + Eq + Hash + Send + 'static,
    V: Send + Sync + 'static,
{
    pub fn new(rules: Rules) -> Arc<Self> {
        let [known, first] = [(); 2].map(|()| Semaphore::new(rules.reads));
        Arc::new(Self { rules, entries: Mutex::default(), known, first })
    }

    /// Forgets a value: the next call reads it.
    pub fn forget(&self, key: &K) {
        self.entries.lock().remove(key);
    }

    /// Whether a value, or a read of it, is there.
    pub fn knows(&self, key: &K) -> bool {
        self.entries.lock().contains_key(key)
    }

    /// The value of a key, which `read` reads from the store where that is due.
    pub async fn get(
        self: &Arc<Self>,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
    ) -> Result<Arc<V>, Arc<StoreError>> {
        let rules = &self.rules;
        let (value, reading) = {
            let mut entries = self.entries.lock();
            let empty = || Entry { value: None, reading: None, failed: None };
            let entry = entries.entry(key).or_insert_with(empty);
            let age = entry.value.as_ref().map_or(Duration::MAX, |(_, asked)| asked.elapsed());
            let value = entry.value.as_ref().map(|(value, _)| value.clone());
            let value = value.filter(|_| age < rules.kept);
            let is_paused = entry.failed.is_some_and(|at| at.elapsed() < PAUSE);
            if age >= rules.fresh && !is_paused {
                let under_way = entry.reading.take().filter(Reading::is_under_way);
                let begin = || self.begin(key, read, entry.value.is_some());
                entry.reading = Some(under_way.unwrap_or_else(begin));
            }
            match (value, &entry.reading) {
                // Where the last read failed, no call waits for the next.
                (Some(value), _) if age < rules.confirmed || entry.failed.is_some() => {
                    return Ok(value);
                }
                (value, Some(reading)) => (value, reading.clone()),
                (value, None) => return value.ok_or_else(|| Arc::new(StoreError::Silent)),
            }
        };
        let patience = if value.is_some() { rules.patience } else { rules.give_up };
        match (reading.found(patience).await, value) {
            (Err(error), Some(value)) if (rules.survives)(&error) => Ok(value),
            (found, _) => found,
        }
    }

    /// Begins to read, in a task of its own.
    fn begin(
        self: &Arc<Self>,
        key: K,
        read: impl Future<Output = Result<V, StoreError>> + Send + 'static,
        is_known: bool,
    ) -> Reading<V> {
        let (done, found) = watch::channel(None);
        let cache = self.clone();
        tokio::spawn(async move {
            let _place = if is_known { &cache.known } else { &cache.first }.acquire().await;
            let asked = Instant::now();
            let read = answered(read, sleep(cache.rules.give_up)).await;
            let found = read.map(Arc::new).map_err(Arc::new);
            cache.learn(key, asked, &found);
            done.send_replace(Some(found));
        });
        Reading { since: Instant::now(), found }
    }

    fn learn(&self, key: K, asked: Instant, found: &Found<V>) {
        let mut entries = self.entries.lock();
        match (found, entries.get_mut(&key)) {
            (Ok(value), _) => {
                let value = Some((value.clone(), asked));
                entries.insert(key, Entry { value, reading: None, failed: None });
                if entries.len() > self.rules.most {
                    let read = entries.iter().filter_map(|(key, entry)| {
                        entry.value.as_ref().map(|(_, asked)| (*asked, *key))
                    });
                    let oldest = read.min_by_key(|(asked, _)| *asked);
                    oldest.and_then(|(_, key)| entries.remove(&key));
                }
            }
            (Err(error), Some(entry)) if entry.value.is_some() && (self.rules.survives)(error) => {
                let name = self.rules.name;
                tracing::warn!(%error, ?key, "a known {name} cannot be read again; it is still used");
                (entry.reading, entry.failed) = (None, Some(Instant::now()));
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

    const RULES: Rules = Rules {
        name: "number",
        fresh: Duration::ZERO,
        confirmed: Duration::ZERO,
        patience: Duration::MAX,
        kept: Duration::MAX,
        give_up: Duration::from_secs(60),
        most: 10,
        reads: 2,
        survives: |error| matches!(error, StoreError::Silent),
    };

    fn silent() -> impl Future<Output = Result<i32, StoreError>> {
        ready(Err(StoreError::Silent))
    }

    #[tokio::test]
    async fn fresh_values_are_not_read() {
        let cache = Cache::new(Rules { fresh: Duration::MAX, ..RULES });
        assert_eq!(*cache.get(1, ready(Ok(1))).await.unwrap(), 1);
        assert_eq!(*cache.get(1, pending()).await.unwrap(), 1);
        assert!(cache.knows(&1) && !cache.knows(&2));
    }

    #[tokio::test]
    async fn values_are_read_again_beside_the_calls() {
        let cache = Cache::new(Rules { confirmed: Duration::MAX, ..RULES });
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
        assert!(!cache.knows(&1), "keys without a value are forgotten");
        cache.get(1, ready(Ok(1))).await.unwrap();
        assert_eq!(*cache.get(1, ready(Ok(2))).await.unwrap(), 2);
        assert_eq!(*cache.get(1, silent()).await.unwrap(), 2);
        // After that no call waits.
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
        let cache = Cache::new(Rules { kept: Duration::ZERO, ..RULES });
        cache.get(1, ready(Ok(1))).await.unwrap();
        assert!(cache.get(1, silent()).await.is_err());
    }

    #[tokio::test]
    async fn calls_share_a_read() {
        let (cache, reads) =
            (Cache::new(Rules { fresh: Duration::MAX, ..RULES }), AtomicUsize::new(0));
        let reads = Arc::new(reads);
        let ask = |_| {
            let (cache, reads) = (cache.clone(), reads.clone());
            let read = async move {
                tokio::task::yield_now().await;
                Ok(reads.fetch_add(1, Ordering::SeqCst))
            };
            tokio::spawn(async move { cache.get(1, read).await.unwrap() })
        };
        for asked in (0..100).map(ask).collect::<Vec<_>>() {
            assert_eq!(*asked.await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn the_value_read_longest_ago_goes_first() {
        let cache = Cache::new(Rules { fresh: Duration::MAX, most: 2, ..RULES });
        for key in 1..=3 {
            cache.get(key, ready(Ok(key))).await.unwrap();
        }
        assert!(!cache.knows(&1) && cache.knows(&2) && cache.knows(&3));
    }
}
