//! Chooses the connections that are closed to make room for others.
//!
//! Unauthenticated connections may use a part of the places for connections, and of the memory for
//! incomplete heads. Above that, the oldest connection of the source with the most is closed:
//! clients that send their request promptly are served, however many others do not.
//!
//! An authenticated connection is closed only between two requests, and only while all places are
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

/// Places of connections by source: their network, or the workspace. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places<K = IpAddr> {
    most: usize,
    /// Of one source.
    most_of_one: usize,
    taken: Arc<Mutex<Taken<K>>>,
}

struct Taken<K> {
    count: usize,
    next: u64,
    /// By source, in the order of arrival: the tokens that close them.
    sources: HashMap<K, BTreeMap<u64, CancellationToken>>,
}

impl<K: Copy + Eq + Hash> Taken<K> {
    fn remove(&mut self, source: K, number: u64) -> Option<CancellationToken> {
        let of_source = self.sources.get_mut(&source)?;
        let close = of_source.remove(&number)?;
        self.count -= 1;
        if of_source.is_empty() {
            self.sources.remove(&source);
        }
        Some(close)
    }

    /// The oldest connection of a source, with its number.
    fn first_of(&self, source: K) -> Option<(K, u64)> {
        let (number, _) = self.sources.get(&source)?.first_key_value()?;
        Some((source, *number))
    }

    fn source_with_most(&self) -> Option<K> {
        let first = |places: &BTreeMap<u64, _>| places.first_key_value().map(|(first, _)| *first);
        let most =
            self.sources.iter().max_by_key(|(_, places)| (places.len(), Reverse(first(places))));
        most.map(|(source, _)| *source)
    }
}

impl<K: Copy + Eq + Hash> Places<K> {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        let (most, most_of_one) = (most.max(1), most_of_one.max(1));
        let taken = Taken { count: 0, next: 0, sources: HashMap::new() };
        Self { most, most_of_one, taken: Arc::new(Mutex::new(taken)) }
    }

    /// A place for a connection that `close` closes; if there are too many, another one loses its
    /// place.
    fn enter(&self, source: K, close: CancellationToken) -> Place<K> {
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.count += 1;
        let of_source = taken.sources.entry(source).or_default();
        of_source.insert(number, close);
        let loser = if of_source.len() > self.most_of_one {
            taken.first_of(source)
        } else if taken.count > self.most {
            taken.source_with_most().and_then(|source| taken.first_of(source))
        } else {
            None
        };
        let closed = loser.and_then(|(source, number)| taken.remove(source, number));
        drop(taken);
        end(closed);
        Place { places: self.clone(), source, number }
    }

    /// Whether the next connection makes another one lose its place.
    pub(super) fn is_full(&self) -> bool {
        self.taken.lock().count >= self.most
    }

    /// Closes the oldest connection of the source with the most, if any.
    pub(super) fn close_one(&self) {
        let mut taken = self.taken.lock();
        let loser = taken.source_with_most().and_then(|source| taken.first_of(source));
        let closed = loser.and_then(|(source, number)| taken.remove(source, number));
        drop(taken);
        end(closed);
    }
}

/// Closes a connection that has lost its place.
fn end(closed: Option<CancellationToken>) {
    if let Some(close) = closed {
        metrics::counter!("longshore_http_connections_closed_total").increment(1);
        close.cancel();
    }
}

/// A place until this is dropped.
struct Place<K: Copy + Eq + Hash = IpAddr> {
    places: Places<K>,
    source: K,
    number: u64,
}

impl<K: Copy + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        self.places.taken.lock().remove(self.source, self.number);
    }
}

/// The places of one listener. Cheap to clone.
#[derive(Clone)]
pub(super) struct Shares {
    /// For unauthenticated connections.
    pub unauthenticated: Places,
    /// For incomplete heads on such connections.
    pub heads: Places,
    /// Of all other connections between two requests, by workspace.
    pub idle: Places<i32>,
}

/// What closes a connection.
#[derive(Clone, Default)]
pub(super) struct Close {
    /// Immediately.
    pub now: CancellationToken,
    /// As soon as it is between two requests.
    pub when_idle: CancellationToken,
}

/// A connection, put into each request that comes on it. Cheap to clone.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    source: IpAddr,
    close: Close,
    shares: Shares,
    state: Mutex<State>,
}

enum State {
    /// Unauthenticated.
    Unknown { _place: Place, input: Input },
    Known {
        workspace: i32,
        /// Between two requests.
        _idle: Option<Place<i32>>,
    },
}

/// The state of a request's input.
enum Input {
    None,
    /// A part of its head, or all of it.
    Some,
    /// A part of its head; the rest is awaited.
    Part {
        _place: Place,
    },
    /// Its head.
    Head,
}

impl Connection {
    /// A connection from `source` that `close` closes.
    pub(super) fn new(source: IpAddr, close: Close, shares: Shares) -> Self {
        let place = shares.unauthenticated.enter(source, close.now.clone());
        let state = Mutex::new(State::Unknown { _place: place, input: Input::None });
        Self(Arc::new(Inner { source, close, shares, state }))
    }

