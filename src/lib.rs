//! # Longshore
//!
//! The bulk-data side of a customer-engagement service: a gateway that serves every API request,
//! and a fleet of workers that does the heavy work behind it. It exports users, tracks their
//! events, edits catalogs, and sends messages by email, push, SMS, WhatsApp, webhooks and content
//! cards.
//!
//! ```text
//! client ──HTTP──> gateway ──append──> log (Kafka │ embedded) ──> worker ──> store (PostgreSQL │ SQLite)
//!                    │                                             ├──> objects (S3 │ Azure │ files)
//!                    └── reads, writes ── store                    ├──> messages (relays │ providers │ webhooks)
//!                                                                  └──> callbacks (HTTP)
//! ```
//!
//! Data goes one way, left to right. A request gets 2xx only once its work is durable in the log or
//! the store. A worker may die at any instruction: its work is repeated, and the result is the same
//! as if it had run once.
//!
//! ## Where things are
//!
//! Below are the crates in `crates/`, which know nothing of the product: `kit` (clock, retries,
//! secrets, texts), `objects` (S3, Azure, files), `store` (the two databases, claims, caches),
//! `log` (Kafka, or a table in a separate file) and `template` (Liquid with limits). A module here
//! uses only those in the lines above its own, which a test checks.
//!
//! | module | is about |
//! |---|---|
//! | [`config`] | every setting, with its unit and default; checked at start |
//! | [`traces`] | follows a request's trace into its work, and sends spans to a collector |
//! | [`topics`], [`kinds`] | the topics of the log; the kinds of work that workers claim |
//! | [`fairness`] | limits that workspaces share, so that none uses them all |
//! | [`app`] | the context of every part: settings, connections, and state between requests |
//! | [`credentials`] | cache of API keys and SCIM tokens, which outlasts outages of the database |
//! | [`engine`] | runs batches of the log and claims: attempts, leases, dead letters, drain |
//! | [`outbound`] | requests to URLs from outside: checked, signed, never redirected |
//! | [`workspaces`] | the parts of a workspace: keys, budgets, storage, control group, channels |
//! | [`deliveries`] | callbacks and status postbacks: stored before they are sent, retried for a day |
//! | [`gateway`] | the HTTP server: keys, limits, bodies, errors, idempotency; the domains have the routes |
//! | [`users`] | profiles, identities, activity; import and generate |
//! | [`audience`] | connected audiences: conditions on users, read and written |
//! | [`campaigns`] | campaigns and Canvases, as declared; the list of campaigns |
//! | [`catalogs`] | items that are declared, loaded and edited, from the request to the row |
//! | [`exports`] | from the request to the files of users and the callback |
//! | [`scim`] | the dashboard's users over SCIM 2.0, and the tokens that may manage them |
//! | [`sms`] | phone numbers that are known to be invalid |
//! | [`messages`] | from the order to the channel that accepts each message |
//! | [`schedules`] | scheduled sends: created, changed and cancelled by requests, fired when due |
//! | [`tracking`] | attributes, events and purchases, from the request to profiles and activity |
//! | [`transactional`] | transactional emails, with separate resources, so that nothing else delays them |
//! | [`inbound`] | reports about messages; unsubscribing |
//! | [`erase`] | erases one user from every domain |
//! | [`workspace_file`] | the workspace file: read, compared with what is stored, applied |
//! | [`setup`] | migrates an installation to this version; checked at each start |
//! | [`worker`] | runs the roles, and routes messages and claims to the domains |
//! | [`telemetry`] | metrics with their help text, tracing, the operations listener |
//! | [`shutdown`] | the signals that end a process |
//! | [`cli`] | one file per subcommand; parses options, opens connections, runs the work |
//!
//! A domain has its routes in `api` (check and append), and its SQL in `rows` or files that end in
//! `_rows`. The other files do the work. CONTRIBUTING.md shows where to add something.

pub mod app;
pub mod audience;
pub mod campaigns;
pub mod catalogs;
pub mod cli;
pub mod config;
pub mod credentials;
pub mod deliveries;
pub mod engine;
pub mod erase;
pub mod exports;
pub mod fairness;
pub mod gateway;
pub mod inbound;
pub mod kinds;
pub mod messages;
pub mod outbound;
pub mod schedules;
pub mod scim;
pub mod setup;
pub mod shutdown;
pub mod sms;
pub mod telemetry;
pub mod topics;
pub mod traces;
pub mod tracking;
pub mod transactional;
pub mod users;
pub mod worker;
pub mod workspace_file;
pub mod workspaces;

#[cfg(test)]
mod layers;
