//! The work of each role, and its domain.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Role, retention, spawn, trim};
use crate::app::App;
use content::catalogs::apply::ApplyEdits;
use deliveries::DeliveryError;
use exports::{ExportError, cleanup, finish, intake, late, part, plan, state, storage_health};
use kit::retry;
use log::Topic;
use messages::dispatch::{self, DispatchError, Engine, OrderHandler};
use people::users::sweep;
use runtime::engine::batches;
use runtime::engine::shares;
use runtime::kinds;
use runtime::topics;
use sending::erase;
use sending::schedules::fire::{self, FireError};
use sending::transactional;
use sending::transactional::send::{SendError, TransactionalSender};
use store::claims::{self, Claim, ClaimError, Kind};
use tracking::apply::Ingest;

/// Pause before a failed offer is retried.
const OFFER_PAUSE: Duration = Duration::from_secs(5);

/// Interval of queries for exports that gateways of the previous release accepted.
const CHECK_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Bytes of a batch on SQLite, whose one writer others wait for: some hundredths of a second.
const SQLITE_BATCH_BYTES: usize = 256 << 10;

/// Cleanup passes of one workspace in progress: they are not urgent.
const CLEANUPS_IN_FLIGHT: usize = 2;

/// Transactional emails in progress, if the limit of each workspace is small: limited by the
/// connections of their pool.
const TRANSACTIONAL_IN_FLIGHT: usize = 1_024;

/// Schedules of one workspace that one worker fires at the same time; each is a short transaction.
const SCHEDULES_IN_FLIGHT: usize = 4;

impl Role {
    /// Starts the role's loops.
    pub(super) fn spawn(self, app: &App, shutdown: &CancellationToken, loops: &mut JoinSet<()>) {
        retention::sweep(self, app, shutdown, loops);
        match self {
            Self::Exports => {
                spawn_batch_consumer(
                    app,
                    Role::Exports,
                    topics::EXPORTS,
                    intake::PlanExports,
                    shutdown,
                    loops,
                );
                let exports = &app.config.exports;
                let parts = match exports.parts_in_flight {
                    0 => 2 * app.cores.count(),
                    parts => parts,
                };
                let part_options = shares::Options {
                    attempts: exports.attempts,
                    pause: Duration::from_millis(exports.retry_ms),
                    ..options(app, parts)
                };
                // A plan holds a connection for minutes, so others must be left.
                let connections = app.config.database.max_connections as usize;
                let plans = app.config.worker.messages_in_flight.min(connections / 4).max(1);
                let plan_options = part_options.with_workspace_limit(plans);
                spawn_claim_consumer(app, ExportPlan(app.clone()), plan_options, shutdown, loops);
                spawn_claim_consumer(app, ExportPart(app.clone()), part_options, shutdown, loops);
                let finish_options = part_options.with_workspace_limit(parts.min(4));
                spawn_claim_consumer(
                    app,
                    ExportFinish(app.clone()),
                    finish_options,
                    shutdown,
                    loops,
                );
                let cleanup_options = options(app, CLEANUPS_IN_FLIGHT);
                spawn_claim_consumer(
                    app,
                    ExportCleanup(app.clone()),
                    cleanup_options,
                    shutdown,
                    loops,
                );
                spawn(loops, offer_plans(app.clone(), shutdown.clone()));
                spawn(loops, storage_health::watch(app.gateway.clone(), shutdown.clone()));
                spawn(loops, late::watch(app.gateway.clone(), shutdown.clone()));
            }
            Self::Ingest => {
                let ingest = Ingest::new(app).with_hooks(erase::HOOKS);
                spawn_batch_consumer(app, Role::Ingest, topics::TRACKING, ingest, shutdown, loops);
                spawn_claim_consumer(
                    app,
                    ActivitySweep(app.clone()),
                    options(app, 1),
                    shutdown,
                    loops,
                );
                spawn(loops, offer_sweeps(app.clone(), shutdown.clone()));
            }
            Self::Catalogs => {
                let handler = ApplyEdits::new(app);
                spawn_batch_consumer(
                    app,
                    Role::Catalogs,
                    topics::CATALOGS,
                    handler,
                    shutdown,
                    loops,
                );
            }
            Self::Transactional => {
                let send_options = options(app, app.config.transactional.in_flight);
                let send_options = shares::Options {
                    in_flight: send_options.in_flight.max(TRANSACTIONAL_IN_FLIGHT),
                    ..send_options
                };
                spawn_claim_consumer(
                    &app.for_transactional(),
                    Transactional(TransactionalSender::new(app)),
                    send_options,
                    shutdown,
                    loops,
                );
                spawn(
                    loops,
                    transactional::queue::run_maintenance(app.sending.clone(), shutdown.clone()),
                );
            }
            Self::Deliveries => {
                let settings = &app.config.deliveries;
                let delivery_options = shares::Options {
                    per_receiver: settings.per_receiver,
                    ..options(app, settings.in_flight)
                };
                spawn_claim_consumer(app, Delivery(app.clone()), delivery_options, shutdown, loops);
            }
            Self::Messages => {
                spawn_message_handlers(app, shutdown, loops);
                let schedule_options = options(app, SCHEDULES_IN_FLIGHT);
                spawn_claim_consumer(
                    app,
                    DueSchedule(app.clone()),
                    schedule_options,
                    shutdown,
                    loops,
                );
                spawn(loops, fire::watch_missed(app.sending.clone(), shutdown.clone()));
            }
        }
    }
}

