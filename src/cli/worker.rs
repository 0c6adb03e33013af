//! `longshore worker`.

use super::CommandResult;
use crate::config::Config;

#[derive(clap::Args)]
pub struct Arguments {}

pub async fn run(_config: Config, _arguments: Arguments) -> CommandResult {
    Err("not built yet".into())
}
