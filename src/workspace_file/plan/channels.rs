//! What messages go by and to whom they can go, compared.

use std::fmt::Display;

use super::{Current, Plan, Step};
use crate::config::Config;
use crate::workspace_file::apply::ApplyError;
use crate::workspace_file::change::Options;
use crate::workspace_file::file::Declaration;
use crate::workspaces::channels::{self, Channels};
use crate::workspaces::settings::{CappingRule, Settings, SubscriptionGroup};
use crate::workspaces::{DeclaredApp, Segment, channel_rows};
use kit::secrets::SecretKey;
use store::{StoreError, Tx};

/// What there is of it.
#[derive(Default)]
pub(crate) struct CurrentChannels {
    channels: Channels,
    groups: Vec<SubscriptionGroup>,
    segments: Vec<Segment>,
}

impl CurrentChannels {
    pub async fn read(
        tx: &mut Tx,
        secrets: &SecretKey,
        workspace: i32,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            channels: channels::stored(tx, secrets, workspace).await?,
            groups: channel_rows::subscription_groups(tx, workspace).await?,
            segments: channel_rows::segments(tx, workspace).await?,
        })
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn compare_channels(
        &mut self,
        declared: &'a Declaration,
        current: &CurrentChannels,
        options: Options,
    ) -> Result<(), ApplyError> {
        let (declared, created) = channels::completed(&declared.channels, &current.channels);
        let mut after = declared.clone();
        if !options.prune {
            let kept = current.channels.iter().filter(|(part, _)| !declared.contains_key(part));
            after.extend(kept.map(|(part, channel)| (*part, channel.clone())));
        }
        if let Some(part) = channels::shares_with_webhooks(&after) {
            return Err(ApplyError::SharedSecret(part.path()));
        }
        for (part, new) in &declared {
            let (sign, mut detail) = match current.channels.get(part) {
                Some(is) if is == new => continue,
                Some(is) => ('~', is.difference(new)),
                None => ('+', new.place()),
            };
            if let Some(path) = part.created(&created) {
                detail = match detail.is_empty() {
                    true => path.to_owned(),
                    false => format!("{detail}; {path}"),
                };
            }
            self.change(sign, part.path(), detail);
            self.steps.push(Step::PutChannel(*part, new.clone()));
        }
        for (part, is) in &current.channels {
            if !declared.contains_key(part) {
                self.gone(part.path(), is.place(), Step::DeleteChannel(*part), options);
            }
        }
        self.created = created;
        Ok(())
    }

    pub(crate) fn compare_subscription_groups(
        &mut self,
        declared: &'a Declaration,
        current: &CurrentChannels,
        options: Options,
    ) {
        let what = |group: &SubscriptionGroup| format!("subscription_group {}", group.id);
        let detail =
            |group: &SubscriptionGroup| format!("{} from {}", group.channel.name(), group.from);
        for new in &declared.subscription_groups {
            let (sign, detail) = match current.groups.iter().find(|is| is.id == new.id) {
                Some(is) if is == new => continue,
                Some(is) => ('~', format!("{} -> {}", detail(is), detail(new))),
                None => ('+', detail(new)),
            };
            self.change(sign, what(new), detail);
            self.steps.push(Step::PutSubscriptionGroup(new));
        }
        let is_declared =
            |is: &SubscriptionGroup| declared.subscription_groups.iter().any(|new| new.id == is.id);
        for is in current.groups.iter().filter(|is| !is_declared(is)) {
            self.gone(what(is), detail(is), Step::DeleteSubscriptionGroup(is.id), options);
        }
    }

    pub(crate) fn compare_segments(
        &mut self,
        declared: &'a Declaration,
        current: &CurrentChannels,
        options: Options,
    ) {
        let what = |segment: &Segment| format!("segment {}", segment.name);
        for new in &declared.segments {
            let (sign, detail) = match current.segments.iter().find(|is| is.id == new.id) {
                Some(is) if is == new => continue,
                Some(is) if is.name == new.name => ('~', "audience".to_owned()),
                Some(is) if is.audience == new.audience => ('~', format!("was {}", is.name)),
                Some(is) => ('~', format!("audience; was {}", is.name)),
                None => ('+', new.id.to_string()),
            };
            self.change(sign, what(new), detail);
            self.steps.push(Step::PutSegment(new));
        }
        let is_declared = |is: &Segment| declared.segments.iter().any(|new| new.id == is.id);
        for is in current.segments.iter().filter(|is| !is_declared(is)) {
            self.gone(what(is), is.id.to_string(), Step::DeleteSegment(is.id), options);
        }
    }

    /// Something that the file no longer has.
    fn gone(
        &mut self,
        what: impl Into<String> + Display,
        detail: String,
        step: Step<'a>,
        options: Options,
    ) {
        if options.prune {
            self.change('-', what, detail);
            self.steps.push(step);
        } else {
            self.notes.push(format!("{what} is no longer in the file: --prune removes it"));
        }
    }
}

/// What the workspace will send by: what is declared, and without `--prune` what there is beside.
pub(crate) fn settings_after(
    declared: &Declaration,
    current: &Current,
    options: Options,
    config: &Config,
) -> Settings {
    let mut channels = declared.channels.clone();
    let mut groups = declared.subscription_groups.clone();
    let mut apps = declared.apps.clone();
    if !options.prune {
        let is = &current.channels;
        for (part, channel) in &is.channels {
            channels.entry(*part).or_insert_with(|| channel.clone());
        }
        let has_group = |id| declared.subscription_groups.iter().any(|new| new.id == id);
        groups.extend(is.groups.iter().filter(|is| !has_group(is.id)).cloned());
        let has_app = |app: &&DeclaredApp| !declared.apps.iter().any(|new| new.id == app.id);
        apps.extend(current.apps.iter().filter(has_app).cloned());
    }
    channels::assemble(&channels, declared.frequency_capping.clone(), groups, apps, config)
}

/// Rules as operators read them.
pub(crate) fn capping(rules: &[CappingRule]) -> String {
    let rule = |CappingRule { messages, days, channel }: &CappingRule| {
        let by = channel.map(|channel| format!(" by {}", channel.name())).unwrap_or_default();
        format!("{messages} in {days} days{by}")
    };
    super::or(rules.iter().map(rule).collect::<Vec<_>>().join(", "), "none")
}
