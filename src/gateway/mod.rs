//! The HTTP server: the router as the sum of the domains' routes, and what every call
//! shares: keys, errors, bodies, request ids.

pub mod error;

use axum::routing::MethodRouter;
use uuid::Uuid;

pub use error::ApiError;

use crate::app::App;
use crate::workspaces::Workspace;

/// Who calls, put into the request by [`protected`]; handlers take it as
/// `Extension<Caller>`.
#[derive(Clone, Debug)]
pub struct Caller {
    pub workspace: Workspace,
    pub key_id: Uuid,
    pub request_id: String,
}

/// A route that needs a key with `permission`. Checked before the body is read, in the
/// order: key 401, address 403, permission 403.
pub fn protected(_permission: &'static str, _route: MethodRouter<App>) -> MethodRouter<App> {
    todo!()
}

/// A request's JSON body, as an extractor: over the size limit 413, another Content-Type
/// 415, not JSON 400 with line and column, wrong members 400 naming the member.
pub struct Json<T>(pub T);
