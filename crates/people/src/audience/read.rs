//! Reads an audience from JSON.

use serde::{Deserialize, Deserializer};

use super::condition::{
    ATTRIBUTE_COMPARISONS, Comparisons, LAST_USE_COMPARISONS, OperandKind, SUBSCRIPTION_COMPARISONS,
};
use super::{Audience, AudienceError, Condition};
use kit::json::{Tree, TreeObject};
use kit::words::beginning;

/// Maximum number of nodes from the root to a leaf, including both.
pub(super) const MAX_DEPTH: usize = 32;

/// Maximum number of conditions: each is checked for each user.
pub(super) const MAX_CONDITIONS: usize = 250;

/// Maximum number of regular expressions: each takes time and memory to compile.
pub(super) const MAX_PATTERNS: usize = 25;

pub(super) const MAX_NAME: usize = 255;

// The names of a node's field.
pub(super) const AND: &str = "AND";
pub(super) const OR: &str = "OR";
pub(super) const CUSTOM_ATTRIBUTE: &str = "custom_attribute";
pub(super) const PUSH_STATUS: &str = "push_subscription_status";
pub(super) const EMAIL_STATUS: &str = "email_subscription_status";
pub(super) const LAST_USED_APP: &str = "last_used_app";

const NODES: [&str; 6] = [AND, OR, CUSTOM_ATTRIBUTE, PUSH_STATUS, EMAIL_STATUS, LAST_USED_APP];

/// The name of the condition that is allowed only in segments.
pub(super) const SEGMENT_NODE: &str = "purchase_property";

/// The field of [`CUSTOM_ATTRIBUTE`] with the name of the attribute.
pub(super) const ATTRIBUTE_NAME: &str = "custom_attribute_name";

type Read<T> = Result<T, AudienceError>;

/// The audience of a request.
impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read_new(&Tree::deserialize(deserializer)?).map_err(|error| {
            let dot = if error.path.is_empty() { "" } else { "." };
            serde::de::Error::custom(format_args!("{dot}{error}"))
        })
    }
}

impl Audience {
    /// Parses a stored tree. Ignores unknown fields of a leaf: earlier versions accepted them in the
    /// workspace file. Null is absent.
    pub fn read(value: &Tree) -> Result<Self, AudienceError> {
        Reader::default().node(value, &JsonPath::Root, 1)
    }

    /// Parses a new tree. Rejects unknown fields, also null: the sender may have meant other users.
    pub fn read_new(value: &Tree) -> Result<Self, AudienceError> {
        Reader { is_new: true, ..Reader::default() }.node(value, &JsonPath::Root, 1)
    }

    /// [`read`](Self::read) for a segment of the workspace file, which may also have conditions on
    /// the latest purchase of each product.
    pub fn read_segment(value: &Tree) -> Result<Self, AudienceError> {
        Reader { is_segment: true, ..Reader::default() }.node(value, &JsonPath::Root, 1)
    }

    /// The same for a new segment.
    pub fn read_new_segment(value: &Tree) -> Result<Self, AudienceError> {
        let mut reader = Reader { is_segment: true, is_new: true, ..Reader::default() };
        reader.node(value, &JsonPath::Root, 1)
    }
}

/// The position of a value, written out only for an error.
enum JsonPath<'a> {
    Root,
    Member(&'a JsonPath<'a>, &'a str),
    Element(&'a JsonPath<'a>, usize),
}

impl JsonPath<'_> {
    fn text(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(Self::Root, name) => (*name).to_owned(),
            Self::Member(parent, name) => format!("{}.{name}", parent.text()),
            Self::Element(parent, index) => format!("{}[{index}]", parent.text()),
        }
    }

    fn error<T>(&self, text: impl Into<String>) -> Read<T> {
        Err(AudienceError { path: self.text(), text: text.into() })
    }
}

#[derive(Default)]
struct Reader {
    is_segment: bool,
    is_new: bool,
    conditions: usize,
    patterns: usize,
}

impl Reader {
    fn node(&mut self, value: &Tree, path: &JsonPath<'_>, depth: usize) -> Read<Audience> {
        if depth > MAX_DEPTH {
            return path.error(format!("an audience can nest at most {MAX_DEPTH} levels"));
        }
        let Some(object) = value.as_object() else {
            return path.error("expected an object with one condition");
        };
        let counts = |name: &str, value: &Tree| {
            !value.is_null() || (self.is_new && !self.node_names().any(|known| known == name))
        };
        let members: Vec<_> =
            object.iter().filter(|(name, value)| counts(name, value)).take(2).collect();
        let [(name, value)] = members[..] else {
            let names = self.list_of_nodes();
            return path.error(format!("a node must have exactly one field, one of {names}"));
        };
        let field_path = JsonPath::Member(path, name);
        match name {
            AND => self.nodes(value, &field_path, depth).map(Audience::And),
            OR => self.nodes(value, &field_path, depth).map(Audience::Or),
            _ => self.leaf(name, value, &field_path, path),
        }
    }

    fn nodes(&mut self, value: &Tree, path: &JsonPath<'_>, depth: usize) -> Read<Vec<Audience>> {
        let nodes = match value {
            Tree::Array(nodes) if !nodes.is_empty() => nodes,
            _ => return path.error("expected a non-empty array of conditions"),
        };
        let nodes = nodes.iter().enumerate();
        nodes
            .map(|(index, node)| self.node(node, &JsonPath::Element(path, index), depth + 1))
            .collect()
    }

