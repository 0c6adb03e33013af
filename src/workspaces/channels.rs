//! What a workspace declares of channels: the parts that hold secrets, sealed at rest, and the
//! settings that all of it makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{DeclaredApp, StorageError, channel_rows, rows, storage};
use crate::campaigns;
use crate::config::Config;
use crate::deliveries;
use crate::messages::settings::{
    CappingRule, Email, Provider, Secret, Settings, SubscriptionGroup,
};
use crate::secrets::{SecretError, SecretKey};
use crate::store::documents::parsed_secret;
use crate::store::{StoreError, Tx};

/// A part that is declared, kept and pruned by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Email,
    Push,
    Sms,
    WhatsApp,
    FeedbackSecret,
}

impl Part {
    const ALL: [Self; 5] =
        [Self::Email, Self::Push, Self::Sms, Self::WhatsApp, Self::FeedbackSecret];

    /// Where it is in the workspace file; in the store, too.
    pub fn path(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Push => "providers.push",
            Self::Sms => "providers.sms",
            Self::WhatsApp => "providers.whats_app",
            Self::FeedbackSecret => "providers.feedback_secret",
        }
    }

    fn context(self, workspace: i32) -> String {
        format!("{} of workspace {workspace}", self.path())
    }
}

/// What a part is, secrets and all: for storing sealed and for sending, never for printing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeclaredPart {
    Email(Email),
    Provider(Provider),
    Secret(Secret),
}

impl DeclaredPart {
    /// Where messages go, without what is secret of it.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Email(email) => email.relay().map(|relay| relay.place()).unwrap_or_default(),
            Self::Provider(provider) => deliveries::shown(&provider.url),
            Self::Secret(_) => String::new(),
        }
    }

    /// The members that differ.
    pub(super) fn difference(&self, new: &Self) -> String {
        let members = match (self, new) {
            (Self::Email(is), Self::Email(new)) => vec![
                ("smtp", Email { smtp: new.smtp.clone(), ..is.clone() } != *is),
                ("from", is.from != new.from),
                ("status_postback", is.status_postback != new.status_postback),
                ("events_secret", is.events_secret != new.events_secret),
            ],
            (Self::Provider(is), Self::Provider(new)) => {
                vec![("url", is.url != new.url), ("secret", is.secret != new.secret)]
            }
            _ => Vec::new(),
        };
        let different = members.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
        different.collect::<Vec<_>>().join(", ")
    }

    /// The address that requests go to, and the member that has it.
    fn address(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Email(Email { status_postback: Some(postback), .. }) => {
                Some(("status_postback.url", &postback.url))
            }
            Self::Provider(provider) => Some(("url", &provider.url)),
            Self::Email(_) | Self::Secret(_) => None,
        }
    }
}

/// The parts that there are.
pub type Channels = BTreeMap<Part, DeclaredPart>;

/// The settings that channels make together with what is no secret; without what calls may name.
pub(super) fn assemble(
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
        frequency_capping,
        subscription_groups,
        apps,
        allow_private: config.allow_private.clone(),
        ..Settings::default()
    }
}

/// What a workspace sends by: [`settings::of`](crate::messages::settings::of) keeps it.
pub async fn settings(
    tx: &mut Tx,
    secrets: &SecretKey,
    config: &Config,
    workspace: i32,
) -> Result<Settings, StoreError> {
    let channels = stored(tx, secrets, workspace).await?;
    let capping = rows::by_id(tx, workspace).await?.map(|workspace| workspace.frequency_capping);
    let groups = channel_rows::subscription_groups(tx, workspace).await?;
    let apps = rows::apps(tx, workspace).await?;
    let secret = storage::stored_callback_secret(tx, secrets, workspace).await;
    let secret = secret.map_err(|error| match error {
        StorageError::Store(error) => error,
        error => StoreError::Corrupt(format!("the callback secret of {workspace}: {error}")),
    })?;
    Ok(Settings {
        callback_secret: secret.map(Secret),
        segments: channel_rows::segment_ids(tx, workspace).await?.into_iter().collect(),
        api_campaigns: campaigns::of_calls(tx, workspace).await?.into_iter().collect(),
        ..assemble(&channels, capping.unwrap_or_default(), groups, apps, config)
    })
}

