//! `GET /users/export/{object_prefix}/events`: the status of an export as server-sent events,
//! whenever it changes, and every few seconds while it runs (docs/how-to/follow-an-export.md).
//!
//! A stream holds no slot of a request, but one of its own ([`reserve_stream`]). It ends after the
//! export, if another stream of the same key replaces it, if the key is revoked, and if the
//! connection should close.
//!
//! [`reserve_stream`]: gateway::reserve_stream

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::{Stream, StreamExt as _, stream};
use schemars::JsonSchema;
use serde_json::json;

use super::State as JobState;
use super::api::TAG;
use super::app::App;
use super::audience::PERMISSIONS;
use super::status::{ObjectPrefix, example_status, own_job, prefix_in_path, unknown};
use super::watched::{Change, Follower};
use gateway::{self, Access, ApiError, Caller, Operation, Routes};

/// The pause before a client connects again.
pub const RETRY: Duration = Duration::from_secs(2);

/// Interval of comments, for clients and proxies that close silent connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub fn routes() -> Routes<App> {
    let events = gateway::protected_by_any(PERMISSIONS, get(events));
    Routes::new().route("/users/export/{object_prefix}/events", events, [describe_events()])
}

/// Server-sent events, as the HTML standard defines them.
#[derive(JsonSchema)]
#[schemars(with = "String", rename = "ExportEvents")]
struct Events;

fn describe_events() -> Operation {
    let example = format!(
        "event: status\ndata: {}\nretry: {}\n\nevent: end\ndata: {{\"state\":\"done\"}}\n\n",
        example_status(),
        RETRY.as_millis()
    );
    let operation = Operation::new(Method::GET, "followExport", TAG, "Follow an export")
        .by(Access::AnyKey(&PERMISSIONS))
        .about(
            "Server-sent events. `status` has the status of the export as JSON: at once, whenever it \
             changes, which the gateway checks about once a second, and every five seconds once the \
             export has started. `end` follows the status of an export that has ended. Then close \
             the stream.\n\nA stream can end earlier: connect \
             again after two seconds, and the first event has the current status. An export can \
             have one stream for each key. A new stream ends the former one, whose last event is \
             `replaced`: do not connect again after it.",
        )
        .returns_as::<Events>(StatusCode::OK, "The events.", "text/event-stream")
        .with_example(example)
        .refuses(&unknown(), "No export in this workspace has this object_prefix");
    prefix_in_path(operation)
}

async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ObjectPrefix(object_prefix): ObjectPrefix,
    head: Parts,
) -> Result<Response, ApiError> {
    let mut tx = app.request_queue.snapshot().await?;
    let (job, progress) = own_job(&mut tx, &caller, &object_prefix).await?;
    let permission = job.audience.permission();
    let follower = Follower::open(&app, &mut tx, (job, progress), caller.key_id, &head).await?;
    drop(tx);
    let stream = EventStream { app, head, permission, follower, next: Next::First };
    Ok(stream_of(stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((event, stream))
    })))
}

/// A stream of events for a client, without buffers on the way.
pub fn stream_of<S>(events: S) -> Response
where
    S: Stream<Item = Event> + Send + 'static,
{
    // nginx buffers responses otherwise.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    let events = Sse::new(events.map(Ok::<_, Infallible>));
    ([unbuffered], events.keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

/// A stream, between two events.
struct EventStream {
    app: App,
    /// The head of its request, and the permission that the key needs.
    head: Parts,
    permission: &'static str,
    follower: Follower,
    next: Next,
}

/// The next event.
enum Next {
    /// The first status.
    First,
    /// A changed status.
    Change,
    /// The end, after the status of an export that has ended.
    End(JobState),
    /// None: the last event was sent.
    None,
}

impl EventStream {
    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        match self.next {
            Next::First => Some(self.status().retry(RETRY)),
            Next::Change => self.change().await,
            Next::End(state) => {
                self.next = Next::None;
                let end = json!({ "state": state.name() });
                Some(Event::default().event("end").data(end.to_string()))
            }
            Next::None => None,
        }
    }

    /// The latest status.
    fn status(&mut self) -> Event {
        let latest = self.follower.latest();
        let state = latest.state();
        self.next = if state.is_final() { Next::End(state) } else { Next::Change };
        Event::default().event("status").data(&*latest.json)
    }

    /// Waits for a change of the status, or for another reason to end.
    async fn change(&mut self) -> Option<Event> {
        let Self { app, head, permission, follower, .. } = self;
        let is_allowed = || gateway::is_still_allowed(app, head, permission);
        match follower.changed(is_allowed).await {
            Change::Status => Some(self.status()),
            Change::Replaced => {
                self.next = Next::None;
                Some(Event::default().event("replaced").data("{}"))
            }
            Change::Closing | Change::Refused | Change::Gone => None,
        }
    }
}
