//! Push, SMS, WhatsApp and live activities: a signed request to the workspace's provider of the
//! channel. It has everything that the provider needs to send the message and to recognize a
//! repeat.
//!
//! The request and its possible responses are described with the API ([`describe`]).

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::http;
use crate::app::App;
use crate::{Outcome, Outgoing};
use content::sms::{self, PhoneNumber};
use gateway::openapi::{SENT_TO_OTHERS, Webhook};
use gateway::workspaces::Channel;
use gateway::workspaces::Platform;
use gateway::workspaces::settings::Settings;
use kit::clock::format_time;
use people::users::devices::{self, InvalidToken};
use runtime::outbound;
use runtime::outbound::signature;
use runtime::outbound::{Request, ResponseBody};
use store::StoreError;

/// Maximum bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The stored reason for a number on the list of invalid numbers.
pub const INVALID_BY_PROVIDER: &str = "reported as invalid by the provider";

/// A message for a provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProviderMessage")]
pub struct ProviderMessage<'a> {
    /// Identifies the message: the same for each attempt, and in `webhook-id`.
    pub id: String,
    #[schemars(extend("enum" = CHANNELS.map(Channel::name)))]
    pub channel: &'static str,
    pub dispatch_id: String,
    pub send_id: Option<&'a str>,
    pub campaign_id: Option<Uuid>,
    pub message_variation_id: Option<&'a str>,
    /// The `app_id` of the message object.
    pub app_id: Option<&'a str>,
    pub user: User<'a>,
    pub to: &'a Destination<'a>,
    /// The message object, with all of its strings rendered.
    pub message: &'a Map<String, Value>,
    /// Keys and values from `message_extras` in its templates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub message_extras: &'a BTreeMap<String, String>,
    /// Time of this attempt.
    #[schemars(extend("format" = "date-time"))]
    pub sent_at: String,
}

const EXAMPLE: &str =
    "0192f1d0c3a47b0e8f5a3c9d2e1b0a96.0190b9a61c0070008000000000000000.apple_push";

/// The description of the request.
pub fn describe() -> Webhook {
    let device = json!({
        "app_id": "5d3f1a52-8f1e-4c57-9a3e-0d5b1c2e7f60", "token": "740f4707bebcf74f",
        "device_id": null,
    });
    let push = json!({
        "id": EXAMPLE, "channel": "apple_push", "dispatch_id": "0192f1d0c3a47b0e8f5a3c9d2e1b0a96",
        "send_id": null, "campaign_id": "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60",
        "message_variation_id": null, "app_id": null,
        "user": { "service_id": "0190b9a6-1c00-7000-8000-000000000000", "external_id": "ann" },
        "to": { "tokens": [device] },
        "message": { "alert": "Hello Ann", "badge": 1 },
        "sent_at": format_time(1_795_249_898_032),
    });
    Webhook::new::<ProviderMessage<'static>>(
        "providerMessage",
        SENT_TO_OTHERS,
        "A message for the provider of push, SMS or WhatsApp",
    )
    .about(
        "Sent to the workspace's `providers.push.url`, `providers.sms.url` or \
         `providers.whats_app.url`, and signed with the `secret` next to that URL. Each request \
         has one message for one user. Live activities go to `providers.push.url`. If the response \
         is lost, the same message is sent again with the same `webhook-id`, which equals \
         `id`.\n\nThe provider reports the later status to `POST /feedback/{provider}`.",
    )
    .example("A push message", push)
    .answered_with::<ProviderResponse>(
        "2XX",
        "Accepted. The body can list recipients that could not be reached.",
    )
    .answered_with::<ProviderResponse>(
        "404",
        "If the body lists recipients as for 2XX, they no longer exist. Without a body, the same \
         as 4XX.",
    )
    .answered_with::<ProviderResponse>("410", "The same as 404.")
    .answered("408", "The same as 5XX.")
    .answered("429", "The same as 5XX.")
    .answered("4XX", "Rejected permanently; not retried.")
    .answered(
        "5XX",
        "Failed for now. The request is retried after `Retry-After` (at most an hour) or after \
         increasing pauses, until the operator's time limit. A request without a response in time \
         is also retried.",
    )
}

/// Channels that go through a provider.
pub const CHANNELS: [Channel; 7] = [
    Channel::ApplePush,
    Channel::AndroidPush,
    Channel::KindlePush,
    Channel::WebPush,
    Channel::Sms,
    Channel::WhatsApp,
    Channel::LiveActivity,
];

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProviderUser")]
pub struct User<'a> {
    pub service_id: Uuid,
    pub external_id: Option<&'a str>,
}

