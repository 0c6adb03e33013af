//! Settings, shared state, and the engine that runs the work of every domain.
//!
//! | module | is about |
//! |---|---|
//! | [`config`] | every setting, with its unit and default; checked at start |
//! | [`traces`] | follows a request's trace into its work, and sends spans to a collector |
//! | [`topics`], [`kinds`] | the topics of the log; the kinds of work that workers claim |
//! | [`fairness`] | limits that workspaces share, so that none uses them all |
//! | [`outbound`] | requests to URLs from outside: checked, signed, never redirected |
//! | [`app`] | the state of this layer: settings, connections; each layer above adds its own in `app` |
//! | [`audit`] | the audit log: who changed what, when and from where |
//! | [`backups`] | when the installation was last backed up |
//! | [`cache`] | cache of data that messages read, limited in bytes, fair to workspaces |
//! | [`credentials`] | cache of API keys and SCIM tokens, which outlasts outages of the database |
//! | [`engine`] | runs batches of the log and claims: attempts, leases, dead letters, drain |
//! | [`work_rows`] | the SQL of the fleet's unfinished work, for metrics and the console |
//! | [`history`] | how much was done and how much waited: a value for each minute and hour |
//! | [`processes`] | the processes of the installation: each stores that it runs |
//!
//! It promises: the engine knows nothing of the work's content. A batch moves its offset in the
//! transaction of its changes, and a claim that was lost takes no effect
//! (docs/explanation/guarantees.md).
//!
//! Start with [`app`], then [`engine::batches::Handler`] and [`engine::shares::Handler`].

pub mod app;
pub mod audit;
mod audit_rows;
pub mod backups;
pub mod cache;
pub mod config;
pub mod credentials;
pub mod engine;
pub mod fairness;
pub mod history;
mod history_rows;
pub mod kinds;
pub mod outbound;
mod process_rows;
pub mod processes;
pub mod topics;
pub mod traces;
pub mod work_rows;
