//! Connections on which nobody has proved yet who they are.
//!
//! They have some of the places for connections, and of the memory for heads of requests that are
//! not there yet. Where that is not enough, the one that came first of those that have most is
//! closed: whoever sends what they have to say at once is served, however many do not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Places that connections have by where they come from. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places {
    most: usize,
    /// Of one source.
    most_of_one: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    count: usize,
    next: u64,
    /// By their sources, in the order in which they came: what closes them.
    sources: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

impl Taken {
    fn remove(&mut self, source: IpAddr, number: u64) -> Option<CancellationToken> {
        let of_source = self.sources.get_mut(&source)?;
        let close = of_source.remove(&number)?;
        self.count -= 1;
        if of_source.is_empty() {
            self.sources.remove(&source);
        }
        Some(close)
    }

    /// The first of a source, by its number.
    fn first_of(&self, source: IpAddr) -> Option<(IpAddr, u64)> {
        let (number, _) = self.sources.get(&source)?.first_key_value()?;
        Some((source, *number))
    }

    fn source_with_most(&self) -> Option<IpAddr> {
        let first = |places: &BTreeMap<u64, _>| places.first_key_value().map(|(first, _)| *first);
        let most =
            self.sources.iter().max_by_key(|(_, places)| (places.len(), Reverse(first(places))));
        most.map(|(source, _)| *source)
    }
}

impl Places {
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        let (most, most_of_one) = (most.max(1), most_of_one.max(1));
        Self { most, most_of_one, taken: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Nothing panics while it has the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that `close` closes; another one loses its place where there are
    /// too many.
    fn enter(&self, source: IpAddr, close: CancellationToken) -> Place {
        let mut taken = self.lock();
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
        if let Some(close) = closed {
            metrics::counter!("longshore_http_connections_closed_total").increment(1);
            close.cancel();
        }
        Place { places: self.clone(), source, number }
    }
}

/// A place until this is dropped.
struct Place {
    places: Places,
    source: IpAddr,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().remove(self.source, self.number);
    }
}

/// A connection, put into each request that comes on it. Cheap to clone.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    source: IpAddr,
    close: CancellationToken,
    /// For heads that have begun.
    heads: Places,
    state: Mutex<State>,
}

enum State {
    /// Nobody has proved who they are.
    Unknown {
        _place: Place,
        input: Input,
    },
    Known,
}

/// What has come of a request.
enum Input {
    None,
    /// Part of its head, or all of it.
    Some,
    /// Part of its head, and the rest is waited for.
    Part {
        _place: Place,
    },
    /// Its head.
    Head,
}

impl Connection {
    /// One that has come from `source`, and is closed when `close` is cancelled.
    pub(super) fn new(
        source: IpAddr,
        close: CancellationToken,
        connections: &Places,
        heads: &Places,
    ) -> Self {
        let place = connections.enter(source, close.clone());
        let state = State::Unknown { _place: place, input: Input::None };
        Self(Arc::new(Inner { source, close, heads: heads.clone(), state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its sender has proved who they are: it is closed for no others from now on.
    pub fn prove(&self) {
        *self.lock() = State::Known;
    }

    /// A head is there.
    pub(super) fn head_came(&self) {
        if let State::Unknown { input, .. } = &mut *self.lock() {
            *input = Input::Head;
        }
    }

    /// The next head is waited for.
    pub(super) fn answered(&self) {
        if let State::Unknown { input, .. } = &mut *self.lock() {
            *input = Input::None;
        }
    }

    /// More is asked for.
    fn reads(&self) {
        if let State::Unknown { input, .. } = &mut *self.lock()
            && matches!(input, Input::Some)
        {
            // What has come was no whole head.
            *input =
                Input::Part { _place: self.0.heads.enter(self.0.source, self.0.close.clone()) };
        }
    }

    fn has_read(&self) {
        if let State::Unknown { input, .. } = &mut *self.lock()
            && matches!(input, Input::None)
        {
            *input = Input::Some;
        }
    }
}

/// What comes on a connection, seen by it.
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
    fn the_first_of_those_that_have_most_is_closed() {
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
        let left = places.lock();
        assert_eq!((left.count, left.sources.len()), (0, 0));
    }

    #[test]
    fn a_head_in_parts_takes_a_place_until_it_is_there() {
        let (connections, heads) = (Places::new(8, 8), Places::new(8, 8));
        let close = CancellationToken::new();
        let connection = Connection::new(source(1), close, &connections, &heads);
        let taken = || (connections.lock().count, heads.lock().count);
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
        connection.prove();
        connection.answered();
        connection.has_read();
        connection.reads();
        assert_eq!(taken(), (0, 0));
    }
}
