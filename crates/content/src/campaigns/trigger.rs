//! What starts a triggered campaign.

use super::{DURATION, window};
use kit::json::{Tree, TreeObject};

const MAX_NAME: usize = 255;

/// Default of the maximum age of a purchase: three days. Purchases sent in a batch at night or
/// after a weekend start campaigns; an import of older ones does not.
const MAX_AGE_MS: i64 = 3 * 24 * 60 * 60 * 1_000;

/// A recent purchase of this product, with all of these properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub product_id: String,
    /// Properties by name: strings, numbers and booleans.
    pub properties: TreeObject,
    /// Maximum age of the purchase when it is received, in milliseconds.
    pub max_age_ms: i64,
}

/// An error, and its position.
#[derive(Debug, PartialEq, Eq)]
pub struct TriggerError {
    /// Such as `purchase.product_id`; empty at the root.
    pub path: String,
    pub text: &'static str,
}

impl Trigger {
    /// Reads `trigger` of a campaign.
    pub fn read(trigger: &TreeObject) -> Result<Self, TriggerError> {
        let wrong = |path: &str, text| TriggerError { path: path.into(), text };
        let purchase = trigger.get("purchase").and_then(Tree::as_object);
        let is_known = |name: &str| matches!(name, "purchase" | "max_age");
        let purchase = purchase.filter(|_| trigger.iter().all(|(name, _)| is_known(name)));
        let purchase = purchase.ok_or_else(|| {
            wrong("", "expected an object with purchase and, optionally, max_age")
        })?;
        let max_age_ms = match trigger.get("max_age") {
            None | Some(Tree::Null) => MAX_AGE_MS,
            Some(age) => {
                let age = age.as_text().and_then(window);
                age.filter(|age| *age > 0).ok_or_else(|| wrong("max_age", DURATION))?
            }
        };
        let is_known = |name: &str| matches!(name, "product_id" | "properties");
        if !purchase.iter().all(|(name, _)| is_known(name)) {
            return Err(wrong("purchase", "expected only the fields product_id and properties"));
        }
        let product_id =
            purchase.get("product_id").and_then(Tree::as_text).filter(|id| is_name(id));
        let product_id = product_id.ok_or_else(|| {
            wrong("purchase.product_id", "expected a string of 1 to 255 characters")
        })?;
        let properties = match purchase.get("properties") {
            None | Some(Tree::Null) => TreeObject::default(),
            Some(Tree::Object(properties)) => properties.clone(),
            Some(_) => return Err(wrong("purchase.properties", "expected an object")),
        };
        for (name, value) in properties.iter() {
            let path = || format!("purchase.properties.{name}");
            if !is_name(name) || name.starts_with('$') {
                let text =
                    "a property name must have 1 to 255 characters and must not begin with $";
                return Err(wrong(&path(), text));
            }
            if !matches!(value, Tree::Text(_) | Tree::Number(_) | Tree::Bool(_)) {
                return Err(wrong(&path(), "expected a string, a number, true or false"));
            }
        }
        Ok(Self { product_id: product_id.to_owned(), properties, max_age_ms })
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.chars().count())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(trigger: Value) -> Result<Trigger, TriggerError> {
        Trigger::read(&trigger.as_object().unwrap().into())
    }

    #[test]
    fn a_purchase_is_read() {
        let trigger = read(json!({ "purchase": { "product_id": "tea" } })).unwrap();
        assert_eq!((trigger.product_id.as_str(), trigger.properties.len()), ("tea", 0));
        let properties = json!({ "size": "XL", "count": 3, "gift": false });
        let trigger =
            read(json!({ "purchase": { "product_id": "tea", "properties": properties } }));
        assert_eq!(trigger.unwrap().properties, properties.as_object().unwrap().into());
    }

    #[test]
    fn max_age_is_three_days_by_default() {
        const DAY: i64 = 86_400_000;
        for (max_age, ms) in [
            (Value::Null, 3 * DAY),
            (json!("3d"), 3 * DAY),
            (json!("90d"), 90 * DAY),
            (json!("30m"), 30 * 60_000),
        ] {
            let trigger = json!({ "purchase": { "product_id": "tea" }, "max_age": max_age });
            assert_eq!(read(trigger).unwrap().max_age_ms, ms, "{max_age}");
        }
        assert_eq!(read(json!({ "purchase": { "product_id": "t" } })).unwrap().max_age_ms, 3 * DAY);
        for wrong in [json!(3), json!("3"), json!(""), json!("0d"), json!("-1d"), json!("3w")] {
            let trigger = json!({ "purchase": { "product_id": "tea" }, "max_age": wrong });
            assert_eq!(read(trigger).unwrap_err().path, "max_age", "{wrong}");
        }
    }

    #[test]
    fn errors_name_the_path_of_the_field() {
        for (trigger, path) in [
            (json!({}), ""),
            (json!({ "event": {} }), ""),
            (json!({ "purchase": { "product_id": "a" }, "event": {} }), ""),
            (json!({ "purchase": [] }), ""),
            (json!({ "purchase": {} }), "purchase.product_id"),
            (json!({ "purchase": { "product_id": 7 } }), "purchase.product_id"),
            (json!({ "purchase": { "product_id": "" } }), "purchase.product_id"),
            (json!({ "purchase": { "product_id": "a", "propertys": {} } }), "purchase"),
            (json!({ "purchase": { "product_id": "a", "properties": [] } }), "purchase.properties"),
            (
                json!({ "purchase": { "product_id": "a", "properties": { "b": [1] } } }),
                "purchase.properties.b",
            ),
            (
                json!({ "purchase": { "product_id": "a", "properties": { "$b": 1 } } }),
                "purchase.properties.$b",
            ),
        ] {
            assert_eq!(read(trigger.clone()).unwrap_err().path, path, "{trigger}");
        }
    }
}
