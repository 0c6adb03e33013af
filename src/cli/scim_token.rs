//! `longshore scim-token`.

use ipnet::IpNet;
use serde_json::json;

use super::CommandResult;
use crate::app::App;
use crate::config::Config;
use crate::config::network::network;
use crate::config::network::networks;
use crate::scim::tokens::{self, NewToken, TokenInfo};
use kit::clock::from_ms;

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
    /// Create a token and print its secret, only this time
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
    if arguments.json {
        println!("{}", json!({"name": arguments.name, "secret": secret}));
    } else {
        eprintln!("SCIM token {}; its secret is shown only once:", arguments.name);
        println!("{secret}");
    }
    Ok(())
}

async fn list(app: &App, arguments: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let tokens = tokens::list(&mut tx).await?;
    tx.commit().await?;
    for token in &tokens {
        if arguments.json {
            println!("{}", as_json(token));
        } else {
            print(token);
        }
    }
    if tokens.is_empty() && !arguments.json {
        println!("No SCIM tokens.");
    }
    Ok(())
}

async fn revoke(app: &App, arguments: Revoke) -> CommandResult {
    let mut tx = app.store.write().await?;
    let token = tokens::revoke(&mut tx, &app.clock, &arguments.token).await?;
    tx.commit().await?;
    if arguments.json {
        println!("{}", json!({"id": token.id, "name": token.name, "revoked": true}));
    } else {
        println!("revoked {}", token.name);
    }
    if token.declared {
        eprintln!(
            "the workspace file declares it: remove it there, or the next apply creates it again"
        );
    }
    Ok(())
}

fn print(token: &TokenInfo) {
    let time = |time: Option<i64>| time.map_or("never".into(), |ms| from_ms(ms).to_string());
    println!("{}{}", token.name, if token.declared { " (declared)" } else { "" });
    println!("  id           {}", token.id);
    println!("  from         {}", networks(&token.allow));
    if !token.requires_origin {
        println!("  origin       not required");
    }
    println!("  created      {}", time(Some(token.created_at)));
    println!("  last used    {}", time(token.last_used_at));
    if token.revoked_at.is_some() {
        println!("  revoked      {}", time(token.revoked_at));
    }
}

fn as_json(token: &TokenInfo) -> serde_json::Value {
    let time = |time: Option<i64>| time.map(|ms| from_ms(ms).to_string());
    json!({
        "id": token.id,
        "name": token.name,
        "allow": token.allow,
        "requires_origin": token.requires_origin,
        "declared": token.declared,
        "created_at": time(Some(token.created_at)),
        "last_used_at": time(token.last_used_at),
        "revoked_at": time(token.revoked_at),
    })
}
