//! Writes an audience as JSON: its fields by their names, and numbers with all of their digits.

use serde::{Serialize, Serializer};

use super::read::{
    AND, ATTRIBUTE_NAME, CUSTOM_ATTRIBUTE, EMAIL_STATUS, LAST_USED_APP, OR, PUSH_STATUS,
    SEGMENT_NODE,
};
use super::{Audience, Condition, Operand};
use kit::json::{ObjectText, Tree, TreeObject};

impl Serialize for Audience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl Audience {
    /// The tree as JSON: the same text for the same audience.
    pub fn to_json(&self) -> ObjectText {
        (&self.to_object()).into()
    }

    fn to_object(&self) -> TreeObject {
        let nodes =
            |nodes: &[Self]| nodes.iter().map(|node| Tree::Object(node.to_object())).collect();
        let (name, value) = match self {
            Self::And(all) => (AND, Tree::Array(nodes(all))),
            Self::Or(any) => (OR, Tree::Array(nodes(any))),
            Self::CustomAttribute { name, condition } => {
                (CUSTOM_ATTRIBUTE, condition.leaf([(ATTRIBUTE_NAME, Some(name))]))
            }
            Self::PushSubscriptionStatus(condition) => (PUSH_STATUS, condition.leaf([])),
            Self::EmailSubscriptionStatus(condition) => (EMAIL_STATUS, condition.leaf([])),
            Self::LastUsedApp(condition) => (LAST_USED_APP, condition.leaf([])),
            Self::PurchaseProperty { product_id, name, condition } => {
                let names = [("product_id", product_id.as_ref()), ("property_name", Some(name))];
                (SEGMENT_NODE, condition.leaf(names))
            }
        };
        TreeObject::new([(name.into(), value)])
    }
}

impl Condition {
    /// The condition between the names of what it is about: in the order of the alphabet.
    fn leaf<const N: usize>(&self, names: [(&str, Option<&String>); N]) -> Tree {
        let text = |text: &str| Tree::Text(text.into());
        let value = match &self.operand {
            Operand::None => None,
            Operand::Text(value) | Operand::Time(_, value) => Some(text(value)),
            Operand::Number(digits) => Some(Tree::Number(digits.clone())),
            Operand::Boolean(boolean) => Some(Tree::Bool(*boolean)),
            Operand::Days(days) => Some(Tree::Number(days.to_string().into())),
        };
        let comparison = ("comparison", text(self.comparison.name()));
        let names = names.into_iter().filter_map(|(field, name)| Some((field, text(name?))));
        let fields = [comparison].into_iter().chain(names).chain(value.map(|v| ("value", v)));
        Tree::Object(TreeObject::new(fields.map(|(name, value)| (name.into(), value))))
    }
}
