//! PATCH (RFC 7644 section 3.5.2): adds, replaces or removes attributes of a resource.

mod path;

use std::collections::HashSet;

use serde_json::{Value, json};

use self::path::{PathError, Step, bad_path, read_path};
use super::filter::{Filter, Literal};
use super::schema::{
    self, Attribute, Attributes, DEPARTMENT, ENTERPRISE, PATCH, ResourceSchema, invalid,
};
use gateway::scim::{ScimError, ScimType};

/// Maximum number of operations in one request.
pub const MAX: usize = 100;

/// Maximum bytes that the operations of one request write, as JSON. A path without a filter selects
/// each of hundreds of values, and writes a value to each.
const MAX_WRITTEN_BYTES: usize = 256 << 10;

/// Operations, applied in order.
#[derive(Debug)]
pub struct Patch {
    schema: &'static ResourceSchema,
    operations: Vec<Operation>,
}

#[derive(Debug)]
struct Operation {
    kind: OperationKind,
    /// Empty for the resource itself.
    path: Vec<Step>,
    /// Null to remove the whole attribute.
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationKind {
    Add,
    Replace,
    Remove,
}

impl Patch {
    /// Parses the body of a request. Values are checked when it is [applied](Self::apply).
    pub fn read(mut body: Attributes, schema: &'static ResourceSchema) -> Result<Self, ScimError> {
        schema::check_schemas(&body, PATCH)?;
        let name = body.keys().find(|name| name.eq_ignore_ascii_case("Operations")).cloned();
        let operations = name.and_then(|name| body.remove(&name));
        let Some(Value::Array(operations)) = operations else {
            return Err(syntax("Operations: expected an array"));
        };
        if operations.is_empty() || operations.len() > MAX {
            return Err(syntax(format!("Operations: expected 1 to {MAX} operations")));
        }
        let operations = operations.into_iter().map(|operation| Operation::read(operation, schema));
        let operations = operations.collect::<Result<_, _>>()?;
        Ok(Self { schema, operations })
    }

    /// Changes the attributes of a resource. After an error they are partly changed, and the caller
    /// must discard them.
    pub fn apply(self, resource: &mut Attributes) -> Result<(), ScimError> {
        let mut bytes_left = MAX_WRITTEN_BYTES;
        let Self { schema, operations } = self;
        operations
            .into_iter()
            .try_for_each(|operation| operation.apply(schema, resource, &mut bytes_left))
    }
}

/// Writes a value to each place that matches a path.
struct Write<'a> {
    kind: OperationKind,
    value: &'a Value,
    /// Bytes of the value as JSON.
    bytes: usize,
    /// Remaining bytes that can be written.
    bytes_left: &'a mut usize,
}

impl Write<'_> {
    /// The value for one more attribute, within the size limit.
    fn value(&mut self) -> Result<Value, ScimError> {
        self.reserve_bytes()?;
        Ok(self.value.clone())
    }

    fn reserve_bytes(&mut self) -> Result<(), ScimError> {
        if self.kind == OperationKind::Remove {
            return Ok(());
        }
        let bytes_left = self.bytes_left.checked_sub(self.bytes);
        *self.bytes_left = bytes_left.ok_or_else(|| {
            let reason =
                format!("the operations may write at most {MAX_WRITTEN_BYTES} bytes in total");
            invalid("value", &reason)
        })?;
        Ok(())
    }
}

impl Operation {
    /// Parses an operation. A path that selects nothing is an error, because the operation would
    /// have no effect.
    fn read(value: Value, schema: &'static ResourceSchema) -> Result<Self, ScimError> {
        let Value::Object(operation) = value else {
            return Err(syntax("Operations: expected an array of objects"));
        };
        let field = |name: &str| schema::member(&operation, name).filter(|value| !value.is_null());
        let kind = field("op").and_then(Value::as_str).map(str::to_ascii_lowercase);
        let kind = match kind.as_deref() {
            Some("add") => OperationKind::Add,
            Some("replace") => OperationKind::Replace,
            Some("remove") => OperationKind::Remove,
            _ => return Err(syntax("op: expected add, replace or remove")),
        };
        // A path that is only a schema's URN stands for the attributes of that schema.
        let urn = field("path").and_then(Value::as_str).filter(|path| schema.is_schema(path));
        let urn =
            urn.filter(|urn| kind != OperationKind::Remove || urn.eq_ignore_ascii_case(schema.urn));
        let path = match field("path") {
            _ if urn.is_some() => Vec::new(),
            None => Vec::new(),
            Some(Value::String(path)) => read_path(path, schema)?,
            Some(_) => return Err(bad_path("expected a string")),
        };
        let value = schema::member(&operation, "value").cloned();
        let value = match urn {
            Some(urn) => value.map(|value| json!({ urn: value })),
            None => value,
        };
        let selects_values =
            path.last().is_some_and(|last| last.attribute.is_multi_valued && last.filter.is_none());
        match (kind, &value) {
            (OperationKind::Remove, _) if path.is_empty() => {
                Err(ScimError::bad(ScimType::NoTarget, "path: required for remove"))
            }
            (OperationKind::Remove, Some(value)) if !value.is_null() && !selects_values => {
                Err(syntax(
                    "value: not allowed for remove, unless the path is a multi-valued attribute",
                ))
            }
            (OperationKind::Add | OperationKind::Replace, None) => {
                Err(invalid("value", "is missing"))
            }
            _ => Ok(Self { kind, path, value: value.unwrap_or_default() }),
        }
    }

