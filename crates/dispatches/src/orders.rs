//! `POST /messages/send` and `POST /campaigns/trigger/send`, and what schedules have in common with
//! them.

mod live_activity;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::post;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use content::campaigns;
use gateway::formats::{Errors, SuccessText};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::Warning;
use gateway::workspaces::email_templates::EMAIL_TEMPLATE_ID;
use gateway::workspaces::{Channel, settings};
use gateway::{self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes};
use messages::app::App;
use messages::order::{Kind, Order};
use messages::recipient::Members;
use messages::request::{
    self, ARCHIVED_CAMPAIGN, CheckedSend, INVALID_CAMPAIGN, MessageProblem, NO_MESSAGE,
    PAUSED_CAMPAIGN, ScheduleCampaignRequest, ScheduleMessagesRequest, SendRequest, TriggerRequest,
    UNKNOWN_SEGMENT, fill_email,
};
use messages::when::PAST;

const SEND: &str = "messages.send";
const TRIGGER: &str = "campaigns.trigger.send";
pub const SCHEDULE: &str = "messages.schedule.create";

const TAG: Tag = Tag {
    name: "Messages",
    about: "Messages to listed users, a segment or an audience; now or scheduled.",
};

/// The pattern of a dispatch's id.
pub const DISPATCH_ID: &str = "^[0-9a-f]{32}$";

/// The campaign in the examples.
const CAMPAIGN: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";

/// The routes that send to users.
pub fn routes() -> Routes<App> {
    let route = |permission, endpoint: Endpoint| {
        gateway::protected(permission, post(send).layer(Extension(endpoint)))
    };
    Routes::new()
        .route("/messages/send", route(SEND, Endpoint::Send), [describe_send()])
        .route("/campaigns/trigger/send", route(TRIGGER, Endpoint::Trigger), [describe_trigger()])
        .merge(live_activity::routes())
}

fn describe_send() -> Operation {
    let operation = Operation::new(Method::POST, "sendMessages", TAG, "Send messages now")
        .by(Access::Key(SEND))
        .about(
            "The response is sent once the request is durable. The messages are sent soon after, \
             once to each user by each channel. Unknown users are skipped. A request to a whole \
             segment or audience counts against the rate limit `messages.send.audience` instead: \
             250 requests per minute.",
        )
        .repeatable()
        // Works in every workspace: content cards need no provider, and nothing is named that the
        // workspace would have to declare.
        .takes::<SendRequest>(
            "A content card to a user",
            json!({
                "external_user_ids": ["ann"],
                "messages": { "content_card": {
                    "type": "CLASSIC", "title": "Welcome, {{${first_name}}}",
                    "description": "This card is shown for a day.", "time_to_live": 86_400,
                } },
            }),
        )
        .returns::<Sent>(StatusCode::CREATED, "The request is durable.");
    describe_message_errors(operation)
        .refuses(&ApiError::TooLarge, "The request is too large to store")
}

fn describe_trigger() -> Operation {
    let operation = Operation::new(Method::POST, "triggerCampaign", TAG, "Send a campaign now")
        .by(Access::Key(TRIGGER))
        .about(
            "Sends the messages that the campaign declares, as `POST /messages/send` does, and \
             counts against the same rate limits. Unknown users are skipped.",
        )
        .repeatable()
        .takes::<TriggerRequest>(
            "To listed users",
            json!({
                "campaign_id": CAMPAIGN, "trigger_properties": { "seats": 2 },
                "recipients": [{ "external_user_id": "ann" }],
            }),
        )
        .returns::<Sent>(StatusCode::CREATED, "The request is durable.");
    describe_message_errors(operation)
        .refuses(&ApiError::TooLarge, "The request is too large to store")
}

pub fn describe_schedule() -> Operation {
    let operation = Operation::new(Method::POST, "scheduleMessages", TAG, "Schedule messages")
        .by(Access::Key(SCHEDULE))
        .about(
            "At one time for all users, or at a local time in each user's time zone. `longshore \
             schedules` lists and cancels schedules.",
        )
        .repeatable()
        .takes::<ScheduleMessagesRequest>(
            "To one user, at 9:00 local time",
            json!({
                "external_user_ids": ["ann"],
                "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
                "messages": webhook(),
            }),
        )
        .returns::<ScheduledMessages>(StatusCode::CREATED, "The messages are scheduled.");
    describe_message_errors(operation).refuses(
        &ApiError::Invalid(PAST.into()),
        "The time is in the past, in every time zone for a local time",
    )
}

pub fn describe_schedule_campaign(permission: &'static str) -> Operation {
    let operation = Operation::new(Method::POST, "scheduleCampaign", TAG, "Schedule a campaign")
        .by(Access::Key(permission))
        .about("Schedules the messages that the campaign declares at the time of this request.")
        .repeatable()
        .takes::<ScheduleCampaignRequest>(
            "To one user, at 9:00 local time",
            json!({
                "campaign_id": CAMPAIGN, "recipients": [{ "external_user_id": "ann" }],
                "schedule": { "time": "2127-01-01T09:00:00", "in_local_time": true },
            }),
        )
        .returns::<ScheduledMessages>(StatusCode::CREATED, "The campaign is scheduled.");
    describe_message_errors(operation).refuses(
        &ApiError::Invalid(PAST.into()),
        "The time is in the past, in every time zone for a local time",
    )
}

fn webhook() -> Value {
    json!({ "webhook": {
        "url": "https://hooks.acme.example/{{${user_id}}}", "request_method": "POST",
        "body": "{\"name\": \"{{${first_name}}}\"}",
    }})
}

