//! The channels of a workspace: the parts with secrets, encrypted at rest, and the settings
//! assembled from them.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{DeclaredApp, channel_rows, differing, rows, segments};
use crate::workspaces::notify::{self, Receiver};
use crate::workspaces::settings::{
    CappingRule, Email, SECRET_PREFIX, Secret, Settings, SignedAddress, SigningSecrets,
    SubscriptionGroup,
};
use crate::workspaces::template_data::{self, ConnectedContent};
use crate::workspaces::template_rows;
use kit::retry::Retry as _;
use kit::secrets::{SecretError, SecretKey, random_bytes};
use runtime::config::Config;
use runtime::outbound;
use store::documents::parsed_secret;
use store::{StoreError, Tx};

/// The purpose for which the secret of webhooks is derived, until `apply` creates one.
const INTERIM: &str = "message webhooks";

/// A part that is declared, kept and pruned separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Callbacks,
    Webhooks,
    Email,
    Push,
    Sms,
    WhatsApp,
    FeedbackSecret,
    ConnectedContent,
    Notify,
}

impl Part {
    const ALL: [Self; 9] = [
        Self::Callbacks,
        Self::Webhooks,
        Self::Email,
        Self::Push,
        Self::Sms,
        Self::WhatsApp,
        Self::FeedbackSecret,
        Self::ConnectedContent,
        Self::Notify,
    ];

    /// Parts that every workspace has, whether its file declares them or not.
    const ALWAYS: [Self; 2] = [Self::Callbacks, Self::Webhooks];

    /// Its path in the workspace file and in the store.
    pub fn path(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Push => "providers.push",
            Self::Sms => "providers.sms",
            Self::WhatsApp => "providers.whats_app",
            Self::FeedbackSecret => "providers.feedback_secret",
            Self::Callbacks => "callbacks.secret",
            Self::Webhooks => "webhooks.secret",
            Self::ConnectedContent => "connected_content",
            Self::Notify => "notify",
        }
    }

    /// The path in the workspace file of the secret that signs the part's requests.
    fn secret_path(self) -> &'static str {
        match self {
            Self::Email => "email.status_postback.secret",
            Self::Push => "providers.push.secret",
            Self::Sms => "providers.sms.secret",
            Self::WhatsApp => "providers.whats_app.secret",
            Self::FeedbackSecret
            | Self::Callbacks
            | Self::Webhooks
            | Self::ConnectedContent
            | Self::Notify => self.path(),
        }
    }

    /// The note on a part whose secret was created.
    pub fn created(self, created: &CreatedSecrets) -> Option<&'static str> {
        created.contains_key(self.secret_path()).then_some(match self {
            Self::Callbacks | Self::Webhooks => "generated: the file has none",
            _ => "secret generated: the file has none",
        })
    }

    fn context(self, workspace: i32) -> String {
        format!("{} of workspace {workspace}", self.path())
    }
}

/// A part with its secrets: for encrypted storage and for sending, never for printing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeclaredPart {
    Email(Email),
    Provider(SignedAddress),
    Secret(Secret),
    Signing(SigningSecrets),
    ConnectedContent(ConnectedContent),
    Notify(Vec<Receiver>),
}

impl DeclaredPart {
    /// The current and the previous secret that sign its requests, if it has any.
    fn signing(&mut self) -> Option<[&mut Option<Secret>; 2]> {
        match self {
            Self::Email(Email { status_postback: Some(address), .. }) | Self::Provider(address) => {
                Some([&mut address.secret, &mut address.secret_old])
            }
            Self::Signing(signing) => Some([&mut signing.secret, &mut signing.secret_old]),
            Self::Email(_) | Self::Secret(_) | Self::ConnectedContent(_) | Self::Notify(_) => None,
        }
    }

