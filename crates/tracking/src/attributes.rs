//! Attribute objects: fields of the profile, and custom attributes.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;

use super::limits::READ_ONLY;
use super::message::{Attributes, Entries, Json};
use super::object::{Reader, ShortName};
use super::operators;
use super::values::Checked;
use kit::json::{self, JsonFields};
use people::users::profile::{Field, FieldError, check};

const CUSTOM: &str = "custom_attributes";

/// Parses an attribute object; none if it is rejected.
pub(super) fn read<'a>(reader: &mut Reader<'a>) -> Option<Attributes<'a>> {
    let (user, email_identifies) = (reader.user(), reader.is_by_email());
    let JsonFields(members) = std::mem::take(&mut reader.members);
    let mut changes = Changes {
        reader,
        email_identifies,
        names: HashSet::new(),
        fields: Entries::default(),
        custom: Entries::default(),
        inc: Entries::default(),
        add: Entries::default(),
        remove: Entries::default(),
    };
    for (name, value) in members {
        changes.member(name, value);
    }
    let Changes { fields, custom, inc, add, remove, .. } = changes;
    let (user, update_only) = user?;
    let groups = Entries::default();
    Some(Attributes { user, update_only, fields, custom, inc, add, remove, groups })
}

struct Changes<'r, 'a> {
    reader: &'r mut Reader<'a>,
    email_identifies: bool,
    /// Names of the custom attributes read so far: they can be in two places.
    names: HashSet<Cow<'a, str>>,
    fields: Entries<'a>,
    custom: Entries<'a>,
    inc: Entries<'a>,
    add: Entries<'a>,
    remove: Entries<'a>,
}

impl<'a> Changes<'_, 'a> {
    fn member(&mut self, name: Cow<'a, str>, value: &'a RawValue) {
        match name.as_ref() {
            "external_id" | "service_id" | "user_alias" | "_update_existing_only" => {}
            "email" if self.email_identifies => {}
            CUSTOM => self.all_custom(value),
            "_merge_objects" => self.switch("_merge_objects", value),
            "push_token_import" => self.switch("push_token_import", value),
            read_only if READ_ONLY.contains(&read_only) => self.reject_read_only(read_only, value),
            other => match Field::from_name(other) {
                Some(field) => self.field(field, value),
                None => self.custom(name, value),
            },
        }
    }

    fn reject_read_only(&mut self, name: &str, value: &RawValue) {
        let name = READ_ONLY.iter().find(|read_only| **read_only == name);
        if let Some(name) = name.filter(|_| value.get() != "null") {
            self.reader.reject(name, "cannot be set");
        }
    }

    /// A switch that other services of this family have. Here it can only be false.
    fn switch(&mut self, name: &'static str, value: &RawValue) {
        if !matches!(value.get(), "false" | "null") {
            self.reader.reject(name, "is not supported: leave it out, or set it to false");
        }
    }

    fn field(&mut self, field: Field, value: &'a RawValue) {
        // Unknown nested fields are ignored, as everywhere.
        let value = check::value(field, value.get(), &mut Vec::new()).and_then(|value| {
            let json = value.map_or("null".into(), Cow::Owned);
            Json::compact(json).map_err(|why| FieldError::new(field.name(), why))
        });
        match value {
            Ok(value) => self.fields.0.push((field.name().into(), value)),
            Err(error) => self.reader.reject_at(field.name(), error.field, error.reason),
        }
    }

    /// Reads the field `custom_attributes`: each of its fields is a custom attribute.
    fn all_custom(&mut self, value: &'a RawValue) {
        if value.get() == "null" {
            return;
        }
        match json::fields(value.get(), json::MAX_JSON_FIELDS) {
            Ok(JsonFields(members)) => {
                members.into_iter().for_each(|(name, value)| self.custom(name, value));
            }
            Err(why) => self.reader.reject(CUSTOM, why),
        }
    }

    fn custom(&mut self, name: Cow<'a, str>, value: &'a RawValue) {
        let read = check::attribute_name(&name).and_then(|()| custom_value(value.get()));
        let read = read.and_then(|read| {
            let is_new = self.names.insert(name.clone());
            if is_new { Ok(read) } else { Err("duplicate field".to_owned()) }
        });
        match read {
            Ok((change, value)) => self.entries(change).0.push((name, value)),
            Err(why) => {
                self.reader.reject_at(CUSTOM, format_args!("{CUSTOM}.{}", ShortName(&name)), why);
            }
        }
    }

    fn entries(&mut self, change: Change) -> &mut Entries<'a> {
        match change {
            Change::Set => &mut self.custom,
            Change::Inc => &mut self.inc,
            Change::Add => &mut self.add,
            Change::Remove => &mut self.remove,
        }
    }
}

fn custom_value(json: &str) -> Checked<(Change, Json<'_>)> {
    json::check(json)?;
    let (change, value) = change(json)?;
    let value = match operators::resolved(value)? {
        Cow::Borrowed(value) => json::compacted(value),
        Cow::Owned(value) => Cow::Owned(json::compacted(&value).into_owned()),
    };
    Ok((change, Json::compact(value)?))
}

enum Change {
    Set,
    Inc,
    Add,
    Remove,
}

/// The change that a custom attribute requests. An object with the single field `inc`, `add`,
/// `$add` or `remove` changes the stored value; anything else is the new value.
fn change(json: &str) -> Checked<(Change, &str)> {
    if !json.starts_with('{') {
        return Ok((Change::Set, json));
    }
    const CHANGES: [&str; 4] = ["inc", "add", "$add", "remove"];
    // The JSON is valid, so this error means that it has more fields than there are kinds of
    // changes.
    let Ok(JsonFields(members)) = json::fields(json, CHANGES.len()) else {
        return Ok((Change::Set, json));
    };
    if members.is_empty() || !members.iter().all(|(name, _)| CHANGES.contains(&name.as_ref())) {
        return Ok((Change::Set, json));
    }
    let [(name, value)] = members.as_slice() else {
        return Err("expected one of inc, add, $add and remove".to_owned());
    };
    let (change, first_characters, expected) = match name.as_ref() {
        "inc" => (Change::Inc, "-0123456789", "a number"),
        "add" | "$add" => (Change::Add, "[", "an array"),
        _ => (Change::Remove, "[", "an array"),
    };
    if !value.get().starts_with(|first| first_characters.contains(first)) {
        return Err(format!("{name}: expected {expected}"));
    }
    Ok((change, value.get()))
}
