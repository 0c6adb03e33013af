//! Writes an audience as JSON, unchanged.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::read::{
    AND, ATTRIBUTE_NAME, CUSTOM_ATTRIBUTE, EMAIL_STATUS, LAST_USED_APP, OR, PUSH_STATUS,
    SEGMENT_NODE,
};
use super::{Audience, Condition, Operand};

impl Serialize for Audience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl Audience {
    /// The tree as JSON.
    pub fn to_json(&self) -> Value {
        let nodes = |nodes: &[Self]| nodes.iter().map(Self::to_json).collect::<Value>();
        match self {
            Self::And(all) => json!({ AND: nodes(all) }),
            Self::Or(any) => json!({ OR: nodes(any) }),
            Self::CustomAttribute { name, condition } => {
                let mut leaf = condition.to_json();
                leaf[ATTRIBUTE_NAME] = name.as_str().into();
                json!({ CUSTOM_ATTRIBUTE: leaf })
            }
            Self::PushSubscriptionStatus(condition) => json!({ PUSH_STATUS: condition.to_json() }),
            Self::EmailSubscriptionStatus(condition) => {
                json!({ EMAIL_STATUS: condition.to_json() })
            }
            Self::LastUsedApp(condition) => json!({ LAST_USED_APP: condition.to_json() }),
            Self::PurchaseProperty { product_id, name, condition } => {
                let mut leaf = condition.to_json();
                leaf["property_name"] = name.as_str().into();
                if let Some(id) = product_id {
                    leaf["product_id"] = id.as_str().into();
                }
                json!({ SEGMENT_NODE: leaf })
            }
        }
    }
}

impl Condition {
    fn to_json(&self) -> Value {
        let value: Value = match &self.operand {
            Operand::None => return json!({ "comparison": self.comparison.name() }),
            Operand::Text(text) | Operand::Time(_, text) => text.as_str().into(),
            Operand::Number(number) => number.clone().into(),
            Operand::Boolean(boolean) => (*boolean).into(),
            Operand::Days(days) => (*days).into(),
        };
        json!({ "comparison": self.comparison.name(), "value": value })
    }
}
