//! The frame of every page, and errors as pages.

use axum::http::header::{HeaderName, LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::menu::menu;
use crate::app::App;
use crate::assets;
use crate::error::PageError;
use crate::page::{Page, Preferences, Theme, VisibleWorkspace};
use crate::parts::{self, icon};
use gateway::ApiError;

mod menu;
#[cfg(test)]
mod tests;

/// The settings of htmx: it runs no text of a page as a program, adds no style to pages, and
/// ignores errors, so that a page shows its last state until the next update. An update neither
/// opens nor closes what the person opened.
const HTMX_CONFIG: &str = r#"{"extensions":"sse","includeIndicatorCSS":false,"mode":"same-origin","noSwap":[204,304,"4xx","5xx"],"morphIgnore":["data-htmx-powered","open"]}"#;

/// Seconds after which the page about a database that is down reloads by itself.
const RELOAD_SECONDS: &str = "5";

/// Browsers load the page again after this time, also without JavaScript.
const REFRESH: HeaderName = HeaderName::from_static("refresh");

/// The header of requests that update a part of a page.
pub const HX_REQUEST: HeaderName = HeaderName::from_static("hx-request");
const HX_REFRESH: HeaderName = HeaderName::from_static("hx-refresh");

/// What an error page needs to know about its request.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    pub method: Method,
    /// The address below the base path.
    pub uri: Uri,
    /// Whether htmx sent the request, to update a part of a page.
    pub is_update: bool,
}

impl RequestInfo {
    pub fn new(head: &Parts) -> Self {
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            is_update: head.headers.contains_key(&HX_REQUEST),
        }
    }

    /// The page to return to after signing in. The address of an action is not a page.
    fn next(&self) -> &str {
        match self.uri.path_and_query() {
            Some(path) if self.method == Method::GET && !self.is_update => path.as_str(),
            _ => "/",
        }
    }

    /// The page above this one: the list of an export, or the export of an action.
    fn parent(&self) -> Option<&str> {
        let (parent, _) = self.uri.path().rsplit_once('/')?;
        // `/w/NAME` is not a page.
        (parent.split('/').count() > 3).then_some(parent)
    }
}

/// The content of a page, without the frame.
#[derive(Clone)]
pub struct Content {
    pub title: String,
    pub markup: Markup,
}

/// A page with its frame, for a person who sees these workspaces.
pub fn page(page: &Page, workspaces: &[VisibleWorkspace], content: &Content) -> Html<String> {
    let frame = html! {
        body.shell {
            a.skip href="#main" { "Skip to the content" }
            header.top {
                (brand(&page.app))
                details.menu {
                    summary { (icon("menu")) "Menu" }
                    div.menu-panel { (menu(page, workspaces, "Menu")) }
                }
            }
            header.side { (brand(&page.app)) (menu(page, workspaces, "Console")) }
            main.page id="main" tabindex="-1" { (content.markup) }
        }
    };
    document(&page.app, page.viewer.preferences.theme, &content.title, frame)
}

/// A page for somebody who is not signed in, or about an error: a box in the middle.
pub fn alone(app: &App, preferences: &Preferences, title: &str, content: Markup) -> Html<String> {
    document(app, preferences.theme, title, alone_body(content))
}

fn alone_body(content: Markup) -> Markup {
    html! {
        body {
            main.alone id="main" {
                p.brand { (icon("mark")) "Longshore" }
                section.panel { (content) }
            }
        }
    }
}

fn document(app: &App, theme: Theme, title: &str, body: Markup) -> Html<String> {
    let theme = (theme != Theme::System).then(|| theme.name());
    let address = |name| format!("{}{}", app.base_path, assets::path(name));
    let document = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX_CONFIG);
                title { (title) " · Longshore" }
                link rel="icon" href=(address("favicon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(address("console.css"));
                // Not deferred: htmx then waits for the end of the document, and so for its
                // extension. Otherwise it may begin before the extension is there.
                script src=(address("htmx.js")) {}
                script src=(address("hx-sse.js")) defer {}
                script src=(address("console.js")) defer {}
            }
            (body)
        }
    };
    Html(document.into_string())
}

fn brand(app: &App) -> Markup {
    html! { a.brand href=(format!("{}/", app.base_path)) { (icon("mark")) "Longshore" } }
}

/// Who is signed in, and how that person wants pages.
fn person(page: &Page) -> Markup {
    let viewer = &page.viewer;
    let themes = [
        (Theme::System, "monitor", "Colours of the system"),
        (Theme::Light, "sun", "Light"),
        (Theme::Dark, "moon", "Dark"),
    ];
    let back = page.uri.path_and_query().map_or("/", |path| path.as_str());
    let zone = viewer.preferences.zone.iana_name().unwrap_or("UTC");
    html! {
        div.person {
            div.person-row {
                b { (parts::name(&viewer.name)) }
                form method="post" action=(page.link("/sign-out")) {
                    (parts::form_token(page))
                    button.button.quiet type="submit" { (icon("log-out")) "Sign out" }
                }
            }
            form.theme method="post" action=(page.link("/preferences")) aria-label="Colours" {
                (parts::form_token(page))
                input type="hidden" name="back" value=(back);
                @for (theme, icon_name, text) in themes {
                    @let is_chosen = if theme == viewer.preferences.theme { "true" } else { "false" };
                    button type="submit" name="theme" value=(theme.name()) aria-pressed=(is_chosen)
                        title=(text)
                    {
                        (icon(icon_name)) span.hidden-label { (text) }
                    }
                }
            }
            details.more {
                summary.muted.small { (icon("chevron-right")) "Times in " (zone) }
                form.field method="post" action=(page.link("/preferences")) {
                    (parts::form_token(page))
                    input type="hidden" name="back" value=(back);
                    label {
                        span.hint { "Time zone, such as Europe/Berlin" }
                        input.input name="zone" value=(zone) required autocomplete="off"
                            spellcheck="false" maxlength="64";
                    }
                    button.button type="submit" { "Use this zone" }
                }
            }
        }
    }
}

