//! Runs the roles of a worker: passes messages and claims to their domains, and drains at the end.

mod retention;
mod roles;
mod trim;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use kit::retry::Retry;
use runtime::engine::spawn;

kit::named! {
    /// A kind of work that a worker does.
    #[derive(Hash, clap::ValueEnum)]
    pub enum Role {
        /// Plans exports, writes their files, finishes them.
        Exports = "exports",
        /// Sends callbacks, postbacks and notifications.
        Deliveries = "deliveries",
        /// Applies attributes, events and purchases.
        Ingest = "ingest",
        /// Applies edits of catalogs.
        Catalogs = "catalogs",
        /// Sends messages, transactional emails too.
        Messages = "messages",
        /// Sends only transactional emails.
        Transactional = "transactional",
    }
}

impl Role {
    /// All roles that a worker with these roles has: the role of all messages includes
    /// transactional emails.
    pub fn with_included(roles: &[Self]) -> impl Iterator<Item = Self> {
        let is_included = |role| role == Self::Transactional && roles.contains(&Self::Messages);
        Self::ALL.into_iter().filter(move |role| is_included(*role) || roles.contains(role))
    }
}

/// A loop of the worker panicked. A panic in the work itself is harmless; this one is a bug, and a
/// worker that lost a loop must not seem healthy.
#[derive(Debug, thiserror::Error)]
#[error("a worker task ended, so the worker stopped: {0}")]
pub struct WorkerError(String);

impl Retry for WorkerError {}

/// Works until `shutdown`, then finishes or returns the work in progress, within
/// `worker.drain_seconds`. If a loop is lost, it cancels `shutdown` itself.
pub async fn run(app: App, roles: &[Role], shutdown: CancellationToken) -> Result<(), WorkerError> {
    let mut loops = JoinSet::new();
    let (wake, stop) = (app.store.wake().clone(), shutdown.clone());
    spawn(&mut loops, async move { wake.listen(stop).await });
    Role::with_included(roles).for_each(|role| role.spawn(&app, &shutdown, &mut loops));
    watch(loops, &shutdown).await
}

async fn watch(mut loops: JoinSet<()>, shutdown: &CancellationToken) -> Result<(), WorkerError> {
    let mut result = Ok(());
    while let Some(ended) = loops.join_next().await {
        if let Err(panic) = ended {
            tracing::error!(%panic, "a worker task ended; stopping");
            shutdown.cancel();
            result = Err(WorkerError(panic.to_string()));
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn roles_have_the_names_of_the_command_line() {
        for role in Role::ALL {
            assert_eq!(role.to_possible_value().unwrap().get_name(), role.name());
        }
    }

    #[tokio::test]
    async fn a_panicking_loop_is_reported_and_stops_the_others() {
        let (mut loops, shutdown) = (JoinSet::new(), CancellationToken::new());
        let other = shutdown.clone();
        spawn(&mut loops, async move { other.cancelled().await });
        spawn(&mut loops, async { panic!("as told") });
        let error = watch(loops, &shutdown).await.unwrap_err().to_string();
        assert!(error.contains("as told"), "{error}");
    }
}
