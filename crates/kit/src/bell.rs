//! Wakes the loops of this process.

use tokio::sync::watch;

/// Rung when something was done, since that may have offered new rows: loops of the same
/// process look at once instead of at their next poll.
#[derive(Clone)]
pub struct Bell(watch::Sender<()>);

impl Default for Bell {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Bell {
    pub fn ring(&self) {
        self.0.send_replace(());
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}
