//! `longshore apply`.

use std::path::{Path, PathBuf};

use super::confirm::Confirmation;
use super::{CommandResult, output, retry};
use crate::app::App;
use crate::config::Config;
use crate::workspace_file::apply::{Applied, apply};
use crate::workspace_file::change::Options;
use crate::workspace_file::company::apply_company;
use crate::workspace_file::document::json_schema;
use crate::workspace_file::file::{self, Declared};

#[derive(clap::Args)]
#[command(after_help = "Example:
  $ cat acme.yaml
  workspace: acme
  currency: USD
  keys:
    - {name: integrator, secret: \"${ACME_KEY}\", permissions: [users.export.global_control_group]}
  control_group: {percent: 5}
  $ ACME_KEY=$(openssl rand -base64 32) longshore apply acme.yaml
  acme:
    + workspace acme
    + key integrator (users.export.global_control_group)
    + control_group (5%)
    + callbacks.secret (generated: the file has none)
    + webhooks.secret (generated: the file has none)
  callbacks.secret of acme, shown only once: whsec_…
  webhooks.secret of acme, shown only once: whsec_…")]
pub struct Arguments {
    /// The workspace file: YAML, one document per workspace, and one for the company
    #[arg(required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Show the changes without applying them; storage is not tested
    #[arg(long)]
    dry_run: bool,
    /// Also delete or revoke what the file no longer declares: declared keys, apps, storage,
    /// catalogs with their fields and items (also those that requests created), selections, content
    /// blocks, email templates, connected content, email, providers, subscription groups, segments,
    /// campaigns, Canvases, SCIM tokens, dashboard users. Asks first on a terminal. Without one,
    /// what running sends use is removed only with --yes
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of the file and exit
    #[arg(long)]
    schema: bool,
}

pub async fn run(config: Config, arguments: Arguments) -> CommandResult {
    let path = match arguments.file {
        Some(path) if !arguments.schema => path,
        _ => {
            print!("{}", json_schema());
            return Ok(());
        }
    };
    let bytes =
        tokio::fs::read(&path).await.map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{}: line {line}: not UTF-8", path.display())
    })?;
    let mut declared = file::read(&text, &|name| std::env::var(name).ok())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    declared.workspaces.iter_mut().for_each(|declaration| declaration.relative_to(directory));
    let app = if arguments.dry_run {
        super::open(config).await?
    } else {
        super::open_or_create(config).await?
    };
    let mut options = Options {
        dry_run: arguments.dry_run,
        prune: arguments.prune,
        confirmed: arguments.confirmation.is_given(),
    };
    if options.prune && !options.dry_run && arguments.confirmation.is_needed() {
        let deleted = deletions(&app, &declared).await?;
        if !deleted.is_empty() {
            arguments.confirmation.ask(&deleted)?;
            options.confirmed = true;
        }
    }
    let mut has_new_secrets = false;
    let mut show = |applied: Applied| {
        has_new_secrets |= !applied.secrets.is_empty();
        if arguments.json {
            println!("{}", serde_json::to_string(&applied)?);
        } else {
            print(&applied, arguments.dry_run);
        }
        CommandResult::Ok(())
    };
    for declaration in &declared.workspaces {
        let applied = async || Ok(apply(&app, declaration, options).await?);
        let applied = retry::long_while_busy(applied).await;
        show(applied.map_err(|error| format!("workspace {}: {error}", declaration.name))?)?;
    }
    // Its users may refer to any of the workspaces.
    if let Some(company) = &declared.company {
        let applied = async || Ok(apply_company(&app, company, options).await?);
        let applied = retry::long_while_busy(applied).await;
        show(applied.map_err(|error| format!("company {}: {error}", company.name))?)?;
    }
    if has_new_secrets && output::error().is_some() {
        return Err(
            "the file was applied, but its new secrets were not printed: set others in the \
                    file, and apply it again"
                .into(),
        );
    }
    Ok(())
}

/// What an apply with `--prune` would delete or revoke, and the sends and schedules that it touches.
async fn deletions(app: &App, declared: &Declared) -> CommandResult<Vec<String>> {
    let options = Options { dry_run: true, prune: true, confirmed: false };
    let mut planned = Vec::new();
    for declaration in &declared.workspaces {
        let plan = apply(app, declaration, options).await;
        planned.push(plan.map_err(|error| format!("workspace {}: {error}", declaration.name))?);
    }
    if let Some(company) = &declared.company {
        let plan = apply_company(app, company, options).await;
        planned.push(plan.map_err(|error| format!("company {}: {error}", company.name))?);
    }
    let lines = |applied: Applied| {
        let Applied { name, changes, touched, .. } = applied;
        let deleted = changes.into_iter().filter(|change| change.sign == '-');
        let deleted: Vec<String> = deleted.map(|change| format!("{name}: {change}")).collect();
        let touched = touched.into_iter().map(|line| format!("{name}: ! {line}"));
        let touched = touched.filter(|_| !deleted.is_empty()).collect::<Vec<_>>();
        deleted.into_iter().chain(touched)
    };
    Ok(planned.into_iter().flat_map(lines).collect())
}

fn print(applied: &Applied, dry_run: bool) {
    println!("{}:{}", applied.name, if dry_run { " (not applied yet)" } else { "" });
    for change in &applied.changes {
        println!("  {change}");
    }
    if applied.changes.is_empty() {
        println!("  = no changes");
    }
    for note in applied.notes.iter().chain(&applied.touched) {
        println!("  ! {note}");
    }
    for (path, secret) in &applied.secrets {
        println!("{path} of {}, shown only once: {secret}", applied.name);
    }
}
