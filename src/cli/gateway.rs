//! `longshore gateway`.

use super::CommandResult;
use super::service::Service;
use crate::config::{Config, Mode};
use crate::gateway;

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
    let listener = gateway::bind(config.gateway.listen, "LONGSHORE_LISTEN").await?;
    let service = Service::start(config).await?;
    if service.is_set_up().await? {
        service.serve(listener).await?;
    }
    service.stop().await;
    Ok(())
}
