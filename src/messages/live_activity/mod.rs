//! `POST /messages/live_activity/start`: live activities of iOS apps, started from afar.
//!
//! A start is an order like that of `/messages/send`, of one message by a channel of its own:
//! it takes the same way through the log, is dispatched to the same users, and is handed to the
//! push provider with the tokens that start activities of the app.

pub mod api;
pub mod request;
