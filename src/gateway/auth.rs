//! Keys: who may call what, from where (Authentication, 1 to 4).

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::MethodRouter;

use super::address::{is_allowed, of_client};
use super::request::RequestId;
use super::{ApiError, Caller};
use crate::app::App;
use crate::workspaces::keys;

const ADDRESS_REFUSED: &str = "Invalid whitelisted IPs";
const PERMISSION_REFUSED: &str = "You do not have permission to access this resource";

/// A route that needs a key with `permission`. Checked before the body is read, in the
/// order: key 401, address 403, permission 403.
pub fn protected(permission: &'static str, route: MethodRouter<App>) -> MethodRouter<App> {
    route.route_layer(middleware::from_fn(move |request: Request, next: Next| {
        check(permission, request, next)
    }))
}

async fn check(
    permission: &'static str,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (mut head, body) = request.into_parts();
    let caller = caller(permission, &head).await?;
    head.extensions.insert(caller);
    Ok(next.run(Request::from_parts(head, body)).await)
}

async fn caller(permission: &'static str, head: &Parts) -> Result<Caller, ApiError> {
    let (Some(app), Some(RequestId(request_id))) =
        (head.extensions.get::<App>(), head.extensions.get::<RequestId>())
    else {
        return Err(ApiError::Internal("a protected route outside of the gateway's router".into()));
    };
    let presented = bearer(&head.headers).ok_or(ApiError::Unauthenticated)?;
    let key = keys::find(app, presented).await?.ok_or(ApiError::Unauthenticated)?;
    let address = head.extensions.get::<ConnectInfo<SocketAddr>>().and_then(|ConnectInfo(peer)| {
        of_client(peer.ip(), &head.headers, &app.config.trusted_proxies)
    });
    if !is_allowed(address, &key.workspace.ip_allowlist) || !is_allowed(address, &key.allow) {
        return Err(ApiError::Forbidden(ADDRESS_REFUSED));
    }
    if !key.permissions.iter().any(|granted| granted == permission) {
        return Err(ApiError::Forbidden(PERMISSION_REFUSED));
    }
    Ok(Caller { workspace: key.workspace, key_id: key.key_id, request_id: request_id.clone() })
}

/// The key in `Authorization: Bearer <key>`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_what_follows_bearer() {
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