    fn apply(
        self,
        schema: &'static ResourceSchema,
        resource: &mut Attributes,
        bytes_left: &mut usize,
    ) -> Result<(), ScimError> {
        match self.path.as_slice() {
            [] => {
                let Value::Object(value) = self.value else {
                    return Err(invalid("value", "expected an object, because there is no path"));
                };
                // Null counts as a value here: it removes the value that it replaces.
                for (name, value) in schema.flat(value) {
                    match read_path(&name, schema) {
                        Ok(path) => write(self.kind, &value, &path, resource, bytes_left)?,
                        // Ignored, as in every other body.
                        Err(
                            PathError::Unknown(_) | PathError::ReadOnly(_) | PathError::Foreign,
                        ) => {}
                        Err(PathError::Refused(error)) => return Err(error),
                    }
                }
                Ok(())
            }
            path => {
                if self.kind == OperationKind::Remove
                    && matches!(path, [only] if only.attribute.name == ENTERPRISE)
                {
                    resource.remove(DEPARTMENT);
                }
                write(self.kind, &self.value, path, resource, bytes_left)
            }
        }
    }
}

fn write(
    kind: OperationKind,
    value: &Value,
    path: &[Step],
    resource: &mut Attributes,
    bytes_left: &mut usize,
) -> Result<(), ScimError> {
    let bytes = value.to_string().len();
    walk(&mut Write { kind, value, bytes, bytes_left }, path, resource)
}

/// Follows a path, and applies the change at its end.
fn walk(write: &mut Write<'_>, path: &[Step], object: &mut Attributes) -> Result<(), ScimError> {
    let Some((Step { attribute, filter }, rest)) = path.split_first() else { return Ok(()) };
    let kind = write.kind;
    if filter.is_none() && rest.is_empty() {
        return set(kind, attribute, object, write.value()?);
    }
    let name = attribute.name;
    if filter.is_none() && !attribute.is_multi_valued {
        if kind != OperationKind::Remove {
            object.entry(name).or_insert_with(|| Attributes::new().into());
        }
        return match object.get_mut(name).and_then(Value::as_object_mut) {
            Some(object) => walk(write, rest, object),
            None => Ok(()),
        };
    }
    let is_selected = |value: &Value| filter.as_ref().is_none_or(|filter| filter.holds(value));
    let has_selected = |object: &Attributes| {
        object.get(name).and_then(Value::as_array).is_some_and(|all| all.iter().any(is_selected))
    };
    if kind != OperationKind::Remove
        && !has_selected(object)
        && let Some(new) = filter.as_ref().and_then(|filter| value_of(filter, attribute))
    {
        write.reserve_bytes()?;
        let values = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(values) = values.as_array_mut() {
            values.push(new);
            schema::check_count(values.len(), attribute.max_values, name)?;
        }
    }
    let values = match object.get_mut(name) {
        Some(Value::Array(values)) => values.as_mut_slice(),
        _ => &mut [],
    };
    let matching: Vec<usize> =
        (0..values.len()).filter(|index| is_selected(&values[*index])).collect();
    if matching.is_empty() && kind != OperationKind::Remove {
        let detail = format!("path: no value of {name} matches the filter");
        return Err(ScimError::bad(ScimType::NoTarget, detail));
    }
    match (rest, kind) {
        ([], OperationKind::Remove) => {
            remove_values(object, name, is_selected);
            return Ok(());
        }
        ([], OperationKind::Add | OperationKind::Replace) => {
            let new = schema::read(&single(attribute), write.value.clone(), name)?;
            let new = new.ok_or_else(|| invalid(name, "is missing"))?;
            for &index in &matching {
                write.reserve_bytes()?;
                match kind {
                    OperationKind::Add => merge(kind, &mut values[index], new.clone(), attribute)?,
                    OperationKind::Replace | OperationKind::Remove => {
                        values[index].clone_from(&new);
                    }
                }
            }
        }
        (rest, _) => {
            for &index in &matching {
                if let Some(object) = values[index].as_object_mut() {
                    walk(write, rest, object)?;
                }
            }
        }
    }
    let mut primary = matching.iter().filter(|index| schema::is_primary(&values[**index]));
    let (first, second) = (primary.next(), primary.next());
    if second.is_some() {
        return Err(schema::several_primary(name));
    }
    if let Some(index) = first {
        schema::clear_other_primary(values, *index);
    }
    Ok(())
}

