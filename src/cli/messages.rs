//! `longshore messages`: the messages of a user.

use uuid::Uuid;

use super::dispatches::dispatch_id;
use super::{CommandResult, UserArgument, print};
use crate::config::Config;
use crate::messages::dispatch::{self, UserMessage};
use kit::clock::format_seconds;

#[derive(clap::Args)]
#[command(after_help = "Transactional emails are not included: see `dispatches show`.

Example:
  longshore messages ann@acme.example --limit 20 --json")]
pub struct Arguments {
    #[command(flatten)]
    user: UserArgument,
    /// Only messages of this dispatch_id
    #[arg(long, value_name = "ID", value_parser = dispatch_id)]
    dispatch: Option<Uuid>,
    /// Maximum number of messages, latest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// List the latest messages of a user, whatever their outcome.
pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let (workspace, user) = arguments.user.find(&mut tx).await?;
    let Arguments { dispatch, limit, json, .. } = arguments;
    let messages = dispatch::list_for_user(&mut tx, (workspace, user), dispatch, limit).await?;
    tx.commit().await?;
    let heading = format!(
        "{:<32}  {:<13}  {:<11}  {:>5}  {:<20}  {:<20}  {:<20}  REASON",
        "DISPATCH", "CHANNEL", "STATE", "TRIES", "CREATED", "NEXT TRY", "SENT"
    );
    print::rows(json, &heading, &messages, line)
}

fn line(message: &UserMessage) -> String {
    let time = |ms: Option<i64>| ms.map_or("-".to_owned(), format_seconds);
    format!(
        "{:<32}  {:<13}  {:<11}  {:>5}  {:<20}  {:<20}  {:<20}  {}",
        message.dispatch_id.simple(),
        message.channel.name(),
        message.state,
        message.attempts,
        format_seconds(message.created_at),
        time(message.next_at),
        time(message.sent_at),
        print::last_column(message.reason.as_deref()),
    )
}
