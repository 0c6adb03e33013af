//! Campaigns and Canvases of the workspace file. What they send, to whom and when is checked and
//! kept as it is written; whether the workspace has the channels for it is looked at when it is
//! [applied](super::super::plan).

use std::collections::HashSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Check, Place};
use crate::audience::Audience;
use crate::campaigns::{Campaign, Kind, Trigger, TriggerError};
use crate::workspace_file::schema::{CampaignFile, CanvasFile, Text, Verbatim};
use crate::workspace_file::values;

impl Check<'_> {
    /// Campaigns, then Canvases: no two have the same id.
    pub(crate) fn campaigns(
        &mut self,
        campaigns: &[CampaignFile],
        canvases: &[CanvasFile],
    ) -> Vec<(Campaign, Place)> {
        let mut ids = HashSet::new();
        let mut declared = Vec::new();
        for (i, file) in campaigns.iter().enumerate() {
            let path = format!("campaigns[{i}]");
            let line = file.messages.as_ref().or(file.email.as_ref()).map(Verbatim::line);
            let campaign = self.campaign(&path, file, &mut ids);
            let place = Place { line: line.unwrap_or_else(|| file.id.line()), path };
            declared.extend(campaign.map(|campaign| (campaign, place)));
        }
        for (i, file) in canvases.iter().enumerate() {
            let path = format!("canvases[{i}]");
            let line = file.messages.as_ref().map(Verbatim::line);
            let canvas = self.canvas(&path, file, &mut ids);
            let place = Place { line: line.unwrap_or_else(|| file.id.line()), path };
            declared.extend(canvas.map(|canvas| (canvas, place)));
        }
        declared
    }

    fn campaign(
        &mut self,
        path: &str,
        file: &CampaignFile,
        ids: &mut HashSet<Uuid>,
    ) -> Option<Campaign> {
        let id = self.campaign_id(path, &file.id, ids);
        let name = self.value(&format!("{path}.name"), &file.name, values::name);
        let kind = self.value(&format!("{path}.type"), &file.kind, Kind::of_campaign);
        let tags = self.tags(&format!("{path}.tags"), &file.tags);
        if let Some(kind) = kind {
            self.check_type(path, kind, file);
        }
        self.check_variations(path, file);
        self.check_trigger(path, file);
        self.check_email(path, file);
        if let Some(audience) = &file.audience {
            let read = Audience::read(&audience.members().clone().into());
            self.audience(&format!("{path}.audience"), audience, read);
        }
        let sla_path = format!("{path}.sla_per_hour");
        let sla_per_hour = self.optional(&sla_path, file.sla_per_hour.as_ref(), values::count);
        let conversion_window = self.conversion_window(path, file.conversion_window.as_ref());
        let variations = Some(&file.variations).filter(|variations| !variations.is_empty());
        let content = content([
            ("variations", variations.map(|all| all.iter().map(value).collect())),
            ("messages", value_of(&file.messages)),
            ("email", value_of(&file.email)),
            ("sla_per_hour", sla_per_hour.map(Value::from)),
            ("trigger", value_of(&file.trigger)),
            ("audience", value_of(&file.audience)),
            ("conversion_window", conversion_window),
        ]);
        let (archived, paused) = (file.archived, file.paused);
        Some(Campaign { id: id?, kind: kind?, name: name?, tags, archived, paused, content })
    }

    fn canvas(
        &mut self,
        path: &str,
        file: &CanvasFile,
        ids: &mut HashSet<Uuid>,
    ) -> Option<Campaign> {
        let id = self.campaign_id(path, &file.id, ids);
        let name = self.value(&format!("{path}.name"), &file.name, values::name);
        let conversion_window = self.conversion_window(path, file.conversion_window.as_ref());
        Some(Campaign {
            id: id?,
            kind: Kind::Canvas,
            name: name?,
            tags: Vec::new(),
            archived: false,
            paused: false,
            content: content([
                ("messages", value_of(&file.messages)),
                ("conversion_window", conversion_window),
            ]),
        })
    }

    fn campaign_id(&mut self, path: &str, text: &Text, ids: &mut HashSet<Uuid>) -> Option<Uuid> {
        let path = format!("{path}.id");
        let id = self.value(&path, text, values::id)?;
        self.distinct(&path, ids, id, text);
        Some(id)
    }

    fn tags(&mut self, path: &str, texts: &[Text]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut tags = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let path = format!("{path}[{i}]");
            if let Some(tag) = self.value(&path, text, values::name) {
                self.distinct(&path, &mut seen, tag.clone(), text);
                tags.push(tag);
            }
        }
        tags
    }

    /// Members that the type must have, and those that it cannot have.
    fn check_type(&mut self, path: &str, kind: Kind, file: &CampaignFile) {
        let line = |member: &Option<Verbatim>| member.as_ref().map(Verbatim::line);
        let members = [
            ("messages", line(&file.messages), &[Kind::Api, Kind::Triggered][..]),
            (
                "variations",
                file.variations.first().map(Verbatim::line),
                &[Kind::Api, Kind::Triggered],
            ),
            ("email", line(&file.email), &[Kind::Transactional]),
            ("sla_per_hour", file.sla_per_hour.as_ref().map(Text::line), &[Kind::Transactional]),
            ("trigger", line(&file.trigger), &[Kind::Triggered]),
            ("audience", line(&file.audience), &[Kind::Triggered]),
        ];
        for (member, line, kinds) in members {
            if let Some(line) = line.filter(|_| !kinds.contains(&kind)) {
                let text = format!("a campaign of the type {} has no {member}", kind.name());
                self.refuse(line, &format!("{path}.{member}"), text);
            }
        }
        let needed: &[&str] = match kind {
            Kind::Transactional => &["email"],
            Kind::Triggered => &["messages", "trigger"],
            Kind::Api | Kind::Canvas => &[],
        };
        for (member, line, _) in members {
            if line.is_none() && needed.contains(&member) {
                let text = format!("a campaign of the type {} needs it", kind.name());
                self.refuse(file.kind.line(), &format!("{path}.{member}"), text);
            }
        }
    }

    fn check_variations(&mut self, path: &str, file: &CampaignFile) {
        let mut seen = HashSet::new();
        for (i, variation) in file.variations.iter().enumerate() {
            let id = variation.members().get("id").and_then(Value::as_str).unwrap_or_default();
            let path = format!("{path}.variations[{i}].id");
            match values::id(id) {
                Ok(id) if seen.insert(id) => {}
                Ok(_) => self.refuse(variation.line(), &path, "an earlier one has the same"),
                Err(error) => self.refuse(variation.line(), &path, error),
            }
        }
    }

    fn check_trigger(&mut self, path: &str, file: &CampaignFile) {
        let Some(trigger) = &file.trigger else { return };
        if let Err(TriggerError { path: inside, text }) = Trigger::read(trigger.members()) {
            let dot = if inside.is_empty() { "" } else { "." };
            self.refuse(trigger.line(), &format!("{path}.trigger{dot}{inside}"), text);
        }
    }

    /// What of it can be said without the rest: it has a body.
    fn check_email(&mut self, path: &str, file: &CampaignFile) {
        let Some(email) = &file.email else { return };
        let body = email.members().get("body").and_then(Value::as_str);
        if body.is_none_or(str::is_empty) {
            self.refuse(
                email.line(),
                &format!("{path}.email.body"),
                "it is missing: expected a text",
            );
        }
    }

    fn conversion_window(&mut self, path: &str, text: Option<&Text>) -> Option<Value> {
        let path = format!("{path}.conversion_window");
        self.optional(&path, text, values::duration).map(Value::from)
    }
}

fn value(members: &Verbatim) -> Value {
    Value::Object(members.members().clone())
}

fn value_of(members: &Option<Verbatim>) -> Option<Value> {
    members.as_ref().map(value)
}

/// The members that are there.
fn content<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let members = members.into_iter();
    members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
