//! Hands messages over to what takes them: the SMTP relay, a webhook, a provider, the user's
//! cards.

pub mod cards;
pub mod email;
mod http;
pub mod providers;
mod together;
pub mod webhook;

use std::time::Instant;

pub use email::{check_mailbox, check_mailboxes};

use super::{Outcome, Outgoing};
use crate::app::App;
use crate::workspaces::Channel;

/// Headers of its own that an email or a webhook may have.
pub const MOST_HEADERS: usize = 50;

/// Whether a message of a channel that has headers may have one of that name; the error says why
/// not.
pub fn check_header(channel: Channel, name: &str) -> Result<(), String> {
    match channel {
        Channel::Email => email::check_header(name),
        _ => webhook::check_header(name).map(drop),
    }
}

/// Whether every message of a channel may have a header of that value, which is no template; the
/// error says why not.
pub fn check_header_value(channel: Channel, value: &str) -> Result<(), String> {
    match channel {
        Channel::Email => email::check_header_value(value),
        _ => Ok(()),
    }
}

/// Hands one message over. Every outcome is an answer: nothing here is retried. It can be
/// dropped at any time; then nobody knows whether the message was taken.
pub async fn send(app: &App, message: Outgoing<'_>) -> Outcome {
    let (channel, began) = (message.id.channel, Instant::now());
    let outcome = match channel {
        Channel::Email => email::send(app, &message).await,
        Channel::Webhook => webhook::send(app, &message).await,
        Channel::ContentCard => cards::send(app, &message).await,
        Channel::ApplePush
        | Channel::AndroidPush
        | Channel::KindlePush
        | Channel::WebPush
        | Channel::Sms
        | Channel::WhatsApp
        | Channel::LiveActivity => providers::send(app, &message).await,
    };
    let channel = channel.name();
    metrics::histogram!("longshore_message_attempt_seconds", "channel" => channel)
        .record(began.elapsed());
    metrics::counter!(
        "longshore_message_attempts_total",
        "channel" => channel,
        "outcome" => name(&outcome)
    )
    .increment(1);
    tell(&message, &outcome);
    outcome
}

/// What metrics call it.
fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Sent => "sent",
        Outcome::Unreachable(_) => "unreachable",
        Outcome::Bounced(_) => "bounced",
        Outcome::Failed(_) => "failed",
        Outcome::Later { .. } => "later",
    }
}

/// Lines are few where all is well.
fn tell(message: &Outgoing<'_>, outcome: &Outcome) {
    let (id, request_id) = (&message.id, message.request_id);
    match outcome {
        Outcome::Sent => tracing::debug!(%id, request_id, "a message was handed over"),
        Outcome::Unreachable(reason) => {
            tracing::debug!(%id, request_id, reason, "a message can go nowhere");
        }
        Outcome::Later { reason, .. } => {
            tracing::debug!(%id, request_id, reason, "a message was not taken this time");
        }
        Outcome::Bounced(reason) | Outcome::Failed(reason) => {
            tracing::info!(%id, request_id, reason, "a message was not sent");
        }
    }
}
