//! Chooses the connections that are closed to make room for others.
//!
//! Unauthenticated connections may use a part of the slots for connections, and of the memory for
//! incomplete heads. Above that, the oldest connection of the source with the most is closed:
//! clients that send their request promptly are served, however many others do not.
//!
//! An authenticated connection is closed only between two requests, and only while all slots are
//! in use: first the longest idle one of the workspace with the most idle ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Slots of connections by source: their network, or the workspace. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slots<K = IpAddr> {
    max: usize,
    /// Maximum number of slots of one source.
    max_per_source: usize,
    in_use: Arc<Mutex<SlotsInUse<K>>>,
}

struct SlotsInUse<K> {
    count: usize,
    next: u64,
    /// The tokens that close the connections: by source, in the order of arrival.
    sources: HashMap<K, BTreeMap<u64, CancellationToken>>,
}

impl<K: Copy + Eq + Hash> SlotsInUse<K> {
    fn remove(&mut self, source: K, number: u64) -> Option<CancellationToken> {
        let connections = self.sources.get_mut(&source)?;
        let close = connections.remove(&number)?;
        self.count -= 1;
        if connections.is_empty() {
            self.sources.remove(&source);
        }
        Some(close)
    }

    /// The oldest connection of a source, with its number.
    fn oldest_of(&self, source: K) -> Option<(K, u64)> {
        let (number, _) = self.sources.get(&source)?.first_key_value()?;
        Some((source, *number))
    }

    /// The source with the most connections; of several, the one with the oldest connection.
    fn largest_source(&self) -> Option<K> {
        let first = |slots: &BTreeMap<u64, _>| slots.first_key_value().map(|(first, _)| *first);
        let largest =
            self.sources.iter().max_by_key(|(_, slots)| (slots.len(), Reverse(first(slots))));
        largest.map(|(source, _)| *source)
    }
}

impl<K: Copy + Eq + Hash> Slots<K> {
    pub(super) fn new(max: usize, max_per_source: usize) -> Self {
        let (max, max_per_source) = (max.max(1), max_per_source.max(1));
        let in_use = SlotsInUse { count: 0, next: 0, sources: HashMap::new() };
        Self { max, max_per_source, in_use: Arc::new(Mutex::new(in_use)) }
    }

    /// Gets a slot for a connection that `close` closes. If there are too many, another connection
    /// loses its slot.
    fn enter(&self, source: K, close: CancellationToken) -> Slot<K> {
        let mut in_use = self.in_use.lock();
        let number = in_use.next;
        in_use.next += 1;
        in_use.count += 1;
        let connections = in_use.sources.entry(source).or_default();
        connections.insert(number, close);
        let evicted = if connections.len() > self.max_per_source {
            in_use.oldest_of(source)
        } else if in_use.count > self.max {
            in_use.largest_source().and_then(|source| in_use.oldest_of(source))
        } else {
            None
        };
        let closed = evicted.and_then(|(source, number)| in_use.remove(source, number));
        drop(in_use);
        end(closed);
        Slot { slots: self.clone(), source, number }
    }

    /// Whether another connection loses its slot to the next one.
    pub(super) fn is_full(&self) -> bool {
        self.in_use.lock().count >= self.max
    }

    /// Closes the oldest connection of the source with the most connections, if there is any.
    pub(super) fn close_one(&self) {
        let mut in_use = self.in_use.lock();
        let evicted = in_use.largest_source().and_then(|source| in_use.oldest_of(source));
        let closed = evicted.and_then(|(source, number)| in_use.remove(source, number));
        drop(in_use);
        end(closed);
    }
}

/// Closes a connection that has lost its slot.
fn end(closed: Option<CancellationToken>) {
    if let Some(close) = closed {
        metrics::counter!("longshore_http_connections_closed_total").increment(1);
        close.cancel();
    }
}

/// A slot, held until this is dropped.
struct Slot<K: Copy + Eq + Hash = IpAddr> {
    slots: Slots<K>,
    source: K,
    number: u64,
}

impl<K: Copy + Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        self.slots.in_use.lock().remove(self.source, self.number);
    }
}

/// The slots of one listener. Cheap to clone.
#[derive(Clone)]
pub(super) struct ConnectionSlots {
    /// For unauthenticated connections.
    pub unauthenticated: Slots,
    /// For incomplete heads on such connections.
    pub heads: Slots,
    /// Of all other connections between two requests, by workspace.
    pub idle: Slots<i32>,
}

/// The tokens that close a connection.
#[derive(Clone, Default)]
pub(super) struct Close {
    /// Closes it immediately.
    pub now: CancellationToken,
    /// Closes it as soon as it is between two requests.
    pub when_idle: CancellationToken,
}

/// A connection, stored in the extensions of each of its requests. Cheap to clone.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    source: IpAddr,
    close: Close,
    slots: ConnectionSlots,
    state: Mutex<State>,
}

enum State {
    Unauthenticated {
        _slot: Slot,
        input: Input,
    },
    Authenticated {
        workspace: i32,
        /// Between two requests.
        _idle: Option<Slot<i32>>,
    },
}

/// The state of a request's input.
enum Input {
    None,
    /// Some of the head, possibly all of it.
    Some,
    /// A part of the head; the rest has not arrived.
    Part {
        _slot: Slot,
    },
    /// The complete head.
    Head,
}

impl Connection {
    /// A connection from `source` that `close` closes.
    pub(super) fn new(source: IpAddr, close: Close, slots: ConnectionSlots) -> Self {
        let slot = slots.unauthenticated.enter(source, close.now.clone());
        let state = Mutex::new(State::Unauthenticated { _slot: slot, input: Input::None });
        Self(Arc::new(Inner { source, close, slots, state }))
    }

