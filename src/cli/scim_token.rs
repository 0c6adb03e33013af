//! `longshore scim-token`.

use ipnet::IpNet;
use serde_json::json;

use super::{CommandResult, print};
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
use crate::scim::tokens::{self, NewToken, TokenInfo};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  $ longshore scim-token create --name idp
  lss_…
  $ longshore scim-token list
  $ longshore scim-token revoke idp")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a token and print its secret, which is not shown again
    #[command(
        after_help = "Example:\n  $ longshore scim-token create --name idp --allow 203.0.113.0/24"
    )]
    Create(Create),
    /// List tokens: name, networks, created, last used, revoked
    #[command(after_help = "Example:\n  $ longshore scim-token list --json")]
    List(List),
    /// Revoke a token; it stops working within five seconds
    #[command(after_help = "Example:\n  $ longshore scim-token revoke idp")]
    Revoke(Revoke),
}

#[derive(clap::Args)]
struct Create {
    /// Name of the token
    #[arg(long)]
    name: String,
    /// Network from which the token may be used; repeat for each [default: everywhere]
    #[arg(long, value_name = "CIDR", value_parser = network)]
    allow: Vec<IpNet>,
    /// Accept requests without X-Request-Origin, which Okta and Microsoft Entra do not send
    #[arg(long)]
    without_origin: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct List {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Revoke {
    /// The token's name or id
    token: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let app = super::open(config).await?;
    match arguments.command {
        Command::Create(arguments) => create(&app, arguments).await,
        Command::List(arguments) => list(&app, arguments).await,
        Command::Revoke(arguments) => revoke(&app, arguments).await,
    }
}

async fn create(app: &App, arguments: Create) -> CommandResult {
    let mut tx = app.store.write().await?;
    let token = NewToken {
        name: &arguments.name,
        allow: &arguments.allow,
        requires_origin: !arguments.without_origin,
        declared: false,
    };
    let secret = tokens::create(&mut tx, &app.clock, token).await?;
    tx.commit().await?;
    let name = arguments.name;
    let object = json!({"name": name, "secret": secret});
    print::secret(arguments.json, &object, &format!("SCIM token {name}"), &secret);
    Ok(())
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let tokens = tokens::list(&mut tx).await?;
    tx.commit().await?;
    print::credentials(arguments.json, &tokens, "SCIM tokens", as_json, as_text);
    Ok(())
}

async fn revoke(app: &App, arguments: Revoke) -> CommandResult {
    let mut tx = app.store.write().await?;
    let token = tokens::revoke(&mut tx, &app.clock, &arguments.token).await?;
    tx.commit().await?;
    print::revoked(arguments.json, token.id, &token.name, "", token.declared);
    Ok(())
}

fn as_text(token: &TokenInfo) -> String {
    let declared = if token.declared { " (declared)" } else { "" };
    let origin = if token.requires_origin { "" } else { "  origin       not required\n" };
    format!(
        "{}{declared}\n  id           {}\n  from         {}\n{origin}{}",
        token.name,
        token.id,
        networks(&token.allow),
        print::times(token.created_at, token.last_used_at, token.revoked_at),
    )
}

fn as_json(token: &TokenInfo) -> serde_json::Value {
    json!({
        "id": token.id,
        "name": token.name,
        "allow": token.allow,
        "requires_origin": token.requires_origin,
        "declared": token.declared,
        "created_at": print::instant(Some(token.created_at)),
        "last_used_at": print::instant(token.last_used_at),
        "revoked_at": print::instant(token.revoked_at),
    })
}
