//! Filters (RFC 7644 section 3.4.2.2): comparisons of attributes, joined by `and`, `or` and `not`,
//! with parentheses, and with brackets that select values of an attribute.

mod parse;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde_json::{Value, json};

use super::resource::folded;
use super::schema::{Attribute, Kind, Located, ResourceSchema, find};
use gateway::scim::{ScimError, ScimType};
use kit::clock::parse_time;

/// Maximum number of comparisons in one filter.
pub const MAX: usize = 20;

/// Maximum depth of nested parentheses and brackets.
pub const MAX_DEPTH: usize = 10;

/// A path of attributes, each a sub-attribute of the one before; empty for the value itself.
pub type Path = Vec<&'static Attribute>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of the filters must hold. If empty, the filter holds for everything.
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    /// Whether the attribute has a value.
    Present(Path),
    Compare(Comparison),
    /// Whether a value of the attribute matches, as in `emails[type eq "work"]`.
    Any(Path, Box<Self>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub path: Path,
    pub operator: Operator,
    pub value: Literal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    Text(String),
    Boolean(bool),
    /// The attribute has no value.
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equals,
    NotEquals,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The scope in which the attributes of a filter are looked up.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    Resource(&'static ResourceSchema),
    /// One value of an attribute.
    ValueOf(&'static Attribute),
}

impl Default for Filter {
    fn default() -> Self {
        Self::And(Vec::new())
    }
}

impl Operator {
    pub const ALL: [(&str, Self); 9] = [
        ("eq", Self::Equals),
        ("ne", Self::NotEquals),
        ("co", Self::Contains),
        ("sw", Self::StartsWith),
        ("ew", Self::EndsWith),
        ("gt", Self::Greater),
        ("ge", Self::GreaterOrEqual),
        ("lt", Self::Less),
        ("le", Self::LessOrEqual),
    ];

    fn parse(word: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        found.map(|(_, operator)| operator)
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, operator)| *operator == self);
        found.map_or("", |(name, _)| name)
    }

    fn holds_in_order(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            _ => order.is_eq(),
        }
    }

    fn is_order(self) -> bool {
        matches!(self, Self::Greater | Self::GreaterOrEqual | Self::Less | Self::LessOrEqual)
    }
}

impl Scope {
    /// The attributes of a name such as `emails.value`.
    fn resolve(self, name: &str) -> Option<Path> {
        let (mut path, mut rest): (Path, &str) = match self {
            Self::Resource(schema) => {
                let Located { extension, attribute, rest } = schema.locate(name)?;
                (extension.into_iter().chain(attribute).collect(), rest)
            }
            Self::ValueOf(attribute) => {
                let (first, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
                match find(attribute.members(), first) {
                    Some(member) => (vec![member], rest),
                    None if attribute.members().is_empty()
                        && first.eq_ignore_ascii_case("value") =>
                    {
                        (Vec::new(), rest)
                    }
                    None => return None,
                }
            }
        };
        while let Some(after) = rest.strip_prefix('.') {
            let (name, after) = after.split_at(after.find('.').unwrap_or(after.len()));
            path.push(find(path.last()?.members(), name)?);
            rest = after;
        }
        rest.is_empty().then_some(path)
    }

    /// The attribute that a path leads to.
    fn target(self, path: &Path) -> Option<&'static Attribute> {
        match self {
            Self::ValueOf(attribute) if path.is_empty() => Some(attribute),
            _ => path.last().copied(),
        }
    }
}

impl Filter {
    /// Parses a filter; the error is 400 `invalidFilter`.
    pub fn parse(text: &str, scope: Scope) -> Result<Self, ScimError> {
        parse::parse(text, scope)
    }

    /// Whether the filter holds for a resource or for one value.
    pub fn holds(&self, value: &Value) -> bool {
        match self {
            Self::And(filters) => filters.iter().all(|filter| filter.holds(value)),
            Self::Or(filters) => filters.iter().any(|filter| filter.holds(value)),
            Self::Not(filter) => !filter.holds(value),
            Self::Present(path) => !values(value, path).is_empty(),
            Self::Any(path, filter) => {
                values(value, path).into_iter().any(|value| filter.holds(value))
            }
            Self::Compare(comparison) => comparison.holds(value),
        }
    }