/// The destination of a message.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ProviderRecipient")]
#[serde(untagged)]
pub enum Destination<'a> {
    /// For push messages and live activities.
    Devices { tokens: Vec<Device<'a>> },
    /// For SMS and WhatsApp messages: numbers in E.164.
    Number {
        phone: String,
        /// The sender's number, from the subscription group.
        from: &'a str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ProviderDevice")]
pub struct Device<'a> {
    pub app_id: &'a str,
    pub token: &'a str,
    pub device_id: Option<&'a str>,
}

/// A provider's report about the destination, in its response.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ProviderAnswer")]
pub struct ProviderResponse {
    /// Tokens that are no longer registered; they are removed from the profile.
    #[serde(default)]
    pub invalid_tokens: Vec<String>,
    /// Whether the number is invalid. It then gets no messages until it is removed from the list of
    /// invalid numbers.
    #[serde(default)]
    pub invalid_number: bool,
}

pub async fn send(app: &App, message: &Outgoing<'_>) -> Outcome {
    let channel = message.id.channel;
    let Some(provider) = message.settings.provider(channel) else {
        let why =
            message.settings.without(channel).unwrap_or("the channel has no provider configured");
        return Outcome::Failed(why.into());
    };
    let to = match destination(app, message).await {
        Ok(to) => to,
        Err(outcome) => return outcome,
    };
    let later = |reason: String| Outcome::Later { reason, after: None };
    // The operator may have changed the allowed networks or the provider's URL.
    let url = match outbound::check_stored_address(&provider.url, &app.config) {
        Ok(url) => url,
        Err(why) => return later(format!("the provider's address {why}")),
    };
    let body = match serde_json::to_string(&provider_message(app, message, &to)) {
        Ok(body) => body,
        Err(error) => return Outcome::Failed(format!("cannot write the message: {error}")),
    };
    let sent_at = app.clock.now_ms();
    let (id, now) = (message.id.to_string(), app.clock.now().as_second());
    let headers = signature::sign_with_each(provider.signing().each(), id, now, &body).headers();
    let request = Request {
        method: Method::POST,
        url,
        headers,
        body,
        timeout: None,
        response: ResponseBody::Bytes(MAX_RESPONSE_BYTES),
    };
    let answer = match app.sender.request(request, &app.clock).await {
        Ok(answer) => answer,
        Err(error) => return http::no_response(error),
    };
    let outcome = http::outcome(&answer);
    if matches!(outcome, Outcome::Later { .. } | Outcome::NoResponse { .. }) {
        return outcome;
    }
    let response = read_response(answer.status, &answer.body);
    match apply_response(app, message, &to, (&response, sent_at)).await {
        Some(reason) => Outcome::Bounced { reason, address: None },
        None => outcome,
    }
}

fn provider_message<'a>(
    app: &App,
    message: &Outgoing<'a>,
    to: &'a Destination<'a>,
) -> ProviderMessage<'a> {
    ProviderMessage {
        id: message.id.to_string(),
        channel: message.id.channel.name(),
        dispatch_id: message.id.dispatch_id.simple().to_string(),
        send_id: message.send_id,
        campaign_id: message.campaign_id,
        message_variation_id: message.rendered.variation_id.as_deref(),
        app_id: app_id(message),
        user: User {
            service_id: message.id.service_id,
            external_id: message.recipient.external_id(),
        },
        to,
        message: &message.rendered.object,
        message_extras: &message.rendered.extras,
        sent_at: format_time(app.clock.now_ms()),
    }
}

fn app_id<'a>(message: &Outgoing<'a>) -> Option<&'a str> {
    let app_id = message.rendered.object.get("app_id").and_then(Value::as_str);
    app_id.map(str::trim).filter(|app_id| !app_id.is_empty())
}

/// Why the message has no destination.
pub async fn unreachable(app: &App, message: &Outgoing<'_>) -> Option<String> {
    match destination(app, message).await {
        Err(Outcome::Unreachable(why)) => Some(why),
        _ => None,
    }
}

/// The destination, or the outcome if there is none.
async fn destination<'a>(app: &App, message: &Outgoing<'a>) -> Result<Destination<'a>, Outcome> {
    let unreachable = |why: &str| Outcome::Unreachable(why.to_owned());
    if message.id.channel.is_push() {
        let tokens = matching_devices(message);
        if tokens.is_empty() {
            return Err(unreachable("the user has no matching device"));
        }
        return Ok(Destination::Devices { tokens });
    }
    let group = message.rendered.object.get("subscription_group_id").and_then(Value::as_str);
    let group = group.unwrap_or_default().trim();
    let from = sender_number(message.settings, message.id.channel, group)
        .ok_or_else(|| unreachable("the workspace does not declare the subscription group"))?;
    if !message.recipient.is_in_group(group) {
        return Err(unreachable("the user is not in the subscription group"));
    }
    let phone = message.recipient.phone();
    let phone = phone.ok_or_else(|| unreachable("the user has no phone number"))?;
    let phone = PhoneNumber::parse(phone).map_err(|why| unreachable(&why))?;
    match sms::is_invalid(&app.store, message.workspace_id, &phone).await {
        Ok(true) => Err(unreachable("the phone number is on the list of invalid numbers")),
        Ok(false) => Ok(Destination::Number { phone: phone.to_string(), from }),
        Err(error) => Err(Outcome::Later { reason: error.to_string(), after: None }),
    }
}

