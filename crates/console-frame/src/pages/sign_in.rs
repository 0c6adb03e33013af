//! Signing in with a link, signing out, and how a person wants pages.

use std::borrow::Cow;

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde_json::json;
use url::form_urlencoded;
use uuid::Uuid;

use crate::app::App;
use crate::error::PageError;
use crate::form::Form;
use crate::link::{self, VALID_MINUTES};
use crate::page::{Page, Theme};
use crate::session::{self, Browser, NewSession, THEME_COOKIE, ZONE_COOKIE};
use crate::{layout, parts};
use kit::log_limit::LogLimit;
use kit::zones;
use runtime::audit::{self, Entry};
use store::{StoreError, Tx};

/// Of the log line and of the entry: anybody can send tokens.
static REJECTED: LogLimit = LogLimit::new();

/// The page that takes the token of a link.
pub async fn show(State(app): State<App>, head: Parts) -> Result<Response, PageError> {
    let next = next_of(&head.uri);
    let reason = match session::viewer(&app, &head).await? {
        Some(viewer) => Reason::SignedIn(viewer.name),
        None => Reason::SignedOut,
    };
    Ok(page(&app, &head.headers, &reason, path_of_console(&next)))
}

/// The page to return to, as an address names it; it may be one elsewhere.
pub fn next_of(uri: &Uri) -> Cow<'_, str> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let next = form_urlencoded::parse(query).find(|(name, _)| name == "next");
    next.map_or(Cow::Borrowed("/"), |(_, next)| next)
}

/// The query of an address with the page to return to.
pub fn query_of(next: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish()
}

/// Uses a link up, and begins a session. The session that the browser had ends.
pub async fn sign_in(
    State(app): State<App>,
    head: Parts,
    form: Form,
) -> Result<Response, PageError> {
    let next = path_of_console(form.value("next"));
    let former = session::viewer(&app, &head).await?;
    let browser = Browser::from_request(&app.config, &head);
    let failed = async || {
        if let Some(skipped) = REJECTED.skipped() {
            let address = &browser.address;
            tracing::warn!(address, skipped, "sign-in to the console rejected");
            let actor = session::actor("unknown", None);
            record_refused_sign_in(&app, &browser, actor, ("link", "invalid-link"), skipped)
                .await?;
        }
        let mut response = page(&app, &head.headers, &Reason::Failed, next);
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        Ok::<_, PageError>(response)
    };
    // Anybody can send tokens. Those that are wrong do not wait for the one writer of SQLite.
    let mut tx = app.request_queue.snapshot().await?;
    let is_valid = link::is_valid(&app, &mut tx, token(&form)).await?;
    tx.commit().await?;
    if !is_valid {
        return failed().await;
    }
    let mut tx = app.request_queue.write().await?;
    let Some(new) = link::sign_in(&app, &mut tx, token(&form), browser.clone()).await? else {
        drop(tx);
        return failed().await;
    };
    let former = former.map(|former| former.session_id);
    let cookie = begin_session(&app, &mut tx, former, &new).await?;
    tx.commit().await?;
    Ok(([(SET_COOKIE, cookie)], to(&app, next)).into_response())
}

/// Ends the session that the browser had, and records the new one; returns its cookie.
pub async fn begin_session(
    app: &App,
    tx: &mut Tx,
    former: Option<Uuid>,
    new: &NewSession,
) -> Result<HeaderValue, StoreError> {
    if let Some(former) = former {
        session::end(tx, former, None).await?;
    }
    let session = &new.session;
    let bound = new.bound.as_ref();
    let entry = Entry {
        workspace_id: None,
        actor: session::actor(&session.person, session.user_id),
        action: "console.sign_in",
        object: session.id.to_string(),
        address: Some(session.address.clone()),
        details: json!({
            "method": session.method,
            "user_agent": session.user_agent,
            "user_id": session.user_id,
            "replaced_session": former,
            "first_identity": bound.map(|bound| json!({
                "issuer": bound.issuer, "subject": bound.subject,
            })),
        }),
    };
    audit::record(tx, session.created_at, &entry).await?;
    Ok(session::session_cookie(&app.config, &new.secret))
}

/// Records a refused sign-in with a method: `object` is its code. Of those that have a limit in
/// common, `skipped` before this one have no entry.
pub async fn record_refused_sign_in(
    app: &App,
    browser: &Browser,
    actor: String,
    (method, object): (&str, &str),
    skipped: u64,
) -> Result<(), StoreError> {
    let entry = Entry {
        workspace_id: None,
        actor,
        action: "console.sign_in_refused",
        object: object.to_owned(),
        address: Some(browser.address.clone()),
        details: json!({
            "method": method,
            "user_agent": browser.user_agent,
            "skipped": skipped,
        }),
    };
    let mut tx = app.request_queue.write().await?;
    audit::record(&mut tx, app.clock.now_ms(), &entry).await?;
    tx.commit().await
}

/// Ends the session of the browser.
pub async fn sign_out(page: Page) -> Result<Response, PageError> {
    let app = &page.app;
    let mut tx = app.request_queue.write().await?;
    session::end(&mut tx, page.viewer.session_id, None).await?;
    let entry = page.audit("console.sign_out", page.viewer.session_id.to_string(), json!({}));
    audit::record(&mut tx, page.now_ms(), &entry).await?;
    tx.commit().await?;
    Ok(signed_out(app))
}

/// To the sign-in page, without the cookie.
pub fn signed_out(app: &App) -> Response {
    ([(SET_COOKIE, session::no_session_cookie(&app.config))], to(app, "/sign-in")).into_response()
}

