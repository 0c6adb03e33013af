//! What a user has: the one table that bodies are read by, and that is published.

use serde_json::{Map, Value};

use crate::gateway::scim::{ScimError, ScimType};

pub const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// The schema in which RFC 7643 has [`DEPARTMENT`]: clients write it there, too.
pub const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
pub const DEPARTMENT: &str = "department";
pub const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
pub const SEARCH: &str = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";
pub const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// The longest text, in characters.
pub const LONGEST: usize = 255;

/// The most values that an attribute may have.
pub const MOST_VALUES: usize = 500;

pub type Attributes = Map<String, Value>;

/// One attribute, as RFC 7643 section 7 describes them.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: Kind,
    pub is_multi_valued: bool,
    pub is_required: bool,
    pub is_read_only: bool,
    /// No two users have the same.
    pub is_unique: bool,
    /// Whether upper and lower case are different.
    pub is_case_exact: bool,
    pub is_published: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    Boolean,
    Complex(&'static [Attribute]),
}

impl Attribute {
    const fn new(name: &'static str, kind: Kind, description: &'static str) -> Self {
        Self {
            name,
            description,
            kind,
            is_multi_valued: false,
            is_required: false,
            is_read_only: false,
            is_unique: false,
            is_case_exact: true,
            is_published: true,
        }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, Kind::Text, description)
    }

    const fn multi_valued(self) -> Self {
        Self { is_multi_valued: true, ..self }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    const fn unique_in_any_case(self) -> Self {
        Self { is_unique: true, is_case_exact: false, ..self }
    }

    const fn unpublished(self) -> Self {
        Self { is_published: false, ..self }
    }

    /// Its sub-attributes; none if it is not complex.
    pub fn members(&self) -> &'static [Attribute] {
        match self.kind {
            Kind::Complex(members) => members,
            Kind::Text | Kind::Boolean => &[],
        }
    }
}

const NAME: &[Attribute] = &[
    Attribute::text("givenName", "The given name."),
    Attribute::text("familyName", "The family name."),
];

const TEAM: &[Attribute] = &[
    Attribute::text("teamId", "The team's identifier; this or the name is required."),
    Attribute::text("teamName", "The name of the team."),
    Attribute::text("teamPermissions", "The user's permissions in the team.").multi_valued(),
];

/// The members whose values are the workspaces of the installation.
pub const APP_GROUP_ID: &str = "appGroupId";
pub const APP_GROUP_NAME: &str = "appGroupName";

const APP_GROUP: &[Attribute] = &[
    Attribute::text(APP_GROUP_ID, "The app group's identifier; this or the name is required."),
    Attribute::text(APP_GROUP_NAME, "The name of the app group."),
    Attribute::text("appGroupPermissions", "The user's permissions in the app group.")
        .multi_valued(),
    // Deeper than a schema can describe (RFC 7643 section 2.3.8 has no complex attributes inside of
    // others), and than clients that read schemas accept.
    Attribute::new("team", Kind::Complex(TEAM), "The user's teams in the app group.")
        .multi_valued()
        .unpublished(),
];

const PERMISSIONS: &[Attribute] = &[
    Attribute::text("companyPermissions", "The user's permissions in the whole company.")
        .multi_valued(),
    Attribute::new("appGroup", Kind::Complex(APP_GROUP), "The user's permissions in app groups.")
        .multi_valued(),
];

/// What a user has.
pub const USER_ATTRIBUTES: &[Attribute] = &[
    Attribute::text("userName", "The email address that the user signs in with.")
        .required()
        .unique_in_any_case(),
    Attribute::new("name", Kind::Complex(NAME), "The parts of the user's name."),
    Attribute::new(
        "active",
        Kind::Boolean,
        "Whether the user may sign in; true by default for a new user.",
    ),
    Attribute::text(DEPARTMENT, "The user's department."),
    Attribute::text("lastSignInAt", "Time of the user's last sign-in, in UTC.").read_only(),
    Attribute::new("permissions", Kind::Complex(PERMISSIONS), "The user's permissions."),
];

/// What every resource has, and no schema lists (RFC 7643 section 3.1).
pub const COMMON: &[Attribute] = &[
    Attribute::new("schemas", Kind::Text, "").multi_valued().read_only(),
    Attribute::text("id", "").read_only(),
    Attribute::text("externalId", ""),
    Attribute::new("meta", Kind::Complex(&[]), "").read_only(),
];

/// The attribute of a resource that is called so, in any case.
pub fn of_user(name: &str) -> Option<&'static Attribute> {
    find(USER_ATTRIBUTES, name).or_else(|| find(COMMON, name))
}

