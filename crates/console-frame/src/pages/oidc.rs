//! Signing in with OpenID Connect: to the identity provider, and back.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use url::form_urlencoded;

use super::sign_in::{
    begin_session, next_of, path_of_console, query_of, record_refused_sign_in, to,
};
use crate::app::App;
use crate::error::PageError;
use crate::layout;
use crate::oidc::pending::{self, Pending};
use crate::oidc::person::{self, METHOD, Verified};
use crate::oidc::provider::Provider;
use crate::oidc::refusal::{Failure, Refusal};
use crate::session::{self, Browser};
use kit::log_limit::LogLimit;
use runtime::outbound::stored_text;

static REFUSED: LogLimit = LogLimit::new();

/// Entries about refused sign-ins have the limit of log lines: whoever has an account at the
/// provider could otherwise fill the audit log.
static RECORDED: LogLimit = LogLimit::new();

/// The name of a person in an entry, in characters.
const MAX_NAME_CHARS: usize = 255;

/// `GET /sign-in/oidc`: sends the browser to the identity provider. A link and not a form, because
/// browsers apply `form-action` of the `Content-Security-Policy` to redirects, too.
pub async fn begin(State(app): State<App>, head: Parts) -> Result<Response, PageError> {
    let provider = app.oidc.as_ref().ok_or(PageError::NotFound)?;
    let next = next_of(&head.uri);
    if is_of_other_site(&head.headers) && session::viewer(&app, &head).await?.is_some() {
        return Ok(to(&app, &format!("/sign-in?{}", query_of(path_of_console(&next)))));
    }
    let network = gateway::sender_network(&app, &head.extensions, &head.headers);
    let metadata = match provider.turn(network) {
        Ok(_turn) => provider.metadata(&app.clock).await,
        Err(refusal) => Err(refusal),
    };
    match metadata {
        Ok(metadata) => {
            let pending = Pending::new(&app, path_of_console(&next));
            let address = provider.authorization_url(&metadata, &pending);
            let cookies = AppendHeaders(pending.cookies(&app, &head.headers));
            Ok((cookies, Redirect::to(address.as_str())).into_response())
        }
        Err(refusal) => Ok(refused(&app, &head, &refusal)),
    }
}

