//! The processors of a process, which all its work shares fairly.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long work on many items keeps a processor. Then the threads that wait compute first.
const SLICE: Duration = Duration::from_millis(10);

/// The workspace of work that belongs to none, or to several.
pub const NO_WORKSPACE: i32 = 0;

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
/// many threads as there are processors compute. The next one is of the workspace that has computed
/// the least lately. While no thread of its workspace computes, a thread does not wait for others,
/// up to twice as many threads: the system shares the processors between them, so a workspace with
/// many threads and long renderings delays nobody (docs/explanation/threat-model.md).
///
/// Slices of long work, such as an export, and short work do not wait for each other, for the same
/// reason.
#[derive(Clone, Debug)]
pub struct Cores {
    count: usize,
    short: Arc<Entrance>,
    long: Arc<Entrance>,
}

/// Where threads wait to compute.
#[derive(Debug)]
struct Entrance(Mutex<Queue>);

/// Fair queueing by virtual time: a workspace's time is how much it has computed.
#[derive(Debug)]
struct Queue {
    /// Number of processors.
    cores: usize,
    /// Number of threads that compute, at most twice as many.
    running: usize,
    /// The time of a workspace that begins to wait, unless its own is later. As early as that of the
    /// first workspace that waits.
    time: Duration,
    /// Number of threads that have waited.
    arrivals: u64,
    /// Workspaces that compute or wait, and while any waits, those that have a later time.
    workspaces: BTreeMap<i32, Workspace>,
}

/// The workspaces of which one more thread may compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    All,
    /// Those of which none computes.
    Idle,
    None,
}

#[derive(Debug, Default)]
struct Workspace {
    time: Duration,
    /// Number of threads that compute.
    running: usize,
    waiting: VecDeque<Waiting>,
}

/// A thread that waits to enter.
#[derive(Debug)]
struct Waiting {
    arrival: u64,
    /// Notified when the thread has entered.
    entered: Arc<Condvar>,
}

impl Cores {
    /// Allows `cores` threads; 0 means all processors that this process may use.
    pub fn new(cores: usize) -> Self {
        let count = match cores {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            set => set,
        };
        let entrance = || Arc::new(Entrance(Mutex::new(Queue::new(count))));
        Self { count, short: entrance(), long: entrance() }
    }

    /// How many threads of one workspace may compute short work at the same time, and how many long
    /// work; those of all workspaces are at most twice as many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many tasks run, and how many wait.
    pub fn running_and_waiting(&self) -> (usize, usize) {
        let entrances = [&self.short, &self.long];
        let counts = entrances.map(|entrance| entrance.0.lock().running_and_waiting());
        counts.iter().fold((0, 0), |all, counts| (all.0 + counts.0, all.1 + counts.1))
    }

    /// Runs `work` of a workspace as soon as it may enter. Blocks this thread, so never call it on
    /// an async one.
    pub fn compute<T>(&self, workspace: i32, work: impl FnOnce() -> T) -> T {
        self.short.enter(workspace, work)
    }

    /// [`compute`](Self::compute) for a slice of long work.
    pub fn compute_slice<T>(&self, workspace: i32, work: impl FnOnce() -> T) -> T {
        self.long.enter(workspace, work)
    }

    /// Computes for each item until the first error, in slices ([`work_slice`]).
    pub fn compute_each<T, E>(
        &self,
        workspace: i32,
        items: impl Iterator<Item = T>,
        mut work: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let work = |item| work(item).map_or_else(ControlFlow::Break, ControlFlow::Continue);
            if let Some(error) = self.compute_slice(workspace, || work_slice(&mut items, work)) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// [`compute`](Self::compute) on an async thread, for work that borrows. Other tasks of the
    /// thread move to another one; on a runtime of one thread they wait.
    pub fn compute_here<T>(&self, workspace: i32, work: impl FnOnce() -> T) -> T {
        in_place(|work| self.compute(workspace, work), work)
    }

    /// [`compute_here`](Self::compute_here) for a slice of long work, such as a rendering.
    pub fn compute_slice_here<T>(&self, workspace: i32, work: impl FnOnce() -> T) -> T {
        in_place(|work| self.compute_slice(workspace, work), work)
    }
}

fn in_place<T, W: FnOnce() -> T>(compute: impl FnOnce(W) -> T, work: W) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| compute(work)),
        _ => work(),
    }
}

impl Entrance {
    fn enter<T>(&self, workspace: i32, work: impl FnOnce() -> T) -> T {
        let mut queue = self.0.lock();
        if let Some(entered) = queue.arrive(workspace) {
            // Once, because a `Condvar` of parking_lot wakes no thread without a reason.
            entered.wait(&mut queue);
        }
        drop(queue);
        let _running = Running { entrance: self, workspace, began: Instant::now() };
        work()
    }
}

