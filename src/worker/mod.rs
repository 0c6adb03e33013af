//! Which roles run, message to domain, claims to domain, drain.

pub mod messages;
mod rows;
pub mod shares;
