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
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of this layer: SCIM tokens |
//! | [`api`], `auth`, [`tokens`] | the requests for resources; SCIM tokens |
//! | `operations`, `formats` | the descriptions of the requests, and their schemas |
//! | `discovery` | describes the service and its schemas to clients |
//! | [`schema`] | the only tables of attributes: bodies are read by them, PATCH and filters find their targets in them, and `discovery` publishes them |
//! | [`query`], [`filter`], `projection` | parameters of lists: filters, pages, selected attributes |
//! | [`patch`] | the changes of a PATCH |
//! | [`resource`], [`group`], [`permissions`] | users and groups, stored and returned |
//! | [`sign_in`], `sign_in_rows` | users who sign in to the console |
//! | `rows`, `members` | the SQL |
//!
//! It promises: names are unique without regard to case, a change takes effect as a whole or not at
//! all, and a change with `If-Match` is rejected if another one came first. Every error under
//! [`PATH`](gateway::scim::PATH) has the body that SCIM defines ([`gateway::scim`]).
//!
//! Start with [`api`].

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
pub mod permissions;
mod projection;
pub mod query;
pub mod resource;
mod rows;
pub mod schema;
pub mod sign_in;
mod sign_in_rows;
pub mod tokens;

pub use rows::{delete, free_name, insert, is_taken, list_declared, lock_declared, update};

use query::Query;
