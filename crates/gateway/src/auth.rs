//! API keys: permissions and allowed networks (docs/reference/api/authentication.md).

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use ipnet::IpNet;
use serde_json::json;

use super::address::{client_address, is_allowed};
use super::audit::AuditedRequest;
use super::coding::ResponseOf;
use super::limits::{self, BudgetStatus};
use super::request::RequestId;
use super::{ADDRESS_REFUSED, ApiError, Caller, Connection, body, refused};
use crate::app::App;
use crate::memory::reserve_slot;
use crate::workspaces::{Budget, Workspace, keys};
use runtime::app::queue::held_by;
use runtime::audit::Entry;
use runtime::fairness::{Holder, Reservation};
use runtime::traces;

/// A route that needs a key with `permission`. Requests count against that permission's
/// [budget](Budget::from_permission). Checks before the body is read, in this order: key 401, the
/// workspace's [slots](reserve_slot) 503, address 403, permission 403, rate 429. Every request with
/// a key from an allowed address and a slot counts, whatever its outcome, and its response shows
/// the remaining budget; those without the permission count up to [a part of it](refused). A route
/// without a budget never responds 429. If the body decides which budget counts, the handler
/// [counts](count_and_handle) it; before the body, the request counts against [the sum of these
/// budgets](crate::workspaces::Workspace::limit_before_body).
pub fn protected<S>(permission: &'static str, route: MethodRouter<S>) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    protected_by_any([permission], route)
}

