//! `longshore campaigns send`: sends a campaign to a segment now.

use serde_json::json;
use uuid::Uuid;

use super::find;
use crate::app::App;
use crate::campaigns;
use crate::cli::confirm::Consent;
use crate::cli::{CommandResult, WorkspaceArgument, audit, retry, segments};
use crate::dispatches::api::send::SEND_ACTION;
use crate::dispatches::orders::{campaign_messages, count_accepted};
use crate::exports::dry_run::sample_segment;
use crate::gateway::ApiError;
use crate::gateway::idempotency::Received;
use crate::messages::dispatch;
use crate::messages::order::{Kind, Order};
use crate::messages::request::TriggerRequest;
use crate::workspaces::settings;
use kit::words::count;

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
    let body = json!({
        "campaign_id": campaign.id, "segment_id": segment.id, "broadcast": true,
    });
    let body = body.as_object().cloned().unwrap_or_default();
    let settings = settings::find(app, found.id).await?;
    let known = campaigns::api_campaigns(app, found.id).await?;
    let messages = campaign_messages(app, found.id, &body).await.map_err(message)?;
    let checked = TriggerRequest::read(&body, messages.as_ref(), &settings, &known);
    let checked = checked.map_err(message)?;
    let received = Received { id: Uuid::now_v7(), at: app.clock.now_ms() };
    let request_id = Uuid::new_v4().to_string();
    let order = checked.order(Kind::Send, received, found.id, &request_id);
    let order = Order { requested_by: Some(runtime::audit::command_actor()), ..order };
    let mut effects = Vec::new();
    if consent.needs_effects() {
        let sample = sample_segment(&app.exports, found.id, segment.id, 0).await;
        let users = sample.map_err(message)?.users;
        let about = if users.exact { "" } else { "about " };
        let users = count(users.estimated.unsigned_abs(), "user");
        let channels: Vec<&str> = order.messages.keys().map(String::as_str).collect();
        let (name, segment, channels) = (&campaign.name, &segment.name, channels.join(", "));
        effects
            .push(format!("sends {name} by {channels} to the segment {segment}: {about}{users}"));
        let problems = checked.problems.iter();
        effects.extend(
            problems.map(|problem| format!("not sent: {}: {}", problem.path, problem.text)),
        );
    }
    if !consent.is_given(json, &effects)? {
        return Ok(());
    }
    let id = order.dispatch_id.simple().to_string();
    let details = json!({ "campaign_id": campaign.id, "segment_id": segment.id });
    retry::while_busy(async || {
        let mut tx = app.store.write().await?;
        dispatch::begin(&mut tx, &order).await?;
        let change = (SEND_ACTION, &*id);
        audit::record(&mut tx, app, Some(found.id), change, details.clone()).await?;
        Ok(tx.commit().await?)
    })
    .await?;
    app.store.wake().flush().await;
    count_accepted(Kind::Send);
    if json {
        println!("{}", json!({ "dispatch_id": id, "errors": checked.problems }));
    } else {
        for problem in &checked.problems {
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
