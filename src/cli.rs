//! The command line: one file per subcommand. Each parses its options, opens what it needs, runs
//! the work, and exits with 0 only if all of it was done.

// First: its macros replace `println!` and others in the files below.
#[macro_use]
mod output;

mod apply;
mod audit;
mod backup;
mod campaigns;
mod cards;
mod catalogs;
mod completions;
mod config;
mod confirm;
mod console;
mod console_log;
mod control_group;
mod dead_letters;
mod deliveries;
mod demo;
mod dispatches;
mod doctor;
mod export;
mod gateway;
mod generate;
mod health;
mod history;
mod ids;
mod import;
mod invalid_numbers;
mod key;
mod log;
mod messages;
mod migrate;
mod print;
mod processes;
mod progress;
pub mod reference;
mod retry;
mod schedules;
mod scim_token;
mod segments;
mod signing_key;
mod sla;
mod standalone;
mod suppressions;
mod table;
mod template;
mod times;
mod users;
mod worker;
mod workspaces;

pub use config::process::IMAGE;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use serde::Serialize;
use uuid::Uuid;

use crate::app::App;
use crate::config::{Config, ConfigError, Mode};
use crate::setup;
use crate::telemetry::lines;
use crate::users::search;
use crate::workspaces::{ChoiceError, Workspace, only_or_named};
use store::Tx;

/// An error of a command, printed to the operator unchanged.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type CommandResult<T = ()> = Result<T, Error>;

/// A self-hosted engine that imports users, exports them with proof, and sends messages.
#[derive(Parser)]
#[command(
    name = "longshore",
    version,
    max_term_width = 100,
    after_help = "Commands read the same settings as the processes, from the environment or the \
                  settings file.\nWithout settings they use ./longshore-data, which apply, \
                  migrate and standalone create.\n\nExamples:\n  longshore demo\n  longshore \
                  export run --help"
)]
struct Arguments {
    /// Settings file [default: longshore.toml if it exists]
    #[arg(long, global = true, value_name = "FILE", env = "LONGSHORE_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway and every worker role in one process, with the embedded log, store and
    /// objects
    Standalone(standalone::Arguments),
    /// Run the API
    Gateway(gateway::Arguments),
    /// Run the workers behind the API
    Worker(worker::Arguments),
    /// Migrate the database and the log to this version
    Migrate(migrate::Arguments),
    /// Apply a workspace file
    Apply(apply::Arguments),
    /// List workspaces, and show what is configured in them
    Workspaces(workspaces::Arguments),
    /// Create, list and revoke API keys
    Key(key::Arguments),
    /// List and rotate the keys that sign exports
    SigningKey(signing_key::Arguments),
    /// Create sign-in links of the console, and list and end its sessions
    Console(console::Arguments),
    /// Create, list and revoke SCIM tokens
    ScimToken(scim_token::Arguments),
    /// Import users from newline-delimited JSON
    Import(import::Arguments),
    /// Generate realistic user records as newline-delimited JSON
    Generate(generate::Arguments),
    /// Find, show and erase users
    Users(users::Arguments),
    /// List, show, renew and activate global control groups
    ControlGroup(control_group::Arguments),
    /// Run, list, show, repeat, cancel, download and verify exports
    Export(export::Arguments),
    /// List, show and resend callbacks, status postbacks and notifications
    Deliveries(deliveries::Arguments),
    /// Show catalogs, their items and edits
    Catalogs(catalogs::Arguments),
    /// Show campaigns and Canvases, what they send to a user, and their results
    Campaigns(campaigns::Arguments),
    /// List segments, count their users, and show some of them
    Segments(segments::Arguments),
    /// List, show and cancel sends, and their recipients
    Dispatches(dispatches::Arguments),
    /// Show past sends to segments
    ConsoleLog(console_log::Arguments),
    /// Show a user's messages and their outcomes
    Messages(messages::Arguments),
    /// Show the content cards of a user
    Cards(cards::Arguments),
    /// Check and render message templates
    Template(template::Arguments),
    /// List, show and cancel schedules
    Schedules(schedules::Arguments),
    /// Show the share of transactional emails sent within a minute, by campaign and hour
    Sla(sla::Arguments),
    /// Count, check, add and lift addresses that get no messages
    Suppressions(suppressions::Arguments),
    /// List, add and remove invalid phone numbers
    InvalidNumbers(invalid_numbers::Arguments),
    /// List, show, retry and discard dead letters
    DeadLetters(dead_letters::Arguments),
    /// Show and reset the groups' positions in the log
    Log(log::Arguments),
    /// List the processes of the installation
    Processes(processes::Arguments),
    /// Show how much was done and how much waited, by minute, hour or day
    History(history::Arguments),
    /// List who changed what, when, and from where
    Audit(audit::Arguments),
    /// Record and restore backups
    Backup(backup::Arguments),
    /// Run an export from start to end on a temporary data directory
    Demo(demo::Arguments),
    /// Test each configured connection, and show how to fix errors
    Doctor(doctor::Arguments),
    /// Show settings, and check manifests before they are applied
    Config(config::Arguments),
    /// Check whether the process on this machine is ready
    Health(health::Arguments),
    /// Print the completions of a shell
    Completions(completions::Arguments),
    /// Write the generated pages of the documentation
    #[command(hide = true)]
    Reference(reference::Arguments),
}

