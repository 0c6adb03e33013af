//! What messages go by, to whom they can go and how many, as it is written.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::{Text, Verbatim, number};
use crate::workspaces::Channel;

fn message_channel(_: &mut SchemaGenerator) -> Schema {
    let names = Channel::OF_MESSAGES.map(|channel| Some(channel.name()));
    let names = [names.as_slice(), &[None]].concat();
    json_schema!({"enum": names})
}

fn number_channel(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": ["sms", "whats_app"]})
}

/// No more than so many messages to a user in so many days, by a channel or by all together.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CappingFile {
    #[schemars(schema_with = "number")]
    pub messages: Text,
    /// 1 to 30.
    #[schemars(schema_with = "number")]
    pub days: Text,
    /// Of the messages object; absent: all channels together.
    #[serde(default)]
    #[schemars(schema_with = "message_channel")]
    pub channel: Option<Text>,
}

/// A segment. `audience` is kept as it is written: `${…}` there is not read from the environment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentFile {
    /// What messages name it by, a UUID.
    pub id: Text,
    pub name: Text,
    /// A connected audience.
    pub audience: Verbatim,
}

/// A subscription group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionGroupFile {
    /// What messages and profiles name it by, a UUID.
    pub id: Text,
    #[schemars(schema_with = "number_channel")]
    pub channel: Text,
    /// A phone number such as +15550100; of SMS a short code or a sender's name, too.
    pub from: Text,
}

/// How emails are sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmailFile {
    /// The relay: `smtp://user:password@host:587`, with STARTTLS, or `smtps://…`. A password is
    /// sent under TLS alone, unless `?tls=none` is added; `?tls=required` wants TLS without a
    /// password, too.
    #[schemars(required)]
    pub smtp: Option<Text>,
    /// The sender of transactional campaigns that name none, such as `Acme <hello@acme.example>`.
    /// Every other email names its own.
    pub from: Option<Text>,
    /// Where the states of transactional emails are told.
    pub status_postback: Option<SignedAddressFile>,
    /// What the relay's reports are signed with: see `providers.feedback_secret`.
    pub events_secret: Option<Text>,
}

/// An address that signed requests go to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignedAddressFile {
    /// http or https.
    pub url: Text,
    /// What requests are signed with (Standard Webhooks): `whsec_` and 24 to 64 bytes in base64,
    /// or 20 to 255 printable characters, which sign as they are. Made when absent, and shown
    /// once.
    pub secret: Option<Text>,
    /// The former secret: requests are signed with both while the receiver changes to the new one.
    pub secret_old: Option<Text>,
}

/// Who takes messages over HTTP.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProvidersFile {
    /// Of all four kinds of push and of live activities.
    pub push: Option<SignedAddressFile>,
    pub sms: Option<SignedAddressFile>,
    pub whats_app: Option<SignedAddressFile>,
    /// What the providers' reports are signed with, in one of the forms of `secret`.
    pub feedback_secret: Option<Text>,
}
