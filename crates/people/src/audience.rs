//! Connected audiences: sets of users, as a tree of conditions (docs/reference/api/audiences.md).
//!
//! [`Audience::read`] parses a tree from JSON, or reports the position of an error; written back,
//! the tree is unchanged. A [`Matcher`] decides for each user. Types are never coerced: a condition
//! on text matches only text.

mod condition;
mod document;
mod matcher;
#[cfg(test)]
mod matcher_tests;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod warnings;
mod write;

use std::fmt;

pub use condition::{Comparison, Condition, Operand};
pub use matcher::{Matcher, has_properties};

use kit::retry::Retry;

/// A set of users.
#[derive(Clone, Debug, PartialEq)]
pub enum Audience {
    /// Users that match all conditions; there is at least one.
    And(Vec<Audience>),
    /// Users that match any condition; there is at least one.
    Or(Vec<Audience>),
    CustomAttribute {
        name: String,
        condition: Condition,
    },
    PushSubscriptionStatus(Condition),
    EmailSubscriptionStatus(Condition),
    LastUsedApp(Condition),
    /// Only in segments of the workspace file: a property of the latest purchase of a product, or
    /// of any product.
    PurchaseProperty {
        product_id: Option<String>,
        name: String,
        condition: Condition,
    },
}

/// An error in an audience, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AudienceError {
    /// Such as `AND[1].custom_attribute.value`; empty at the root.
    pub path: String,
    pub text: String,
}

impl Retry for AudienceError {}

impl fmt::Display for AudienceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}: {}", self.path, self.text)
        }
    }
}
