//! Changes of custom attributes.
//!
//! A value replaces the whole attribute; null removes it. `inc` [adds](super::decimal) to a number,
//! or to 0 if it is absent. `add` appends the elements that an array does not have yet, to an empty
//! array if it is absent; `remove` removes every equal element. Elements are equal if their
//! [canonical texts](json::canonical) are the same; an array keeps the text of each. A change that
//! does not match the stored value's type leaves it unchanged.
//!
//! The attributes are parsed only once, so that the cost of a change depends on its own size, not
//! on the profile's: the objects of a batch can change the largest profile thousands of times.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use serde_json::value::RawValue;

use super::super::message::{Attributes, Entries};
use super::decimal::sum;
use kit::json::{self, JsonFields};

/// An object's change of one custom attribute.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    Set(&'a str),
    Inc(&'a str),
    Add(&'a str),
    Remove(&'a str),
}

/// An object's changes of custom attributes, by name.
pub fn changes<'a>(attributes: &'a Attributes<'a>) -> Vec<(&'a str, Change<'a>)> {
    fn each<'a>(
        Entries(entries): &'a Entries<'a>,
        change: fn(&'a str) -> Change<'a>,
    ) -> impl Iterator<Item = (&'a str, Change<'a>)> {
        entries.iter().map(move |(name, value)| (name.as_ref(), change(value.get())))
    }
    each(&attributes.custom, Change::Set)
        .chain(each(&attributes.inc, Change::Inc))
        .chain(each(&attributes.add, Change::Add))
        .chain(each(&attributes.remove, Change::Remove))
        .collect()
}

/// The custom attributes of a profile, in their order.
#[derive(Debug, Default)]
pub struct Custom {
    attributes: Vec<Attribute>,
    /// Indexes into `attributes`, by name.
    indexes: HashMap<Box<str>, usize>,
    /// The result of [`bytes`](Self::bytes).
    bytes: usize,
    /// Attributes and elements that were parsed or added.
    pieces: usize,
}

#[derive(Debug)]
struct Attribute {
    /// The name as JSON.
    key: Box<str>,
    /// None if it was removed.
    value: Option<Value>,
}

#[derive(Debug)]
enum Value {
    Text(Box<str>),
    /// An array with added or removed elements.
    Array(Elements),
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Array(elements) => elements.bytes(),
        }
    }
}

/// The new value of an attribute, and the growth of the text.
#[derive(Debug)]
pub struct Step<'a> {
    name: &'a str,
    effect: Effect<'a>,
    pub growth: isize,
}

