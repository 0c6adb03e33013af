//! Scheduled sends, transactional emails, reports about messages and unsubscribing.
//!
//! | module | is about |
//! |---|---|
//! | [`app`] | the state of this layer: known workspaces, recent uses of unsubscribe links |
//! | [`schedules`] | scheduled sends: created, changed and cancelled by requests, fired when due |
//! | [`transactional`] | transactional emails, with separate resources, so that nothing else delays them |
//! | [`inbound`] | reports about messages; unsubscribing |
//! | [`user_messages`] | what a user got, and why not |
//! | [`erase`] | erases one user from every domain |
//!
//! It promises: a schedule or a transactional email is a row before its request gets a response,
//! and the claim that makes a worker send it is written in the same transaction. A schedule is sent
//! once, or is shown as missed. A report can be repeated or late: it is applied only if it still
//! applies.
//!
//! Start with [`schedules::api`].

pub mod app;
pub mod erase;
pub mod inbound;
pub mod schedules;
pub mod transactional;
mod user_message_rows;
pub mod user_messages;
