//! Scheduled sends, transactional emails, reports about messages and unsubscribing.
//!
//! | module | is about |
//! |---|---|
//! | [`schedules`] | scheduled sends: created, changed and cancelled by requests, fired when due |
//! | [`transactional`] | transactional emails, with separate resources, so that nothing else delays them |
//! | [`inbound`] | reports about messages; unsubscribing |

pub mod app;
pub mod inbound;
pub mod schedules;
pub mod transactional;
