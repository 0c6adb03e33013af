//! Converts a stored user to a line of an export: the requested fields of its document unchanged,
//! and fields computed from its activity.
//!
//! Reads the document once without building a tree: requested values are copied as text, the rest
//! is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::Date;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Plan;
use kit::clock;
use kit::json;
use kit::money;
use kit::retry::Retry as _;
use people::users::activity::{Activity, ActivityError, Summary};
use people::users::profile::{Field, check};
use people::users::scan::UserRow;
use proof::fields::{CUSTOM_ATTRIBUTES, CUSTOM_EVENTS, FieldSet, PURCHASES, TOTAL_REVENUE};

/// The end of the names of an app's times.
const USED: &str = "_used\"";

/// Bytes of a time in the format of exports, with its quotes.
const TIME_BYTES: usize = "\"2021-06-28T17:02:43.032Z\"".len();

/// A user without a line, and the reason, which quotes no stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub service_id: Uuid,
    pub reason: String,
    /// Not an error: a newer program wrote data that this one does not know.
    pub needs_newer_version: bool,
}

/// A field that is copied from the document.
#[derive(Clone, Debug)]
struct CopiedField {
    field: Field,
    /// The beginnings of the field in lines: `service_id` may have two names there.
    keys: Vec<String>,
}

/// Creates the lines of one export.
#[derive(Clone, Debug)]
pub struct Projector {
    /// The fields read from the document, in the order of documents.
    fields: Vec<CopiedField>,
    /// The custom attributes requested individually, with the beginnings of their fields.
    attributes: BTreeMap<String, String>,
    purchases: bool,
    custom_events: bool,
    total_revenue: bool,
    first_day: Date,
    last_day: Date,
    currency: String,
    exchange_rates: BTreeMap<String, i64>,
}

impl Projector {
    pub fn new(fields: &FieldSet, plan: &Plan) -> Self {
        let days = (plan.first_day, plan.last_day);
        Self::for_days(fields, days, &plan.currency, &plan.exchange_rates)
    }

    /// Creates lines with the activity from the first to the last of these days.
    pub fn for_days(
        fields: &FieldSet,
        (first_day, last_day): (Date, Date),
        currency: &str,
        exchange_rates: &BTreeMap<String, i64>,
    ) -> Self {
        let copied = |field: Field| {
            let keys = match field {
                Field::ServiceId => fields.service_id_names().map(key).collect(),
                _ => vec![key(field.name())],
            };
            CopiedField { field, keys }
        };
        let requested = Field::ALL.into_iter().filter(|field| fields.wants(field.name()));
        Self {
            fields: requested.map(copied).collect(),
            attributes: fields.attributes().iter().map(|name| (name.clone(), key(name))).collect(),
            purchases: fields.wants(PURCHASES),
            custom_events: fields.wants(CUSTOM_EVENTS),
            total_revenue: fields.wants(TOTAL_REVENUE),
            first_day,
            last_day,
            currency: currency.to_owned(),
            exchange_rates: exchange_rates.clone(),
        }
    }

    /// Appends the line of `user` with its line break: the document's fields in order, then those
    /// from activity. Appends nothing for an unreadable user.
    pub fn line(&self, user: &UserRow<'_>, out: &mut Vec<u8>) -> Result<(), Broken> {
        let start = out.len();
        self.write(user, out).map_err(|reason| {
            out.truncate(start);
            let needs_newer_version =
                matches!(&reason, Reason::Activity(error) if error.needs_newer_version());
            Broken { service_id: user.service_id, reason: reason.to_string(), needs_newer_version }
        })
    }

    fn write(&self, user: &UserRow<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
        let mut line = Object::open(out);
        self.document(user, &mut line)?;
        if let Some(activity) = user.activity.filter(|_| self.needs_activity()) {
            self.activity(&Activity::decode(activity)?, &mut line)?;
        }
        line.close();
        out.push(b'\n');
        Ok(())
    }

    fn document(&self, user: &UserRow<'_>, line: &mut Object<'_>) -> Result<(), Reason> {
        // JSON strings have no control characters, so these are line breaks or tabs between tokens,
        // which must not be in a line. Without an early exit the loop is vectorized.
        let is_compact = !user.doc.bytes().fold(false, |found, byte| found | (byte < b' '));
        let mut json = serde_json::Deserializer::from_str(user.doc);
        let document = Document { projector: self, line, is_compact, has_service_id: false };
        let has_service_id = document.deserialize(&mut json)?;
        json.end()?;
        if !has_service_id
            && let Some(copied) = self.fields.iter().find(|copied| copied.field == Field::ServiceId)
        {
            for key in &copied.keys {
                serde_json::to_writer(line.begin(&[key]), &user.service_id)?;
            }
        }
        Ok(())
    }