impl Command {
    /// The mode of the settings, and the settings of its options.
    fn mode_and_settings(&self) -> (Mode, Vec<(&'static str, OsString)>) {
        match self {
            Self::Standalone(arguments) => (Mode::Standalone, arguments.settings()),
            Self::Gateway(arguments) => (Mode::Fleet, arguments.settings()),
            Self::Worker(_) => (Mode::Fleet, Vec::new()),
            _ => (Mode::Command, Vec::new()),
        }
    }

    /// Whether the command reads the settings itself, and shows invalid ones.
    fn takes_invalid_settings(&self) -> bool {
        matches!(self, Self::Config(arguments) if arguments.takes_invalid_settings())
    }
}

/// Every command, as clap knows it.
fn commands() -> clap::Command {
    Arguments::command()
}

/// The workspace of a command.
#[derive(clap::Args)]
struct WorkspaceArgument {
    /// The workspace; optional if there is only one
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
}

impl WorkspaceArgument {
    async fn find(&self, tx: &mut Tx) -> Result<Workspace, ChoiceError> {
        only_or_named(tx, self.workspace.as_deref()).await
    }

    /// A command for the same workspace, to name in an error.
    fn command(&self, command: &str) -> String {
        match &self.workspace {
            Some(name) => format!("{command} --workspace {name}"),
            None => command.to_owned(),
        }
    }
}

/// The workspace with a name, if one is given.
async fn find_named(tx: &mut Tx, name: Option<&str>) -> Result<Option<Workspace>, ChoiceError> {
    match name {
        Some(_) => only_or_named(tx, name).await.map(Some),
        None => Ok(None),
    }
}

/// The user of a command.
#[derive(clap::Args)]
struct UserArgument {
    /// An external_id, a service_id, an alias as LABEL:NAME, an email or a phone number
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    workspace: WorkspaceArgument,
}

impl UserArgument {
    /// The workspace and the service_id.
    async fn find(&self, tx: &mut Tx) -> CommandResult<(i32, Uuid)> {
        let workspace = self.workspace.find(tx).await?.id;
        Ok((workspace, search::identify(tx, workspace, &self.user).await?))
    }
}

/// The arguments of a list of objects with a state.
#[derive(clap::Args)]
struct ListArguments<S: clap::ValueEnum + Send + Sync + 'static> {
    /// Only objects in this state
    #[arg(long)]
    state: Option<S>,
    /// Only objects of this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    #[command(flatten)]
    page: PageArguments,
}

