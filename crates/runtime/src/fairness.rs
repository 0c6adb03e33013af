//! Limits that workspaces and other senders share: memory, and slots for work in progress.
//!
//! A holder leaves a part free, so that none ever uses it all. A holder that holds nothing else may
//! use all that is free, up to the limit of one holder.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use kit::compute::NO_WORKSPACE;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Bytes are counted in units of this size.
const UNIT: usize = 1 << 10;

/// The size of a slot, where slots are shared instead of memory.
pub const SLOT_BYTES: usize = UNIT;

/// Who holds a part of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A workspace, or the company (0).
    Workspace(i32),
    /// A network of an unauthenticated sender.
    Source(IpAddr),
    /// All unauthenticated networks together.
    Unauthenticated,
}

impl Holder {
    /// The workspace for which work on what is held computes.
    pub fn workspace(self) -> i32 {
        match self {
            Self::Workspace(id) => id,
            Self::Source(_) | Self::Unauthenticated => NO_WORKSPACE,
        }
    }
}

/// A limit on the bytes held in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    units: usize,
    share: Share,
    state: Mutex<State>,
}

/// The limit of one holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// A holder of other units leaves free `factor` × its units + `spare`.
    factor: usize,
    spare: usize,
    /// The maximum number of units of one holder.
    max_units: usize,
}

impl Share {
    /// A holder leaves as many units free as it has, at most `max_units`.
    pub(crate) fn halves(max_units: usize) -> Self {
        Self { factor: 1, spare: 0, max_units }
    }

    /// How many of the `free` units a holder of `held` units may take: all, if what grows is all
    /// that it holds (`is_only`).
    pub(crate) fn more(self, held: usize, is_only: bool, free: usize) -> usize {
        let left = held.saturating_mul(self.factor).saturating_add(self.spare);
        let allowed = if is_only { free } else { free.saturating_sub(left) / (self.factor + 1) };
        allowed.min(self.max_units.saturating_sub(held))
    }
}

#[derive(Debug)]
struct State {
    free: usize,
    held: HashMap<Holder, usize>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    holder: Holder,
    units: usize,
    grant: oneshot::Sender<Reservation>,
}

impl Waiting {
    /// Whether a request of this holder still waits.
    fn is_of(&self, holder: Holder) -> bool {
        self.holder == holder && !self.grant.is_closed()
    }
}

impl State {
    /// Reserves `more` units for a holder that has `own` units for the same body, if allowed.
    fn try_take(&mut self, holder: Holder, own: usize, more: usize, share: Share) -> bool {
        if more == 0 {
            return true;
        }
        let held = self.held.get(&holder).copied().unwrap_or(0);
        let is_allowed = more <= share.more(held, held == own, self.free);
        if is_allowed {
            self.free -= more;
            *self.held.entry(holder).or_default() += more;
        }
        is_allowed
    }

    fn give_back(&mut self, holder: Holder, units: usize) {
        self.free += units;
        if let Some(held) = self.held.get_mut(&holder) {
            *held -= units;
            if *held == 0 {
                self.held.remove(&holder);
            }
        }
    }
}

impl SharedMemory {
    /// A limit of this many bytes. One holder may use as many as it leaves free.
    pub fn halves(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self::new(units, Share::halves(units))
    }

    /// A limit of this many bytes. One holder leaves `spare` bytes free.
    pub fn leaving(bytes: usize, spare: usize) -> Self {
        let max_units = units(bytes).max(1);
        Self::new(max_units, Share { factor: 0, spare: units(spare), max_units })
    }

    /// Each holder may use this many bytes, however many others use.
    pub fn each(bytes: usize) -> Self {
        let max_units = units(bytes).max(1);
        Self::new(usize::MAX / UNIT, Share { factor: 0, spare: 0, max_units })
    }

    /// A limit of this many bytes. One holder may use at most an eighth.
    pub fn eighths(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self::new(units, Share { factor: 7, spare: 0, max_units: units.div_ceil(8) })
    }

