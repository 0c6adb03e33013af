//! Changes of custom attributes.
//!
//! A value replaces the whole attribute; null removes it. `inc` [adds](super::decimal) to a number,
//! or to 0 if it is absent. `add` appends the elements that an array does not have yet, to an empty
//! array if it is absent; `remove` removes every equal element. Elements are equal if their text is
//! the same. A change that does not match the stored value's type leaves it unchanged.
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
    fn of<'a>(
        Entries(entries): &'a Entries<'a>,
        change: fn(&'a str) -> Change<'a>,
    ) -> impl Iterator<Item = (&'a str, Change<'a>)> {
        entries.iter().map(move |(name, value)| (name.as_ref(), change(value.get())))
    }
    of(&attributes.custom, Change::Set)
        .chain(of(&attributes.inc, Change::Inc))
        .chain(of(&attributes.add, Change::Add))
        .chain(of(&attributes.remove, Change::Remove))
        .collect()
}

/// The custom attributes of a profile, in their order.
#[derive(Debug, Default)]
pub struct Custom {
    members: Vec<Member>,
    places: HashMap<Box<str>, usize>,
    /// The result of [`members_bytes`](Self::members_bytes).
    bytes: usize,
    /// Fields and elements that were parsed or added.
    pieces: usize,
}

#[derive(Debug)]
struct Member {
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
    Append(Vec<&'a RawValue>),
    Take(HashSet<&'a str>),
    Nothing,
    /// The change does not match the type of the value.
    Mismatch,
}

impl Custom {
    pub fn parse(text: &str) -> Result<Self, String> {
        let JsonFields(members) = json::parse(text)?;
        let mut custom = Self::default();
        members.iter().for_each(|(name, value)| custom.put(name, value.get()));
        Ok(custom)
    }

    /// Bytes of the fields, each with its separator.
    pub fn members_bytes(&self) -> usize {
        self.bytes
    }

    pub fn pieces(&self) -> usize {
        self.pieces
    }

    /// The text; none if no attribute is left.
    pub fn text(&self) -> Option<String> {
        let mut out = String::with_capacity(self.bytes + 1);
        for Member { key, value } in &self.members {
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
                Change::Set(text) | Change::Inc(text) | Change::Add(text) => {
                    Effect::Put(text.into())
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
                Change::Add(added) => self.array(name).zip(elements(added)).map_or(
                    Effect::Mismatch,
                    |(array, added)| {
                        let mut seen = HashSet::with_capacity(added.len());
                        let added = added.into_iter();
                        let new = added.filter(|e| !array.has(e.get()) && seen.insert(e.get()));
                        Effect::Append(new.collect())
                    },
                ),
                Change::Remove(removed) => self
                    .array(name)
                    .zip(elements(removed))
                    .map_or(Effect::Mismatch, |(_, removed)| {
                        Effect::Take(removed.into_iter().map(RawValue::get).collect())
                    }),
            },
        };
        Step { name, growth: self.growth(name, &effect), effect }
    }

    fn growth(&self, name: &str, effect: &Effect<'_>) -> isize {
        let member = self.places.get(name).map(|at| &self.members[*at]);
        let before = member.map_or(0, Member::bytes);
        let after = match (effect, member) {
            (Effect::Put(text), _) => json_bytes(name) + text.len() + 2,
            (Effect::Remove, _) => 0,
            (Effect::Append(added), Some(Member { key, value: Some(Value::Array(array)) })) => {
                let bytes = added.iter().map(|element| element.get().len()).sum::<usize>();
                key.len() + 2 + array_bytes(array.bytes + bytes, array.count + added.len())
            }
            (Effect::Take(taken), Some(Member { key, value: Some(Value::Array(array)) })) => {
                let equal = taken.iter().flat_map(|element| array.equal(element));
                let (count, bytes) =
                    equal.fold((0, 0), |(n, bytes), at| (n + 1, bytes + array.get(at).len()));
                key.len() + 2 + array_bytes(array.bytes - bytes, array.count - count)
            }
            _ => before,
        };
        after as isize - before as isize
    }

    /// Applies a plan; returns whether the change matched.
    pub fn take(&mut self, Step { name, effect, growth: _ }: Step<'_>) -> bool {
        match effect {
            Effect::Put(text) => self.put(name, &text),
            Effect::Remove => {
                let member = self.places.remove(name).map(|at| &mut self.members[at]);
                if let Some(member) = member {
                    self.bytes -= member.bytes();
                    member.value = None;
                }
            }
            Effect::Append(added) => {
                self.pieces += added.len();
                self.change_array(name, |array| {
                    added.iter().for_each(|element| array.push(element.get()));
                });
            }
            Effect::Take(taken) => {
                self.change_array(name, |array| taken.iter().for_each(|e| array.remove(e)));
            }
            Effect::Nothing => {}
            Effect::Mismatch => return false,
        }
        true
    }

    fn value(&mut self, name: &str) -> Option<&mut Value> {
        let at = self.places.get(name)?;
        self.members[*at].value.as_mut()
    }

    fn put(&mut self, name: &str, text: &str) {
        let value = Some(Value::Text(text.into()));
        let at = match self.places.get(name) {
            Some(at) => *at,
            None => {
                let mut key = String::with_capacity(name.len() + 2);
                json::push_string(&mut key, name);
                self.members.push(Member { key: key.into(), value: None });
                self.places.insert(name.into(), self.members.len() - 1);
                self.pieces += 1;
                self.members.len() - 1
            }
        };
        let member = &mut self.members[at];
        self.bytes -= member.bytes();
        member.value = value;
        self.bytes += member.bytes();
    }

    /// A parsed attribute that is an array.
    fn array(&mut self, name: &str) -> Option<&Elements> {
        let member = &mut self.members[*self.places.get(name)?];
        if let Some(Value::Text(text)) = &member.value {
            let array = Elements::of(&elements(text)?);
            self.pieces += array.count;
            self.bytes -= member.bytes();
            member.value = Some(Value::Array(array));
            self.bytes += member.bytes();
        }
        match &member.value {
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

impl Member {
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

/// The elements of an array in order, indexed by their text.
#[derive(Debug, Default)]
struct Elements {
    /// The texts of all elements, including removed ones.
    text: String,
    /// Start and end of each element; empty for a removed one, because no JSON is empty.
    spans: Vec<(u32, u32)>,
    /// The last element with each hash, and for each element the one before with the same hash:
    /// [`NONE`] for the first.
    last: HashMap<u64, u32>,
    before: Vec<u32>,
    hashes: RandomState,
    /// Bytes and number of the elements that are not removed.
    bytes: usize,
    count: usize,
}

const NONE: u32 = u32::MAX;

impl Elements {
    fn of(elements: &[&RawValue]) -> Self {
        let mut all = Self::default();
        elements.iter().for_each(|element| all.push(element.get()));
        all
    }

    fn bytes(&self) -> usize {
        array_bytes(self.bytes, self.count)
    }

    fn get(&self, at: u32) -> &str {
        let (from, to) = self.spans[at as usize];
        &self.text[from as usize..to as usize]
    }

    /// The elements with a hash.
    fn chain(&self, hash: u64) -> impl Iterator<Item = u32> {
        let first = self.last.get(&hash).copied();
        std::iter::successors(first, |at| {
            Some(self.before[*at as usize]).filter(|before| *before != NONE)
        })
    }

    fn equal(&self, element: &str) -> impl Iterator<Item = u32> {
        self.chain(self.hashes.hash_one(element)).filter(move |at| self.get(*at) == element)
    }

    fn has(&self, element: &str) -> bool {
        self.equal(element).next().is_some()
    }

    fn push(&mut self, element: &str) {
        // The conversions cannot overflow, because profiles and batches have limited sizes.
        let (at, from) = (self.spans.len() as u32, self.text.len() as u32);
        self.text.push_str(element);
        self.spans.push((from, self.text.len() as u32));
        let before = self.last.insert(self.hashes.hash_one(element), at);
        self.before.push(before.unwrap_or(NONE));
        self.bytes += element.len();
        self.count += 1;
    }

    /// Removes every equal element.
    fn remove(&mut self, element: &str) {
        let hash = self.hashes.hash_one(element);
        let (gone, others): (Vec<u32>, Vec<u32>) =
            self.chain(hash).partition(|at| self.get(*at) == element);
        for at in &gone {
            self.spans[*at as usize] = (0, 0);
            self.bytes -= element.len();
            self.count -= 1;
        }
        self.last.remove(&hash);
        for at in others {
            self.before[at as usize] = self.last.insert(hash, at).unwrap_or(NONE);
        }
    }

    fn write(&self, out: &mut String) {
        out.push('[');
        let mut is_first = true;
        for (from, to) in self.spans.iter().filter(|(from, to)| from < to) {
            if !is_first {
                out.push(',');
            }
            is_first = false;
            out.push_str(&self.text[*from as usize..*to as usize]);
        }
        out.push(']');
    }
}
