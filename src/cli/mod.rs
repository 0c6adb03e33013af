//! The command line: one file a subcommand. Each parses its options, opens what it needs,
//! hands over, and ends with 0 only when all of it was done.

mod apply;
mod campaigns;
mod cards;
mod catalogs;
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
mod import;
mod invalid_numbers;
mod key;
mod log;
mod messages;
mod migrate;
mod progress;
pub mod reference;
mod schedules;
mod scim_token;
mod service;
mod sla;
mod standalone;
mod template;
mod users;
mod worker;

pub use service::routes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use uuid::Uuid;

use crate::app::App;
use crate::config::{Config, ConfigError, Mode};
use crate::setup;
use crate::telemetry::lines;
use crate::users::find;
use crate::workspaces::{ChoiceError, Workspace, only_or_named};
use store::Tx;

/// What a command may fail with: printed to the operator as it is.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type CommandResult<T = ()> = Result<T, Error>;

/// The bulk-data side of a customer-engagement service.
#[derive(Parser)]
#[command(
    name = "longshore",
    version,
    max_term_width = 100,
    after_help = "Commands take the settings that the processes have, from the environment or the \
                  settings file.\nWithout any they use ./longshore-data, which apply, migrate and \
                  standalone create.\n\n\
                  Examples:\n  \
                  longshore demo\n  \
                  longshore export run --help"
)]
struct Arguments {
    /// Settings file [default: longshore.toml where it exists]
    #[arg(long, global = true, value_name = "FILE", env = "LONGSHORE_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Gateway and every worker role in one process, on the embedded log, store and objects
    Standalone(standalone::Arguments),
    /// The API
    Gateway(gateway::Arguments),
    /// The work behind the API
    Worker(worker::Arguments),
    /// Bring the database and the log up to this version
    Migrate(migrate::Arguments),
    /// Bring a workspace to what a file declares
    Apply(apply::Arguments),
    /// API keys: create, list, revoke
    Key(key::Arguments),
    /// SCIM tokens: create, list, revoke
    ScimToken(scim_token::Arguments),
    /// Import users from newline-delimited JSON
    Import(import::Arguments),
    /// Write lifelike user records as newline-delimited JSON
    Generate(generate::Arguments),
    /// Show or erase users
    Users(users::Arguments),
    /// The global control group: show, renew
    ControlGroup(control_group::Arguments),
    /// Exports: run, list, status, cancel
    Export(export::Arguments),
    /// Callbacks: list, show, resend
    Deliveries(deliveries::Arguments),
    /// Catalogs: list, items, edits
    Catalogs(catalogs::Arguments),
    /// Campaigns and Canvases: stats
    Campaigns(campaigns::Arguments),
    /// Sends: list, show, cancel
    Dispatches(dispatches::Arguments),
    /// The developer console's records of sends to segments
    ConsoleLog(console_log::Arguments),
    /// The messages of a user: what came of each, and why
    Messages(messages::Arguments),
    /// The content cards of a user
    Cards(cards::Arguments),
    /// Templates of messages: check, render
    Template(template::Arguments),
    /// Scheduled sends: list, show, cancel
    Schedules(schedules::Arguments),
    /// How many transactional emails were handed over within a minute, by campaign and hour
    Sla(sla::Arguments),
    /// Phone numbers that messages are not sent to: list, add, remove
    InvalidNumbers(invalid_numbers::Arguments),
    /// Work that could not be done: list, retry, discard
    DeadLetters(dead_letters::Arguments),
    /// Where the groups are in the log: status, reset
    Log(log::Arguments),
    /// The main job from start to end on a throw-away data directory
    Demo(demo::Arguments),
    /// Try each configured connection and say how to mend what is wrong
    Doctor(doctor::Arguments),
    /// Ask the process on this machine whether it is ready
    Health(health::Arguments),
    /// Write the generated pages of the documentation
    #[command(hide = true)]
    Reference(reference::Arguments),
}