/// Leaves when dropped, even if the work panics.
struct Running<'a> {
    entrance: &'a Entrance,
    workspace: i32,
    began: Instant,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.entrance.0.lock().leave(self.workspace, self.began.elapsed());
    }
}

impl Queue {
    fn new(cores: usize) -> Self {
        let (time, workspaces) = (Duration::ZERO, BTreeMap::new());
        Self { cores, running: 0, time, arrivals: 0, workspaces }
    }

    /// Of which workspaces one more thread may compute.
    fn allowed(&self) -> Allowed {
        if self.running < self.cores {
            Allowed::All
        } else if self.running < 2 * self.cores {
            Allowed::Idle
        } else {
            Allowed::None
        }
    }

    /// A thread enters, or gets what notifies it when it has entered.
    fn arrive(&mut self, id: i32) -> Option<Arc<Condvar>> {
        let allowed = self.allowed();
        let workspace = self.workspaces.entry(id).or_default();
        if workspace.waiting.is_empty() {
            workspace.time = workspace.time.max(self.time);
        }
        // Then no other thread of the workspace waits.
        if workspace.may_enter(allowed) {
            workspace.running += 1;
            self.running += 1;
            return None;
        }
        let entered = Arc::new(Condvar::new());
        workspace.waiting.push_back(Waiting { arrival: self.arrivals, entered: entered.clone() });
        self.arrivals += 1;
        Some(entered)
    }

    /// A thread that has computed for so long leaves, and those that may enter now do so.
    fn leave(&mut self, id: i32, computed: Duration) {
        self.running -= 1;
        if let Some(workspace) = self.workspaces.get_mut(&id) {
            workspace.running -= 1;
            workspace.time += computed;
        }
        while let Some(workspace) = self.next()
            && let Some(waiting) = workspace.waiting.pop_front()
        {
            workspace.running += 1;
            self.running += 1;
            waiting.entered.notify_one();
        }
        let waiting = self.workspaces.values().filter(|workspace| !workspace.waiting.is_empty());
        match waiting.map(|workspace| workspace.time).min() {
            Some(first) => self.time = self.time.max(first),
            // Nobody lacks what another has computed, so all are equal again.
            None => {
                self.time = Duration::ZERO;
                self.workspaces.values_mut().for_each(|workspace| workspace.time = self.time);
            }
        }
        let time = self.time;
        self.workspaces.retain(|_, workspace| workspace.is_present() || workspace.time > time);
    }

    /// The workspace whose thread enters next, if one may enter.
    fn next(&mut self) -> Option<&mut Workspace> {
        let allowed = self.allowed();
        let waiting = self.workspaces.values_mut().filter_map(|workspace| {
            let arrival = workspace.waiting.front()?.arrival;
            workspace.may_enter(allowed).then_some((arrival, workspace))
        });
        let first = waiting
            .min_by_key(|(arrival, workspace)| (workspace.time, workspace.running, *arrival));
        first.map(|(_, workspace)| workspace)
    }

    fn running_and_waiting(&self) -> (usize, usize) {
        self.workspaces.values().fold((0, 0), |(running, waiting), workspace| {
            (running + workspace.running, waiting + workspace.waiting.len())
        })
    }
}

impl Workspace {
    fn may_enter(&self, allowed: Allowed) -> bool {
        allowed == Allowed::All || (allowed == Allowed::Idle && self.running == 0)
    }

