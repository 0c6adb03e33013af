//! The processors of a process, which all its work shares.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long work on many items keeps a processor. Then the threads that wait compute first.
const SLICE: Duration = Duration::from_millis(10);

/// Works on the next items for about 10 ms, so that slow audiences and templates do not keep a
/// processor from other threads. Ends earlier if the work breaks, and returns its value.
pub fn work_slice<T, B>(
    items: &mut impl Iterator<Item = T>,
    mut work: impl FnMut(T) -> ControlFlow<B>,
) -> Option<B> {
    let began = Instant::now();
    while began.elapsed() < SLICE
        && let Some(item) = items.next()
    {
        if let ControlFlow::Break(value) = work(item) {
            return Some(value);
        }
    }
    None
}

/// The processors, for work that would block an async thread. Cheap to clone.
///
/// The work runs on threads that may block. A thread enters before it computes, and waits while as
/// many threads as there are processors compute. Threads enter in the order of their arrival. Slices
/// of long work, such as an export, and short work do not wait for each other: the system shares
/// the processors between them, so a request takes at most twice as long.
#[derive(Clone, Debug)]
pub struct Cores {
    count: usize,
    short: Arc<Entrance>,
    long: Arc<Entrance>,
}

/// Where threads wait to compute.
#[derive(Debug)]
struct Entrance {
    threads: Mutex<Threads>,
    /// Notified when a thread leaves its processor to the one that has waited longest.
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
        let entrance = || {
            let threads = Mutex::new(Threads { free: count, waiting: 0 });
            Arc::new(Entrance { threads, left: Condvar::new() })
        };
        Self { count, short: entrance(), long: entrance() }
    }

    /// How many threads may compute short work at the same time, and how many long work.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many tasks run, and how many wait.
    pub fn running_and_waiting(&self) -> (usize, usize) {
        let entrances = [&self.short, &self.long];
        let threads = entrances.map(|entrance| *entrance.threads.lock());
        threads.iter().fold((0, 0), |(running, waiting), threads| {
            (running + self.count - threads.free, waiting + threads.waiting)
        })
    }

    /// Runs `work` as soon as a processor is free. Blocks this thread, so never call it on an async
    /// one.
    pub fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        self.short.enter(work)
    }

    /// [`compute`](Self::compute) for a slice of long work.
    pub fn compute_slice<T>(&self, work: impl FnOnce() -> T) -> T {
        self.long.enter(work)
    }

    /// Computes for each item until the first error, in slices ([`work_slice`]).
    pub fn compute_each<T, E>(
        &self,
        items: impl Iterator<Item = T>,
        mut work: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let work = |item| work(item).map_or_else(ControlFlow::Break, ControlFlow::Continue);
            if let Some(error) = self.compute_slice(|| work_slice(&mut items, work)) {
                return Err(error);
            }
        }
        Ok(())
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

impl Entrance {
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut threads = self.threads.lock();
        if threads.free > 0 {
            threads.free -= 1;
        } else {
            threads.waiting += 1;
            // Once, because a `Condvar` of parking_lot wakes no thread without a reason.
            self.left.wait(&mut threads);
        }
        drop(threads);
        let _entered = Entered(self);
        work()
    }
}

/// Leaves when dropped, even if the work panics.
struct Entered<'a>(&'a Entrance);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut threads = self.0.threads.lock();
        if threads.waiting == 0 {
            threads.free += 1;
        } else {
            // The processor is never free in between, so that no other thread can take it.
            threads.waiting -= 1;
            self.0.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    #[test]
    fn a_thread_that_waits_enters_before_later_ones() {
        let (cores, order) = (Cores::new(1), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            cores.compute(|| {
                scope.spawn(|| cores.compute(|| order.lock().push("waiting")));
                while cores.running_and_waiting().1 == 0 {
                    std::thread::yield_now();
                }
            });
            cores.compute(|| order.lock().push("later"));
        });
        assert_eq!(order.into_inner(), ["waiting", "later"]);
    }

    #[test]
    fn short_work_does_not_wait_for_long_work() {
        let cores = Cores::new(1);
        let inside = cores.compute_slice(|| {
            std::thread::scope(|scope| scope.spawn(|| cores.compute(|| 7)).join())
        });
        assert_eq!(inside.unwrap(), 7);
        assert_eq!(cores.running_and_waiting(), (0, 0));
    }

    #[test]
    fn work_on_many_items_lets_waiting_threads_compute() {
        let (cores, order) = (Cores::new(1), Mutex::new(Vec::new()));
        let items = ["first", "last"].into_iter();
        std::thread::scope(|scope| {
            let worked = cores.compute_each(items, |item| {
                order.lock().push(item);
                if item == "first" {
                    scope.spawn(|| cores.compute_slice(|| order.lock().push("waiting")));
                    while cores.running_and_waiting().1 == 0 {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(SLICE);
                }
                Ok::<_, ()>(())
            });
            assert_eq!(worked, Ok(()));
        });
        assert_eq!(order.into_inner(), ["first", "waiting", "last"]);
        let worked = cores.compute_each([1, 2, 3].into_iter(), |item| match item {
            2 => Err(item),
            _ => Ok(()),
        });
        assert_eq!(worked, Err(2));
    }
}