/// Which part of a list to print, and how.
#[derive(clap::Args)]
struct PageArguments {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Only rows after the row with this id, the last of the previous page
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl PageArguments {
    /// The id of the last row of the previous page.
    fn after<T>(&self, id: impl Fn(&str) -> Result<T, String>) -> CommandResult<Option<T>> {
        let after = self.after.as_deref().map(id).transpose();
        after.map_err(|error| ConfigError { problems: vec![format!("--after: {error}")] }.into())
    }

    /// The number of rows to read: one more than there are on a page, to know whether others
    /// follow.
    fn rows_to_read(&self) -> u32 {
        self.limit.saturating_add(1)
    }

    /// Prints the page of a list that was read completely.
    fn print<T: Serialize, const N: usize>(
        &self,
        objects: &str,
        headers: [&str; N],
        all: &[T],
        id: impl Fn(&T) -> String,
        row: impl Fn(&T) -> [table::Cell; N],
    ) -> CommandResult {
        self.print_shown(objects, headers, all, |_| true, id, row)
    }

    /// Prints the page of a list that was read completely, of which only some rows are shown. The
    /// last row of the previous page may no longer be one of these.
    fn print_shown<T: Serialize, const N: usize>(
        &self,
        objects: &str,
        headers: [&str; N],
        all: &[T],
        is_shown: impl Fn(&T) -> bool,
        id: impl Fn(&T) -> String,
        row: impl Fn(&T) -> [table::Cell; N],
    ) -> CommandResult {
        let rest = self.rest(all, &id)?.iter();
        let shown: Vec<&T> = rest.filter(|row| is_shown(row)).collect();
        self.print_page(objects, headers, &shown, |shown| id(shown), |shown| row(shown))
    }

    /// The rows after the last one of the previous page, of a list that was read completely.
    fn rest<'a, T>(&self, all: &'a [T], id: impl Fn(&T) -> String) -> CommandResult<&'a [T]> {
        let Some(after) = &self.after else { return Ok(all) };
        let last = all.iter().position(|row| id(row) == *after);
        let last = last.ok_or_else(|| format!("--after: no row has the id {after}"))?;
        Ok(&all[last + 1..])
    }

    /// Prints a page of rows, of which [`rows_to_read`](Self::rows_to_read) were read.
    fn print_page<T: Serialize, const N: usize>(
        &self,
        objects: &str,
        headers: [&str; N],
        rows: &[T],
        id: impl Fn(&T) -> String,
        row: impl Fn(&T) -> [table::Cell; N],
    ) -> CommandResult {
        let (page, last) = page_of(rows, self.limit);
        table::print(self.json, objects, headers, page, row)?;
        print_next(last.map(id));
        Ok(())
    }
}

/// The rows of a page; and the last of them, if others follow.
fn page_of<T>(rows: &[T], limit: u32) -> (&[T], Option<&T>) {
    let page = &rows[..rows.len().min(limit as usize)];
    (page, page.last().filter(|_| page.len() < rows.len()))
}

/// Prints how to list the rows that follow the row with the id `last`.
fn print_next(last: Option<String>) {
    if let Some(last) = last {
        eprintln!("There are more: continue with --after {last}");
    }
}

/// Opens an installation of this version for a command. It needs no close: completed work is
/// durable.
async fn open(config: Config) -> CommandResult<App> {
    if let Some(missing) = config.missing_installation() {
        return Err(missing.into());
    }
    open_or_create(config).await
}

/// The same for a command that can create an installation.
async fn open_or_create(config: Config) -> CommandResult<App> {
    let app = App::open(config).await?;
    setup::check(&app).await?;
    Ok(app)
}

/// The exit status that a shell shows for a program ended by SIGPIPE.
const READER_GONE: u8 = 128 + 13;

/// Parses the command line, runs the command and prints its error.
pub fn main() -> ExitCode {
    // One TLS provider for every client in the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::try_parse().unwrap_or_else(|error| without_secrets(error).exit());
    let is_doctor = matches!(arguments.command, Command::Doctor(_));
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("longshore: {error}");
            return ExitCode::FAILURE;
        }
    };
    let status = runtime.block_on(run(arguments));
    if is_doctor {
        // An abandoned check may block a thread for longer.
        runtime.shutdown_background();
    }
    status
}

/// A wrong argument without what is secret in an address: who pastes the address of a download or a
/// storage where it does not belong finds nothing of it in a log.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue};
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
    {
        if let Some(ContextValue::String(text)) = error.get(kind)
            && text.contains("://")
        {
            error.insert(kind, ContextValue::String("an address".to_owned()));
        }
    }
    error
}

