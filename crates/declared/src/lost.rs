//! What messages lose with a change of channels, subscription groups, apps, and of the sources that
//! templates read: running sends and pending schedules use these as they are when a message is sent.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::plan::HasEntry as _;
use gateway::workspaces::channels::Part;
use gateway::workspaces::settings::{Settings, SubscriptionGroup};
use gateway::workspaces::{Channel, DeclaredApp};
use messages::channels::providers;
use messages::personalization::names;
use template::{Names, Source, Sources, Template};

/// The settings of a workspace before and after a change.
#[derive(Debug)]
pub(crate) struct Settled {
    pub before: Settings,
    pub after: Settings,
}

/// How messages are touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// What they use, such as `with subscription_group 7d0c6f5e-…`.
    pub label: String,
    pub outcome: String,
}

impl Settled {
    /// Whether the change takes anything that a message can use.
    pub fn takes_anything(&self) -> bool {
        self.groups().next().is_some()
            || self.apps().next().is_some()
            || self.takes_sources()
            || Channel::ALL.iter().any(|channel| self.takes_channel(*channel))
    }

    fn takes_channel(&self, channel: Channel) -> bool {
        self.before.without(channel).is_none() && self.after.without(channel).is_some()
    }

    /// Groups that are removed, or get another channel.
    fn groups(&self) -> impl Iterator<Item = &SubscriptionGroup> {
        let is_kept = |old: &SubscriptionGroup, new: &SubscriptionGroup| {
            (old.id, old.channel) == (new.id, new.channel)
        };
        let after = &self.after.subscription_groups;
        let before = self.before.subscription_groups.iter();
        before.filter(move |old| !after.iter().any(|new| is_kept(old, new)))
    }

    /// Apps that are removed, or get another platform: then messages no longer reach their devices.
    fn apps(&self) -> impl Iterator<Item = &DeclaredApp> {
        let is_kept =
            |old: &DeclaredApp, new: &DeclaredApp| (old.id, old.platform) == (new.id, new.platform);
        let after = &self.after.apps;
        self.before.apps.iter().filter(move |old| !after.iter().any(|new| is_kept(old, new)))
    }

    fn takes_sources(&self) -> bool {
        let Self { before, after } = self;
        let mut selections = before.selections.iter();
        !before.catalogs.is_subset(&after.catalogs)
            || selections.any(|old| after.selection(&old.catalog, &old.name).is_none())
            || before.connected_content != after.connected_content
    }

    /// What message objects lose, by channel.
    pub fn losses(&self, messages: &Map<String, Value>) -> Vec<Loss> {
        let objects = messages.iter().filter(|(_, object)| !object.is_null());
        let objects: Vec<(Channel, &Value)> = objects
            .filter_map(|(name, object)| Some((Channel::from_name(name)?, object)))
            .collect();
        let mut losses: Vec<Loss> = Vec::new();
        let unsendable =
            objects.iter().filter_map(|(channel, object)| self.unsendable(*channel, object));
        let unsendable: Vec<(String, &str)> = unsendable.collect();
        let outcome = if unsendable.len() == objects.len() {
            "will fail"
        } else {
            "will not send these messages"
        };
        losses.extend(unsendable.into_iter().map(|(label, reason)| Loss {
            label,
            outcome: format!("{outcome}, because {reason}"),
        }));
        for (channel, _) in objects.iter().filter(|(channel, object)| {
            channel.is_push() && object.get("app_id").is_none_or(Value::is_null)
        }) {
            let platform = providers::platform(*channel);
            losses.extend(self.apps().filter(|app| app.platform == platform).map(|app| Loss {
                label: format!("with {}", app.label()),
                outcome: "will not reach its devices, because it is removed".into(),
            }));
        }
        if self.takes_sources() {
            losses.extend(self.lost_sources(messages).into_iter().map(|why| Loss {
                label: "with other data".to_owned(),
                outcome: format!("will not have it: {why}"),
            }));
        }
        losses
    }

    /// What a message object can no longer be sent without, and what happens to it.
    fn unsendable(&self, channel: Channel, object: &Value) -> Option<(String, &'static str)> {
        const REMOVED: &str = "it is removed";
        if self.takes_channel(channel) {
            let part = match channel {
                Channel::Email => Part::Email,
                Channel::Sms => Part::Sms,
                Channel::WhatsApp => Part::WhatsApp,
                _ => Part::Push,
            };
            return Some((format!("with {}", part.path()), REMOVED));
        }
        let id = object.get("subscription_group_id").and_then(Value::as_str)?;
        let id = Uuid::try_parse(id).ok()?;
        let group = self.groups().find(|group| (group.id, group.channel) == (id, channel))?;
        let is_kept = self.after.subscription_groups.iter().any(|new| new.id == id);
        let reason = if is_kept { "its channel changes" } else { REMOVED };
        Some((format!("with {}", group.label()), reason))
    }

    /// Why templates can no longer read what they name.
    fn lost_sources(&self, messages: &Map<String, Value>) -> BTreeSet<String> {
        let lost = LostSources { settled: self, reasons: Mutex::default() };
        let names = Names { sources: Some(&lost), ..names(&self.before) };
        let mut values: Vec<&Value> = messages.values().collect();
        while let Some(value) = values.pop() {
            match value {
                // One that cannot be parsed loses nothing more.
                Value::String(text) => drop(Template::parse(text, &names)),
                Value::Array(elements) => values.extend(elements),
                Value::Object(fields) => values.extend(fields.values()),
                _ => {}
            }
        }
        lost.reasons.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects why sources are lost.
#[derive(Debug)]
struct LostSources<'s> {
    settled: &'s Settled,
    reasons: Mutex<BTreeSet<String>>,
}

impl Sources for LostSources<'_> {
    fn check(&self, source: Source<'_>) -> Result<(), String> {
        if self.settled.before.check(source).is_ok()
            && let Err(reason) = self.settled.after.check(source)
        {
            self.reasons.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        }
        Ok(())
    }
}