/// The errors of a request with message objects.
pub fn describe_message_errors(operation: Operation) -> Operation {
    let template = "line 1, column 7: `{{` is not closed";
    let wrong_template = ApiError::InvalidMany(
        format!("messages.webhook.body: {template}"),
        vec![json!({ "type": template, "path": "messages.webhook.body" })],
    );
    let no_message = vec![json!({
        "type": "the workspace declares no providers.push", "path": "messages.apple_push",
    })];
    let invalid = |text: &str| ApiError::Invalid(text.into());
    operation
        .refuses_in::<Errors<'_, MessageProblem>>(StatusCode::BAD_REQUEST)
        .refuses(
            &ApiError::invalid_field(UNKNOWN_SEGMENT),
            "No segment in this workspace has this segment_id",
        )
        .refuses(
            &invalid(INVALID_CAMPAIGN),
            "No campaign of type api in this workspace has this campaign_id",
        )
        .refuses(&invalid(ARCHIVED_CAMPAIGN), "The campaign is archived")
        .refuses(&invalid(PAUSED_CAMPAIGN), "The campaign is paused")
        .refuses(&wrong_template, "A message object has an error that fails the whole request")
        .refuses(
            &ApiError::InvalidMany(NO_MESSAGE.into(), no_message),
            "None of the messages can be sent",
        )
}

/// The requests that send immediately.
#[derive(Clone, Copy)]
enum Endpoint {
    Send,
    Trigger,
}

/// Counts the request against the budget that its body selects, and processes it.
async fn send(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(endpoint): Extension<Endpoint>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response, ApiError> {
    let members = body.object_in_place(&app)?;
    let (budget, workspace) = (request::budget(&members), caller.workspace.clone());
    let accepted = accept(app.clone(), caller, endpoint, key, members, body);
    Ok(gateway::count_and_handle(&app, &workspace, budget, accepted).await)
}

async fn accept(
    app: App,
    caller: Caller,
    endpoint: Endpoint,
    key: Option<IdempotencyKey>,
    mut members: Members,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let turn = match idempotency::begin_append(&app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let settings = settings::find(&app, caller.workspace.id).await?;
    let campaigns = campaigns::api_campaigns(&app, caller.workspace.id).await?;
    let campaign_messages = match endpoint {
        Endpoint::Send => {
            fill_email(&app, caller.workspace.id, &mut members).await?;
            None
        }
        Endpoint::Trigger => campaign_messages(&app, caller.workspace.id, &members).await?,
    };
    // Compiles regular expressions and parses templates.
    let checked = app.cores.compute_here(caller.workspace.id, || match endpoint {
        Endpoint::Send => SendRequest::read(&members, &settings, &campaigns),
        Endpoint::Trigger => {
            TriggerRequest::read(&members, campaign_messages.as_ref(), &settings, &campaigns)
        }
    });
    let checked = checked.map_err(|error| turn.rejected(error))?;
    let requested_by = Some(caller.actor());
    let Caller { workspace, request_id, .. } = caller;
    let order = checked.order(Kind::Send, turn.received(), workspace.id, &request_id);
    let order = Order { requested_by, ..order };
    let sent = Sent::new(order.dispatch_id, &checked);
    let message = order.to_log(app.config.log.partitions)?;
    let response =
        turn.append(vec![message], StoredResponse::json(StatusCode::CREATED, &sent)?).await?;
    count_accepted(Kind::Send);
    Ok(response)
}

/// The message objects that a campaign declares, if the request has none of its own.
pub async fn campaign_messages(
    app: &App,
    workspace: i32,
    members: &Members,
) -> Result<Option<Members>, ApiError> {
    let Some(id) = request::requested_campaign(members) else { return Ok(None) };
    let mut tx = app.request_queue.snapshot().await?;
    let campaign = campaigns::by_id(&mut tx, workspace, id).await?;
    let messages = campaign.and_then(|mut campaign| campaign.content.remove("messages"));
    Ok(match messages {
        Some(Value::Object(mut messages)) => {
            // Versions that did not know email templates stored the id, and ignored it.
            if let Some(Value::Object(email)) = messages.get_mut(Channel::Email.name()) {
                email.remove(EMAIL_TEMPLATE_ID);
            }
            Some(messages)
        }
        _ => None,
    })
}

/// The response to an accepted send.
#[derive(Serialize, JsonSchema)]
pub struct Sent {
    #[schemars(regex(pattern = DISPATCH_ID))]
    dispatch_id: String,
    /// The `send_id` of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    send_id: Option<String>,
    message: SuccessText,
    /// The errors of message objects that are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<MessageProblem>,
    /// Parts of the request that have no effect; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

/// The response to an accepted schedule.
#[derive(Serialize, JsonSchema)]
pub struct ScheduledMessages {
    pub schedule_id: Uuid,
    #[serde(flatten)]
    pub sent: Sent,
}

impl Sent {
    pub fn new(dispatch_id: Uuid, checked: &CheckedSend) -> Self {
        Self {
            dispatch_id: dispatch_id.simple().to_string(),
            send_id: checked.send_id.clone(),
            message: SuccessText::Success,
            errors: checked.problems.clone(),
            warnings: checked.warnings.clone(),
        }
    }
}

/// Counts an accepted request to send.
pub fn count_accepted(kind: Kind) {
    metrics::counter!("longshore_send_requests_total", "kind" => kind.name()).increment(1);
}