#[derive(Debug)]
enum Effect<'a> {
    Put(Cow<'a, str>),
    Remove,
    /// Appends elements that the array does not have.
    AppendElements(Vec<&'a RawValue>),
    /// Removes the elements with these canonical texts.
    RemoveElements(HashSet<Cow<'a, str>>),
    Nothing,
    /// The change does not match the type of the value.
    Mismatch,
}

impl Custom {
    pub fn parse(text: &str) -> Result<Self, String> {
        let JsonFields(fields) = json::parse(text)?;
        let mut custom = Self::default();
        fields.iter().for_each(|(name, value)| custom.put(name, value.get()));
        Ok(custom)
    }

    /// Bytes of the attributes, each with its separator.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn pieces(&self) -> usize {
        self.pieces
    }

    /// The text; none if no attribute is left.
    pub fn text(&self) -> Option<String> {
        let mut out = String::with_capacity(self.bytes + 1);
        for Attribute { key, value } in &self.attributes {
            let Some(value) = value else { continue };
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(key);
            out.push(':');
            match value {
                Value::Text(text) => out.push_str(text),
                Value::Array(elements) => elements.write(&mut out),
            }
        }
        (!out.is_empty()).then(|| out + "}")
    }

    /// Computes the effect of a change, without applying it.
    pub fn plan<'a>(&mut self, name: &'a str, change: Change<'a>) -> Step<'a> {
        let effect = match self.value(name) {
            None => match change {
                Change::Set("null") | Change::Remove(_) => Effect::Nothing,
                Change::Set(text) | Change::Inc(text) => Effect::Put(text.into()),
                Change::Add(added) => {
                    let added = elements(added).unwrap_or_default();
                    let new = Elements::default().new_among(added).into_iter();
                    let new: Vec<&str> = new.map(RawValue::get).collect();
                    Effect::Put(format!("[{}]", new.join(",")).into())
                }
            },
            Some(value) => match change {
                Change::Set("null") => Effect::Remove,
                Change::Set(text) => Effect::Put(text.into()),
                Change::Inc(by) => match value {
                    Value::Text(text) => sum(text, by).map(Cow::Owned).map(Effect::Put),
                    Value::Array(_) => None,
                }
                .unwrap_or(Effect::Mismatch),
                Change::Add(added) => self
                    .array(name)
                    .zip(elements(added))
                    .map(|(array, added)| Effect::AppendElements(array.new_among(added)))
                    .unwrap_or(Effect::Mismatch),
                Change::Remove(removed) => self.array(name).zip(elements(removed)).map_or(
                    Effect::Mismatch,
                    |(_, removed)| {
                        let removed = removed.into_iter().map(RawValue::get);
                        Effect::RemoveElements(removed.map(json::canonical).collect())
                    },
                ),
            },
        };
        Step { name, growth: self.growth(name, &effect), effect }
    }

    fn growth(&self, name: &str, effect: &Effect<'_>) -> isize {
        let attribute = self.indexes.get(name).map(|index| &self.attributes[*index]);
        let before = attribute.map_or(0, Attribute::bytes);
        let after = match (effect, attribute) {
            (Effect::Put(text), _) => json_bytes(name) + text.len() + 2,
            (Effect::Remove, _) => 0,
            (
                Effect::AppendElements(added),
                Some(Attribute { key, value: Some(Value::Array(array)) }),
            ) => {
                let bytes = added.iter().map(|element| element.get().len()).sum::<usize>();
                key.len() + 2 + array_bytes(array.bytes + bytes, array.count + added.len())
            }
            (
                Effect::RemoveElements(removed),
                Some(Attribute { key, value: Some(Value::Array(array)) }),
            ) => {
                let equal = removed.iter().flat_map(|canonical| array.equal(canonical));
                let (count, bytes) =
                    equal.fold((0, 0), |(n, bytes), index| (n + 1, bytes + array.get(index).len()));
                key.len() + 2 + array_bytes(array.bytes - bytes, array.count - count)
            }
            _ => before,
        };
        after as isize - before as isize
    }

    /// Applies a plan; returns whether the change matched.
    pub fn apply(&mut self, Step { name, effect, growth: _ }: Step<'_>) -> bool {
        match effect {
            Effect::Put(text) => self.put(name, &text),
            Effect::Remove => {
                if let Some(index) = self.indexes.remove(name) {
                    let attribute = &mut self.attributes[index];
                    self.bytes -= attribute.bytes();
                    attribute.value = None;
                }
            }
            Effect::AppendElements(added) => {
                self.pieces += added.len();
                self.change_array(name, |array| {
                    added.iter().for_each(|element| array.push(element.get()));
                });
            }
            Effect::RemoveElements(removed) => {
                self.change_array(name, |array| removed.iter().for_each(|e| array.remove(e)));
            }
            Effect::Nothing => {}
            Effect::Mismatch => return false,
        }
        true
    }

    fn value(&mut self, name: &str) -> Option<&mut Value> {
        let index = self.indexes.get(name)?;
        self.attributes[*index].value.as_mut()
    }

    fn put(&mut self, name: &str, text: &str) {
        let value = Some(Value::Text(text.into()));
        let index = match self.indexes.get(name) {
            Some(index) => *index,
            None => {
                let mut key = String::with_capacity(name.len() + 2);
                json::push_string(&mut key, name);
                self.attributes.push(Attribute { key: key.into(), value: None });
                self.indexes.insert(name.into(), self.attributes.len() - 1);
                self.pieces += 1;
                self.attributes.len() - 1
            }
        };
        let attribute = &mut self.attributes[index];
        self.bytes -= attribute.bytes();
        attribute.value = value;
        self.bytes += attribute.bytes();
    }

    /// A parsed attribute that is an array.
    fn array(&mut self, name: &str) -> Option<&Elements> {
        let attribute = &mut self.attributes[*self.indexes.get(name)?];
        if let Some(Value::Text(text)) = &attribute.value {
            let array = Elements::from_json(&elements(text)?);
            self.pieces += array.count;
            self.bytes -= attribute.bytes();
            attribute.value = Some(Value::Array(array));
            self.bytes += attribute.bytes();
        }
        match &attribute.value {
            Some(Value::Array(array)) => Some(array),
            _ => None,
        }
    }

    fn change_array(&mut self, name: &str, change: impl FnOnce(&mut Elements)) {
        if let Some(Value::Array(array)) = self.value(name) {
            let before = array.bytes();
            change(array);
            let after = array.bytes();
            self.bytes = self.bytes - before + after;
        }
    }
}

impl Attribute {
    /// Bytes of its text, with the colon and a comma.
    fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |value| self.key.len() + value.bytes() + 2)
    }
}

