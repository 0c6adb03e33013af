//! `POST /messages/schedule/create` and `POST /campaigns/trigger/schedule/create`.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use uuid::Uuid;

use crate::app::App;
use content::campaigns;
use dispatches::orders::{ScheduledMessages, Sent, campaign_messages, count_accepted};
use gateway::idempotency::{self, Begun, Received, StoredResponse};
use gateway::workspaces::settings;
use gateway::{ApiError, Caller, IdempotencyKey, JsonText};
use messages::order::{Kind, Order};
use messages::request::{ScheduleCampaignRequest, ScheduleMessagesRequest, fill_email};
use messages::when::PAST;

/// The requests that schedule messages.
#[derive(Clone, Copy)]
pub(super) enum Endpoint {
    Messages,
    Campaign,
}

pub(super) async fn schedule(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(endpoint): Extension<Endpoint>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let mut members = body.object_in_place(&app)?;
    if matches!(endpoint, Endpoint::Messages) {
        fill_email(&app, caller.workspace.id, &mut members).await?;
    }
    let settings = settings::find(&app, caller.workspace.id).await?;
    let campaigns = campaigns::api_campaigns(&app, caller.workspace.id).await?;
    let campaign_messages = campaign_messages(&app, caller.workspace.id, &members).await?;
    let request = app.cores.compute_here(caller.workspace.id, || {
        let campaign_messages = campaign_messages.as_ref();
        match endpoint {
            Endpoint::Messages => {
                ScheduleMessagesRequest::read(&members, campaign_messages, &settings, &campaigns)
            }
            Endpoint::Campaign => {
                ScheduleCampaignRequest::read(&members, campaign_messages, &settings, &campaigns)
            }
        }
    });
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let (when, checked) = request?;
    // The database's clock, by which it will be sent, whatever a gateway's own clock shows.
    let now = app.database_now(&mut turn.tx).await?;
    if when.is_past(now) {
        return Err(ApiError::Invalid(PAST.into()));
    }
    let (workspace, request_id) = (&caller.workspace, caller.request_id.clone());
    let received = Received { id: Uuid::now_v7(), at: now };
    let order = checked.order(Kind::Schedule, received, workspace.id, &request_id);
    let order = Order { requested_by: Some(caller.actor()), ..order };
    let new = super::New {
        id: Uuid::now_v7(),
        workspace_id: workspace.id,
        dispatch_id: order.dispatch_id,
        canvas_id: None,
        when,
        request: order.to_json(),
        request_id,
        created_at: now,
    };
    super::insert(&mut turn.tx, &new).await?;
    let recording = caller.record(&mut turn.tx, now, new.change()).await?;
    let sent = Sent::new(new.dispatch_id, &checked);
    let scheduled = ScheduledMessages { schedule_id: new.id, sent };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &scheduled)?).await?;
    tracing::info!(schedule = %new.id, "messages scheduled");
    count_accepted(Kind::Schedule);
    Ok(response.recorded(recording))
}
