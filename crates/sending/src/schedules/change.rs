//! Requests that cancel and change schedules of messages, campaigns and Canvases.

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::post;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Schedule, State as ScheduleState, cancel, move_to, rows};
use crate::app::App;
use content::campaigns;
use gateway::formats::{Errors, Success, at_least_one};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::warnings::{Warned, Warning};
use gateway::workspaces::settings;
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, Operation, Routes, fields,
};
use kit::clock::format_time;
use messages::When;
use messages::content::Messages;
use messages::order::Order;
use messages::request::{self, MessageProblem, fill_email};
use messages::when::{PAST, ScheduleObject};
use runtime::audit::Change;
use store::{StoreError, Tx};

const ALREADY_SENT: &str = "The schedule has already been sent";

const TAG: Tag = Tag { name: "Schedules", about: "Scheduled sends." };

/// IDs in the examples.
const OWNER: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";
const SCHEDULE: &str = "019a9f3e-7c11-7d22-8e33-9f44a055b166";

/// The kinds of schedules, each with its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScheduleKind {
    Messages,
    Campaign,
    Canvas,
}

/// An operation's id, path and permission.
type Endpoint = (&'static str, &'static str, &'static str);

impl ScheduleKind {
    const ALL: [Self; 3] = [Self::Messages, Self::Campaign, Self::Canvas];

    fn deletion(self) -> Endpoint {
        match self {
            Self::Messages => {
                ("deleteScheduledMessages", "/messages/schedule/delete", "messages.schedule.delete")
            }
            Self::Campaign => (
                "deleteScheduledCampaign",
                "/campaigns/trigger/schedule/delete",
                "campaigns.trigger.schedule.delete",
            ),
            Self::Canvas => (
                "deleteSchedule",
                "/canvas/trigger/schedule/delete",
                "canvas.trigger.schedule.delete",
            ),
        }
    }

    fn update(self) -> Endpoint {
        match self {
            Self::Messages => {
                ("updateScheduledMessages", "/messages/schedule/update", "messages.schedule.update")
            }
            Self::Campaign => (
                "updateScheduledCampaign",
                "/campaigns/trigger/schedule/update",
                "campaigns.trigger.schedule.update",
            ),
            Self::Canvas => (
                "updateSchedule",
                "/canvas/trigger/schedule/update",
                "canvas.trigger.schedule.update",
            ),
        }
    }

    /// An example body that identifies a schedule.
    fn example(self) -> Map<String, Value> {
        let owner = match self {
            Self::Messages => None,
            Self::Campaign => Some(("campaign_id", OWNER)),
            Self::Canvas => Some(("canvas_id", OWNER)),
        };
        let fields = owner.into_iter().chain([("schedule_id", SCHEDULE)]);
        fields.map(|(name, id)| (name.to_owned(), id.into())).collect()
    }

    fn not_found(self) -> ApiError {
        let text = match self {
            Self::Messages => "No scheduled messages have this schedule_id",
            Self::Campaign => "No schedule of this campaign has this schedule_id",
            Self::Canvas => "No schedule of this Canvas has this schedule_id",
        };
        ApiError::NotFound(text.into())
    }

    fn refuses(self, operation: Operation) -> Operation {
        let operation = operation
            .refuses(&self.not_found(), "The schedule does not exist")
            .refuses(&ApiError::Invalid(ALREADY_SENT.into()), "The schedule has already been sent");
        match self {
            Self::Canvas => {
                operation.refuses(&no_canvas(), "No Canvas in this workspace has this canvas_id")
            }
            _ => operation,
        }
    }

    fn takes_deletion(self, operation: Operation) -> Operation {
        let (title, example) = ("A schedule", self.example().into());
        match self {
            Self::Messages => operation.takes::<ScheduleKey>(title, example),
            Self::Campaign => operation.takes::<OfCampaign<ScheduleKey>>(title, example),
            Self::Canvas => operation.takes::<OfCanvas<ScheduleKey>>(title, example),
        }
    }

    fn takes_update(self, operation: Operation) -> Operation {
        let mut example = self.example();
        example.insert("schedule".into(), json!({ "time": "2127-01-01T09:00:00Z" }));
        let (title, example) = ("A new time", example.into());
        match self {
            Self::Messages => operation.takes::<Update>(title, example),
            Self::Campaign => operation.takes::<OfCampaign<NewTime>>(title, example),
            Self::Canvas => operation.takes::<OfCanvas<NewTime>>(title, example),
        }
    }

    /// Finds and locks the schedule that a body identifies.
    async fn find(
        self,
        tx: &mut Tx,
        workspace: i32,
        key: &ScheduleKey,
    ) -> Result<Schedule, ApiError> {
        let owner = match self {
            Self::Messages => None,
            Self::Campaign => key.campaign_id.as_deref(),
            Self::Canvas => key.canvas_id.as_deref(),
        };
        let owner = owner.and_then(|id| Uuid::try_parse(id).ok());
        if self == Self::Canvas {
            let is_there = match owner {
                Some(id) => campaigns::has_canvas(tx, workspace, id).await?,
                None => false,
            };
            is_there.then_some(()).ok_or_else(no_canvas)?;
        }
        let id = Uuid::try_parse(&key.schedule_id).map_err(|_| self.not_found())?;
        let schedule = rows::lock(tx, id).await?.ok_or_else(|| self.not_found())?;
        let is_own = schedule.workspace_id == workspace
            && match self {
                Self::Canvas => schedule.canvas_id == owner,
                _ if schedule.canvas_id.is_some() => false,
                Self::Messages => true,
                Self::Campaign => owner.is_some() && order(&schedule)?.campaign_id == owner,
            };
        is_own.then_some(schedule).ok_or_else(|| self.not_found())
    }
}

fn order(schedule: &Schedule) -> Result<Order, StoreError> {
    Order::from_row("schedules.request", schedule.id, &schedule.request)
}

pub(super) fn no_canvas() -> ApiError {
    ApiError::NotFound("No Canvas has this canvas_id".into())
}

// Bodies -------------------------------------------------------------------------------------

/// Identifies a schedule.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ScheduleNamed")]
pub struct ScheduleKey {
    /// The `schedule_id` in the response that created the schedule.
    schedule_id: String,
    // Read for all kinds of schedules, so that a value of another type is always rejected.
    // [`OfCampaign`] and [`OfCanvas`] describe where they are required.
    #[schemars(skip)]
    campaign_id: Option<String>,
    #[schemars(skip)]
    canvas_id: Option<String>,
}

impl ScheduleKey {
    fn read(
        kind: ScheduleKind,
        members: &Map<String, Value>,
    ) -> Result<(Self, Vec<Warning>), ApiError> {
        let (key, warnings) = fields::read_request::<Self>(members)?;
        Ok((key.checked(kind)?, warnings))
    }

    fn checked(self, kind: ScheduleKind) -> Result<Self, ApiError> {
        match kind {
            ScheduleKind::Campaign if self.campaign_id.is_none() => Err(missing("campaign_id")),
            ScheduleKind::Canvas if self.canvas_id.is_none() => Err(missing("canvas_id")),
            _ => Ok(self),
        }
    }
}

/// A schedule, and its new time (`schedule`), its new messages (`messages`), or both.
#[derive(JsonSchema)]
#[schemars(rename = "ScheduleUpdate", transform = at_least_one(&["schedule", "messages"]))]
struct Update {
    #[serde(flatten)]
    key: ScheduleKey,
    #[serde(flatten)]
    changes: Changes,
}

/// The fields that can change; at least one is set.
#[derive(Deserialize, JsonSchema)]
struct Changes {
    #[schemars(with = "Option<ScheduleObject>")]
    schedule: Option<When>,
    // Ignored for a schedule of a campaign or a Canvas.
    messages: Option<Messages>,
}

impl Update {
    fn read(
        kind: ScheduleKind,
        members: &Map<String, Value>,
    ) -> Result<(Self, Vec<Warning>), ApiError> {
        let ((key, mut changes), warnings) =
            fields::read_request_both::<ScheduleKey, Changes>(members)?;
        let key = key.checked(kind)?;
        changes.messages = changes.messages.filter(|_| kind == ScheduleKind::Messages);
        if changes.schedule.is_none() && changes.messages.is_none() {
            return Err(match kind {
                ScheduleKind::Messages => missing("schedule or messages"),
                ScheduleKind::Campaign | ScheduleKind::Canvas => missing("schedule"),
            });
        }
        Ok((Self { key, changes }, warnings))
    }
}

fn missing(name: &str) -> ApiError {
    ApiError::Field(gateway::Code::MissingField, format!("{name} is required"))
}

// These types only describe which fields are required for some kinds of schedules. Bodies of all
// kinds are read as the types above: types of their own would accept fields of the wrong type that
// the others have.

/// A schedule, and its new time.
#[derive(JsonSchema)]
#[schemars(rename = "ScheduleTime")]
#[expect(dead_code, reason = "described only")]
struct NewTime {
    #[serde(flatten)]
    key: ScheduleKey,
    schedule: ScheduleObject,
}

/// The same fields for a schedule of a campaign.
#[derive(JsonSchema)]
#[schemars(rename = "{T}OfCampaign", bound = "T: JsonSchema")]
#[expect(dead_code, reason = "described only")]
struct OfCampaign<T> {
    campaign_id: String,
    #[serde(flatten)]
    rest: T,
}

/// The same fields for a schedule of a Canvas.
#[derive(JsonSchema)]
#[schemars(rename = "{T}OfCanvas", bound = "T: JsonSchema")]
#[expect(dead_code, reason = "described only")]
struct OfCanvas<T> {
    canvas_id: String,
    #[serde(flatten)]
    rest: T,
}

// Operations ---------------------------------------------------------------------------------

pub(super) fn routes() -> Routes<App> {
    ScheduleKind::ALL.into_iter().fold(Routes::new(), |routes, kind| {
        let (id, path, permission) = kind.deletion();
        let operation = Operation::new(Method::POST, id, TAG, "Cancel a schedule")
            .by(Access::Key(permission))
            .about(
                "A repeated request returns the same response. If the schedule is being sent, \
                 messages in flight are still sent, and no message starts more than a second \
                 later.",
            )
            .repeatable();
        let operation = kind
            .takes_deletion(operation)
            .returns::<Warned<Success>>(StatusCode::CREATED, "The schedule is cancelled.");
        let route = gateway::protected(permission, post(delete).layer(Extension(kind)));
        let routes = routes.route(path, route, [kind.refuses(operation)]);

        let (id, path, permission) = kind.update();
        let operation = Operation::new(Method::POST, id, TAG, "Change a schedule")
            .by(Access::Key(permission))
            .about("Fails if the schedule has been sent or is being sent.")
            .repeatable();
        let operation = kind
            .takes_update(operation)
            .returns::<Warned<Success>>(StatusCode::CREATED, "The schedule is changed.")
            .refuses(&ApiError::Invalid(PAST.into()), "The time is in the past")
            .refuses_in::<Errors<'_, MessageProblem>>(StatusCode::BAD_REQUEST);
        let route = gateway::protected(permission, post(update).layer(Extension(kind)));
        routes.route(path, route, [kind.refuses(operation)])
    })
}

async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(kind): Extension<ScheduleKind>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let request = ScheduleKey::read(kind, &body.object_in_place(&app)?);
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: a body that was valid for it may be invalid now.
    let (schedule_key, warnings) = request?;
    let schedule = kind.find(&mut turn.tx, caller.workspace.id, &schedule_key).await?;
    let cancelled = cancel(&mut turn.tx, schedule.id, app.clock.now_ms()).await?;
    if cancelled.as_ref().is_some_and(|cancelled| cancelled.state == ScheduleState::Sent) {
        return Err(ApiError::Invalid(ALREADY_SENT.into()));
    }
    let change = cancelled.and_then(|cancelled| cancelled.change());
    let recording = caller.record(&mut turn.tx, app.clock.now_ms(), change).await?;
    let answer = Warned { response: Success::default(), warnings };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &answer)?).await?;
    tracing::info!(schedule = %schedule.id, "schedule cancelled");
    Ok(response.recorded(recording))
}

