//! The allowed values of each field (docs/reference/api/user-record.md).

use std::borrow::Cow;

use jiff::civil::Date;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Alias, Field, FieldError, codes};
use crate::users::BUCKETS;
use kit::clock::normalize_time;
use kit::json::{self, JsonFields, quoted};
use kit::phone;
use kit::words::{about_field, check_identifier, check_short};
use kit::zones;

pub use kit::email_address::{check as email, check_new as new_email, is_invisible};

pub const SUBSCRIPTION: &[&str] = &["opted_in", "subscribed", "unsubscribed"];
pub const GROUP_STATES: &[&str] = &["subscribed", "unsubscribed"];
pub const TOKEN_KINDS: &[&str] = &["alert", "live_activity"];
pub const GENDERS: &[&str] = &["M", "F", "O", "N", "P", "nil"];

/// The stored form of a field's value; none if it has no data.
pub fn value(
    field: Field,
    json: &str,
    ignored: &mut Vec<String>,
) -> Result<Option<String>, FieldError> {
    if is_empty(json) {
        return Ok(None);
    }
    let mut object = |shape| objects(field.name(), json, shape, ignored);
    match field {
        Field::Apps => return object(APP),
        Field::Devices => return object(DEVICE),
        Field::PushTokens => return object(PUSH_TOKEN),
        Field::SubscriptionGroups => return object(SUBSCRIPTION_GROUP),
        Field::CustomAttributes => return custom_attributes(json),
        _ => {}
    }
    let checked = match field {
        Field::UserAliases => aliases(json).map(|aliases| match aliases.as_slice() {
            [] => None,
            aliases => Some(aliases_json(aliases)),
        }),
        Field::DeprecatedExternalIds => json::parse::<Vec<&RawValue>>(json).and_then(|ids| {
            let ids = ids.iter().map(|id| identifier(id.get()).map(Cow::into_owned));
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            Ok((!ids.is_empty()).then(|| texts_json(&ids)))
        }),
        Field::LastCoordinates => last_coordinates(json).map(Some),
        Field::CurrentLocation => current_location(json).map(Some),
        Field::RandomBucket => bucket(json).map(|bucket| Some(bucket.to_string())),
        Field::ServiceId => text(json).and_then(|text| {
            Uuid::parse_str(&text)
                .map(|id| Some(quoted(&id.to_string())))
                .map_err(|_| "expected a UUID".to_owned())
        }),
        Field::CreatedAt
        | Field::UninstalledAt
        | Field::DateOfFirstSession
        | Field::DateOfLastSession => {
            text(json).and_then(normalize_time).map(|time| Some(quoted(&time)))
        }
        Field::TimeZone => text(json).and_then(|text| {
            let name = zones::spelled(&text);
            let name = name.ok_or("expected a name from the IANA time zone database")?;
            Ok(Some(quoted(&name)))
        }),
        Field::Phone => text(json).and_then(|text| Ok(Some(quoted(&phone(&text)?)))),
        _ => text(json).and_then(|text| {
            plain(field, &text)?;
            Ok((field != Field::Gender || text != "nil").then(|| quoted(&text)))
        }),
    };
    checked.map_err(|reason| FieldError::new(field.name(), reason))
}

/// Checks the string fields with special formats.
fn plain(field: Field, text: &str) -> Result<(), String> {
    let check = |is_valid: bool, error: &str| if is_valid { Ok(()) } else { Err(error.to_owned()) };
    match field {
        Field::ExternalId => check_identifier(text),
        Field::Email => new_email(text),
        Field::Dob => {
            let day = text.parse::<Date>().is_ok_and(|day| day.to_string() == text);
            check(day, "expected a date YYYY-MM-DD")
        }
        Field::Gender => one_of(GENDERS, text),
        Field::EmailSubscribe | Field::PushSubscribe => one_of(SUBSCRIPTION, text),
        Field::Country => {
            check(codes::is_country(text), "expected an ISO 3166-1 code of two upper-case letters")
        }
        Field::Language => {
            check(codes::is_language(text), "expected an ISO 639-1 code of two lower-case letters")
        }
        _ => Ok(()),
    }
}

fn one_of(values: &[&str], text: &str) -> Result<(), String> {
    if values.contains(&text) {
        Ok(())
    } else {
        Err(format!("expected one of {}", values.join(", ")))
    }
}

/// The number in E.164.
fn phone(text: &str) -> Result<String, String> {
    let number = phone::e164(text).filter(|number| !number.starts_with("+0"));
    number.ok_or_else(|| {
        "expected a phone number with its country code: + and 7 to 15 digits, the first not 0"
            .to_owned()
    })
}

/// An external id, or a part of an alias.
pub fn identifier(json: &str) -> Result<Cow<'_, str>, String> {
    let text = json::text(json)?;
    check_identifier(&text)?;
    Ok(text)
}

/// A string of at most [`MAX_TEXT`] characters.
pub fn text(json: &str) -> Result<Cow<'_, str>, String> {
    let text = json::text(json)?;
    check_short(&text)?;
    Ok(text)
}