    /// Every secret in it.
    fn secrets(&self) -> Vec<Secret> {
        let others: Vec<Secret> = match self {
            Self::Email(email) => email.events_secret.iter().cloned().collect(),
            Self::Secret(secret) => vec![secret.clone()],
            Self::Notify(receivers) => {
                let webhooks = receivers.iter().filter_map(|receiver| receiver.webhook.as_ref());
                webhooks.map(|webhook| webhook.secret.clone()).collect()
            }
            Self::Provider(_) | Self::Signing(_) | Self::ConnectedContent(_) => Vec::new(),
        };
        let mut signing = self.clone();
        let signing = signing.signing().into_iter().flatten().filter_map(Option::take);
        signing.chain(others).collect()
    }

    /// The destination of messages, without its secrets.
    pub fn destination(&self) -> String {
        match self {
            Self::Email(email) => email.relay().map(|relay| relay.address()).unwrap_or_default(),
            Self::Provider(provider) => outbound::shown(&provider.url),
            Self::ConnectedContent(content) => content.hosts.join(", "),
            Self::Notify(receivers) => notify::summary(receivers),
            Self::Secret(_) | Self::Signing(_) => String::new(),
        }
    }

    /// The names of the fields that differ.
    pub fn difference(&self, new: &Self) -> String {
        match (self, new) {
            (Self::Email(current), Self::Email(new)) => differing(current, new),
            (Self::Provider(current), Self::Provider(new)) => differing(current, new),
            (Self::Signing(current), Self::Signing(new)) => differing(current, new),
            (Self::ConnectedContent(current), Self::ConnectedContent(new)) => {
                differing(current, new)
            }
            (Self::Notify(current), Self::Notify(new)) => notify::difference(current, new),
            _ => String::new(),
        }
    }

    /// The URLs to which requests go, and the end of the path of the field that contains each.
    fn addresses(&self) -> Vec<(String, &str)> {
        match self {
            Self::Email(Email { status_postback: Some(postback), .. }) => {
                vec![(".status_postback.url".into(), &postback.url)]
            }
            Self::Provider(provider) => vec![(".url".into(), &provider.url)],
            Self::Notify(receivers) => {
                let addresses = receivers.iter().map(Receiver::address).enumerate();
                addresses
                    .filter_map(|(i, at)| at.map(|(field, url)| (format!("[{i}].{field}"), url)))
                    .collect()
            }
            Self::Email(_) | Self::Secret(_) | Self::Signing(_) | Self::ConnectedContent(_) => {
                Vec::new()
            }
        }
    }
}

/// The declared or stored parts.
pub type Channels = BTreeMap<Part, DeclaredPart>;

/// Secrets that were created because the file has none, by their paths in the file.
pub type CreatedSecrets = BTreeMap<&'static str, String>;

/// The declared part with the secrets that the file omits: the current ones, or new ones, which it
/// also returns.
pub fn with_created_secrets(declared: &Channels, current: &Channels) -> (Channels, CreatedSecrets) {
    let (mut channels, mut created) = (declared.clone(), CreatedSecrets::new());
    for part in Part::ALWAYS {
        channels.entry(part).or_insert_with(|| DeclaredPart::Signing(SigningSecrets::default()));
    }
    for (part, channel) in &mut channels {
        let Some([secret @ None, _]) = channel.signing() else { continue };
        let mut current = current.get(part).cloned();
        let current = current.as_mut().and_then(DeclaredPart::signing);
        *secret = current.and_then(|[secret, _]| secret.take());
        secret.get_or_insert_with(|| {
            let bytes = random_bytes::<32>();
            let text = format!("{}{}", SECRET_PREFIX, BASE64_STANDARD.encode(bytes));
            created.insert(part.secret_path(), text);
            Secret(bytes.into())
        });
    }
    (channels, created)
}

/// The part that shares a secret with the webhooks. Message senders choose the content of webhooks,
/// so with a shared secret they could forge the other signatures.
pub fn shares_with_webhooks(channels: &Channels) -> Option<Part> {
    let webhooks = channels.get(&Part::Webhooks)?;
    let webhook_secrets = webhooks.secrets();
    let is_shared = |channel: &DeclaredPart| {
        channel.secrets().iter().any(|secret| webhook_secrets.contains(secret))
    };
    let mut others = channels.iter().filter(|(part, _)| **part != Part::Webhooks);
    others.find(|(_, channel)| is_shared(channel)).map(|(part, _)| *part)
}

