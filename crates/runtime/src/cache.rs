//! A process's cache of data that messages read. Concurrent requests for a value share one read.
//! Not `store::Cache`: the limit here is in bytes, each value has its own maximum age, and none is
//! used beyond that. A full cache evicts from the workspace that uses most of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use kit::moment::Moment;

/// Approximate maximum size of all cached values, in bytes.
const MAX_BYTES: usize = 32 << 20;
const MAX_ENTRIES: usize = 10_000;

/// Values by their keys.
pub struct Cache<K, V>(Mutex<Entries<K, V>>);

/// The key of a workspace's value.
pub trait Key: Clone + Eq + Hash {
    fn workspace(&self) -> i32;
}

struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    /// Bytes of all values.
    bytes: usize,
}

struct Entry<V> {
    value: Arc<OnceCell<V>>,
    expires_at: Moment,
    bytes: usize,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { by_key: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Key, V: Clone> Cache<K, V> {
    /// Returns the cached value of a key, or reads it with `read`, which also returns the value's
    /// size in bytes. Without a size it is not cached: only callers that already wait get it.
    pub async fn get(&self, key: K, age: Duration, read: BoxFuture<'_, (V, Option<usize>)>) -> V {
        let (value, now) = (self.value(&key, age), Moment::now());
        let mut read_bytes = None;
        let read = async {
            let (value, bytes) = read.await;
            read_bytes = Some(bytes);
            value
        };
        let result = value.get_or_init(|| read).await.clone();
        // This caller has read it.
        if let Some(bytes) = read_bytes {
            let mut entries = self.0.lock();
            match bytes {
                Some(bytes) => entries.set_size(&key, bytes, now),
                None => entries.remove_same(&key, &value),
            }
        }
        result
    }

    fn value(&self, key: &K, age: Duration) -> Arc<OnceCell<V>> {
        let (mut entries, now) = (self.0.lock(), Moment::now());
        if let Some(entry) = entries.by_key.get(key).filter(|entry| entry.expires_at > now) {
            return entry.value.clone();
        }
        entries.remove(key);
        let value = Arc::new(OnceCell::new());
        let entry = Entry { value: value.clone(), expires_at: now + age, bytes: 0 };
        entries.by_key.insert(key.clone(), entry);
        value
    }
}

impl<K: Key, V> Entries<K, V> {
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

    /// Counts a value's bytes, and evicts others if the cache is full.
    fn set_size(&mut self, key: &K, bytes: usize, now: Moment) {
        let Some(entry) = self.by_key.get_mut(key) else { return };
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        if self.used().is_full(1.0) {
            self.evict(now);
        }
    }

    fn used(&self) -> Usage {
        Usage { bytes: self.bytes, entries: self.by_key.len() }
    }

    /// Evicts expired values, and then, until a quarter is free, the value that expires first of
    /// the workspace that uses most: so that no workspace evicts the few values of another.
    fn evict(&mut self, now: Moment) {
        let mut by_workspace: HashMap<i32, (Usage, Vec<(Moment, K)>)> = HashMap::new();
        let mut expired = Vec::new();
        for (key, entry) in &self.by_key {
            if entry.expires_at <= now {
                expired.push(key.clone());
                continue;
            }
            let (used, values) = by_workspace.entry(key.workspace()).or_default();
            used.bytes += entry.bytes;
            used.entries += 1;
            values.push((entry.expires_at, key.clone()));
        }
        expired.iter().for_each(|key| self.remove(key));
        // The end of each list expires first.
        for (_, values) in by_workspace.values_mut() {
            values.sort_by_key(|(expires_at, _)| std::cmp::Reverse(*expires_at));
        }
        while self.used().is_full(0.75) {
            let largest =
                by_workspace.values_mut().max_by(|(a, _), (b, _)| a.share().total_cmp(&b.share()));
            let Some((used, values)) = largest else { return };
            let Some((_, key)) = values.pop() else { return };
            used.bytes -= self.by_key.get(&key).map_or(0, |entry| entry.bytes);
            used.entries -= 1;
            self.remove(&key);
        }
    }
}

/// What values use of the cache.
#[derive(Clone, Copy, Default)]
struct Usage {
    bytes: usize,
    entries: usize,
}

impl Usage {
    /// The part of the limits, from 0 to 1.
    fn share(self) -> f64 {
        let ratio = |used: usize, limit: usize| used as f64 / limit as f64;
        ratio(self.bytes, MAX_BYTES).max(ratio(self.entries, MAX_ENTRIES))
    }

    fn is_full(self, limit: f64) -> bool {
        self.share() > limit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(24 * 3_600);

    impl Key for u8 {
        fn workspace(&self) -> i32 {
            1
        }
    }

    impl Key for (i32, usize) {
        fn workspace(&self) -> i32 {
            self.0
        }
    }

    impl<K: Key, V: Clone> Cache<K, V> {
        fn holds(&self, key: &K) -> bool {
            self.0.lock().by_key.contains_key(key)
        }
    }

    #[tokio::test]
    async fn only_values_with_a_size_are_cached() {
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
        let values = futures::future::join_all((0..50).map(ask)).await;
        assert!(values.iter().all(|value| *value == 0), "{values:?}");
    }

    #[tokio::test]
    async fn the_cache_is_bounded() {
        let cache = Cache::<(i32, usize), ()>::default();
        for key in 0..100 {
            cache.get((1, key), LONG, async { ((), Some(1 << 20)) }.boxed()).await;
        }
        assert!(cache.0.lock().bytes <= MAX_BYTES);
        for key in 0..2 * MAX_ENTRIES {
            cache.get((1, 1_000 + key), LONG, async { ((), Some(1)) }.boxed()).await;
        }
        assert!(cache.0.lock().by_key.len() <= MAX_ENTRIES + 1);
        let bytes: usize = cache.0.lock().by_key.values().map(|entry| entry.bytes).sum();
        assert_eq!(bytes, cache.0.lock().bytes);
    }

    #[tokio::test]
    async fn a_workspace_does_not_evict_the_values_of_another() {
        for bytes in [1 << 20, 1] {
            let cache = Cache::<(i32, usize), ()>::default();
            let fill = async |workspace, key, age| {
                cache.get((workspace, key), age, async { ((), Some(bytes)) }.boxed()).await;
            };
            let count = MAX_ENTRIES.min(MAX_BYTES / bytes) * 2;
            for key in 0..count {
                fill(1, key, DAY).await;
            }
            // Values that expire before all those of the other workspace.
            for key in 0..5 {
                fill(2, key, LONG).await;
            }
            for key in count..2 * count {
                fill(1, key, DAY).await;
            }
            assert!((0..5).all(|key| cache.holds(&(2, key))), "{bytes} bytes each");
            // A workspace alone may use all.
            let cached = cache.0.lock().by_key.len();
            assert!(cached * 2 > MAX_ENTRIES.min(MAX_BYTES / bytes), "{cached}");
        }
    }
}
