//! JSON as a tree that keeps what a text has: the order of fields, and the digits of numbers.

use std::fmt;

use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{MAX_JSON_LEVELS, compare_numbers, depth, parse, push_string};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    /// As it is written.
    Number(Box<str>),
    Text(Box<str>),
    Array(Box<[Tree]>),
    Object(TreeObject),
}

/// An object: its fields in their order, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeObject {
    fields: Box<[(Box<str>, Tree)]>,
    /// The positions of the fields, sorted by their names.
    by_name: Box<[u32]>,
}

impl Tree {
    /// Parses a value of bounded depth. Of duplicate fields, the last one stays.
    pub fn parse(json: &str) -> Result<Self, String> {
        // Checks the whole syntax, so that the parser below only has to read.
        parse::<serde::de::IgnoredAny>(json)?;
        Self::read_valid(json)
    }

    /// [`parse`](Self::parse) of JSON whose syntax was checked.
    pub fn from_raw(json: &RawValue) -> Result<Self, String> {
        Self::read_valid(json.get())
    }

    fn read_valid(json: &str) -> Result<Self, String> {
        if depth(json) > MAX_JSON_LEVELS {
            return Err(super::TOO_DEEP.to_owned());
        }
        let mut parser = Parser { json, at: 0 };
        parser.value().ok_or_else(|| super::HALF_PAIR.to_owned())
    }

    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// Whether two values are equal: numbers by value, arrays element by element, objects field by
    /// field. Values of different types are never equal.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => compare_numbers(a, b).is_eq(),
            (Self::Array(a), Self::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_same(b))
            }
            (Self::Object(a), Self::Object(b)) => {
                let has_same = |(name, value): (&str, &Self)| {
                    b.get(name).is_some_and(|other| value.is_same(other))
                };
                a.len() == b.len() && a.iter().all(has_same)
            }
            (a, b) => a == b,
        }
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&TreeObject> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The value as compact JSON.
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        self.push_json(&mut json);
        json
    }

    fn push_json(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(digits) => out.push_str(digits),
            Self::Text(text) => push_string(out, text),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    element.push_json(out);
                }
                out.push(']');
            }
            Self::Object(object) => object.push_json(out),
        }
    }
}

impl TreeObject {
    /// Parses an object; the error is like that of [`Tree::parse`].
    pub fn parse(json: &str) -> Result<Self, String> {
        match Tree::parse(json)? {
            Tree::Object(object) => Ok(object),
            _ => Err("expected an object".to_owned()),
        }
    }

    /// [`parse`](Self::parse) with the errors of a deserializer.
    pub fn read<E: serde::de::Error>(json: &str) -> Result<Self, E> {
        match Tree::parse(json).map_err(E::custom)? {
            Tree::Object(object) => Ok(object),
            Tree::Null => Err(E::invalid_type(Unexpected::Unit, &"an object")),
            _ => Err(E::invalid_type(Unexpected::Other("another value"), &"an object")),
        }
    }

    /// An object with these fields in this order; of several with one name, the last value.
    pub fn new(fields: impl IntoIterator<Item = (Box<str>, Tree)>) -> Self {
        let mut fields: Vec<(Box<str>, Tree)> = fields.into_iter().collect();
        let sorted = |fields: &[(Box<str>, Tree)]| {
            let mut by_name: Vec<u32> = (0..).take(fields.len()).collect();
            by_name.sort_by(|a, b| fields[*a as usize].0.cmp(&fields[*b as usize].0));
            by_name
        };
        let mut by_name = sorted(&fields);
        let is_repeated = |pair: &[u32]| fields[pair[0] as usize].0 == fields[pair[1] as usize].0;
        // The sort is stable, so that the last of equal names comes last.
        let repeated: Vec<u32> =
            by_name.windows(2).filter(|pair| is_repeated(pair)).map(|pair| pair[0]).collect();
        if !repeated.is_empty() {
            let dropped: std::collections::HashSet<u32> = repeated.into_iter().collect();
            let mut position = 0..;
            fields.retain(|_| !position.next().is_some_and(|at| dropped.contains(&at)));
            by_name = sorted(&fields);
        }
        Self { fields: fields.into(), by_name: by_name.into() }
    }

