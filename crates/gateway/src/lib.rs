//! The HTTP server, and what all routes share: keys, limits, bodies, errors, idempotency, and the
//! description of the API. Also workspaces and their settings.
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of this layer between requests |
//! | `serve`, `eviction`, `request`, `path` | connections and their limits; each request in its own task |
//! | `auth`, [`address`], [`limits`], [`refused`] | keys, clients' addresses, rate limits |
//! | `audit` | changes over HTTP in the audit log |
//! | [`memory`] | the slots and the memory that requests share |
//! | `body`, `coding`, `value`, [`fields`], [`formats`], [`query`], [`paging`] | bodies, their fields, and parameters; pages of lists |
//! | [`error`], `code`, `refusal`, [`scim`] | errors as responses, also in the format of SCIM |
//! | [`idempotency`] | `Idempotency-Key`: stored responses |
//! | [`openapi`] | routes with their descriptions, and the document generated from these |
//! | [`workspaces`] | workspaces: keys, budgets, channels, storage, settings |
//!
//! The checks of a request run in this order: path 404, method 405 ([`router`]), key 401, address
//! 403, permission 403, rate 429 ([`protected`]), Content-Encoding 415, size 413, Content-Type 415,
//! JSON 400, fields 400 ([`Json`]). The format of an `Idempotency-Key` ([`idempotency`]) is checked
//! before the body. Requests that append messages look up the stored response before they report an
//! error of the body. Requests that change rows look it up later, because the lookup opens their
//! transaction.
//!
//! It promises: one workspace or sender can use only a share of the memory and the slots, a rate
//! limit is never exceeded while the database responds, and a repeat with the same
//! `Idempotency-Key` takes effect once.
//!
//! Start with [`router`], [`protected`] and [`Json`].

pub mod address;
pub mod app;
mod audit;
mod auth;
mod body;
mod code;
mod coding;
pub mod error;
mod eviction;
pub mod fields;
pub mod formats;
pub mod idempotency;
pub mod limits;
pub mod memory;
pub mod openapi;
pub mod paging;
mod path;
pub mod query;
mod refusal;
pub mod refused;
mod request;
pub mod scim;
mod serve;
mod value;
pub mod warnings;
pub mod workspaces;

use std::net::IpAddr;
use std::sync::Arc;

use uuid::Uuid;

pub use audit::Recording;
pub use auth::{
    bearer, check_address, count_and_handle, is_still_allowed, mark_authenticated, protected,
    protected_by_any, protected_by_one_of, sender_address,
};
pub use body::{Json, JsonText, NoFields, discard, source as sender_network};
pub use code::Code;
pub use coding::Static;
pub use error::ADDRESS_REFUSED;
pub use error::ApiError;
pub use eviction::Connection;
pub use idempotency::IdempotencyKey;
pub use memory::{reserve_slot, reserve_stream};
pub use openapi::{Access, Operation, Routes};
pub use query::{name_parameter, parameter, time_parameter, time_range};
pub use request::{RequestId, client_gone};
pub use serve::{
    HEAD_BYTES, ListenerLimits, no_path, page_router, router, serve, serve_with_limits,
};

use crate::workspaces::Workspace;

/// The workspace number that stands for the whole installation; no workspace has it.
pub const COMPANY: i32 = 0;

/// A caller for the whole installation, stored in the extensions of requests like [`Caller`].
#[derive(Clone, Copy, Debug)]
pub struct CompanyCaller;

/// The caller. [`protected`] stores it in the request's extensions; handlers use
/// `Extension<Caller>`.
#[derive(Clone, Debug)]
pub struct Caller {
    pub workspace: Arc<Workspace>,
    pub key_id: Uuid,
    pub key_name: Arc<str>,
    /// From where the request came; none if that is unreadable.
    pub address: Option<IpAddr>,
    /// Those of the key.
    pub permissions: Arc<[String]>,
    pub request_id: String,
}

impl Caller {
    pub fn has_permission(&self, permission: &str) -> bool {
        self.permissions.iter().any(|granted| granted == permission)
    }
}

/// Counts a request that gets 503 because of a limit.
pub(crate) fn count_refused(reason: &'static str) {
    metrics::counter!("longshore_http_refused_total", "reason" => reason).increment(1);
}
