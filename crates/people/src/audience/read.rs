//! Reads an audience from JSON.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::test::{Comparisons, Kind, OF_ATTRIBUTES, OF_LAST_USES, OF_SUBSCRIPTIONS};
use super::{Audience, AudienceError, Test};

/// Maximum number of nodes from the root to a leaf, including both.
pub(super) const MAX_DEPTH: usize = 32;

/// Maximum number of conditions: each is checked for each user.
pub(super) const MAX_CONDITIONS: usize = 250;

/// Maximum number of regular expressions: each takes time and memory to compile.
pub(super) const MAX_PATTERNS: usize = 25;

pub(super) const MAX_NAME: usize = 255;

const NODES: &str =
    "AND, OR, custom_attribute, push_subscription_status, email_subscription_status, last_used_app";

/// The name of the condition that is allowed only in segments.
const OF_SEGMENTS: &str = "purchase_property";

type Read<T> = Result<T, AudienceError>;

impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(deserializer)?).map_err(|error| {
            let dot = if error.path.is_empty() { "" } else { "." };
            serde::de::Error::custom(format_args!("{dot}{error}"))
        })
    }
}

impl Audience {
    /// Parses a tree. Ignores unknown fields of a leaf, and treats null as absent.
    pub fn read(value: &Value) -> Result<Self, AudienceError> {
        Reader { is_segment: false, conditions: 0, patterns: 0 }.node(value, &JsonPath::Root, 1)
    }

    /// Parses the tree of a segment in the workspace file, which may also have conditions on the
    /// latest purchase of each product.
    pub fn read_segment(value: &Value) -> Result<Self, AudienceError> {
        Reader { is_segment: true, conditions: 0, patterns: 0 }.node(value, &JsonPath::Root, 1)
    }
}

/// The position of a value, written out only for an error.
enum JsonPath<'a> {
    Root,
    Member(&'a JsonPath<'a>, &'a str),
    Element(&'a JsonPath<'a>, usize),
}

impl JsonPath<'_> {
    fn path(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(Self::Root, name) => (*name).to_owned(),
            Self::Member(place, name) => format!("{}.{name}", place.path()),
            Self::Element(place, index) => format!("{}[{index}]", place.path()),
        }
    }

    fn wrong<T>(&self, text: impl Into<String>) -> Read<T> {
        Err(AudienceError { path: self.path(), text: text.into() })
    }
}

struct Reader {
    is_segment: bool,
    conditions: usize,
    patterns: usize,
}

impl Reader {
    fn node(&mut self, value: &Value, at: &JsonPath<'_>, depth: usize) -> Read<Audience> {
        if depth > MAX_DEPTH {
            return at.wrong(format!("an audience can nest at most {MAX_DEPTH} levels"));
        }
        let Some(object) = value.as_object() else {
            return at.wrong("expected an object with one condition");
        };
        let mut members = object.iter().filter(|(_, value)| !value.is_null());
        let (Some((name, value)), None) = (members.next(), members.next()) else {
            return at.wrong(format!(
                "a node must have exactly one field, one of {}",
                self.nodes_there_are()
            ));
        };
        let inside = JsonPath::Member(at, name);
        match name.as_str() {
            "AND" => self.nodes(value, &inside, depth).map(Audience::And),
            "OR" => self.nodes(value, &inside, depth).map(Audience::Or),
            _ => self.leaf(name, value, &inside, at),
        }
    }

    fn nodes(&mut self, value: &Value, at: &JsonPath<'_>, depth: usize) -> Read<Vec<Audience>> {
        let Some(nodes) = value.as_array().filter(|nodes| !nodes.is_empty()) else {
            return at.wrong("expected a non-empty array of conditions");
        };
        let nodes = nodes.iter().enumerate();
        nodes.map(|(i, node)| self.node(node, &JsonPath::Element(at, i), depth + 1)).collect()
    }

