//! The topics of the log.
//!
#![doc = include_str!("topics.md")]

use log::Topic;

/// Exports that wait to be planned; key and payload are the job's id.
pub const EXPORTS: Topic = Topic::new("exports");
/// Accepted objects of `POST /users/track`, and changes of users' identities and subscriptions:
/// [`Batch`](tracking::message::Batch)es.
pub const TRACKING: Topic = Topic::new("tracking");
/// Accepted edits of catalog items: [`Edit`](content::catalogs::message::Edit)s.
pub const CATALOGS: Topic = Topic::new("catalogs");
/// Accepted orders to send now: [`Order`](messages::order::Order)s.
pub const MESSAGES: Topic = Topic::new("messages");

pub const ALL: &[Topic] = &[EXPORTS, TRACKING, CATALOGS, MESSAGES];

/// The topic of that name.
pub fn from_name(name: &str) -> Option<Topic> {
    ALL.iter().copied().find(|topic| topic.name() == name)
}