pub fn find(attributes: &'static [Attribute], name: &str) -> Option<&'static Attribute> {
    attributes.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
}

/// A name without the schema before it, of a path such as
/// `urn:ietf:params:scim:schemas:core:2.0:User:name.givenName`.
pub fn without_urn(path: &str) -> &str {
    let behind = |urn: &str| {
        let (start, rest) = path.split_at_checked(urn.len())?;
        start.eq_ignore_ascii_case(urn).then_some(rest.strip_prefix(':')?)
    };
    let is_read = |name: &&str| name.eq_ignore_ascii_case(DEPARTMENT);
    behind(USER).or_else(|| behind(ENTERPRISE).filter(is_read)).unwrap_or(path)
}

/// Whether a name or a path is a schema whose attributes are read.
pub fn is_schema(path: &str) -> bool {
    path.eq_ignore_ascii_case(USER) || path.eq_ignore_ascii_case(ENTERPRISE)
}

/// The attributes of an object where those under a schema, such as
/// `{"urn:…:User": {"department": "CRM"}}`, have its URN before their names.
pub fn without_extensions(object: Attributes) -> Attributes {
    let mut flat = Attributes::new();
    for (name, value) in object {
        match value {
            Value::Object(members) if is_schema(&name) => {
                flat.extend(
                    members.into_iter().map(|(own, value)| (format!("{name}:{own}"), value)),
                );
            }
            value => drop(flat.insert(name, value)),
        }
    }
    flat
}

/// Rejects a body without the required schema URN.
pub fn check_schemas(body: &Attributes, wanted: &str) -> Result<(), ScimError> {
    let schemas = member(body, "schemas").and_then(Value::as_array);
    let says = |value: &Value| value.as_str().is_some_and(|urn| urn.eq_ignore_ascii_case(wanted));
    if schemas.is_some_and(|schemas| schemas.iter().any(says)) {
        return Ok(());
    }
    Err(ScimError::bad(ScimType::InvalidSyntax, format!("schemas: {wanted} is missing")))
}

/// A member by its name in any case.
pub fn member<'a>(body: &'a Attributes, name: &str) -> Option<&'a Value> {
    body.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The members of a body that a client may write and that have a value, under the names and with
/// the types of the table. Unknown and read-only ones are left out; null and an empty array are
/// no value (RFC 7643 section 2.5).
pub fn read_user(body: Attributes) -> Result<Attributes, ScimError> {
    read_object(|name| of_user(without_urn(name)), without_extensions(body), "")
}

fn read_object(
    find: impl Fn(&str) -> Option<&'static Attribute>,
    object: Attributes,
    path: &str,
) -> Result<Attributes, ScimError> {
    let mut attributes = Attributes::new();
    for (name, value) in object {
        let Some(attribute) = find(&name).filter(|attribute| !attribute.is_read_only) else {
            continue;
        };
        let path = match path {
            "" => attribute.name.to_owned(),
            path => format!("{path}.{}", attribute.name),
        };
        if let Some(value) = read(attribute, value, &path)? {
            attributes.insert(attribute.name.to_owned(), value);
        }
    }
    Ok(attributes)
}

/// The value of an attribute; none for null and empty arrays. `path` is its place, for the error.
pub fn read(attribute: &Attribute, value: Value, path: &str) -> Result<Option<Value>, ScimError> {
    if !attribute.is_multi_valued {
        return read_one(attribute, value, path);
    }
    let values = match value {
        Value::Null => return Ok(None),
        Value::Array(values) => values,
        // One value where several may be is what some clients send.
        value => vec![value],
    };
    check_count(values.len(), path)?;
    let values = values.into_iter().map(|value| read_one(attribute, value, path));
    let values: Vec<Value> = values.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok((!values.is_empty()).then_some(Value::Array(values)))
}

pub fn check_count(values: usize, path: &str) -> Result<(), ScimError> {
    if values <= MOST_VALUES {
        return Ok(());
    }
    Err(invalid(path, &format!("at most {MOST_VALUES} values are allowed")))
}

fn read_one(attribute: &Attribute, value: Value, path: &str) -> Result<Option<Value>, ScimError> {
    match (attribute.kind, value) {
        (_, Value::Null) => Ok(None),
        (Kind::Text, Value::String(text)) => check_text(&text, path).map(|()| Some(text.into())),
        (Kind::Text, _) => Err(invalid(path, "expected a string")),
        (Kind::Boolean, Value::Bool(value)) => Ok(Some(value.into())),
        // As some clients send it.
        (Kind::Boolean, Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true.into())),
            "false" => Ok(Some(false.into())),
            _ => Err(invalid(path, "expected true or false")),
        },
        (Kind::Boolean, _) => Err(invalid(path, "expected true or false")),
        (Kind::Complex(members), Value::Object(object)) => {
            let object = read_object(|name| find(members, name), object, path)?;
            Ok((!object.is_empty()).then_some(object.into()))
        }
        (Kind::Complex(_), _) => Err(invalid(path, "expected an object")),
    }
}

fn check_text(text: &str, path: &str) -> Result<(), ScimError> {
    if text.chars().count() > LONGEST {
        return Err(invalid(path, &format!("at most {LONGEST} characters are allowed")));
    }
    if text.contains(char::is_control) {
        return Err(invalid(path, "control characters are not allowed"));
    }
    Ok(())
}

pub fn invalid(path: &str, what: &str) -> ScimError {
    ScimError::bad(ScimType::InvalidValue, format!("{path}: {what}"))
}