    /// This object with the fields of another, which replace its own.
    pub fn merged(&self, other: &Self) -> Self {
        let unchanged = self.fields.iter().filter(|(name, _)| other.get(name).is_none());
        Self::new(unchanged.chain(&other.fields).cloned())
    }

    pub fn get(&self, name: &str) -> Option<&Tree> {
        let position = self
            .by_name
            .binary_search_by(|index| self.fields[*index as usize].0.as_ref().cmp(name))
            .ok()?;
        let (_, value) = &self.fields[self.by_name[position] as usize];
        Some(value)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tree)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value))
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The object as compact JSON.
    pub fn to_json(&self) -> String {
        let mut json = String::new();
        self.push_json(&mut json);
        json
    }

    fn push_json(&self, out: &mut String) {
        out.push('{');
        for (index, (name, value)) in self.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            push_string(out, name);
            out.push(':');
            value.push_json(out);
        }
        out.push('}');
    }
}

impl From<&Value> for Tree {
    /// Has only the digits of a number that the value has.
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.to_string().into()),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Array(elements) => Self::Array(elements.iter().map(Self::from).collect()),
            Value::Object(fields) => Self::Object(fields.into()),
        }
    }
}

impl From<&Map<String, Value>> for TreeObject {
    fn from(fields: &Map<String, Value>) -> Self {
        Self::new(fields.iter().map(|(name, value)| (name.as_str().into(), value.into())))
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = RawValue::from_string(self.to_json()).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Box<RawValue>>::deserialize(deserializer)?;
        Self::from_raw(&json).map_err(serde::de::Error::custom)
    }
}

impl Serialize for TreeObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = RawValue::from_string(self.to_json()).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TreeObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Box<RawValue>>::deserialize(deserializer)?;
        Self::read(json.get())
    }
}

/// An object as compact JSON. It takes the memory of its text; a [`TreeObject`] can take twenty
/// times as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectText(Box<str>);

