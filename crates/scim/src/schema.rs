//! The tables of attributes by which bodies are read, and which are published.

mod attributes;
mod format;
mod values;

use serde_json::{Map, Value};

use gateway::scim::{ScimError, ScimType};
use kit::words::about_field;

pub use format::Format;

pub use attributes::{APP_GROUP_ID, APP_GROUP_NAME, COMMON, GROUPS, USERS};
pub use values::{
    check_count, check_schemas, check_unique, clear_other_primary, empty_members, is_primary,
    member, read, several_primary,
};

use values::{duplicate, repair_stored};

pub const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
/// The extension of users. Its [`DEPARTMENT`] is the same value as the user's own attribute.
pub const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
pub const DEPARTMENT: &str = "department";
pub const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
pub const SEARCH: &str = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";
pub const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// Maximum characters of a text.
pub const MAX_TEXT_LENGTH: usize = 255;

/// Maximum characters of a URL or an address.
const MAX_URL_LENGTH: usize = 2_048;

/// Maximum number of values of an attribute.
pub const MAX_VALUES: usize = 500;

/// Maximum number of members of a group.
pub const MAX_MEMBERS: usize = 10_000;

pub type Attributes = Map<String, Value>;

/// A resource type (RFC 7643 section 6).
#[derive(Debug)]
pub struct ResourceSchema {
    /// Such as `User`.
    pub name: &'static str,
    pub urn: &'static str,
    /// Such as `/Users`.
    pub endpoint: &'static str,
    pub description: &'static str,
    pub attributes: &'static [Attribute],
    /// The attributes of a schema extension, under its URN.
    pub extension: Option<&'static Attribute>,
    /// The required unique attribute, compared without case.
    pub key: &'static str,
}

impl PartialEq for ResourceSchema {
    fn eq(&self, other: &Self) -> bool {
        self.urn == other.urn
    }
}

/// An attribute (RFC 7643 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: Kind,
    pub is_multi_valued: bool,
    pub is_required: bool,
    pub mutability: Mutability,
    /// Whether the value must be unique.
    pub is_unique: bool,
    /// Whether case is significant.
    pub is_case_exact: bool,
    pub is_published: bool,
    /// Maximum characters of a text.
    pub max_length: usize,
    pub max_values: usize,
    pub format: Format,
    /// The possible values.
    pub canonical: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A URL, or the URL of one of these resource types.
    Reference(&'static [&'static str]),
    DateTime,
    Boolean,
    Complex(&'static [Attribute]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    ReadWrite,
    /// Set together with the value that contains it, and not changed later.
    Immutable,
    ReadOnly,
}

impl Attribute {
    const fn new(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self {
            name,
            description,
            kind,
            is_multi_valued: false,
            is_required: false,
            mutability: Mutability::ReadWrite,
            is_unique: false,
            is_case_exact: true,
            is_published: true,
            max_length: MAX_TEXT_LENGTH,
            max_values: MAX_VALUES,
            format: Format::Any,
            canonical: &[],
        }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Text, description)
    }

    /// A text that is compared without case.
    const fn label(name: &'static str, description: &'static str) -> Self {
        Self { is_case_exact: false, ..Self::text(name, description) }
    }

    const fn url(name: &'static str, description: &'static str) -> Self {
        let new = Self::new(name, Kind::Reference(&["external"]), description);
        Self { max_length: MAX_URL_LENGTH, format: Format::Url, ..new }
    }

    /// The URL of a user.
    const fn user_reference(description: &'static str) -> Self {
        let new = Self::new("$ref", Kind::Reference(&["User"]), description);
        Self { max_length: MAX_URL_LENGTH, format: Format::Reference, ..new }
    }

    const fn email(name: &'static str, description: &'static str) -> Self {
        Self { format: Format::Email, ..Self::label(name, description) }
    }

    const fn complex(
        name: &'static str,
        members: &'static [Attribute],
        description: &'static str,
    ) -> Self {
        Self::new(name, Kind::Complex(members), description)
    }

    const fn multi_valued(self) -> Self {
        Self { is_multi_valued: true, ..self }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn read_only(self) -> Self {
        Self { mutability: Mutability::ReadOnly, ..self }
    }

    const fn immutable(self) -> Self {
        Self { mutability: Mutability::Immutable, ..self }
    }

    const fn unique_in_any_case(self) -> Self {
        Self { is_unique: true, is_case_exact: false, ..self }
    }

    const fn unpublished(self) -> Self {
        Self { is_published: false, ..self }
    }

    pub fn is_read_only(&self) -> bool {
        self.mutability == Mutability::ReadOnly
    }

    pub fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Reference(_))
    }

    /// Its sub-attributes; empty if it is not complex.
    pub fn members(&self) -> &'static [Attribute] {
        match self.kind {
            Kind::Complex(members) => members,
            Kind::Text | Kind::Reference(_) | Kind::DateTime | Kind::Boolean => &[],
        }
    }

    /// The sub-attribute that stands for the whole value, such as the address of an email.
    pub fn value(&self) -> Option<&'static Attribute> {
        find(self.members(), "value")
    }
}

impl ResourceSchema {
    /// The error if another resource has the same [key](Self::key).
    pub fn name_in_use(&self) -> ScimError {
        ScimError::not_unique(self.key, &self.name.to_ascii_lowercase())
    }

    /// The error if no resource has the id.
    pub fn unknown(&self) -> ScimError {
        ScimError::unknown(&self.name.to_ascii_lowercase())
    }