/// A bucket, 0 to 9999.
pub fn bucket(json: &str) -> Result<u16, String> {
    let bucket = json::whole_number(json).and_then(|bucket| u16::try_from(bucket).ok());
    let bucket = bucket.filter(|bucket| *bucket < BUCKETS);
    bucket.ok_or_else(|| "expected a whole number from 0 to 9999".to_owned())
}

fn degrees(json: &str, max: f64, name: &str) -> Result<(), String> {
    match json::parse::<f64>(json) {
        Ok(degrees) if degrees.abs() <= max => Ok(()),
        _ => Err(format!("expected a {name} from -{max} to {max}")),
    }
}

fn last_coordinates(json: &str) -> Result<String, String> {
    let pair: Vec<&RawValue> = json::parse(json)?;
    let [longitude, latitude] = pair.as_slice() else {
        return Err("expected [longitude, latitude]".to_owned());
    };
    degrees(longitude.get(), 180.0, "longitude")?;
    degrees(latitude.get(), 90.0, "latitude")?;
    Ok(format!("[{},{}]", longitude.get(), latitude.get()))
}

fn current_location(json: &str) -> Result<String, String> {
    let members = json::unique_fields(json, json::MAX_JSON_FIELDS)?;
    let (Some(longitude), Some(latitude)) = (members.get("longitude"), members.get("latitude"))
    else {
        return Err("expected an object with longitude and latitude".to_owned());
    };
    degrees(longitude, 180.0, "longitude")?;
    degrees(latitude, 90.0, "latitude")?;
    Ok(format!(r#"{{"longitude":{longitude},"latitude":{latitude}}}"#))
}

/// The aliases of an array of alias objects, or of a single one.
pub fn aliases(json: &str) -> Result<Vec<Alias>, String> {
    let objects: Vec<&RawValue> = match json.as_bytes().first() {
        Some(b'[') => json::parse(json)?,
        _ => vec![json::parse(json)?],
    };
    let mut aliases = Vec::with_capacity(objects.len());
    for object in objects {
        let alias = alias(&json::unique_fields(object.get(), json::MAX_JSON_FIELDS)?)?;
        if !aliases.contains(&alias) {
            aliases.push(alias);
        }
    }
    Ok(aliases)
}

/// The alias of an alias object.
pub fn alias(members: &JsonFields<'_>) -> Result<Alias, String> {
    let part = |name: &str| {
        let text = members.get(name).ok_or("is missing".to_owned()).and_then(identifier);
        text.map(Cow::into_owned).map_err(|why| about_field(&format!(".{name}"), &why))
    };
    Ok(Alias { label: part("alias_label")?, name: part("alias_name")? })
}

/// An array of texts.
pub fn texts_json(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(","))
}

/// The array of alias objects, as exported.
pub fn aliases_json(aliases: &[Alias]) -> String {
    let objects: Vec<String> = aliases
        .iter()
        .map(|Alias { label, name }| {
            format!(r#"{{"alias_name":{},"alias_label":{}}}"#, quoted(name), quoted(label))
        })
        .collect();
    format!("[{}]", objects.join(","))
}

/// Custom attributes, each value unchanged; null counts as absent.
fn custom_attributes(json: &str) -> Result<Option<String>, FieldError> {
    let field = Field::CustomAttributes.name();
    let members: JsonFields<'_> =
        json::parse(json).map_err(|reason| FieldError::new(field, reason))?;
    let mut out = String::with_capacity(json.len());
    for (name, value) in &members.0 {
        if let Err(reason) = attribute_name(name) {
            return Err(FieldError::new(field, reason));
        }
        json::check(value.get())
            .map_err(|reason| FieldError::new(format!("{field}.{name}"), reason))?;
        if value.get() == "null" {
            continue;
        }
        out.push(if out.is_empty() { '{' } else { ',' });
        json::push_string(&mut out, name);
        out.push(':');
        json::push_compact(&mut out, value.get());
    }
    if let Some(name) = members.repeated() {
        return Err(FieldError::new(format!("{field}.{name}"), "duplicate field"));
    }
    if out.is_empty() {
        return Ok(None);
    }
    out.push('}');
    Ok(Some(out))
}

/// The name of a custom attribute.
pub fn attribute_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("an attribute has an empty name".to_owned());
    }
    if name == json::MARK {
        return Err(format!("an attribute has the reserved name {name}"));
    }
    check_short(name).map_err(|why| format!("an attribute name {why}"))
}

/// The id of a subscription group as it is compared. Workspaces declare UUIDs, which have several
/// spellings; another text stays as it is.
pub fn group_id(id: &str) -> Cow<'_, str> {
    match Uuid::try_parse(id).map(|uuid| uuid.to_string()) {
        Ok(uuid) if uuid != id => Cow::Owned(uuid),
        _ => Cow::Borrowed(id),
    }
}

