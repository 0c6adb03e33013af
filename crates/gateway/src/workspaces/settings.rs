//! The channel settings of the workspace file: `email`, `providers`, `notify`, `frequency_capping`,
//! `subscription_groups`, `apps`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::app::App;
use crate::workspaces::Channel;
use crate::workspaces::notify::Receiver;
use crate::workspaces::relay::Relay;
use crate::workspaces::rules::{
    self, Address, CallbackSecret, Id, MessageChannel, NumberChannel, RelayAddress, Sender,
    SigningSecret, checked, number, optional, up_to,
};
use crate::workspaces::template_data::{CatalogSelection, ConnectedContent};
use crate::workspaces::{self, Aliases, DeclaredApp};
use runtime::outbound::shown;
use store::{StoreError, Tx};

/// The channel settings of a workspace; empty for an unknown workspace.
pub async fn find(app: &App, workspace: i32) -> Result<Arc<Settings>, StoreError> {
    app.settings.get(workspace, read(app.clone(), workspace)).await
}

async fn read(app: App, workspace: i32) -> Result<Settings, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let settings = read_current(&app, &mut tx, workspace).await?;
    tx.commit().await?;
    Ok(settings)
}

/// The settings as the caller's transaction sees them, for what cannot be done with the cached
/// ones: a request that another process accepted may use what was declared a moment before.
pub async fn read_current(app: &App, tx: &mut Tx, workspace: i32) -> Result<Settings, StoreError> {
    workspaces::channels::settings(tx, &app.secrets, &app.config, workspace).await
}

/// The settings with which a workspace sends messages. A channel without settings cannot be used.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub email: Option<Email>,
    /// For all four kinds of push and for live activities.
    pub push: Option<SignedAddress>,
    pub sms: Option<SignedAddress>,
    pub whats_app: Option<SignedAddress>,
    /// The bytes that sign the reports of providers.
    pub feedback_secret: Option<Secret>,
    /// Secrets that sign only export callbacks.
    pub callbacks: SigningSecrets,
    /// Secrets that sign only message webhooks, because callers choose their bodies.
    pub webhooks: SigningSecrets,
    /// Who is notified about exports.
    pub notify: Vec<Receiver>,
    pub frequency_capping: Vec<CappingRule>,
    pub aliases: Aliases,
    pub subscription_groups: Vec<SubscriptionGroup>,
    pub apps: Vec<DeclaredApp>,
    /// Private networks that webhooks may reach: a setting of the process, not of the file.
    pub allow_private: Vec<IpNet>,
    /// The ids of the existing segments.
    pub segments: HashSet<Uuid>,
    /// Content blocks, by their names.
    pub blocks: BTreeMap<String, String>,
    pub selections: Vec<CatalogSelection>,
    /// The names of the existing catalogs.
    pub catalogs: BTreeSet<String>,
    /// The servers that templates may request.
    pub connected_content: Option<ConnectedContent>,
}

/// The prefix of a secret whose bytes are written in base64.
pub(crate) const SECRET_PREFIX: &str = "whsec_";

/// The bytes of a signing secret: decoded from `whsec_…`, or a text as it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Secrets that sign the requests of one purpose (Standard Webhooks). Each purpose has its own
/// secrets, so that a signature for one is useless for another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SigningSecrets {
    /// `whsec_` and 24 to 64 bytes in base64. Generated if it is absent, and shown once. The secret
    /// of `webhooks` must differ from every other secret in the file.
    #[serde(default, deserialize_with = "rules::secret::<CallbackSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub secret: Option<Secret>,
    /// The previous secret. While receivers change to the new one, requests are signed with both.
    #[serde(default, deserialize_with = "rules::secret::<CallbackSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub secret_old: Option<Secret>,
}

impl SigningSecrets {
    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.secret.iter().chain(&self.secret_old).map(|secret| secret.0.as_slice())
    }
}

impl From<Secret> for SigningSecrets {
    fn from(secret: Secret) -> Self {
        Self { secret: Some(secret), secret_old: None }
    }
}

/// Settings for sending emails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Email {
    /// The relay: `smtp://user:password@host:587` (with STARTTLS) or `smtps://…`. A password is
    /// sent only over TLS, unless you add `?tls=none`. With `?tls=required`, TLS is required even
    /// without a password.
    #[serde(serialize_with = "exposed", deserialize_with = "checked::<RelayAddress, _>")]
    #[schemars(with = "String")]
    pub smtp: SecretString,
    /// The sender of transactional campaigns without `from`, such as `Acme <hello@acme.example>`.
    /// Every other email object has its own `from`.
    #[serde(default, deserialize_with = "optional::<Sender, _>")]
    pub from: Option<String>,
    /// The receiver of status postbacks of transactional emails.
    pub status_postback: Option<SignedAddress>,
    /// The secret that signs the relay's reports, in the format of `providers.feedback_secret`.
    #[serde(default, deserialize_with = "rules::secret::<SigningSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub events_secret: Option<Secret>,
    /// How many days an address gets no emails after one bounced because of it: at most 3,650, 90 by
    /// default. With 0, bounces have no effect.
    #[serde(default = "default_bounce_days", deserialize_with = "bounce_days")]
    #[schemars(schema_with = "rules::optional_number")]
    pub bounce_days: u32,
}