async fn run(arguments: Arguments) -> ExitCode {
    // Shells start with it, in folders with any settings.
    if let Command::Completions(completions) = &arguments.command {
        return exit_code(completions::run(completions));
    }
    let (mode, options) = arguments.command.mode_and_settings();
    let options = options.into_iter().map(|(name, value)| (name.into(), value));
    let environment = std::env::vars_os().chain(options);
    let config = match Config::load(arguments.config.as_deref(), environment, mode) {
        Ok(config) => config,
        Err(_) if arguments.command.takes_invalid_settings() => Config::default(),
        Err(error) => {
            eprintln!("longshore: {error}");
            return ExitCode::from(2);
        }
    };
    if mode == Mode::Command {
        config.warnings.iter().for_each(|warning| eprintln!("longshore: {warning}"));
    }
    let result = async {
        match arguments.command {
            Command::Standalone(arguments) => standalone::run(config, arguments).await,
            Command::Gateway(arguments) => gateway::run(config, arguments).await,
            Command::Worker(arguments) => worker::run(config, arguments).await,
            Command::Migrate(arguments) => migrate::run(config, arguments).await,
            Command::Apply(arguments) => apply::run(config, arguments).await,
            Command::Workspaces(arguments) => workspaces::run(config, arguments).await,
            Command::Key(arguments) => key::run(config, arguments).await,
            Command::SigningKey(arguments) => signing_key::run(config, arguments).await,
            Command::Console(arguments) => console::run(config, arguments).await,
            Command::ScimToken(arguments) => scim_token::run(config, arguments).await,
            Command::Import(arguments) => import::run(config, arguments).await,
            Command::Generate(arguments) => generate::run(config, arguments).await,
            Command::Users(arguments) => users::run(config, arguments).await,
            Command::ControlGroup(arguments) => control_group::run(config, arguments).await,
            Command::Export(arguments) => export::run(config, arguments).await,
            Command::Deliveries(arguments) => deliveries::run(config, arguments).await,
            Command::Catalogs(arguments) => catalogs::run(config, arguments).await,
            Command::Campaigns(arguments) => campaigns::run(config, arguments).await,
            Command::Segments(arguments) => segments::run(config, arguments).await,
            Command::Dispatches(arguments) => dispatches::run(config, arguments).await,
            Command::ConsoleLog(arguments) => console_log::run(config, arguments).await,
            Command::Messages(arguments) => messages::run(config, arguments).await,
            Command::Cards(arguments) => cards::run(config, arguments).await,
            Command::Template(arguments) => template::run(config, arguments).await,
            Command::Schedules(arguments) => schedules::run(config, arguments).await,
            Command::Sla(arguments) => sla::run(config, arguments).await,
            Command::Suppressions(arguments) => suppressions::run(config, arguments).await,
            Command::InvalidNumbers(arguments) => invalid_numbers::run(config, arguments).await,
            Command::DeadLetters(arguments) => dead_letters::run(config, arguments).await,
            Command::Log(arguments) => log::run(config, arguments).await,
            Command::Processes(arguments) => processes::run(config, arguments).await,
            Command::History(arguments) => history::run(config, arguments).await,
            Command::Audit(arguments) => audit::run(config, arguments).await,
            Command::Backup(arguments) => backup::run(config, arguments).await,
            Command::Demo(arguments) => demo::run(config, arguments).await,
            Command::Doctor(arguments) => doctor::run(config, arguments).await,
            Command::Config(command) => config::run(command, arguments.config.as_deref()),
            Command::Health(arguments) => health::run(config, arguments).await,
            Command::Completions(arguments) => completions::run(&arguments),
            Command::Reference(arguments) => reference::run(&arguments),
        }
    }
    .await;
    exit_code(result)
}

/// Prints the error of a command, and that its output is not complete. A reader that stopped early,
/// like `| head`, is no error.
fn exit_code(result: CommandResult) -> ExitCode {
    let print = |error: &str| lines::write_line(&format!("longshore: {}", table::printable(error)));
    let failure = result.err().map(|error| {
        print(&error.to_string());
        status(error.as_ref())
    });
    let incomplete = output::error().map(|error| match error.kind() {
        ErrorKind::BrokenPipe => ExitCode::from(READER_GONE),
        _ => {
            print(&format!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    });
    failure.or(incomplete).unwrap_or(ExitCode::SUCCESS)
}

/// Options that do not fit together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

/// 2 for invalid settings and wrong options; otherwise 1.
fn status(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let mut causes = kit::errors::causes(error);
    let is_usage = causes.any(|cause| cause.is::<ConfigError>() || cause.is::<UsageError>());
    ExitCode::from(if is_usage { 2 } else { 1 })
}
