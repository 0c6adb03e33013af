//! Writes an audience as JSON, unchanged.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

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
            Self::And(all) => json!({ "AND": nodes(all) }),
            Self::Or(any) => json!({ "OR": nodes(any) }),
            Self::CustomAttribute { name, condition } => {
                let mut leaf = condition.to_json();
                leaf["custom_attribute_name"] = name.as_str().into();
                json!({ "custom_attribute": leaf })
            }
            Self::PushSubscriptionStatus(condition) => {
                json!({ "push_subscription_status": condition.to_json() })
            }
            Self::EmailSubscriptionStatus(condition) => {
                json!({ "email_subscription_status": condition.to_json() })
            }
            Self::LastUsedApp(condition) => json!({ "last_used_app": condition.to_json() }),
            Self::PurchaseProperty { product_id, name, condition } => {
                let mut leaf = condition.to_json();
                leaf["property_name"] = name.as_str().into();
                if let Some(id) = product_id {
                    leaf["product_id"] = id.as_str().into();
                }
                json!({ "purchase_property": leaf })
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