    /// The requested part of a field of the document. The search begins at the index `next`, which
    /// becomes that after the found field: documents have their fields in order.
    fn requested(&self, name: &str, next: &mut usize) -> Option<Requested<'_>> {
        if name == CUSTOM_ATTRIBUTES && !self.attributes.is_empty() {
            return Some(Requested::Attributes);
        }
        let mut indexes = (*next..self.fields.len()).chain(0..*next);
        let index = indexes.find(|index| self.fields[*index].field.name() == name)?;
        *next = index + 1;
        Some(Requested::Whole(&self.fields[index]))
    }

    fn needs_activity(&self) -> bool {
        self.purchases || self.custom_events || self.total_revenue
    }

    fn activity(&self, activity: &Activity<'_>, line: &mut Object<'_>) -> Result<(), Reason> {
        if self.purchases {
            summaries(PURCHASES, activity.purchases(self.first_day, self.last_day), line)?;
        }
        if self.custom_events {
            summaries(CUSTOM_EVENTS, activity.events(self.first_day, self.last_day), line)?;
        }
        if self.total_revenue
            && let Some(total) = activity.total_revenue(&self.currency, &self.exchange_rates)
        {
            for currency in total.uncounted {
                metrics::counter!(
                    "longshore_export_revenue_without_rate_total",
                    "currency" => currency.to_owned()
                )
                .increment(1);
            }
            line.member(TOTAL_REVENUE)
                .extend_from_slice(money::format(total.millionths).as_bytes());
        }
        Ok(())
    }
}

/// Why a line cannot be created.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("{0}")]
    Activity(#[from] ActivityError),
    #[error("the document is {problem} (line {}, column {})", .error.line(), .error.column())]
    Document { problem: &'static str, error: serde_json::Error },
}

impl From<serde_json::Error> for Reason {
    fn from(error: serde_json::Error) -> Self {
        let problem = match error.classify() {
            serde_json::error::Category::Eof => "truncated JSON",
            serde_json::error::Category::Data => "not an object where one is expected",
            _ => "not JSON",
        };
        Self::Document { problem, error }
    }
}

/// A JSON object in progress.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    /// Where its fields begin.
    start: usize,
}

impl<'o> Object<'o> {
    fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        let start = out.len();
        Self { out, start }
    }

    /// Starts a field of the API, whose name needs no escapes; append its value to the returned
    /// buffer.
    fn member(&mut self, name: &str) -> &mut Vec<u8> {
        self.begin(&["\"", name, "\":"])
    }

    /// Starts a field with a [`key`], given in pieces.
    fn begin(&mut self, pieces: &[&str]) -> &mut Vec<u8> {
        if !self.is_empty() {
            self.out.push(b',');
        }
        pieces.iter().for_each(|piece| self.out.extend_from_slice(piece.as_bytes()));
        self.out
    }

    fn is_empty(&self) -> bool {
        self.out.len() == self.start
    }

    fn close(self) {
        self.out.push(b'}');
    }
}

/// The requested part of a field of the document.
enum Requested<'p> {
    Whole(&'p CopiedField),
    /// The custom attributes requested individually.
    Attributes,
}

/// Reads a document; returns whether it contains a service_id.
struct Document<'p, 'l, 'o> {
    projector: &'p Projector,
    line: &'l mut Object<'o>,
    is_compact: bool,
    has_service_id: bool,
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_, '_> {
    type Value = bool;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a user's document")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        let (projector, mut next) = (self.projector, 0);
        while let Some(requested) = map.next_key_seed(FieldName { projector, next: &mut next })? {
            match requested {
                Some(Requested::Whole(field)) => self.copy(field, map.next_value()?),
                Some(Requested::Attributes) => {
                    map.next_value_seed(Attributes {
                        names: &projector.attributes,
                        line: self.line,
                        is_compact: self.is_compact,
                    })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self.has_service_id)
    }
}

impl Document<'_, '_, '_> {
    fn copy(&mut self, CopiedField { field, keys }: &CopiedField, value: &RawValue) {
        if has_data(value.get()) {
            let value = in_export_form(*field, value.get());
            for key in keys {
                copy_value(&value, self.is_compact, self.line.begin(&[key]));
            }
            self.has_service_id |= *field == Field::ServiceId;
        }
    }
}

