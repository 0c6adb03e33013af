//! `longshore campaigns list`, `show` and `preview`: what the workspace file declares, and its
//! results.

use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::campaigns::{self, Campaign, Kind};
use crate::cli::table::printable;
use crate::cli::{CommandResult, PageArguments, WorkspaceArgument, ids, print, table, template};
use crate::dispatches::preview::{Draft, Reason, Subject, add_reasons, declared, preview};
use crate::dispatches::{self, Statistics};
use crate::messages::external::External;
use crate::workspaces::{Workspace, settings};
use kit::json::{TreeObject, pretty};
use store::Tx;

#[derive(clap::Args)]
pub struct List {
    /// Also list archived campaigns
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(clap::Args)]
pub struct Show {
    /// The id or the name of a campaign or Canvas
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Preview {
    /// The id or the name of a campaign or Canvas
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,
    /// The user: an external_id, a service_id, an alias as LABEL:NAME, an email or a phone number
    #[arg(long, value_name = "USER")]
    user: String,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    /// event_properties of the templates, a JSON object
    #[arg(long, value_name = "JSON", value_parser = template::object)]
    event_properties: Option<TreeObject>,
    /// api_trigger_properties of the templates, a JSON object
    #[arg(long, value_name = "JSON", value_parser = template::object)]
    trigger_properties: Option<TreeObject>,
    /// canvas_entry_properties of the templates, a JSON object
    #[arg(long, value_name = "JSON", value_parser = template::object)]
    canvas_entry_properties: Option<TreeObject>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

pub async fn list(app: &App, arguments: List) -> CommandResult {
    let List { archived, workspace, page } = arguments;
    let mut tx = app.store.snapshot().await?;
    let workspace = workspace.find(&mut tx).await?;
    let campaigns = campaigns::stored(&mut tx, workspace.id).await?;
    let headers = ["ID", "TYPE", "STATE", "CHANNELS", "NAME"];
    let is_shown = |campaign: &Campaign| archived || !campaign.archived;
    let id = |campaign: &Campaign| campaign.id.to_string();
    page.print_shown("campaigns or Canvases", headers, &campaigns, is_shown, id, row)
}

fn row(campaign: &Campaign) -> [table::Cell; 5] {
    [
        table::text(campaign.id),
        table::text(campaign.kind.name()),
        table::state(state(campaign)),
        table::optional(Some(table::text(channels(campaign)))),
        table::text(&campaign.name),
    ]
}

fn state(campaign: &Campaign) -> &'static str {
    campaign.inactive().unwrap_or("active")
}

/// The channels of its messages.
fn channels(campaign: &Campaign) -> String {
    let names = campaign.messages().into_iter().flat_map(|messages| messages.keys());
    let names = names.map(String::as_str);
    let email = campaign.content.get("email").map(|_| "email");
    names
        .chain(email.filter(|_| campaign.kind == Kind::Transactional))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A campaign with its state and results.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    campaign: &'a Campaign,
    state: &'static str,
    results: &'a [Statistics],
}

pub async fn show(app: &App, arguments: Show) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let (workspace, campaign) = find(&mut tx, &arguments.workspace, &arguments.campaign).await?;
    let results = dispatches::statistics(&mut tx, workspace.id, Some(campaign.id)).await?;
    if arguments.json {
        let shown = Shown { campaign: &campaign, state: state(&campaign), results: &results };
        println!("{}", serde_json::to_string(&shown)?);
        return Ok(());
    }
    let fields = [
        ("id", table::text(campaign.id)),
        ("workspace", table::text(&workspace.name)),
        ("type", table::text(campaign.kind.name())),
        ("name", table::text(&campaign.name)),
        ("state", table::state(state(&campaign))),
        ("tags", table::optional(Some(table::text(campaign.tags.join(", "))))),
        ("channels", table::optional(Some(table::text(channels(&campaign))))),
    ];
    println!("{}", table::fields(fields));
    if results.is_empty() {
        println!("no messages yet");
    } else {
        super::print_statistics(false, &results)?;
    }
    println!("\n{}", printable(&pretty(&campaign.content.to_json())));
    Ok(())
}

/// Renders the messages of a campaign for a user; sends nothing.
pub async fn show_preview(app: &App, arguments: Preview) -> CommandResult {
    let mut tx = app.store.snapshot().await?;
    let (workspace, campaign) = find(&mut tx, &arguments.workspace, &arguments.campaign).await?;
    drop(tx);
    let user = template::recipient(app, workspace.id, &arguments.user).await?;
    let settings = settings::find(app, workspace.id).await?;
    let (content, problems) = declared(&campaign, &settings)
        .ok_or_else(|| format!("{} declares no messages", campaign.name))?;
    let subject = Subject {
        event_properties: arguments.event_properties,
        api_trigger_properties: arguments.trigger_properties,
        canvas_entry_properties: arguments.canvas_entry_properties,
        ..Subject::from_recipient(user)
    };
    let external = External {
        app,
        workspace_id: workspace.id,
        settings: &settings,
        is_urgent: false,
        time: None,
    };
    let (mut warnings, mut previews) = (Vec::new(), Vec::new());
    for message in content.messages() {
        previews.push(preview(&external, Draft::Message(message), &subject, &mut warnings).await);
    }
    let (of_workspace, rendered) = ((workspace.id, &*settings), (content.messages(), &subject));
    add_reasons(app, of_workspace, Some(&campaign), rendered, &mut previews).await?;
    let mut unsent = problems.len();
    for (message, shown) in content.messages().iter().zip(&previews) {
        unsent += usize::from(!shown.is_sent());
        if arguments.json {
            println!("{}", json!(shown));
            continue;
        }
        println!("{}:", message.channel.name());
        match (&shown.rendered, &shown.aborted, &shown.failed) {
            (Some(rendered), _, _) => println!("{}", printable(&pretty(&rendered.to_string()))),
            (None, Some(reason), _) => println!("  aborted: {}", printable(reason)),
            (None, None, reason) => {
                println!("  failed: {}", printable(reason.as_deref().unwrap_or("-")));
            }
        }
        for Reason { reason, text } in &shown.why_not {
            println!("  would not be sent: {reason}: {}", printable(text));
        }
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {}", printable(warning)));
    problems.iter().for_each(|problem| eprintln!("longshore: {problem}"));
    let all = content.messages().len() + problems.len();
    print::all_done(unsent, all, "messages would not be sent")
}

/// The workspace, and its campaign or Canvas with an id or a name.
pub async fn find(
    tx: &mut Tx,
    workspace: &WorkspaceArgument,
    text: &str,
) -> CommandResult<(Workspace, Campaign)> {
    let found = workspace.find(tx).await?;
    let all = campaigns::stored(tx, found.id).await?;
    let list = workspace.command("campaigns list");
    let kind = ("campaign or Canvas", list.as_str());
    let campaign = ids::find(all, text, kind, |campaign| (campaign.id, campaign.name.as_str()))?;
    Ok((found, campaign))
}