/// Sends to listed users have separate slots, so that large sends never delay them.
fn spawn_message_handlers(app: &App, shutdown: &CancellationToken, loops: &mut JoinSet<()>) {
    spawn_batch_consumer(app, Role::Messages, topics::MESSAGES, OrderHandler, shutdown, loops);
    let settings = &app.config.messages;
    let parts = match settings.parts_in_flight {
        0 => 2 * app.cores.count(),
        parts => parts,
    };
    let with_in_flight = |in_flight| shares::Options {
        pause: Duration::from_millis(settings.retry_ms),
        ..options(app, in_flight)
    };
    let engine = Arc::new(Engine::new(app));
    spawn_claim_consumer(app, DispatchPlan(app.clone()), with_in_flight(2), shutdown, loops);
    spawn_claim_consumer(app, DispatchPart(engine.clone()), with_in_flight(parts), shutdown, loops);
    let named = with_in_flight(settings.named_in_flight);
    spawn_claim_consumer(app, DispatchNamed(engine), named, shutdown, loops);
}

/// Applies the messages of a topic in batches, exactly once.
fn spawn_batch_consumer(
    app: &App,
    role: Role,
    topic: Topic,
    handler: impl batches::Handler,
    shutdown: &CancellationToken,
    loops: &mut JoinSet<()>,
) {
    let group = role.name();
    let mut options = batches::Options::new(&app.config);
    if !app.store.is_postgres() {
        options.limits.bytes = options.limits.bytes.min(SQLITE_BATCH_BYTES);
    }
    let (consumer_app, stop) = (app.clone(), shutdown.clone());
    spawn(loops, async move {
        batches::run(&consumer_app, group, topic, handler, options, stop).await;
    });
    spawn(loops, trim::trim_periodically(app.clone(), group, topic, shutdown.clone()));
}

/// Options for work without a limit of attempts, with this many rows of one workspace in progress.
fn options(app: &App, per_workspace: usize) -> shares::Options {
    shares::Options {
        in_flight: per_workspace,
        per_workspace,
        per_receiver: u32::MAX,
        attempts: u32::MAX,
        pause: Duration::from_secs(1),
        lease: app.config.lease(),
        poll: Duration::from_millis(app.config.worker.poll_ms),
        drain: Duration::from_secs(app.config.worker.drain_seconds),
    }
    .with_workspace_limit(per_workspace)
}

/// Takes the runtime's app, to which every `App` derefs.
fn spawn_claim_consumer(
    app: &runtime::app::App,
    handler: impl shares::Handler,
    options: shares::Options,
    shutdown: &CancellationToken,
    loops: &mut JoinSet<()>,
) {
    let consumer = shares::run(app.store.clone(), handler.into(), options, shutdown.clone());
    spawn(loops, consumer);
}

/// Offers the planning of exports that gateways of the previous release accept.
async fn offer_plans(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let pause = match intake::offer_missing(&app).await {
            Ok(_) => CHECK_INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "cannot query waiting exports");
                OFFER_PAUSE
            }
        };
        retry::wait(pause, &shutdown).await;
    }
}

/// Schedules the sweep of every slice.
async fn offer_sweeps(app: App, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        match sweep::offer(&app.store).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "cannot delete old activity; retrying"),
        }
        retry::wait(OFFER_PAUSE, &shutdown).await;
    }
}

struct Transactional(TransactionalSender);

impl shares::Handler for Transactional {
    type Error = SendError;
    const KIND: Kind = kinds::TRANSACTIONAL;

    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), SendError> {
        self.0.handle(claim).await
    }

    async fn give_up(&self, claim: &Claim, _: Option<&SendError>) -> Result<(), ClaimError> {
        self.0.give_up(claim).await
    }
}

struct ExportPlan(App);

