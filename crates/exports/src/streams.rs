//! The open event streams of this process: at most one for each export and client (a key, or a page
//! of the console). A new one ends the former and gets its slot, so that a client that reconnects
//! is never locked out by a connection that it has lost.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Job;
use gateway::app::App;
use gateway::{ApiError, reserve_stream};
use runtime::fairness::Reservation;

/// A stream's export and client.
type StreamKey = (Uuid, Uuid);

#[derive(Default)]
pub struct OpenStreams(Mutex<HashMap<StreamKey, OpenStream>>);

struct OpenStream {
    replaced: CancellationToken,
    slot: Reservation,
}

/// The slot of an open stream, held until this is dropped.
pub struct StreamSlot {
    streams: Arc<OpenStreams>,
    key: StreamKey,
    replaced: CancellationToken,
}

impl OpenStreams {
    /// A slot for a client's stream of an export.
    pub fn open(
        self: &Arc<Self>,
        app: &App,
        job: &Job,
        client: Uuid,
    ) -> Result<StreamSlot, ApiError> {
        self.insert((job.id, client), || reserve_stream(app, job.workspace_id))
    }

    fn insert<E>(
        self: &Arc<Self>,
        key: StreamKey,
        reserve: impl FnOnce() -> Result<Reservation, E>,
    ) -> Result<StreamSlot, E> {
        let mut streams = self.0.lock();
        let slot = match streams.remove(&key) {
            Some(former) => {
                former.replaced.cancel();
                former.slot
            }
            None => reserve()?,
        };
        let replaced = CancellationToken::new();
        streams.insert(key, OpenStream { replaced: replaced.clone(), slot });
        Ok(StreamSlot { streams: self.clone(), key, replaced })
    }
}

impl StreamSlot {
    /// Waits until another stream replaces this one.
    pub async fn replaced(&self) {
        self.replaced.cancelled().await;
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut streams = self.streams.0.lock();
        // Otherwise the entry is that of the stream that replaced this one.
        if !self.replaced.is_cancelled() {
            streams.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::fairness::{Holder, SLOT_BYTES, SharedMemory};

    #[test]
    fn a_new_stream_takes_the_slot_of_the_former() {
        let (slots, streams) = (SharedMemory::halves(SLOT_BYTES), Arc::new(OpenStreams::default()));
        let reserve = || slots.try_reserve(Holder::Workspace(1), SLOT_BYTES).ok_or(());
        let [export, other] = [(); 2].map(|()| Uuid::new_v4());
        let first = streams.insert((export, export), reserve).unwrap();
        assert!(streams.insert((other, export), reserve).is_err(), "all slots are in use");
        let second = streams.insert((export, export), reserve).unwrap();
        assert!(first.replaced.is_cancelled() && !second.replaced.is_cancelled());
        drop(first);
        assert_eq!(slots.used_and_limit().0, SLOT_BYTES, "the second one still has it");
        drop(second);
        assert_eq!(slots.used_and_limit().0, 0);
        assert!(streams.0.lock().is_empty());
    }
}
