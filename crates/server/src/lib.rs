//! The processes of an installation: a gateway, a worker, or both. Puts the layers together, and
//! runs them from the start to the last line of the log.
//!
//! ```text
//! command line ──Process, Config──> Service: App ─┬─ routes ──> gateway
//!                                                 ├─ worker ──> roles ──> the domains
//!                                                 └─ telemetry, shutdown
//! ```
//!
//! A module here uses only those above it, which a test checks.
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of all layers, assembled |
//! | [`dead_letters`] | retries dead letters; those of a workspace over HTTP |
//! | [`routes`](mod@routes) | every route of the API |
//! | [`setup`] | migrates an installation to this version; checked at each start |
//! | [`worker`] | runs the roles, and routes messages and claims to the domains |
//! | [`listen`] | listens on the addresses of the settings |
//! | [`telemetry`] | metrics with their help text, tracing, the operations listener |
//! | [`shutdown`] | the signals that end a process |
//! | [`service`] | the life of a process: start, wait for dependencies, run, stop |
//!
//! It promises: a process never runs on an installation that it does not fit, what it accepted is
//! finished or returned when it stops, and a worker that lost a loop ends instead of seeming
//! healthy.
//!
//! Start with [`service::Service`], [`routes()`] and [`worker::run`].

pub mod app;
pub mod dead_letters;
pub mod listen;
pub mod routes;
pub mod service;
pub mod setup;
pub mod shutdown;
pub mod telemetry;
pub mod worker;

pub use routes::{documented_routes, routes};
