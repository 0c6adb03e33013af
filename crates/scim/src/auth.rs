//! Authentication of SCIM: callers with a SCIM token, from its allowed networks
//! (docs/reference/api/authentication.md).

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderName;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodRouter;
use serde_json::json;

use super::tokens::{self, TokenMatch};
use crate::app::App;
use gateway::limits::{self, BudgetStatus};
use gateway::workspaces::Budget;
use gateway::{self, ApiError, COMPANY, CompanyCaller, refused};
use runtime::app::queue::held_by;
use runtime::audit::{self, Entry};
use runtime::fairness::{Holder, Reservation};
use store::{StoreError, Tx};

/// The sender of a request for resources, stored in its extensions.
#[derive(Clone)]
pub(super) struct TokenCaller {
    token: Arc<TokenMatch>,
    address: Option<String>,
}

impl TokenCaller {
    /// Records a change of a resource, in its transaction. `changed` are names of attributes; their
    /// values are data of people.
    pub async fn record(
        &self,
        tx: &mut Tx,
        now: i64,
        (action, object): (&'static str, String),
        changed: &[&str],
    ) -> Result<(), StoreError> {
        let entry = Entry {
            workspace_id: None,
            actor: format!("scim:{}", self.token.name),
            action,
            object,
            address: self.address.clone(),
            details: json!({ "attributes": changed, "token_id": self.token.id }),
        };
        audit::record(tx, now, &entry).await
    }
}

/// The error without `X-Request-Origin`.
pub(super) const NO_ORIGIN: &str = "The header X-Request-Origin is missing";

/// Who holds the slots of SCIM requests.
const COMPANY_HOLDER: Holder = Holder::Workspace(COMPANY);

const X_REQUEST_ORIGIN: HeaderName = HeaderName::from_static("x-request-origin");

/// A route of resources. It needs a SCIM token, and an `X-Request-Origin` unless the token waives
/// it. Requests count against the company's budget. Checks before the body is read, in this order:
/// token 401, address 403, rate 429, header 400. Every request with a token from an allowed address
/// counts, and its response shows the remaining budget. Refused ones [count for their
/// token](refused) alone, so that they never use up the company's budget.
pub fn protected(route: MethodRouter<App>) -> MethodRouter<App> {
    route.route_layer(middleware::from_fn(check))
}

/// A route of the service's configuration. It needs a SCIM token; requests are not counted.
pub fn protected_discovery(route: MethodRouter<App>) -> MethodRouter<App> {
    route.route_layer(middleware::from_fn(async |request: Request, next: Next| {
        let (head, body) = request.into_parts();
        match admit_uncounted(&head).await {
            Ok(_slot) => held_by(COMPANY_HOLDER, next.run(Request::from_parts(head, body))).await,
            Err(error) => {
                gateway::discard(&head, body);
                error.into_response()
            }
        }
    }))
}

async fn check(request: Request, next: Next) -> Response {
    let (mut head, body) = request.into_parts();
    let mut budget_status = None;
    let mut response = match admit(&head, &mut budget_status).await {
        Ok((caller, _slot)) => {
            head.extensions.insert(CompanyCaller);
            head.extensions.insert(caller);
            held_by(COMPANY_HOLDER, next.run(Request::from_parts(head, body))).await
        }
        Err(error) => {
            gateway::discard(&head, body);
            error.into_response()
        }
    };
    if let Some(budget_status) = budget_status {
        budget_status.write(response.headers_mut());
    }
    response
}

/// Authenticates a request for resources, and reserves a slot for it. Sets `budget_status` once the
/// token may be used.
async fn admit(
    head: &Parts,
    budget_status: &mut Option<BudgetStatus>,
) -> Result<(TokenCaller, Reservation), ApiError> {
    let (app, token, slot) = token(head).await?;
    let (budget, limit) = (Budget::Scim, Budget::Scim.default_limit());
    if let Err(error) = check_address(app, head, &token) {
        *budget_status = Some(limits::status(app, COMPANY, budget, limit).await);
        refused::count(app, token.id)?;
        return Err(error);
    }
    let counted = limits::count(app, COMPANY, budget, limit).await;
    *budget_status = Some(counted);
    if let Some(seconds) = counted.retry_after {
        return Err(ApiError::RateLimited(seconds));
    }
    if token.requires_origin {
        check_origin(head)?;
    }
    tokens::record_use(app, &token);
    let address = gateway::sender_address(app, head).map(|address| address.to_string());
    Ok((TokenCaller { token, address }, slot))
}

async fn admit_uncounted(head: &Parts) -> Result<Reservation, ApiError> {
    let (app, token, slot) = token(head).await?;
    check_address(app, head, &token)?;
    tokens::record_use(app, &token);
    Ok(slot)
}

/// Rejects a token from a network that is not allowed; otherwise the sender is authenticated.
fn check_address(app: &App, head: &Parts, token: &TokenMatch) -> Result<(), ApiError> {
    gateway::check_address(app, head, &[&token.allow]).inspect_err(|error| {
        refused::record(app, token.id, || Entry {
            workspace_id: None,
            actor: format!("scim:{}", token.name),
            action: "scim_token.refused",
            object: token.name.to_string(),
            address: gateway::sender_address(app, head).map(|address| address.to_string()),
            details: json!({ "code": error.code(), "token_id": token.id }),
        });
    })?;
    gateway::mark_authenticated(&head.extensions, COMPANY);
    Ok(())
}

/// The request's token, the app, and one of the company's slots for the request.
async fn token(head: &Parts) -> Result<(&App, Arc<TokenMatch>, Reservation), ApiError> {
    let app = head.extensions.get::<App>().ok_or_else(|| {
        ApiError::Internal("a protected route outside of the gateway's router".into())
    })?;
    let presented = gateway::bearer(&head.headers).ok_or(ApiError::Unauthenticated)?;
    let token = tokens::find(app, presented).await?.ok_or(ApiError::Unauthenticated)?;
    Ok((app, token, gateway::reserve_slot(app, COMPANY)?))
}

fn check_origin(head: &Parts) -> Result<(), ApiError> {
    match head.headers.get(X_REQUEST_ORIGIN) {
        Some(origin) if !origin.is_empty() => Ok(()),
        _ => Err(ApiError::Invalid(NO_ORIGIN.into())),
    }
}