/// The settings from the channels and the parts without secrets, except what requests may refer to.
pub fn assemble(
    channels: &Channels,
    frequency_capping: Vec<CappingRule>,
    subscription_groups: Vec<SubscriptionGroup>,
    apps: Vec<DeclaredApp>,
    config: &Config,
) -> Settings {
    let provider = |part| match channels.get(&part) {
        Some(DeclaredPart::Provider(provider)) => Some(provider.clone()),
        _ => None,
    };
    let signing = |part| match channels.get(&part) {
        Some(DeclaredPart::Signing(signing)) => signing.clone(),
        _ => SigningSecrets::default(),
    };
    Settings {
        email: match channels.get(&Part::Email) {
            Some(DeclaredPart::Email(email)) => Some(email.clone()),
            _ => None,
        },
        push: provider(Part::Push),
        sms: provider(Part::Sms),
        whats_app: provider(Part::WhatsApp),
        feedback_secret: match channels.get(&Part::FeedbackSecret) {
            Some(DeclaredPart::Secret(secret)) => Some(secret.clone()),
            _ => None,
        },
        callbacks: signing(Part::Callbacks),
        webhooks: signing(Part::Webhooks),
        connected_content: match channels.get(&Part::ConnectedContent) {
            Some(DeclaredPart::ConnectedContent(content)) => Some(content.clone()),
            _ => None,
        },
        notify: match channels.get(&Part::Notify) {
            Some(DeclaredPart::Notify(receivers)) => receivers.clone(),
            _ => Vec::new(),
        },
        frequency_capping,
        subscription_groups,
        apps,
        allow_private: config.allow_private.clone(),
        ..Settings::default()
    }
}

/// The settings with which a workspace sends messages.
/// [`settings::find`](crate::workspaces::settings::find) caches them.
pub async fn settings(
    tx: &mut Tx,
    secrets: &SecretKey,
    config: &Config,
    workspace: i32,
) -> Result<Settings, StoreError> {
    let mut channels = stored(tx, secrets, workspace).await?;
    channels.entry(Part::Webhooks).or_insert_with(|| {
        // For a workspace to which no version with such secrets has applied a file yet.
        let secret = secrets.derive(INTERIM, &[&workspace.to_be_bytes()]);
        DeclaredPart::Signing(Secret(secret.into()).into())
    });
    let (capping, aliases) = rows::by_id(tx, workspace)
        .await?
        .map(|workspace| (workspace.frequency_capping, workspace.aliases))
        .unwrap_or_default();
    let groups = channel_rows::subscription_groups(tx, workspace).await?;
    let apps = rows::apps(tx, workspace).await?;
    Ok(Settings {
        segments: segments::segment_ids(tx, workspace).await?.into_iter().collect(),
        blocks: template_data::by_name(template_rows::blocks(tx, workspace).await?),
        selections: template_rows::selections(tx, workspace).await?,
        catalogs: template_rows::catalogs(tx, workspace).await?.into_iter().collect(),
        aliases,
        ..assemble(&channels, capping, groups, apps, config)
    })
}

