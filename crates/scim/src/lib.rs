//! SCIM 2.0 (RFC 7643, RFC 7644): the dashboard's users, their permissions and groups.
//!
//! An installation is one company: its users, its tokens and its rate limit belong to no workspace,
//! and the app groups of a user's permissions are its workspaces.
//!
//! ```text
//! body ── schema ──> attributes ── patch ──> attributes ── resource, group ──> row
//!         (names, types, who may write)      (merged)      (app groups, members)
//! ```
//!
//! [`operations`] and [`formats`] describe the requests.
//!
//! [`schema`] has the only tables of attributes. They define how bodies are read, PATCH and filters
//! find their targets in them, and [`discovery`] publishes them. Every error under
//! [`PATH`](gateway::scim::PATH) has the body that SCIM defines ([`gateway::scim`]).

pub mod api;
pub mod app;
mod auth;
mod discovery;
pub mod filter;
mod formats;
pub mod group;
mod members;
mod operations;
pub mod patch;
mod permissions;
mod projection;
pub mod query;
pub mod resource;
mod rows;
pub mod schema;
pub mod tokens;

pub use rows::{delete, free_name, insert, is_taken, list_declared, lock_declared, update};

use query::Query;
