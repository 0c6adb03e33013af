//! The progress of an export as a stream, while somebody looks at its page.
//!
//! Each change is a message with the new figures, which htmx puts in place of the old ones. After the
//! end come the events `ended`, at which the page loads itself again with its other actions, and
//! `close`, at which htmx closes the stream.

use std::convert::Infallible;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use maud::html;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use super::progress::{Moment, figures};
use crate::page::Page;
use crate::pages::exports::labels;
use crate::rights::Right;
use crate::session;
use exports::Job;
use exports::events::{KEEP_ALIVE, RETRY, should_close};
use exports::watched::{Change, Follower};
use runtime::app::queue::held_by;
use runtime::fairness::Holder;
use store::within_timeout;

/// The id of the state in the title, which each message replaces.
pub const STATE_ID: &str = "export-state";

/// The events at the end.
pub const ENDED: &str = "ended";
pub const CLOSE: &str = "close";

/// A stream, between two events.
pub struct LiveExport {
    page: Page,
    /// The head of its request, with the session.
    head: Parts,
    job: Job,
    planned_at: Option<i64>,
    follower: Follower,
    session_check: Interval,
    next: Next,
}

/// The next event.
enum Next {
    /// The figures as they are.
    First,
    /// The figures after a change.
    Change,
    Ended,
    Close,
    /// None: the last event was sent.
    None,
}

impl LiveExport {
    pub fn new(
        page: Page,
        head: Parts,
        (job, planned_at): (Job, Option<i64>),
        follower: Follower,
    ) -> Self {
        // As often as the comments that keep the connection open.
        let mut session_check = interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        session_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { page, head, job, planned_at, follower, session_check, next: Next::First }
    }

    pub fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut live| async move {
            let event = live.next().await?;
            Some((Ok::<_, Infallible>(event), live))
        });
        // nginx buffers responses otherwise.
        let headers = [
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
        (headers, events).into_response()
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        match self.next {
            Next::First => Some(self.figures().retry(RETRY)),
            Next::Change => self.change().await,
            Next::Ended => {
                self.next = Next::Close;
                Some(named(ENDED))
            }
            Next::Close => {
                self.next = Next::None;
                Some(named(CLOSE))
            }
            Next::None => None,
        }
    }

    /// A message with the latest figures.
    fn figures(&mut self) -> Event {
        let latest = self.follower.latest();
        self.next = if latest.state().is_final() { Next::Ended } else { Next::Change };
        let moment = Moment {
            job: &self.job,
            progress: latest.progress(),
            planned_at: self.planned_at,
            marks: &[],
            is_live: true,
        };
        let message = html! {
            (figures(&self.page, &moment))
            span id=(STATE_ID) role="status" hx-swap-oob="true" { (labels::pill(latest.state())) }
        };
        Event::default().data(message.into_string())
    }

    /// Waits for a change, or for another reason to end.
    async fn change(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                biased;
                () = should_close(&self.head) => return None,
                change = self.follower.changed() => return match change {
                    Change::Status => Some(self.figures()),
                    Change::Replaced => {
                        self.next = Next::None;
                        Some(named(CLOSE))
                    }
                    Change::Gone => {
                        self.next = Next::Close;
                        Some(named(ENDED))
                    }
                },
                _ = self.session_check.tick() => {
                    if !self.is_allowed().await {
                        // The page loads itself again: then the person can sign in.
                        self.next = Next::Close;
                        return Some(named(ENDED));
                    }
                }
            }
        }
    }

    /// Whether the person may still see the export. While the database is down, this is not known.
    async fn is_allowed(&self) -> bool {
        let (app, head, workspace) =
            (self.page.app.clone(), self.head.clone(), self.job.workspace_id);
        let read = async move { session::viewer(&app, &head).await };
        // In a task of its own, because the client can end the stream while it reads.
        let read = held_by(Holder::Workspace(workspace), read);
        match within_timeout(read, sleep(KEEP_ALIVE)).await {
            Ok(Some(viewer)) => viewer.rights.has(Right::ExportsView, Some(workspace)),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}

/// An event without content.
fn named(name: &str) -> Event {
    Event::default().event(name).data("{}")
}
