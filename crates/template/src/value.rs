//! Values while a template is rendered: views of the profile and the properties, and what filters
//! made. What is missing is nil, at every level.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::Stop;
use super::work::Work;

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Text(&'a str),
    Made(Rc<str>),
    List(&'a [Json]),
    Array(Rc<[Value<'a>]>),
    Object(&'a Map<String, Json>),
    /// Both ends are in it.
    Range(i64, i64),
    /// What a comparison with `empty` or `blank` asks for.
    Empty,
    Blank,
}

/// How a value is ordered among others of its kind.
enum Scalar<'v> {
    Number(f64),
    Text(&'v str),
}

impl<'a> Value<'a> {
    pub fn of(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(bool) => Self::Bool(*bool),
            Json::Number(number) => match number.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::float(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::Text(text),
            Json::Array(list) => Self::List(list),
            Json::Object(object) => Self::Object(object),
        }
    }

    pub fn made(text: impl Into<Rc<str>>) -> Self {
        Self::Made(text.into())
    }

    /// A number that came of a calculation; one that is none is nil.
    pub fn float(number: f64) -> Self {
        if number.is_finite() { Self::Float(number) } else { Self::Nil }
    }

    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Everything is, except nil and false.
    pub fn is_true(&self) -> bool {
        !matches!(self, Self::Nil | Self::Bool(false))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Made(text) => Some(text),
            _ => None,
        }
    }

    /// As it is printed: numbers as they are written, an array as its elements without anything
    /// between, an object as JSON.
    pub fn to_text(&self, work: &mut Work) -> Result<Cow<'_, str>, Stop> {
        Ok(match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Made(text) => Cow::Borrowed(text),
            Self::Nil | Self::Empty | Self::Blank => Cow::Borrowed(""),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Int(int) => Cow::Owned(int.to_string()),
            Self::Float(float) => Cow::Owned(format!("{float:?}")),
            Self::Range(from, to) => Cow::Owned(format!("{from}..{to}")),
            Self::Object(object) => {
                let text = serde_json::to_string(object).unwrap_or_default();
                work.make(text.len())?;
                Cow::Owned(text)
            }
            Self::List(_) | Self::Array(_) => {
                let mut text = String::new();
                for element in self.elements(work)?.iter() {
                    let element = element.to_text(work)?;
                    work.make(element.len())?;
                    text.push_str(&element);
                }
                Cow::Owned(text)
            }
        })
    }

    /// As JSON.
    pub fn to_json(&self, work: &mut Work) -> Result<String, Stop> {
        let json = match self {
            Self::List(_) | Self::Array(_) | Self::Range(..) => {
                let mut json = String::from("[");
                for (i, element) in self.elements(work)?.iter().enumerate() {
                    json.push_str(if i == 0 { "" } else { "," });
                    json.push_str(&element.to_json(work)?);
                }
                json.push(']');
                return Ok(json);
            }
            Self::Nil | Self::Empty | Self::Blank => "null".to_owned(),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Object(_) => {
                return Ok(self.to_text(work)?.into_owned());
            }
            text => Json::from(text.as_text().unwrap_or_default()).to_string(),
        };
        work.make(json.len())?;
        Ok(json)
    }

    /// The number that it is or is written as.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Int(int) => Some(Number::Int(*int)),
            Self::Float(float) => Some(Number::Float(*float)),
            _ => {
                let text = self.as_text()?.trim();
                // Without this, words such as "infinity" are read as numbers.
                let is_digit = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
                if !text.bytes().all(is_digit) {
                    return None;
                }
                match text.parse() {
                    Ok(int) => Some(Number::Int(int)),
                    Err(_) => text.parse().ok().filter(|f: &f64| f.is_finite()).map(Number::Float),
                }
            }
        }
    }

    /// A whole number, for arguments that count.
    pub fn as_int(&self) -> Option<i64> {
        match self.as_number()? {
            Number::Int(int) => Some(int),
            // Saturates.
            Number::Float(float) => Some(float as i64),
        }
    }

    /// The member of that name; of texts and arrays `size`, `first` and `last`.
    pub fn member(&self, name: &str, work: &mut Work) -> Result<Value<'a>, Stop> {
        if let Self::Object(object) = self
            && let Some(value) = object.get(name)
        {
            return Ok(Self::of(value));
        }
        Ok(match name {
            "size" => self.size(work)?.map_or(Self::Nil, Self::count),
            "first" => self.at(0),
            "last" => self.at(-1),
            _ => Self::Nil,
        })
    }

    /// The element at a place, from the end where it is negative.
    pub fn at(&self, index: i64) -> Value<'a> {
        let place = |length: usize| {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let index = if index < 0 { index.checked_add(length)? } else { index };
            usize::try_from(index).ok()
        };
        let found = match self {
            Self::List(list) => place(list.len()).and_then(|at| list.get(at)).map(Self::of),
            Self::Array(array) => place(array.len()).and_then(|at| array.get(at)).cloned(),
            Self::Range(from, to) if index < 0 => to
                .checked_add(index)
                .and_then(|at| at.checked_add(1))
                .filter(|at| at >= from)
                .map(Self::Int),
            Self::Range(from, to) => from.checked_add(index).filter(|at| at <= to).map(Self::Int),
            _ => None,
        };
        found.unwrap_or(Self::Nil)
    }

    /// Characters, elements or members.
    pub fn size(&self, work: &mut Work) -> Result<Option<usize>, Stop> {
        Ok(Some(match self {
            Self::List(list) => list.len(),
            Self::Array(array) => array.len(),
            Self::Object(object) => object.len(),
            Self::Range(from, to) => range_size(*from, *to),
            other => match other.as_text() {
                Some(text) => {
                    work.read(text.len())?;
                    text.chars().count()
                }
                None => return Ok(None),
            },
        }))
    }

    /// The elements, as a loop takes them: an object's are pairs of name and value.
    pub fn elements(&self, work: &mut Work) -> Result<Rc<[Value<'a>]>, Stop> {
        let size = match self {
            Self::List(_) | Self::Array(_) | Self::Object(_) | Self::Range(..) => {
                self.size(work)?
            }
            _ => Some(1),
        };
        work.hold(size.unwrap_or_default())?;
        Ok(match self {
            Self::Array(array) => array.clone(),
            Self::List(list) => list.iter().map(Self::of).collect(),
            Self::Range(from, to) => (*from..=*to).map(Self::Int).collect(),
            Self::Object(object) => object
                .iter()
                .map(|(name, value)| Self::Array([Self::Text(name), Self::of(value)].into()))
                .collect(),
            Self::Nil | Self::Empty | Self::Blank => [].into(),
            text if text.as_text() == Some("") => [].into(),
            one => [one.clone()].into(),
        })
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.is_empty(),
            Self::Array(array) => array.is_empty(),
            Self::Object(object) => object.is_empty(),
            Self::Range(from, to) => from > to,
            other => other.as_text() == Some(""),
        }
    }

    fn is_blank(&self) -> bool {
        match self {
            Self::Nil | Self::Bool(false) => true,
            other => match other.as_text() {
                Some(text) => text.trim().is_empty(),
                None => other.is_empty(),
            },
        }
    }

    /// `==`: of one kind and the same. Nothing is coerced.
    pub fn equals(&self, other: &Self, work: &mut Work) -> Result<bool, Stop> {
        work.step(1)?;
        Ok(match (self, other) {
            (Self::Empty, Self::Empty) | (Self::Blank, Self::Blank) => true,
            (Self::Empty, value) | (value, Self::Empty) => value.is_empty(),
            (Self::Blank, value) | (value, Self::Blank) => value.is_blank(),
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(one), Self::Bool(two)) => one == two,
            (Self::Int(one), Self::Int(two)) => one == two,
            (Self::Range(a, b), Self::Range(c, d)) => (a, b) == (c, d),
            (Self::Object(one), Self::Object(two)) => {
                if one.len() != two.len() {
                    return Ok(false);
                }
                for (name, value) in one.iter() {
                    work.read(name.len())?;
                    let Some(other) = two.get(name) else { return Ok(false) };
                    if !Value::of(value).equals(&Value::of(other), work)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::List(_) | Self::Array(_), Self::List(_) | Self::Array(_)) => {
                if self.size(work)? != other.size(work)? {
                    return Ok(false);
                }
                let (one, two) = (self.elements(work)?, other.elements(work)?);
                for (one, two) in one.iter().zip(two.iter()) {
                    if !one.equals(two, work)? {
                        return Ok(false);
                    }
                }
                true
            }
            _ => self.compare(other, work)? == Some(Ordering::Equal),
        })
    }

    /// The order of two numbers or of two texts; others have none.
    pub fn compare(&self, other: &Self, work: &mut Work) -> Result<Option<Ordering>, Stop> {
        if let (Self::Int(one), Self::Int(two)) = (self, other) {
            return Ok(Some(one.cmp(two)));
        }
        Ok(match (self.scalar(), other.scalar()) {
            (Some(Scalar::Number(one)), Some(Scalar::Number(two))) => one.partial_cmp(&two),
            (Some(Scalar::Text(one)), Some(Scalar::Text(two))) => {
                work.read(one.len().min(two.len()))?;
                Some(one.cmp(two))
            }
            _ => None,
        })
    }

    /// A total order, for sorting: numbers, then texts, then what has no order, then nil.
    pub fn sort(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match (value, value.scalar()) {
            (Self::Nil, _) => 3,
            (_, Some(Scalar::Number(_))) => 0,
            (_, Some(Scalar::Text(_))) => 1,
            (_, None) => 2,
        };
        match (self.scalar(), other.scalar()) {
            (Some(Scalar::Number(one)), Some(Scalar::Number(two))) => one.total_cmp(&two),
            (Some(Scalar::Text(one)), Some(Scalar::Text(two))) => one.cmp(two),
            _ => rank(self).cmp(&rank(other)),
        }
    }

    fn scalar(&self) -> Option<Scalar<'_>> {
        match self {
            Self::Int(int) => Some(Scalar::Number(*int as f64)),
            Self::Float(float) => Some(Scalar::Number(*float)),
            other => other.as_text().map(Scalar::Text),
        }
    }

    /// `contains`: a text has a part, an array an element, an object a member.
    pub fn contains(&self, part: &Self, work: &mut Work) -> Result<bool, Stop> {
        match self {
            Self::Object(object) => {
                Ok(part.as_text().is_some_and(|name| object.contains_key(name)))
            }
            Self::List(list) => {
                for element in *list {
                    if Self::of(element).equals(part, work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Array(array) => {
                for element in array.iter() {
                    if element.equals(part, work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            text => match (text.as_text(), part) {
                (_, Self::Nil) | (None, _) => Ok(false),
                (Some(text), part) => {
                    work.read(text.len())?;
                    Ok(text.contains(&*part.to_text(work)?))
                }
            },
        }
    }
}

/// How many whole numbers lie between, with both ends.
pub(super) fn range_size(from: i64, to: i64) -> usize {
    if from > to {
        return 0;
    }
    usize::try_from(to.abs_diff(from)).unwrap_or(usize::MAX).saturating_add(1)
}

/// A number to calculate with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub fn as_float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    pub fn is_zero(self) -> bool {
        self.as_float() == 0.0
    }
}

impl From<Number> for Value<'_> {
    fn from(number: Number) -> Self {
        match number {
            Number::Int(int) => Self::Int(int),
            Number::Float(float) => Self::float(float),
        }
    }
}
