//! Values while a template is rendered: views of the profile and the properties, and results of
//! filters. A missing value is nil, at every level.

mod compare;

use std::borrow::Cow;
use std::rc::Rc;

use kit::json::Tree;
use serde_json::Value as Json;

use super::borrowed::{Fields, List};
use super::budget::RenderBudget;
use super::moment::Moment;
use super::{Stop, View};

/// A value. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    /// A number that neither of them prints with its own digits, such as 1.10 or a larger whole
    /// number.
    Exact(Rc<str>),
    Text(&'a str),
    OwnedText(Rc<str>),
    /// A time in its zone, and its text form.
    Time(Rc<ZonedTime>),
    List(List<'a>),
    Array(Rc<[Value<'a>]>),
    Object(Fields<'a>),
    /// An object created by a filter, in its own order.
    Members(Rc<[(Rc<str>, Value<'a>)]>),
    /// A range, including both ends.
    Range(i64, i64),
    /// The literals `empty` and `blank`.
    Empty,
    Blank,
}

/// A time in a zone, and its printed form.
#[derive(Clone, Debug)]
pub(super) struct ZonedTime {
    pub text: String,
    pub moment: Moment,
}

impl<'a> Value<'a> {
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Nil,
            Json::Bool(bool) => Self::Bool(*bool),
            Json::Number(number) => Self::number(number),
            Json::String(text) => Self::Text(text),
            Json::Array(list) => Self::List(List::Json(list)),
            Json::Object(object) => Self::Object(Fields::Json(object)),
        }
    }

    pub fn from_tree(tree: &'a Tree) -> Self {
        match tree {
            Tree::Null => Self::Nil,
            Tree::Bool(bool) => Self::Bool(*bool),
            Tree::Number(digits) => Self::digits(digits),
            Tree::Text(text) => Self::Text(text),
            Tree::Array(list) => Self::List(List::Tree(list)),
            Tree::Object(object) => Self::Object(Fields::Tree(object)),
        }
    }

    /// The value of a view.
    pub fn view(view: View<'a>) -> Self {
        match view {
            View::Nothing => Self::Nil,
            View::Json(json) => Self::from_json(json),
            View::Object(object) => Self::Object(Fields::Json(object)),
            View::Tree(tree) => Self::from_tree(tree),
            View::TreeObject(object) => Self::Object(Fields::Tree(object)),
            View::Text(text) => Self::Text(text),
            View::List(list) => Self::Array(list.into_iter().map(Self::view).collect()),
            View::Members(members) => {
                let members = members.into_iter();
                Self::Members(members.map(|(name, view)| (name.into(), Self::view(view))).collect())
            }
        }
    }

    /// The value of JSON that was parsed while rendering.
    pub fn owned(json: &Tree) -> Self {
        match json {
            Tree::Text(text) => Self::from_text(&**text),
            Tree::Array(list) => Self::Array(list.iter().map(Self::owned).collect()),
            Tree::Object(object) => {
                let members = object.iter();
                Self::Members(
                    members.map(|(name, value)| (name.into(), Self::owned(value))).collect(),
                )
            }
            Tree::Null => Self::Nil,
            Tree::Bool(bool) => Self::Bool(*bool),
            Tree::Number(digits) => Self::digits(digits),
        }
    }

    fn number(number: &serde_json::Number) -> Self {
        if let Some(int) = number.as_i64() {
            return Self::Int(int);
        }
        match number.as_u64() {
            Some(large) => Self::Exact(large.to_string().into()),
            None => Self::float(number.as_f64().unwrap_or_default()),
        }
    }

    /// A number by its digits. Without an exponent, it is printed as it is written.
    fn digits(digits: &str) -> Self {
        // Calculations read all digits again.
        const MAX_DIGITS: usize = 400;
        if let Ok(int) = digits.parse() {
            return Self::Int(int);
        }
        match digits.parse::<f64>() {
            Ok(float) if float.is_finite() => {
                let has_exponent = digits.contains(['e', 'E']);
                if !has_exponent && digits.len() <= MAX_DIGITS && printed(float) != digits {
                    Self::Exact(digits.into())
                } else {
                    Self::Float(float)
                }
            }
            _ => Self::Nil,
        }
    }

    pub fn from_text(text: impl Into<Rc<str>>) -> Self {
        Self::OwnedText(text.into())
    }

    /// The result of a calculation; nil if it is not a number.
    pub fn float(number: f64) -> Self {
        if number.is_finite() { Self::Float(number) } else { Self::Nil }
    }

    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Every value is true, except nil and false.
    pub fn is_true(&self) -> bool {
        !matches!(self, Self::Nil | Self::Bool(false))
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::OwnedText(text) => Some(text),
            Self::Time(time) => Some(&time.text),
            _ => None,
        }
    }

    /// The printed form: an array is its elements without separators, an object is JSON.
    pub fn to_text(&self, budget: &mut RenderBudget) -> Result<Cow<'_, str>, Stop> {
        Ok(match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::OwnedText(text) => Cow::Borrowed(text),
            Self::Time(time) => Cow::Borrowed(&time.text),
            Self::Nil | Self::Empty | Self::Blank => Cow::Borrowed(""),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Int(int) => Cow::Owned(int.to_string()),
            Self::Float(float) => Cow::Owned(printed(*float)),
            Self::Exact(digits) => Cow::Borrowed(digits),
            Self::Range(from, to) => Cow::Owned(format!("{from}..{to}")),
            Self::Object(_) | Self::Members(_) => Cow::Owned(self.to_json(budget)?),
            Self::List(_) | Self::Array(_) => {
                let mut text = String::new();
                for element in self.elements(budget)?.iter() {
                    let element = element.to_text(budget)?;
                    budget.make(element.len())?;
                    text.push_str(&element);
                }
                Cow::Owned(text)
            }
        })
    }

    /// As JSON.
    pub fn to_json(&self, budget: &mut RenderBudget) -> Result<String, Stop> {
        let json = match self {
            Self::List(_) | Self::Array(_) | Self::Range(..) => {
                let mut json = String::from("[");
                for (i, element) in self.elements(budget)?.iter().enumerate() {
                    json.push_str(if i == 0 { "" } else { "," });
                    json.push_str(&element.to_json(budget)?);
                }
                json.push(']');
                return Ok(json);
            }
            Self::Members(members) => {
                let mut json = String::from("{");
                for (i, (name, value)) in members.iter().enumerate() {
                    json.push_str(if i == 0 { "" } else { "," });
                    json.push_str(&quoted(name));
                    json.push(':');
                    budget.make(name.len())?;
                    json.push_str(&value.to_json(budget)?);
                }
                json.push('}');
                return Ok(json);
            }
            Self::Object(object) => object.to_json(),
            Self::Nil | Self::Empty | Self::Blank => "null".to_owned(),
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Exact(_) => {
                return Ok(self.to_text(budget)?.into_owned());
            }
            text => quoted(text.as_text().unwrap_or_default()),
        };
        budget.make(json.len())?;
        Ok(json)
    }

    /// A number, or the number that its text begins with: `12 cm` is 12.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Int(int) => Some(Number::Int((*int).into())),
            Self::Float(float) => Some(Number::Float(*float)),
            Self::Exact(digits) => match digits.parse() {
                Ok(int) => Some(Number::Int(int)),
                Err(_) => digits.parse().ok().map(Number::Float),
            },
            _ => {
                let text = self.as_text()?.trim();
                let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
                let sign = usize::from(text.starts_with(['-', '+']));
                let integer_end = sign + digits(&text[sign..]);
                let fraction = text[integer_end..].strip_prefix('.').map_or(0, digits);
                let is_decimal =
                    integer_end > sign && fraction > 0 && integer_end + 1 + fraction == text.len();
                if is_decimal || text[..integer_end].parse::<i128>().is_err() && integer_end > sign
                {
                    let end = if is_decimal { text.len() } else { integer_end };
                    let float = text[..end].parse().ok().filter(|f: &f64| f.is_finite());
                    return float.map(Number::Float);
                }
                text[..integer_end].parse().ok().map(Number::Int)
            }
        }
    }

    /// A whole number, for arguments that are counts or positions.
    pub fn as_int(&self) -> Option<i64> {
        Some(match self.as_number()? {
            Number::Int(int) => int.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            // The conversion saturates.
            Number::Float(float) => float as i64,
        })
    }

    /// The field of that name; strings, arrays and objects have `size`, `first` and `last`.
    pub fn member(&self, name: &str, budget: &mut RenderBudget) -> Result<Value<'a>, Stop> {
        if let Some(value) = self.own_member(name, budget)? {
            return Ok(value);
        }
        Ok(match name {
            "size" => self.size(budget)?.map_or(Self::Nil, Self::count),
            "first" => self.end(true),
            "last" => self.end(false),
            _ => Self::Nil,
        })
    }

    /// The field of that name in an object.
    pub fn own_member(
        &self,
        name: &str,
        budget: &mut RenderBudget,
    ) -> Result<Option<Value<'a>>, Stop> {
        Ok(match self {
            Self::Object(object) => object.get(name),
            Self::Members(members) => {
                budget.step(members.len() as u64)?;
                let member = members.iter().find(|(member, _)| **member == *name);
                member.map(|(_, value)| value.clone())
            }
            _ => None,
        })
    }

    /// The first or the last element; for an object the first field, for a string a character.
    pub fn end(&self, is_first: bool) -> Value<'a> {
        let pair = |name, value| Self::Array([name, value].into());
        match self {
            Self::Object(object) if is_first => object
                .iter()
                .next()
                .map_or(Self::Nil, |(name, value)| pair(Self::Text(name), value)),
            Self::Members(members) if is_first => {
                members.first().map_or(Self::Nil, |(name, value)| {
                    pair(Self::OwnedText(name.clone()), value.clone())
                })
            }
            Self::List(_) | Self::Array(_) | Self::Range(..) => {
                self.at(if is_first { 0 } else { -1 })
            }
            Self::Text(text) => Self::Text(last_or_first(text, is_first)),
            _ => match self.as_text() {
                Some(text) => Self::from_text(last_or_first(text, is_first)),
                None => Self::Nil,
            },
        }
    }

    /// The element at a position, from the end if it is negative.
    pub fn at(&self, index: i64) -> Value<'a> {
        let position = |length: usize| {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            let index = if index < 0 { index.checked_add(length)? } else { index };
            usize::try_from(index).ok()
        };
        let element = match self {
            Self::List(list) => position(list.len()).and_then(|at| list.get(at)),
            Self::Array(array) => position(array.len()).and_then(|at| array.get(at)).cloned(),
            Self::Range(from, to) if index < 0 => to
                .checked_add(index)
                .and_then(|at| at.checked_add(1))
                .filter(|at| at >= from)
                .map(Self::Int),
            Self::Range(from, to) => from.checked_add(index).filter(|at| at <= to).map(Self::Int),
            _ => None,
        };
        element.unwrap_or(Self::Nil)
    }

    /// The number of characters, elements or fields.
    pub fn size(&self, budget: &mut RenderBudget) -> Result<Option<usize>, Stop> {
        Ok(Some(match self {
            Self::List(list) => list.len(),
            Self::Array(array) => array.len(),
            Self::Object(object) => object.len(),
            Self::Members(members) => members.len(),
            Self::Range(from, to) => range_size(*from, *to),
            other => match other.as_text() {
                Some(text) => {
                    budget.read(text.len())?;
                    text.chars().count()
                }
                None => return Ok(None),
            },
        }))
    }

    /// The elements of an array or a range, an object's fields as pairs of name and value, or the
    /// value alone; none for nil.
    pub fn elements(&self, budget: &mut RenderBudget) -> Result<Rc<[Value<'a>]>, Stop> {
        let pair = |name, value| Self::Array([name, value].into());
        let size = match self {
            Self::List(_) | Self::Array(_) | Self::Range(..) => self.size(budget)?,
            // A pair is an array of its own.
            Self::Object(_) | Self::Members(_) => self.size(budget)?.map(|size| size * 3),
            _ => Some(1),
        };
        budget.hold(size.unwrap_or_default())?;
        Ok(match self {
            Self::Array(array) => array.clone(),
            Self::List(list) => list.iter().collect(),
            Self::Range(from, to) => (*from..=*to).map(Self::Int).collect(),
            Self::Object(object) => {
                object.iter().map(|(name, value)| pair(Self::Text(name), value)).collect()
            }
            Self::Members(members) => members
                .iter()
                .map(|(name, value)| pair(Self::OwnedText(name.clone()), value.clone()))
                .collect(),
            Self::Nil | Self::Empty | Self::Blank => [].into(),
            text if text.as_text() == Some("") => [].into(),
            single => [single.clone()].into(),
        })
    }

    /// The values of a loop: a number or a Boolean has none.
    pub fn loop_values(&self, budget: &mut RenderBudget) -> Result<Rc<[Value<'a>]>, Stop> {
        match self {
            Self::Int(_) | Self::Float(_) | Self::Exact(_) | Self::Bool(_) => Ok([].into()),
            other => other.elements(budget),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(list) => list.len() == 0,
            Self::Array(array) => array.is_empty(),
            Self::Object(object) => object.len() == 0,
            Self::Members(members) => members.is_empty(),
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
}

/// As JSON.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// `1.5`, `2.0`, `1.0e+20`.
fn printed(float: f64) -> String {
    let text = format!("{float:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let point = if digits.contains('.') { "" } else { ".0" };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}{point}e{sign}{exponent:0>2}")
}

fn last_or_first(text: &str, is_first: bool) -> &str {
    let mut chars = text.char_indices();
    if is_first {
        text.chars().next().map_or("", |first| &text[..first.len_utf8()])
    } else {
        chars.next_back().map_or("", |(at, _)| &text[at..])
    }
}

/// How many whole numbers a range has, including both ends.
pub(super) fn range_size(from: i64, to: i64) -> usize {
    if from > to {
        return 0;
    }
    usize::try_from(to.abs_diff(from)).unwrap_or(usize::MAX).saturating_add(1)
}

/// A number for calculations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i128),
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
            Number::Int(int) => match i64::try_from(int) {
                Ok(int) => Self::Int(int),
                Err(_) => Self::Exact(int.to_string().into()),
            },
            Number::Float(float) => Self::float(float),
        }
    }
}