    fn new(units: usize, share: Share) -> Self {
        let state = State { free: units, held: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Shared { units, share, state: Mutex::new(state) }))
    }

    /// How many bytes are held, and the limit.
    pub fn used_and_limit(&self) -> (usize, usize) {
        let limit = self.0.units;
        ((limit - self.0.state.lock().free) * UNIT, limit * UNIT)
    }

    /// Reserves `bytes` if they are free now; more than the limit of one holder counts as that
    /// limit.
    pub fn try_reserve(&self, holder: Holder, bytes: usize) -> Option<Reservation> {
        let units = units(bytes).min(self.0.share.max_units);
        let is_reserved = self.0.state.lock().try_take(holder, 0, units, self.0.share);
        is_reserved.then(|| Reservation { memory: self.clone(), holder, units })
    }

    /// The same, but waits. First come, first served, except that no request waits behind one of
    /// another holder that is not allowed yet.
    pub async fn reserve(&self, holder: Holder, bytes: usize) -> Reservation {
        loop {
            let mut request = {
                let mut state = self.0.state.lock();
                let units = units(bytes).min(self.0.share.max_units);
                let is_first = !state.waiting.iter().any(|waiting| waiting.is_of(holder));
                if is_first && state.try_take(holder, 0, units, self.0.share) {
                    return Reservation { memory: self.clone(), holder, units };
                }
                let (grant, granted) = oneshot::channel();
                state.waiting.push_back(Waiting { holder, units, grant });
                QueuedRequest { memory: self, granted }
            };
            if let Ok(reservation) = (&mut request.granted).await {
                return reservation;
            }
        }
    }

    /// Grants waiting requests the memory that is free for them.
    fn grant_waiting(&self) {
        loop {
            let (waiting, reservation) = {
                let mut state = self.0.state.lock();
                // A request that no longer waits blocks no other.
                state.waiting.retain(|waiting| !waiting.grant.is_closed());
                let share = self.0.share;
                // Small requests of a holder do not overtake its large ones, which would starve.
                let mut blocked = HashSet::new();
                let next = (0..state.waiting.len()).find(|&index| {
                    let Waiting { holder, units, .. } = state.waiting[index];
                    if blocked.contains(&holder) {
                        return false;
                    }
                    let is_taken = state.try_take(holder, 0, units, share);
                    if !is_taken {
                        blocked.insert(holder);
                    }
                    is_taken
                });
                let Some(waiting) = next.and_then(|index| state.waiting.remove(index)) else {
                    return;
                };
                let (holder, units) = (waiting.holder, waiting.units);
                (waiting, Reservation { memory: self.clone(), holder, units })
            };
            // If the request no longer waits, the memory is released, outside of the lock.
            drop(waiting.grant.send(reservation));
        }
    }
}

/// A request that waits. If it is given up, the next one of its holder is first.
struct QueuedRequest<'a> {
    memory: &'a SharedMemory,
    granted: oneshot::Receiver<Reservation>,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.granted.close();
        self.memory.grant_waiting();
    }
}