/// An error as a page, or as what its request can use: a redirect to the sign-in page, or an order
/// to reload the page whose part was requested.
pub fn error_page(
    app: &App,
    page: Option<&Page>,
    info: &RequestInfo,
    error: &PageError,
) -> Response {
    log(error);
    if matches!(error, PageError::SignedOut) {
        return signed_out(app, info);
    }
    let status = error.status();
    let mut headers = HeaderMap::new();
    if let PageError::Api(error) = error {
        headers.extend(retry_after(error));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(RELOAD_SECONDS));
    }
    if info.is_update {
        return (status, headers).into_response();
    }
    // A reload of an action would be a GET of its address.
    let reloads = status == StatusCode::SERVICE_UNAVAILABLE && info.method == Method::GET;
    let text = ErrorText::new(error, reloads);
    let theme = page.map_or(Theme::System, |page| page.viewer.preferences.theme);
    let content = error_content(app, info, status, &text, reloads);
    if reloads {
        headers.insert(REFRESH, HeaderValue::from_static(RELOAD_SECONDS));
    }
    (status, headers, document(app, theme, text.title, alone_body(content))).into_response()
}

fn signed_out(app: &App, info: &RequestInfo) -> Response {
    if info.is_update {
        // The page reloads, and its request is then redirected.
        return (StatusCode::UNAUTHORIZED, [(HX_REFRESH, "true")]).into_response();
    }
    let next = utf8_percent_encode(info.next(), NON_ALPHANUMERIC);
    let address = match info.next() {
        "/" => format!("{}/sign-in", app.base_path),
        _ => format!("{}/sign-in?next={next}", app.base_path),
    };
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

/// When the same request may succeed, for temporary errors.
fn retry_after(error: &ApiError) -> Option<(HeaderName, HeaderValue)> {
    match error {
        ApiError::RateLimited(seconds) => Some((RETRY_AFTER, HeaderValue::from(*seconds))),
        ApiError::InProgress(_) => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
        _ => None,
    }
}

/// The operator's details are only for the log.
fn log(error: &PageError) {
    match error {
        PageError::Store(error) => tracing::warn!(%error, "page failed: database unavailable"),
        PageError::Api(ApiError::Unavailable(detail)) => {
            tracing::warn!(%detail, "page failed: unavailable");
        }
        PageError::Api(ApiError::Internal(detail)) => {
            tracing::error!(%detail, "page failed: internal error");
        }
        _ => {}
    }
}

/// The text of an error page.
struct ErrorText {
    title: &'static str,
    text: String,
    runbook: Option<&'static str>,
}

impl ErrorText {
    fn new(error: &PageError, reloads: bool) -> Self {
        let text = |title, text: &str| Self { title, text: text.to_owned(), runbook: None };
        match error {
            PageError::SignedOut => text("Not signed in", "Sign in to see this page."),
            PageError::NotFound => text(
                "No such page",
                "It may have been removed, or it is in a workspace that you cannot see.",
            ),
            PageError::Forbidden(right) => Self {
                title: "A right is missing",
                text: format!(
                    "This needs the right {right}, which you do not have here. Ask an operator for \
                     a link with another role."
                ),
                runbook: None,
            },
            PageError::ForeignForm => text(
                "The form was not accepted",
                "It comes from an older session or from another site, so nothing was changed. Go \
                 back, reload the page, and try again.",
            ),
            PageError::Store(_) => {
                let title = "The database is unavailable";
                let waiting = "Nothing is lost: accepted work waits until it is available again.";
                let next = if reloads {
                    "This page reloads by itself."
                } else {
                    "Nothing was changed, or the change is complete. Go back, reload the page, and \
                     try again if needed."
                };
                Self {
                    title,
                    text: format!("{next} {waiting}"),
                    runbook: Some("docs/runbooks/postgresql-unavailable.md"),
                }
            }
            PageError::Invalid(message) => {
                Self { title: "The request is invalid", text: sentence(message), runbook: None }
            }
            PageError::Api(error) => {
                let title = match error.status() {
                    StatusCode::NOT_FOUND => "Not found",
                    StatusCode::CONFLICT => "This is not possible now",
                    StatusCode::FORBIDDEN => "This is not allowed",
                    StatusCode::TOO_MANY_REQUESTS => "Too many requests",
                    StatusCode::SERVICE_UNAVAILABLE => "The service is unavailable",
                    status if status.is_server_error() => "Longshore has an internal error",
                    _ => "The request is invalid",
                };
                Self { title, text: sentence(&error.message()), runbook: None }
            }
        }
    }
}

/// The message as a sentence.
fn sentence(message: &str) -> String {
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{end}", parts::cut(message))
}

fn error_content(
    app: &App,
    info: &RequestInfo,
    status: StatusCode,
    text: &ErrorText,
    reloads: bool,
) -> Markup {
    let link = |path: &str| format!("{}{path}", app.base_path);
    html! {
        div.head-title {
            p.muted { (status.as_u16()) }
            h1 { (text.title) }
            p.muted { (text.text) }
        }
        @if reloads {
            a.button href=(link(info.next())) { "Reload now" }
        } @else {
            @if let Some(parent) = info.parent() {
                a.button href=(link(parent)) { "Back" }
            }
            a.button.quiet href=(link("/")) { "Overview" }
        }
        @if let Some(path) = text.runbook {
            p.small { (parts::runbook(path)) }
        }
    }
}
