//! A document of the file as a tree in which each value has its line, and how serde reads types
//! from it.
//!
//! `${NAME}` is replaced from the environment, except in values that are kept as written: JSON of
//! any form.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapDeserializer, StringDeserializer, UnitDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

use super::{Environment, mistakes};
use crate::expand::expand;
use kit::json::{self, MARK};

/// A value and where it is.
pub(crate) struct Node {
    line: u64,
    /// For a number or a boolean, the range of its bytes in the file: money is never read through
    /// floats.
    written: Option<(usize, usize)>,
    content: Content,
}

enum Content {
    Text(String),
    /// Null, a boolean or a number.
    Plain(Value),
    List(Vec<Node>),
    Fields(Vec<Field>),
    /// An invalid value that was reported: types are read without it.
    Rejected,
}

struct Field {
    name: String,
    line: u64,
    value: Node,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(node: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined } = Spanned::<Content>::deserialize(node)?;
        let span = defined.span();
        let bytes = span.byte_offset().zip(span.byte_len());
        let written = bytes.and_then(|(start, length)| {
            let end = start.checked_add(length)?;
            Some((usize::try_from(start).ok()?, usize::try_from(end).ok()?))
        });
        Ok(Self { line: referenced.line(), written, content: value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(content: D) -> Result<Self, D::Error> {
        content.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

macro_rules! plain {
    ($($name:ident($type:ty))+) => {$(
        fn $name<E>(self, value: $type) -> Result<Content, E> {
            Ok(Content::Plain(value.into()))
        }
    )+};
}

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Plain(Value::Null))
    }

    plain! { visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Content, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(Content::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = entries.next_key::<Spanned<String>>()? {
            let line = name.referenced.line();
            fields.push(Field { name: name.value, line, value: entries.next_value()? });
        }
        Ok(Content::Fields(fields))
    }
}

impl Node {
    /// The name of its first field.
    pub(super) fn first_field(&self) -> Option<&str> {
        match &self.content {
            Content::Fields(fields) => fields.first().map(|field| field.name.as_str()),
            _ => None,
        }
    }

    /// The value at a path, or the last existing value along it.
    pub(super) fn find(&self, path: &[String]) -> Found {
        let mut found = Found { line: self.line, name_line: self.line, ..Found::default() };
        let mut node = Some(self);
        for (index, step) in path.iter().enumerate() {
            let is_last = index + 1 == path.len();
            found.has_rejected = is_last && node.is_some_and(Self::has_rejected);
            node = match node.map(|node| &node.content) {
                Some(Content::List(elements)) => {
                    let mut accepted =
                        elements.iter().enumerate().filter(|(_, element)| !element.is_rejected());
                    let element = step.parse().ok().and_then(|step| accepted.nth(step));
                    found.path += &format!("[{}]", element.map_or(0, |(index, _)| index));
                    element.map(|(_, element)| element)
                }
                content => {
                    let dot = if found.path.is_empty() { "" } else { "." };
                    found.path += &format!("{dot}{step}");
                    let Some(Content::Fields(fields)) = content else { continue };
                    let field = fields.iter().find(|field| field.name == *step);
                    found.name_line = field.map_or(found.line, |field| field.line);
                    field.map(|field| &field.value)
                }
            };
            found.line = node.map_or(found.line, |node| node.line);
        }
        found.has_rejected |= node.is_some_and(Self::has_rejected);
        found
    }

    /// Removes the value at a path.
    pub(super) fn reject(&mut self, path: &[String]) {
        let Some((step, rest)) = path.split_first() else {
            self.content = Content::Rejected;
            return;
        };
        let next = match &mut self.content {
            Content::List(elements) => {
                let mut accepted = elements.iter_mut().filter(|element| !element.is_rejected());
                step.parse().ok().and_then(|step| accepted.nth(step))
            }
            Content::Fields(fields) => {
                let field = fields.iter_mut().find(|field| field.name == *step);
                field.map(|field| &mut field.value)
            }
            _ => None,
        };
        if let Some(next) = next {
            next.reject(rest);
        }
    }

    fn is_rejected(&self) -> bool {
        matches!(self.content, Content::Rejected)
    }

    fn has_rejected(&self) -> bool {
        match &self.content {
            Content::List(elements) => elements.iter().any(Self::is_rejected),
            Content::Fields(fields) => fields.iter().any(|field| field.value.is_rejected()),
            content => matches!(content, Content::Rejected),
        }
    }
}

/// Where a value is.
#[derive(Default)]
pub(super) struct Found {
    pub line: u64,
    /// The line of the name of the field.
    pub name_line: u64,
    /// Such as `keys[0].permissions[1]`.
    pub path: String,
    /// Whether anything in it or next to it was rejected.
    pub has_rejected: bool,
}

/// Why a type cannot be read, and where the error is.
#[derive(Debug, Default, thiserror::Error)]
#[error("{text}")]
pub(super) struct NodeError {
    /// Names of fields and positions of elements, the last step first.
    pub path: Vec<String>,
    pub text: String,
    /// Whether a field is missing.
    pub is_missing: bool,
    /// Whether the error is about a field's name, and not about its value.
    pub is_about_name: bool,
}

impl NodeError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn at(mut self, step: impl ToString) -> Self {
        self.path.push(step.to_string());
        self
    }
}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(text.to_string())
    }

    // Without the value, which may be secret.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {expected}"))
    }

    fn unknown_variant(name: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("{name:?}: expected one of {}", expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        let text = format!("missing field `{field}`; if it exists, check its indentation");
        Self { is_missing: true, ..Self::new(text) }
    }
}

