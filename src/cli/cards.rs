//! `longshore cards`: the content cards of a user.

use super::{CommandResult, UserArgument, print};
use crate::config::Config;
use crate::messages::channels::cards::{self, Card};
use kit::clock::format_seconds;
use store::claims;

#[derive(clap::Args)]
#[command(after_help = "Example:
  longshore cards ann@acme.example --json")]
pub struct Arguments {
    #[command(flatten)]
    user: UserArgument,
    /// Print one JSON object per line, with the whole card
    #[arg(long)]
    json: bool,
}

/// List cards that have not expired, latest first.
pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let (workspace, user) = arguments.user.find(&mut tx).await?;
    let now = claims::now(&mut tx).await?;
    let cards = cards::list_for_user(&mut tx, workspace, user, now).await?;
    tx.commit().await?;
    let heading = format!("{:<36}  {:<20}  {:<20}  TITLE", "ID", "CREATED", "EXPIRES");
    print::rows(arguments.json, &heading, &cards, line)
}

fn line(card: &Card) -> String {
    let object: serde_json::Value = serde_json::from_str(card.card.get()).unwrap_or_default();
    let title = object["title"].as_str().unwrap_or_default();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let title: String = title.chars().map(plain).take(80).collect();
    format!(
        "{:<36}  {:<20}  {:<20}  {title}",
        card.id,
        format_seconds(card.created_at),
        format_seconds(card.expires_at)
    )
}
