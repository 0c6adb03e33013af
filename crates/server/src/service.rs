//! The life of every long-running command: start, wait for dependencies, run, stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::listen::{self, BindError};
use crate::routes::documented_routes;
use crate::setup::{self, SetupError};
use crate::shutdown;
use crate::telemetry::fleet::FleetMetrics;
use crate::telemetry::process::Process;
use crate::telemetry::{self, TelemetryError};
use crate::worker::{self, Role, WorkerError};
use gateway::workspaces;
use kit::retry::{self, Retry as _};
use runtime::app::OpenError;
use runtime::config::Config;
use runtime::credentials::FindError;
use runtime::{history, processes, traces};
use scim::tokens;

/// The first and the longest pause before a dependency is tried again.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Time from the end of the drain to the end of the process, for stopped work to return and
/// connections to close. With the default drain, the process ends before the 30 seconds of most
/// supervisors.
pub const AFTER_DRAIN: Duration = Duration::from_secs(4);

/// How long a stopping process waits for the end of its own announcement and record.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(1);

/// The setting of the console's listener.
pub const CONSOLE_LISTEN: &str = "LONGSHORE_CONSOLE_LISTEN";

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Settings(#[from] serde_json::Error),
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A process with its connections, its operations listener and its stop signal.
pub struct Service {
    pub app: App,
    pub shutdown: CancellationToken,
    fleet: FleetMetrics,
    ops: JoinHandle<std::io::Result<()>>,
    /// This process, as the others see it once it is set up.
    listed: processes::Process,
    /// Announces this process and records the history, until `stopping`.
    background: OnceLock<JoinHandle<()>>,
    stopping: CancellationToken,
}

impl Service {
    /// Opens all connections; checks nothing yet.
    pub async fn start(mut config: Config, process: Process) -> Result<Self, StartError> {
        telemetry::init_tracing(&config)?;
        let metrics = telemetry::metrics::recorder::install()?;
        let drain = Duration::from_secs(config.worker.drain_seconds);
        let shutdown = shutdown::signals(drain + AFTER_DRAIN)?;
        let listener = listen::bind(config.ops.listen, "LONGSHORE_OPS_LISTEN").await?;
        config.ops.listen = listener.local_addr()?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
        // The filter of the reference names the program, not this crate.
        tracing::debug!(target: "longshore", settings = %serde_json::to_string(&config)?, "settings read");
        config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let app = App::open(config).await?;
        let listed = processes::Process::this(process.roles());
        let fleet = FleetMetrics::default();
        let ops = telemetry::ops::serve(
            app.clone(),
            process,
            metrics,
            fleet.clone(),
            listener,
            shutdown.clone(),
        );
        let ops = tokio::spawn(ops);
        let (background, stopping) = (OnceLock::new(), CancellationToken::new());
        Ok(Self { app, shutdown, fleet, ops, listed, background, stopping })
    }

    /// Rejects an unsupported schema, and a partition count or secret key that differs from the
    /// installation's; waits for a store that is down. False if the process was asked to stop
    /// before.
    pub async fn wait_until_set_up(&self) -> Result<bool, SetupError> {
        let mut attempt = 0;
        while !self.shutdown.is_cancelled() {
            match setup::check(&self.app).await {
                Ok(schema) => {
                    if schema.is_newer() {
                        tracing::warn!("the database is {schema}");
                    }
                    return Ok(true);
                }
                Err(error) if error.can_retry() => {
                    attempt += 1;
                    tracing::warn!(%error, "waiting for the database");
                    let pause = retry::backoff(attempt, INITIAL_BACKOFF, MAX_BACKOFF);
                    retry::wait(pause, &self.shutdown).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// From now on, the process is listed among those of the installation, and records its history.
    fn announce(&self) {
        let (store, listed, stopping) =
            (self.app.store.clone(), self.listed.clone(), &self.stopping);
        let announce = processes::announce(store, listed, stopping.clone());
        let record = history::watch(self.app.runtime.clone(), stopping.clone());
        let run = async move {
            tokio::join!(announce, record);
        };
        self.background.get_or_init(|| tokio::spawn(run));
    }

    /// Reads the lists of keys, tokens and workspaces, so that valid ones need not wait for the
    /// lookups of unknown ones. Until then, connections wait in the system's queue. False if the
    /// process was asked to stop before.
    pub async fn wait_for_lists(&self) -> Result<bool, FindError> {
        let mut attempt = 0;
        while !self.shutdown.is_cancelled() {
            let app = &self.app;
            let names = async { app.known_names.read(app).await.map(drop) };
            let read = tokio::try_join!(
                workspaces::keys::read_list(app),
                tokens::read_list(&app.scim),
                names
            );
            match read {
                Ok(_) => return Ok(true),
                Err(error) if error.can_retry() => {
                    attempt += 1;
                    tracing::warn!(%error, "waiting for the list of keys");
                    let pause = retry::backoff(attempt, INITIAL_BACKOFF, MAX_BACKOFF);
                    retry::wait(pause, &self.shutdown).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Serves the API until the shutdown.
    pub async fn serve(&self, listener: TcpListener) {
        self.announce();
        let router = gateway::router(self.app.gateway.clone(), documented_routes(&self.app));
        tokio::join!(
            gateway::serve(self.app.gateway.clone(), router, listener, self.shutdown.clone()),
            gateway::idempotency::sweep_old(self.app.gateway.clone(), self.shutdown.clone()),
            telemetry::fleet::watch(self.app.clone(), self.fleet.clone(), self.shutdown.clone()),
        );
    }

    /// Serves the console until the shutdown, if it has a listener.
    pub async fn serve_console(&self, listener: Option<TcpListener>) {
        let Some(listener) = listener else { return };
        let retry = Arc::new(self.app.clone());
        let app = web_console::App::new(self.app.runtime.for_console(), retry);
        app.serve(listener, self.shutdown.clone()).await;
    }

    /// Works until the shutdown.
    pub async fn work(&self, roles: &[Role]) -> Result<(), WorkerError> {
        self.announce();
        worker::run(self.app.clone(), roles, self.shutdown.clone()).await
    }

    /// Closes the connections, the operations listener last.
    pub async fn stop(self) {
        self.stopping.cancel();
        if let Some(background) = self.background.into_inner() {
            // A transaction in progress is not dropped: the store waits for it when it closes.
            let _ = timeout(BACKGROUND_TIMEOUT, background).await;
            processes::leave(&self.app.store, self.listed.id).await;
        }
        self.app.log.close().await;
        for store in self.app.stores() {
            store.close().await;
        }
        self.ops.abort();
        traces::flush().await;
        tracing::info!("stopped");
    }
}