/// Reserved bytes, released when dropped.
#[derive(Debug)]
pub struct Reservation {
    memory: SharedMemory,
    holder: Holder,
    units: usize,
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.units * UNIT
    }

    /// Whether this reserves as much as one holder can have.
    pub fn is_all(&self) -> bool {
        self.units == self.memory.0.share.max_units
    }

    /// Grows to at least `bytes` if that much is free now. Nothing waits while it holds memory, so
    /// that deadlocks cannot occur.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let more = units(bytes).saturating_sub(self.units);
        let grown =
            self.memory.0.state.lock().try_take(self.holder, self.units, more, self.memory.0.share);
        self.units += if grown { more } else { 0 };
        grown
    }

    /// Releases everything above `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.units.saturating_sub(units(bytes));
        self.units -= beyond;
        self.give_back(beyond);
    }

    fn give_back(&self, units: usize) {
        if units == 0 {
            return;
        }
        let mut state = self.memory.0.state.lock();
        state.give_back(self.holder, units);
        let has_waiters = !state.waiting.is_empty();
        drop(state);
        if has_waiters {
            self.memory.grant_waiting();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.units);
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Holder = Holder::Workspace(1);
    const OTHER: Holder = Holder::Workspace(2);

    #[test]
    fn one_holder_leaves_as_much_as_it_has() {
        let memory = SharedMemory::halves(8 * UNIT);
        let mut held: Vec<Reservation> =
            (0..8).map_while(|_| memory.try_reserve(ONE, UNIT)).collect();
        assert_eq!((held.len(), memory.used_and_limit()), (4, (4 * UNIT, 8 * UNIT)));
        let others: Vec<Reservation> =
            (0..8).map_while(|_| memory.try_reserve(OTHER, UNIT)).collect();
        assert_eq!(others.len(), 2);
        assert!(!held[0].try_grow(2 * UNIT) && held[0].try_grow(UNIT));
        drop(held);
        assert_eq!(memory.used_and_limit().0, 2 * UNIT);
        drop(others);
        // A holder that holds nothing else may use all.
        let mut reservation = memory.try_reserve(ONE, UNIT).unwrap();
        assert!(reservation.try_grow(8 * UNIT) && !reservation.try_grow(8 * UNIT + 1));
        assert!(memory.try_reserve(OTHER, 1).is_none());
        reservation.shrink(UNIT);
        assert_eq!(memory.used_and_limit().0, UNIT);
        drop(reservation);
        assert!(memory.try_reserve(ONE, usize::MAX).is_some());
        assert_eq!(memory.used_and_limit().0, 0);
    }

    #[test]
    fn a_source_has_an_eighth() {
        let memory = SharedMemory::eighths(64 * UNIT);
        let source = Holder::Source([127, 0, 0, 1].into());
        let held: Vec<Reservation> =
            (0..64).map_while(|_| memory.try_reserve(source, UNIT)).collect();
        assert_eq!(held.len(), 8);
        drop(held);
        // One body gets no more than many bodies do, if nothing else is held.
        let mut reservation = memory.try_reserve(source, UNIT).unwrap();
        assert!(reservation.try_grow(8 * UNIT) && !reservation.try_grow(8 * UNIT + 1));
        reservation.shrink(UNIT);
        assert!(reservation.try_grow(8 * UNIT));
        // So many networks leave room for others.
        let networks = (2..8).map(|last| Holder::Source([127, 0, 0, last].into()));
        let others: Vec<Reservation> = networks
            .map(|network| {
                let mut reservation = memory.try_reserve(network, UNIT).expect("room for another");
                assert!(reservation.try_grow(8 * UNIT) && !reservation.try_grow(9 * UNIT));
                reservation
            })
            .collect();
        assert_eq!(memory.used_and_limit().0, 56 * UNIT);
        assert!(memory.try_reserve(Holder::Source([127, 0, 0, 9].into()), UNIT).is_some());
        drop(others);
    }

    #[test]
    fn one_holder_leaves_what_another_needs() {
        let memory = SharedMemory::leaving(10 * UNIT, 3 * UNIT);
        let mut first = memory.try_reserve(ONE, 4 * UNIT).unwrap();
        let second = memory.try_reserve(ONE, 3 * UNIT).unwrap();
        assert!(memory.try_reserve(ONE, UNIT).is_none() && !first.try_grow(5 * UNIT));
        let other = memory.try_reserve(OTHER, 3 * UNIT).unwrap();
        drop((second, other));
        assert!(first.try_grow(10 * UNIT) && first.is_all());
        first.shrink(UNIT);
        assert_eq!((first.bytes(), first.is_all()), (UNIT, false));
    }

    #[test]
    fn each_holder_can_have_a_limit_of_its_own() {
        let (slots, mut held) = (SharedMemory::each(2 * SLOT_BYTES), Vec::new());
        for holder in [ONE, OTHER, Holder::Workspace(3)] {
            held.extend([(); 2].map(|()| slots.try_reserve(holder, SLOT_BYTES).unwrap()));
            assert!(slots.try_reserve(holder, SLOT_BYTES).is_none());
        }
    }

    #[tokio::test]
    async fn small_requests_do_not_starve_a_large_one_of_their_holder() {
        let memory = SharedMemory::leaving(8 * UNIT, 0);
        let held = [(); 2].map(|()| memory.try_reserve(ONE, 3 * UNIT).unwrap());
        let mut large = std::pin::pin!(memory.reserve(ONE, 5 * UNIT));
        assert!(futures::poll!(&mut large).is_pending());
        let mut small = std::pin::pin!(memory.reserve(ONE, 2 * UNIT));
        assert!(futures::poll!(&mut small).is_pending());
        // Others do not wait for it.
        drop(memory.reserve(OTHER, 2 * UNIT).await);
        let [first, second] = held;
        drop(first);
        let large = large.await;
        assert!(futures::poll!(&mut small).is_pending());
        drop((second, large));
        assert_eq!(small.await.bytes(), 2 * UNIT);
        // One that no longer waits blocks none.
        let held = memory.try_reserve(ONE, 6 * UNIT).unwrap();
        let mut large = Box::pin(memory.reserve(ONE, 5 * UNIT));
        assert!(futures::poll!(&mut large).is_pending());
        let small = tokio::spawn({
            let memory = memory.clone();
            async move { memory.reserve(ONE, 2 * UNIT).await.bytes() }
        });
        tokio::task::yield_now().await;
        assert!(!small.is_finished());
        drop(large);
        assert_eq!(small.await.unwrap(), 2 * UNIT);
        drop(held);
    }

    #[test]
    fn few_places_are_shared_too() {
        for count in 1..4 {
            let slots = SharedMemory::halves(count * SLOT_BYTES);
            let first: Vec<Reservation> =
                (0..4).map_while(|_| slots.try_reserve(ONE, SLOT_BYTES)).collect();
            assert_eq!(first.len(), 1, "{count}");
            let second = slots.try_reserve(OTHER, SLOT_BYTES);
            assert_eq!(second.is_some(), count > 1, "{count}");
            let unauthenticated = SharedMemory::eighths(count * SLOT_BYTES / 2);
            assert!(unauthenticated.try_reserve(Holder::Unauthenticated, SLOT_BYTES).is_some());
        }
    }

    #[tokio::test]
    async fn waiting_is_fair_between_holders() {
        let memory = SharedMemory::halves(4 * UNIT);
        let held = [(); 2].map(|()| memory.try_reserve(ONE, UNIT).unwrap());
        let wait = |holder| {
            let memory = memory.clone();
            tokio::spawn(async move { memory.reserve(holder, UNIT).await })
        };
        let (greedy, given_up) = (wait(ONE), wait(ONE));
        tokio::task::yield_now().await;
        given_up.abort();
        assert!(given_up.await.is_err());
        let other = memory.reserve(OTHER, UNIT).await;
        tokio::task::yield_now().await;
        assert!(!greedy.is_finished());
        drop(held);
        let greedy = greedy.await.unwrap();
        assert_eq!(memory.used_and_limit().0, 2 * UNIT);
        drop((greedy, other));
        assert_eq!(memory.used_and_limit().0, 0);
    }
}
