//! Checks the items of a request or a file: converts them to the log's format, or collects
//! everything that is wrong with them (docs/reference/api/catalogs.md).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::coerce::{coerce, time_error};
use super::message::{Item, Values};
use super::{Fields, ID, MAX_NAME, Type, has_plain_characters, is_reserved};
use kit::json::{self, JsonFields, Length, MAX_JSON_FIELDS, Text};
use kit::words::beginning;

/// Maximum number of items in a request. Further items are only counted.
pub const MAX_ITEMS: usize = 50;

/// Maximum number of characters of a value: of a string, or of the compact JSON of any other value.
pub const MAX_CHARACTERS: usize = 5_000;

/// Levels of arrays and objects in a value, including its own.
pub const MAX_LEVELS: usize = 50;

/// Fields that the message of one error names.
const MAX_NAMED: usize = 10;

/// Characters of a value that a message shows.
const MAX_SHOWN: usize = 50;

/// The errors, in the order of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Code {
    CatalogNotFound,
    ItemNotFound,
    ItemArrayInvalid,
    #[serde(rename = "request-includes-too-many-items")]
    TooManyItems,
    ItemsMissingIds,
    IdsNotStrings,
    IdsTooLarge,
    InvalidIds,
    IdsNotUnique,
    InvalidFields,
    #[serde(rename = "invalid-keys-in-value-object")]
    InvalidKeys,
    #[serde(rename = "too-deep-nesting-in-value-object")]
    TooDeepNesting,
    ItemsTooLarge,
    #[serde(rename = "unable-to-coerce-value")]
    UnableToCoerce,
}

impl Code {
    fn message(self) -> String {
        match self {
            Self::CatalogNotFound => "Could not find catalog".into(),
            Self::ItemNotFound => "Could not find item".into(),
            Self::ItemArrayInvalid => format!(
                "items must be a non-empty array of objects; an object can have at most \
                 {MAX_JSON_FIELDS} fields and no duplicate field"
            ),
            Self::TooManyItems => format!("A request may have at most {MAX_ITEMS} items"),
            Self::ItemsMissingIds => "Every item must have an id".into(),
            Self::IdsNotStrings => "Item ids must be strings".into(),
            Self::IdsTooLarge => format!("Item ids may have at most {MAX_NAME} characters"),
            Self::InvalidIds => {
                "Item ids may have only letters, digits, hyphens and underscores".into()
            }
            Self::IdsNotUnique => "Item ids must be unique within the request".into(),
            Self::InvalidFields => "Fields do not exist in the catalog".into(),
            Self::InvalidKeys => "Keys must not contain . or $".into(),
            Self::TooDeepNesting => {
                format!("Values may be nested at most {MAX_LEVELS} levels deep")
            }
            Self::ItemsTooLarge => {
                format!("Values may have at most {MAX_CHARACTERS} characters")
            }
            Self::UnableToCoerce => "A value cannot be read as the type of its field".into(),
        }
    }

    /// Values of `parameter_values`: ids, or positions in the array from 0.
    fn parameter(self) -> &'static str {
        match self {
            Self::CatalogNotFound => "catalog_name",
            Self::ItemArrayInvalid | Self::TooManyItems | Self::ItemsMissingIds => "items",
            _ => ID,
        }
    }
}

/// The errors of a request, by code.
#[derive(Clone, Debug, Default)]
pub struct Faults(BTreeMap<Code, Fault>);

#[derive(Clone, Debug, Default)]
struct Fault {
    values: Vec<String>,
    /// Details of each field, for the message.
    details: Vec<String>,
    /// Replaces the code's message.
    text: Option<String>,
}

/// One kind of error, with all items that have it.
#[derive(Serialize, JsonSchema)]
pub(super) struct CatalogFault<'a> {
    /// The code.
    id: Code,
    message: String,
    /// What `parameter_values` has: the catalog's name (`catalog_name`), positions in the array
    /// from 0 (`items`), or item ids (`id`).
    #[schemars(extend("items" = { "enum": ["catalog_name", "items", ID] }))]
    parameters: [&'static str; 1],
    /// Values longer than the maximum length of an item id are truncated.
    #[schemars(length(max = MAX_ITEMS))]
    parameter_values: &'a [String],
}

impl Faults {
    /// The error for a body without readable items.
    pub fn no_items(why: String) -> Self {
        let fault = Fault { text: Some(why), ..Fault::default() };
        Self(BTreeMap::from([(Code::ItemArrayInvalid, fault)]))
    }

    /// Adds the error for an unknown catalog.
    pub fn note_no_catalog(&mut self, name: &str) {
        self.note(Code::CatalogNotFound, name, None);
    }

