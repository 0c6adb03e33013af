//! A profile that attribute objects change.
//!
//! A field is replaced as a whole, and so is a custom attribute; null removes either. `inc`
//! adds to a number, and to nothing as to 0. `add` appends the elements that an array does
//! not have yet, to nothing as to an empty array; `remove` takes every equal element out of
//! one. Elements are equal where they are written the same. What does not fit the value that
//! is there leaves it as it is.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::super::message::{Attributes, Entries, Json};
use crate::users::json::{self, Members};
use crate::users::profile::{Field, MAX_BYTES, Profile};

/// The profile would have more than [`MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// How many changes did not fit the values that are there.
pub type Misfits = u64;

/// A stored profile that is taken apart when the first object changes it.
#[derive(Debug)]
pub struct Draft {
    profile: Profile,
    /// No document of it is longer.
    most_bytes: usize,
}

impl Draft {
    pub fn open(document: &str) -> Result<Self, String> {
        let profile = Profile::parse(document)?;
        Ok(Self { profile, most_bytes: document.len() })
    }

    pub fn new(profile: Profile) -> Self {
        Self { most_bytes: profile.to_document().len(), profile }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Changes all that the object says, or nothing.
    pub fn change(&mut self, attributes: &Attributes<'_>) -> Result<Misfits, TooLarge> {
        let most_bytes = self.most_bytes + growth(attributes);
        if most_bytes <= MAX_BYTES {
            self.most_bytes = most_bytes;
            return Ok(change(&mut self.profile, attributes));
        }
        let mut changed = self.profile.clone();
        let misfits = change(&mut changed, attributes);
        let bytes = changed.to_document().len();
        if bytes > MAX_BYTES {
            return Err(TooLarge);
        }
        *self = Self { profile: changed, most_bytes: bytes };
        Ok(misfits)
    }
}

/// Bytes by which an object makes a document longer at most.
fn growth(attributes: &Attributes<'_>) -> usize {
    let Attributes { fields, custom, inc, add, remove: _, user: _, update_only: _ } = attributes;
    let entries = [fields, custom, inc, add].into_iter().flat_map(|Entries(entries)| entries);
    // A character of a name has up to six as JSON; a sum is a few digits longer than its parts.
    let bytes = entries.map(|(name, value)| 6 * name.len() + value.get().len() + 64);
    bytes.sum::<usize>() + 64
}

fn change(profile: &mut Profile, attributes: &Attributes<'_>) -> Misfits {
    for (name, value) in &attributes.fields.0 {
        if let Some(field) = Field::from_name(name) {
            match value.get() {
                "null" => profile.clear(field),
                value => profile.set_json(field, value.to_owned()),
            }
        }
    }
    let mut changes = Changes::of(attributes);
    if changes.by_name.is_empty() {
        return 0;
    }
    match changes.apply(profile.get(Field::CustomAttributes)) {
        Some(custom) => profile.set_json(Field::CustomAttributes, custom),
        None => profile.clear(Field::CustomAttributes),
    }
    changes.misfits
}

#[derive(Clone, Copy)]
enum Change<'a> {
    Set(&'a str),
    Inc(&'a str),
    Add(&'a str),
    Remove(&'a str),
}

/// The changes of custom attributes, each name once.
struct Changes<'a> {
    by_name: HashMap<&'a str, Change<'a>>,
    /// In the order in which new ones are written.
    order: Vec<&'a str>,
    misfits: Misfits,
}

impl<'a> Changes<'a> {
    fn of(attributes: &'a Attributes<'a>) -> Self {
        let mut changes = Self { by_name: HashMap::new(), order: Vec::new(), misfits: 0 };
        changes.extend(&attributes.custom, Change::Set);
        changes.extend(&attributes.inc, Change::Inc);
        changes.extend(&attributes.add, Change::Add);
        changes.extend(&attributes.remove, Change::Remove);
        changes
    }

    fn extend(&mut self, entries: &'a Entries<'a>, change: impl Fn(&'a str) -> Change<'a>) {
        for (name, value) in &entries.0 {
            self.by_name.insert(name, change(Json::get(value)));
            self.order.push(name);
        }
    }

    /// The custom attributes after the changes, in the order in which they were, new ones
    /// behind; none where none are left. Those that cannot be read are made anew.
    fn apply(&mut self, custom: Option<&str>) -> Option<String> {
        let custom = custom.unwrap_or("{}");
        let Members(members) = json::parse(custom).unwrap_or_default();
        let mut out = String::with_capacity(custom.len() + 32 * self.order.len());
        let mut write = |name: &str, value: &str| {
            out.push(if out.is_empty() { '{' } else { ',' });
            json::push_string(&mut out, name);
            out.push(':');
            out.push_str(value);
        };
        for (name, value) in &members {
            match self.by_name.remove(name.as_ref()) {
                None => write(name, value.get()),
                Some(change) => {
                    let (value, fits) = change.of(value.get());
                    self.misfits += Misfits::from(!fits);
                    value.into_iter().for_each(|value| write(name, &value));
                }
            }
        }
        for name in &self.order {
            let value = self.by_name.remove(name).and_then(Change::of_nothing);
            value.into_iter().for_each(|value| write(name, value));
        }
        (!out.is_empty()).then(|| out + "}")
    }
}

impl<'a> Change<'a> {
    /// What becomes of a value, none where it goes; and whether the change fits it.
    fn of(self, before: &'a str) -> (Option<Cow<'a, str>>, bool) {
        let changed = match self {
            Self::Set("null") => return (None, true),
            Self::Set(value) => Some(value.into()),
            Self::Inc(by) => sum(before, by).map(Cow::Owned),
            Self::Add(elements) => with(before, elements).map(Cow::Owned),
            Self::Remove(elements) => without(before, elements).map(Cow::Owned),
        };
        let fits = changed.is_some();
        (changed.or(Some(before.into())), fits)
    }

    /// The value where there was none.
    fn of_nothing(self) -> Option<&'a str> {
        match self {
            Self::Set("null") | Self::Remove(_) => None,
            Self::Set(value) | Self::Inc(value) | Self::Add(value) => Some(value),
        }
    }
}

/// The sum of two JSON numbers: exact for whole ones, else as doubles. None where one is no
/// number, or the sum is none.
fn sum(one: &str, other: &str) -> Option<String> {
    let whole = |text: &str| text.parse::<i128>().ok();
    if let (Some(one), Some(other)) = (whole(one), whole(other)) {
        return one.checked_add(other).map(|sum| sum.to_string());
    }
    let number = |text: &str| json::parse::<f64>(text).ok();
    let sum = number(one)? + number(other)?;
    serde_json::Number::from_f64(sum).map(|sum| sum.to_string())
}

fn elements(json: &str) -> Option<Vec<&RawValue>> {
    json::parse(json).ok()
}

fn with(array: &str, added: &str) -> Option<String> {
    let (mut all, added) = (elements(array)?, elements(added)?);
    let mut seen: HashSet<&str> = all.iter().map(|element| element.get()).collect();
    all.extend(added.into_iter().filter(|element| seen.insert(element.get())));
    Some(joined(&all))
}

fn without(array: &str, removed: &str) -> Option<String> {
    let (mut all, removed) = (elements(array)?, elements(removed)?);
    let removed: HashSet<&str> = removed.iter().map(|element| element.get()).collect();
    all.retain(|element| !removed.contains(element.get()));
    Some(joined(&all))
}

fn joined(elements: &[&RawValue]) -> String {
    let texts: Vec<&str> = elements.iter().map(|element| element.get()).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(json: &str) -> Attributes<'_> {
        serde_json::from_str(json).unwrap()
    }

    /// The custom attributes after changes of some, and how many did not fit.
    fn custom(before: &str, changes: &str) -> (Option<String>, Misfits) {
        let mut draft = Draft::open(&format!(r#"{{"custom_attributes":{before}}}"#)).unwrap();
        let object = format!(r#"{{"user":{{"external_id":"a"}},{changes}}}"#);
        let misfits = draft.change(&attributes(&object)).unwrap();
        (draft.profile().get(Field::CustomAttributes).map(str::to_owned), misfits)
    }

    #[test]
    fn custom_attributes_are_set_removed_and_changed() {
        for (before, changes, after) in [
            (r#"{"a":1,"b":2}"#, r#""custom":{"c":1.10,"a":"x"}"#, r#"{"a":"x","b":2,"c":1.10}"#),
            (r#"{"a":1,"b":2}"#, r#""custom":{"a":null,"c":null}"#, r#"{"b":2}"#),
            (
                r#"{"n":9007199254740993}"#,
                r#""inc":{"n":1,"m":-2}"#,
                r#"{"n":9007199254740994,"m":-2}"#,
            ),
            (r#"{"n":1.5}"#, r#""inc":{"n":1}"#, r#"{"n":2.5}"#),
            (
                r#"{"a":[1,"x",1]}"#,
                r#""add":{"a":["x",2,2],"b":[]}"#,
                r#"{"a":[1,"x",1,2],"b":[]}"#,
            ),
            (r#"{"a":[1,"x",1]}"#, r#""remove":{"a":[1,7],"b":[1]}"#, r#"{"a":["x"]}"#),
            (r#"{"a":[1]}"#, r#""remove":{"a":[1]}"#, r#"{"a":[]}"#),
            (r#"{"\"":1}"#, r#""custom":{"\u0022":2}"#, r#"{"\"":2}"#),
        ] {
            assert_eq!(custom(before, changes), (Some(after.to_owned()), 0), "{before} {changes}");
        }
        assert_eq!(custom(r#"{"a":1}"#, r#""custom":{"a":null}"#), (None, 0));
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let before = r#"{"t":"x","n":1,"big":1e308}"#;
        for changes in [
            r#""inc":{"t":1}"#,
            r#""add":{"n":[1]}"#,
            r#""remove":{"t":[1]}"#,
            r#""inc":{"big":1e308}"#,
        ] {
            assert_eq!(custom(before, changes), (Some(before.to_owned()), 1), "{changes}");
        }
    }

    #[test]
    fn a_profile_stays_within_its_bytes() {
        let mut draft = Draft::open(r#"{"first_name":"Ann"}"#).unwrap();
        let half = "x".repeat(MAX_BYTES / 2);
        let set = |name: &str, first: &str| {
            format!(
                r#"{{"user":{{"external_id":"a"}},"fields":{{"first_name":"{first}"}},"custom":{{"{name}":"{half}"}}}}"#
            )
        };
        assert_eq!(draft.change(&attributes(&set("a", "Bea"))), Ok(0));
        assert_eq!(draft.change(&attributes(&set("b", "Cay"))), Err(TooLarge));
        assert_eq!(draft.profile().text(Field::FirstName).as_deref(), Some("Bea"));
        // In the place of what is there it fits.
        for _ in 0..3 {
            assert_eq!(draft.change(&attributes(&set("a", "Dee"))), Ok(0));
        }
        assert!(draft.profile().to_document().len() <= MAX_BYTES);
    }
}
