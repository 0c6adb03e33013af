//! # Longshore
//!
//! The bulk-data side of a customer-engagement service: a gateway that takes every
//! API call, and a fleet of workers that does the heavy work behind it. It exports users,
//! takes in what they do, edits catalogs, and sends messages by email, push, SMS, WhatsApp,
//! webhooks and content cards.
//!
//! ```text
//! client ──HTTP──> gateway ──append──> log (Kafka │ embedded) ──> worker ──> store (PostgreSQL │ SQLite)
//!                    │                                             ├──> objects (S3 │ Azure │ files)
//!                    └── reads, writes ── store                    ├──> messages (relays │ providers │ webhooks)
//!                                                                  └──> callbacks (HTTP)
//! ```
//!
//! Data goes one way, left to right. A call is answered 2xx only once its work is
//! durable in the log or the store. A worker may die at any instruction: what it was
//! doing is done again, and the result is the same as if it had been done once.
//!
//! ## Where things are
//!
//! Below are the crates in `crates/`, which know nothing of what Longshore is for: `kit` (clock,
//! retries, secrets, texts), `objects` (S3, Azure, files), `store` (the two databases, claims,
//! caches), `log` (Kafka, or a table in a file of its own) and `template` (Liquid, bounded). A
//! module here knows only those in the lines above its own, which a test checks.
//!
//! | module | is about |
//! |---|---|
//! | [`config`] | every setting, with its unit and default; refused at start when impossible |
//! | [`topics`], [`kinds`] | what goes through the log; what workers share out among them |
//! | [`app`] | what every part is given: settings and connections, and what is kept between calls |
//! | [`credentials`] | API keys and SCIM tokens as calls find them, with the database or without |
//! | [`engine`] | runs batches of the log and claims: attempts, leases, dead letters, drain |
//! | [`outbound`] | requests to addresses that others chose: checked, signed, never redirected |
//! | [`workspaces`] | what a workspace has: keys, budgets, storage, control group, channels |
//! | [`deliveries`] | callbacks and status postbacks: rows before they are requests, retried for a day |
//! | [`gateway`] | the HTTP server: keys, limits, bodies, errors, repeats; the routes are the domains' |
//! | [`users`] | profiles, identities, activity; import and generate |
//! | [`audience`] | connected audiences: conditions on users, read and written |
//! | [`campaigns`] | campaigns and Canvases, as declared; the list of campaigns |
//! | [`catalogs`] | items that are declared, loaded and edited, from the call to the row |
//! | [`exports`] | from the request to the files of users and the callback |
//! | [`scim`] | the dashboard's users over SCIM 2.0, and the tokens that may manage them |
//! | [`sms`] | phone numbers that are known to be invalid |
//! | [`messages`] | from the order to the channel that takes each message |
//! | [`schedules`] | sends that wait for their time; a Canvas's, made and cancelled by calls |
//! | [`tracking`] | attributes, events and purchases, from the call to profiles and activity |
//! | [`transactional`] | emails with a way of their own, which nothing else delays |
//! | [`inbound`] | reports of what became of messages; unsubscribing |
//! | [`erase`] | one user, out of every domain |
//! | [`workspace_file`] | the workspace file: read, compared with what is stored, applied |
//! | [`setup`] | brings an installation to this version; checked at each start |
//! | [`worker`] | which roles run, message to domain, claims to domain |
//! | [`telemetry`] | metrics with their help text, tracing, the operations listener |
//! | [`shutdown`] | the signals that end a process |
//! | [`cli`] | one file a subcommand; parses, assembles, hands over |
//!
//! Every domain has the same rooms: `api` (its routes: check and append), the work,
//! and `rows` (its SQL).

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
pub mod tracking;
pub mod transactional;
pub mod users;
pub mod worker;
pub mod workspace_file;
pub mod workspaces;

#[cfg(test)]
mod layers;