    pub(super) fn note(&mut self, code: Code, value: &str, detail: Option<String>) {
        let fault = self.0.entry(code).or_default();
        note(&mut fault.values, &beginning(value, MAX_NAME));
        detail.into_iter().for_each(|detail| note(&mut fault.details, &detail));
    }

    /// `errors` of the response.
    pub fn errors(&self) -> Vec<Value> {
        let error = |(code, fault): (&Code, &Fault)| {
            json!(CatalogFault {
                id: *code,
                message: fault.message(*code),
                parameters: [code.parameter()],
                parameter_values: &fault.values,
            })
        };
        self.0.iter().map(error).collect()
    }
}

impl Fault {
    fn message(&self, code: Code) -> String {
        let text = self.text.clone().unwrap_or_else(|| code.message());
        if self.details.is_empty() {
            return text;
        }
        let details = self.details.get(..MAX_NAMED).unwrap_or(&self.details);
        let more = if self.details.len() > MAX_NAMED { " and more" } else { "" };
        match code {
            // The details are whole sentences.
            Code::UnableToCoerce => format!("{}{more}", details.join(". ")),
            _ => format!("{text}: {}{more}", details.join(", ")),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (code, fault)) in self.0.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { "; " }, fault.message(*code))?;
        }
        Ok(())
    }
}

/// Adds a text once, and at most [`MAX_ITEMS`] texts.
fn note(noted: &mut Vec<String>, text: &str) {
    if noted.len() < MAX_ITEMS && !noted.iter().any(|other| *other == text) {
        noted.push(text.to_owned());
    }
}

/// The first elements of an array, and their total number.
struct Elements<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ElementsVisitor;

        impl<'de> Visitor<'de> for ElementsVisitor {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < MAX_ITEMS
                    && let Some(element) = seq.next_element()?
                {
                    first.push(element);
                }
                let mut count = first.len();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Elements { first, count })
            }
        }

        deserializer.deserialize_seq(ElementsVisitor)
    }
}

/// Reads the `items` of a request. Without fields, checks everything that does not depend on the
/// catalog.
pub fn items<'a>(
    items: Option<&'a RawValue>,
    fields: Option<&Fields>,
) -> Result<Vec<Item<'a>>, Faults> {
    let mut faults = Faults::default();
    let text = items.map_or("null", RawValue::get);
    let Ok(Elements { first, count }) = json::parse::<Elements<'_>>(text) else {
        faults.note(Code::ItemArrayInvalid, kind_of(text), None);
        return Err(faults);
    };
    if count == 0 {
        faults.note(Code::ItemArrayInvalid, "[]", None);
    }
    if count > MAX_ITEMS {
        faults.note(Code::TooManyItems, &count.to_string(), None);
    }
    let mut ids = HashSet::with_capacity(first.len());
    let mut checked = Vec::with_capacity(first.len());
    for (index, element) in first.into_iter().enumerate() {
        let Some(item) = item(element.get(), index, fields, &mut faults) else { continue };
        if !ids.insert(item.id.clone()) {
            faults.note(Code::IdsNotUnique, &item.id, None);
        }
        checked.push(item);
    }
    if faults.0.is_empty() { Ok(checked) } else { Err(faults) }
}

/// Reads one item of a file.
pub fn line<'a>(json: &'a str, fields: &Fields) -> Result<Item<'a>, String> {
    // A syntax error concerns the line, not the item.
    json::parse::<IgnoredAny>(json).map_err(|why| format!("is not valid JSON: {why}"))?;
    let mut faults = Faults::default();
    let item = item(json.trim_ascii(), 0, Some(fields), &mut faults);
    item.filter(|_| faults.0.is_empty()).ok_or_else(|| faults.to_string())
}

/// Reads one item; none without a usable id.
fn item<'a>(
    json: &'a str,
    index: usize,
    fields: Option<&Fields>,
    faults: &mut Faults,
) -> Option<Item<'a>> {
    let position = index.to_string();
    let members = json::fields(json, MAX_JSON_FIELDS).ok();
    if members.as_ref().is_none_or(|members| members.repeated().is_some()) {
        faults.note(Code::ItemArrayInvalid, &position, None);
    }
    let members = members?;
    let id = id(&members, &position, faults);
    let label = id.as_deref().unwrap_or(&position).to_owned();
    let mut values = Vec::with_capacity(members.0.len());
    for (name, value) in members.0 {
        if name == ID {
            continue;
        }
        match check(&name, value, fields) {
            Ok(value) => values.push((name, value)),
            Err(details) => {
                for (code, detail) in details {
                    let value = if code == Code::ItemArrayInvalid { &position } else { &label };
                    faults.note(code, value, Some(detail));
                }
            }
        }
    }
    Some(Item { id: id?, values: Values(values) })
}

