//! `longshore template`: templates of messages, checked and rendered before they are sent.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use template::{MAX_SOURCE, Stop, Template, TemplateError, Work};

use super::{CommandResult, WorkspaceArgument};
use crate::config::Config;
use crate::messages::personalization::{NAMES, Scope, Unsubscribe};
use crate::users::Recipient;
use crate::users::find;
use crate::users::rows::{For, find_users};
use store::documents::parsed;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  longshore template check welcome.liquid
  longshore template render welcome.liquid --user customer-17")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check templates as a request would, and print each error with its line and column
    #[command(after_help = "Example:\n  longshore template check subject.liquid body.liquid")]
    Check {
        /// Templates; - reads from standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print what a template renders to for a user
    #[command(after_help = "Example:
  longshore template render body.liquid --user customer-17 --trigger-properties '{\"code\":\"X\"}'")]
    Render {
        /// A template; - reads from standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// An external_id, a service_id or an email
        #[arg(long, value_name = "USER")]
        user: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// event_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        event_properties: Option<Map<String, Value>>,
        /// api_trigger_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        trigger_properties: Option<Map<String, Value>>,
        /// canvas_entry_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        canvas_entry_properties: Option<Map<String, Value>>,
    },
}

fn object(json: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(json).map_err(|error| format!("expected a JSON object: {error}"))
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    match arguments.command {
        Command::Check { files } => check(&files),
        Command::Render {
            file,
            user,
            workspace,
            event_properties,
            trigger_properties,
            canvas_entry_properties,
        } => {
            let template = read(&file)?;
            let app = super::open(config).await?;
            let mut tx = app.store.snapshot().await?;
            let workspace_id = workspace.find(&mut tx).await?.id;
            let service_id = find::identify(&mut tx, workspace_id, &user).await?;
            let found = find_users(&mut tx, workspace_id, &[service_id], For::Reading).await?;
            drop(tx);
            let stored = found.first().ok_or_else(|| format!("user {user} was erased"))?;
            let profile: Map<String, Value> = parsed("users.doc", service_id, &stored.doc)?;
            let recipient = Recipient { service_id, profile };
            let scope = Scope {
                event_properties: event_properties.as_ref(),
                api_trigger_properties: trigger_properties.as_ref(),
                canvas_entry_properties: canvas_entry_properties.as_ref(),
                unsubscribe: Some(Unsubscribe { app: &app, workspace_id, service_id }),
                ..Scope::of(&recipient.profile, app.clock.now_ms())
            };
            print(&template, &scope)
        }
    }
}

fn check(files: &[PathBuf]) -> CommandResult {
    let errors = files.iter().filter_map(|file| read(file).err());
    let wrong = errors.map(|error| eprintln!("{error}")).count();
    match wrong {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} templates cannot be used", files.len()).into()),
    }
}

/// The template of a file; the error names the file, the line and the column.
fn read(file: &Path) -> Result<Template, String> {
    let name = file.display();
    let mut source = Vec::new();
    // One byte more than a template may have.
    let most = MAX_SOURCE as u64 + 1;
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(most).read_to_end(&mut source),
        _ => std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut source)),
    };
    read.map_err(|error| format!("{name}: {error}"))?;
    let source = String::from_utf8(source).map_err(|_| format!("{name}: not UTF-8"))?;
    let placed = |TemplateError { line, column, text }: &TemplateError| {
        format!("{name}:{line}:{column}: {text}")
    };
    let template = Template::parse(&source, &NAMES).map_err(|error| placed(&error))?;
    match template.mistake() {
        Some(mistake) => Err(placed(mistake)),
        None => Ok(template),
    }
}

/// Prints the text as it would be sent; what `message_extras` noted goes to standard error.
fn print(template: &Template, scope: &Scope<'_>) -> CommandResult {
    let mut work = Work::new(scope.now);
    let text = match template.render_within(&scope.data(None), &mut work) {
        Ok(text) => text,
        Err(Stop::Aborted(reason)) => return Err(format!("message aborted: {reason}").into()),
        Err(Stop::Failed(reason)) => return Err(reason.into()),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    let extras = work.into_extras();
    if !extras.is_empty() {
        eprintln!("message_extras: {}", serde_json::to_string(&extras)?);
    }
    Ok(())
}