    /// The comparisons of a filter that only joins comparisons with `eq` by `and`; none if the
    /// filter has another form.
    pub fn equalities(&self) -> Option<Vec<&Comparison>> {
        match self {
            Self::Compare(comparison)
                if comparison.operator == Operator::Equals && comparison.path.len() == 1 =>
            {
                Some(vec![comparison])
            }
            Self::And(filters) => {
                let comparisons: Option<Vec<_>> = filters.iter().map(Self::equalities).collect();
                comparisons.map(|comparisons| comparisons.into_iter().flatten().collect())
            }
            _ => None,
        }
    }

    /// Whether the filter reads an attribute of a resource.
    pub fn reads(&self, name: &str) -> bool {
        let is_named = |path: &Path| path.first().is_some_and(|first| first.name == name);
        match self {
            Self::And(filters) | Self::Or(filters) => {
                filters.iter().any(|filter| filter.reads(name))
            }
            Self::Not(filter) => filter.reads(name),
            Self::Present(path) | Self::Any(path, _) => is_named(path),
            Self::Compare(comparison) => is_named(&comparison.path),
        }
    }
}

impl Comparison {
    fn holds(&self, value: &Value) -> bool {
        let values = values(value, &self.path);
        let any_holds = |operator| values.iter().any(|value| self.compare(operator, value));
        match (self.operator, &self.value) {
            (Operator::Equals, Literal::Null) => values.is_empty(),
            (Operator::NotEquals, Literal::Null) => !values.is_empty(),
            (Operator::NotEquals, _) => !any_holds(Operator::Equals),
            (operator, _) => any_holds(operator),
        }
    }

    fn compare(&self, operator: Operator, value: &Value) -> bool {
        let attribute = self.path.last();
        match (value, &self.value) {
            (Value::Bool(value), Literal::Boolean(literal)) => value == literal,
            (Value::String(text), Literal::Text(literal)) => {
                if attribute.is_some_and(|attribute| attribute.kind == Kind::DateTime)
                    && let (Ok(time), Ok(literal)) = (parse_time(text), parse_time(literal))
                {
                    return operator.holds_in_order(time.cmp(&literal));
                }
                let is_exact = attribute.is_none_or(|attribute| attribute.is_case_exact);
                let fold = |text: &str| if is_exact { text.to_owned() } else { folded(text) };
                let (text, literal) = (fold(text), fold(literal));
                match operator {
                    Operator::Contains => text.contains(&literal),
                    Operator::StartsWith => text.starts_with(&literal),
                    Operator::EndsWith => text.ends_with(&literal),
                    operator => operator.holds_in_order(text.cmp(&literal)),
                }
            }
            _ => false,
        }
    }
}

/// All values at a path; at each step, the path continues in each value of an attribute.
fn values<'a>(value: &'a Value, path: &[&'static Attribute]) -> Vec<&'a Value> {
    let mut values = vec![value];
    for attribute in path {
        let next = values.into_iter().filter_map(|value| value.get(attribute.name));
        values = next
            .flat_map(|value| match value {
                Value::Array(values) => values.iter().collect(),
                Value::Null => Vec::new(),
                value => vec![value],
            })
            .collect();
    }
    values
}

/// Writes the filter in the notation of the standard.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, filters: &[Self], word: &str| {
            for (index, filter) in filters.iter().enumerate() {
                let before = if index == 0 { "" } else { word };
                match filter {
                    Self::And(_) | Self::Or(_) => write!(f, "{before}({filter})")?,
                    filter => write!(f, "{before}{filter}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::And(filters) => joined(f, filters, " and "),
            Self::Or(filters) => joined(f, filters, " or "),
            Self::Not(filter) => write!(f, "not ({filter})"),
            Self::Present(path) => write!(f, "{} pr", written(path)),
            Self::Any(path, filter) => write!(f, "{}[{filter}]", written(path)),
            Self::Compare(Comparison { path, operator, value }) => {
                let value = match value {
                    Literal::Text(text) => json!(text),
                    Literal::Boolean(value) => json!(value),
                    Literal::Null => Value::Null,
                };
                write!(f, "{} {} {value}", written(path), operator.name())
            }
        }
    }
}

fn written(path: &Path) -> String {
    let mut text = String::new();
    for attribute in path {
        if !text.is_empty() {
            text.push(if text.starts_with("urn:") && !text.contains("User:") { ':' } else { '.' });
        }
        text += attribute.name;
    }
    if text.is_empty() { "value".into() } else { text }
}

pub(super) fn invalid_filter(detail: impl Into<Cow<'static, str>>) -> ScimError {
    ScimError::bad(ScimType::InvalidFilter, format!("filter: {}", detail.into()))
}

#[cfg(test)]
mod tests;