/// The item's id, if it is a string.
fn id<'a>(members: &JsonFields<'a>, position: &str, faults: &mut Faults) -> Option<Cow<'a, str>> {
    let json = members.get(ID).filter(|json| *json != "null");
    let Some(json) = json else {
        faults.note(Code::ItemsMissingIds, position, None);
        return None;
    };
    if !json.starts_with('"') {
        faults.note(Code::IdsNotStrings, json, None);
        return None;
    }
    let id = json::parse::<Text<'a>>(json).ok().map(|Text(id)| id);
    let shown = id.as_deref().unwrap_or(json);
    if characters(json) > MAX_NAME {
        faults.note(Code::IdsTooLarge, shown, None);
    }
    if id.as_ref().is_none_or(|id| id.is_empty() || !has_plain_characters(id)) {
        faults.note(Code::InvalidIds, shown, None);
    }
    id
}

/// Converts a value to the type of its field; without fields, keeps it. The error has every code
/// that applies, with the details of the field.
fn check<'a>(
    name: &str,
    value: &'a RawValue,
    fields: Option<&Fields>,
) -> Result<Cow<'a, RawValue>, Vec<(Code, String)>> {
    let json = value.get();
    let kind = fields.map(|fields| fields.kind(name));
    let is_too_deep = json::depth(json) > MAX_LEVELS;
    // Recursive readers must not get a value that is nested too deeply.
    let readable = if is_too_deep { Ok(()) } else { json::check_readable(json) };
    let is_too_large = characters(json) > MAX_CHARACTERS;
    let has_duplicate = !is_too_deep && !is_too_large && json::duplicate_name(json).is_some();
    let coerced = match kind.flatten() {
        Some(kind) if json != "null" => coerce(kind, value),
        _ => Some(Cow::Borrowed(value)),
    };
    let coerced = coerced.filter(|_| readable.is_ok());
    let is_reserved_name = |name: &str| name.contains(is_reserved);
    let shown = format!("{:?}", beginning(name, MAX_NAME));
    let reserved = if is_reserved_name(name) {
        Some(shown.clone())
    } else {
        json::find_name(json, is_reserved_name)
            .map(|key| format!("{:?} in {}", beginning(&key, MAX_NAME), beginning(name, MAX_NAME)))
    };
    let uncoerced = || match (&readable, kind.flatten()) {
        (Ok(()), Some(kind)) => {
            let compact = json::compacted(json);
            let given = beginning(&compact, MAX_SHOWN);
            let expected = with_article(kind);
            let reason = (kind == Type::Time).then(|| time_error(value)).flatten();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            format!("{shown} is {expected} field; {given} cannot be read as {expected}{reason}")
        }
        (Err(why), _) => format!("The value of {shown} cannot be stored: {why}"),
        (Ok(()), None) => shown.clone(),
    };
    let name_if = |has_fault: bool| has_fault.then(|| shown.clone());
    let details = [
        (Code::ItemArrayInvalid, name_if(has_duplicate)),
        (Code::InvalidFields, name_if(kind == Some(None))),
        (Code::InvalidKeys, reserved),
        (Code::TooDeepNesting, name_if(is_too_deep)),
        (Code::ItemsTooLarge, name_if(is_too_large)),
        (Code::UnableToCoerce, coerced.is_none().then(uncoerced)),
    ];
    let details = details.into_iter().filter_map(|(code, detail)| Some((code, detail?)));
    let details: Vec<_> = details.collect();
    coerced.filter(|_| details.is_empty()).ok_or(details)
}

fn with_article(kind: Type) -> String {
    match kind {
        Type::Object | Type::Array => format!("an {}", kind.name()),
        _ => format!("a {}", kind.name()),
    }
}

/// The characters of a string, or of the compact JSON of any other value.
fn characters(json: &str) -> usize {
    match json.as_bytes().first() {
        Some(b'"') => json::parse::<Length>(json).map_or(usize::MAX, |Length(count)| count),
        _ => {
            let mut count = 0;
            json::compact(json, |piece| count += piece.chars().count());
            count
        }
    }
}

/// The kind of a value, for an error.
fn kind_of(json: &str) -> &'static str {
    match json.trim_ascii_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'-' | b'0'..=b'9') => "a number",
        Some(b'[') => "an invalid array",
        _ => "null",
    }
}

#[cfg(test)]
mod tests;