async fn update(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(kind): Extension<ScheduleKind>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let mut members = body.object_in_place(&app)?;
    if kind == ScheduleKind::Messages {
        fill_email(&app, caller.workspace.id, &mut members).await?;
    }
    let settings = settings::find(&app, caller.workspace.id).await?;
    let read = Update::read(kind, &members).map(|(update, warnings)| {
        let Update { key: schedule_key, changes: Changes { schedule: when, messages } } = update;
        let messages = messages.map(|Messages(messages)| {
            app.cores.compute_here(caller.workspace.id, || {
                request::scheduled_messages(&messages, &settings)
            })
        });
        (schedule_key, when, messages, warnings)
    });
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    // After the stored response: what was valid for it may be invalid now.
    let (schedule_key, when, messages, warnings) = read?;
    let messages = messages.transpose()?;
    let has_new_messages = messages.is_some();
    let now = app.database_now(&mut turn.tx).await?;
    let mut schedule = kind.find(&mut turn.tx, caller.workspace.id, &schedule_key).await?;
    if schedule.state != ScheduleState::Pending || schedule.reached_at.is_some() {
        return Err(ApiError::Invalid(ALREADY_SENT.into()));
    }
    if let Some(messages) = messages {
        let order = Order { messages, ..order(&schedule)? };
        schedule.request = order.to_json();
    }
    let timed_at = if when.is_some() { now } else { schedule.timed_at };
    let when = when.unwrap_or(schedule.when());
    if when.is_past(now) {
        return Err(ApiError::Invalid(PAST.into()));
    }
    move_to(&mut turn.tx, &schedule, when, timed_at).await?;
    let details = json!({
        "before": { "time": format_time(schedule.time) },
        "after": { "time": format_time(when.time), "has_new_messages": has_new_messages },
    });
    let change = Change::new("schedule.update", schedule.id.to_string(), details);
    let recording = caller.record(&mut turn.tx, now, change).await?;
    let answer = Warned { response: Success::default(), warnings };
    let response = turn.commit(StoredResponse::json(StatusCode::CREATED, &answer)?).await?;
    tracing::info!(schedule = %schedule.id, "schedule changed");
    Ok(response.recorded(recording))
}
