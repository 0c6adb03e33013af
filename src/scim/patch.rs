//! PATCH (RFC 7644 section 3.5.2): adds, replaces or removes attributes of a user.

use serde_json::{Value, json};

use super::filter::Filter;
use super::schema::{self, Attribute, Attributes, Kind, PATCH, invalid};
use crate::gateway::scim::{ScimError, ScimType};
use kit::words::beginning;

/// The most operations in one request.
pub const MOST: usize = 100;

/// The most bytes that the operations of one request write, as JSON: a path without a filter
/// means each of hundreds of values, and writes its own value to each.
const MOST_WRITTEN: usize = 256 << 10;

/// Operations, to be done in their order.
#[derive(Debug)]
pub struct Patch(Vec<Operation>);

#[derive(Debug)]
struct Operation {
    act: Act,
    /// Empty: the user itself.
    path: Vec<Step>,
    /// None for a removal.
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Add,
    Replace,
    Remove,
}

/// One attribute of a path, and its filter.
#[derive(Debug)]
struct Step {
    attribute: &'static Attribute,
    filter: Option<Filter>,
}

impl Patch {
    /// Parses the body of a request. Errors in values show when it is [applied](Self::apply).
    pub fn read(mut body: Attributes) -> Result<Self, ScimError> {
        schema::check_schemas(&body, PATCH)?;
        let name = body.keys().find(|name| name.eq_ignore_ascii_case("Operations")).cloned();
        let operations = name.and_then(|name| body.remove(&name));
        let Some(Value::Array(operations)) = operations else {
            return Err(syntax("Operations: expected an array"));
        };
        if operations.is_empty() || operations.len() > MOST {
            return Err(syntax(format!("Operations: expected 1 to {MOST} operations")));
        }
        operations.into_iter().map(Operation::read).collect::<Result<_, _>>().map(Self)
    }

    /// Changes the attributes of a user. All or nothing is the caller's: after an error they are
    /// somewhere between.
    pub fn apply(self, user: &mut Attributes) -> Result<(), ScimError> {
        let mut room = MOST_WRITTEN;
        self.0.into_iter().try_for_each(|operation| operation.apply(user, &mut room))
    }
}

/// The change at each place that matches a path.
struct Write<'a> {
    act: Act,
    value: &'a Value,
    /// Of the value, as JSON.
    bytes: usize,
    /// Bytes that may still be written.
    room: &'a mut usize,
}

impl Write<'_> {
    /// The value for one more place, within the size limit.
    fn value(&mut self) -> Result<Value, ScimError> {
        self.take_room()?;
        Ok(self.value.clone())
    }

    fn take_room(&mut self) -> Result<(), ScimError> {
        if self.act == Act::Remove {
            return Ok(());
        }
        let left = self.room.checked_sub(self.bytes);
        *self.room = left.ok_or_else(|| {
            let what = format!("the operations may write at most {MOST_WRITTEN} bytes in total");
            invalid("value", &what)
        })?;
        Ok(())
    }
}

impl Operation {
    fn read(value: Value) -> Result<Self, ScimError> {
        let Value::Object(operation) = value else {
            return Err(syntax("Operations: expected objects"));
        };
        let member = |name: &str| schema::member(&operation, name).filter(|value| !value.is_null());
        let act = member("op").and_then(Value::as_str).map(str::to_ascii_lowercase);
        let act = match act.as_deref() {
            Some("add") => Act::Add,
            Some("replace") => Act::Replace,
            Some("remove") => Act::Remove,
            _ => return Err(syntax("op: expected add, replace or remove")),
        };
        let schema = member("path").and_then(Value::as_str).filter(|path| schema::is_schema(path));
        let path = match member("path") {
            _ if schema.is_some() => Vec::new(),
            None => Vec::new(),
            Some(Value::String(path)) => read_path(path)?,
            Some(_) => return Err(bad_path("expected a string")),
        };
        let value = schema::member(&operation, "value").cloned();
        // Of a schema: the same as attributes of the user under its URN.
        let value = match schema {
            Some(schema) if act != Act::Remove => value.map(|value| json!({ schema: value })),
            _ => value,
        };
        match (act, &value) {
            (Act::Remove, _) if path.is_empty() => {
                Err(ScimError::bad(ScimType::NoTarget, "path: is required for remove"))
            }
            (Act::Remove, Some(value)) if !value.is_null() => Err(syntax(
                "value: not allowed for remove; select values with a filter in the \
                            path",
            )),
            (Act::Add | Act::Replace, None) => Err(invalid("value", "is missing")),
            _ => Ok(Self { act, path, value: value.unwrap_or_default() }),
        }
    }