/// The new value that a filter such as `type eq "work"` describes. Identity providers set
/// `emails[type eq "work"].value` for users without such an email.
fn value_of(filter: &Filter, attribute: &Attribute) -> Option<Value> {
    // These values are identified by other fields: an address has a type and no value.
    attribute.value().or_else(|| schema::find(attribute.members(), "type"))?;
    let members = filter.equalities()?.into_iter().map(|comparison| {
        let value = match &comparison.value {
            Literal::Text(text) => Value::from(text.clone()),
            Literal::Boolean(value) => Value::from(*value),
            Literal::Null => return None,
        };
        Some((comparison.path.first()?.name.to_owned(), value))
    });
    members.collect::<Option<Attributes>>().map(Value::from)
}

/// The attribute with a single value, for one value of a multi-valued attribute.
fn single(attribute: &Attribute) -> Attribute {
    Attribute { is_multi_valued: false, ..*attribute }
}

fn remove_values(object: &mut Attributes, name: &str, is_selected: impl Fn(&Value) -> bool) {
    if let Some(Value::Array(values)) = object.get_mut(name) {
        values.retain(|value| !is_selected(value));
    }
}

/// Adds to an attribute of an object, replaces or removes it.
fn set(
    kind: OperationKind,
    attribute: &'static Attribute,
    object: &mut Attributes,
    value: Value,
) -> Result<(), ScimError> {
    let name = attribute.name;
    if kind == OperationKind::Remove && !value.is_null() {
        let Some(Value::Array(removed)) = schema::read(attribute, value, name)? else {
            return Ok(());
        };
        let removed: HashSet<String> = removed.iter().map(identity).collect();
        remove_values(object, name, |value| removed.contains(&identity(value)));
        return Ok(());
    }
    let emptied = if kind == OperationKind::Replace {
        schema::empty_members(attribute, &value)?
    } else {
        Vec::new()
    };
    if let Some(current) = object.get_mut(name).and_then(Value::as_object_mut) {
        current.retain(|member, _| !emptied.contains(&member.as_str()));
    }
    let new =
        if kind == OperationKind::Remove { None } else { schema::read(attribute, value, name)? };
    let Some(new) = new else {
        if !emptied.is_empty() {
            return Ok(());
        }
        if attribute.is_required {
            return Err(ScimError::bad(
                ScimType::Mutability,
                format!("{name}: required attribute, cannot be removed"),
            ));
        }
        // Adding no value has no effect.
        if kind != OperationKind::Add {
            object.remove(name);
        }
        return Ok(());
    };
    match object.get_mut(name) {
        Some(current) => merge(kind, current, new, attribute),
        None => {
            object.insert(name.to_owned(), new);
            Ok(())
        }
    }
}

/// Identifies a value for its removal: its `value`, or all of it.
fn identity(value: &Value) -> String {
    value.get("value").unwrap_or(value).to_string()
}

/// Appends the values that the attribute does not have yet. A primary one replaces the former one.
fn add_values(
    values: &mut Vec<Value>,
    new: Vec<Value>,
    attribute: &Attribute,
) -> Result<(), ScimError> {
    let primary = new.iter().find(|value| schema::is_primary(value)).cloned();
    let mut known: HashSet<String> = values.iter().map(Value::to_string).collect();
    for value in new {
        if known.insert(value.to_string()) {
            values.push(value);
            schema::check_count(values.len(), attribute.max_values, attribute.name)?;
        }
    }
    if let Some(index) = values.iter().position(|value| Some(value) == primary.as_ref()) {
        schema::clear_other_primary(values, index);
    }
    Ok(())
}

/// Merges a new value into an existing one: objects field by field, and, when adding to a list, its
/// new elements.
fn merge(
    kind: OperationKind,
    current: &mut Value,
    new: Value,
    attribute: &Attribute,
) -> Result<(), ScimError> {
    match (current, new) {
        (Value::Object(current), Value::Object(new)) => {
            for (name, value) in new {
                match (current.get_mut(&name), schema::find(attribute.members(), &name)) {
                    (Some(current), Some(member)) => merge(kind, current, value, member)?,
                    _ => {
                        current.insert(name, value);
                    }
                }
            }
        }
        (Value::Array(current), Value::Array(new)) if kind == OperationKind::Add => {
            add_values(current, new, attribute)?;
        }
        (current, new) => *current = new,
    }
    Ok(())
}

fn syntax(detail: impl Into<std::borrow::Cow<'static, str>>) -> ScimError {
    ScimError::bad(ScimType::InvalidSyntax, detail)
}

#[cfg(test)]
mod tests;
