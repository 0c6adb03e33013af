//! Reads and checks the values of attributes.

use std::collections::HashSet;

use serde_json::Value;

use super::{Attribute, Attributes, Format, Kind, find, invalid};
use gateway::scim::{ScimError, ScimType};
use kit::json;

/// Rejects a body without the required schema URN.
pub fn check_schemas(body: &Attributes, urn: &str) -> Result<(), ScimError> {
    let schemas = member(body, "schemas").and_then(Value::as_array);
    let is_urn = |value: &Value| value.as_str().is_some_and(|text| text.eq_ignore_ascii_case(urn));
    if schemas.is_some_and(|schemas| schemas.iter().any(is_urn)) {
        return Ok(());
    }
    Err(ScimError::bad(ScimType::InvalidSyntax, format!("schemas: {urn} is missing")))
}

/// Rejects two fields of an object, at any depth, whose names differ only in case (RFC 7643 section
/// 2.1).
pub fn check_unique(body: &Attributes) -> Result<(), ScimError> {
    fn find_duplicate(object: &Attributes) -> Option<&str> {
        let mut seen = HashSet::with_capacity(object.len());
        let own = object.keys().find(|name| !seen.insert(name.to_ascii_lowercase()));
        own.map(String::as_str).or_else(|| object.values().find_map(find_inside))
    }
    fn find_inside(value: &Value) -> Option<&str> {
        match value {
            Value::Object(object) => find_duplicate(object),
            Value::Array(values) => values.iter().find_map(find_inside),
            _ => None,
        }
    }
    find_duplicate(body).map_or(Ok(()), |name| Err(duplicate(name)))
}

pub(super) fn duplicate(name: &str) -> ScimError {
    ScimError::bad(ScimType::InvalidSyntax, json::duplicate(name))
}

/// A field by its name, compared without case.
pub fn member<'a>(body: &'a Attributes, name: &str) -> Option<&'a Value> {
    body.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn read_object(
    members: &'static [Attribute],
    object: Attributes,
    path: &str,
) -> Result<Attributes, ScimError> {
    let mut attributes = Attributes::new();
    for (name, value) in object {
        let Some(attribute) = find(members, &name).filter(|attribute| !attribute.is_read_only())
        else {
            continue;
        };
        let path = format!("{path}.{}", attribute.name);
        if let Some(value) = read(attribute, value, &path)? {
            attributes.insert(attribute.name.to_owned(), value);
        }
    }
    Ok(attributes)
}

/// The members of an object that it sets to null or to an empty list: a replacement removes them,
/// and leaves the members that it does not name. None for references such as a manager, which are
/// replaced as a whole.
pub fn empty_members(attribute: &Attribute, value: &Value) -> Result<Vec<&'static str>, ScimError> {
    let Value::Object(object) = value else { return Ok(Vec::new()) };
    if attribute.is_multi_valued || attribute.value().is_some() {
        return Ok(Vec::new());
    }
    let mut empty = Vec::new();
    for (name, value) in object {
        let member = find(attribute.members(), name).filter(|member| !member.is_read_only());
        let Some(member) = member else { continue };
        if read(member, value.clone(), &format!("{}.{}", attribute.name, member.name))?.is_none() {
            empty.push(member.name);
        }
    }
    Ok(empty)
}

/// The value of an attribute; none for null and empty arrays. `path` is its position, for the
/// error.
pub fn read(attribute: &Attribute, value: Value, path: &str) -> Result<Option<Value>, ScimError> {
    if !attribute.is_multi_valued {
        return match value {
            // Some clients send a manager as an array with one value.
            Value::Array(mut values) if attribute.value().is_some() && values.len() <= 1 => {
                read_single(attribute, values.pop().unwrap_or_default(), path)
            }
            value => read_single(attribute, value, path),
        };
    }
    let values = match value {
        Value::Null => return Ok(None),
        Value::Array(values) => values,
        // Some clients send a single value instead of an array.
        value => vec![value],
    };
    check_count(values.len(), attribute.max_values, path)?;
    let values = values.into_iter().map(|value| read_single(attribute, value, path));
    let values: Vec<Value> = values.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    if values.iter().filter(|value| is_primary(value)).count() > 1 {
        return Err(several_primary(path));
    }
    Ok((!values.is_empty()).then_some(Value::Array(values)))
}

