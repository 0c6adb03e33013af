//! The listener of the console: headers of every response, and the path below which a proxy serves
//! the console.
//!
//! Connections and requests in progress have limits of their own, far below those of the API: a
//! console is for some people, and must not take what the API needs.

use axum::Router;
use axum::extract::{FromRef, Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::app::App;
use crate::error::PageError;
use crate::layout::{self, RequestInfo};
use crate::routes::Routes;
use crate::{assets, session};
use gateway::ListenerLimits;
use gateway::error::ErrorMessage;
use runtime::app::queue::held_by;
use runtime::fairness::Holder;

/// Connections at the same time; a browser keeps a few, and one for each page with live updates.
const LIMITS: ListenerLimits =
    ListenerLimits { connections: 256, heads: 128, heads_of_address: 64 };

/// Requests in progress at the same time.
const REQUESTS_IN_FLIGHT: usize = 64;

/// Pages load nothing from elsewhere, run only the built-in scripts, and are in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Headers of every response. A referrer for the own origin, because without one browsers send
/// forms with `Origin: null`.
const HEADERS: [(HeaderName, HeaderValue); 3] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
];

/// Serves the console until `shutdown`. Then waits for requests in progress, as the API does.
/// `state` is the state of the handlers of `routes`.
pub async fn serve<S>(
    routes: Routes<S>,
    state: S,
    listener: TcpListener,
    shutdown: CancellationToken,
) where
    S: Clone + Send + Sync + 'static,
    App: FromRef<S>,
{
    let app = App::from_ref(&state);
    tokio::join!(
        gateway::serve_with_limits(
            app.gateway.clone(),
            router(&app, routes, state),
            listener,
            LIMITS,
            shutdown.clone()
        ),
        session::sweep_old(&app, &shutdown),
    );
}

/// Every response of the console.
fn router<S>(app: &App, routes: Routes<S>, state: S) -> Router
where
    S: Clone + Send + Sync + 'static,
    App: FromRef<S>,
{
    let pages = routes
        .router()
        .route(assets::ROUTE, get(asset))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(app.clone(), with_app))
        .with_state(state);
    let pages = gateway::page_router(app.gateway.clone(), pages, REQUESTS_IN_FLIGHT);
    let base_path = app.base_path.clone();
    // The path is changed before a route is chosen.
    let below = move |mut request: Request| {
        *request.uri_mut() = without_base(request.uri(), &base_path);
        pages.clone().oneshot(request)
    };
    Router::new()
        .fallback_service(tower::service_fn(below))
        .layer(middleware::map_response(with_headers))
}

/// Gives a request the app, and the share of the queue for the database that its network has.
async fn with_app(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let network = gateway::sender_network(&app, request.extensions(), request.headers());
    request.extensions_mut().insert(app);
    held_by(Holder::Source(network), next.run(request)).await
}

async fn asset(State(app): State<App>, name: Path<String>, head: Parts) -> Response {
    match assets::serve(name, head.headers.clone()).await {
        Ok(response) => response,
        Err(error) => layout::error_page(&app, None, &RequestInfo::new(&head), &error),
    }
}

async fn not_found(State(app): State<App>, head: Parts) -> Response {
    layout::error_page(&app, None, &RequestInfo::new(&head), &PageError::NotFound)
}

/// The address without the console's base path. A proxy may remove it, so it need not be there.
fn without_base(uri: &Uri, base_path: &str) -> Uri {
    let rest = uri.path().strip_prefix(base_path).filter(|_| !base_path.is_empty());
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return uri.clone();
    };
    let path = if rest.is_empty() { "/" } else { rest };
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    let Ok(path) = text.parse::<PathAndQuery>() else { return uri.clone() };
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

async fn with_headers(mut response: Response) -> Response {
    // Errors from before a page was chosen, such as too many requests in progress.
    if let Some(ErrorMessage { message, .. }) = response.extensions_mut().remove() {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        *response.body_mut() = message.into();
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, value);
    }
    // The built-in files are the same for everybody. What is updated while one looks says how long
    // the browser keeps it.
    if headers.get(CACHE_CONTROL).is_none_or(|value| *value != assets::KEEP) {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.append(VARY, HeaderValue::from_static("Cookie"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_may_remove_the_base_path_or_not() {
        for (base, address, expected) in [
            ("", "/audit?a=%2F", "/audit?a=%2F"),
            ("/console", "/console", "/"),
            ("/console", "/console/", "/"),
            ("/console", "/console?x=1", "/?x=1"),
            ("/console", "/console/w/a%2Fb/exports?x=1", "/w/a%2Fb/exports?x=1"),
            ("/console", "/w/acme/exports", "/w/acme/exports"),
            ("/console", "/consoles", "/consoles"),
            ("/a/b", "/a/b/c", "/c"),
        ] {
            let uri = without_base(&address.parse().unwrap(), base);
            assert_eq!(uri.to_string(), expected, "{base} {address}");
        }
        let absolute = "http://h:1/console/audit".parse().unwrap();
        assert_eq!(without_base(&absolute, "/console").to_string(), "http://h:1/audit");
    }
}
