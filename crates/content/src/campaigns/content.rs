//! The fields of a campaign without a column of their own, as the workspace file has them.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use kit::json::{ObjectText, Tree};

const TRIGGER: &str = "trigger";
const AUDIENCE: &str = "audience";

/// The fields by their names in the file, without absent ones. It derefs to all but the conditions,
/// whose numbers keep the digits of the file.
#[derive(Clone, Debug, Default)]
pub struct Content {
    others: Map<String, Value>,
    pub trigger: Option<ObjectText>,
    pub audience: Option<ObjectText>,
}

impl Content {
    /// `others` has neither a trigger nor an audience.
    pub fn new(
        others: Map<String, Value>,
        trigger: Option<ObjectText>,
        audience: Option<ObjectText>,
    ) -> Self {
        Self { others, trigger, audience }
    }

    fn conditions(&self) -> impl Iterator<Item = (&'static str, &ObjectText)> {
        let all = [(AUDIENCE, &self.audience), (TRIGGER, &self.trigger)];
        all.into_iter().filter_map(|(name, condition)| Some((name, condition.as_ref()?)))
    }

    /// The content as compact JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a campaign is JSON")
    }
}

impl Deref for Content {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.others
    }
}

impl DerefMut for Content {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.others
    }
}

/// Numbers are compared by value, and fields in any order: earlier versions stored both otherwise.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let tree = |condition: &Option<ObjectText>| condition.as_ref().map(Tree::from);
        let is_same = |a: &Option<ObjectText>, b: &Option<ObjectText>| match (tree(a), tree(b)) {
            (Some(a), Some(b)) => a.is_same(&b),
            (a, b) => a.is_none() && b.is_none(),
        };
        self.others == other.others
            && is_same(&self.trigger, &other.trigger)
            && is_same(&self.audience, &other.audience)
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        for (name, condition) in self.conditions() {
            fields.serialize_entry(name, condition)?;
        }
        for (name, value) in &self.others {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Content, A::Error> {
        let mut content = Content::default();
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                TRIGGER => content.trigger = fields.next_value()?,
                AUDIENCE => content.audience = fields.next_value()?,
                _ => {
                    content.others.insert(name, fields.next_value()?);
                }
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_keep_their_digits() {
        const STORED: &str = concat!(
            r#"{"audience":{"AND":[{"x":18446744073709551617}]},"#,
            r#""trigger":{"purchase":{"n":0.1000000000000000055}},"messages":{"webhook":{}}}"#
        );
        let content: Content = serde_json::from_str(STORED).unwrap();
        assert_eq!(content.to_json(), STORED);
        assert_eq!(content.keys().collect::<Vec<_>>(), ["messages"]);
        let other: Content = serde_json::from_str(&STORED.replace("617}", "616}")).unwrap();
        assert_ne!(content, other);
        let same = STORED.replace("18446744073709551617", "1.8446744073709551617E19");
        assert_eq!(content, serde_json::from_str(&same).unwrap());
        assert!(serde_json::from_str::<Content>(r#"{"audience":7}"#).is_err());
    }
}
