//! Shared limits: memory for request bodies, and places for requests in progress.
//!
//! A holder may use at most a part of what is free, so that a sender without end leaves room for
//! all others. A holder that holds nothing else may use all that is free, up to the limit of one
//! holder.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use super::{ApiError, turned_away};
use crate::app::{App, Kept};
use crate::config::Config;

/// Bytes are counted in units of this many.
const UNIT: usize = 1 << 10;

/// The bytes of a place, where places are shared and not memory.
pub const PLACE: usize = UNIT;

/// The sender of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A workspace, or the [`COMPANY`](super::COMPANY).
    Workspace(i32),
    /// A network of an unauthenticated sender.
    Source(IpAddr),
    /// All unauthenticated networks, where they count as one.
    Unauthenticated,
}

/// The limits of requests in this process.
pub struct Budgets {
    /// For requests' bodies (`gateway.memory_bytes`).
    pub bodies: SharedMemory,
    /// For bodies of unauthenticated senders (`gateway.unauthenticated_bytes`).
    pub unproved: SharedMemory,
    /// Places for requests in progress (`gateway.requests_in_flight`).
    pub requests: Arc<Semaphore>,
    /// The holders of these places: a workspace, or all unauthenticated senders together, may use
    /// as many as it leaves free.
    pub shares: SharedMemory,
    /// Half of these places, for single unauthenticated senders.
    pub unproved_requests: SharedMemory,
}

impl Kept for Budgets {
    fn from_config(config: &Config) -> Self {
        let places = config.gateway.requests_in_flight;
        Self {
            bodies: SharedMemory::halves(config.gateway.memory_bytes),
            unproved: SharedMemory::eighths(config.gateway.unproved_bytes()),
            requests: Arc::new(Semaphore::new(places)),
            shares: SharedMemory::halves(places * PLACE),
            unproved_requests: SharedMemory::eighths(places / 2 * PLACE),
        }
    }
}

/// A request's share of its workspace's places, held until it ends: one workspace may use as many
/// as it leaves free.
pub fn place(app: &App, workspace: i32) -> Result<Room, ApiError> {
    app.kept::<Budgets>().shares.try_reserve(Holder::Workspace(workspace), PLACE).ok_or_else(|| {
        turned_away("busy");
        ApiError::Overloaded
    })
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
struct Share {
    /// A holder may use the free units divided by this, unless it holds nothing else.
    times: usize,
    /// The limit in units in any case.
    most: usize,
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
    given: oneshot::Sender<Room>,
}

impl State {
    /// Takes `more` units for a holder that has `own` units for the same body, if allowed.
    fn take(&mut self, holder: Holder, own: usize, more: usize, share: Share) -> bool {
        if more == 0 {
            return true;
        }
        let held = self.held.get(&holder).copied().unwrap_or(0);
        let would_hold = held + more;
        let fits = would_hold <= share.most
            && self
                .free
                .checked_sub(more)
                .is_some_and(|left| held == own || would_hold.saturating_mul(share.times) <= left);
        if fits {
            self.free -= more;
            *self.held.entry(holder).or_default() += more;
        }
        fits
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
    /// A number of bytes, of which one holder may use as many as are left free.
    pub fn halves(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self::new(units, Share { times: 1, most: units })
    }

    /// A number of bytes, of which one holder may use at most an eighth.
    pub fn eighths(bytes: usize) -> Self {
        let units = units(bytes).max(1);
        Self::new(units, Share { times: 7, most: units.div_ceil(8) })
    }

    fn new(units: usize, share: Share) -> Self {
        let state = State { free: units, held: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Shared { units, share, state: Mutex::new(state) }))
    }

    /// How many bytes are held, and the limit.
    pub fn held_and_most(&self) -> (usize, usize) {
        let most = self.0.units;
        ((most - self.0.state.lock().free) * UNIT, most * UNIT)
    }

    /// Reserves `bytes` if they are free now; more than the limit of one holder counts as that
    /// limit.
    pub fn try_reserve(&self, holder: Holder, bytes: usize) -> Option<Room> {
        let units = units(bytes).min(self.0.share.most);
        let taken = self.0.state.lock().take(holder, 0, units, self.0.share);
        taken.then(|| Room { memory: self.clone(), holder, units })
    }

    /// The same, but waits. First come, first served, except that no request waits behind a holder
    /// at its limit.
    pub async fn reserve(&self, holder: Holder, bytes: usize) -> Room {
        loop {
            let waiting = {
                let mut state = self.0.state.lock();
                let units = units(bytes).min(self.0.share.most);
                if state.take(holder, 0, units, self.0.share) {
                    return Room { memory: self.clone(), holder, units };
                }
                let (given, waiting) = oneshot::channel();
                state.waiting.push_back(Waiting { holder, units, given });
                waiting
            };
            if let Ok(room) = waiting.await {
                return room;
            }
        }
    }

    /// Gives waiting requests what they may have now.
    fn give(&self) {
        loop {
            let (waiting, room) = {
                let mut state = self.0.state.lock();
                // A request that no longer waits blocks no other.
                state.waiting.retain(|waiting| !waiting.given.is_closed());
                let share = self.0.share;
                let next = (0..state.waiting.len()).find(|&at| {
                    let Waiting { holder, units, .. } = state.waiting[at];
                    state.take(holder, 0, units, share)
                });
                let Some(waiting) = next.and_then(|at| state.waiting.remove(at)) else { return };
                let (holder, units) = (waiting.holder, waiting.units);
                (waiting, Room { memory: self.clone(), holder, units })
            };
            // If nothing waits for it any more, it is released, outside of the lock.
            drop(waiting.given.send(room));
        }
    }
}

/// Reserved bytes, released when dropped.
#[derive(Debug)]
pub struct Room {
    memory: SharedMemory,
    holder: Holder,
    units: usize,
}

impl Room {
    /// Grows to at least `bytes` if that much is free now. Nothing waits while it holds memory, so
    /// that deadlocks cannot occur.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        let more = units(bytes).saturating_sub(self.units);
        let grown =
            self.memory.0.state.lock().take(self.holder, self.units, more, self.memory.0.share);
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
            self.memory.give();
        }
    }
}

