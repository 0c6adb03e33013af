//! How campaigns and Canvases use purchases: which purchases start a campaign, and how long after a
//! message purchases count as revenue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use uuid::Uuid;

use content::campaigns::{self, Campaign, Kind, Trigger};
use kit::json::ObjectText;
use kit::moment::Moment;
use store::{StoreError, Tx};

/// How long a process uses cached rules.
const CACHED_FOR: Duration = Duration::from_secs(5);

/// Maximum number of workspaces in the cache.
const MAX_CACHED: usize = 1_000;

/// A campaign that is started by purchases of its product.
#[derive(Debug, PartialEq)]
pub struct Triggered {
    pub campaign_id: Uuid,
    pub trigger: Trigger,
    pub messages: Map<String, Value>,
    /// The buyers that it applies to.
    pub audience: Option<ObjectText>,
}

/// The rules of a workspace's campaigns and Canvases for purchases.
#[derive(Debug, Default, PartialEq)]
pub struct CampaignRules {
    /// By product; only campaigns that are neither archived nor paused.
    pub triggered: HashMap<String, Vec<Triggered>>,
    /// How long after a message of each campaign or Canvas a purchase counts, in milliseconds. If
    /// none has a window, every purchase counts.
    pub windows: HashMap<Uuid, i64>,
}

impl CampaignRules {
    fn from_declared(declared: Vec<Campaign>) -> Self {
        let mut rules = Self::default();
        for campaign in declared {
            if let Some(window) = campaign.conversion_window() {
                rules.windows.insert(campaign.id, window);
            }
            let is_active = campaign.kind == Kind::Triggered && campaign.inactive().is_none();
            let (Some(trigger), Some(messages), true) =
                (campaign.trigger(), campaign.messages().cloned(), is_active)
            else {
                continue;
            };
            let audience = campaign.audience();
            let campaigns = rules.triggered.entry(trigger.product_id.clone()).or_default();
            let campaign_id = campaign.id;
            campaigns.push(Triggered { campaign_id, trigger, messages, audience });
        }
        rules
    }
}

/// This process's cache of the rules of workspaces, each for a few seconds.
#[derive(Debug, Default)]
pub struct KnownCampaignRules(Mutex<HashMap<i32, (Moment, Arc<CampaignRules>)>>);

impl KnownCampaignRules {
    /// The rules of a workspace, at most a few seconds old.
    pub async fn look_up(
        &self,
        tx: &mut Tx,
        workspace: i32,
    ) -> Result<Arc<CampaignRules>, StoreError> {
        if let Some(rules) = self.cached(workspace) {
            return Ok(rules);
        }
        let since = Moment::now();
        let rules = Arc::new(CampaignRules::from_declared(
            campaigns::triggered_by_purchases(tx, workspace).await?,
        ));
        let mut cache = self.0.lock();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(workspace, (since, rules.clone()));
        Ok(rules)
    }

    fn cached(&self, workspace: i32) -> Option<Arc<CampaignRules>> {
        let cache = self.0.lock();
        let (since, rules) = cache.get(&workspace)?;
        (since.elapsed() < CACHED_FOR).then(|| rules.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn campaign(kind: Kind, content: Value) -> Campaign {
        Campaign {
            id: Uuid::new_v4(),
            kind,
            name: "c".into(),
            tags: Vec::new(),
            archived: false,
            paused: false,
            content: serde_json::from_value(content).unwrap(),
        }
    }

    #[test]
    fn inactive_campaigns_start_nothing() {
        let content = json!({
            "messages": { "webhook": {} }, "trigger": { "purchase": { "product_id": "tea" } },
            "conversion_window": "1h",
        });
        let active = campaign(Kind::Triggered, content.clone());
        let (mut paused, mut archived) = (active.clone(), active.clone());
        (paused.paused, archived.archived) = (true, true);
        paused.id = Uuid::new_v4();
        let canvas = campaign(Kind::Canvas, json!({ "conversion_window": "2d" }));
        let ids = [active.id, paused.id, canvas.id];
        let rules = CampaignRules::from_declared(vec![
            active,
            paused,
            canvas,
            campaign(Kind::Api, json!({})),
        ]);
        assert_eq!(rules.triggered["tea"].len(), 1);
        assert_eq!(rules.triggered["tea"][0].campaign_id, ids[0]);
        assert!(ids.iter().all(|id| rules.windows.contains_key(id)) && rules.windows.len() == 3);
        assert_eq!(CampaignRules::from_declared(vec![archived]).triggered.len(), 0);
    }
}
