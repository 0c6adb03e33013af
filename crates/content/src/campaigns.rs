//! Campaigns and Canvases: declared by the workspace file, listed by the API.
//!
//! A Canvas is stored as another kind of campaign, so that their ids are unique together. A
//! campaign's messages, recipients and trigger are checked when the file is applied, and stored as
//! declared.

pub mod api;
mod content;
mod details;
pub mod rows;
mod trigger;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::app::App;
use gateway::workspaces::Channel;
use gateway::workspaces::settings::Settings;
use kit::clock::millis;
use kit::json::ObjectText;
use store::{StoreError, text_enum};

pub use content::Content;
pub use rows::{
    REMOVED, api_names, by_id, count, has_canvas, inactive, names, names_of, stored,
    triggered_by_purchases,
};
pub use trigger::{Trigger, TriggerError};

/// The campaigns that requests may use, by id.
pub type ApiCampaigns = HashMap<Uuid, ApiCampaign>;

/// A campaign that requests may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiCampaign {
    pub is_archived: bool,
    pub is_paused: bool,
    /// The ids of its variations, including those of its own messages; in lower case.
    pub variations: HashSet<String>,
}

/// The campaigns that requests may use, from the cache.
pub async fn api_campaigns(app: &App, workspace: i32) -> Result<Arc<ApiCampaigns>, StoreError> {
    let store = app.store.clone();
    let read = async move {
        let mut tx = store.snapshot().await?;
        let campaigns = rows::api_campaigns(&mut tx, workspace).await?;
        tx.commit().await?;
        Ok(campaigns)
    };
    app.api_campaigns.get(workspace, read).await
}

/// A campaign, or a Canvas, as the workspace file declares it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Campaign {
    /// The API identifier, unique in the workspace.
    pub id: Uuid,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub name: String,
    pub tags: Vec<String>,
    pub archived: bool,
    pub paused: bool,
    #[serde(flatten)]
    pub content: Content,
}

impl Campaign {
    /// The message objects by channel, if it has any.
    pub fn messages(&self) -> Option<&Map<String, Value>> {
        self.content.get("messages")?.as_object()
    }

    /// The allowed values of `message_variation_id`: the declared variations, and those of the
    /// declared messages.
    pub fn variations(&self) -> impl Iterator<Item = &str> {
        let declared = self.content.get("variations").and_then(Value::as_array);
        let declared = declared.into_iter().flatten().filter_map(|variation| variation.get("id"));
        let messages = self.messages().into_iter().flat_map(Map::values);
        let named = messages.filter_map(|message| message.get("message_variation_id"));
        declared.chain(named).filter_map(Value::as_str)
    }

    /// The email of a transactional campaign, as a messages object without an app. Uses the
    /// workspace's sender if it has none.
    pub fn email(&self, settings: &Settings) -> Option<Map<String, Value>> {
        let mut email = self.content.get("email")?.as_object()?.clone();
        let is_absent =
            |email: &Map<String, Value>, name| email.get(name).is_none_or(Value::is_null);
        let from = settings.email.as_ref().and_then(|email| email.from.as_deref());
        if let Some(from) = from.filter(|_| is_absent(&email, "from")) {
            email.insert("from".into(), from.into());
        }
        if is_absent(&email, "app_id") {
            email.insert("app_id".into(), Kind::Transactional.name().into());
        }
        Some(Map::from_iter([(Channel::Email.name().to_owned(), email.into())]))
    }

    /// `archived` or `paused` if the campaign sends nothing.
    pub fn inactive(&self) -> Option<&'static str> {
        inactive_state(self.archived, self.paused)
    }

    /// What starts a triggered campaign.
    pub fn trigger(&self) -> Option<Trigger> {
        Trigger::read(&self.content.trigger.as_ref()?.tree()).ok()
    }

    /// The audience of a triggered campaign, if it is limited.
    pub fn audience(&self) -> Option<ObjectText> {
        self.content.audience.clone()
    }

    /// How long after its message a purchase counts as a conversion, in milliseconds; none without
    /// `conversion_window`.
    pub fn conversion_window(&self) -> Option<i64> {
        window(self.content.get("conversion_window")?.as_str()?)
    }
}

fn inactive_state(is_archived: bool, is_paused: bool) -> Option<&'static str> {
    match (is_archived, is_paused) {
        (true, _) => Some("archived"),
        (false, true) => Some("paused"),
        (false, false) => None,
    }
}

/// The error of [`window`].
const DURATION: &str = "expected minutes, hours or days, such as 30m, 12h or 3d";

/// Parses a duration from the workspace file: `30m`, `12h`, `3d`.
fn window(text: &str) -> Option<i64> {
    let (unit, seconds) = [('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)]
        .into_iter()
        .find(|(unit, _)| text.ends_with(*unit))?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(millis(Duration::from_secs(number.saturating_mul(seconds))))
}

text_enum! {
    pub enum Kind {
        Api = "api",
        Transactional = "transactional",
        Triggered = "triggered",
        Canvas = "canvas",
    }
}

impl Kind {
    /// The types of campaigns in the file.
    pub const CAMPAIGNS: [Self; 3] = [Self::Api, Self::Transactional, Self::Triggered];

    /// The type of a campaign with that name; the error lists the names.
    pub fn from_campaign_type(name: &str) -> Result<Self, String> {
        Self::CAMPAIGNS
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("{name:?}: expected api, transactional or triggered"))
    }

    /// The name for people to read.
    pub fn label(self) -> &'static str {
        if self == Self::Canvas { "canvas" } else { "campaign" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_as_the_file_has_them() {
        for (text, ms) in [("30m", 1_800_000), ("12h", 43_200_000), ("3d", 259_200_000)] {
            assert_eq!(window(text), Some(ms), "{text}");
        }
        for text in ["", "3", "d", "3w", "-1d"] {
            assert_eq!(window(text), None, "{text}");
        }
    }
}
