//! The properties of events and purchases (docs/reference/api/track.md).

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::formats::PROPERTIES;
use super::limits::MAX_NESTED_BYTES;
use super::message::Json;
use super::object::{Reader, ShortName};
use super::values::Checked;
use kit::clock::is_date_and_time;
use kit::json::{self, JsonFields};
use kit::words::check_short;
use people::users::profile::check;

/// Parses the field `properties` to compact JSON without nulls. None if there are no properties, or
/// if they are rejected.
pub(super) fn read<'a>(reader: &mut Reader<'a>, reserved: &[&str]) -> Option<Json<'a>> {
    let (json, members) = reader.optional(PROPERTIES, |json: &'a str| {
        Ok((json, json::unique_fields(json, json::MAX_JSON_FIELDS)?))
    })?;
    let JsonFields(members) = members;
    let compact = without_nulls(json, &members);
    let is_nested = |value: &RawValue| value.get().starts_with(['[', '{']);
    if compact.len() > MAX_NESTED_BYTES && members.iter().any(|(_, value)| is_nested(value)) {
        let why =
            format!("can have at most {MAX_NESTED_BYTES} bytes if they contain arrays or objects");
        reader.reject(PROPERTIES, why);
        return None;
    }
    for (name, value) in &members {
        if let Err(why) = check_name(name, reserved).and_then(|()| check_value(value.get())) {
            reader.reject_at(PROPERTIES, format_args!("{PROPERTIES}.{}", ShortName(name)), why);
        }
    }
    if compact == "{}" {
        return None;
    }
    Json::compact(compact).map_err(|why| reader.reject(PROPERTIES, why)).ok()
}

fn check_name(name: &str, reserved: &[&str]) -> Checked<()> {
    if name.is_empty() {
        return Err("a property has an empty name".to_owned());
    }
    if name.starts_with('$') {
        return Err("the name begins with a dollar sign".to_owned());
    }
    if reserved.contains(&name) {
        return Err("the name is reserved".to_owned());
    }
    check_short(name).map_err(|why| format!("the name {why}"))
}

/// Checks a value by its first byte; the value is valid JSON.
fn check_value(json: &str) -> Checked<()> {
    match json.as_bytes().first() {
        Some(b'"') => check::text(json).map(|_| ()),
        Some(b'[' | b'{') => json::check_texts(json, |text, in_array| {
            if in_array && is_date_and_time(text) {
                return Err("has a datetime inside an array");
            }
            Ok(())
        }),
        Some(b't' | b'f' | b'n') => Ok(()),
        _ => json::check(json),
    }
}

/// The fields that are not null, as compact JSON; borrows the text if it has no nulls.
fn without_nulls<'a>(json: &'a str, members: &[(Cow<'a, str>, &'a RawValue)]) -> Cow<'a, str> {
    let is_null = |value: &RawValue| value.get() == "null";
    if !members.iter().any(|(_, value)| is_null(value)) {
        return json::compacted(json);
    }
    let mut out = String::with_capacity(json.len());
    for (name, value) in members.iter().filter(|(_, value)| !is_null(value)) {
        out.push(if out.is_empty() { '{' } else { ',' });
        json::push_string(&mut out, name);
        out.push(':');
        json::push_compact(&mut out, value.get());
    }
    out.push_str(if out.is_empty() { "{}" } else { "}" });
    Cow::Owned(out)
}
