//! What a dispatch keeps of the workspace file from its beginning: the name of its campaign, and
//! the content blocks of its messages. Its messages are in its order. Catalogs, connected content
//! and the settings of channels are those of the time at which a message is sent.
//!
//! A content block is stored once, by its hash, however many dispatches begin with it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::kept_rows;
use crate::order::Order;
use content::campaigns;
use gateway::workspaces::template_data::{self, ContentBlock};
use gateway::workspaces::template_rows;
use kit::derived_ids;
use store::documents::parsed;
use store::{StoreError, Tx};
use template::block_names;

/// What a dispatch keeps, stored as JSON. None if an earlier version began the dispatch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The name of its campaign or Canvas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The hashes of the content blocks that its messages include, by the blocks' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks: BTreeMap<String, Uuid>,
}

impl Kept {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and ids are JSON")
    }

    /// The value in a dispatch's row.
    pub fn from_row(dispatch: Uuid, text: &str) -> Result<Self, StoreError> {
        parsed("dispatches.kept", dispatch, text)
    }

    /// What the order of a dispatch that begins now keeps. Stores the content blocks.
    pub(super) async fn begin(tx: &mut Tx, order: &Order) -> Result<Self, StoreError> {
        Ok(Self::begin_all(tx, std::slice::from_ref(order)).await?.remove(0))
    }

    /// The same for several orders.
    pub(super) async fn begin_all(tx: &mut Tx, orders: &[Order]) -> Result<Vec<Self>, StoreError> {
        let names = campaign_names(tx, orders).await?;
        let mut declared: HashMap<i32, BTreeMap<String, String>> = HashMap::new();
        // Sorted, so that two transactions store them in the same order.
        let mut used: BTreeMap<(i32, Uuid), String> = BTreeMap::new();
        let mut all = Vec::with_capacity(orders.len());
        for order in orders {
            let workspace = order.workspace_id;
            let campaign = order.campaign_id.and_then(|id| names.get(&(workspace, id)).cloned());
            let mut kept = Self { campaign, blocks: BTreeMap::new() };
            if has_blocks(&order.messages) {
                let declared = match declared.entry(workspace) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => {
                        let blocks = template_rows::blocks(tx, workspace).await?;
                        entry.insert(template_data::by_name(blocks))
                    }
                };
                for (name, body) in included(order.messages.values(), declared) {
                    let hash = hash(body);
                    used.entry((workspace, hash)).or_insert_with(|| body.to_owned());
                    kept.blocks.insert(name.to_owned(), hash);
                }
            }
            all.push(kept);
        }
        kept_rows::store(tx, used).await?;
        Ok(all)
    }

    /// The content blocks of the dispatch, by their names; none if those that are declared now are
    /// the same.
    pub(super) async fn changed_blocks(
        &self,
        tx: &mut Tx,
        workspace: i32,
        declared: &BTreeMap<String, String>,
    ) -> Result<Option<BTreeMap<String, String>>, StoreError> {
        let declared_body =
            |name: &str, kept: Uuid| declared.get(name).filter(|body| hash(body) == kept);
        let changed: BTreeSet<Uuid> = self
            .blocks
            .iter()
            .filter(|(name, hash)| declared_body(name, **hash).is_none())
            .map(|(_, hash)| *hash)
            .collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let changed: Vec<Uuid> = changed.into_iter().collect();
        let stored = kept_rows::bodies(tx, workspace, &changed).await?;
        let body = |(name, hash): (&String, &Uuid)| {
            let body = declared_body(name, *hash).or_else(|| stored.get(hash)).cloned();
            body.map(|body| (name.clone(), body)).ok_or_else(|| {
                StoreError::Corrupt(format!("dispatch_blocks has no block {hash} of {name}"))
            })
        };
        self.blocks.iter().map(body).collect::<Result<_, _>>().map(Some)
    }
}

/// The names of the campaigns and Canvases of orders.
async fn campaign_names(
    tx: &mut Tx,
    orders: &[Order],
) -> Result<HashMap<(i32, Uuid), String>, StoreError> {
    let mut ids: BTreeMap<i32, BTreeSet<Uuid>> = BTreeMap::new();
    for order in orders {
        ids.entry(order.workspace_id).or_default().extend(order.campaign_id);
    }
    let mut names = HashMap::new();
    for (workspace, ids) in ids.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let found = campaigns::names_of(tx, workspace, &ids).await?;
        names.extend(found.into_iter().map(|(id, name)| ((workspace, id), name)));
    }
    Ok(names)
}

fn hash(body: &str) -> Uuid {
    derived_ids::v8(&[body.as_bytes()])
}

/// Whether messages may include content blocks.
fn has_blocks(messages: &serde_json::Map<String, Value>) -> bool {
    let mut texts = Vec::new();
    messages.values().for_each(|message| collect_texts(message, &mut texts));
    texts.iter().any(|text| block_names(text).next().is_some())
}

/// The names of the content blocks that message objects include, also through other blocks.
pub fn included_blocks<'m>(
    messages: impl IntoIterator<Item = &'m Value>,
    declared: &[ContentBlock],
) -> BTreeSet<String> {
    let declared = template_data::by_name(declared.iter().cloned());
    included(messages, &declared).into_keys().map(str::to_owned).collect()
}

/// The content blocks that message objects include, also through other blocks, by their names.
fn included<'m, 'b>(
    messages: impl IntoIterator<Item = &'m Value>,
    declared: &'b BTreeMap<String, String>,
) -> BTreeMap<&'b str, &'b str> {
    let mut included = BTreeMap::new();
    let mut texts = Vec::new();
    messages.into_iter().for_each(|message| collect_texts(message, &mut texts));
    let mut unread: Vec<&str> = texts.into_iter().flat_map(block_names).collect();
    while let Some(name) = unread.pop() {
        let Some((name, body)) = declared.get_key_value(name) else { continue };
        if included.insert(name.as_str(), body.as_str()).is_none() {
            unread.extend(block_names(body));
        }
    }
    included
}

/// The strings in a value.
fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| collect_texts(value, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_included_through_others() {
        let block =
            |(name, body): (&str, &str)| ContentBlock { name: name.into(), body: body.into() };
        let declared = [
            ("outer", "a {{content_blocks.${inner}}}"),
            ("inner", "{{ content_blocks . ${ loop } | id: 'x' }}"),
            ("loop", "{{content_blocks.${inner}}}"),
            ("other", "x"),
        ]
        .map(block);
        let messages = json!({ "email": { "headers": ["{{content_blocks.${outer}}}"] }, "sms": 1 });
        let names = included_blocks([&messages], &declared);
        assert_eq!(names, ["inner", "loop", "outer"].map(str::to_owned).into());
        let without = json!({ "email": { "content_blocks.${other}": "content_blocks.${}" } });
        assert!(included_blocks([&without], &declared).is_empty());
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let kept = Kept {
            campaign: Some("Welcome".into()),
            blocks: [("footer".to_owned(), hash("x"))].into(),
        };
        assert_eq!(Kept::from_row(Uuid::nil(), &kept.to_json()).unwrap(), kept);
        assert_eq!(Kept::from_row(Uuid::nil(), "{}").unwrap(), Kept::default());
    }
}
