//! What workers delete once it is old, and how often they look.
//!
//! What else is deleted once it is old:
//!
//! | what | by |
//! |---|---|
//! | idempotency claims | the gateway: [`idempotency`](crate::gateway::idempotency) |
//! | activity, and who was erased | claims, a slice of users each: [`sweep`](crate::users::sweep) |
//! | objects of exports | claims, an export each: [`cleanup`](crate::exports::cleanup) |
//! | ids of messages | each partition's consumer, by the time of what it reads: [`log::message_ids`] |
//! | messages of the log | [`trim`](super::trim) |

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Role, spawn};
use crate::app::App;
use crate::messages::channels::cards;
use crate::messages::dispatch;
use crate::{catalogs, transactional};
use kit::retry;
use store::StoreError;

/// Old rows of one domain, which says for how long they are kept.
struct Sweep {
    role: Role,
    every: Duration,
    failed: &'static str,
    pass: for<'a> fn(&'a App, &'a CancellationToken) -> BoxFuture<'a, Result<(), StoreError>>,
}

const SWEEPS: [Sweep; 4] = [
    Sweep {
        role: Role::Catalogs,
        every: Duration::from_secs(600),
        failed: "old records of catalog edits cannot be deleted yet",
        pass: |app, stop| Box::pin(catalogs::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Messages,
        every: Duration::from_secs(600),
        failed: "old dispatches cannot be deleted yet",
        pass: |app, stop| Box::pin(dispatch::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Messages,
        every: Duration::from_secs(60),
        failed: "expired content cards cannot be deleted yet",
        pass: |app, stop| Box::pin(cards::sweep(app, stop)),
    },
    Sweep {
        role: Role::Transactional,
        every: Duration::from_secs(60),
        failed: "old transactional emails cannot be deleted yet",
        pass: |app, stop| Box::pin(transactional::queue::sweep(app, stop)),
    },
];

/// Starts the sweeps of a role.
pub(super) fn sweep(role: Role, app: &App, shutdown: &CancellationToken, loops: &mut JoinSet<()>) {
    for Sweep { every, failed, pass, .. } in SWEEPS.into_iter().filter(|sweep| sweep.role == role) {
        let (app, stop) = (app.clone(), shutdown.clone());
        spawn(
            loops,
            async move { retry::repeat(every, &stop, failed, || pass(&app, &stop)).await },
        );
    }
}
