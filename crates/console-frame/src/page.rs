//! What every page has: the person, the workspace, and links and times for them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::tz::TimeZone;
use maud::Markup;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::app::App;
use crate::error::PageError;
use crate::form::Form;
use crate::layout::{Content, HX_REQUEST};
use crate::parts;
use crate::rights::{Right, Rights};
use crate::session;
use gateway::workspaces::Workspace;
use kit::clock::millis;
use runtime::audit::{self, Change, Entry};
use store::{StoreError, Tx};

/// The time by the database's clock, with which pages compare the times that they read from the
/// database. The clock of the gateway may be wrong; how much time has passed since a moment is not.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseTime {
    ms: i64,
    read_at: Instant,
}

impl DatabaseTime {
    /// The time of the database is now `ms`, in milliseconds since the epoch.
    pub fn new(ms: i64) -> Self {
        Self { ms, read_at: Instant::now() }
    }

    /// In milliseconds since the epoch.
    pub fn now_ms(self) -> i64 {
        self.ms.saturating_add(millis(self.read_at.elapsed()))
    }
}

/// The person who is signed in.
#[derive(Clone, Debug)]
pub struct Viewer {
    pub session_id: Uuid,
    /// The dashboard user that the person is, if any.
    pub user_id: Option<Uuid>,
    /// When the session was last used, as it is stored, in milliseconds since the epoch.
    pub last_seen_at: i64,
    /// The time, as the request read it with the session.
    pub time: DatabaseTime,
    /// The person's name, in the audit log too.
    pub name: String,
    pub rights: Rights,
    /// The network address of the browser, as the audit log has it.
    pub address: String,
    /// What forms of this session carry; derived from its secret.
    pub form_token: String,
    pub preferences: Preferences,
}

impl Viewer {
    /// What the person's own sessions have: the dashboard user, because names change; otherwise the
    /// name.
    pub fn owner(&self) -> (Option<&str>, Option<Uuid>) {
        let name = self.user_id.is_none().then_some(self.name.as_str());
        (name, self.user_id)
    }

    pub fn is_form_token(&self, presented: &str) -> bool {
        // Both are hashes of a secret: the time of the comparison reveals nothing about it.
        !presented.is_empty() && self.form_token == presented
    }
}

/// How the person wants pages; kept in a cookie of the browser.
#[derive(Clone, Debug)]
pub struct Preferences {
    pub theme: Theme,
    /// The zone in which times are shown.
    pub zone: TimeZone,
}

impl Default for Preferences {
    fn default() -> Self {
        Self { theme: Theme::System, zone: TimeZone::UTC }
    }
}

store::text_enum! {
    pub enum Theme {
        System = "system",
        Light = "light",
        Dark = "dark",
    }
}

/// A request for a page, after the checks of [`routes`](crate::routes). Handlers take it as their
/// first argument, and end with [`html`](Self::html) or [`redirect`](Self::redirect).
#[derive(Clone)]
pub struct Page {
    pub app: App,
    pub viewer: Viewer,
    workspace: Option<Arc<Workspace>>,
    /// The address of the page, below the base path.
    pub uri: Uri,
    /// Whether an open page asks for its update, without its person.
    pub is_update: bool,
}

/// A workspace that the person sees.
#[derive(Clone, Debug)]
pub struct VisibleWorkspace {
    pub id: i32,
    pub name: String,
}

impl Page {
    pub(crate) fn new(
        app: App,
        viewer: Viewer,
        workspace: Option<Arc<Workspace>>,
        uri: Uri,
        is_update: bool,
    ) -> Self {
        Self { app, viewer, workspace, uri, is_update }
    }

    /// The workspace of the path.
    pub fn workspace(&self) -> Result<&Workspace, PageError> {
        self.workspace.as_deref().ok_or(PageError::NotFound)
    }

    pub fn workspace_if_any(&self) -> Option<&Workspace> {
        self.workspace.as_deref()
    }

    /// The workspaces that the person sees, by name.
    pub async fn visible_workspaces(&self) -> Result<Vec<VisibleWorkspace>, StoreError> {
        let ids = self.app.workspaces().await?;
        let visible = ids.iter().filter(|(_, id)| self.viewer.rights.sees(**id));
        let mut visible: Vec<VisibleWorkspace> =
            visible.map(|(name, id)| VisibleWorkspace { id: *id, name: name.clone() }).collect();
        visible.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(visible)
    }

