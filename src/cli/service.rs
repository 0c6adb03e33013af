//! The life of every long-running command: start, wait for dependencies, run, stop.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::CommandResult;
use crate::app::App;
use crate::config::Config;
use crate::credentials::FindError;
use crate::gateway::Routes;
use crate::scim::tokens;
use crate::setup::{self, SetupError};
use crate::telemetry::fleet::FleetMetrics;
use crate::telemetry::process::Process;
use crate::worker::{self, Role, WorkerError};
use crate::{
    campaigns, catalogs, exports, gateway, messages, schedules, scim, shutdown, sms, telemetry,
    traces, tracking, workspaces,
};
use crate::{dead_letters, deliveries, inbound, transactional, user_messages};
use kit::retry::{self, Retry as _};

/// The first and the longest pause before a dependency is tried again.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Time from the end of the drain to the end of the process, for stopped work to return and
/// connections to close. With the default drain, the process ends before the 30 seconds of most
/// supervisors.
pub const AFTER_DRAIN: Duration = Duration::from_secs(4);

/// The setting of the console's listener.
pub const CONSOLE_LISTEN: &str = "LONGSHORE_CONSOLE_LISTEN";

/// Every route of the API. Without an app they can be described, but not served.
pub fn routes(app: Option<&App>) -> Routes {
    let gateway = app.map(|app| &app.gateway);
    let exports = app.map(|app| &app.exports);
    let content = app.map(|app| &app.content);
    let messages = app.map(|app| &app.messages);
    let sending = app.map(|app| &app.sending);
    let scim = app.map(|app| &app.scim);
    Routes::new()
        .merge(tracking::api::routes().with_app(messages))
        .merge(exports::api::request_routes().with_app(exports))
        .merge(exports::api::routes().with_app(gateway))
        .merge(exports::events::routes().with_app(exports))
        .merge(exports::segments::routes().with_app(exports))
        .merge(catalogs::api::routes().with_app(content))
        .merge(schedules::api::routes().with_app(sending))
        .merge(campaigns::api::routes().with_app(content))
        .merge(transactional::api::routes().with_app(sending))
        .merge(messages::api::routes().with_app(messages))
        .merge(sms::api::routes().with_app(content))
        .merge(inbound::api::routes().with_app(sending))
        .merge(user_messages::routes().with_app(sending))
        .merge(deliveries::api::routes().with_app(gateway))
        .merge(dead_letters::api::routes().with_app(app))
        .merge(scim::api::routes().with_extension(scim).with_app(scim))
}

/// [`routes`], and those that serve their description.
pub fn documented_routes(app: &App) -> Routes {
    let openapi_30 = include_str!("../../docs/reference/openapi-3.0.json");
    routes(Some(app)).documented(&app.config, openapi_30)
}

/// A process with its connections, its operations listener and its stop signal.
pub struct Service {
    pub app: App,
    pub shutdown: CancellationToken,
    pub ops_address: SocketAddr,
    fleet: FleetMetrics,
    ops: JoinHandle<std::io::Result<()>>,
}

impl Service {
    /// Opens all connections; checks nothing yet.
    pub async fn start(config: Config, process: Process) -> CommandResult<Self> {
        telemetry::init_tracing(&config)?;
        let metrics = telemetry::metrics::recorder::install()?;
        let drain = Duration::from_secs(config.worker.drain_seconds);
        let shutdown = shutdown::signals(drain + AFTER_DRAIN)?;
        let listener = gateway::bind(config.ops.listen, "LONGSHORE_OPS_LISTEN").await?;
        let ops_address = listener.local_addr()?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
        tracing::debug!(settings = %serde_json::to_string(&config)?, "settings read");
        config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let app = App::open(config).await?;
        let fleet = FleetMetrics::default();
        let ops = telemetry::ops::serve(
            app.clone(),
            process,
            metrics,
            fleet.clone(),
            listener,
            shutdown.clone(),
        );
        Ok(Self { app, shutdown, ops_address, fleet, ops: tokio::spawn(ops) })
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
        let app = web_console::App::new(self.app.runtime.for_console());
        web_console::serve::serve(app, listener, self.shutdown.clone()).await;
    }

    /// Works until the shutdown.
    pub async fn work(&self, roles: &[Role]) -> Result<(), WorkerError> {
        worker::run(self.app.clone(), roles, self.shutdown.clone()).await
    }

    /// Closes the connections, the operations listener last.
    pub async fn stop(self) {
        self.app.log.close().await;
        self.app.store.close().await;
        self.app.reserved.store.close().await;
        self.app.console.store.close().await;
        self.ops.abort();
        traces::flush().await;
        tracing::info!("stopped");
    }
}
