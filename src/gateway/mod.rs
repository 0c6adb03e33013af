//! The HTTP server: what every call shares, whatever the routes that it is given: keys,
//! errors, bodies, request ids, repeats.
//!
//! What a call can be refused for is looked at in one order: path 404, method 405
//! ([`router`]), key 401, address 403, permission 403 ([`protected`]), size 413,
//! Content-Type 415, JSON 400, members 400 ([`Json`]). An `Idempotency-Key` ([`idempotency`]) is
//! looked at before the size, and what is under it once the body is known to be taken.

mod address;
mod auth;
mod body;
pub mod error;
pub mod idempotency;
mod request;
mod serve;

use uuid::Uuid;

pub use auth::protected;
pub use body::{Json, JsonText};
pub use error::ApiError;
pub use idempotency::IdempotencyKey;
pub use serve::{BindError, bind, router, serve};

use crate::workspaces::Workspace;

/// Who calls, put into the request by [`protected`]; handlers take it as
/// `Extension<Caller>`.
#[derive(Clone, Debug)]
pub struct Caller {
    pub workspace: Workspace,
    pub key_id: Uuid,
    pub request_id: String,
}