/// Whether a page of another site leads here: it must not replace a session. Browsers say so over
/// TLS.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// `GET /sign-in/oidc/callback`: the identity provider sends the browser here with a code. The
/// session that the browser had ends.
pub async fn callback(State(app): State<App>, head: Parts) -> Result<Response, PageError> {
    let provider = app.oidc.as_ref().ok_or(PageError::NotFound)?;
    let browser = Browser::from_request(&app.config, &head);
    let query = head.uri.query().unwrap_or_default().as_bytes();
    let query: HashMap<_, _> = form_urlencoded::parse(query).collect();
    let mut response = match sign_in(&app, provider, &head, &query, browser).await {
        Ok(response) => response,
        Err(Failure::Refused(refusal)) => refused(&app, &head, &refusal),
        Err(Failure::Page(error)) => return Err(error),
    };
    // In every case, the browser does not need this one again. Others continue in other tabs.
    if let Some(state) = query.get("state") {
        let cookie = pending::no_cookie(&app.config, state);
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

async fn sign_in(
    app: &App,
    provider: &Provider,
    head: &Parts,
    query: &HashMap<Cow<'_, str>, Cow<'_, str>>,
    browser: Browser,
) -> Result<Response, Failure> {
    let value = |name: &str| query.get(name).map(|value| &**value);
    let state = value("state").unwrap_or_default();
    let pending = Pending::from_request(app, &head.headers, state)
        .map_err(|cause| Refusal::Expired(cause.to_owned()))?;
    if let Some(error) = value("error") {
        let description = value("error_description").unwrap_or_default();
        let cause = stored_text(&format!("the provider responded {error} {description}"));
        return Err(Refusal::AccessDenied(cause).into());
    }
    let code = value("code")
        .ok_or_else(|| Refusal::ProviderUnavailable("its address has no code".to_owned()))?;
    let network = gateway::sender_network(app, &head.extensions, &head.headers);
    let mut tx = app.request_queue.write().await?;
    let is_first = pending::use_up(&mut tx, &pending).await?;
    tx.commit().await?;
    if !is_first {
        return Err(Refusal::Expired("the sign-in was used already".to_owned()).into());
    }
    // After the check, so that repeats of one callback do not use up the turns of others.
    let turn = provider.exchange_turn(network)?;
    let claims = provider.claims(turn, &pending, code, value("iss"), &app.clock).await?;
    let verified = match Verified::from_claims(&provider.client, &claims) {
        Ok(verified) => verified,
        Err(refusal) => {
            record_refusal(app, &browser, None, &refusal).await?;
            return Err(refusal.into());
        }
    };
    let former = session::viewer(app, head).await?.map(|former| former.session_id);
    let mut tx = app.request_queue.write().await?;
    match person::sign_in(app, &mut tx, &verified, browser.clone()).await {
        Ok(new) => {
            let cookie = begin_session(app, &mut tx, former, &new).await?;
            tx.commit().await?;
            Ok(([(SET_COOKIE, cookie)], to(app, &pending.next)).into_response())
        }
        Err(failure) => {
            drop(tx);
            if let Failure::Refused(refusal) = &failure {
                record_refusal(app, &browser, Some(&verified.name), refusal).await?;
            }
            Err(failure)
        }
    }
}

/// Records that the provider identified a person who may not sign in.
async fn record_refusal(
    app: &App,
    browser: &Browser,
    name: Option<&str>,
    refusal: &Refusal,
) -> Result<(), PageError> {
    if !refusal.is_of_a_person() {
        return Ok(());
    }
    let Some(skipped) = RECORDED.skipped() else { return Ok(()) };
    let name: String = name.unwrap_or("unknown").chars().take(MAX_NAME_CHARS).collect();
    // No dashboard user, but the provider knows the person.
    let actor = format!("dashboard:{name}");
    record_refused_sign_in(app, browser, actor, (METHOD, refusal.code()), skipped).await?;
    Ok(())
}

/// The page about a refused sign-in. Its cause is only for the log.
fn refused(app: &App, head: &Parts, refusal: &Refusal) -> Response {
    if let Some(skipped) = REFUSED.skipped() {
        let (code, cause) = (refusal.code(), refusal.cause());
        tracing::warn!(code, cause, skipped, "sign-in with OpenID Connect refused");
    }
    let preferences = session::preferences(&head.headers);
    let title = "You are not signed in";
    let page = layout::alone(app, &preferences, title, content(app, title, refusal));
    (refusal.status(), page).into_response()
}

fn content(app: &App, title: &str, refusal: &Refusal) -> Markup {
    let link = |path: &str| format!("{}{path}", app.base_path);
    html! {
        div.head-title {
            h1 { (title) }
            p role="alert" { bdi { (refusal.text()) } }
        }
        p.muted.small { "Code: " code { (refusal.code()) } }
        p.actions {
            a.button.primary href=(link("/sign-in/oidc")) { "Sign in again" }
            a.button.quiet href=(link("/sign-in")) { "Other ways to sign in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn codes_are_stable_and_causes_stay_with_the_operator() {
        let cause = || "hidden".to_owned();
        let name = || "ann@acme.example".to_owned();
        for (refusal, code, status) in [
            (Refusal::AccessDenied(cause()), "access-denied", StatusCode::FORBIDDEN),
            (Refusal::Expired(cause()), "sign-in-expired", StatusCode::BAD_REQUEST),
            (
                Refusal::ProviderUnavailable(cause()),
                "provider-unavailable",
                StatusCode::BAD_GATEWAY,
            ),
            (Refusal::InvalidToken(cause()), "invalid-token", StatusCode::BAD_GATEWAY),
            (
                Refusal::NotADashboardUser { name: name(), cause: "hidden" },
                "not-a-dashboard-user",
                StatusCode::FORBIDDEN,
            ),
        ] {
            assert_eq!((refusal.code(), refusal.status()), (code, status));
            assert!(!refusal.text().contains("hidden") && refusal.cause() == "hidden");
        }
        let other = Refusal::OtherAccount { name: name() };
        assert!(other.text().contains(&name()) && !other.cause().contains(&name()));
    }
}