/// Reads a field's name: what is requested of the field.
struct FieldName<'p, 'n> {
    projector: &'p Projector,
    /// Where the [search](Projector::requested) begins.
    next: &'n mut usize,
}

impl<'de, 'p> DeserializeSeed<'de> for FieldName<'p, '_> {
    type Value = Option<Requested<'p>>;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for FieldName<'p, '_> {
    type Value = Option<Requested<'p>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.projector.requested(name, self.next))
    }
}

/// Reads `custom_attributes` and copies those requested individually.
struct Attributes<'p, 'l, 'o> {
    names: &'p BTreeMap<String, String>,
    line: &'l mut Object<'o>,
    is_compact: bool,
}

impl<'de> DeserializeSeed<'de> for Attributes<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Attributes<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of custom attributes")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let before = self.line.out.len();
        let mut object = Object::open(self.line.member(CUSTOM_ATTRIBUTES));
        while let Some(name) = map.next_key_seed(AttributeName(self.names))? {
            match name {
                Some(key) => {
                    let value: &RawValue = map.next_value()?;
                    let value = json::keep_last_duplicates(value.get());
                    copy_value(&value, self.is_compact, object.begin(&[key]));
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if object.is_empty() {
            self.line.out.truncate(before);
        } else {
            object.close();
        }
        Ok(())
    }
}

/// Reads the name of a custom attribute: the beginning of its field if it is requested.
struct AttributeName<'p>(&'p BTreeMap<String, String>);

impl<'de, 'p> DeserializeSeed<'de> for AttributeName<'p> {
    type Value = Option<&'p str>;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for AttributeName<'p> {
    type Value = Option<&'p str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a custom attribute's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.get(name).map(String::as_str))
    }
}

/// Fields without data are absent; clients read absent fields as null, false or empty
/// (docs/reference/api/user-record.md).
fn has_data(value: &str) -> bool {
    match value.as_bytes() {
        b"null" | b"\"\"" => false,
        [b'[' | b'{', inside @ .., _] => !inside.trim_ascii().is_empty(),
        _ => true,
    }
}

/// The beginning of a field with this name.
fn key(name: &str) -> String {
    format!("{}:", serde_json::Value::from(name))
}

/// A field's value in the current format, whichever version stored it.
fn in_export_form(field: Field, value: &str) -> Cow<'_, str> {
    let is_in_form = match field {
        // Their own names are unique. Only nested objects can have duplicate names, for which some
        // readers reject the whole file.
        Field::CustomAttributes => return json::keep_last_nested_duplicates(value),
        Field::CreatedAt | Field::UninstalledAt => is_time(value),
        // One byte is found faster than a text.
        Field::Apps => value.match_indices('_').all(|(at, _)| {
            value[at..].strip_prefix(USED).is_none_or(|rest| {
                let rest = rest.strip_prefix(':');
                rest.and_then(|rest| rest.get(..TIME_BYTES)).is_some_and(is_time)
            })
        }),
        _ => true,
    };
    let checked = || check::value(field, value, &mut Vec::new()).ok()?;
    if is_in_form {
        Cow::Borrowed(value)
    } else {
        // Unreadable values stay unchanged.
        checked().map_or(Cow::Borrowed(value), Cow::Owned)
    }
}

/// Whether JSON is a time in the format of exports.
fn is_time(json: &str) -> bool {
    let text = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    text.is_some_and(clock::is_formatted)
}

fn copy_value(value: &str, is_compact: bool, out: &mut Vec<u8>) {
    if is_compact {
        out.extend_from_slice(value.as_bytes());
    } else {
        json::compact(value, |piece| out.extend_from_slice(piece.as_bytes()));
    }
}

fn summaries<'a>(
    member: &'static str,
    summaries: impl Iterator<Item = Summary<'a>>,
    line: &mut Object<'_>,
) -> serde_json::Result<()> {
    let mut summaries = summaries.peekable();
    if summaries.peek().is_none() {
        return Ok(());
    }
    let out = line.member(member);
    for (index, summary) in summaries.enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        push_summary(summary, out)?;
    }
    out.push(b']');
    Ok(())
}

/// Appends a summary as it serializes, in less time.
fn push_summary(summary: Summary<'_>, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let Summary { name, first, last, count } = summary;
    out.extend_from_slice(b"{\"name\":");
    serde_json::to_writer(&mut *out, name)?;
    out.extend_from_slice(b",\"first\":\"");
    clock::push_time(out, first);
    out.extend_from_slice(b"\",\"last\":\"");
    clock::push_time(out, last);
    out.extend_from_slice(b"\",\"count\":");
    serde_json::to_writer(&mut *out, &count)?;
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests;