/// The type of a field of an object in an array.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// Required.
    Required,
    /// Required: the [id of a subscription group](group_id).
    Group,
    /// Also a whole number, which becomes a string.
    Count,
    Time,
    Boolean,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// Required, one of [`GROUP_STATES`]. If it is null or empty, the object has no effect.
    GroupState,
}

type Shape = &'static [(&'static str, Kind)];

const APP: Shape = &[
    ("name", Kind::Text),
    ("platform", Kind::Text),
    ("version", Kind::Text),
    ("sessions", Kind::Count),
    ("first_used", Kind::Time),
    ("last_used", Kind::Time),
];

const DEVICE: Shape = &[
    ("model", Kind::Text),
    ("os", Kind::Text),
    ("carrier", Kind::Text),
    ("idfv", Kind::Text),
    ("idfa", Kind::Text),
    ("device_id", Kind::Text),
    ("google_ad_id", Kind::Text),
    ("roku_ad_id", Kind::Text),
    ("ad_tracking_enabled", Kind::Boolean),
];

const PUSH_TOKEN: Shape = &[
    ("app_id", Kind::Required),
    ("token", Kind::Required),
    ("device_id", Kind::Text),
    ("kind", Kind::OneOf(TOKEN_KINDS)),
];

const SUBSCRIPTION_GROUP: Shape =
    &[("subscription_group_id", Kind::Group), ("subscription_state", Kind::GroupState)];

/// The name of a group's state that is null or empty, among what is ignored.
pub const NO_GROUP_STATE: &str = "subscription_groups[].subscription_state";

/// Whether a value has no data.
fn is_empty(json: &str) -> bool {
    matches!(json, "null" | "\"\"")
}

/// An array of objects of one shape, with their fields in the order of the shape. Fields that the
/// shape does not have are left out and listed in `ignored`. So are objects with an empty
/// [state](Kind::GroupState).
fn objects(
    field: &str,
    json: &str,
    shape: Shape,
    ignored: &mut Vec<String>,
) -> Result<Option<String>, FieldError> {
    // Not all objects together: the fields of a `{}` need a hundred times its bytes.
    let objects: Vec<&RawValue> =
        json::parse(json).map_err(|reason| FieldError::new(field, reason))?;
    let mut out = String::with_capacity(json.len());
    for (index, object) in objects.iter().enumerate() {
        let members = json::unique_fields(object.get(), json::MAX_JSON_FIELDS)
            .map_err(|reason| FieldError::new(format!("{field}[{index}]"), reason))?;
        let is_empty_state = |(name, kind): &(&str, Kind)| {
            matches!(kind, Kind::GroupState) && members.get(name).is_some_and(is_empty)
        };
        if shape.iter().any(is_empty_state) {
            ignored.push(NO_GROUP_STATE.to_owned());
            continue;
        }
        out.push(if out.is_empty() { '[' } else { ',' });
        let start = out.len();
        for (name, kind) in shape {
            let value = member(*kind, members.get(name).unwrap_or("null"))
                .map_err(|reason| FieldError::new(format!("{field}[{index}].{name}"), reason))?;
            let Some(value) = value else { continue };
            out.push(if out.len() == start { '{' } else { ',' });
            json::push_string(&mut out, name);
            out.push(':');
            match kind {
                Kind::Boolean => out.push_str(&value),
                _ => json::push_string(&mut out, &value),
            }
        }
        out.push_str(if out.len() == start { "{}" } else { "}" });
        let known = |name: &str| shape.iter().any(|(known, _)| *known == name);
        let unknown = members.0.iter().filter(|(name, _)| !known(name));
        ignored.extend(unknown.map(|(name, _)| format!("{field}.{name}")));
    }
    if out.is_empty() {
        return Ok(None);
    }
    out.push(']');
    Ok(Some(out))
}

/// The value of a field, a string without its quotes; none if it has no data.
fn member(kind: Kind, json: &str) -> Result<Option<Cow<'_, str>>, String> {
    if is_empty(json) {
        return match kind {
            Kind::Required | Kind::Group | Kind::GroupState => Err("is missing".to_owned()),
            _ => Ok(None),
        };
    }
    let text = match kind {
        Kind::Boolean => {
            let text = if json::parse(json)? { "true" } else { "false" };
            return Ok(Some(Cow::Borrowed(text)));
        }
        Kind::Count if json.bytes().all(|byte| byte.is_ascii_digit()) => Cow::Borrowed(json),
        Kind::Count => match json::whole_number(json) {
            Some(number) => Cow::Owned(number.to_string()),
            None => text(json)?,
        },
        _ => text(json)?,
    };
    match kind {
        Kind::Time => return normalize_time(text).map(Some),
        Kind::Group => return Ok(Some(Cow::Owned(group_id(&text).into_owned()))),
        Kind::OneOf(values) => one_of(values, &text)?,
        Kind::GroupState => one_of(GROUP_STATES, &text)?,
        _ => {}
    }
    Ok(Some(text))
}