    fn apply(self, user: &mut Attributes, room: &mut usize) -> Result<(), ScimError> {
        match self.path.as_slice() {
            [] => {
                let Value::Object(value) = self.value else {
                    return Err(invalid("value", "expected an object, because path is missing"));
                };
                // Null is a value here: it removes the value that it replaces.
                for (name, value) in schema::without_extensions(value) {
                    match read_path(&name) {
                        Ok(path) => write(self.act, &value, &path, user, room)?,
                        // As in every other body.
                        Err(PathError::Unknown(_) | PathError::ReadOnly(_)) => {}
                        Err(PathError::Refused(error)) => return Err(error),
                    }
                }
                Ok(())
            }
            path => write(self.act, &self.value, path, user, room),
        }
    }
}

fn write(
    act: Act,
    value: &Value,
    path: &[Step],
    user: &mut Attributes,
    room: &mut usize,
) -> Result<(), ScimError> {
    let bytes = value.to_string().len();
    walk(&mut Write { act, value, bytes, room }, path, user)
}

/// Follows a path, and applies the change at its end.
fn walk(write: &mut Write<'_>, path: &[Step], object: &mut Attributes) -> Result<(), ScimError> {
    let Some((Step { attribute, filter }, rest)) = path.split_first() else { return Ok(()) };
    let act = write.act;
    if filter.is_none() && rest.is_empty() {
        return set(act, attribute, object, write.value()?);
    }
    let name = attribute.name;
    if filter.is_none() && !attribute.is_multi_valued {
        if act != Act::Remove {
            object.entry(name).or_insert_with(|| Attributes::new().into());
        }
        return match object.get_mut(name).and_then(Value::as_object_mut) {
            Some(object) => walk(write, rest, object),
            None => Ok(()),
        };
    }
    let values = match object.get_mut(name) {
        Some(Value::Array(values)) => values.as_mut_slice(),
        _ => &mut [],
    };
    let is_meant = |value: &Value| filter.as_ref().is_none_or(|filter| holds(filter, value));
    let meant: Vec<usize> = (0..values.len()).filter(|at| is_meant(&values[*at])).collect();
    if meant.is_empty() && act != Act::Remove {
        let what = format!("path: no value of {name} matches the filter");
        return Err(ScimError::bad(ScimType::NoTarget, what));
    }
    match (rest, act) {
        ([], Act::Remove) => remove_values(object, name, is_meant),
        ([], Act::Add | Act::Replace) => {
            let new = schema::read(&single(attribute), write.value.clone(), name)?;
            let new = new.ok_or_else(|| invalid(name, "is missing"))?;
            for at in meant {
                write.take_room()?;
                match act {
                    Act::Add => merge(act, &mut values[at], new.clone(), name)?,
                    Act::Replace | Act::Remove => values[at].clone_from(&new),
                }
            }
        }
        (rest, _) => {
            for at in meant {
                if let Some(object) = values[at].as_object_mut() {
                    walk(write, rest, object)?;
                }
            }
        }
    }
    Ok(())
}

/// Of one value of an attribute that has many.
fn single(attribute: &Attribute) -> Attribute {
    Attribute { is_multi_valued: false, ..*attribute }
}

fn remove_values(object: &mut Attributes, name: &str, is_meant: impl Fn(&Value) -> bool) {
    if let Some(Value::Array(values)) = object.get_mut(name) {
        values.retain(|value| !is_meant(value));
    }
}

/// Adds to an attribute of an object, replaces or removes it.
fn set(
    act: Act,
    attribute: &'static Attribute,
    object: &mut Attributes,
    value: Value,
) -> Result<(), ScimError> {
    let name = attribute.name;
    let new = if act == Act::Remove { None } else { schema::read(attribute, value, name)? };
    let Some(new) = new else {
        if attribute.is_required {
            return Err(ScimError::bad(ScimType::Mutability, format!("{name}: is required")));
        }
        // Nothing is added by nothing.
        if act != Act::Add {
            object.remove(name);
        }
        return Ok(());
    };
    match object.get_mut(name) {
        Some(is) => merge(act, is, new, name),
        None => {
            object.insert(name.to_owned(), new);
            Ok(())
        }
    }
}

/// Appends those values that are not there yet.
fn add_values(values: &mut Vec<Value>, new: Vec<Value>, name: &str) -> Result<(), ScimError> {
    for value in new {
        if !values.contains(&value) {
            values.push(value);
            schema::check_count(values.len(), name)?;
        }
    }
    Ok(())
}

