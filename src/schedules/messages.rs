//! `POST /messages/schedule/create` and `POST /campaigns/trigger/schedule/create`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use uuid::Uuid;

use crate::app::App;
use crate::campaigns;
use crate::gateway::idempotency::{self, Answer, Received};
use crate::gateway::{ApiError, Caller, IdempotencyKey, JsonText};
use crate::messages::api::{ScheduledMessages, Sent, count, declared};
use crate::messages::order::Kind;
use crate::messages::request::{ScheduleCampaignRequest, ScheduleMessagesRequest};
use crate::messages::when::PAST;
use crate::workspaces::settings;
use store::claims;

/// The calls that schedule messages.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Messages,
    Campaign,
}

pub(super) async fn schedule(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(call): Extension<Call>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Answer, ApiError> {
    let members = body.object_beside(&app)?;
    let settings = settings::of(&app, caller.workspace.id).await?;
    let campaigns = campaigns::of_calls(&app, caller.workspace.id).await?;
    let declared = declared(&app, caller.workspace.id, &members).await?;
    let request = app.cores.compute_here(|| {
        let declared = declared.as_ref();
        match call {
            Call::Messages => {
                ScheduleMessagesRequest::read(&members, declared, &settings, &campaigns)
            }
            Call::Campaign => {
                ScheduleCampaignRequest::read(&members, declared, &settings, &campaigns)
            }
        }
    });
    let clock = app.clock.clone();
    let is_new = Arc::new(AtomicBool::new(false));
    let made = is_new.clone();
    let answer = idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            // A repeat with the key of an accepted request never gets here.
            let (when, wanted) = request?;
            // The database's clock, by which it will be sent, whatever a gateway's own clock shows.
            let now = clock.moved(claims::now(tx).await?);
            if when.is_past(now) {
                return Err(ApiError::Invalid(PAST.into()));
            }
            let received = Received { id: Uuid::now_v7(), at: now };
            let Caller { workspace, request_id, .. } = caller;
            let order = wanted.order(Kind::Schedule, received, workspace.id, &request_id);
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
            super::insert(tx, &new).await?;
            tracing::info!(schedule = %new.id, "messages were scheduled");
            made.store(true, Ordering::Relaxed);
            let sent = Sent::new(new.dispatch_id, &wanted);
            let scheduled = ScheduledMessages { schedule_id: new.id, sent };
            Answer::of(StatusCode::CREATED, &scheduled)
        })
    })
    .await?;
    if is_new.load(Ordering::Relaxed) {
        count(Kind::Schedule);
    }
    Ok(answer)
}
