//! Connected audiences: who is meant, as a tree of conditions (src/gateway/README.md, Connected
//! audiences).
//!
//! [`Audience::read`] takes a tree from JSON and says where it is wrong; written back, it reads
//! as it was given. A [`Matcher`] tells user by user who is meant. Types are never coerced: a
//! condition on text holds for text alone.

mod matcher;
#[cfg(test)]
mod matcher_tests;
mod number;
mod read;
mod schema;
mod test;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

pub use matcher::{Matcher, has_properties};
pub use test::{Comparison, Operand, Test};

use kit::retry::Retry;

/// Who is meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Audience {
    /// Those for whom all of these hold; there is at least one.
    And(Vec<Audience>),
    /// Those for whom any of these holds; there is at least one.
    Or(Vec<Audience>),
    CustomAttribute {
        name: String,
        test: Test,
    },
    PushSubscriptionStatus(Test),
    EmailSubscriptionStatus(Test),
    LastUsedApp(Test),
    /// In segments of the workspace file alone: what the latest purchase of a product, or of any
    /// product, was told with.
    PurchaseProperty {
        product_id: Option<String>,
        name: String,
        test: Test,
    },
}

/// What is wrong with an audience, and where.
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
