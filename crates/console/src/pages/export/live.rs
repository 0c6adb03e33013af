//! The progress of an export as a stream, while somebody looks at its page.
//!
//! Each change is a message with the new figures, which htmx puts in place of the old ones. After
//! the end come the events `ended`, at which the page loads itself again with its other actions,
//! and `close`, at which htmx closes the stream.

use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::response::sse::Event;
use futures::stream;
use maud::html;
use tokio::time::sleep;

use super::progress::{Moment, figures};
use crate::app::App;
use crate::page::Page;
use crate::pages::exports::labels;
use console_frame::rights::Right;
use console_frame::session;
use exports::Job;
use exports::events::{RETRY, stream_of};
use exports::watched::{CHECK_INTERVAL, Change, Follower};
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
        Self { page, head, job, planned_at, follower, next: Next::First }
    }

    pub fn into_response(self) -> Response {
        let mut response = stream_of(stream::unfold(self, |mut live| async move {
            let event = live.next().await?;
            Some((event, live))
        }));
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        response
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
            span id=(STATE_ID) role="status" hx-swap-oob="true" { (labels::look(latest.state()).pill()) }
        };
        Event::default().data(message.into_string())
    }

    /// Waits for a change, or for another reason to end.
    async fn change(&mut self) -> Option<Event> {
        let Self { page, head, job, follower, .. } = self;
        let is_allowed = || is_allowed(page.app.clone(), head.clone(), job.workspace_id);
        match follower.changed(is_allowed).await {
            Change::Status => Some(self.figures()),
            Change::Closing => None,
            Change::Replaced => {
                self.next = Next::None;
                Some(named(CLOSE))
            }
            // The page loads itself again: then the person can sign in.
            Change::Refused | Change::Gone => {
                self.next = Next::Close;
                Some(named(ENDED))
            }
        }
    }
}

/// Whether the person may still see the export. While the database is down, this is not known.
async fn is_allowed(app: App, head: Parts, workspace: i32) -> bool {
    let read = async move { session::viewer(&app, &head).await };
    // In a task of its own, because the client can end the stream while it reads.
    let read = held_by(Holder::Workspace(workspace), read);
    match within_timeout(read, sleep(CHECK_INTERVAL)).await {
        Ok(Some(viewer)) => viewer.rights.has(Right::ExportsView, Some(workspace)),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// An event without content.
fn named(name: &str) -> Event {
    Event::default().event(name).data("{}")
}
