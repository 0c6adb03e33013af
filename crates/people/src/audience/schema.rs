//! The JSON schema of connected audiences. The comparisons, their operands and the limits are those
//! that [`read`](super::read) checks; the fields of a node are listed here again.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::Audience;
use super::condition::{
    ATTRIBUTE_COMPARISONS, Comparison, Comparisons, LAST_USE_COMPARISONS, MAX_PATTERN, OperandKind,
    STATUSES, SUBSCRIPTION_COMPARISONS,
};
use super::read::{
    AND, ATTRIBUTE_NAME, CUSTOM_ATTRIBUTE, EMAIL_STATUS, LAST_USED_APP, MAX_CONDITIONS, MAX_DEPTH,
    MAX_NAME, OR, PUSH_STATUS,
};
use gateway::formats::{Time, schema_of};

impl JsonSchema for Audience {
    fn schema_name() -> Cow<'static, str> {
        "ConnectedAudience".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut nodes = |about: &str| {
            let node = generator.subschema_for::<Self>();
            json!({ "type": "array", "minItems": 1, "items": node, "description": about })
        };
        let all = format!(
            "Every condition is true. A tree has at most {MAX_CONDITIONS} conditions in \
             {MAX_DEPTH} levels."
        );
        let name = json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME });
        let leaf = |comparisons| {
            let forms = conditions(comparisons, &json!({}));
            json!({ "type": "object", "anyOf": forms })
        };
        let name = json!({ ATTRIBUTE_NAME: name });
        let attribute = json!({
            "type": "object", "anyOf": conditions(ATTRIBUTE_COMPARISONS, &name),
            "properties": name, "required": [ATTRIBUTE_NAME],
        });
        let fields = [
            (AND, nodes(&all)),
            (OR, nodes("At least one condition is true.")),
            (CUSTOM_ATTRIBUTE, attribute),
            (PUSH_STATUS, leaf(SUBSCRIPTION_COMPARISONS)),
            (EMAIL_STATUS, leaf(SUBSCRIPTION_COMPARISONS)),
            (LAST_USED_APP, leaf(LAST_USE_COMPARISONS)),
        ];
        let names = fields.each_ref().map(|(name, _)| *name);
        let node = |(name, field): (&str, Value)| {
            let mut properties =
                Map::from_iter(names.map(|name| (name.to_owned(), json!({ "type": "null" }))));
            properties.insert(name.into(), field);
            json!({
                "properties": properties, "required": [name], "additionalProperties": false,
            })
        };
        json_schema!({
            "description": "A tree of conditions on users. A node is an object with one field.",
            "type": "object", "properties": {}, "anyOf": fields.map(node),
        })
    }
}

/// Each comparison with the schema of its operand, next to the fields with what it is `about`.
fn conditions(comparisons: Comparisons, about: &Value) -> Vec<Value> {
    let condition = |(comparison, kinds): &(Comparison, &[OperandKind])| {
        let value = match kinds {
            [kind] => value(*kind),
            _ => json!({ "anyOf": kinds.iter().map(|kind| value(*kind)).collect::<Vec<_>>() }),
        };
        let has_none = kinds.contains(&OperandKind::None);
        let required = if has_none { vec!["comparison"] } else { vec!["comparison", "value"] };
        let mut fields = about.clone();
        fields["comparison"] = json!({ "const": comparison.name() });
        fields["value"] = value;
        json!({ "properties": fields, "required": required, "additionalProperties": false })
    };
    comparisons.iter().map(condition).collect()
}

fn value(kind: OperandKind) -> Value {
    match kind {
        OperandKind::None => json!({ "type": "null" }),
        OperandKind::Text => json!({ "type": "string" }),
        OperandKind::Regex => json!({
            "type": "string", "maxLength": MAX_PATTERN, "format": "regex",
            "description": "A regular expression, without look-around or back-references.",
        }),
        OperandKind::Number => json!({ "type": "number" }),
        OperandKind::Boolean => json!({ "type": "boolean" }),
        OperandKind::Time => schema_of::<Time>(),
        OperandKind::Days => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        OperandKind::Status => json!({ "enum": STATUSES }),
    }
}
