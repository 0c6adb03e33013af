//! `notify` of the workspace file: who is notified of the ends of exports, and of late ones.
//!
//! The entries are stored encrypted, as one [part of the channels](super::channels): the URLs of
//! many services are secrets as a whole.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::workspaces::rules::{self, Address, EmailAddress, SigningSecret, checked, list};
use crate::workspaces::settings::Secret;
use runtime::outbound::shown;

/// Maximum number of entries, and of addresses in one of them.
pub const MAX_ENTRIES: usize = 20;
pub const MAX_ADDRESSES: usize = 20;

/// The beginnings of [references](Receiver::reference) to the URL of a webhook, and of Slack.
pub const WEBHOOK: &str = "notify+";
pub const SLACK: &str = "slack+";

store::text_enum! {
    /// What a receiver is notified of.
    #[derive(PartialOrd, Ord)]
    pub enum Event {
        Failed = "export_failed",
        Late = "export_late",
        Done = "export_done",
    }
}

/// A receiver of notifications about the workspace's exports. Exactly one of `webhook`, `slack` and
/// `email` is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Notify")]
pub struct Receiver {
    /// The events: `export_failed`, `export_late`, `export_done`. Default: the first two.
    #[serde(default = "default_events")]
    #[schemars(schema_with = "events")]
    pub on: Vec<Event>,
    /// A URL that gets signed requests.
    pub webhook: Option<WebhookReceiver>,
    /// A channel of Slack, or of a service that is compatible with its incoming webhooks.
    pub slack: Option<SlackReceiver>,
    /// Email addresses. The workspace's relay (`email.smtp`) sends the emails, from `email.from`.
    pub email: Option<EmailReceiver>,
}

/// A URL that gets signed requests.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NotifyWebhook")]
pub struct WebhookReceiver {
    /// An http or https URL.
    #[serde(deserialize_with = "checked::<Address, _>")]
    pub url: String,
    /// The secret that signs the requests (Standard Webhooks), in the format of
    /// `providers.push.secret`.
    // Required: with `callbacks.secret`, the receiver could forge callbacks.
    #[serde(deserialize_with = "rules::required_secret::<SigningSecret, _>")]
    #[schemars(with = "String")]
    pub secret: Secret,
}

/// An incoming webhook of Slack.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NotifySlack")]
pub struct SlackReceiver {
    /// The URL of the incoming webhook. It is a secret: whoever has it can write to the channel.
    #[serde(deserialize_with = "checked::<Address, _>")]
    pub url: String,
}

/// Email addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NotifyEmail")]
pub struct EmailReceiver {
    /// 1 to 20 addresses. Each gets an email of its own.
    #[serde(deserialize_with = "list::<EmailAddress, _>")]
    #[schemars(with = "Vec<String>", length(min = 1, max = MAX_ADDRESSES))]
    pub to: Vec<String>,
}

fn default_events() -> Vec<Event> {
    vec![Event::Failed, Event::Late]
}

fn events(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [
            {"enum": Event::ALL.map(Event::name)},
            {"type": "string", "pattern": "\\$\\{"},
        ]},
    })
}

// The URLs may contain secrets.
impl fmt::Debug for WebhookReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookReceiver").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

impl fmt::Debug for SlackReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlackReceiver").field("url", &shown(&self.url)).finish()
    }
}

impl Receiver {
    /// What a delivery stores instead of the URL, which stays encrypted: the server, and a hash. It
    /// has no scheme that a worker could send a request to. None for email.
    pub fn reference(&self) -> Option<String> {
        let (_, url) = self.address()?;
        let kind = if self.webhook.is_some() { WEBHOOK } else { SLACK };
        let hash = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(url)[..16]);
        Some(format!("{kind}{}/#{hash}", shown(url)))
    }

    /// Its URL, and the name of the field that contains it.
    pub fn address(&self) -> Option<(&'static str, &str)> {
        let webhook = self.webhook.as_ref().map(|webhook| ("webhook.url", webhook.url.as_str()));
        webhook.or(self.slack.as_ref().map(|slack| ("slack.url", slack.url.as_str())))
    }

    /// The event names and the destination, without its secrets.
    fn summary(&self) -> String {
        let mut events: Vec<Event> = self.on.clone();
        events.sort();
        let events = events.into_iter().map(Event::name).collect::<Vec<_>>().join(", ");
        let destination = match (&self.webhook, &self.slack, &self.email) {
            (Some(webhook), ..) => format!("webhook {}", shown(&webhook.url)),
            (_, Some(slack), _) => format!("Slack {}", shown(&slack.url)),
            (.., Some(email)) => format!("email {}", email.to.join(", ")),
            (None, None, None) => "nobody".into(),
        };
        format!("{events} to {destination}")
    }
}

