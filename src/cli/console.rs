//! `longshore console`: sign-in links, sessions, dashboard users, and the rights of the console's
//! pages.

mod users;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::confirm::Consent;
use super::ids::session_id;
use super::table::{self, Cell, text, time};
use super::{CommandResult, PageArguments, UsageError, audit, retry};
use crate::app::App;
use crate::config::Config;
use crate::config::console::ConsoleListen;
use console_frame::link::{self, NewLink, VALID_MINUTES};
use console_frame::permissions::{self, PermissionTable};
use console_frame::rights::{Right, Role};
use console_frame::routes::{Action, Needs};
use console_frame::session::{self, Filter, Session};
use runtime::audit::operator;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  $ longshore console link --as ana --role operator
  https://console.example.com/sign-in#lsl_…
  $ longshore console sessions
  $ longshore console sign-out --person ana")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a link that signs a person in to the console once, within ten minutes
    #[command(after_help = "\
Examples:
  $ longshore console link
  $ longshore console link --as ana --role viewer")]
    Link(Link),
    /// List sessions: person, browser, signed in, last seen
    #[command(after_help = "Example:\n  $ longshore console sessions --person ana --json")]
    Sessions(Sessions),
    /// End sessions; the browsers must sign in again at once
    ///
    /// With --person or --all, unused sign-in links stop working, too. Asks on a terminal.
    #[command(after_help = "\
Examples:
  $ longshore console sign-out 0197b6a8-3c55-7e11-9a1f-3f0f3c2d6e54
  $ longshore console sign-out --person ana
  $ longshore console sign-out --all --dry-run")]
    SignOut(SignOut),
    /// List the pages and actions of the console, with the right that each needs and its roles
    #[command(after_help = "\
Examples:
  $ longshore console rights
  $ longshore console rights --permissions")]
    Rights(RightsArguments),
    /// List dashboard users: name, whether active, last sign-in; their rights with --json
    #[command(after_help = "Example:\n  $ longshore console users --json")]
    Users(PageArguments),
    /// Let another account of the identity provider sign in as a dashboard user
    ///
    /// The first sign-in of a user stores the account, and no other one is accepted. Use this if
    /// the account was created again. The user's sessions end.
    #[command(after_help = "Example:\n  $ longshore console reset-identity ann@acme.example")]
    ResetIdentity(ResetIdentity),
}

#[derive(clap::Args)]
struct ResetIdentity {
    /// The userName of the dashboard user
    #[arg(value_name = "USER")]
    user_name: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Link {
    /// Name of the person, which pages and the audit log show [default: the user of this machine]
    #[arg(long = "as", value_name = "NAME", value_parser = person)]
    name: Option<String>,
    /// What the person may do, in every workspace
    #[arg(long, default_value = Role::Operator.name(), value_parser = role())]
    role: Role,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Sessions {
    /// Only sessions of this person
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
struct SignOut {
    /// The session's id
    #[arg(
        value_name = "SESSION",
        value_parser = session_id,
        required_unless_present_any = ["all", "person"],
        conflicts_with_all = ["all", "person"]
    )]
    id: Option<Uuid>,
    /// End all sessions of this person
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    person: Option<String>,
    /// End all sessions
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    consent: Consent,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct RightsArguments {
    /// List the permissions of dashboard users instead, with the rights that each grants
    #[arg(long)]
    permissions: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

fn person(name: &str) -> Result<String, String> {
    if link::is_name(name) {
        return Ok(name.to_owned());
    }
    Err("a name has 1 to 100 characters, no control characters, and no spaces around it".to_owned())
}

fn role() -> impl clap::builder::TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
        .try_map(|name| Role::from_name(&name).ok_or("not a role"))
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    match arguments.command {
        Command::Link(arguments) => {
            check_is_on(&config)?;
            create_link(&super::open(config).await?, arguments).await
        }
        Command::Sessions(arguments) => list(config, arguments).await,
        Command::SignOut(arguments) => sign_out(&super::open(config).await?, arguments).await,
        Command::Rights(RightsArguments { permissions: true, json }) => permissions(&config, json),
        Command::Rights(arguments) => rights(&arguments),
        Command::Users(page) => users::list(config, page).await,
        Command::ResetIdentity(ResetIdentity { user_name, json }) => {
            users::reset_identity(&super::open(config).await?, &user_name, json).await
        }
    }
}

/// A link must lead somewhere: the default address is that of `standalone`.
fn check_is_on(config: &Config) -> CommandResult {
    let console = &config.console;
    if console.listen == Some(ConsoleListen::Off) {
        return Err("the console is off: console.listen (LONGSHORE_CONSOLE_LISTEN) is off".into());
    }
    let has_address = console.public_url.is_some() || console.address().is_some();
    if !has_address && config.database_file().is_none() {
        return Err("the address of the console is unknown: set console.public_url \
                    (LONGSHORE_CONSOLE_PUBLIC_URL) to the URL at which browsers reach it, and \
                    console.listen (LONGSHORE_CONSOLE_LISTEN) on the gateways that serve it"
            .into());
    }
    Ok(())
}

async fn create_link(app: &App, Link { name, role, json }: Link) -> CommandResult {
    let created = link_for(app, name.unwrap_or_else(operator), role).await?;
    if json {
        println!("{}", serde_json::to_string(&created)?);
    } else {
        eprintln!(
            "signs in as {} with the role {}, once, within {VALID_MINUTES} minutes:",
            table::printable(&created.person),
            created.role.name()
        );
        println!("{}", created.url);
    }
    Ok(())
}

/// Creates a link, and records that.
pub(super) async fn link_for(app: &App, person: String, role: Role) -> CommandResult<NewLink> {
    retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let created = link::create(app, &mut tx, &person, role).await?;
        audit::record(&mut tx, app, None, ("console.link", &*person), json!({"role": role}))
            .await?;
        tx.commit().await?;
        Ok(created)
    })
    .await
}