    fn leaf(
        &mut self,
        name: &str,
        value: &Tree,
        path: &JsonPath<'_>,
        node_path: &JsonPath<'_>,
    ) -> Read<Audience> {
        let (comparisons, audience): (Comparisons, fn(Condition) -> Audience) = match name {
            CUSTOM_ATTRIBUTE => {
                let about = &[ATTRIBUTE_NAME];
                let (members, condition) = self.attribute_condition(value, path, about)?;
                let name = name_in(members, ATTRIBUTE_NAME, path)?;
                return Ok(Audience::CustomAttribute { name, condition });
            }
            SEGMENT_NODE if self.is_segment => {
                let about = &["property_name", "product_id"];
                let (members, condition) = self.attribute_condition(value, path, about)?;
                let name = name_in(members, "property_name", path)?;
                let has_product = members.get("product_id").is_some_and(|id| !id.is_null());
                let product_id =
                    has_product.then(|| name_in(members, "product_id", path)).transpose()?;
                return Ok(Audience::PurchaseProperty { product_id, name, condition });
            }
            PUSH_STATUS => (SUBSCRIPTION_COMPARISONS, Audience::PushSubscriptionStatus),
            EMAIL_STATUS => (SUBSCRIPTION_COMPARISONS, Audience::EmailSubscriptionStatus),
            LAST_USED_APP => (LAST_USE_COMPARISONS, Audience::LastUsedApp),
            _ => {
                let names = self.list_of_nodes();
                return node_path.error(format!("unknown condition; expected one of {names}"));
            }
        };
        read_condition(self.members(value, path, &[])?, comparisons, path).map(audience)
    }

    /// The condition on an attribute or a property, from the leaf's fields.
    fn attribute_condition<'a>(
        &mut self,
        value: &'a Tree,
        path: &JsonPath<'_>,
        about: &[&str],
    ) -> Read<(&'a TreeObject, Condition)> {
        let members = self.members(value, path, about)?;
        self.count_pattern(members, path)?;
        Ok((members, read_condition(members, ATTRIBUTE_COMPARISONS, path)?))
    }

    fn node_names(&self) -> impl Iterator<Item = &'static str> {
        NODES.into_iter().chain(self.is_segment.then_some(SEGMENT_NODE))
    }

    fn list_of_nodes(&self) -> String {
        self.node_names().collect::<Vec<_>>().join(", ")
    }

    fn count_pattern(&mut self, members: &TreeObject, path: &JsonPath<'_>) -> Read<()> {
        let comparison = members.get("comparison").and_then(Tree::as_text);
        self.patterns += usize::from(comparison.is_some_and(|name| name.ends_with("_regex")));
        if self.patterns > MAX_PATTERNS {
            let text = format!("an audience can have at most {MAX_PATTERNS} regular expressions");
            return path.error(text);
        }
        Ok(())
    }

    /// The fields of a leaf: the comparison, its value, and those with what it is `about`.
    fn members<'a>(
        &mut self,
        value: &'a Tree,
        path: &JsonPath<'_>,
        about: &[&str],
    ) -> Read<&'a TreeObject> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            return path.error(format!("an audience can have at most {MAX_CONDITIONS} conditions"));
        }
        let Some(members) = value.as_object() else { return path.error("expected an object") };
        let known = [about, &["comparison", "value"]].concat();
        match members.iter().find(|(name, _)| self.is_new && !known.contains(name)) {
            None => Ok(members),
            Some((name, _)) => JsonPath::Member(path, &beginning(name, MAX_NAME))
                .error(format!("unknown field; expected {}", known.join(", "))),
        }
    }
}

/// A field with the name of an attribute, a property or a product.
fn name_in(members: &TreeObject, member: &str, path: &JsonPath<'_>) -> Read<String> {
    let name = members.get(member).and_then(Tree::as_text);
    let name = name.filter(|name| (1..=MAX_NAME).contains(&name.chars().count()));
    name.map(str::to_owned).map_or_else(
        || {
            let expected = format!("expected a string of 1 to {MAX_NAME} characters");
            JsonPath::Member(path, member).error(expected)
        },
        Ok,
    )
}

fn read_condition(
    members: &TreeObject,
    comparisons: Comparisons,
    path: &JsonPath<'_>,
) -> Read<Condition> {
    let name = members.get("comparison").and_then(Tree::as_text);
    let found = comparisons.iter().find(|(comparison, _)| Some(comparison.name()) == name);
    let Some((comparison, kinds)) = found else {
        let names: Vec<&str> =
            comparisons.iter().map(|(comparison, _)| comparison.name()).collect();
        return JsonPath::Member(path, "comparison")
            .error(format!("expected one of {}", names.join(", ")));
    };
    let value = members.get("value").filter(|value| !value.is_null());
    let path = JsonPath::Member(path, "value");
    match kinds.iter().find_map(|kind| kind.read(value)) {
        Some(Ok(operand)) => Ok(Condition { comparison: *comparison, operand }),
        Some(Err(text)) => path.error(text),
        None => {
            let expected: Vec<String> = kinds.iter().copied().map(OperandKind::describe).collect();
            path.error(format!("{} takes {}", comparison.name(), expected.join(" or ")))
        }
    }
}
