//! The running sends and the pending schedules that a change of a workspace touches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::lost::{Loss, Settled};
use crate::plan::Steps;
use content::campaigns::{Campaign, Kind};
use gateway::workspaces::Segment;
use gateway::workspaces::template_data::ContentBlock;
use kit::words::grouped;
use messages::dispatch::{self, RunningDispatch, included_blocks};
use sending::schedules::{self, ScheduleSummary, State};
use store::{StoreError, Tx};

/// Maximum number of ids in a line.
const SHOWN_IDS: usize = 5;

/// Number of sends, or of schedules, whose messages are read at a time.
const PAGE: usize = 200;

/// What a change touches.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// A line for each group of sends or schedules.
    pub lines: Vec<String>,
    /// Those of the lines that are about running sends of removed campaigns and Canvases, and about
    /// those that lose messages or a part of them.
    pub removals: Vec<String>,
}

/// How a campaign changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CampaignChange {
    Removed,
    /// `archived` or `paused`; it was active before.
    Inactive(&'static str),
    /// Its messages.
    Text,
}

/// The changes that matter to sends and schedules.
pub(crate) struct Changes<'c> {
    campaigns: BTreeMap<Uuid, (&'c Campaign, CampaignChange)>,
    /// The names of changed and removed content blocks, and whether they are removed.
    blocks: BTreeMap<&'c str, bool>,
    /// The names of removed segments.
    segments: BTreeMap<Uuid, &'c str>,
    /// If messages may lose something.
    settled: Option<&'c Settled>,
}

impl<'c> Changes<'c> {
    pub fn new(
        campaigns: &'c Steps<Campaign>,
        blocks: &'c Steps<ContentBlock>,
        segments: &'c Steps<Segment>,
        settled: &'c Settled,
    ) -> Self {
        let removed = campaigns.to_delete.iter();
        let removed = removed.map(|old| (old.id, (old, CampaignChange::Removed)));
        let changed = campaigns.to_write.iter().filter_map(|(new, old)| {
            let old = old.as_ref()?;
            let change = match (old.inactive(), new.inactive()) {
                (None, Some(state)) => CampaignChange::Inactive(state),
                _ if has_other_text(old, new) => CampaignChange::Text,
                _ => return None,
            };
            Some((new.id, (new, change)))
        });
        let replaced = blocks.to_write.iter().filter(|(_, old)| old.is_some());
        let replaced = replaced.map(|(new, _)| (new.name.as_str(), false));
        let deleted = blocks.to_delete.iter().map(|old| (old.name.as_str(), true));
        let segments = segments.to_delete.iter().map(|old| (old.id, old.name.as_str()));
        Self {
            campaigns: removed.chain(changed).collect(),
            blocks: replaced.chain(deleted).collect(),
            segments: segments.collect(),
            settled: Some(settled).filter(|settled| settled.takes_anything()),
        }
    }

    fn is_empty(&self) -> bool {
        self.campaigns.is_empty()
            && self.blocks.is_empty()
            && self.segments.is_empty()
            && self.settled.is_none()
    }

    /// What the changes touch in a workspace. `declared` are its stored content blocks and
    /// campaigns, before the change.
    pub async fn touched(
        &self,
        tx: &mut Tx,
        workspace: i32,
        (blocks, campaigns): (&[ContentBlock], &[Campaign]),
    ) -> Result<Touched, StoreError> {
        let mut touched = Touched::default();
        if self.is_empty() {
            return Ok(touched);
        }
        let mut sends = Groups::default();
        let running = dispatch::running(tx, workspace).await?;
        for page in running.chunks(PAGE) {
            let ids: Vec<Uuid> = page.iter().map(|running| running.id).collect();
            let messages = match self.settled {
                Some(_) => dispatch::messages_of(tx, &ids).await?,
                None => HashMap::new(),
            };
            for running in page {
                let id = running.id.simple().to_string();
                let losses = messages.get(&running.id).map(|messages| self.losses(messages));
                let groups = self.group_send(running).into_iter();
                groups.chain(losses.into_iter().flatten()).for_each(|group| sends.add(group, &id));
            }
        }
        let mut waiting = Groups::default();
        let canvases = campaigns.iter().filter(|campaign| campaign.kind == Kind::Canvas);
        let of_canvases: HashMap<Uuid, BTreeSet<String>> = canvases
            .filter(|_| !self.blocks.is_empty())
            .filter_map(|canvas| {
                Some((canvas.id, included_blocks(canvas.messages()?.values(), blocks)))
            })
            .collect();
        let mut after = (i64::MIN, Uuid::nil());
        loop {
            let page = schedules::unfinished(tx, workspace, after, PAGE as i64).await?;
            let Some(last) = page.last() else { break };
            after = (last.schedule.time, last.schedule.id);
            let text = match self.settled {
                Some(_) => Some(""),
                None => Some("content_blocks").filter(|_| !self.blocks.is_empty()),
            };
            let ids: Vec<Uuid> = page.iter().map(|summary| summary.schedule.id).collect();
            let mut messages = match text {
                Some(text) => schedules::messages_with(tx, &ids, text).await?,
                None => HashMap::new(),
            };
            for ScheduleSummary { schedule, contents } in &page {
                // Of one that has begun, the dispatch is a running send.
                if schedule.state != State::Pending {
                    continue;
                }
                let id = schedule.id.to_string();
                let is_canvas = schedule.canvas_id.is_some();
                let campaign = contents.campaign_id.and_then(|id| self.campaigns.get(&id));
                if let Some(group) = campaign.and_then(|change| schedule_of(*change, is_canvas)) {
                    waiting.add(group, &id);
                }
                if let Some(name) = contents.segment_id.and_then(|id| self.segments.get(&id)) {
                    waiting.add(
                        Group::of("for segment", name, "will fail, because it is removed"),
                        &id,
                    );
                }
                if let Some(messages) = messages.remove(&schedule.id) {
                    let used = included_blocks([&messages], blocks);
                    self.block_groups(&used).for_each(|group| waiting.add(group, &id));
                    let losses = messages.as_object().map(|messages| self.losses(messages));
                    losses.into_iter().flatten().for_each(|group| waiting.add(group, &id));
                }
                if let Some(used) = schedule.canvas_id.and_then(|id| of_canvases.get(&id)) {
                    self.block_groups(used).for_each(|group| waiting.add(group, &id));
                }
            }
        }
        for (group, ids) in sends.0 {
            let line = group.line(&ids, "running sends");
            if group.is_removal {
                touched.removals.push(line.clone());
            }
            touched.lines.push(line);
        }
        let waiting = waiting.0.into_iter();
        touched.lines.extend(waiting.map(|(group, ids)| group.line(&ids, "pending schedules")));
        Ok(touched)
    }

