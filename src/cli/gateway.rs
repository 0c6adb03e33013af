//! `longshore gateway`.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::CommandResult;
use crate::app::App;
use crate::config::{Config, Mode};
use crate::retry::{Retry as _, pause};
use crate::store::{StoreError, migrate};
use crate::{gateway, shutdown, telemetry};

/// The pause before the database is asked again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Answers the API's calls until SIGTERM or SIGINT.
///
/// Needs a log and a database that other processes can share: Kafka and PostgreSQL. Alone
/// on one machine, `longshore standalone` is the gateway and the workers in one.
#[derive(clap::Args)]
#[command(after_help = "Example:
  export LONGSHORE_DATABASE_URL=postgres://longshore@db/longshore
  export LONGSHORE_LOG_URL=kafka://kafka-1:9092,kafka-2:9092
  export LONGSHORE_SECRET_KEY=…
  longshore migrate && longshore gateway --listen 0.0.0.0:8080")]
pub struct Arguments {
    /// Where to listen, over LONGSHORE_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<std::net::SocketAddr>,
}

pub async fn run(mut config: Config, arguments: Arguments) -> CommandResult {
    config.gateway.listen = arguments.listen.unwrap_or(config.gateway.listen);
    config.check(Mode::Fleet)?;
    telemetry::init_tracing(&config)?;
    let metrics = telemetry::metrics::install()?;
    let stop = shutdown::signals()?;
    let listener = gateway::bind(config.gateway.listen, "LONGSHORE_LISTEN").await?;
    let ops_listener = gateway::bind(config.ops.listen, "LONGSHORE_OPS_LISTEN").await?;
    let app = App::open(config).await?;
    let ops = telemetry::ops::serve(app.clone(), metrics, ops_listener, stop.clone());
    let ops = tokio::spawn(ops);
    if schema_is_right(&app, &stop).await? {
        let address = listener.local_addr()?;
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "the gateway listens");
        let router = gateway::router(app.clone(), gateway::routes());
        gateway::serve(app.clone(), router, listener, stop).await;
    }
    ops.abort();
    app.log.close().await;
    app.store.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Waits for the database while it is away; an error where its schema is another, false
/// where the process is to stop before.
async fn schema_is_right(app: &App, stop: &CancellationToken) -> Result<bool, StoreError> {
    let mut attempt = 0;
    while !stop.is_cancelled() {
        match migrate::check(&app.store).await {
            Ok(()) => return Ok(true),
            Err(error) if error.can_retry() => {
                attempt += 1;
                tracing::warn!(%error, "waiting for the database");
                let pause = pause(attempt, FIRST_PAUSE, LONGEST_PAUSE);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
