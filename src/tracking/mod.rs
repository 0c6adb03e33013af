//! Tracking: what customers' servers say about their users. Attributes, events and
//! purchases, checked at the gateway, and carried to the workers by the log.
//!
//! | module | is about |
//! |---|---|
//! | [`message`] | what the log carries from the gateway to the workers |

pub mod message;
