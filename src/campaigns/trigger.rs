//! What starts a triggered campaign.

use serde_json::{Map, Value};

const MAX_NAME: usize = 255;

/// A purchase of this product, with all of these properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub product_id: String,
    /// Texts, numbers and booleans, by their names.
    pub properties: Map<String, Value>,
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct TriggerError {
    /// Such as `purchase.product_id`; empty at the root.
    pub path: String,
    pub text: &'static str,
}

impl Trigger {
    /// Reads `trigger` of a campaign.
    pub fn read(trigger: &Map<String, Value>) -> Result<Self, TriggerError> {
        let wrong = |path: &str, text| TriggerError { path: path.into(), text };
        let purchase = trigger.get("purchase").and_then(Value::as_object);
        let purchase = purchase.filter(|_| trigger.len() == 1);
        let purchase = purchase.ok_or_else(|| wrong("", "expected one member, purchase"))?;
        let is_known = |name: &str| matches!(name, "product_id" | "properties");
        if !purchase.keys().all(|name| is_known(name)) {
            return Err(wrong("purchase", "expected product_id and properties, and nothing else"));
        }
        let product_id =
            purchase.get("product_id").and_then(Value::as_str).filter(|id| is_name(id));
        let product_id = product_id.ok_or_else(|| {
            wrong("purchase.product_id", "expected a string of 1 to 255 characters")
        })?;
        let properties = match purchase.get("properties") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(properties)) => properties.clone(),
            Some(_) => return Err(wrong("purchase.properties", "expected an object")),
        };
        for (name, value) in &properties {
            let path = || format!("purchase.properties.{name}");
            if !is_name(name) || name.starts_with('$') {
                let text =
                    "a property has a name of 1 to 255 characters that does not begin with $";
                return Err(wrong(&path(), text));
            }
            if !matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_)) {
                return Err(wrong(&path(), "expected a string, a number, true or false"));
            }
        }
        Ok(Self { product_id: product_id.to_owned(), properties })
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.chars().count())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(trigger: Value) -> Result<Trigger, TriggerError> {
        Trigger::read(trigger.as_object().unwrap())
    }

    #[test]
    fn a_purchase_is_read() {
        let trigger = read(json!({ "purchase": { "product_id": "tea" } })).unwrap();
        assert_eq!((trigger.product_id.as_str(), trigger.properties.len()), ("tea", 0));
        let properties = json!({ "size": "XL", "count": 3, "gift": false });
        let trigger =
            read(json!({ "purchase": { "product_id": "tea", "properties": properties } }));
        assert_eq!(Value::Object(trigger.unwrap().properties), properties);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
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
