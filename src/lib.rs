//! # Longshore
//!
//! A self-hosted engine for customer engagement: a gateway that serves every API request and the
//! console, and a fleet of workers that does the heavy work behind it. It imports and exports
//! users, tracks their events, edits catalogs, and sends messages by email, push, SMS, WhatsApp,
//! webhooks and content cards.
//!
//! ```text
//! client ──HTTP──> gateway ──append──> log ──> worker ──> store (PostgreSQL │ SQLite)
//!                     │         (Kafka │ embedded)   ├──> objects (S3 │ Azure │ files)
//!                     └── reads, writes ── store     ├──> messages (relays │ providers │ webhooks)
//!                                                    └──> callbacks (HTTP)
//! ```
//!
//! Data goes one way, left to right. A request gets 2xx only once its work is durable in the log or
//! the store. A worker may die at any instruction: its work is repeated, and the result is the same
//! as if it had run once.
//!
//! ## Where things are
//!
//! The layers are crates in `crates/`. Each knows only those above it in the table, and builds and
//! tests without those below.
//!
//! | crate | is about |
//! |---|---|
//! | `kit` | clock, retries, secrets, texts: no words of the product |
//! | `objects` | S3, Azure, files |
//! | `store` | the two databases; claims, retention, caches, wake-ups |
//! | `log` | append and consume: Kafka, or a table in a separate file |
//! | `template` | Liquid with limits |
//! | `runtime` | settings, topics, traces, fairness, credentials, the engine of all work, outbound requests |
//! | `gateway` | the HTTP server: workspaces, keys, limits, bodies, errors, idempotency |
//! | `deliveries` | callbacks, postbacks and notifications: stored and retried |
//! | `people` | users: profiles, identities, activity, import; audiences |
//! | `content` | campaigns, catalogs, phone numbers |
//! | `proof` | what an export states about itself, and the check of it |
//! | `exports` | from the request to the files of users and the callback |
//! | `scim` | the dashboard's users over SCIM 2.0, and the tokens that may manage them |
//! | `messages` | from the request to the channel that accepts each message |
//! | `dispatches` | sends over HTTP: how people preview and request them, and what they see of them |
//! | `tracking` | attributes, events and purchases, from the request to profiles and activity |
//! | `sending` | schedules, transactional emails, reports about messages, unsubscribing |
//! | `declared` | the workspace file: read, compared with what is stored, applied |
//! | `console-frame` | the frame of the console: sign-in, rights, what every page has |
//! | `console` | pages for people over exports and messages |
//! | `server` | the processes: the layers put together, the workers' roles, setup, telemetry |
//!
//! This crate is the command line ([`cli`]): one file per subcommand, which parses options, opens
//! connections and runs the work. It re-exports the modules of the layers.
//!
//! Start with [`routes()`], every route of the API, and [`worker::run`], which starts the workers.
//! `docs/explanation/through-the-code.md` follows an export and a purchase from file to file.
//!
//! A domain has its routes in `api` (check and append), and its SQL in `rows` or files that end in
//! `_rows`. The other files do the work. CONTRIBUTING.md shows where to add something.

pub use content::{campaigns, catalogs, sms};
pub use declared as workspace_file;
pub use deliveries;
pub use dispatches;
pub use exports;
pub use gateway;
pub use gateway::workspaces;
pub use messages;
pub use people::{audience, users};
pub use proof;
pub use runtime::{
    config, credentials, engine, fairness, history, kinds, outbound, topics, traces,
};
pub use scim;
pub use sending::{erase, inbound, schedules, transactional, user_messages};
pub use server::{
    app, dead_letters, documented_routes, listen, routes, setup, shutdown, telemetry, worker,
};
pub use tracking;

pub mod cli;
