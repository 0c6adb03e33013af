//! Limits on what a process shares among all its work: processors and memory.

use std::num::NonZero;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The processors, for work that would block an async thread. Cheap to clone.
///
/// The work runs on threads that may block. A thread enters before it computes, and waits while as
/// many threads as there are processors compute.
#[derive(Clone, Debug)]
pub struct Cores {
    count: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    threads: Mutex<Threads>,
    /// Notified when a thread leaves.
    left: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Threads {
    /// How many more may compute now.
    free: usize,
    /// Number of threads that wait to enter.
    waiting: usize,
}

impl Cores {
    /// Allows `cores` threads; 0 means all processors that this process may use.
    pub fn new(cores: usize) -> Self {
        let count = match cores {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            set => set,
        };
        let threads = Mutex::new(Threads { free: count, waiting: 0 });
        Self { count, shared: Arc::new(Shared { threads, left: Condvar::new() }) }
    }

    /// How many threads may compute at the same time.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many tasks run, and how many wait.
    pub fn running_and_waiting(&self) -> (usize, usize) {
        let threads = self.shared.threads.lock();
        (self.count - threads.free, threads.waiting)
    }

    /// Runs `work` as soon as a processor is free. Blocks this thread, so never call it on an async
    /// one.
    pub fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut threads = self.shared.threads.lock();
        threads.waiting += 1;
        self.shared.left.wait_while(&mut threads, |threads| threads.free == 0);
        threads.waiting -= 1;
        threads.free -= 1;
        drop(threads);
        let _entered = Entered(self);
        work()
    }

    /// [`compute`](Self::compute) on an async thread, for work that borrows. Other tasks of the
    /// thread move to another one; on a runtime of one thread they wait.
    pub fn compute_here<T>(&self, work: impl FnOnce() -> T) -> T {
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| self.compute(work)),
            _ => work(),
        }
    }
}

/// Leaves when dropped, even if the work panics.
struct Entered<'a>(&'a Cores);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.shared.threads.lock().free += 1;
        self.0.shared.left.notify_one();
    }
}

/// Bytes are counted in units of this many.
const UNIT: usize = 1 << 10;

/// A limit on the bytes held in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory {
    free: Arc<Semaphore>,
    units: u32,
}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self { free: Arc::new(Semaphore::new(units as usize)), units }
    }

    /// How many bytes are held, and the limit.
    pub fn used_and_limit(&self) -> (usize, usize) {
        let limit = self.units as usize;
        (limit.saturating_sub(self.free.available_permits()) * UNIT, limit * UNIT)
    }

    /// Waits until `bytes` can be held; more than the limit counts as the limit. First come, first
    /// served, so that large requests are not starved.
    pub async fn reserve(&self, bytes: usize) -> MemoryReservation {
        let units = units(bytes).min(self.units);
        let permit = Arc::clone(&self.free)
            .acquire_many_owned(units)
            .await
            .expect("the semaphore is never closed");
        MemoryReservation { memory: self.clone(), permit }
    }
}

/// A reservation of memory, released when dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    memory: Memory,
    permit: OwnedSemaphorePermit,
}

impl MemoryReservation {
    pub fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT
    }

    /// Whether this reserves the whole limit.
    pub fn is_all(&self) -> bool {
        self.permit.num_permits() == self.memory.units as usize
    }

    /// Grows to at least `bytes` if that much is free now. Nothing waits while it holds memory, so
    /// that deadlocks cannot occur.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let missing = units(bytes).saturating_sub(units(self.bytes()));
        match Arc::clone(&self.memory.free).try_acquire_many_owned(missing) {
            Ok(more) => self.permit.merge(more),
            Err(_) => return false,
        }
        true
    }

    /// Releases everything above `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.permit.num_permits().saturating_sub(units(bytes) as usize);
        drop(self.permit.split(beyond));
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn concurrent_compute_is_limited_to_the_cores() {
        let cores = Cores::new(2);
        let (running, max_running, done) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        cores.compute(|| {
                            max_running.fetch_max(
                                running.fetch_add(1, Ordering::SeqCst) + 1,
                                Ordering::SeqCst,
                            );
                            std::thread::sleep(Duration::from_millis(1));
                            running.fetch_sub(1, Ordering::SeqCst);
                            done.fetch_add(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!((max_running.into_inner(), done.into_inner()), (2, 40));
    }

    #[test]
    fn work_that_panics_leaves_its_core() {
        let cores = Cores::new(1);
        assert_eq!(cores.compute(|| cores.running_and_waiting()), (1, 0));
        let panics = std::panic::AssertUnwindSafe(|| cores.compute(|| panic!("as planned")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(cores.compute(|| 7), 7);
        assert_eq!(cores.running_and_waiting(), (0, 0));
    }

    #[tokio::test]
    async fn memory_is_reserved_grown_and_released() {
        let memory = Memory::new(10 * UNIT);
        let mut first = memory.reserve(4 * UNIT - 1).await;
        let second = memory.reserve(4 * UNIT).await;
        assert_eq!((first.bytes(), second.bytes()), (4 * UNIT, 4 * UNIT));
        assert_eq!(memory.used_and_limit(), (8 * UNIT, 10 * UNIT));
        assert!(first.try_grow(6 * UNIT) && first.bytes() == 6 * UNIT);
        assert!(!first.try_grow(6 * UNIT + 1) && first.bytes() == 6 * UNIT);
        assert!(first.try_grow(UNIT) && first.bytes() == 6 * UNIT);
        drop(second);
        first.shrink(UNIT);
        let third = memory.reserve(9 * UNIT).await;
        assert!(!third.is_all());
        drop((first, third));
        assert!(memory.reserve(usize::MAX).await.is_all());
    }

    #[tokio::test]
    async fn reserving_all_memory_waits_for_the_rest() {
        let memory = Memory::new(4 * UNIT);
        let part = memory.reserve(UNIT).await;
        let all = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(4 * UNIT).await.bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!all.is_finished());
        drop(part);
        assert_eq!(all.await.unwrap(), 4 * UNIT);
    }
}