/// The sender's number of a subscription group.
fn sender_number<'a>(settings: &'a Settings, channel: Channel, group: &str) -> Option<&'a str> {
    let id = Uuid::try_parse(group).ok()?;
    let group = settings.subscription_groups.iter().find(|group| group.id == id)?;
    (group.channel == channel).then_some(group.from.as_str())
}

/// The platform of the devices that get messages by a push channel.
pub fn platform(channel: Channel) -> Platform {
    match channel {
        Channel::AndroidPush => Platform::Android,
        Channel::KindlePush => Platform::Kindle,
        Channel::WebPush => Platform::Web,
        _ => Platform::Ios,
    }
}

/// The user's devices with the message's app or, if the message names none, with an app that the
/// workspace declares for the platform.
fn matching_devices<'a>(message: &Outgoing<'a>) -> Vec<Device<'a>> {
    let channel = message.id.channel;
    let platform = platform(channel);
    let named_app = app_id(message);
    let has_matching_app = |token_app: &str| match named_app {
        Some(named_app) => named_app.eq_ignore_ascii_case(token_app),
        None => {
            let token_app = Uuid::try_parse(token_app).ok();
            let mut apps = message.settings.apps.iter();
            apps.any(|app| app.platform == platform && Some(app.id) == token_app)
        }
    };
    let mut devices: Vec<Device<'a>> = Vec::new();
    for token in message.recipient.push_tokens() {
        let is_repeat = devices.iter().any(|device| device.token == token.token);
        let has_matching_kind = token.is_live_activity == (channel == Channel::LiveActivity);
        if has_matching_kind && has_matching_app(token.app_id) && !is_repeat {
            let (app_id, token, device_id) = (token.app_id, token.token, token.device_id);
            devices.push(Device { app_id, token, device_id });
        }
    }
    devices
}

/// The report about the destination in a response with success, 404 or 410.
fn read_response(status: StatusCode, body: &[u8]) -> ProviderResponse {
    let can_have_report =
        status.is_success() || matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    if can_have_report {
        serde_json::from_slice(body).unwrap_or_default()
    } else {
        ProviderResponse::default()
    }
}

/// Applies the report; returns the reason if no destination was reached.
async fn apply_response(
    app: &App,
    message: &Outgoing<'_>,
    to: &Destination<'_>,
    (response, sent_at): (&ProviderResponse, i64),
) -> Option<String> {
    let workspace = message.workspace_id;
    let (stored, reason) = match to {
        Destination::Devices { tokens } => {
            let is_invalid = |device: &&Device<'_>| {
                response.invalid_tokens.iter().any(|token| token == device.token)
            };
            let invalid: Vec<InvalidToken> = tokens
                .iter()
                .filter(is_invalid)
                .map(|device| InvalidToken {
                    service_id: message.id.service_id,
                    app_id: Some(device.app_id.to_owned()),
                    token: device.token.to_owned(),
                    sent_at,
                })
                .collect();
            if invalid.is_empty() {
                return None;
            }
            let are_all_invalid = invalid.len() == tokens.len();
            let reason = are_all_invalid
                .then(|| "none of the user's push tokens is registered any more".to_owned());
            (remove_tokens(app.clone(), workspace, invalid).await, reason)
        }
        Destination::Number { phone, .. } => {
            if !response.invalid_number {
                return None;
            }
            let added = add_invalid_number(app.clone(), workspace, phone.clone()).await;
            (added, Some(INVALID_BY_PROVIDER.to_owned()))
        }
    };
    if let Err(error) = stored {
        // The provider will report this again.
        tracing::warn!(%error, "cannot store a provider's report about a recipient");
    }
    reason
}

/// In its own task, because database work is never dropped half way.
async fn remove_tokens(
    app: App,
    workspace: i32,
    invalid: Vec<InvalidToken>,
) -> Result<(), StoreError> {
    let work = tokio::spawn(async move {
        let mut tx = app.store.write().await?;
        devices::remove_tokens(&mut tx, workspace, &invalid).await?;
        tx.commit().await
    });
    work.await.unwrap_or(Err(StoreError::Timeout))
}

async fn add_invalid_number(app: App, workspace: i32, phone: String) -> Result<(), StoreError> {
    let Ok(number) = PhoneNumber::parse(&phone) else { return Ok(()) };
    let work = tokio::spawn(async move {
        let mut tx = app.store.write().await?;
        let now = app.clock.now_ms();
        sms::add(&mut tx, workspace, &[number], INVALID_BY_PROVIDER, now).await?;
        tx.commit().await
    });
    work.await.unwrap_or(Err(StoreError::Timeout))
}
