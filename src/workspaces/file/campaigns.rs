//! Campaigns and Canvases of the workspace file. What they send, to whom and when is kept as it
//! is written, and only its shape is checked.

use std::collections::HashSet;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::schema::{CampaignFile, CanvasFile, Text, Verbatim};
use super::super::values;
use super::Check;
use crate::campaigns::{Campaign, Kind};

impl Check<'_> {
    /// Campaigns, then Canvases: no two have the same id.
    pub(super) fn campaigns(
        &mut self,
        campaigns: &[CampaignFile],
        canvases: &[CanvasFile],
    ) -> Vec<Campaign> {
        let mut ids = HashSet::new();
        let mut declared = Vec::new();
        for (i, file) in campaigns.iter().enumerate() {
            declared.extend(self.campaign(&format!("campaigns[{i}]"), file, &mut ids));
        }
        for (i, file) in canvases.iter().enumerate() {
            declared.extend(self.canvas(&format!("canvases[{i}]"), file, &mut ids));
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
        self.check_variations(path, file);
        let sla_path = format!("{path}.sla_per_hour");
        let sla_per_hour = self.optional(&sla_path, file.sla_per_hour.as_ref(), values::count);
        let conversion_window = self.conversion_window(path, file.conversion_window.as_ref());
        let variations = Some(&file.variations).filter(|variations| !variations.is_empty());
        let content = content([
            ("variations", variations.map(|all| all.iter().cloned().map(Value::Object).collect())),
            ("messages", object(&file.messages)),
            ("email", object(&file.email)),
            ("sla_per_hour", sla_per_hour.map(Value::from)),
            ("trigger", object(&file.trigger)),
            ("audience", object(&file.audience)),
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
                ("messages", object(&file.messages)),
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

    fn check_variations(&mut self, path: &str, file: &CampaignFile) {
        let mut seen = HashSet::new();
        for (i, variation) in file.variations.iter().enumerate() {
            let id = variation.get("id").and_then(Value::as_str).unwrap_or_default();
            let path = format!("{path}.variations[{i}].id");
            match values::id(id) {
                Ok(id) => self.distinct(&path, &mut seen, id, &file.id),
                Err(error) => self.refuse(file.id.line(), &path, error),
            }
        }
    }

    fn conversion_window(&mut self, path: &str, text: Option<&Text>) -> Option<Value> {
        let path = format!("{path}.conversion_window");
        self.optional(&path, text, values::duration).map(Value::from)
    }
}

fn object(members: &Option<Verbatim>) -> Option<Value> {
    members.clone().map(Value::Object)
}

/// The members that are there.
fn content<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let members = members.into_iter();
    members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
