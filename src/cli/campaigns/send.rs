//! `longshore campaigns send`: sends a campaign to a segment now.

use serde_json::json;
use uuid::Uuid;

use super::find;
use crate::app::App;
use crate::cli::confirm::Consent;
use crate::cli::{CommandResult, WorkspaceArgument, audit, retry, segments};
use crate::dispatches::orders::count_accepted;
use crate::dispatches::segment_send::SegmentSend;
use crate::exports::dry_run::sample_segment;
use crate::gateway::ApiError;
use crate::messages::order::Kind;
use crate::workspaces::Channel;
use kit::words::count;
use runtime::audit::Change;

#[derive(clap::Args)]
pub struct Send {
    /// The id or the name of a campaign of type api that declares messages
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,
    /// The id or the name of the segment
    #[arg(long, value_name = "SEGMENT")]
    segment: String,
    #[command(flatten)]
    workspace: WorkspaceArgument,
    #[command(flatten)]
    consent: Consent,
    /// Print one JSON object with the dispatch_id
    #[arg(long)]
    json: bool,
}

/// Begins the send in one transaction.
pub async fn send(app: &App, arguments: Send) -> CommandResult {
    let Send { campaign, segment, workspace, consent, json } = arguments;
    let mut tx = app.store.snapshot().await?;
    let (found, campaign) = find(&mut tx, &workspace, &campaign).await?;
    let (_, segment) = segments::find(&mut tx, &workspace, &segment).await?;
    drop(tx);
    let request_id = Uuid::new_v4().to_string();
    let actor = runtime::audit::command_actor();
    let chosen = (&campaign, segment.id);
    let send = SegmentSend::check(app, found.id, chosen, actor, &request_id).await;
    let send = send.map_err(message)?;
    let mut effects = Vec::new();
    if consent.needs_effects() {
        let sample = sample_segment(&app.exports, found.id, segment.id, 0).await;
        let users = sample.map_err(message)?.users;
        let about = if users.exact { "" } else { "about " };
        let users = count(users.estimated.unsigned_abs(), "user");
        let channels: Vec<&str> = send.channels().into_iter().map(Channel::name).collect();
        let (name, segment, channels) = (&campaign.name, &segment.name, channels.join(", "));
        effects
            .push(format!("sends {name} by {channels} to the segment {segment}: {about}{users}"));
        let problems = send.problems.iter();
        effects.extend(
            problems.map(|problem| format!("not sent: {}: {}", problem.path, problem.text)),
        );
    }
    if !consent.is_given(json, &effects)? {
        return Ok(());
    }
    let id = send.order.dispatch_id.simple().to_string();
    retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        let Change { action, object, details } = send.begin(&mut tx).await?;
        audit::record(&mut tx, app, Some(found.id), (action, &*object), details).await?;
        Ok(tx.commit().await?)
    })
    .await?;
    app.store.wake().flush().await;
    count_accepted(Kind::Send);
    if json {
        println!("{}", json!({ "dispatch_id": id, "errors": send.problems }));
    } else {
        for problem in &send.problems {
            eprintln!("longshore: not sent: {}: {}", problem.path, problem.text);
        }
        println!("sending as {id}: `longshore dispatches show {id}` shows its progress");
    }
    Ok(())
}

/// The error of a request, as text.
fn message(error: ApiError) -> String {
    error.message().into_owned()
}
