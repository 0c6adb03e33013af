//! Authentication of SCIM: callers with a SCIM token, from its allowed networks
//! (src/gateway/README.md, Authentication).

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderName;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;

use super::tokens::{self, TokenMatch};
use crate::app::App;
use crate::gateway::limits::{self, Standing};
use crate::gateway::memory::Room;
use crate::gateway::{self, ApiError, COMPANY, CompanyCaller};
use crate::workspaces::Budget;

/// The error without `X-Request-Origin`.
pub(super) const NO_ORIGIN: &str = "The header X-Request-Origin is missing";

const X_REQUEST_ORIGIN: HeaderName = HeaderName::from_static("x-request-origin");

/// A route of users: it needs a SCIM token, and an `X-Request-Origin` unless the token waives it, and
/// counts against the company's budget. Checks before the body is read, in this order: token 401, address 403, rate
/// 429, header 400. Every request with a token counts, and its response shows the remaining budget.
pub fn protected(route: MethodRouter<App>) -> MethodRouter<App> {
    route.route_layer(middleware::from_fn(check))
}

/// A route of the service's configuration: it needs a SCIM token, and is not counted.
pub fn protected_discovery(route: MethodRouter<App>) -> MethodRouter<App> {
    route.route_layer(middleware::from_fn(async |request: Request, next: Next| {
        let (head, body) = request.into_parts();
        match admit_uncounted(&head).await {
            Ok(_place) => next.run(Request::from_parts(head, body)).await,
            Err(error) => {
                gateway::discard(&head, body);
                error.into_response()
            }
        }
    }))
}

async fn check(request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let mut standing = None;
    let mut response = match admit(&head, &mut standing).await {
        Ok(_place) => {
            head.extensions.insert(CompanyCaller);
            next.run(Request::from_parts(head, body)).await
        }
        Err(error) => {
            gateway::discard(&head, body);
            error.into_response()
        }
    };
    if let Some(standing) = standing {
        standing.write(response.headers_mut());
    }
    response
}

/// Lets a request of users in, to a place; `standing` is set once its token is known.
async fn admit(head: &Parts, standing: &mut Option<Standing>) -> Result<Room, ApiError> {
    let (app, token, place) = token(head).await?;
    let budget = Budget::Scim;
    let counted = limits::count(app, COMPANY, budget, budget.default_limit()).await;
    *standing = Some(counted);
    check_address(app, head, &token)?;
    if let Some(seconds) = counted.retry_after {
        return Err(ApiError::RateLimited(seconds));
    }
    if token.requires_origin {
        check_origin(head)?;
    }
    Ok(place)
}

async fn admit_uncounted(head: &Parts) -> Result<Room, ApiError> {
    let (app, token, place) = token(head).await?;
    check_address(app, head, &token)?;
    Ok(place)
}

/// Rejects a token from a network that is not allowed; otherwise the sender is authenticated.
fn check_address(app: &App, head: &Parts, token: &TokenMatch) -> Result<(), ApiError> {
    gateway::check_address(app, head, &[&token.allow])?;
    gateway::prove(&head.extensions, COMPANY);
    Ok(())
}

/// The token that a request has, the app, and the request's place among the company's.
async fn token(head: &Parts) -> Result<(&App, Arc<TokenMatch>, Room), ApiError> {
    let app = head.extensions.get::<App>().ok_or_else(|| {
        ApiError::Internal("a protected route outside of the gateway's router".into())
    })?;
    let presented = gateway::bearer(&head.headers).ok_or(ApiError::Unauthenticated)?;
    let token = tokens::find(app, presented).await?.ok_or(ApiError::Unauthenticated)?;
    Ok((app, token, gateway::place(app, COMPANY)?))
}

fn check_origin(head: &Parts) -> Result<(), ApiError> {
    match head.headers.get(X_REQUEST_ORIGIN) {
        Some(origin) if !origin.is_empty() => Ok(()),
        _ => Err(ApiError::Invalid(NO_ORIGIN.into())),
    }
}
