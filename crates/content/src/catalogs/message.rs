//! The message from the gateway to the workers: the items of one request that belong to one
//! partition, checked and with coerced values, so that a worker only merges them.
//!
//! A message is an [`Edit`] as compact JSON:
//!
//! ```json
//! {"v":1,"workspace":7,"catalog":3,"name":"restaurants","received_at":1624899763032,
//!  "items":[{"id":"restaurant1","values":{"City":"Oslo","Rating":4.5,"Closed_at":null}}]}
//! ```
//!
//! A null removes a value; absent fields do not change. `catalog` is the catalog's number in the
//! store. A catalog that is deleted and declared again gets another number. A gateway may still use
//! the former number then, so the worker finds the catalog by its name.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use kit::json::JsonFields;
use log::{PayloadError, payload};
use runtime::topics;

/// The newest version that this program writes and reads. An edit has the oldest version that can
/// express it, so that earlier programs can apply it if possible.
pub const VERSION: u32 = 2;

/// The name of the field with the items in a payload.
pub const ITEMS: &str = "items";

/// The items of one request that belong to one partition.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Edit<'a> {
    /// 2 if the edit has an `action`, else 1.
    pub v: u32,
    /// The workspace's id in the store.
    pub workspace: i32,
    /// The catalog's id in the store. A catalog that is deleted and declared again has another one.
    pub catalog: i32,
    /// Name of the catalog; absent in messages of earlier versions.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// When the gateway accepted the request, in milliseconds since the epoch.
    pub received_at: i64,
    /// If absent, `update`. Other actions require version 2.
    #[serde(default, skip_serializing_if = "Action::is_update")]
    pub action: Action,
    /// The items, in the order of the request.
    #[serde(borrow)]
    pub items: Vec<Item<'a>>,
}

/// The action of an edit on its items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Changes the given fields of an item that exists.
    #[default]
    Update,
    /// Adds an item that does not exist.
    Create,
    /// Replaces all fields of an item, or adds it.
    Replace,
    /// Deletes an item that exists.
    Delete,
}

impl Action {
    fn is_update(&self) -> bool {
        *self == Self::Update
    }

    /// The oldest version of an edit that can have this action.
    pub fn version(self) -> u32 {
        if self.is_update() { 1 } else { 2 }
    }
}

/// The changes of one item.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Item<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// Fields and their values, coerced to the fields' types; null removes a value.
    #[serde(borrow)]
    pub values: Values<'a>,
}

/// Fields and their values as JSON, in order, without duplicates.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(with = "Map<String, Value>", inline)]
pub struct Values<'a>(pub Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Values<'a> {
    /// Merges the values of another: null removes, anything else replaces or adds. Returns whether
    /// anything changed.
    pub fn merge(&mut self, newer: &Values<'a>) -> bool {
        let mut changed = false;
        for (name, value) in &newer.0 {
            let stored = self.0.iter_mut().enumerate().find(|(_, (other, _))| other == name);
            match (stored, value.get()) {
                (None, "null") => continue,
                (Some((index, _)), "null") => _ = self.0.remove(index),
                (Some((_, (_, former))), json) if former.get() == json => continue,
                (Some((_, (_, former))), _) => *former = value.clone(),
                (None, _) => self.0.push((name.clone(), value.clone())),
            }
            changed = true;
        }
        changed
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, &**value)?;
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Values<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let JsonFields(members) = JsonFields::deserialize(deserializer)?;
        Ok(Self(members.into_iter().map(|(name, value)| (name, Cow::Borrowed(value))).collect()))
    }
}

impl<'a> Edit<'a> {
    /// Reads a payload; borrows strings without escapes from it.
    pub fn decode(payload: &'a [u8]) -> Result<Self, PayloadError> {
        payload::read(topics::CATALOGS, VERSION, payload, |edit: &Self| Some(edit.v))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn encoded_edits_are_decoded() {
        let text = r#"{"v":1,"workspace":7,"catalog":3,"received_at":5,"items":[{"id":"a","values":{"A \"b\"":1.10,"c":null}}]}"#;
        let edit = Edit::decode(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&edit).unwrap(), text);
    }

    fn any_update() -> impl Strategy<Value = Value> {
        let value = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
            Just(json!({"deep": [1, null]})),
        ];
        prop::collection::hash_map("[a-e]", value, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn partial_updates_match_a_plain_map(
            updates in prop::collection::vec(any_update(), 0..8),
        ) {
            let texts: Vec<String> = updates.iter().map(Value::to_string).collect();
            let (mut values, mut model) = (Values::default(), BTreeMap::new());
            for (update, text) in updates.iter().zip(&texts) {
                let before = model.clone();
                for (name, value) in update.as_object().unwrap() {
                    match value {
                        Value::Null => _ = model.remove(name),
                        value => _ = model.insert(name.clone(), value.clone()),
                    }
                }
                let newer: Values<'_> = serde_json::from_str(text).unwrap();
                prop_assert_eq!(values.merge(&newer), before != model);
            }
            let stored = serde_json::to_string(&values).unwrap();
            prop_assert_eq!(serde_json::from_str::<BTreeMap<String, Value>>(&stored).unwrap(), model);
        }
    }
}
