//! `longshore template`: templates of messages, checked and rendered before they are sent.

use std::fmt::{self, Display, Formatter};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use template::{MAX_SOURCE, Names, Template, TemplateError};

use super::{CommandResult, WorkspaceArgument};
use crate::app::App;
use crate::config::Config;
use crate::dispatches::preview::{Draft, Preview, Subject, preview};
use crate::messages::external::External;
use crate::messages::personalization::{NAMES, names};
use crate::users::rows::{For, find_users};
use crate::users::{Recipient, search, suppressions};
use crate::workspaces::{only_or_named, settings};
use kit::json::{self, TreeObject};

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
        /// The workspace whose content blocks, catalogs and connected content templates may use;
        /// without it, they are not checked
        #[arg(long, value_name = "NAME")]
        workspace: Option<String>,
        /// Print one JSON object per file
        #[arg(long)]
        json: bool,
    },
    /// Render a template for a user
    #[command(after_help = "Example:
  longshore template render body.liquid --user customer-17 --trigger-properties '{\"code\":\"X\"}'")]
    Render {
        /// A template; - reads from standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// An external_id, a service_id, an alias as LABEL:NAME, an email or a phone number
        #[arg(long, value_name = "USER")]
        user: String,
        #[command(flatten)]
        workspace: WorkspaceArgument,
        /// event_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        event_properties: Option<TreeObject>,
        /// api_trigger_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        trigger_properties: Option<TreeObject>,
        /// canvas_entry_properties of the template, a JSON object
        #[arg(long, value_name = "JSON", value_parser = object)]
        canvas_entry_properties: Option<TreeObject>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

pub fn object(json: &str) -> Result<TreeObject, String> {
    let object = json::check(json).and_then(|()| TreeObject::parse(json));
    object.map_err(|error| format!("expected a JSON object: {error}"))
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    match arguments.command {
        Command::Check { files, workspace: None, json } => check(&files, &NAMES, json),
        Command::Check { files, workspace, json } => {
            let app = super::open(config).await?;
            let mut tx = app.store.snapshot().await?;
            let workspace = only_or_named(&mut tx, workspace.as_deref()).await?;
            drop(tx);
            let settings = settings::find(&app, workspace.id).await?;
            check(&files, &names(&settings), json)
        }
        Command::Render {
            file,
            user,
            workspace,
            event_properties,
            trigger_properties,
            canvas_entry_properties,
            json,
        } => {
            let app = super::open(config).await?;
            let mut tx = app.store.snapshot().await?;
            let workspace_id = workspace.find(&mut tx).await?.id;
            drop(tx);
            let subject = Subject {
                event_properties,
                api_trigger_properties: trigger_properties,
                canvas_entry_properties,
                ..Subject::from_recipient(recipient(&app, workspace_id, &user).await?)
            };
            let settings = settings::find(&app, workspace_id).await?;
            let template = read(&file, &names(&settings)).map_err(|error| error.to_string())?;
            let external = External {
                app: &app,
                workspace_id,
                settings: &settings,
                is_urgent: false,
                time: None,
            };
            let mut warnings = Vec::new();
            let shown = preview(&external, Draft::Text(&template), &subject, &mut warnings).await;
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            print(shown, json)
        }
    }
}

/// The user that templates are rendered for.
pub async fn recipient(app: &App, workspace: i32, user: &str) -> CommandResult<Recipient> {
    let mut tx = app.store.snapshot().await?;
    let service_id = search::identify(&mut tx, workspace, user).await?;
    let found = find_users(&mut tx, workspace, &[service_id], For::Reading).await?;
    let stored = found.first().ok_or_else(|| format!("user {user} no longer exists"))?;
    Ok(suppressions::recipient(&mut tx, workspace, stored).await?)
}

/// A checked file; why its template is invalid, and where.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// None if it is valid.
    error: Option<String>,
}

impl Checked {
    fn valid(file: &Path) -> Self {
        Self { file: file.display().to_string(), line: None, column: None, error: None }
    }

    fn invalid(file: &Path, error: String) -> Self {
        Self { error: Some(error), ..Self::valid(file) }
    }

    fn invalid_at(file: &Path, TemplateError { line, column, text }: &TemplateError) -> Self {
        Self { line: Some(*line), column: Some(*column), ..Self::invalid(file, text.clone()) }
    }
}

/// The error, with the file, the line and the column.
impl Display for Checked {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(formatter, ":{line}:{column}")?;
        }
        write!(formatter, ": {}", self.error.as_deref().unwrap_or("valid"))
    }
}

fn check(files: &[PathBuf], names: &Names<'_>, is_json: bool) -> CommandResult {
    let mut invalid = 0;
    for file in files {
        let checked = read(file, names).err().unwrap_or_else(|| Checked::valid(file));
        if is_json {
            println!("{}", serde_json::to_string(&checked)?);
        } else if checked.error.is_some() {
            eprintln!("{checked}");
        }
        invalid += usize::from(checked.error.is_some());
    }
    super::print::all_done(invalid, files.len(), "templates are invalid")
}

/// The template of a file.
fn read(file: &Path, names: &Names<'_>) -> Result<Template, Checked> {
    let mut source = Vec::new();
    // One byte more than a template may have.
    let max_bytes = MAX_SOURCE as u64 + 1;
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(max_bytes).read_to_end(&mut source),
        _ => {
            std::fs::File::open(file).and_then(|file| file.take(max_bytes).read_to_end(&mut source))
        }
    };
    read.map_err(|error| Checked::invalid(file, error.to_string()))?;
    let source = String::from_utf8(source);
    let source = source.map_err(|_| Checked::invalid(file, "not UTF-8".to_owned()))?;
    let parsed = Template::parse(&source, names);
    let template = parsed.map_err(|error| Checked::invalid_at(file, &error))?;
    match template.mistake() {
        Some(mistake) => Err(Checked::invalid_at(file, mistake)),
        None => Ok(template),
    }
}

/// Prints the text as it would be sent; the values of `message_extras` go to standard error. As
/// JSON, prints all of it.
fn print(shown: Preview, is_json: bool) -> CommandResult {
    if is_json {
        println!("{}", serde_json::to_string(&shown)?);
    }
    if let Some(reason) = shown.aborted {
        return Err(format!("message aborted: {reason}").into());
    }
    if let Some(reason) = shown.failed {
        return Err(reason.into());
    }
    if is_json {
        return Ok(());
    }
    print!("{}", shown.rendered.as_ref().and_then(Value::as_str).unwrap_or_default());
    if !shown.message_extras.is_empty() {
        eprintln!("message_extras: {}", serde_json::to_string(&shown.message_extras)?);
    }
    Ok(())
}
