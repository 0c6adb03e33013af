//! A process's cache of external data. Concurrent requests for a value share one read. Not
//! `store::Cache`: the limit here is in bytes, each value has its own maximum age, and none is used
//! beyond that.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Approximate maximum size of all cached values, in bytes.
const MAX_BYTES: usize = 32 << 20;
const MAX_ENTRIES: usize = 10_000;

pub struct Cache<K, V>(Mutex<Entries<K, V>>);

struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    bytes: usize,
}

struct Entry<V> {
    value: Arc<OnceCell<V>>,
    until: Instant,
    bytes: usize,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { by_key: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// Returns the cached value of a key, or reads it with `read`, which also returns the value's
    /// size in bytes. Without a size it is not cached: only callers that already wait get it.
    pub async fn get(&self, key: K, age: Duration, read: BoxFuture<'_, (V, Option<usize>)>) -> V {
        let (value, now) = (self.value(&key, age), Instant::now());
        let mut came = None;
        let read = async {
            let (value, bytes) = read.await;
            came = Some(bytes);
            value
        };
        let got = value.get_or_init(|| read).await.clone();
        if let Some(bytes) = came {
            let mut entries = self.0.lock();
            match bytes {
                Some(bytes) => entries.keep(&key, bytes, now),
                None => entries.remove_same(&key, &value),
            }
        }
        got
    }

    fn value(&self, key: &K, age: Duration) -> Arc<OnceCell<V>> {
        let (mut entries, now) = (self.0.lock(), Instant::now());
        if let Some(entry) = entries.by_key.get(key).filter(|entry| entry.until > now) {
            return entry.value.clone();
        }
        entries.remove(key);
        let value = Arc::new(OnceCell::new());
        let entry = Entry { value: value.clone(), until: now + age, bytes: 0 };
        entries.by_key.insert(key.clone(), entry);
        value
    }
}

impl<K: Clone + Eq + Hash, V> Entries<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= entry.bytes;
        }
    }

    fn remove_same(&mut self, key: &K, value: &Arc<OnceCell<V>>) {
        if self.by_key.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.value, value)) {
            self.remove(key);
        }
    }

    /// Counts a value's bytes, and evicts the entries that expire first if the cache is full.
    fn keep(&mut self, key: &K, bytes: usize, now: Instant) {
        let Some(entry) = self.by_key.get_mut(key) else { return };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        if self.bytes <= MAX_BYTES && self.by_key.len() <= MAX_ENTRIES {
            return;
        }
        let mut ends: Vec<(Instant, K)> =
            self.by_key.iter().map(|(key, entry)| (entry.until, key.clone())).collect();
        ends.sort_by_key(|(until, _)| *until);
        for (until, key) in ends {
            let has_room =
                self.bytes <= MAX_BYTES / 4 * 3 && self.by_key.len() <= MAX_ENTRIES / 4 * 3;
            if has_room && until > now {
                break;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn a_value_is_read_once_and_one_that_is_not_kept_again() {
        let (cache, reads) = (Cache::<u8, usize>::default(), AtomicUsize::new(0));
        let read = |bytes| {
            let reads = &reads;
            async move { (reads.fetch_add(1, Ordering::SeqCst), bytes) }.boxed()
        };
        assert_eq!(cache.get(1, LONG, read(Some(1))).await, 0);
        assert_eq!(cache.get(1, LONG, read(Some(1))).await, 0);
        assert_eq!(cache.get(2, LONG, read(None)).await, 1);
        assert_eq!(cache.get(2, LONG, read(None)).await, 2);
        assert_eq!(cache.get(3, Duration::ZERO, read(Some(1))).await, 3);
        assert_eq!(cache.get(3, LONG, read(Some(1))).await, 4);
    }

    #[tokio::test]
    async fn concurrent_requests_share_one_read() {
        let (cache, reads) = (Cache::<u8, usize>::default(), AtomicUsize::new(0));
        let ask = |_| {
            let reads = &reads;
            let read = async move {
                tokio::task::yield_now().await;
                (reads.fetch_add(1, Ordering::SeqCst), None)
            };
            cache.get(1, LONG, read.boxed())
        };
        let got = futures::future::join_all((0..50).map(ask)).await;
        assert!(got.iter().all(|read| *read == 0), "{got:?}");
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let cache = Cache::<usize, ()>::default();
        for key in 0..100 {
            cache.get(key, LONG, async { ((), Some(1 << 20)) }.boxed()).await;
        }
        assert!(cache.0.lock().bytes <= MAX_BYTES);
        for key in 0..2 * MAX_ENTRIES {
            cache.get(1_000 + key, LONG, async { ((), Some(1)) }.boxed()).await;
        }
        assert!(cache.0.lock().by_key.len() <= MAX_ENTRIES + 1);
    }
}
