//! `longshore cards`: the content cards of a user.

use super::ids::card_id;
use super::table::{Cell, text, time};
use super::{CommandResult, PageArguments, UserArgument};
use crate::config::Config;
use crate::messages::channels::cards::{self, Card};
use store::claims;

#[derive(clap::Args)]
#[command(after_help = "Example:
  longshore cards ann@acme.example --json")]
pub struct Arguments {
    #[command(flatten)]
    user: UserArgument,
    #[command(flatten)]
    page: PageArguments,
}

/// List cards that have not expired, latest first.
pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let Arguments { user, page } = arguments;
    page.after(card_id)?;
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let (workspace, user) = user.find(&mut tx).await?;
    let now = claims::now(&mut tx).await?;
    let cards = cards::list_for_user(&mut tx, workspace, user).await?;
    tx.commit().await?;
    let headers = ["ID", "CREATED", "EXPIRES", "TITLE"];
    let is_shown = |card: &Card| card.expires_at > now;
    page.print_shown("cards", headers, &cards, is_shown, |card| card.id.to_string(), row)
}

fn row(card: &Card) -> [Cell; 4] {
    let object: serde_json::Value = serde_json::from_str(card.card.get()).unwrap_or_default();
    let title = object["title"].as_str().unwrap_or_default();
    [text(card.id), time(card.created_at), time(card.expires_at), text(title)]
}