    /// The sender of the current request is authenticated, in a workspace or the
    /// [`COMPANY`](super::COMPANY): from now on the connection is closed for others only when it is
    /// idle.
    pub fn prove(&self, workspace: i32) {
        *self.0.state.lock() = State::Known { workspace, _idle: None };
    }

    /// A head has arrived.
    pub(super) fn head_came(&self) {
        match &mut *self.0.state.lock() {
            State::Unknown { input, .. } => *input = Input::Head,
            State::Known { _idle, .. } => *_idle = None,
        }
    }

    /// The next head is awaited.
    pub(super) fn answered(&self) {
        match &mut *self.0.state.lock() {
            State::Unknown { input, .. } => *input = Input::None,
            State::Known { workspace, _idle } => {
                let when_idle = self.0.close.when_idle.clone();
                *_idle = Some(self.0.shares.idle.enter(*workspace, when_idle));
            }
        }
    }

    /// More input is requested.
    fn reads(&self) {
        if let State::Unknown { input, .. } = &mut *self.0.state.lock()
            && matches!(input, Input::Some)
        {
            // The input so far is not a complete head.
            let now = self.0.close.now.clone();
            *input = Input::Part { _place: self.0.shares.heads.enter(self.0.source, now) };
        }
    }

    fn has_read(&self) {
        if let State::Unknown { input, .. } = &mut *self.0.state.lock()
            && matches!(input, Input::None)
        {
            *input = Input::Some;
        }
    }
}

/// The input of a connection, observed.
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
        self.connection.reads();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.connection.has_read();
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
        let places = Places::new(4, 3);
        let enter = |last: u8| {
            let close = CancellationToken::new();
            (places.enter(source(last), close.clone()), close)
        };
        let one: Vec<_> = (0..3).map(|_| enter(1)).collect();
        let other = enter(2);
        assert!(one.iter().all(|(_, close)| !close.is_cancelled()));
        // Too many in all.
        let another = enter(3);
        let closed = |one: &[(Place, CancellationToken)]| {
            one.iter().map(|(_, close)| close.is_cancelled()).collect::<Vec<_>>()
        };
        assert_eq!(closed(&one), [true, false, false]);
        drop(another);
        // Too many of one, whatever room there is.
        drop(other);
        let more: Vec<_> = (0..2).map(|_| enter(1)).collect();
        assert_eq!((closed(&one), closed(&more)), (vec![true, true, false], vec![false, false]));
        drop((one, more));
        let left = places.taken.lock();
        assert_eq!((left.count, left.sources.len()), (0, 0));
    }

    fn shares() -> Shares {
        Shares {
            unauthenticated: Places::new(8, 8),
            heads: Places::new(8, 8),
            idle: Places::new(usize::MAX, usize::MAX),
        }
    }

    #[test]
    fn the_idle_connection_of_the_largest_key_is_closed() {
        let shares = shares();
        let known = |workspace: i32| {
            let close = Close::default();
            let connection = Connection::new(source(1), close.clone(), shares.clone());
            connection.head_came();
            connection.prove(workspace);
            (connection, close)
        };
        let (one, two) = ([(); 3].map(|()| known(1)), known(2));
        shares.idle.close_one();
        for (connection, _) in one.iter().chain([&two]) {
            connection.answered();
        }
        // The first connection of workspace 1 sends another request: it became idle last.
        one[0].0.head_came();
        one[0].0.answered();
        let closed = || [0, 1, 2].map(|at: usize| one[at].1.when_idle.is_cancelled());
        assert_eq!(closed(), [false, false, false]);
        shares.idle.close_one();
        assert_eq!(closed(), [false, true, false]);
        one[2].0.head_came();
        shares.idle.close_one();
        assert_eq!((closed(), two.1.when_idle.is_cancelled()), ([false, true, false], true));
        shares.idle.close_one();
        assert_eq!(closed(), [true, true, false]);
        assert_eq!(shares.idle.taken.lock().count, 0);
        assert!(!one[0].1.now.is_cancelled());
    }

    #[test]
    fn a_partial_head_counts_until_it_is_complete() {
        let shares = shares();
        let connection = Connection::new(source(1), Close::default(), shares.clone());
        let taken = || (shares.unauthenticated.taken.lock().count, shares.heads.taken.lock().count);
        connection.reads();
        connection.has_read();
        assert_eq!(taken(), (1, 0));
        connection.reads();
        connection.has_read();
        assert_eq!(taken(), (1, 1));
        connection.head_came();
        connection.reads();
        connection.has_read();
        connection.reads();
        assert_eq!(taken(), (1, 0), "what comes now is the body");
        connection.answered();
        connection.has_read();
        connection.reads();
        assert_eq!(taken(), (1, 1));
        connection.prove(1);
        connection.answered();
        connection.has_read();
        connection.reads();
        assert_eq!(taken(), (0, 0));
    }
}
