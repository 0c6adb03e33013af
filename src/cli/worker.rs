//! `longshore worker`.

use super::CommandResult;
use crate::config::Config;
use crate::telemetry::process::Process;
use crate::worker::Role;
use server::service::Service;

/// Process work from the log and the store of a fleet; run any number of workers. On SIGTERM it
/// finishes its work or returns it to the queue.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  longshore worker --roles exports,deliveries")]
pub struct Arguments {
    /// Roles of this worker [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLE,…")]
    roles: Vec<Role>,
}

impl Arguments {
    pub fn roles(&self) -> &[Role] {
        if self.roles.is_empty() { &Role::ALL } else { &self.roles }
    }
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let roles = arguments.roles();
    let service = Service::start(config, Process::worker(roles)).await?;
    let mut result = Ok(());
    if service.wait_until_set_up().await? {
        tracing::info!(?roles, "worker started");
        result = service.work(roles).await;
    }
    service.stop().await;
    Ok(result?)
}