/// Reads types out of a node.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub node: &'a Node,
    /// The text of the file.
    pub source: &'a str,
    pub environment: Environment<'a>,
}

impl<'a> Reader<'a> {
    fn within(self, node: &'a Node) -> Self {
        Self { node, ..self }
    }

    /// The value as its text.
    fn text(self) -> Result<String, NodeError> {
        let written = match &self.node.content {
            Content::Text(text) => Cow::Borrowed(text.as_str()),
            Content::Plain(Value::Null) => return Err(NodeError::new("null is not allowed here")),
            Content::Plain(value) => {
                let written =
                    self.node.written.and_then(|(start, end)| self.source.get(start..end));
                written.map_or_else(|| value.to_string().into(), |written| written.trim().into())
            }
            Content::List(_) => {
                return Err(NodeError::new("expected a string or a number, not a list"));
            }
            Content::Fields(_) | Content::Rejected => {
                return Err(NodeError::new("expected a string or a number, not fields"));
            }
        };
        expand(&written, self.environment).map_err(NodeError::new)
    }

    /// Appends a value as JSON, as it is written: a number with all of its digits, unless only YAML
    /// has such a number.
    fn push_json(self, node: &Node, out: &mut String) {
        match &node.content {
            Content::Text(text) => json::push_string(out, text),
            Content::Plain(value) => {
                let written = node.written.and_then(|(start, end)| self.source.get(start..end));
                let written = written.map(str::trim);
                // Exact, unlike a number of `serde_json`.
                let is_same = |text: &&str| {
                    text.parse::<Number>().is_ok() && text.parse().ok() == value.as_f64()
                };
                match written.filter(is_same) {
                    Some(digits) => out.push_str(digits),
                    None => out.push_str(&value.to_string()),
                }
            }
            Content::List(elements) => {
                let accepted = elements.iter().filter(|element| !element.is_rejected());
                out.push('[');
                for (index, element) in accepted.enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.push_json(element, out);
                }
                out.push(']');
            }
            Content::Fields(fields) => {
                let accepted = fields.iter().filter(|field| !field.value.is_rejected());
                out.push('{');
                for (index, field) in accepted.enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    json::push_string(out, &field.name);
                    out.push(':');
                    self.push_json(&field.value, out);
                }
                out.push('}');
            }
            Content::Rejected => out.push_str("null"),
        }
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let text = self.text()?;
        match (text.parse::<u64>(), text.parse::<i64>()) {
            (Ok(number), _) => visitor.visit_u64(number),
            (_, Ok(number)) => visitor.visit_i64(number),
            _ => Err(NodeError::new(format!("{text:?}: expected a whole number"))),
        }
    }
}

