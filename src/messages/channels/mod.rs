//! Hands messages over to what takes them: the SMTP relay, a webhook, a provider, the user's
//! cards.

use super::{Outcome, Outgoing};
use crate::app::App;

/// Hands one message over. Every outcome is an answer: nothing here is retried.
pub async fn send(_app: &App, _message: Outgoing<'_>) -> Outcome {
    todo!()
}