    /// How a running send is touched.
    fn group_send(&self, running: &RunningDispatch) -> Vec<Group> {
        let mut groups = Vec::new();
        let campaign = running.campaign_id.and_then(|id| self.campaigns.get(&id));
        if let Some((campaign, change)) = campaign {
            let keeps = "continue with the text that they began with";
            let (outcome, is_removal) = match change {
                CampaignChange::Removed if running.kept.is_none() => {
                    ("will fail, because an earlier version began them", true)
                }
                CampaignChange::Removed => (keeps, true),
                CampaignChange::Inactive(_) => {
                    ("continue until you run `longshore dispatches cancel`", false)
                }
                CampaignChange::Text => (keeps, false),
            };
            let group = Group::of(of_kind(campaign.kind), &campaign.name, outcome);
            groups.push(Group { is_removal, ..group });
        }
        let kept = running.kept.iter().flat_map(|kept| kept.blocks.keys());
        for name in kept.filter(|name| self.blocks.contains_key(name.as_str())) {
            let outcome = "continue with the text that they began with";
            groups.push(Group::of("with content block", name, outcome));
        }
        groups
    }

    /// What messages lose.
    fn losses(&self, messages: &Map<String, Value>) -> Vec<Group> {
        let losses = self.settled.map(|settled| settled.losses(messages)).unwrap_or_default();
        let group = |Loss { label, outcome }| Group { label, outcome, is_removal: true };
        losses.into_iter().map(group).collect()
    }

    /// How the messages of a schedule that include these content blocks are touched.
    fn block_groups(&self, used: &BTreeSet<String>) -> impl Iterator<Item = Group> {
        let changed = self.blocks.iter().filter(|(name, _)| used.contains(**name));
        changed.map(|(name, is_removed)| {
            let outcome = if *is_removed {
                "will fail, because it is removed"
            } else {
                "will have the new text"
            };
            Group::of("with content block", name, outcome)
        })
    }
}

/// How a pending schedule is touched by the change of its campaign or Canvas.
fn schedule_of((campaign, change): (&Campaign, CampaignChange), is_canvas: bool) -> Option<Group> {
    let outcome = match change {
        CampaignChange::Removed if is_canvas => "are cancelled".to_owned(),
        CampaignChange::Removed => "will be missed, because it is removed".to_owned(),
        CampaignChange::Inactive(state) => format!("will be missed while it is {state}"),
        CampaignChange::Text if is_canvas => "will have the new text".to_owned(),
        // It has the messages of its request.
        CampaignChange::Text => return None,
    };
    Some(Group::of(of_kind(campaign.kind), &campaign.name, &outcome))
}

fn of_kind(kind: Kind) -> &'static str {
    if kind == Kind::Canvas { "of Canvas" } else { "of campaign" }
}

/// Whether a campaign has other messages than before.
fn has_other_text(old: &Campaign, new: &Campaign) -> bool {
    let email = |campaign: &Campaign| match campaign.kind {
        Kind::Transactional => campaign.content.get("email").cloned(),
        Kind::Api | Kind::Triggered | Kind::Canvas => None,
    };
    old.messages() != new.messages() || email(old) != email(new) || old.name != new.name
}

/// Sends or schedules that a change touches in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// Such as `of campaign Welcome`.
    label: String,
    /// What happens to them.
    outcome: String,
    is_removal: bool,
}

impl Group {
    fn of(what: &str, name: &str, outcome: &str) -> Self {
        let label = format!("{what} {name}");
        Self { label, outcome: outcome.to_owned(), is_removal: false }
    }

    fn line(&self, ids: &Ids, what: &str) -> String {
        let mut shown = ids.first.join(", ");
        match ids.count - ids.first.len() {
            0 => {}
            1 => shown += " and 1 other",
            others => shown += &format!(" and {} others", grouped(others as u64)),
        }
        let (label, outcome, count) = (&self.label, &self.outcome, grouped(ids.count as u64));
        format!("{what} {label} ({count}) {outcome}: {shown}")
    }
}

/// Ids of one group.
#[derive(Debug, Default)]
struct Ids {
    count: usize,
    first: Vec<String>,
}

#[derive(Debug, Default)]
struct Groups(BTreeMap<Group, Ids>);

impl Groups {
    fn add(&mut self, group: Group, id: &str) {
        let ids = self.0.entry(group).or_default();
        ids.count += 1;
        if ids.first.len() < SHOWN_IDS {
            ids.first.push(id.to_owned());
        }
    }
}
