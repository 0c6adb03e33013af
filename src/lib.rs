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
//! | module | is about |
//! |---|---|
//! | [`app`] | what every part is given: settings and connections |
//! | [`cli`] | one file a subcommand; parses, assembles, hands over |
//! | [`compute`] | processors and memory, shared out within a process |
//! | [`config`] | every setting, with its unit and default; refused at start when impossible |
//! | [`credentials`] | API keys and SCIM tokens as calls find them, with the database or without |
//! | [`gateway`] | the HTTP server: keys, limits, bodies, errors, repeats; the routes are the domains' |
//! | [`log`] | append and consume: Kafka, or a table in a file of its own |
//! | [`setup`] | brings an installation to this version; checked at each start |
//! | [`store`] | the two databases behind one face; migrations |
//! | [`bell`] | wakes the loops of this process |
//! | [`claims`] | rows shared out among workers: lease, attempts, fairness between jobs |
//! | [`objects`] | object keys, S3, Azure and files behind one face; ZIP and gzip |
//! | [`worker`] | which roles run, message to domain, retry or dead letter, drain |
//! | [`tracking`] | attributes, events and purchases, from the call to profiles and activity |
//! | [`catalogs`] | items that are declared, loaded and edited, from the call to the row |
//! | [`audience`] | connected audiences: conditions on users, read and written |
//! | [`campaigns`] | campaigns and Canvases, as declared; the list of campaigns |
//! | [`schedules`] | sends that wait for their time; a Canvas's, made and cancelled by calls |
//! | [`sms`] | phone numbers that are known to be invalid |
//! | [`messages`] | from the order to the channel that takes each message; templates |
//! | [`exports`] | from the request to the files of users and the callback |
//! | [`scim`] | the dashboard's users over SCIM 2.0, and the tokens that may manage them |
//! | [`users`] | profiles, identities, activity; import and generate |
//! | [`workspaces`] | what the workspace file declares: keys, storage, control group |
//! | [`deliveries`] | callbacks and status postbacks: rows before they are requests, signed, retried for a day |
//! | [`shutdown`] | the signals that end a process |
//! | [`words`] | numbers as texts that people read |
//! | `fuzzing` | what others send, given to its parsers anyhow: for tests, and a feature |
//! | [`telemetry`] | metrics with their help text, tracing, the operations listener |
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
pub mod exports;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gateway;
pub mod kinds;
pub mod messages;
pub mod schedules;
pub mod scim;
pub mod setup;
pub mod shutdown;
pub mod sms;
pub mod telemetry;
pub mod topics;
pub mod tracking;
pub mod users;
pub mod worker;
pub mod workspaces;