/// Keeps the theme, the zone, or both in the browser.
pub async fn set_preferences(page: Page, form: Form) -> Result<Response, PageError> {
    let config = &page.app.config;
    let mut cookies: Vec<(HeaderName, HeaderValue)> = Vec::new();
    let mut set = |name: &str, value: &str| {
        cookies.push((SET_COOKIE, session::preference_cookie(config, name, value)));
    };
    let (theme, zone) = (form.value("theme"), form.value("zone"));
    if !theme.is_empty() {
        let theme = Theme::from_name(theme).ok_or_else(|| {
            let names = Theme::ALL.map(Theme::name).join(", ");
            PageError::Invalid(format!("The theme {theme:?} is not one of {names}"))
        })?;
        set(THEME_COOKIE, theme.name());
    }
    if !zone.is_empty() {
        let zone = zones::spelled(zone).ok_or_else(|| {
            PageError::Invalid(format!(
                "{zone:?} is not a time zone of the IANA database, such as Europe/Berlin"
            ))
        })?;
        set(ZONE_COOKIE, &zone);
    }
    let mut response = to(&page.app, path_of_console(form.value("back")));
    for (name, cookie) in cookies {
        response.headers_mut().append(name, cookie);
    }
    Ok(response)
}

/// Sends the browser to a path of the console.
pub fn to(app: &App, path: &str) -> Response {
    Redirect::to(&format!("{}{path}", app.base_path)).into_response()
}

/// The token of a form: alone, or at the end of a pasted link.
fn token(form: &Form) -> &str {
    let pasted = form.value("token");
    pasted.rsplit_once('#').map_or(pasted, |(_, token)| token)
}

/// A path of the console that a request names, below the base path; `/` for everything that a
/// browser could read as an address elsewhere.
pub fn path_of_console(text: &str) -> &str {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = text.starts_with('/') && !text.starts_with("//");
    // Below a base path, they would lead to another program.
    let path = text.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let has_dots = path.replace("%2e", ".").split('/').any(|name| matches!(name, "." | ".."));
    if is_plain && is_path && !has_dots { text } else { "/" }
}

/// What the sign-in page is shown for.
enum Reason {
    SignedOut,
    /// The person of the browser's session.
    SignedIn(String),
    /// A token that is unknown, expired or used.
    Failed,
}

fn page(app: &App, headers: &HeaderMap, reason: &Reason, next: &str) -> Response {
    let preferences = session::preferences(headers);
    let title = match reason {
        Reason::Failed => "This link does not work",
        Reason::SignedOut | Reason::SignedIn(_) => "Sign in",
    };
    layout::alone(app, &preferences, title, content(app, title, reason, next)).into_response()
}

fn content(app: &App, title: &str, reason: &Reason, next: &str) -> Markup {
    let link = |path: &str| format!("{}{path}", app.base_path);
    html! {
        div.head-title {
            h1 { (title) }
            @match reason {
                Reason::Failed => p.muted role="alert" {
                    "It was used already, it is older than " (VALID_MINUTES)
                    " minutes, or it is not complete."
                },
                Reason::SignedOut => p.muted {
                    @if app.oidc.is_some() {
                        "Sign in with your account, or with a link. A link works once, for "
                    } @else {
                        "You need a sign-in link. It works once, for "
                    }
                    (VALID_MINUTES) " minutes."
                },
                Reason::SignedIn(name) => p.muted {
                    "You are signed in as " (parts::name(name)) ". A link signs you in again, with \
                     its own rights."
                },
            }
        }
        (oidc_button(app, next))
        p { "To create a link, run this where Longshore runs:" }
        pre.code { "longshore console link" }
        form.field method="post" id="sign-in" action=(link("/sign-in")) {
            input type="hidden" name="next" value=(next);
            label {
                span.hint { "Open the link, or paste it here" }
                input.input name="token" required autocomplete="off" spellcheck="false"
                    maxlength="1000";
            }
            button.button.primary[app.oidc.is_none()] type="submit" { "Sign in" }
        }
        p.muted.small {
            "If you cannot run it, ask an operator for a link: "
            code { "longshore console link --as NAME" }
        }
        @if matches!(reason, Reason::SignedIn(_)) {
            a.button.quiet href=(link("/")) { "Overview" }
        }
    }
}

/// The button that signs in with the identity provider; nothing without one.
fn oidc_button(app: &App, next: &str) -> Markup {
    let address = format!("{}/sign-in/oidc?{}", app.base_path, query_of(next));
    html! {
        @if let Some(provider) = &app.oidc {
            p.actions {
                a.button.primary href=(address) { "Sign in with " (provider.client.host()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_console_are_followed() {
        for path in ["/", "/audit", "/w/acme/exports?page=2", "/w/a%2Fb/exports", "/w/a..b?c=../.."]
        {
            assert_eq!(path_of_console(path), path);
        }
        for elsewhere in [
            "",
            "audit",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example",
            "javascript:x",
            "/\t/evil.example",
            "/\n/evil.example",
            " /audit",
            "/é",
            "/../other",
            "/w/%2E%2e/other",
            "/.",
        ] {
            assert_eq!(path_of_console(elsewhere), "/", "{elsewhere:?}");
        }
    }

    #[test]
    fn a_whole_link_may_be_pasted() {
        for (pasted, expected) in [
            ("lsl_abc", "lsl_abc"),
            ("https%3A%2F%2Fx.example%2Fsign-in%23lsl_abc", "lsl_abc"),
            ("+lsl_abc%0A", "lsl_abc"),
            ("", ""),
        ] {
            let form = Form::parse(format!("token={pasted}").as_bytes());
            assert_eq!(token(&form), expected);
        }
    }
}