/// The parts that are stored.
pub(super) async fn stored(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<Channels, StoreError> {
    let mut channels = Channels::new();
    for (path, sealed) in channel_rows::channels(tx, workspace).await? {
        let corrupt = |text: &str| StoreError::Corrupt(format!("{path} of {workspace}: {text}"));
        let part = Part::ALL.into_iter().find(|part| part.path() == path);
        // One that a newer program declares is nothing to this one.
        let Some(part) = part else { continue };
        let plain = secrets.open(&part.context(workspace), &sealed);
        let plain = plain.map_err(|error: SecretError| corrupt(&error.to_string()))?;
        channels.insert(part, parsed_secret(&path, workspace, &plain)?);
    }
    Ok(channels)
}

pub(super) async fn put(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
    part: Part,
    channel: &DeclaredPart,
) -> Result<(), StoreError> {
    let plain = super::to_json(channel);
    let sealed = secrets.seal(&part.context(workspace), plain.as_bytes());
    channel_rows::put_channel(tx, workspace, part.path(), &sealed).await
}

/// Seals everything of a workspace anew under the current key.
pub(super) async fn reseal(
    tx: &mut Tx,
    secrets: &SecretKey,
    workspace: i32,
) -> Result<(), StoreError> {
    for (part, channel) in stored(tx, secrets, workspace).await? {
        put(tx, secrets, workspace, part, &channel).await?;
    }
    Ok(())
}

/// What is to be said of addresses that nothing is sent to as long as they are private.
pub(super) fn private_addresses(channels: &Channels, config: &Config) -> Vec<String> {
    let addresses =
        channels.iter().filter_map(|(part, channel)| channel.address().map(|at| (part, at)));
    let refused = addresses.filter_map(|(part, (member, url))| {
        let error = deliveries::check_kept(url, config).err()?;
        let path = part.path();
        Some(format!(
            "{path}.{member} {error}: until LONGSHORE_ALLOW_PRIVATE has its network, nothing is \
             sent there"
        ))
    });
    refused.collect()
}

/// What is to be said where emails are sent and the address in them by which users unsubscribe
/// leads nowhere.
pub fn unsubscribing(config: &Config) -> Option<String> {
    let why = match &config.public_url {
        None => "public_url (LONGSHORE_PUBLIC_URL) is not set",
        Some(url) if is_loopback(url) => "public_url is an address of this machine alone",
        Some(url) if url.scheme() != "https" => "public_url is no https address",
        Some(_) => return None,
    };
    Some(format!("{why}: recipients of emails could not unsubscribe by the links in them"))
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
mod tests {
    use super::*;
    use crate::messages::settings::StatusPostback;

    fn provider(url: &str, secret: &str) -> Provider {
        Provider { url: url.into(), secret: Secret(secret.as_bytes().into()) }
    }

    fn email(smtp: &str, postback: &str) -> Email {
        Email {
            smtp: smtp.to_owned().into(),
            from: None,
            status_postback: Some(StatusPostback {
                url: postback.into(),
                secret: Secret(b"hidden".into()),
            }),
            events_secret: None,
        }
    }

    #[test]
    fn a_part_reads_back_from_its_sealed_form() {
        for channel in [
            DeclaredPart::Email(email("smtps://u:hidden@relay", "https://acme.example/?a=hidden")),
            DeclaredPart::Provider(provider("https://push.example/", "hidden")),
            DeclaredPart::Secret(Secret(b"hidden".into())),
        ] {
            let text = crate::workspaces::to_json(&channel);
            assert_eq!(serde_json::from_str::<DeclaredPart>(&text).unwrap(), channel);
            assert!(!format!("{channel:?}{}", channel.place()).contains("hidden"));
        }
    }

    #[test]
    fn what_differs_is_named_and_no_value_shown() {
        let is = DeclaredPart::Email(email("smtp://u:hidden@relay", "https://acme.example/"));
        let new = DeclaredPart::Email(email("smtp://u:secret@relay", "https://acme.example/x"));
        assert_eq!(is.difference(&new), "smtp, status_postback");
        let is = DeclaredPart::Provider(provider("https://a.example/", "hidden"));
        let new = DeclaredPart::Provider(provider("https://a.example/", "secret"));
        assert_eq!((is.difference(&new).as_str(), is.difference(&is).as_str()), ("secret", ""));
    }

    #[test]
    fn links_that_lead_nowhere_are_noted() {
        let noted = |url: Option<&str>| {
            let public_url = url.map(|url| url.parse().unwrap());
            unsubscribing(&Config { public_url, ..Config::default() })
        };
        for (url, why) in [
            (None, "is not set"),
            (Some("http://longshore.example.com"), "no https address"),
            (Some("https://localhost:8443"), "this machine alone"),
            (Some("http://127.0.0.1:8080"), "this machine alone"),
            (Some("https://[::1]"), "this machine alone"),
            (Some("https://[::ffff:127.0.0.1]"), "this machine alone"),
        ] {
            let note = noted(url).unwrap();
            assert!(note.contains(why) && note.contains("unsubscribe"), "{url:?}: {note}");
        }
        assert_eq!(noted(Some("https://longshore.example.com/api")), None);
    }

    #[test]
    fn private_addresses_are_noted_unless_they_are_allowed() {
        let channels = Channels::from([
            (Part::Email, DeclaredPart::Email(email("smtp://relay", "http://10.0.0.1/hook"))),
            (Part::Push, DeclaredPart::Provider(provider("https://push.example/", "s"))),
            (Part::Sms, DeclaredPart::Provider(provider("http://localhost:9/", "s"))),
        ]);
        let notes = private_addresses(&channels, &Config::default());
        let [email, sms] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(email.starts_with("email.status_postback.url must not point to a private address"));
        assert!(sms.starts_with("providers.sms.url must not point to a loopback address"));
        let allow = ["10.0.0.0/8", "127.0.0.0/8"].map(|network| network.parse().unwrap());
        let config = Config { allow_private: allow.into(), ..Config::default() };
        assert!(private_addresses(&channels, &config).is_empty());
    }
}