/// The stored parts.
pub async fn stored(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Channels, StoreError> {
    let mut channels = Channels::new();
    for (path, sealed) in channel_rows::channels(tx, workspace).await? {
        let part = Part::ALL.into_iter().find(|part| part.path() == path);
        // A part that only a newer program knows is ignored.
        let Some(part) = part else { continue };
        channels.insert(part, opened(secrets, workspace, part, &sealed)?);
    }
    let secret = rows::callback_secret(tx, workspace).await?.filter(|sealed| !sealed.is_empty());
    if let Some(sealed) = secret {
        let plain = secrets.open(&callback_context(workspace), &sealed);
        let corrupt =
            |error| StoreError::Corrupt(format!("callback secret of {workspace}: {error}"));
        let secret = Some(Secret(plain.map_err(corrupt)?));
        let stored = channels.get_mut(&Part::Callbacks).and_then(DeclaredPart::signing);
        let secret_old = stored.and_then(|[_, secret_old]| secret_old.take());
        let signing = SigningSecrets { secret, secret_old };
        channels.insert(Part::Callbacks, DeclaredPart::Signing(signing));
    }
    Ok(channels)
}

fn opened(
    secrets: &SecretKey,
    workspace: i32,
    part: Part,
    sealed: &[u8],
) -> Result<DeclaredPart, StoreError> {
    let path = part.path();
    let plain = secrets.open(&part.context(workspace), sealed);
    let plain = plain.map_err(|error: SecretError| {
        StoreError::Corrupt(format!("{path} of {workspace}: {error}"))
    })?;
    parsed_secret(path, workspace, &plain)
}

/// Who is notified about a workspace's exports. Receivers that cannot be read are logged and
/// skipped, because an export must end without them, too.
pub async fn notified(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Vec<Receiver>, StoreError> {
    let sealed = channel_rows::channel(tx, workspace, Part::Notify.path()).await?;
    let Some(sealed) = sealed else { return Ok(Vec::new()) };
    match opened(secrets, workspace, Part::Notify, &sealed) {
        Ok(DeclaredPart::Notify(receivers)) => Ok(receivers),
        Ok(_) => Ok(Vec::new()),
        Err(error) if error.needs_newer_version() => Err(error),
        Err(error) => {
            tracing::error!(%error, workspace, "cannot read who is notified about exports");
            Ok(Vec::new())
        }
    }
}

/// The receiver of the workspace's status postbacks, as stored now.
pub async fn status_postback(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Option<SignedAddress>, StoreError> {
    let sealed = channel_rows::channel(tx, workspace, Part::Email.path()).await?;
    let Some(sealed) = sealed else { return Ok(None) };
    match opened(secrets, workspace, Part::Email, &sealed)? {
        DeclaredPart::Email(email) => Ok(email.status_postback),
        _ => Ok(None),
    }
}

fn callback_context(workspace: i32) -> String {
    format!("callback secret of workspace {workspace}")
}

pub async fn put(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    part: Part,
    channel: &DeclaredPart,
) -> Result<(), StoreError> {
    let mut channel = channel.clone();
    if let (Part::Callbacks, DeclaredPart::Signing(signing)) = (part, &mut channel)
        && let Some(Secret(secret)) = signing.secret.take()
    {
        // The current secret has a column, where older programs look for it.
        let sealed = secrets.seal(&callback_context(workspace), &secret);
        rows::set_callback_secret(tx, workspace, &sealed).await?;
    }
    let plain = super::to_json(&channel);
    let sealed = secrets.seal(&part.context(workspace), plain.as_bytes());
    channel_rows::put_channel(tx, workspace, part.path(), &sealed).await
}

/// Encrypts a workspace's secrets again with the current key.
pub(crate) async fn reseal(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<(), StoreError> {
    for (part, channel) in stored(tx, secrets, workspace).await? {
        put(tx, secrets, workspace, part, &channel).await?;
    }
    Ok(())
}

/// The warnings about private addresses, which get no messages.
pub fn private_address_warnings(channels: &Channels, config: &Config) -> Vec<String> {
    let addresses = channels
        .iter()
        .flat_map(|(part, channel)| channel.addresses().into_iter().map(move |at| (part, at)));
    let refused = addresses.filter_map(|(part, (field, url))| {
        let error = outbound::check_stored_address(url, config).err()?;
        let path = part.path();
        Some(format!(
            "{path}{field} {error}: no message is sent there, unless LONGSHORE_ALLOW_PRIVATE \
             contains its network"
        ))
    });
    refused.collect()
}

/// The warning for emails whose unsubscribe URL does not work.
pub fn unsubscribe_warning(config: &Config) -> Option<String> {
    let reason = match &config.public_url {
        None => "public_url (LONGSHORE_PUBLIC_URL) is not set",
        Some(url) if is_loopback(url) => "public_url is only reachable from this machine",
        Some(url) if url.scheme() != "https" => "public_url is not an https URL",
        Some(_) => return None,
    };
    Some(format!("{reason}: the unsubscribe links in emails would not work"))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => true,
    }
}

#[cfg(test)]
mod tests;
