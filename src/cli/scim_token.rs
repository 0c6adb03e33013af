//! `longshore scim-token`.

use ipnet::IpNet;
use serde_json::json;

use super::audit;
use super::confirm::Consent;
use super::table::{Cell, optional, state, text, time, time_or_never};
use super::{CommandResult, PageArguments, print, retry};
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
    ///
    /// Its secret is refused for ever. Asks on a terminal.
    #[command(after_help = "Example:\n  $ longshore scim-token revoke idp --dry-run")]
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
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
struct Revoke {
    /// The token's name or id
    token: String,
    #[command(flatten)]
    consent: Consent,
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
    let token = NewToken {
        name: &arguments.name,
        allow: &arguments.allow,
        requires_origin: !arguments.without_origin,
        declared: false,
    };
    let created = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let secret = tokens::create(&mut tx, &app.clock, token).await?;
        let details = json!({ "after": { "allow": token.allow } });
        audit::record(&mut tx, app, None, ("scim_token.create", token.name), details).await?;
        tx.commit().await?;
        Ok(secret)
    });
    let secret = created.await?;
    let name = arguments.name;
    let object = json!({"name": name, "secret": secret});
    let revocation = format!("longshore scim-token revoke {name}");
    print::secret(arguments.json, &object, &format!("SCIM token {name}"), &secret, &revocation)
}

async fn list(app: &App, List { page }: List) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let tokens = tokens::list(&mut tx).await?;
    tx.commit().await?;
    let headers =
        ["ID", "NAME", "STATE", "DECLARED", "ORIGIN", "CREATED", "LAST USED", "REVOKED", "FROM"];
    page.print("SCIM tokens", headers, &tokens, |token| token.id.to_string(), row)
}

async fn revoke(app: &App, Revoke { token: name, consent, json }: Revoke) -> CommandResult {
    if consent.needs_effects() {
        let would_revoke = async || {
            let mut tx = app.store.write().await?;
            // Not committed.
            Ok(tokens::revoke(&mut tx, &app.clock, &name).await?)
        };
        let TokenInfo { id, name, last_used_at, .. } = retry::while_busy(would_revoke).await?;
        let last_use = print::last_use(last_used_at);
        let effects = [format!(
            "revokes the SCIM token {name} ({id}; {last_use}): its secret is refused for ever"
        )];
        if !consent.is_given(json, &effects)? {
            return Ok(());
        }
    }
    let revoked = retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let token = tokens::revoke(&mut tx, &app.clock, &name).await?;
        let details = json!({ "id": token.id });
        audit::record(&mut tx, app, None, ("scim_token.revoke", &*token.name), details).await?;
        tx.commit().await?;
        Ok(token)
    });
    let token = revoked.await?;
    print::revoked(json, token.id, &token.name, "", token.declared);
    Ok(())
}

fn row(token: &TokenInfo) -> [Cell; 9] {
    [
        text(token.id),
        text(&token.name),
        state(print::activity(token.revoked_at)),
        text(print::yes_or_no(token.declared)),
        text(if token.requires_origin { "required" } else { "not required" }),
        time(token.created_at),
        time_or_never(token.last_used_at),
        optional(token.revoked_at.map(time)),
        text(networks(&token.allow)),
    ]
}
