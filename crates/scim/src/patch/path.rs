//! Paths of a PATCH (RFC 7644 section 3.5.2).

use crate::filter::{Filter, Scope};
use crate::schema::{self, Attribute, Located, ResourceSchema};
use gateway::scim::{ScimError, ScimType};
use kit::words::beginning;

/// One attribute of a path, and its filter.
#[derive(Debug)]
pub(super) struct Step {
    pub attribute: &'static Attribute,
    pub filter: Option<Filter>,
}

/// Why a path cannot be followed.
pub(super) enum PathError {
    /// No attribute has this name.
    Unknown(String),
    /// The attribute of this name is read-only.
    ReadOnly(&'static str),
    /// The schema of the path is unknown.
    Foreign,
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
            PathError::Foreign => bad_path("unknown schema"),
            PathError::ReadOnly(name) => {
                Self::bad(ScimType::Mutability, format!("{name}: read-only attribute"))
            }
            PathError::Refused(error) => error,
        }
    }
}

/// Reads a path such as `permissions.appGroup[appGroupName eq "acme"].team`.
pub(super) fn read_path(
    text: &str,
    schema: &'static ResourceSchema,
) -> Result<Vec<Step>, PathError> {
    let text = text.trim();
    let Some(Located { extension, attribute, mut rest }) = schema.locate(text) else {
        return Err(if schema.is_foreign(text) {
            PathError::Foreign
        } else {
            PathError::Unknown(text.to_owned())
        });
    };
    let mut path: Vec<Step> =
        extension.into_iter().map(|attribute| Step { attribute, filter: None }).collect();
    let Some(mut attribute) = attribute else { return Ok(path) };
    loop {
        if attribute.is_read_only() {
            return Err(PathError::ReadOnly(attribute.name));
        }
        let (filter, after) = read_filter(attribute, rest)?;
        path.push(Step { attribute, filter });
        let inside = match after.strip_prefix('.') {
            Some(inside) => inside,
            None if after.is_empty() => return Ok(path),
            None => return Err(bad_path("expected a dot after a filter").into()),
        };
        let (name, after) = inside.split_at(inside.find(['.', '[']).unwrap_or(inside.len()));
        let next = schema::find(attribute.members(), name);
        attribute = next.ok_or_else(|| PathError::Unknown(name.to_owned()))?;
        rest = after;
    }
}

/// The filter in brackets at the start of a text, if any, and the rest.
fn read_filter<'a>(
    attribute: &'static Attribute,
    text: &'a str,
) -> Result<(Option<Filter>, &'a str), ScimError> {
    let Some(inside) = text.strip_prefix('[') else { return Ok((None, text)) };
    let end = end_of_filter(inside).ok_or_else(|| bad_path("a bracket is not closed"))?;
    if !attribute.is_multi_valued {
        return Err(bad_path(format!(
            "{} is not multi-valued, so it cannot have a filter",
            attribute.name
        )));
    }
    let filter = Filter::parse(&inside[..end], Scope::ValueOf(attribute))?;
    Ok((Some(filter), &inside[end + 1..]))
}

/// The position of the bracket that ends a filter, ignoring brackets in strings.
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

fn no_attribute(name: &str) -> ScimError {
    const SHOWN: usize = 128;
    bad_path(format!("unknown attribute {:?}", beginning(name, SHOWN)))
}

pub(super) fn bad_path(detail: impl std::fmt::Display) -> ScimError {
    ScimError::bad(ScimType::InvalidPath, format!("path: {detail}"))
}