    /// The attribute at the start of a path, compared without case, with its extension if it has
    /// one, and the rest of the path. Without an attribute, the path is the extension itself.
    pub fn locate<'a>(&'static self, path: &'a str) -> Option<Located<'a>> {
        let own = after_urn(path, self.urn);
        let extended = self
            .extension
            .and_then(|extension| Some((extension, after_urn(path, extension.name)?)));
        if let Some((extension, inside)) = extended {
            if inside.is_empty() {
                return Some(Located { extension: Some(extension), attribute: None, rest: "" });
            }
            let (name, rest) = first_name(inside);
            // `department` of the extension is the same value as the user's own attribute.
            if !name.eq_ignore_ascii_case(DEPARTMENT) {
                let attribute = Some(find(extension.members(), name)?);
                return Some(Located { extension: Some(extension), attribute, rest });
            }
            return Some(Located { extension: None, attribute: self.find(name), rest });
        }
        let (name, rest) = first_name(own.filter(|rest| !rest.is_empty()).unwrap_or(path));
        if let Some(attribute) = self.find(name) {
            return Some(Located { extension: None, attribute: Some(attribute), rest });
        }
        // Some clients leave out the extension's URN, such as for `manager`.
        let extension = self.extension.filter(|_| own.is_none())?;
        let attribute = Some(find(extension.members(), name)?);
        Some(Located { extension: Some(extension), attribute, rest })
    }

    fn find(&self, name: &str) -> Option<&'static Attribute> {
        find(self.attributes, name).or_else(|| find(COMMON, name))
    }

    /// Whether a path is in a schema that the resource does not have.
    pub fn is_foreign(&self, path: &str) -> bool {
        let is_urn = path.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("urn:"));
        is_urn && after_urn(path, self.urn).is_none()
    }

    /// Whether a path is only the URN of a schema.
    pub fn is_schema(&self, path: &str) -> bool {
        path.eq_ignore_ascii_case(self.urn)
            || self.extension.is_some_and(|extension| path.eq_ignore_ascii_case(extension.name))
    }

    /// Flattens an object: attributes under a schema, such as `{"urn:…:User": {"department":
    /// "CRM"}}`, get its URN before their names.
    pub fn flat(&self, object: Attributes) -> Vec<(String, Value)> {
        let mut flat = Vec::new();
        for (name, value) in object {
            match value {
                Value::Object(members) if self.is_schema(&name) => {
                    flat.extend(
                        members.into_iter().map(|(own, value)| (format!("{name}:{own}"), value)),
                    );
                }
                value => flat.push((name, value)),
            }
        }
        flat
    }

    /// The attributes of a stored resource. An earlier version did not check formats, and stored
    /// several primary values. Values with a wrong format are left out; only the last primary value
    /// stays primary.
    pub fn read_stored(&'static self, mut stored: Attributes) -> Result<Attributes, ScimError> {
        repair_stored(self.attributes, &mut stored);
        if let Some(extension) = self.extension
            && let Some(members) = stored.get_mut(extension.name).and_then(Value::as_object_mut)
        {
            repair_stored(extension.members(), members);
        }
        self.read(stored)
    }

    /// The writable attributes of a body that have a value, with the names and types of the table.
    /// Unknown and read-only attributes are ignored. Null and an empty array count as no value (RFC
    /// 7643 section 2.5).
    pub fn read(&'static self, body: Attributes) -> Result<Attributes, ScimError> {
        let mut attributes = Attributes::new();
        for (name, value) in self.flat(body) {
            let Some(Located { extension, attribute: Some(attribute), rest: "" }) =
                self.locate(&name)
            else {
                continue;
            };
            if attribute.is_read_only() {
                continue;
            }
            let Some(value) = read(attribute, value, attribute.name)? else { continue };
            let object = match extension {
                None => Some(&mut attributes),
                Some(extension) => attributes
                    .entry(extension.name)
                    .or_insert_with(|| Attributes::new().into())
                    .as_object_mut(),
            };
            let Some(object) = object else { continue };
            let differs = object.get(attribute.name).is_some_and(|former| *former != value);
            // Of two departments, the one that was changed counts.
            if differs && attribute.name != DEPARTMENT {
                return Err(duplicate(&name));
            }
            object.insert(attribute.name.to_owned(), value);
        }
        Ok(attributes)
    }
}

/// A path, resolved as far as its first attribute.
pub struct Located<'a> {
    pub extension: Option<&'static Attribute>,
    pub attribute: Option<&'static Attribute>,
    /// Such as `.givenName` or `[type eq "work"].value`.
    pub rest: &'a str,
}

/// The text after a URN and its colon; empty for the URN alone. Some clients write a dot instead of
/// the colon, as in other paths.
fn after_urn<'a>(path: &'a str, urn: &str) -> Option<&'a str> {
    let (start, rest) = path.split_at_checked(urn.len())?;
    if !start.eq_ignore_ascii_case(urn) {
        return None;
    }
    if rest.is_empty() { Some("") } else { rest.strip_prefix([':', '.']) }
}

fn first_name(path: &str) -> (&str, &str) {
    path.split_at(path.find(['.', '[']).unwrap_or(path.len()))
}

pub fn find(attributes: &'static [Attribute], name: &str) -> Option<&'static Attribute> {
    attributes.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
}

pub fn invalid(path: &str, reason: &str) -> ScimError {
    ScimError::bad(ScimType::InvalidValue, about_field(path, reason))
}

#[cfg(test)]
mod tests;
