//! Old data that workers delete or complete, and how often.
//!
//! Other old data:
//!
//! | what | by |
//! |---|---|
//! | idempotency claims | the gateway: [`idempotency`](gateway::idempotency) |
//! | sessions and sign-in links | the process with the console: [`session`](console_frame::session) |
//! | activity, and records of erasures | claims, a slice of users each: [`sweep`](people::users::sweep) |
//! | objects of exports | claims, an export each: [`cleanup`](exports::cleanup) |
//! | ids of messages | each partition's consumer, by the time of the messages that it reads: [`log::message_ids`] |
//! | messages of the log | [`trim`](super::trim) |
//!
//! The control groups that a workspace had are kept for ever, because `control-group activate`
//! offers each of them.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Role, spawn};
use crate::app::App;
use content::catalogs;
use kit::retry;
use messages::channels::cards;
use messages::dispatch;
use people::users::moment;
use runtime::audit;
use runtime::engine::batches::dead_letters;
use runtime::history;
use sending::{schedules, transactional};
use store::StoreError;

/// Work on old rows of one domain, which defines how long they are kept.
struct Sweep {
    role: Role,
    every: Duration,
    failed: &'static str,
    pass: for<'a> fn(&'a App, &'a CancellationToken) -> BoxFuture<'a, Result<(), StoreError>>,
}

const SWEEPS: [Sweep; 12] = [
    Sweep {
        role: Role::Ingest,
        every: Duration::from_secs(3_600),
        failed: "cannot delete old rows of the history; retrying",
        pass: |app, stop| Box::pin(history::sweep(&app.store, stop)),
    },
    Sweep {
        role: Role::Ingest,
        every: Duration::from_secs(3_600),
        failed: "cannot delete old entries of the audit log; retrying",
        pass: |app, stop| Box::pin(audit::sweep(app, stop)),
    },
    Sweep {
        role: Role::Ingest,
        every: Duration::from_secs(24 * 3_600),
        failed: "cannot delete earlier starts of the database server; retrying",
        pass: |app, stop| Box::pin(moment::sweep(&app.store, stop)),
    },
    Sweep {
        role: Role::Exports,
        every: Duration::from_secs(3_600),
        failed: "cannot delete old exports; retrying",
        pass: |app, stop| Box::pin(exports::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Exports,
        every: Duration::from_secs(3_600),
        failed: "cannot delete replaced settings of storages; retrying",
        pass: |app, stop| Box::pin(exports::sweep::sweep_settings(app, stop)),
    },
    Sweep {
        role: Role::Catalogs,
        every: Duration::from_secs(600),
        failed: "cannot delete old records of catalog edits; retrying",
        pass: |app, stop| Box::pin(catalogs::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Ingest,
        every: Duration::from_secs(60),
        failed: "cannot determine the workspaces of dead letters; retrying",
        pass: |app, stop| Box::pin(dead_letters::determine_workspaces(&app.store, stop)),
    },
    Sweep {
        role: Role::Messages,
        every: Duration::from_secs(600),
        failed: "cannot delete old dispatches; retrying",
        pass: |app, stop| Box::pin(dispatch::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Messages,
        every: Duration::from_secs(3_600),
        failed: "cannot delete old schedules or remove users from schedules; retrying",
        pass: |app, stop| Box::pin(schedules::sweep::sweep(app, stop)),
    },
    Sweep {
        role: Role::Messages,
        every: Duration::from_secs(60),
        failed: "cannot delete expired content cards; retrying",
        pass: |app, stop| Box::pin(cards::sweep(app, stop)),
    },
    Sweep {
        role: Role::Transactional,
        every: Duration::from_secs(60),
        failed: "cannot delete old transactional emails; retrying",
        pass: |app, stop| Box::pin(transactional::queue::sweep(app, stop)),
    },
    Sweep {
        role: Role::Deliveries,
        every: Duration::from_secs(60),
        failed: "cannot delete old deliveries; retrying",
        pass: |app, stop| Box::pin(deliveries::sweep(app, stop)),
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
