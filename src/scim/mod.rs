//! SCIM 2.0 (RFC 7643, RFC 7644): the dashboard's users and their permissions.
//!
//! An installation is one company: its users, its tokens and its rate limit belong to no workspace,
//! and the app groups of a user's permissions are its workspaces.
//!
//! ```text
//! body ── schema ──> attributes ── patch ──> attributes ── resource ──> row
//!         (names, types, who may write)      (merged)      (app groups)
//! ```
//!
//! [`operations`] and [`formats`] describe the requests.
//!
//! [`schema`] is the only table of a user's attributes: it defines how bodies are read, PATCH finds
//! its targets in it, and [`discovery`] publishes it. Every error under
//! [`PATH`](crate::gateway::scim::PATH) has the protocol's own body ([`crate::gateway::scim`]).

pub mod api;
mod auth;
mod discovery;
pub mod filter;
mod formats;
mod operations;
pub mod patch;
mod projection;
pub mod query;
pub mod resource;
mod rows;
pub mod schema;
pub mod tokens;

pub use rows::{
    NewUser, StoredUser, delete, free_name, insert, is_taken, list_declared, lock_declared, update,
};

use query::Query;
