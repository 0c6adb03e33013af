//! `POST /messages/live_activity/start`: live activities of iOS apps, started remotely.
//!
//! A start is an order like that of `/messages/send`, with one message by a separate channel: it
//! passes through the same log, is dispatched to users in the same way, and is sent to the push
//! provider with the tokens that start activities of the app.
//!
//! [`request`] reads and checks a request. Start with [`request::StartRequest`].

pub mod request;
