//! How people preview and request dispatches over HTTP, and what they see of them: the requests that
//! send now, and the lists, recipients and statistics of what was sent.
//!
//! ```text
//! POST /messages/send ──orders──> log ──> a dispatch: plan, parts, messages  (crate `messages`)
//!                                                   │ rows
//! API, console, command line <──────list, summary, …┘
//! ```
//!
//! | module | is about |
//! |---|---|
//! | [`orders`] | requests that send now: checked, appended to the log; live activities; what schedules have in common with them |
//! | [`preview`] | what a template or the messages of a campaign would be for a user |
//! | [`api`] | the endpoints of dispatches: list, status, cancellation, recipients, a send to these, statistics of a campaign |
//! | `summary_rows`, `sent_to`, `sent_by` | the SQL of lists of dispatches; the audience and the channels of each |
//! | `email_rows` | the SQL of the list of transactional emails |
//! | `recipient_rows`, `inspect_rows` | the SQL of a dispatch's messages, by outcome; of the reasons why they failed |
//! | `statistics_rows`, `recent_rows` | the SQL of what a campaign, and of what the latest dispatches sent |
//! | [`segment_send`] | a send of a campaign to a whole segment, which a person begins |
//! | [`live_activity`] | reads and checks requests to start a live activity |
//! | `console_rows` | the SQL of the developer console |
//!
//! The API, the console and the command line call the same functions, so that all of them show the
//! same. It promises:
//!
//! - A request gets 2xx only once its order is durable. A repeat with the same key sends nothing.
//! - Lists are read in pages. Of a large dispatch, the API and the console count a million messages
//!   at most ([`MAX_SCANNED_MESSAGES`]).
//! - While messages of a dispatch that ended early may still go out, their largest number is shown.
//!
//! Start with [`summary`], which reads a dispatch, and [`api::routes`].

pub mod api;
mod console_rows;
mod email_rows;
mod inspect_rows;
pub mod live_activity;
pub mod orders;
pub mod preview;
mod recent_rows;
mod recipient_rows;
pub mod segment_send;
mod sent_by;
mod sent_to;
mod statistics_rows;
mod summary_rows;

pub use console_rows::{ConsoleRecord, ConsoleSummary, console_records, console_summaries};
pub use email_rows::ListedKind;
pub use inspect_rows::{MAX_COUNTED_MESSAGES, Reason, reasons};
pub use recent_rows::{RecentTotals, totals_since};
pub use recipient_rows::{
    CountedOutcomes, MAX_SCANNED_MESSAGES, RecipientPosition, SendToRecipients, count_outcomes,
    sends_to_recipients,
};
pub use sent_by::DispatchChannels;
pub use sent_to::DispatchAudience;
pub use statistics_rows::{Statistics, statistics};
pub use summary_rows::{
    DispatchPage, DispatchSummary, Filter, ListPosition, LocalTime, UnsentMessages, list, position,
    summary, summary_of_workspace, unsent_messages,
};
