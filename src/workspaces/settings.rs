//! What the workspace file declares of channels: `email`, `providers`, `frequency_capping`,
//! `subscription_groups`, `apps`.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::app::App;
use crate::app::declared::Declared;
use crate::outbound::shown;
use crate::workspaces::Channel;
use crate::workspaces::relay::Relay;
use crate::workspaces::{self, DeclaredApp};
use store::StoreError;

/// What a workspace sends by; nothing at all where there is no such workspace.
pub async fn of(app: &App, workspace: i32) -> Result<Arc<Settings>, StoreError> {
    app.kept::<Declared<Settings>>().of(workspace, read(app.clone(), workspace)).await
}

async fn read(app: App, workspace: i32) -> Result<Settings, StoreError> {
    let mut tx = app.store.snapshot().await?;
    let (secrets, config) = (&app.secrets, &app.config);
    let settings = workspaces::channels::settings(&mut tx, secrets, config, workspace).await?;
    tx.commit().await?;
    Ok(settings)
}

/// What a workspace sends by. A channel without its settings cannot be used.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub email: Option<Email>,
    /// For all four kinds of push and for live activities.
    pub push: Option<Provider>,
    pub sms: Option<Provider>,
    pub whats_app: Option<Provider>,
    /// The bytes that providers sign their reports with.
    pub feedback_secret: Option<Secret>,
    /// What export callbacks are signed with, and nothing else.
    pub callbacks: SigningSecrets,
    /// What webhooks of messages are signed with, and nothing else: their bodies are the caller's.
    pub webhooks: SigningSecrets,
    pub frequency_capping: Vec<CappingRule>,
    pub subscription_groups: Vec<SubscriptionGroup>,
    pub apps: Vec<DeclaredApp>,
    /// Networks that webhooks may reach although they are private: of the configuration, not of
    /// the file.
    pub allow_private: Vec<IpNet>,
    /// The segments that there are.
    pub segments: HashSet<Uuid>,
}

/// What the text of a secret begins with whose bytes are in base64.
pub(crate) const WHSEC: &str = "whsec_";

/// Bytes that sign, behind `whsec_…` or as they are.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What requests of one purpose are signed with. Each purpose has its own, so that a signature
/// obtained for one is worth nothing for another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecrets {
    /// None where the file leaves it out, until `apply` creates one.
    pub secret: Option<Secret>,
    /// The former one, which signs too while receivers change to the new one.
    #[serde(default)]
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

/// The relay that emails are handed to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Email {
    /// `smtp://user:password@host:587` or `smtps://…`: see [`Relay::parse`].
    #[serde(serialize_with = "exposed")]
    pub smtp: SecretString,
    /// The sender of transactional campaigns that name none: `Acme <hello@acme.example>`.
    pub from: Option<String>,
    pub status_postback: Option<StatusPostback>,
    /// What reports to `/email/events` are signed with.
    pub events_secret: Option<Secret>,
}

/// For storing sealed.
fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

impl Email {
    /// The relay; it was checked when it was declared.
    pub fn relay(&self) -> Result<Relay, String> {
        Relay::parse(self.smtp.expose_secret())
    }
}

impl PartialEq for Email {
    fn eq(&self, other: &Self) -> bool {
        let Self { smtp, from, status_postback, events_secret } = self;
        smtp.expose_secret() == other.smtp.expose_secret()
            && *from == other.from
            && *status_postback == other.status_postback
            && *events_secret == other.events_secret
    }
}

/// Where the states of transactional emails are told.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusPostback {
    pub url: String,
    #[serde(flatten)]
    pub signing: SigningSecrets,
}

/// Who takes messages of a channel over HTTP.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    pub url: String,
    /// What requests to it are signed with.
    #[serde(flatten)]
    pub signing: SigningSecrets,
}

// Of the address, too, something may be secret.

impl fmt::Debug for StatusPostback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusPostback").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

/// No more than so many messages in so many days, by one channel or by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CappingRule {
    pub messages: u32,
    pub days: u32,
    pub channel: Option<Channel>,
}

/// Users who get messages of a sender by SMS or WhatsApp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionGroup {
    pub id: Uuid,
    /// SMS or WhatsApp.
    pub channel: Channel,
    /// The number that messages come from.
    pub from: String,
}

impl Settings {
    /// Why a channel cannot be used, where it cannot.
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

    pub fn provider(&self, channel: Channel) -> Option<&Provider> {
        match channel {
            Channel::Sms => self.sms.as_ref(),
            Channel::WhatsApp => self.whats_app.as_ref(),
            push if push.is_push() => self.push.as_ref(),
            _ => None,
        }
    }
}