    fn leaf(
        &mut self,
        name: &str,
        value: &Value,
        at: &JsonPath<'_>,
        node: &JsonPath<'_>,
    ) -> Read<Audience> {
        let (comparisons, make): (Comparisons, fn(Test) -> Audience) = match name {
            "custom_attribute" => {
                let (members, test) = self.attribute_test(value, at)?;
                let name = name_in(members, "custom_attribute_name", at)?;
                return Ok(Audience::CustomAttribute { name, test });
            }
            OF_SEGMENTS if self.is_segment => {
                let (members, test) = self.attribute_test(value, at)?;
                let name = name_in(members, "property_name", at)?;
                let has_product = members.get("product_id").is_some_and(|id| !id.is_null());
                let product_id =
                    has_product.then(|| name_in(members, "product_id", at)).transpose()?;
                return Ok(Audience::PurchaseProperty { product_id, name, test });
            }
            "push_subscription_status" => (OF_SUBSCRIPTIONS, Audience::PushSubscriptionStatus),
            "email_subscription_status" => (OF_SUBSCRIPTIONS, Audience::EmailSubscriptionStatus),
            "last_used_app" => (OF_LAST_USES, Audience::LastUsedApp),
            _ => {
                let there_are = self.nodes_there_are();
                return node.wrong(format!("unknown condition; expected one of {there_are}"));
            }
        };
        read_test(self.members(value, at)?, comparisons, at).map(make)
    }

    /// The condition on an attribute or a property, from the leaf's fields.
    fn attribute_test<'a>(
        &mut self,
        value: &'a Value,
        at: &JsonPath<'_>,
    ) -> Read<(&'a Map<String, Value>, Test)> {
        let members = self.members(value, at)?;
        self.count_pattern(members, at)?;
        Ok((members, read_test(members, OF_ATTRIBUTES, at)?))
    }

    fn nodes_there_are(&self) -> String {
        let more = if self.is_segment { [", ", OF_SEGMENTS].concat() } else { String::new() };
        format!("{NODES}{more}")
    }

    fn count_pattern(&mut self, members: &Map<String, Value>, at: &JsonPath<'_>) -> Read<()> {
        let comparison = members.get("comparison").and_then(Value::as_str);
        self.patterns += usize::from(comparison.is_some_and(|name| name.ends_with("_regex")));
        match self.patterns > MAX_PATTERNS {
            true => {
                at.wrong(format!("an audience can have at most {MAX_PATTERNS} regular expressions"))
            }
            false => Ok(()),
        }
    }

    fn members<'a>(&mut self, value: &'a Value, at: &JsonPath<'_>) -> Read<&'a Map<String, Value>> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            return at.wrong(format!("an audience can have at most {MAX_CONDITIONS} conditions"));
        }
        value.as_object().map_or_else(|| at.wrong("expected an object"), Ok)
    }
}

/// A field with the name of an attribute, a property or a product.
fn name_in(members: &Map<String, Value>, member: &str, at: &JsonPath<'_>) -> Read<String> {
    let name = members.get(member).and_then(Value::as_str);
    let name = name.filter(|name| (1..=MAX_NAME).contains(&name.chars().count()));
    name.map(str::to_owned).map_or_else(
        || {
            let meant = format!("expected a string of 1 to {MAX_NAME} characters");
            JsonPath::Member(at, member).wrong(meant)
        },
        Ok,
    )
}

fn read_test(members: &Map<String, Value>, all: Comparisons, at: &JsonPath<'_>) -> Read<Test> {
    let name = members.get("comparison").and_then(Value::as_str);
    let found = all.iter().find(|(comparison, _)| Some(comparison.name()) == name);
    let Some((comparison, kinds)) = found else {
        let names: Vec<&str> = all.iter().map(|(comparison, _)| comparison.name()).collect();
        return JsonPath::Member(at, "comparison")
            .wrong(format!("expected one of {}", names.join(", ")));
    };
    let value = members.get("value").filter(|value| !value.is_null());
    let at = JsonPath::Member(at, "value");
    match kinds.iter().find_map(|kind| kind.read(value)) {
        Some(Ok(operand)) => Ok(Test { comparison: *comparison, operand }),
        Some(Err(text)) => at.wrong(text),
        None => {
            let meant: Vec<String> = kinds.iter().copied().map(Kind::in_words).collect();
            at.wrong(format!("{} takes {}", comparison.name(), meant.join(" or ")))
        }
    }
}