impl ObjectText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The object, parsed.
    pub fn tree(&self) -> TreeObject {
        // It was written from an object.
        TreeObject::parse(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for ObjectText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&ObjectText> for Tree {
    fn from(object: &ObjectText) -> Self {
        Self::Object(object.tree())
    }
}

impl From<&Map<String, Value>> for ObjectText {
    fn from(fields: &Map<String, Value>) -> Self {
        (&TreeObject::from(fields)).into()
    }
}

impl From<&TreeObject> for ObjectText {
    fn from(object: &TreeObject) -> Self {
        Self(object.to_json().into())
    }
}

impl Serialize for ObjectText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = RawValue::from_string(self.0.to_string()).map_err(serde::ser::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TreeObject::deserialize(deserializer).map(|object| Self::from(&object))
    }
}

/// Reads valid JSON of bounded depth.
struct Parser<'a> {
    json: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self) -> Option<Tree> {
        self.skip_space();
        Some(match self.byte()? {
            b'{' => {
                self.at += 1;
                let mut fields = Vec::new();
                while !self.ends(b'}')? {
                    let name = self.string()?;
                    self.skip_space();
                    // The colon.
                    self.at += 1;
                    fields.push((name, self.value()?));
                }
                Tree::Object(TreeObject::new(fields))
            }
            b'[' => {
                self.at += 1;
                let mut elements = Vec::new();
                while !self.ends(b']')? {
                    elements.push(self.value()?);
                }
                Tree::Array(elements.into())
            }
            b'"' => Tree::Text(self.string()?),
            _ => {
                let rest = &self.json[self.at..];
                let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
                let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
                self.at += word.len();
                match word {
                    "null" => Tree::Null,
                    "true" => Tree::Bool(true),
                    "false" => Tree::Bool(false),
                    digits => Tree::Number(digits.into()),
                }
            }
        })
    }

    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Skips the comma before the next part; consumes the closing bracket if it comes instead.
    fn ends(&mut self, close: u8) -> Option<bool> {
        self.skip_space();
        if self.byte()? == b',' {
            self.at += 1;
            self.skip_space();
        }
        let ends = self.byte()? == close;
        self.at += usize::from(ends);
        Some(ends)
    }

    fn string(&mut self) -> Option<Box<str>> {
        let (begin, mut has_escapes) = (self.at, false);
        self.at += 1;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let quoted = &self.json[begin..self.at];
        if has_escapes {
            serde_json::from_str::<Box<str>>(quoted).ok()
        } else {
            Some(quoted[1..quoted.len() - 1].into())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_and_digits_are_kept() {
        for json in [
            r#"{"z":1,"a":[2,{"y":1.10,"b":12345678901234567890123}],"m":{},"n":[]}"#,
            r#"[1e999,-0.0,"a\"b\\","é",null,true,false]"#,
            "1.50",
            r#""x""#,
        ] {
            assert_eq!(Tree::parse(json).unwrap().to_json(), json);
        }
        let spaced = " { \"a\" : [ 1 , 2.0 ] , \"\\u0062\" : \"\\ud83d\\ude00\" } ";
        assert_eq!(Tree::parse(spaced).unwrap().to_json(), r#"{"a":[1,2.0],"b":"😀"}"#);
    }

    #[test]
    fn fields_are_found_by_name() {
        let object = TreeObject::parse(r#"{"z":1,"a":2,"z":3,"m":4}"#).unwrap();
        assert_eq!(object.to_json(), r#"{"a":2,"z":3,"m":4}"#);
        assert_eq!(object.get("z"), Some(&Tree::Number("3".into())));
        assert_eq!((object.get("b"), object.len()), (None, 3));
        let other = TreeObject::parse(r#"{"a":5,"b":6}"#).unwrap();
        assert_eq!(object.merged(&other).to_json(), r#"{"z":3,"m":4,"a":5,"b":6}"#);
    }

    #[test]
    fn an_object_is_stored_as_its_text() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Stored {
            properties: Option<TreeObject>,
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct StoredText {
            properties: Option<ObjectText>,
        }
        let text = r#"{"properties":{"z":1.10,"a":[12345678901234567890]}}"#;
        let stored: Stored = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&stored).unwrap(), text);
        let as_text: StoredText = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&as_text).unwrap(), text);
        assert_eq!(as_text.properties.map(|text| text.tree()), stored.properties);
        for other in [r#"{"properties":[]}"#, r#"{"properties":{"a":"\ud800"}}"#] {
            assert!(serde_json::from_str::<Stored>(other).is_err());
            assert!(serde_json::from_str::<StoredText>(other).is_err());
        }
    }

    #[test]
    fn invalid_and_deep_json_is_rejected() {
        for json in ["", "{", "[1,]", "{\"a\" 1}", "1 2", "nul", r#""\ud800""#, "01", "[}"] {
            assert!(Tree::parse(json).is_err(), "{json}");
        }
        for levels in [MAX_JSON_LEVELS + 1, 100_000] {
            let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            assert_eq!(Tree::parse(&deep), Err("is nested too deeply".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn reads_the_same_as_serde_json(text in r#"[{}\[\]",:a0-9.e\\ -]{0,40}"#) {
            let expected: Option<Value> = serde_json::from_str(&text).ok();
            let tree = Tree::parse(&text).ok();
            let read = tree.map(|tree| serde_json::from_str::<Value>(&tree.to_json()));
            match read {
                Some(Ok(value)) => prop_assert_eq!(Some(value), expected),
                // A number that no double can hold.
                Some(Err(_)) => prop_assert_eq!(expected, None),
                None => prop_assert_eq!(expected, None),
            }
        }
    }
}
