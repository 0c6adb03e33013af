//! Connected audiences as they are described: from the tables that they are read by.

use serde_json::{Value, json};

use super::read::{MAX_CONDITIONS, MAX_DEPTH, MAX_NAME};
use super::test::{
    Comparisons, Kind, MAX_PATTERN, OF_ATTRIBUTES, OF_LAST_USES, OF_SUBSCRIPTIONS, STATUSES,
};
use crate::gateway::openapi::shapes::{Time, saying, schema_of, shape};

shape! {
    /// A tree of conditions on users. A node is an object with one member.
    pub ConnectedAudience = |generator| {
        let nodes = json!({
            "type": "array", "minItems": 1,
            "items": generator.subschema_for::<ConnectedAudience>(),
        });
        let about = format!("All hold. A tree has at most {MAX_CONDITIONS} conditions in {MAX_DEPTH} levels.");
        let name = json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME });
        let members = [
            ("AND", saying(&about, nodes.clone())),
            ("OR", saying("One of them holds.", nodes)),
            ("custom_attribute", json!({
                "type": "object",
                "properties": { "custom_attribute_name": name },
                "required": ["custom_attribute_name"],
                "anyOf": tests(OF_ATTRIBUTES),
            })),
            ("push_subscription_status", json!({ "type": "object", "anyOf": tests(OF_SUBSCRIPTIONS) })),
            ("email_subscription_status", json!({ "type": "object", "anyOf": tests(OF_SUBSCRIPTIONS) })),
            ("last_used_app", json!({ "type": "object", "anyOf": tests(OF_LAST_USES) })),
        ];
        let node = |(name, member): (&str, Value)| json!({
            "type": "object", "properties": { name: member }, "required": [name],
            "additionalProperties": { "type": "null" },
        });
        json!({ "anyOf": members.map(node) })
    }
}

/// Each comparison with what it compares with.
fn tests(comparisons: Comparisons) -> Vec<Value> {
    let test = |(comparison, kinds): &(super::test::Comparison, &[Kind])| {
        let values: Vec<Value> = kinds.iter().map(|kind| value(*kind)).collect();
        let has_none = kinds.contains(&Kind::None);
        let required = if has_none { vec!["comparison"] } else { vec!["comparison", "value"] };
        json!({
            "properties": {
                "comparison": { "const": comparison.name() }, "value": { "anyOf": values },
            },
            "required": required,
        })
    };
    comparisons.iter().map(test).collect()
}

fn value(kind: Kind) -> Value {
    match kind {
        Kind::None => json!({ "type": "null" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Regex => json!({
            "type": "string", "maxLength": MAX_PATTERN, "format": "regex",
            "description": "A regular expression, without look-around and back-references.",
        }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Time => schema_of::<Time>(),
        Kind::Days => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Kind::Status => json!({ "enum": STATUSES }),
    }
}