impl shares::Handler for ExportPlan {
    type Error = ExportError;
    const KIND: Kind = kinds::EXPORT_PLAN;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        plan::plan(&self.0, claim, stop).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct ExportPart(App);

impl shares::Handler for ExportPart {
    type Error = ExportError;
    const KIND: Kind = kinds::EXPORT_PART;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        storage_health::noted(&self.0, claim, part::run(&self.0, claim, stop)).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct ExportFinish(App);

impl shares::Handler for ExportFinish {
    type Error = ExportError;
    const KIND: Kind = kinds::EXPORT_FINISH;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ExportError> {
        storage_health::noted(&self.0, claim, finish::finish(&self.0, claim, stop)).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&ExportError>) -> Result<(), ClaimError> {
        state::give_up(&self.0, claim, error).await
    }
}

struct ExportCleanup(App);

impl shares::Handler for ExportCleanup {
    type Error = ClaimError;
    const KIND: Kind = kinds::EXPORT_CLEANUP;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
        cleanup::clean(&self.0, claim, stop).await
    }

    /// The work reschedules itself or ends. This runs only after a permanent error, such as an
    /// unreadable row: retry later.
    async fn give_up(&self, claim: &Claim, _: Option<&ClaimError>) -> Result<(), ClaimError> {
        claims::release(&self.0.store, claim, shares::MAX_BACKOFF).await
    }
}

struct Delivery(App);

impl shares::Handler for Delivery {
    type Error = DeliveryError;
    const KIND: Kind = kinds::DELIVERY;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), DeliveryError> {
        deliveries::run(&self.0, &self.0.messages, claim, stop).await
    }

    /// The work reschedules itself or ends. This runs only after a permanent error, such as an
    /// unreadable row: retry later, until the delivery's deadline.
    async fn give_up(
        &self,
        claim: &Claim,
        error: Option<&DeliveryError>,
    ) -> Result<(), ClaimError> {
        let reason = error.map_or_else(|| "the work ended its worker".into(), ToString::to_string);
        deliveries::give_up_after_deadline(&self.0, claim, &reason, shares::MAX_BACKOFF).await
    }
}

struct DueSchedule(App);

impl shares::Handler for DueSchedule {
    type Error = FireError;
    const KIND: Kind = kinds::SCHEDULE;

    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), FireError> {
        fire::fire(&self.0, claim).await
    }

    async fn give_up(&self, claim: &Claim, error: Option<&FireError>) -> Result<(), ClaimError> {
        fire::give_up(&self.0, claim, error).await
    }
}

struct ActivitySweep(App);

impl shares::Handler for ActivitySweep {
    type Error = ClaimError;
    const KIND: Kind = kinds::ACTIVITY_SWEEP;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), ClaimError> {
        sweep::sweep(&self.0, claim, stop).await
    }

    /// The work reschedules itself. This runs only after a permanent error, such as an unreadable
    /// row: retry later.
    async fn give_up(&self, claim: &Claim, _: Option<&ClaimError>) -> Result<(), ClaimError> {
        claims::release(&self.0.store, claim, shares::MAX_BACKOFF).await
    }
}

struct DispatchPlan(App);

impl shares::Handler for DispatchPlan {
    type Error = DispatchError;
    const KIND: Kind = kinds::DISPATCH_PLAN;

    async fn handle(&self, claim: &Claim, _: &CancellationToken) -> Result<(), DispatchError> {
        dispatch::plan(&self.0, claim).await
    }

    async fn give_up(
        &self,
        claim: &Claim,
        error: Option<&DispatchError>,
    ) -> Result<(), ClaimError> {
        dispatch::give_up_plan(&self.0, claim, error).await
    }
}

struct DispatchPart(Arc<Engine>);

impl shares::Handler for DispatchPart {
    type Error = DispatchError;
    const KIND: Kind = kinds::DISPATCH_PART;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), DispatchError> {
        dispatch::run_part(&self.0, claim, stop).await
    }

    async fn give_up(
        &self,
        claim: &Claim,
        error: Option<&DispatchError>,
    ) -> Result<(), ClaimError> {
        dispatch::give_up_part(&self.0.app, claim, error).await
    }
}

struct DispatchNamed(Arc<Engine>);

impl shares::Handler for DispatchNamed {
    type Error = DispatchError;
    const KIND: Kind = kinds::DISPATCH_NAMED;

    async fn handle(&self, claim: &Claim, stop: &CancellationToken) -> Result<(), DispatchError> {
        dispatch::run_part(&self.0, claim, stop).await
    }

    async fn give_up(
        &self,
        claim: &Claim,
        error: Option<&DispatchError>,
    ) -> Result<(), ClaimError> {
        dispatch::give_up_part(&self.0.app, claim, error).await
    }
}
