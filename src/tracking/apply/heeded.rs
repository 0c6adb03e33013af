//! What campaigns and Canvases heed of purchases: those that start one, and for how long after a
//! message purchases count as revenue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::campaigns::{self, Campaign, Kind, Trigger};
use store::{StoreError, Tx};

/// How long a process goes on with declarations that were just changed, at most.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// Workspaces of which they are kept.
const KEPT: usize = 1_000;

/// A campaign that purchases of its product start.
#[derive(Debug, PartialEq)]
pub struct Triggered {
    pub campaign_id: Uuid,
    pub trigger: Trigger,
    pub messages: Map<String, Value>,
    /// Of the users who buy, those for whom it is.
    pub audience: Option<Value>,
}

/// What a workspace's campaigns and Canvases heed.
#[derive(Debug, Default, PartialEq)]
pub struct Heeded {
    /// By product, and neither archived nor paused.
    pub triggered: HashMap<String, Vec<Triggered>>,
    /// How long after a message of theirs a purchase counts, in milliseconds; where none has a
    /// window, every purchase does.
    pub windows: HashMap<Uuid, i64>,
}

impl Heeded {
    fn of(declared: Vec<Campaign>) -> Self {
        let mut heeded = Self::default();
        for campaign in declared {
            if let Some(window) = campaign.conversion_window() {
                heeded.windows.insert(campaign.id, window);
            }
            let is_on = campaign.kind == Kind::Triggered && !campaign.archived && !campaign.paused;
            let (Some(trigger), Some(messages), true) =
                (campaign.trigger(), campaign.messages().cloned(), is_on)
            else {
                continue;
            };
            let audience = campaign.audience().cloned();
            let campaigns = heeded.triggered.entry(trigger.product_id.clone()).or_default();
            let campaign_id = campaign.id;
            campaigns.push(Triggered { campaign_id, trigger, messages, audience });
        }
        heeded
    }
}

/// What this process knows of workspaces, each for a few seconds.
#[derive(Debug, Default)]
pub struct KnownHeeded(Mutex<HashMap<i32, (Instant, Arc<Heeded>)>>);

impl KnownHeeded {
    /// What a workspace heeds, as it was a few seconds ago at most.
    pub async fn of(&self, tx: &mut Tx, workspace: i32) -> Result<Arc<Heeded>, StoreError> {
        if let Some(known) = self.fresh(workspace) {
            return Ok(known);
        }
        let since = Instant::now();
        let heeded = Arc::new(Heeded::of(campaigns::heeding_purchases(tx, workspace).await?));
        let mut known = self.0.lock();
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(workspace, (since, heeded.clone()));
        Ok(heeded)
    }

    fn fresh(&self, workspace: i32) -> Option<Arc<Heeded>> {
        let known = self.0.lock();
        let (since, heeded) = known.get(&workspace)?;
        (since.elapsed() < KEPT_FOR).then(|| heeded.clone())
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
            content: content.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn campaigns_that_are_not_on_start_nothing() {
        let content = json!({
            "messages": { "webhook": {} }, "trigger": { "purchase": { "product_id": "tea" } },
            "conversion_window": "1h",
        });
        let on = campaign(Kind::Triggered, content.clone());
        let (mut paused, mut archived) = (on.clone(), on.clone());
        (paused.paused, archived.archived) = (true, true);
        paused.id = Uuid::new_v4();
        let canvas = campaign(Kind::Canvas, json!({ "conversion_window": "2d" }));
        let ids = [on.id, paused.id, canvas.id];
        let heeded = Heeded::of(vec![on, paused, canvas, campaign(Kind::Api, json!({}))]);
        assert_eq!(heeded.triggered["tea"].len(), 1);
        assert_eq!(heeded.triggered["tea"][0].campaign_id, ids[0]);
        assert!(ids.iter().all(|id| heeded.windows.contains_key(id)) && heeded.windows.len() == 3);
        assert_eq!(Heeded::of(vec![archived]).triggered.len(), 0);
    }
}