macro_rules! texts {
    ($($name:ident)+) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            visitor.visit_string(self.text()?)
        }
    )+};
}

macro_rules! numbers {
    ($($name:ident)+) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            self.number(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = NodeError;

    texts! { deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf }

    numbers! { deserialize_u32 deserialize_u64 deserialize_i32 deserialize_i64 }

    /// The value as written.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node.content {
            Content::Text(text) => visitor.visit_str(text),
            Content::Plain(value) => {
                let value = value.clone().into_deserializer().deserialize_any(visitor);
                value.map_err(|error: serde_json::Error| de::Error::custom(error))
            }
            Content::List(_) => self.deserialize_seq(visitor),
            Content::Fields(_) | Content::Rejected => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node.content {
            Content::Plain(Value::Bool(value)) => visitor.visit_bool(value),
            _ => Err(NodeError::new("expected true or false")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node.content {
            Content::Plain(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A value can be read as its JSON text ([`RawValue`](serde_json::value::RawValue)).
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        if name != MARK {
            return visitor.visit_newtype_struct(self);
        }
        let mut json = String::new();
        self.push_json(self.node, &mut json);
        visitor.visit_map(MapDeserializer::new(std::iter::once((MARK, json))))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let elements = match &self.node.content {
            Content::List(elements) => elements.as_slice(),
            Content::Plain(Value::Null) => &[],
            _ => return Err(NodeError::new("expected a list, such as [a, b]")),
        };
        let accepted = elements.iter().filter(|element| !element.is_rejected());
        visitor.visit_seq(Elements { reader: self, elements: accepted.enumerate() })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let fields = match &self.node.content {
            Content::Fields(fields) => fields.as_slice(),
            Content::Plain(Value::Null) => &[],
            _ => {
                return Err(NodeError::new(
                    "expected fields, each as `name: value`; check the indentation",
                ));
            }
        };
        let fields = fields.iter().filter(|field| !field.value.is_rejected());
        visitor.visit_map(Entries { reader: self, fields, current: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        if let Content::Fields(fields) = &self.node.content {
            let is_unknown = |field: &&Field| {
                !known.contains(&field.name.as_str()) && !field.value.is_rejected()
            };
            if let Some(unknown) = fields.iter().find(is_unknown) {
                let text = mistakes::unknown_field(&unknown.name, known);
                let error = NodeError { is_about_name: true, ..NodeError::new(text) };
                return Err(error.at(&unknown.name));
            }
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_enum(StringDeserializer::new(self.text()?))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        UnitDeserializer::new().deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u128 f32 f64 char unit unit_struct tuple tuple_struct identifier
    }
}

struct Elements<'a, I> {
    reader: Reader<'a>,
    /// The elements with their positions.
    elements: I,
}

impl<'de, 'a, I: Iterator<Item = (usize, &'a Node)>> SeqAccess<'de> for Elements<'a, I> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        let Some((index, element)) = self.elements.next() else { return Ok(None) };
        let value = seed.deserialize(self.reader.within(element));
        value.map(Some).map_err(|error| error.at(index))
    }
}

struct Entries<'a, I> {
    reader: Reader<'a>,
    fields: I,
    current: Option<&'a Field>,
}

impl<'de, 'a, I: Iterator<Item = &'a Field>> MapAccess<'de> for Entries<'a, I> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        self.current = self.fields.next();
        let Some(field) = self.current else { return Ok(None) };
        let name = seed.deserialize(StringDeserializer::<NodeError>::new(field.name.clone()));
        name.map(Some).map_err(|error| NodeError { is_about_name: true, ..error }.at(&field.name))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        let field = self.current.take().ok_or_else(|| NodeError::new("a value without a name"))?;
        let value = seed.deserialize(self.reader.within(&field.value));
        value.map_err(|error| error.at(&field.name))
    }
}