impl Drop for Room {
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
        let mut held: Vec<Room> = (0..8).map_while(|_| memory.try_reserve(ONE, UNIT)).collect();
        assert_eq!((held.len(), memory.held_and_most()), (4, (4 * UNIT, 8 * UNIT)));
        let others: Vec<Room> = (0..8).map_while(|_| memory.try_reserve(OTHER, UNIT)).collect();
        assert_eq!(others.len(), 2);
        assert!(!held[0].try_grow(2 * UNIT) && held[0].try_grow(UNIT));
        drop(held);
        assert_eq!(memory.held_and_most().0, 2 * UNIT);
        drop(others);
        // A holder that holds nothing else may use all.
        let mut all = memory.try_reserve(ONE, UNIT).unwrap();
        assert!(all.try_grow(8 * UNIT) && !all.try_grow(8 * UNIT + 1));
        assert!(memory.try_reserve(OTHER, 1).is_none());
        all.shrink(UNIT);
        assert_eq!(memory.held_and_most().0, UNIT);
        drop(all);
        assert!(memory.try_reserve(ONE, usize::MAX).is_some());
        assert_eq!(memory.held_and_most().0, 0);
    }

    #[test]
    fn a_source_has_an_eighth() {
        let memory = SharedMemory::eighths(64 * UNIT);
        let source = Holder::Source([127, 0, 0, 1].into());
        let held: Vec<Room> = (0..64).map_while(|_| memory.try_reserve(source, UNIT)).collect();
        assert_eq!(held.len(), 8);
        drop(held);
        // One body gets no more than many, if nothing else is held.
        let mut one = memory.try_reserve(source, UNIT).unwrap();
        assert!(one.try_grow(8 * UNIT) && !one.try_grow(8 * UNIT + 1));
        one.shrink(UNIT);
        assert!(one.try_grow(8 * UNIT));
        // So many networks leave room for others.
        let networks = (2..8).map(|last| Holder::Source([127, 0, 0, last].into()));
        let others: Vec<Room> = networks
            .map(|network| {
                let mut room = memory.try_reserve(network, UNIT).expect("room for another");
                assert!(room.try_grow(8 * UNIT) && !room.try_grow(9 * UNIT));
                room
            })
            .collect();
        assert_eq!(memory.held_and_most().0, 56 * UNIT);
        assert!(memory.try_reserve(Holder::Source([127, 0, 0, 9].into()), UNIT).is_some());
        drop(others);
    }

    #[test]
    fn few_places_are_shared_too() {
        for count in 1..4 {
            let places = SharedMemory::halves(count * PLACE);
            let of_one: Vec<Room> = (0..4).map_while(|_| places.try_reserve(ONE, PLACE)).collect();
            assert_eq!(of_one.len(), 1, "{count}");
            let of_other = places.try_reserve(OTHER, PLACE);
            assert_eq!(of_other.is_some(), count > 1, "{count}");
            let of_stranger = SharedMemory::eighths(count * PLACE / 2);
            assert!(of_stranger.try_reserve(Holder::Unauthenticated, PLACE).is_some());
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
        assert_eq!(memory.held_and_most().0, 2 * UNIT);
        drop((greedy, other));
        assert_eq!(memory.held_and_most().0, 0);
    }
}