/// [`protected`], for keys with any of these permissions. The first one decides the budget.
pub fn protected_by_any<const N: usize, S>(
    permissions: [&'static str; N],
    route: MethodRouter<S>,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let permission = permissions.first().copied().unwrap_or_default();
    let counting = match Budget::for_unread_body(permission) {
        Some(budget) => Counting::ByHandler(budget),
        None => Counting::Before(Budget::from_permission(permission)),
    };
    checked(permissions, counting, route)
}

/// [`protected_by_any`], if only the handler finds out which of the permissions the request needs:
/// it checks that one, and [counts](count_and_handle) the request against its budget. A request
/// that ends before that counts against the first one's.
pub fn protected_by_one_of<const N: usize, S>(
    permissions: [&'static str; N],
    route: MethodRouter<S>,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let permission = permissions.first().copied().unwrap_or_default();
    let counting =
        Budget::from_permission(permission).map_or(Counting::Before(None), Counting::ByHandler);
    checked(permissions, counting, route)
}

/// When a request with the permission counts.
#[derive(Clone, Copy)]
enum Counting {
    /// Before its handler, against this budget; never without one.
    Before(Option<Budget>),
    /// By its handler; against this budget if it ends before that.
    ByHandler(Budget),
}

impl Counting {
    /// The budget of requests that do not reach their handler.
    fn budget(self) -> Option<Budget> {
        match self {
            Self::Before(budget) => budget,
            Self::ByHandler(budget) => Some(budget),
        }
    }
}

/// Counts a request whose budget only its handler finds out, and runs the rest of its handler: 429
/// if it exceeds the limit. Call it once, before any effect. The response shows the remaining
/// budget.
pub async fn count_and_handle<R: IntoResponse>(
    app: &App,
    workspace: &Workspace,
    budget: Budget,
    rest: impl Future<Output = Result<R, ApiError>>,
) -> Response {
    let limit = workspace.rate_limit(budget);
    let budget_status = limits::count(app, workspace.id, budget, limit).await;
    let mut response = match budget_status.retry_after {
        Some(seconds) => ApiError::RateLimited(seconds).into_response(),
        None => rest.await.into_response(),
    };
    response.extensions_mut().insert(budget_status);
    response
}

fn checked<const N: usize, S>(
    permissions: [&'static str; N],
    counting: Counting,
    route: MethodRouter<S>,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    route.route_layer(middleware::from_fn(move |request: Request, next: Next| async move {
        check(&permissions, counting, request, next).await
    }))
}

async fn check(
    permissions: &[&'static str],
    counting: Counting,
    request: Request,
    next: Next,
) -> Response {
    let (mut head, body) = request.into_parts();
    let mut budget_status = None;
    let mut response = match caller(permissions, counting, &head, &mut budget_status).await {
        Ok((app, caller, _slot)) => {
            let holder = Holder::Workspace(caller.workspace.id);
            let permission = permissions.first().copied().unwrap_or_default();
            let audited = AuditedRequest::new(&app, &caller, &head, permission);
            let workspace = caller.workspace.clone();
            head.extensions.insert(caller);
            let request = Request::from_parts(head, body);
            let handled = async {
                let mut response = next.run(request).await;
                if let Counting::ByHandler(budget) = counting {
                    if response.extensions().get::<BudgetStatus>().is_none() {
                        // It ended before its handler counted it, so it had no effect.
                        let ended = std::future::ready(Ok(response));
                        response = count_and_handle(&app, &workspace, budget, ended).await;
                    }
                    budget_status = response.extensions().get().copied();
                }
                if let Some(audited) = audited {
                    audited.complete(&response).await;
                }
                response.extensions_mut().insert(ResponseOf(workspace.id));
                response
            };
            held_by(holder, handled).await
        }
        Err(error) => {
            body::discard(&head, body);
            error.into_response()
        }
    };
    if let Some(budget_status) = budget_status {
        budget_status.write(response.headers_mut());
    }
    response
}

/// Identifies the caller, and reserves a slot for the request. Sets `budget_status` once the budget
/// is known.
async fn caller(
    permissions: &[&'static str],
    counting: Counting,
    head: &Parts,
    budget_status: &mut Option<BudgetStatus>,
) -> Result<(App, Caller, Reservation), ApiError> {
    let permission = permissions.first().copied().unwrap_or_default();
    let (Some(app), Some(RequestId(request_id))) =
        (head.extensions.get::<App>(), head.extensions.get::<RequestId>())
    else {
        return Err(ApiError::Internal("a protected route outside of the gateway's router".into()));
    };
    let presented = bearer(&head.headers).ok_or(ApiError::Unauthenticated)?;
    let key = keys::find(app, presented).await?.ok_or(ApiError::Unauthenticated)?;
    let workspace = &key.workspace;
    let slot = reserve_slot(app, workspace.id)?;
    let limit = |budget: Budget| (budget, workspace.rate_limit(budget));
    let refused_budget = counting.budget().map(limit);
    let record_refused = |error: &ApiError| {
        refused::record(app, key.key_id, || Entry {
            workspace_id: Some(workspace.id),
            actor: format!("key:{}", key.name),
            action: "key.refused",
            object: permission.to_owned(),
            address: sender_address(app, head).map(|address| address.to_string()),
            details: json!({
                "code": error.code(),
                "key_id": key.key_id,
                "request_id": traces::without_trace(request_id),
            }),
        });
    };
    // A key from a network that is not allowed authenticates nobody.
    if let Err(error) = check_address(app, head, &[&workspace.ip_allowlist, &key.allow]) {
        record_refused(&error);
        if let Some((budget, limit)) = refused_budget {
            *budget_status = Some(limits::status(app, workspace.id, budget, limit).await);
            refused::count(app, key.key_id)?;
        }
        return Err(error);
    }
    mark_authenticated(&head.extensions, workspace.id);
    if !key.permissions.iter().any(|granted| permissions.contains(&granted.as_str())) {
        let error = ApiError::NoPermission(permissions.to_vec());
        record_refused(&error);
        if let Some((budget, limit)) = refused_budget {
            let counted = refused::count(app, key.key_id);
            let uses_budget =
                counted.is_ok() && refused::uses_budget(app, key.key_id, budget, limit);
            *budget_status = Some(if uses_budget {
                limits::count(app, workspace.id, budget, limit).await
            } else {
                limits::status(app, workspace.id, budget, limit).await
            });
            counted?;
        }
        return Err(error);
    }
    if let Counting::Before(Some(budget)) = counting {
        let (budget, limit) = limit(budget);
        *budget_status = Some(limits::count(app, workspace.id, budget, limit).await);
    }
    if let Some(seconds) = budget_status.and_then(|budget_status| budget_status.retry_after) {
        return Err(ApiError::RateLimited(seconds));
    }
    if let Some((budget, limit)) = workspace.limit_before_body(permission) {
        let counted = limits::count(app, workspace.id, budget, limit).await;
        if let Some(seconds) = counted.retry_after {
            *budget_status = Some(counted);
            return Err(ApiError::RateLimited(seconds));
        }
    }
    keys::record_use(app, &key, permissions);
    let caller = Caller {
        workspace: key.workspace.clone(),
        key_id: key.key_id,
        key_name: key.name.clone(),
        address: sender_address(app, head),
        permissions: key.permissions.clone(),
        request_id: request_id.clone(),
    };
    Ok((app.clone(), caller, slot))
}

/// Whether a request with this head would still pass the checks of its key, for responses that take
/// long: these are uses of the key, too. While the keys cannot be read, it does.
pub async fn is_still_allowed(app: &App, head: &Parts, permission: &'static str) -> bool {
    let Some(presented) = bearer(&head.headers) else { return false };
    match keys::find(app, presented).await {
        Ok(Some(key)) => {
            let is_allowed = key.permissions.iter().any(|granted| granted == permission)
                && check_address(app, head, &[&key.workspace.ip_allowlist, &key.allow]).is_ok();
            if is_allowed {
                keys::record_use(app, &key, &[permission]);
            }
            is_allowed
        }
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Records that the sender of a request is authenticated: a caller of that workspace, or of the
/// [`COMPANY`](super::COMPANY).
pub fn mark_authenticated(extensions: &Extensions, workspace: i32) {
    if let Some(connection) = extensions.get::<Connection>() {
        connection.mark_authenticated(workspace);
    }
}

/// The sender's address, from behind trusted proxies.
pub fn sender_address(app: &App, head: &Parts) -> Option<IpAddr> {
    let ConnectInfo(peer) = head.extensions.get::<ConnectInfo<SocketAddr>>()?;
    client_address(peer.ip(), &head.headers, &app.config.trusted_proxies)
}

/// Rejects a sender that is not on one of the lists.
pub fn check_address(app: &App, head: &Parts, lists: &[&[IpNet]]) -> Result<(), ApiError> {
    let address = sender_address(app, head);
    if lists.iter().all(|networks| is_allowed(address, networks)) {
        Ok(())
    } else {
        Err(ApiError::Forbidden(ADDRESS_REFUSED))
    }
}

/// The key in `Authorization: Bearer <key>`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_bearer() {
        let key = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(key("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(key("bearer  abc ").as_deref(), Some("abc"));
        for other in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(key(other), None, "{other:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