/// Merges a new value into an existing one: objects field by field, and, when adding to a list, its
/// new elements.
fn merge(act: Act, is: &mut Value, new: Value, name: &str) -> Result<(), ScimError> {
    match (is, new) {
        (Value::Object(is), Value::Object(new)) => {
            for (name, value) in new {
                match is.get_mut(&name) {
                    Some(is) => merge(act, is, value, &name)?,
                    None => {
                        is.insert(name, value);
                    }
                }
            }
        }
        (Value::Array(is), Value::Array(new)) if act == Act::Add => add_values(is, new, name)?,
        (is, new) => *is = new,
    }
    Ok(())
}

/// Whether a filter holds for one value: an object, or a text, which is its `value`.
fn holds(filter: &Filter, value: &Value) -> bool {
    filter.holds(|name| match value {
        Value::Object(object) => schema::member(object, name).and_then(Value::as_str),
        value => value.as_str().filter(|_| name.eq_ignore_ascii_case("value")),
    })
}

/// Why a path cannot be followed.
enum PathError {
    /// No attribute has this name.
    Unknown(String),
    /// The attribute of this name is read-only.
    ReadOnly(&'static str),
    Refused(ScimError),
}

impl From<ScimError> for PathError {
    fn from(error: ScimError) -> Self {
        Self::Refused(error)
    }
}

impl From<PathError> for ScimError {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Unknown(name) => no_attribute(&name),
            PathError::ReadOnly(name) => {
                Self::bad(ScimType::Mutability, format!("{name}: is read-only"))
            }
            PathError::Refused(error) => error,
        }
    }
}

/// Reads a path such as `permissions.appGroup[appGroupName eq "acme"].team`.
fn read_path(text: &str) -> Result<Vec<Step>, PathError> {
    let mut rest = schema::without_urn(text.trim());
    // The URN of another schema has dots of its own.
    if rest.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("urn:")) {
        return Err(PathError::Unknown(rest.to_owned()));
    }
    let mut path: Vec<Step> = Vec::new();
    loop {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let attribute = match path.last() {
            None => schema::of_user(name),
            Some(Step { attribute, .. }) => schema::find(attribute.members(), name),
        };
        let attribute = attribute.ok_or_else(|| PathError::Unknown(name.to_owned()))?;
        if attribute.is_read_only {
            return Err(PathError::ReadOnly(attribute.name));
        }
        let (filter, after) = read_filter(attribute, after)?;
        path.push(Step { attribute, filter });
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(path),
            None => return Err(bad_path("expected a dot after a filter").into()),
        }
    }
}

/// The filter in brackets at the start of a text, if any, and the rest.
fn read_filter<'a>(
    attribute: &Attribute,
    text: &'a str,
) -> Result<(Option<Filter>, &'a str), ScimError> {
    let Some(inside) = text.strip_prefix('[') else { return Ok((None, text)) };
    let end = end_of_filter(inside).ok_or_else(|| bad_path("a bracket is not closed"))?;
    if !attribute.is_multi_valued {
        return Err(bad_path(format!("{} has only one value", attribute.name)));
    }
    let filter = Filter::parse(&inside[..end])?;
    let is_known = |name: &str| match attribute.kind {
        Kind::Complex(members) => schema::find(members, name).is_some(),
        Kind::Text | Kind::Boolean => name.eq_ignore_ascii_case("value"),
    };
    match filter.0.iter().find(|comparison| !is_known(&comparison.attribute)) {
        Some(unknown) => Err(no_attribute(&unknown.attribute)),
        None => Ok((Some(filter), &inside[end + 1..])),
    }
}

/// Where the bracket is that ends a filter: outside of its strings.
fn end_of_filter(inside: &str) -> Option<usize> {
    let (mut is_string, mut is_escaped) = (false, false);
    inside.bytes().position(|byte| {
        let ends = byte == b']' && !is_string;
        if byte == b'"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn syntax(what: impl Into<std::borrow::Cow<'static, str>>) -> ScimError {
    ScimError::bad(ScimType::InvalidSyntax, what)
}

fn no_attribute(name: &str) -> ScimError {
    const SHOWN: usize = 128;
    bad_path(format!("{:?} is not an attribute", beginning(name, SHOWN)))
}

fn bad_path(what: impl std::fmt::Display) -> ScimError {
    ScimError::bad(ScimType::InvalidPath, format!("path: {what}"))
}

#[cfg(test)]
mod tests;