    /// Whether any of its threads computes or waits.
    fn is_present(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
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
                        cores.compute(1, || {
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
        assert_eq!(cores.compute(1, || cores.running_and_waiting()), (1, 0));
        let panics = std::panic::AssertUnwindSafe(|| cores.compute(1, || panic!("as planned")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(cores.compute(1, || 7), 7);
        assert_eq!(cores.running_and_waiting(), (0, 0));
    }

    #[test]
    fn a_thread_that_waits_enters_before_later_ones() {
        let (cores, order) = (Cores::new(1), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            cores.compute(1, || {
                scope.spawn(|| cores.compute(1, || order.lock().push("waiting")));
                while cores.running_and_waiting().1 == 0 {
                    std::thread::yield_now();
                }
            });
            cores.compute(1, || order.lock().push("later"));
        });
        assert_eq!(order.into_inner(), ["waiting", "later"]);
    }

    #[test]
    fn short_work_does_not_wait_for_long_work() {
        let cores = Cores::new(1);
        let inside = cores.compute_slice(1, || {
            std::thread::scope(|scope| scope.spawn(|| cores.compute(1, || 7)).join())
        });
        assert_eq!(inside.unwrap(), 7);
        assert_eq!(cores.running_and_waiting(), (0, 0));
    }

    #[test]
    fn work_on_many_items_lets_waiting_threads_compute() {
        let (cores, order) = (Cores::new(1), Mutex::new(Vec::new()));
        let items = ["first", "last"].into_iter();
        std::thread::scope(|scope| {
            let worked = cores.compute_each(1, items, |item| {
                order.lock().push(item);
                if item == "first" {
                    scope.spawn(|| cores.compute_slice(1, || order.lock().push("waiting")));
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
        let worked = cores.compute_each(1, [1, 2, 3].into_iter(), |item| match item {
            2 => Err(item),
            _ => Ok(()),
        });
        assert_eq!(worked, Err(2));
    }
    #[test]
    fn a_workspace_alone_gets_all_processors() {
        let mut queue = Queue::new(3);
        let entered = (0..5).filter(|_| queue.arrive(1).is_none()).count();
        assert_eq!((entered, queue.running_and_waiting()), (3, (3, 2)));
        queue.leave(1, SLICE);
        assert_eq!(queue.running_and_waiting(), (3, 1));
        (0..4).for_each(|_| queue.leave(1, SLICE));
        assert!(queue.workspaces.is_empty() && queue.running == 0);
    }

    #[test]
    fn a_thread_does_not_wait_for_the_threads_of_one_other_workspace() {
        let cores = Cores::new(1);
        std::thread::scope(|scope| {
            cores.compute_slice(1, || {
                (0..8).for_each(|_| drop(scope.spawn(|| cores.compute_slice(1, || ()))));
                while cores.running_and_waiting().1 < 8 {
                    std::thread::yield_now();
                }
                let other = scope.spawn(|| cores.compute_slice(2, || cores.running_and_waiting()));
                assert_eq!(other.join().unwrap(), (2, 8));
            });
        });
        assert_eq!(cores.running_and_waiting(), (0, 0));
    }

    #[test]
    fn a_workspace_that_has_computed_least_is_next() {
        let mut queue = Queue::new(1);
        // They compute, and others of both and one of a third workspace wait.
        assert!([1, 2].iter().all(|id| queue.arrive(*id).is_none()));
        assert!([1, 1, 2, 1, 3].iter().all(|id| queue.arrive(*id).is_some()));
        let running = |queue: &Queue| {
            [1, 2, 3].map(|id| queue.workspaces.get(&id).map_or(0, |workspace| workspace.running))
        };
        queue.leave(1, 3 * SLICE);
        assert_eq!(running(&queue), [0, 1, 1], "it has not computed, and arrived last");
        queue.leave(2, SLICE);
        assert_eq!(running(&queue), [0, 1, 1], "it has computed less, and arrived later");
        // It returns with what it has computed.
        queue.leave(3, 4 * SLICE);
        assert!(queue.arrive(3).is_some());
        assert_eq!(running(&queue), [1, 1, 0]);
        queue.leave(2, SLICE);
        assert_eq!(running(&queue)[2], 1, "no other may enter");
    }

    /// How many milliseconds the threads of workspaces compute within a time: each has so many,
    /// which need so long, and return at once.
    fn computed(cores: usize, workspaces: &[(i32, usize, u64)], time: u64) -> Vec<u64> {
        let (mut queue, mut ends, mut now) = (Queue::new(cores), Vec::new(), 0);
        let mut computed = vec![0; workspaces.len()];
        for &(id, threads, _) in workspaces {
            (0..threads).for_each(|_| drop(queue.arrive(id)));
        }
        while now < time {
            for (index, (id, _, slice)) in workspaces.iter().enumerate() {
                let known = ends.iter().filter(|(_, running)| *running == index).count();
                let running = queue.workspaces[id].running;
                ends.extend((known..running).map(|_| (now + slice, index)));
            }
            ends.sort_unstable();
            let (end, index) = ends.remove(0);
            let (id, _, slice) = workspaces[index];
            now = end;
            computed[index] += slice;
            queue.leave(id, Duration::from_millis(slice));
            drop(queue.arrive(id));
        }
        computed
    }

    #[test]
    fn workspaces_get_the_same_time_however_many_threads_they_have() {
        for slices in [[10, 10, 10], [100, 5, 5], [2, 10, 50]] {
            let workspaces = [(1, 16, slices[0]), (2, 2, slices[1]), (3, 2, slices[2])];
            let computed = computed(1, &workspaces, 3_000);
            assert!(computed.iter().all(|ms| ms.abs_diff(2_000) <= 100), "{slices:?} {computed:?}");
        }
        // They wait for no slice of a single other one.
        let workspaces = [(1, 99, 1_000), (2, 1, 1), (3, 1, 1)];
        let computed = computed(2, &workspaces, 9_000);
        assert!(
            computed[0] >= 9_000 && computed[1..].iter().all(|ms| *ms >= 8_900),
            "{computed:?}"
        );
    }

    #[test]
    fn a_workspace_with_many_threads_starves_none_and_is_not_starved() {
        let others = (2..12).map(|id| (id, 1, 10));
        let workspaces: Vec<_> = std::iter::once((1, 99, 1_000)).chain(others).collect();
        let computed = computed(1, &workspaces, 6_000);
        assert!(computed.iter().all(|ms| (1_000..=1_200).contains(ms)), "{computed:?}");
    }
}
