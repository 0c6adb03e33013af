//! `longshore gateway`.

use std::ffi::OsString;

use super::CommandResult;
use crate::config::Config;
use crate::listen;
use crate::telemetry::process::Process;
use server::service::{CONSOLE_LISTEN, Service};

/// Serve the API until SIGTERM or SIGINT.
///
/// Needs a log and a database that several processes can share: Kafka and PostgreSQL. On a single
/// machine, `longshore standalone` runs the gateway and the workers in one process.
#[derive(clap::Args)]
#[command(after_help = "Example:
  export LONGSHORE_DATABASE_URL=postgres://longshore@db/longshore
  export LONGSHORE_LOG_URL=kafka://kafka-1:9092,kafka-2:9092
  export LONGSHORE_OBJECTS_URL=s3://bucket/prefix?region=eu-west-1
  export LONGSHORE_PUBLIC_URL=https://longshore.example.com
  export LONGSHORE_SECRET_KEY=…
  longshore migrate && longshore gateway --listen 0.0.0.0:8080")]
pub struct Arguments {
    /// Listen address, overrides LONGSHORE_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<std::net::SocketAddr>,
}

impl Arguments {
    /// The settings of the options.
    pub fn settings(&self) -> Vec<(&'static str, OsString)> {
        self.listen.iter().map(|listen| ("LONGSHORE_LISTEN", listen.to_string().into())).collect()
    }
}

pub async fn run(config: Config, _arguments: Arguments) -> CommandResult {
    console_frame::permissions::check(&config)?;
    let listener = listen::bind(config.gateway.listen, "LONGSHORE_LISTEN").await?;
    let console = match config.console.address() {
        Some(address) => Some(listen::bind(address, CONSOLE_LISTEN).await?),
        None => None,
    };
    let service = Service::start(config, Process::gateway()).await?;
    if service.wait_until_set_up().await? && service.wait_for_lists().await? {
        let address = listener.local_addr()?;
        tracing::info!(%address, "gateway started");
        tokio::join!(service.serve(listener), service.serve_console(console));
    }
    service.stop().await;
    Ok(())
}