    /// Records that the sender of the current request is authenticated, in a workspace or the
    /// [`COMPANY`](super::COMPANY). From now on the connection can lose its slot only when it is
    /// idle.
    pub fn mark_authenticated(&self, workspace: i32) {
        *self.0.state.lock() = State::Authenticated { workspace, _idle: None };
    }

    /// Waits until the connection should close after the current response, for responses that take
    /// as long as the client wants: all slots are in use, or the process is stopping.
    pub async fn should_close(&self) {
        self.0.close.when_idle.cancelled().await;
    }

    /// Records that a head has arrived.
    pub(super) fn head_received(&self) {
        match &mut *self.0.state.lock() {
            State::Unauthenticated { input, .. } => *input = Input::Head,
            State::Authenticated { _idle, .. } => *_idle = None,
        }
    }

    /// Records that the response is ready, so that the connection waits for the next head.
    pub(super) fn response_ready(&self) {
        match &mut *self.0.state.lock() {
            State::Unauthenticated { input, .. } => *input = Input::None,
            State::Authenticated { workspace, _idle } => {
                let when_idle = self.0.close.when_idle.clone();
                *_idle = Some(self.0.slots.idle.enter(*workspace, when_idle));
            }
        }
    }

    /// Records that the server needs more input.
    fn before_read(&self) {
        if let State::Unauthenticated { input, .. } = &mut *self.0.state.lock()
            && matches!(input, Input::Some)
        {
            // The input so far is not a complete head.
            let now = self.0.close.now.clone();
            *input = Input::Part { _slot: self.0.slots.heads.enter(self.0.source, now) };
        }
    }

    /// Records that some input has arrived.
    fn after_read(&self) {
        if let State::Unauthenticated { input, .. } = &mut *self.0.state.lock()
            && matches!(input, Input::None)
        {
            *input = Input::Some;
        }
    }
}

/// A connection's input, with observation of its reads.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) connection: Connection,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.connection.before_read();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection.after_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> IpAddr {
        [198, 51, 100, last].into()
    }

    #[test]
    fn the_oldest_connection_of_the_largest_source_is_closed() {
        let slots = Slots::new(4, 3);
        let enter = |last: u8| {
            let close = CancellationToken::new();
            (slots.enter(source(last), close.clone()), close)
        };
        let first: Vec<_> = (0..3).map(|_| enter(1)).collect();
        let other = enter(2);
        assert!(first.iter().all(|(_, close)| !close.is_cancelled()));
        // Too many in all.
        let another = enter(3);
        let closed = |connections: &[(Slot, CancellationToken)]| {
            connections.iter().map(|(_, close)| close.is_cancelled()).collect::<Vec<_>>()
        };
        assert_eq!(closed(&first), [true, false, false]);
        drop(another);
        // Too many of one source, even if there are free slots.
        drop(other);
        let more: Vec<_> = (0..2).map(|_| enter(1)).collect();
        assert_eq!((closed(&first), closed(&more)), (vec![true, true, false], vec![false, false]));
        drop((first, more));
        let in_use = slots.in_use.lock();
        assert_eq!((in_use.count, in_use.sources.len()), (0, 0));
    }

    fn slots() -> ConnectionSlots {
        ConnectionSlots {
            unauthenticated: Slots::new(8, 8),
            heads: Slots::new(8, 8),
            idle: Slots::new(usize::MAX, usize::MAX),
        }
    }

    #[test]
    fn the_idle_connection_of_the_largest_workspace_is_closed() {
        let slots = slots();
        let connect = |workspace: i32| {
            let close = Close::default();
            let connection = Connection::new(source(1), close.clone(), slots.clone());
            connection.head_received();
            connection.mark_authenticated(workspace);
            (connection, close)
        };
        let (first, (second, close_second)) = ([(); 3].map(|()| connect(1)), connect(2));
        slots.idle.close_one();
        first.iter().for_each(|(connection, _)| connection.response_ready());
        second.response_ready();
        // The first connection of workspace 1 sends another request: it became idle last.
        let [(oldest, close_oldest), _, (newest, _)] = &first;
        oldest.head_received();
        oldest.response_ready();
        let closed = || first.each_ref().map(|(_, close)| close.when_idle.is_cancelled());
        assert_eq!(closed(), [false, false, false]);
        slots.idle.close_one();
        assert_eq!(closed(), [false, true, false]);
        newest.head_received();
        slots.idle.close_one();
        assert_eq!((closed(), close_second.when_idle.is_cancelled()), ([false, true, false], true));
        slots.idle.close_one();
        assert_eq!(closed(), [true, true, false]);
        assert_eq!(slots.idle.in_use.lock().count, 0);
        assert!(!close_oldest.now.is_cancelled());
    }

    #[test]
    fn a_partial_head_counts_until_it_is_complete() {
        let slots = slots();
        let connection = Connection::new(source(1), Close::default(), slots.clone());
        let in_use =
            || (slots.unauthenticated.in_use.lock().count, slots.heads.in_use.lock().count);
        connection.before_read();
        connection.after_read();
        assert_eq!(in_use(), (1, 0));
        connection.before_read();
        connection.after_read();
        assert_eq!(in_use(), (1, 1));
        connection.head_received();
        connection.before_read();
        connection.after_read();
        connection.before_read();
        assert_eq!(in_use(), (1, 0), "what comes now is the body");
        connection.response_ready();
        connection.after_read();
        connection.before_read();
        assert_eq!(in_use(), (1, 1));
        connection.mark_authenticated(1);
        connection.response_ready();
        connection.after_read();
        connection.before_read();
        assert_eq!(in_use(), (0, 0));
    }
}