pub fn default_bounce_days() -> u32 {
    90
}

fn bounce_days<'de, D: Deserializer<'de>>(days: D) -> Result<u32, D::Error> {
    let days = Option::<u64>::deserialize(days)?.unwrap_or(u64::from(default_bounce_days()));
    let within = u32::try_from(days).ok().filter(|days| *days <= 3_650);
    within.ok_or_else(|| {
        D::Error::custom(format!("\"{days}\": expected a whole number from 0 to 3650"))
    })
}

/// For encrypted storage.
fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

impl Email {
    /// How long an address gets no emails after a bounce, in milliseconds; 0 if it gets them.
    pub fn bounce_period(&self) -> i64 {
        i64::from(self.bounce_days) * 24 * 60 * 60 * 1_000
    }

    /// The relay; it was checked when it was declared.
    pub fn relay(&self) -> Result<Relay, String> {
        Relay::parse(self.smtp.expose_secret())
    }
}

impl PartialEq for Email {
    fn eq(&self, other: &Self) -> bool {
        let Self { smtp, from, status_postback, events_secret, bounce_days } = self;
        smtp.expose_secret() == other.smtp.expose_secret()
            && *from == other.from
            && *status_postback == other.status_postback
            && *events_secret == other.events_secret
            && *bounce_days == other.bounce_days
    }
}

/// The receiver of signed requests.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignedAddress {
    /// An http or https URL.
    #[serde(deserialize_with = "checked::<Address, _>")]
    pub url: String,
    /// The secret that signs requests (Standard Webhooks): `whsec_` and 24 to 64 bytes in base64,
    /// or 20 to 255 printable characters, which are used unchanged. Generated if it is absent, and
    /// shown once.
    #[serde(default, deserialize_with = "rules::secret::<SigningSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub secret: Option<Secret>,
    /// The previous secret. While the receiver changes to the new one, requests are signed with
    /// both.
    #[serde(default, deserialize_with = "rules::secret::<SigningSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub secret_old: Option<Secret>,
}

impl SignedAddress {
    pub fn new(url: impl Into<String>, secret: Secret) -> Self {
        Self { url: url.into(), secret: Some(secret), secret_old: None }
    }

    /// The secrets that sign its requests.
    pub fn signing(&self) -> SigningSecrets {
        SigningSecrets { secret: self.secret.clone(), secret_old: self.secret_old.clone() }
    }
}

// The URL may also contain secrets.
impl fmt::Debug for SignedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedAddress").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

/// Maximum number of messages to a user in a number of days, for one channel or for all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CappingRule {
    #[serde(deserialize_with = "up_to::<1_000_000, _>")]
    #[schemars(schema_with = "number")]
    pub messages: u32,
    /// Number of days, 1 to 30.
    #[serde(deserialize_with = "up_to::<30, _>")]
    #[schemars(schema_with = "number")]
    pub days: u32,
    /// A channel of the messages object. Without it, the rule counts all channels together.
    #[serde(default, deserialize_with = "optional::<MessageChannel, _>")]
    #[schemars(schema_with = "message_channel")]
    pub channel: Option<Channel>,
}

fn message_channel(_: &mut SchemaGenerator) -> Schema {
    let names = Channel::OF_MESSAGES.map(|channel| Some(channel.name()));
    let names = [names.as_slice(), &[None]].concat();
    json_schema!({"enum": names})
}

/// A sender of SMS or WhatsApp messages, to which users subscribe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SubscriptionGroup {
    /// The id in messages and profiles, a UUID.
    #[serde(deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(deserialize_with = "checked::<NumberChannel, _>")]
    #[schemars(schema_with = "number_channel")]
    pub channel: Channel,
    /// A phone number, such as +15550100. For SMS, also a short code or a sender's name.
    pub from: String,
}

fn number_channel(_: &mut SchemaGenerator) -> Schema {
    rules::one_of(["sms", "whats_app"])
}

impl Settings {
    /// Why a channel cannot be used; none if it can.
    pub fn without(&self, channel: Channel) -> Option<&'static str> {
        match channel {
            Channel::Email if self.email.is_none() => Some("the workspace declares no email"),
            Channel::Sms if self.sms.is_none() => Some("the workspace declares no providers.sms"),
            Channel::WhatsApp if self.whats_app.is_none() => {
                Some("the workspace declares no providers.whats_app")
            }
            push if push.is_push() && self.push.is_none() => {
                Some("the workspace declares no providers.push")
            }
            _ => None,
        }
    }

    pub fn provider(&self, channel: Channel) -> Option<&SignedAddress> {
        match channel {
            Channel::Sms => self.sms.as_ref(),
            Channel::WhatsApp => self.whats_app.as_ref(),
            push if push.is_push() => self.push.as_ref(),
            _ => None,
        }
    }
}