impl Command {
    /// What the settings must serve for, and the settings that its options stand for.
    fn needs(&self) -> (Mode, Vec<(&'static str, OsString)>) {
        match self {
            Self::Standalone(arguments) => (Mode::Standalone, arguments.settings()),
            Self::Gateway(arguments) => (Mode::Fleet, arguments.settings()),
            Self::Worker(_) => (Mode::Fleet, Vec::new()),
            _ => (Mode::Command, Vec::new()),
        }
    }
}

/// Every command, as clap knows it.
fn commands() -> clap::Command {
    Arguments::command()
}

/// Which workspace a command works on.
#[derive(clap::Args)]
struct WorkspaceArgument {
    /// The workspace; may be left out where there is only one
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
}

impl WorkspaceArgument {
    async fn find(&self, tx: &mut Tx) -> Result<Workspace, ChoiceError> {
        only_or_named(tx, self.workspace.as_deref()).await
    }
}

/// Whom a command is about.
#[derive(clap::Args)]
struct UserArgument {
    /// An external_id, a service_id or an email
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    workspace: WorkspaceArgument,
}

impl UserArgument {
    /// The workspace and the service_id.
    async fn find(&self, tx: &mut Tx) -> CommandResult<(i32, Uuid)> {
        let workspace = self.workspace.find(tx).await?.id;
        Ok((workspace, find::identify(tx, workspace, &self.user).await?))
    }
}

/// What a command lists of what has a state.
#[derive(clap::Args)]
struct ListArguments<S: clap::ValueEnum + Send + Sync + 'static> {
    /// Only those in this state
    #[arg(long)]
    state: Option<S>,
    /// Only those of this workspace
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// A JSON object a line
    #[arg(long)]
    json: bool,
}

/// Opens what a command works on: an installation of this version. Nothing needs to be closed:
/// what is said to be done is durable.
async fn open(config: Config) -> CommandResult<App> {
    if let Some(missing) = config.missing_installation() {
        return Err(missing.into());
    }
    open_or_create(config).await
}

/// The same for a command with which an installation may begin.
async fn open_or_create(config: Config) -> CommandResult<App> {
    let app = App::open(config).await?;
    setup::check(&app).await?;
    Ok(app)
}

/// What a shell shows of a program that SIGPIPE has ended.
const READER_GONE: i32 = 128 + 13;

/// Who reads no further, as `| head` does, ends the command: that is no panic.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words = panic.payload_as_str().unwrap_or_default();
        if words.starts_with("failed printing to stdout") && words.contains("Broken pipe") {
            std::process::exit(READER_GONE);
        }
        usual(panic);
    }));
}

/// Parses the command line, runs the command and says how it went.
pub fn main() -> ExitCode {
    end_with_the_reader();
    // One TLS provider for every client in the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = Arguments::parse();
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
        // A check that was given up may block a thread for longer.
        runtime.shutdown_background();
    }
    status
}

async fn run(arguments: Arguments) -> ExitCode {
    let (mode, options) = arguments.command.needs();
    let options = options.into_iter().map(|(name, value)| (name.into(), value));
    let environment = std::env::vars_os().chain(options);
    let config = match Config::load(arguments.config.as_deref(), environment, mode) {
        Ok(config) => config,
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
            Command::Key(arguments) => key::run(config, arguments).await,
            Command::ScimToken(arguments) => scim_token::run(config, arguments).await,
            Command::Import(arguments) => import::run(config, arguments).await,
            Command::Generate(arguments) => generate::run(config, arguments).await,
            Command::Users(arguments) => users::run(config, arguments).await,
            Command::ControlGroup(arguments) => control_group::run(config, arguments).await,
            Command::Export(arguments) => export::run(config, arguments).await,
            Command::Deliveries(arguments) => deliveries::run(config, arguments).await,
            Command::Catalogs(arguments) => catalogs::run(config, arguments).await,
            Command::Campaigns(arguments) => campaigns::run(config, arguments).await,
            Command::Dispatches(arguments) => dispatches::run(config, arguments).await,
            Command::ConsoleLog(arguments) => console_log::run(config, arguments).await,
            Command::Messages(arguments) => messages::run(config, arguments).await,
            Command::Cards(arguments) => cards::run(config, arguments).await,
            Command::Template(arguments) => template::run(config, arguments).await,
            Command::Schedules(arguments) => schedules::run(config, arguments).await,
            Command::Sla(arguments) => sla::run(config, arguments).await,
            Command::InvalidNumbers(arguments) => invalid_numbers::run(config, arguments).await,
            Command::DeadLetters(arguments) => dead_letters::run(config, arguments).await,
            Command::Log(arguments) => log::run(config, arguments).await,
            Command::Demo(arguments) => demo::run(config, arguments).await,
            Command::Doctor(arguments) => doctor::run(config, arguments).await,
            Command::Health(arguments) => health::run(config, arguments).await,
            Command::Reference(arguments) => reference::run(&arguments),
        }
    }
    .await;
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            lines::say(&format!("longshore: {error}"));
            status(error.as_ref())
        }
    }
}

/// 2 where the settings cannot be used, as for a wrong option; else 1.
fn status(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    ExitCode::from(if causes.any(|cause| cause.is::<ConfigError>()) { 2 } else { 1 })
}
