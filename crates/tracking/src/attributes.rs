//! Attribute objects: fields of the profile, and custom attributes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde_json::value::RawValue;

use super::limits::READ_ONLY;
use super::message::{Attributes, Entries, Json};
use super::object::{Reader, ShortName};
use super::operators;
use super::values::Checked;
use gateway::warnings::WarningCode;
use kit::json::{self, JsonFields};
use people::users::consent::{self, UNSUBSCRIBED, is_empty_state};
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
        groups: Entries::default(),
    };
    for (name, value) in members {
        changes.member(name, value);
    }
    let Changes { fields, custom, inc, add, remove, groups, .. } = changes;
    let (user, update_only) = user?;
    Some(Attributes { user, update_only, fields, custom, inc, add, remove, groups, address: None })
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
    groups: Entries<'a>,
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
        let mut ignored = Vec::new();
        let value = check::value(field, value.get(), &mut ignored).and_then(|value| {
            let lacks_state = ignored.iter().any(|name| name == check::NO_GROUP_STATE);
            let json = value.map_or("null".into(), Cow::Owned);
            let states = if lacks_state { group_states(&json) } else { Ok(Entries::default()) };
            let checked = states.and_then(|states| Ok((Json::compact(json)?, lacks_state, states)));
            checked.map_err(|why| FieldError::new(field.name(), why))
        });
        match value {
            // A state that is empty removes no state, so the list does not remove those of others.
            Ok((_, true, states)) => {
                self.reader.ignore(check::NO_GROUP_STATE, WarningCode::NoState);
                self.groups = states;
            }
            Ok((value, ..)) if is_empty_state(field, value.get()) => {
                self.reader.ignore(field.name(), WarningCode::NoState);
            }
            Ok((value, ..)) => self.fields.0.push((field.name().into(), value)),
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
        let read = check::attribute_name(&name).and_then(|()| custom_changes(value.get()));
        let read = read.and_then(|read| {
            let is_new = self.names.insert(name.clone());
            if is_new { Ok(read) } else { Err("duplicate field".to_owned()) }
        });
        match read {
            Ok(changes) => {
                for (change, value) in changes {
                    self.entries(change).0.push((name.clone(), value));
                }
            }
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

/// The states of a list of groups, for each group one: of several, `unsubscribed`.
fn group_states(list: &str) -> Checked<Entries<'static>> {
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    for (id, state) in consent::groups(list) {
        let known = states.entry(id).or_default();
        if known != UNSUBSCRIBED {
            *known = state;
        }
    }
    let entry = |(id, state): (String, String)| -> Checked<_> {
        Ok((Cow::Owned(id), Json::compact(Cow::Owned(json::quoted(&state)))?))
    };
    Ok(Entries(states.into_iter().map(entry).collect::<Checked<_>>()?))
}

/// The changes of a custom attribute, in the stored form.
fn custom_changes(json: &str) -> Checked<Vec<(Change, Json<'_>)>> {
    json::check(json)?;
    let mut changes = Vec::new();
    for (change, value) in requested(json)? {
        changes.push((change, stored(value)?));
    }
    // Then their order has no effect: a worker plans both before it applies them.
    if let [(Change::Add, added), (Change::Remove, removed)] = changes.as_mut_slice() {
        *added = without(added, removed)?;
    }
    Ok(changes)
}

fn stored(value: &str) -> Checked<Json<'_>> {
    Json::compact(match operators::resolved(value)? {
        Cow::Borrowed(value) => json::compacted(value),
        Cow::Owned(value) => Cow::Owned(json::compacted(&value).into_owned()),
    })
}

/// The elements to add, without those to remove.
fn without(added: &Json<'_>, removed: &Json<'_>) -> Checked<Json<'static>> {
    let removed: Vec<&RawValue> = json::parse(removed.get())?;
    let removed: HashSet<Cow<'_, str>> =
        removed.into_iter().map(|element| json::canonical(element.get())).collect();
    let added: Vec<&RawValue> = json::parse(added.get())?;
    let added = added.into_iter().map(RawValue::get);
    let left: Vec<&str> =
        added.filter(|element| !removed.contains(&*json::canonical(element))).collect();
    Json::compact(Cow::Owned(format!("[{}]", left.join(","))))
}

/// In the order in which [`requested`] returns them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Set,
    Inc,
    Add,
    Remove,
}

/// The changes that a custom attribute requests. An object with only `inc`, or with `add` (or
/// `$add`), `remove` or both, changes the stored value; anything else is the new value.
fn requested(json: &str) -> Checked<Vec<(Change, &str)>> {
    if !json.starts_with('{') {
        return Ok(vec![(Change::Set, json)]);
    }
    const CHANGES: [&str; 4] = ["inc", "add", "$add", "remove"];
    // The JSON is valid, so this error means that it has more fields than there are kinds of
    // changes.
    let Ok(JsonFields(members)) = json::fields(json, CHANGES.len()) else {
        return Ok(vec![(Change::Set, json)]);
    };
    if members.is_empty() || !members.iter().all(|(name, _)| CHANGES.contains(&name.as_ref())) {
        return Ok(vec![(Change::Set, json)]);
    }
    let mut changes = Vec::with_capacity(members.len());
    for (name, value) in members {
        let (change, first_characters, expected) = match name.as_ref() {
            "inc" => (Change::Inc, "-0123456789", "a number"),
            "add" | "$add" => (Change::Add, "[", "an array"),
            _ => (Change::Remove, "[", "an array"),
        };
        if !value.get().starts_with(|first| first_characters.contains(first)) {
            return Err(format!("{name}: expected {expected}"));
        }
        changes.push((change, value.get()));
    }
    changes.sort_unstable_by_key(|(change, _)| *change);
    match changes.as_slice() {
        [_] | [(Change::Add, _), (Change::Remove, _)] => Ok(changes),
        _ => Err("expected one of inc, add, $add and remove, or add and remove".to_owned()),
    }
}
