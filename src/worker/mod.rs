//! Which roles run, message to domain, claims to domain, drain.

pub mod shares;
pub mod messages;
mod rows;