fn json_bytes(name: &str) -> usize {
    let mut text = String::with_capacity(name.len() + 2);
    json::push_string(&mut text, name);
    text.len()
}

fn elements(json: &str) -> Option<Vec<&RawValue>> {
    json::parse(json).ok()
}

/// Bytes of an array with this number of elements and bytes.
fn array_bytes(bytes: usize, count: usize) -> usize {
    2 + bytes + count.saturating_sub(1)
}

/// The elements of an array in order, indexed by their canonical texts.
#[derive(Debug, Default)]
struct Elements {
    /// The texts of all elements, including removed ones.
    text: String,
    /// Start and end of each element; empty for a removed one, because no JSON is empty.
    spans: Vec<(u32, u32)>,
    /// The last element with each hash, and for each element the one before with the same hash:
    /// [`NONE`] for the first.
    last: HashMap<u64, u32>,
    previous: Vec<u32>,
    hashes: RandomState,
    /// Bytes and number of the elements that are not removed.
    bytes: usize,
    count: usize,
}

const NONE: u32 = u32::MAX;

impl Elements {
    fn from_json(elements: &[&RawValue]) -> Self {
        let mut array = Self::default();
        elements.iter().for_each(|element| array.push(element.get()));
        array
    }

    fn bytes(&self) -> usize {
        array_bytes(self.bytes, self.count)
    }

    fn get(&self, index: u32) -> &str {
        let (start, end) = self.spans[index as usize];
        &self.text[start as usize..end as usize]
    }

    /// The elements with a hash.
    fn chain(&self, hash: u64) -> impl Iterator<Item = u32> {
        let last = self.last.get(&hash).copied();
        std::iter::successors(last, |index| {
            Some(self.previous[*index as usize]).filter(|previous| *previous != NONE)
        })
    }

    /// The elements with a canonical text.
    fn equal(&self, canonical: &str) -> impl Iterator<Item = u32> {
        self.chain(self.hashes.hash_one(canonical))
            .filter(move |index| json::canonical(self.get(*index)) == canonical)
    }

    /// The elements that the array does not have, each once.
    fn new_among<'e>(&self, elements: Vec<&'e RawValue>) -> Vec<&'e RawValue> {
        let mut seen = HashSet::with_capacity(elements.len());
        let is_new = |element: &&'e RawValue| {
            let canonical = json::canonical(element.get());
            let is_known = self.equal(&canonical).next().is_some();
            !is_known && seen.insert(canonical)
        };
        elements.into_iter().filter(is_new).collect()
    }

    fn push(&mut self, element: &str) {
        // The conversions cannot overflow, because profiles and batches have limited sizes.
        let (index, start) = (self.spans.len() as u32, self.text.len() as u32);
        self.text.push_str(element);
        self.spans.push((start, self.text.len() as u32));
        let hash = self.hashes.hash_one(&*json::canonical(element));
        let previous = self.last.insert(hash, index);
        self.previous.push(previous.unwrap_or(NONE));
        self.bytes += element.len();
        self.count += 1;
    }

    /// Removes every element with a canonical text.
    fn remove(&mut self, canonical: &str) {
        let hash = self.hashes.hash_one(canonical);
        let (equal, others): (Vec<u32>, Vec<u32>) =
            self.chain(hash).partition(|index| json::canonical(self.get(*index)) == canonical);
        for index in &equal {
            self.bytes -= self.get(*index).len();
            self.spans[*index as usize] = (0, 0);
            self.count -= 1;
        }
        self.last.remove(&hash);
        for index in others {
            self.previous[index as usize] = self.last.insert(hash, index).unwrap_or(NONE);
        }
    }

    fn write(&self, out: &mut String) {
        out.push('[');
        let mut is_first = true;
        for (start, end) in self.spans.iter().filter(|(start, end)| start < end) {
            if !is_first {
                out.push(',');
            }
            is_first = false;
            out.push_str(&self.text[*start as usize..*end as usize]);
        }
        out.push(']');
    }
}