async fn list(config: Config, Sessions { person, page }: Sessions) -> CommandResult {
    let before = page.after(session_id)?;
    let app = super::open(config).await?;
    let filter = Filter { person, user_id: None, before, limit: page.rows_to_read().into() };
    let mut tx = app.store.snapshot().await?;
    let now = app.database_now(&mut tx).await?;
    let found = session::list(&mut tx, now, &filter).await?;
    tx.commit().await?;
    let headers = ["ID", "PERSON", "METHOD", "SIGNED IN", "LAST SEEN", "ENDS", "FROM", "BROWSER"];
    page.print_page("sessions", headers, &found, |session| session.id.to_string(), row)
}

fn row(session: &Session) -> [Cell; 8] {
    [
        text(session.id),
        text(&session.person),
        text(&session.method),
        time(session.created_at),
        time(session.last_seen_at),
        time(session.expires_at),
        text(&session.address),
        text(&session.user_agent),
    ]
}

async fn sign_out(app: &App, arguments: SignOut) -> CommandResult {
    let SignOut { id, person, all, consent, json } = arguments;
    let effect = match (id, &person) {
        (Some(id), _) => format!("ends the session {id}"),
        (None, Some(person)) => {
            format!("ends all sessions of {person}, and withdraws unused links")
        }
        (None, None) if all => "ends all sessions, and withdraws unused links".to_owned(),
        (None, None) => {
            return Err(UsageError("SESSION, --person or --all is required".to_owned()).into());
        }
    };
    if consent.needs_effects() && !consent.is_given(json, &[effect])? {
        return Ok(());
    }
    let end = async || end_sessions(app, id, person.as_deref()).await;
    let ended = retry::while_busy(end).await?;
    if json {
        println!("{}", json!({"ended": ended}));
    } else {
        println!("ended {ended} {}", if ended == 1 { "session" } else { "sessions" });
    }
    Ok(())
}

/// Ends a session, or all those of a person or of everybody. Returns how many were ended.
async fn end_sessions(app: &App, id: Option<Uuid>, person: Option<&str>) -> CommandResult<u64> {
    let mut tx = app.store.write().await?;
    let (ended, object, details) = match id {
        Some(id) => {
            let person = session::end(&mut tx, id, None).await?.ok_or_else(|| {
                format!("no session has the id {id}: see `longshore console sessions`")
            })?;
            (1, id.to_string(), json!({"person": person}))
        }
        None => {
            let ended = session::end_all(&mut tx, person).await?;
            (ended, person.unwrap_or("all").to_owned(), json!({"sessions": ended}))
        }
    };
    audit::record(&mut tx, app, None, ("console.session_end", object), details).await?;
    tx.commit().await?;
    Ok(ended)
}

/// A page or an action, with who may use it.
#[derive(Serialize)]
struct ListedAction {
    method: String,
    path: &'static str,
    /// `nothing`, `session`, or the names of the rights, separated by commas.
    needs: String,
    roles: Vec<Role>,
}

impl ListedAction {
    fn new(action: &Action) -> Self {
        let (needs, rights): (String, &[Right]) = match action.needs {
            Needs::Nothing => ("nothing".to_owned(), &[]),
            Needs::Session => ("session".to_owned(), &[]),
            Needs::Rights(rights) => {
                let names: Vec<&str> = rights.iter().map(|right| right.name()).collect();
                (names.join(", "), rights)
            }
        };
        let has_all = |role: &Role| rights.iter().all(|right| role.rights().has(*right));
        let roles = Role::ALL.into_iter().filter(has_all).collect();
        Self { method: action.method.to_string(), path: action.path, needs, roles }
    }
}

fn rights(arguments: &RightsArguments) -> CommandResult {
    let routes = web_console::routes::all();
    let actions: Vec<ListedAction> = routes.actions().iter().map(ListedAction::new).collect();
    let headers = ["METHOD", "PATH", "NEEDS", "ROLES"];
    table::print(arguments.json, "pages", headers, &actions, |action| {
        let roles: Vec<&str> = action.roles.iter().map(|role| role.name()).collect();
        [text(&action.method), text(action.path), text(&action.needs), text(roles.join(", "))]
    })
}

/// A permission of dashboard users.
#[derive(Serialize)]
struct ListedPermission<'a> {
    permission: &'a str,
    rights: Vec<Right>,
}

fn permissions(config: &Config, as_json: bool) -> CommandResult {
    permissions::check(config)?;
    let table = PermissionTable::from_config(config);
    let listed =
        table.entries().map(|(permission, rights)| ListedPermission { permission, rights });
    let listed: Vec<ListedPermission<'_>> = listed.collect();
    table::print(as_json, "permissions", ["PERMISSION", "RIGHTS"], &listed, |listed| {
        let rights: Vec<&str> = listed.rights.iter().map(|right| right.name()).collect();
        [text(listed.permission), text(rights.join(", "))]
    })
}