/// The receivers without their secrets, as the list of changes shows them.
pub fn summary(receivers: &[Receiver]) -> String {
    receivers.iter().map(Receiver::summary).collect::<Vec<_>>().join("; ")
}

/// What differs, without secrets.
pub fn difference(current: &[Receiver], new: &[Receiver]) -> String {
    match (summary(current), summary(new)) {
        (current, new) if current == new => "the path of a URL, or a secret".into(),
        (current, new) => format!("{current} -> {new}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Receiver {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn failures_and_lateness_are_the_default() {
        let receiver = read(json!({ "email": { "to": ["ops@acme.example"] } }));
        assert_eq!(receiver.on, [Event::Failed, Event::Late]);
        let unknown = json!({ "on": ["export_lost"], "slack": { "url": "https://a.example" } });
        assert!(serde_json::from_value::<Receiver>(unknown).is_err());
    }

    #[test]
    fn what_is_printed_has_no_secret() {
        let receivers = [
            read(json!({ "webhook": {
                "url": "https://a.example/hidden?token=hidden", "secret": "hidden-hidden-hidden-hidden",
            } })),
            read(json!({ "on": ["export_done"], "slack": {
                "url": "https://hooks.slack.example/services/T0/B0/hidden",
            } })),
            read(json!({ "email": { "to": ["ops@acme.example", "b@acme.example"] } })),
        ];
        let text = summary(&receivers);
        assert_eq!(
            text,
            "export_failed, export_late to webhook https://a.example; export_done to Slack \
             https://hooks.slack.example; export_failed, export_late to email ops@acme.example, \
             b@acme.example"
        );
        let references: Vec<_> = receivers.iter().map(Receiver::reference).collect();
        assert!(!format!("{receivers:?}{references:?}").contains("hidden"));
        assert_eq!(difference(&receivers[..1], &receivers[..1]).split(' ').next(), Some("the"));
        assert!(difference(&receivers[..1], &receivers[1..]).contains(" -> "));
    }

    #[test]
    fn a_reference_is_that_of_one_url_and_kind() {
        let secret = "hidden-hidden-hidden-hidden";
        let webhook = |url: &str| {
            read(json!({ "webhook": { "url": url, "secret": secret } })).reference().unwrap()
        };
        let slack = |url: &str| read(json!({ "slack": { "url": url } })).reference().unwrap();
        let (url, other) = ("https://hooks.example/services/x", "https://hooks.example/services/y");
        assert_eq!((webhook(url), slack(url)), (webhook(url), slack(url)));
        assert!(webhook(url) != webhook(other) && slack(url) != slack(other));
        assert!(webhook(url).starts_with("notify+https://hooks.example/#"));
        assert!(slack(url).starts_with("slack+https://hooks.example/#"));
        let email = read(json!({ "email": { "to": ["ops@acme.example"] } }));
        assert_eq!(email.reference(), None);
    }

    #[test]
    fn a_webhook_requires_a_secret_of_its_own() {
        for secret in [json!(null), json!(""), json!("short")] {
            let webhook = json!({ "webhook": { "url": "https://a.example", "secret": secret } });
            assert!(serde_json::from_value::<Receiver>(webhook).is_err(), "{secret}");
        }
        let absent = json!({ "webhook": { "url": "https://a.example" } });
        assert!(serde_json::from_value::<Receiver>(absent).is_err());
    }
}
