//! Sends messages to their channels. [`send`] selects the channel; each has a module:
//!
//! | module | sends |
//! |---|---|
//! | [`email`] | emails to the workspace's SMTP relay |
//! | [`webhook`] | the customer's own requests |
//! | [`providers`] | push, SMS, WhatsApp and live activities to a provider over HTTP |
//! | [`cards`] | content cards: rows that an app reads |
//!
//! `http` derives the outcome of a message from a response, and [`store::write_batcher`] stores many cards
//! in one transaction.

pub mod cards;
pub mod email;
mod http;
pub mod providers;
pub mod webhook;

pub use email::{RelayPermit, check_mailbox, check_mailboxes};

use super::{Outcome, Outgoing};
use crate::app::App;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use kit::moment::Moment;
use runtime::app::queue::held_by;
use runtime::fairness::Holder;

/// Maximum number of custom headers of an email or a webhook.
pub const MAX_HEADERS: usize = 50;

/// Checks that a message of this channel may have a header with that name.
pub fn check_header(channel: Channel, name: &str) -> Result<(), String> {
    match channel {
        Channel::Email => email::check_header(name),
        _ => webhook::check_header(name).map(drop),
    }
}

/// Checks that messages of this channel may have a header with that constant value.
pub fn check_header_value(channel: Channel, value: &str) -> Result<(), String> {
    match channel {
        Channel::Email => email::check_header_value(value),
        _ => Ok(()),
    }
}

/// Waits until the channel can send a message of a workspace's send: emails need a connection to
/// the relay. The error is the outcome of the message.
pub async fn reserve(
    app: &App,
    workspace: i32,
    settings: &Settings,
    channel: Channel,
) -> Result<Option<RelayPermit>, Outcome> {
    let (Channel::Email, Some(email)) = (channel, &settings.email) else { return Ok(None) };
    let began = Moment::now();
    let reserving = app.relays.reserve(&email.smtp, false, &app.config);
    let reserved = held_by(Holder::Workspace(workspace), reserving).await;
    reserved.map(Some).inspect_err(|outcome| {
        tracing::debug!("message deferred: no free connection to the relay");
        count(channel, began, outcome);
    })
}

/// Why a message has no destination, although its user has an address: the address is unusable, or
/// no device or subscription fits the message.
pub async fn unreachable(app: &App, message: Outgoing<'_>) -> Option<String> {
    match message.id.channel {
        Channel::Email => email::recipient(&message).err(),
        Channel::Webhook | Channel::ContentCard => None,
        Channel::ApplePush
        | Channel::AndroidPush
        | Channel::KindlePush
        | Channel::WebPush
        | Channel::Sms
        | Channel::WhatsApp
        | Channel::LiveActivity => providers::unreachable(app, &message).await,
    }
}

/// Sends one message. Every result is an outcome: nothing is retried here. Each channel limits its
/// own steps (`smtp`, `deliveries`); a limit for all steps together would end them early. If the
/// future is dropped, it is unknown whether the message was accepted.
pub async fn send(app: &App, message: Outgoing<'_>) -> Outcome {
    send_reserved(app, message, None).await
}

/// Sends one message with what was [reserved](reserve) for it.
pub async fn send_reserved(
    app: &App,
    message: Outgoing<'_>,
    permit: Option<&RelayPermit>,
) -> Outcome {
    let (channel, began) = (message.id.channel, Moment::now());
    let sending = async {
        match channel {
            Channel::Email => email::send(app, &message, permit).await,
            Channel::Webhook => webhook::send(app, &message).await,
            Channel::ContentCard => cards::send(app, &message).await,
            Channel::ApplePush
            | Channel::AndroidPush
            | Channel::KindlePush
            | Channel::WebPush
            | Channel::Sms
            | Channel::WhatsApp
            | Channel::LiveActivity => providers::send(app, &message).await,
        }
    };
    let outcome = held_by(Holder::Workspace(message.workspace_id), sending).await;
    count(channel, began, &outcome);
    log_outcome(&message, &outcome);
    outcome
}

/// Counts an attempt in the metrics.
fn count(channel: Channel, began: Moment, outcome: &Outcome) {
    let channel = channel.name();
    metrics::histogram!("longshore_message_attempt_seconds", "channel" => channel)
        .record(began.elapsed());
    metrics::counter!(
        "longshore_message_attempts_total",
        "channel" => channel,
        "outcome" => outcome_name(outcome)
    )
    .increment(1);
}

/// The outcome's name in metrics.
fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Sent => "sent",
        Outcome::Unreachable(_) => "unreachable",
        Outcome::Bounced { .. } => "bounced",
        Outcome::Failed(_) => "failed",
        Outcome::Later { .. } | Outcome::NoResponse { .. } => "later",
    }
}

/// Logs only permanent failures above `debug`, to keep the log small.
fn log_outcome(message: &Outgoing<'_>, outcome: &Outcome) {
    let (id, request_id) = (&message.id, message.request_id);
    match outcome {
        Outcome::Sent => tracing::debug!(%id, request_id, "message sent"),
        Outcome::Unreachable(reason) => {
            tracing::debug!(%id, request_id, reason, "message has no destination");
        }
        Outcome::Later { reason, .. } | Outcome::NoResponse { reason, .. } => {
            tracing::debug!(%id, request_id, reason, "message deferred by the channel");
        }
        Outcome::Bounced { reason, .. } | Outcome::Failed(reason) => {
            tracing::info!(%id, request_id, reason, "message not sent");
        }
    }
}