/// Whether a value is the preferred one of its attribute. At most one is (RFC 7643 section 2.4).
pub fn is_primary(value: &Value) -> bool {
    value.get("primary").and_then(Value::as_bool) == Some(true)
}

/// The error if several values of an attribute would be primary.
pub fn several_primary(path: &str) -> ScimError {
    invalid(path, "at most one value may be primary")
}

/// Makes all values but the one at an index not primary (RFC 7644 section 3.5.2).
pub fn clear_other_primary(values: &mut [Value], index: usize) {
    for (_, value) in values.iter_mut().enumerate().filter(|(other, _)| *other != index) {
        if is_primary(value) {
            value["primary"] = false.into();
        }
    }
}

pub fn check_count(values: usize, max: usize, path: &str) -> Result<(), ScimError> {
    if values <= max {
        return Ok(());
    }
    Err(invalid(path, &format!("at most {max} values are allowed")))
}

fn read_single(
    attribute: &Attribute,
    value: Value,
    path: &str,
) -> Result<Option<Value>, ScimError> {
    match (attribute.kind, value) {
        (_, Value::Null) => Ok(None),
        (Kind::Text | Kind::Reference(_) | Kind::DateTime, Value::String(text)) => {
            if attribute.format != Format::Any && text.is_empty() {
                return Ok(None);
            }
            check_text(&text, attribute.max_length, path)?;
            attribute.format.check(&text).map_err(|expected| invalid(path, expected))?;
            Ok(Some(text.into()))
        }
        (Kind::Text | Kind::Reference(_) | Kind::DateTime, _) => {
            Err(invalid(path, "expected a string"))
        }
        (Kind::Boolean, Value::Bool(value)) => Ok(Some(value.into())),
        // Some clients send booleans as strings.
        (Kind::Boolean, Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true.into())),
            "false" => Ok(Some(false.into())),
            _ => Err(invalid(path, "expected true or false")),
        },
        (Kind::Boolean, _) => Err(invalid(path, "expected true or false")),
        (Kind::Complex(members), Value::Object(object)) => {
            let object = read_object(members, object, path)?;
            // Clients remove a manager with an empty `value`.
            let is_nobody =
                !attribute.is_multi_valued && object.get("value").is_some_and(|value| value == "");
            Ok((!object.is_empty() && !is_nobody).then_some(object.into()))
        }
        // Some clients send only the `value`, such as the id of a manager.
        (Kind::Complex(_), Value::String(text)) if attribute.value().is_some() => {
            let object = Attributes::from_iter([("value".to_owned(), Value::String(text))]);
            read_single(attribute, object.into(), path)
        }
        (Kind::Complex(_), _) => Err(invalid(path, "expected an object")),
    }
}

/// Removes texts that do not have the format of their attribute. Of several primary values, the
/// last one stays primary, because a PATCH adds values at the end.
pub(super) fn repair_stored(attributes: &'static [Attribute], object: &mut Attributes) {
    object.retain(|name, value| {
        let Some(attribute) = find(attributes, name) else { return true };
        let members = attribute.members();
        match value {
            Value::String(text) => attribute.format.check(text).is_ok(),
            Value::Object(object) => {
                repair_stored(members, object);
                true
            }
            Value::Array(values) => {
                for object in values.iter_mut().filter_map(Value::as_object_mut) {
                    repair_stored(members, object);
                }
                if let Some(last) = values.iter().rposition(is_primary) {
                    clear_other_primary(values, last);
                }
                true
            }
            _ => true,
        }
    });
}

fn check_text(text: &str, max_length: usize, path: &str) -> Result<(), ScimError> {
    if text.chars().count() > max_length {
        return Err(invalid(path, &format!("at most {max_length} characters are allowed")));
    }
    if text.contains(char::is_control) {
        return Err(invalid(path, "control characters are not allowed"));
    }
    Ok(())
}
