//! Converts a stored user to a line of an export: the requested fields of its document unchanged,
//! and fields computed from its activity.
//!
//! Reads the document once without building a tree: requested values are copied as text, the rest
//! is skipped.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::Date;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Serializer as _, de};
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
use proof::fields::{
    ACTIVITY_FIELDS, CUSTOM_ATTRIBUTES, CUSTOM_EVENTS, FieldSet, PURCHASES, SERVICE_ID,
    TOTAL_REVENUE,
};

const CREATED_AT: &str = "created_at";
const UNINSTALLED_AT: &str = "uninstalled_at";
const APPS: &str = "apps";

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

/// Creates the lines of one export.
#[derive(Clone, Debug)]
pub struct Projector {
    /// The fields read from the document.
    members: Vec<&'static str>,
    /// The name of `service_id` in lines.
    service_id: String,
    /// The custom attributes requested individually, with their names as JSON.
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
        Self {
            members: fields.members().filter(|member| !ACTIVITY_FIELDS.contains(member)).collect(),
            service_id: fields.service_id_name().to_owned(),
            attributes: fields
                .attributes()
                .iter()
                .map(|name| (name.clone(), quoted(name)))
                .collect(),
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
        if !has_service_id && self.members.contains(&SERVICE_ID) {
            serde_json::to_writer(line.member(&self.service_id), &user.service_id)?;
        }
        Ok(())
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

    /// Starts a custom attribute, whose name is already JSON.
    fn attribute(&mut self, name: &str) -> &mut Vec<u8> {
        self.begin(&[name, ":"])
    }

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
        while let Some(member) = map.next_key_seed(MemberName(self.projector))? {
            match member {
                Some(CUSTOM_ATTRIBUTES) if !self.projector.attributes.is_empty() => {
                    map.next_value_seed(Attributes {
                        names: &self.projector.attributes,
                        line: self.line,
                        is_compact: self.is_compact,
                    })?;
                }
                Some(member) => self.copy(member, map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self.has_service_id)
    }
}

impl Document<'_, '_, '_> {
    fn copy(&mut self, member: &'static str, value: &RawValue) {
        if has_data(value.get()) {
            let value = in_export_form(member, value.get());
            let is_service_id = member == SERVICE_ID;
            let name = if is_service_id { &self.projector.service_id } else { member };
            copy_value(&value, self.is_compact, self.line.member(name));
            self.has_service_id |= is_service_id;
        }
    }
}

/// Reads a key: the field with that name if it is requested.
struct MemberName<'p>(&'p Projector);

impl<'de> DeserializeSeed<'de> for MemberName<'_> {
    type Value = Option<&'static str>;

    fn deserialize<D: de::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberName<'_> {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        let Self(projector) = self;
        let requested = projector.members.iter().copied().find(|member| *member == name);
        let in_part = name == CUSTOM_ATTRIBUTES && !projector.attributes.is_empty();
        Ok(requested.or(in_part.then_some(CUSTOM_ATTRIBUTES)))
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
                Some(name) => {
                    let value: &RawValue = map.next_value()?;
                    let value = json::keep_last_duplicates(value.get());
                    copy_value(&value, self.is_compact, object.attribute(name));
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

/// Reads the name of a custom attribute: the name as JSON if it is requested.
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

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A field's value in the current format, whichever version stored it.
fn in_export_form<'v>(member: &str, value: &'v str) -> Cow<'v, str> {
    let is_in_form = match member {
        // Their own names are unique. Only nested objects can have duplicate names, for which some
        // readers reject the whole file.
        CUSTOM_ATTRIBUTES if value.get(1..).is_some_and(|inside| inside.contains('{')) => {
            return json::keep_last_duplicates(value);
        }
        CREATED_AT | UNINSTALLED_AT => is_time(value),
        APPS => value.match_indices(USED).all(|(at, _)| {
            let rest = value[at + USED.len()..].strip_prefix(':');
            rest.and_then(|rest| rest.get(..TIME_BYTES)).is_some_and(is_time)
        }),
        _ => true,
    };
    let checked = || check::value(Field::from_name(member)?, value, &mut Vec::new()).ok()?;
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
    serde_json::Serializer::new(line.member(member)).collect_seq(summaries)
}

#[cfg(test)]
mod tests;