    /// Whether the person has the right here: in the workspace of the path, otherwise in the whole
    /// installation.
    pub fn may(&self, right: Right) -> bool {
        self.viewer.rights.has(right, self.workspace.as_ref().map(|workspace| workspace.id))
    }

    /// The address of a path of the console, such as `/audit`.
    pub fn link(&self, path: &str) -> String {
        format!("{}{path}", self.app.base_path)
    }

    /// The address of a path of the page's workspace, such as `/exports`.
    pub fn workspace_link(&self, path: &str) -> String {
        self.link_in(self.workspace.as_deref().map_or("", |workspace| &workspace.name), path)
    }

    /// The address of a path of a workspace.
    pub fn link_in(&self, workspace: &str, path: &str) -> String {
        self.link(&format!("/w/{}{path}", parts::encoded(workspace)))
    }

    /// The time by the database's clock, in milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.viewer.time.now_ms()
    }

    /// A time in milliseconds since the epoch: how long ago, with the exact time in the person's
    /// zone.
    pub fn time(&self, ms: i64) -> Markup {
        parts::time(ms, self.now_ms(), &self.viewer.preferences.zone)
    }

    /// The page; [`routes`](crate::routes) adds its frame.
    pub fn html(&self, title: &str, content: Markup) -> Response {
        let mut response = StatusCode::OK.into_response();
        response.extensions_mut().insert(Content { title: title.to_owned(), markup: content });
        response
    }

    /// The person as the actor of changes.
    pub fn actor(&self) -> String {
        session::actor(&self.viewer.name, self.viewer.user_id)
    }

    /// An entry for the audit log about an action of the person, in the workspace of the path.
    /// Write it in the transaction of the action ([`audit::record`](runtime::audit::record)).
    /// `details` is a JSON object. The entry has the ids of the session and of the dashboard user,
    /// too, because names change.
    pub fn audit(
        &self,
        action: &'static str,
        object: impl Into<String>,
        mut details: Value,
    ) -> Entry {
        details["session_id"] = self.viewer.session_id.to_string().into();
        if let Some(user) = self.viewer.user_id {
            details["user_id"] = user.to_string().into();
        }
        Entry {
            workspace_id: self.workspace.as_ref().map(|workspace| workspace.id),
            actor: self.actor(),
            action,
            object: object.into(),
            address: Some(self.viewer.address.clone()),
            details,
        }
    }

    /// Records a change by the person, in its transaction; none if nothing changed.
    pub async fn record(
        &self,
        tx: &mut Tx,
        change: impl Into<Option<Change>>,
    ) -> Result<(), StoreError> {
        let Some(Change { action, object, details }) = change.into() else { return Ok(()) };
        let entry = self.audit(action, object, details);
        audit::record(tx, self.now_ms(), &entry).await
    }

    /// Sends the browser to a path of the console after an action (303).
    pub fn redirect(&self, path: &str) -> Response {
        Redirect::to(&self.link(path)).into_response()
    }
}

/// The part of a page that changes, or 304 if the browser has it.
pub fn update(headers: &HeaderMap, part: Markup) -> Response {
    let part = part.into_string();
    let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&part)));
    // The browser asks each time whether its copy is the latest. At this address is also the whole
    // page.
    let cached = [
        (header::ETAG, tag.clone()),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
        (header::VARY, format!("{HX_REQUEST}, cookie")),
    ];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    (cached, Html(part)).into_response()
}

impl<S: Sync> FromRequestParts<S> for Page {
    type Rejection = PageError;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        head.extensions.get::<Page>().cloned().ok_or(PageError::SignedOut)
    }
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(head.extensions.remove::<Form>().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::html;

    #[test]
    fn an_unchanged_part_is_not_sent_again() {
        let part = || html! { p { "a" } };
        let first = update(&HeaderMap::new(), part());
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(update(&headers, part()).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(update(&headers, html! { p { "b" } }).status(), StatusCode::OK);
    }
}
