//! Which roles run, message to domain, claims to domain, drain.

pub mod messages;
mod roles;
mod rows;
pub mod shares;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::app::App;

/// A kind of work that a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Role {
    /// Plans exports, writes their files, finishes them.
    Exports,
    /// Sends callbacks.
    Deliveries,
}

impl Role {
    pub const ALL: [Self; 2] = [Self::Exports, Self::Deliveries];
}

/// Works until `shutdown`, then finishes or hands back what is under way, within
/// `worker.drain_seconds`.
pub async fn run(app: App, roles: &[Role], shutdown: CancellationToken) {
    tracing::info!(?roles, "the worker takes work");
    let mut loops = JoinSet::new();
    for role in roles {
        role.spawn(&app, &shutdown, &mut loops);
    }
    while let Some(ended) = loops.join_next().await {
        if let Err(panic) = ended {
            // Work itself may panic without harm; a loop that does is a fault of this
            // program, and a worker that lost one must not look as if all were well.
            tracing::error!(%panic, "a loop of the worker ended; stopping");
            shutdown.cancel();
        }
    }
}

/// Spawns a loop with the current span.
fn spawn(loops: &mut JoinSet<()>, work: impl Future<Output = ()> + Send + 'static) {
    loops.spawn(work.in_current_span());
}
