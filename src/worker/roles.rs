//! What each role takes, and which domain does it.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::messages::{self, Handler};
use super::shares::{self, Bell, Terms, Work};
use super::{Role, spawn};
use crate::app::App;
use crate::claims::{Claim, ClaimError, Kind};
use crate::deliveries::{self, DeliveryError};
use crate::exports::{ExportError, Failure, cleanup, finish, part, plan, requeue, state};
use crate::log::{Message, Topic};

/// Between looks for exports that wait too long to be planned.
const REQUEUE_EVERY: Duration = Duration::from_secs(5);

/// Passes of removal under way at once: they are no hurry.
const CLEANUPS_IN_FLIGHT: usize = 2;

impl Role {
    /// Starts the role's loops.
    pub(super) fn spawn(self, app: &App, shutdown: &CancellationToken, loops: &mut JoinSet<()>) {
        let bell = &app.bell;
        match self {
            Self::Exports => {
                let planner = Plan { app: app.clone() };
                let (app2, stop) = (app.clone(), shutdown.clone());
                spawn(loops, async move {
                    messages::run(&app2, "exports", Topic::Exports, planner, stop).await;
                });
                let exports = &app.config.exports;
                let parts = match exports.parts_in_flight {
                    0 => 2 * app.cores.count(),
                    set => set,
                };
                let retried = Terms {
                    attempts: exports.attempts,
                    pause: Duration::from_millis(exports.retry_ms),
                    ..terms(app, parts)
                };
                share(app, ExportPart(app.clone()), retried, bell, shutdown, loops);
                let few = Terms { in_flight: parts.min(4), ..retried };
                share(app, ExportFinish(app.clone()), few, bell, shutdown, loops);
                let terms = terms(app, CLEANUPS_IN_FLIGHT);
                share(app, ExportCleanup(app.clone()), terms, bell, shutdown, loops);
                spawn(loops, requeue_waiting(app.clone(), shutdown.clone()));
            }
            Self::Deliveries => {
                let settings = &app.config.deliveries;
                let terms =
                    Terms { per_job: settings.per_receiver, ..terms(app, settings.in_flight) };
                share(app, Delivery(app.clone()), terms, bell, shutdown, loops);
            }
        }
    }
}

/// Terms for work that comes to an end by itself, however often it must be tried.
fn terms(app: &App, in_flight: usize) -> Terms {
    Terms {
        in_flight,
        per_job: u32::MAX,
        attempts: u32::MAX,
        pause: Duration::from_secs(1),
        lease: app.config.lease(),
        poll: Duration::from_millis(app.config.worker.poll_ms),
        drain: Duration::from_secs(app.config.worker.drain_seconds),
    }
}

fn share(
    app: &App,
    work: impl Work,
    terms: Terms,
    bell: &Bell,
    shutdown: &CancellationToken,
    loops: &mut JoinSet<()>,
) {
    spawn(
        loops,
        shares::run(app.store.clone(), work.into(), terms, bell.clone(), shutdown.clone()),
    );
}

/// Appends the messages of exports again that wait too long.
async fn requeue_waiting(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = requeue::requeue(&app).await {
            tracing::warn!(%error, "cannot look for exports that wait");
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(REQUEUE_EVERY) => {}
        }
    }
}

/// A message of [`Topic::Exports`]: a job that waits to be planned.
struct Plan {
    app: App,
}

impl Handler for Plan {
    type Error = ExportError;

    async fn handle(&self, message: &Message) -> Result<(), ExportError> {
        let Some(job) = requeue::job_of(message) else {
            let failure = Failure::internal("the message names no export");
            return Err(ExportError::Permanent(failure));
        };
        plan::plan(&self.app, job).await?;
        self.app.bell.ring();
        Ok(())
    }
}

struct ExportPart(App);

impl Work for ExportPart {
    type Error = ExportError;
    const KIND: Kind = Kind::ExportPart;

    async fn run(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        part::run(&self.0, claim, stop).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct ExportFinish(App);

impl Work for ExportFinish {
    type Error = ExportError;
    const KIND: Kind = Kind::ExportFinish;

    async fn run(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        finish::finish(&self.0, claim, stop).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct ExportCleanup(App);

impl Work for ExportCleanup {
    type Error = ClaimError;
    const KIND: Kind = Kind::ExportCleanup;

    async fn run(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
        cleanup::clean(&self.0, claim, stop).await
    }

    /// Cleaning puts itself off or ends; what cannot even be looked up comes again.
    async fn give_up(&self, claim: &Claim, _: Option<&ClaimError>) -> Result<(), ClaimError> {
        come_again(&self.0, claim).await
    }
}

struct Delivery(App);

impl Work for Delivery {
    type Error = DeliveryError;
    const KIND: Kind = Kind::Delivery;

    async fn run(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), DeliveryError> {
        deliveries::run(&self.0, claim, stop).await
    }

    /// A delivery puts itself off or ends; what cannot even be looked up comes again.
    async fn give_up(&self, claim: &Claim, _: Option<&DeliveryError>) -> Result<(), ClaimError> {
        come_again(&self.0, claim).await
    }
}

/// Leaves a row that must not be forgotten to a later try.
async fn come_again(app: &App, claim: &Claim) -> Result<(), ClaimError> {
    let mut tx = app.store.write().await?;
    crate::claims::put_off(&mut tx, claim, shares::LONGEST_PAUSE).await?;
    Ok(tx.commit().await?)
}
