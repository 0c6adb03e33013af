//! `longshore messages`: the messages of a user.

use serde_json::json;
use uuid::Uuid;

use super::ids::{dispatch_id, message_id};
use super::table::{Cell, number, optional, state, text, time};
use super::{CommandResult, PageArguments, UserArgument, dispatches};
use crate::config::Config;
use crate::gateway::paging::MAX_PAGE;
use crate::messages::dispatch::Explanation;
use crate::user_messages::{self, Key, UserMessage};
use crate::workspaces::Channel;
use kit::clock::{format_seconds, format_time};
use store::Tx;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore messages ann@acme.example --limit 20 --json
  longshore messages ann@acme.example --dispatch 0197b6a83c557e119a1f3f0f3c2d6e54 --why")]
pub struct Arguments {
    #[command(flatten)]
    user: UserArgument,
    /// Only messages of this dispatch_id
    #[arg(long, value_name = "ID", value_parser = dispatch_id)]
    dispatch: Option<Uuid>,
    /// With --dispatch: also show why the user got no message of it, or none by a channel. Repeats
    /// the checks of the send with the data of now
    #[arg(long, requires = "dispatch", conflicts_with_all = ["limit", "after"])]
    why: bool,
    #[command(flatten)]
    page: PageArguments,
}

/// List the latest messages of a user, including transactional emails, whatever their outcome.
pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let Arguments { user, dispatch, why, page } = arguments;
    let after = page.after(message_id)?;
    let app = super::open(config).await?;
    let mut tx = app.store.snapshot().await?;
    let user = user.find(&mut tx).await?;
    let after = match after {
        Some(id) => Some(position(&mut tx, user, id).await?),
        None => None,
    };
    let limit = page.rows_to_read().into();
    let messages = user_messages::page(&mut tx, user, dispatch, after, limit).await?;
    let mut reasons = Vec::new();
    if let Some(id) = dispatch.filter(|_| why) {
        let found = user_messages::explain(&app, &mut tx, user, id).await?;
        reasons = found.ok_or_else(|| dispatches::unknown(id))?;
    }
    tx.commit().await?;
    let headers = [
        "DISPATCH", "CHANNEL", "STATE", "TRIES", "CREATED", "NEXT TRY", "SENT", "CAMPAIGN",
        "REASON",
    ];
    let id = |message: &UserMessage| {
        format!("{}/{}", message.dispatch_id.simple(), message.channel.name())
    };
    page.print_page("messages", headers, &messages, id, row)?;
    for Explanation { why, channel, due_at } in reasons {
        let channel = channel.map(Channel::name);
        if page.json {
            let channel = channel.unwrap_or("every channel");
            let mut line = json!({ "channel": channel, "why_not": why.name() });
            if let Some(due_at) = due_at {
                line["due_at"] = format_time(due_at).into();
            }
            println!("{line}");
        } else {
            let channel = channel.unwrap_or("any channel");
            let due = due_at.map(|at| format!(" (due {})", format_seconds(at)));
            let due = due.unwrap_or_default();
            println!("no message by {channel}: {}: {}{due}", why.name(), why.in_words());
        }
    }
    Ok(())
}

/// Where the list continues after a message of a user.
async fn position(
    tx: &mut Tx,
    user: (i32, Uuid),
    (dispatch, channel): (Uuid, Channel),
) -> CommandResult<Key> {
    let messages = user_messages::page(tx, user, Some(dispatch), None, MAX_PAGE).await?;
    let last = messages.iter().find(|message| message.channel == channel).map(UserMessage::key);
    let id = format!("{}/{}", dispatch.simple(), channel.name());
    last.ok_or_else(|| format!("--after: no row has the id {id}").into())
}

fn row(message: &UserMessage) -> [Cell; 9] {
    let campaign = message.campaign.as_ref().map(text);
    let campaign = campaign.or_else(|| message.campaign_id.map(text));
    [
        text(message.dispatch_id.simple()),
        text(message.channel.name()),
        state(&message.state),
        optional(message.attempts.map(number)),
        time(message.created_at),
        optional(message.next_at.map(time)),
        match message.sent_at {
            None if message.may_have_been_sent == Some(true) => text("maybe"),
            sent_at => optional(sent_at.map(time)),
        },
        optional(campaign),
        optional(message.reason.as_ref().map(text)),
    ]
}
