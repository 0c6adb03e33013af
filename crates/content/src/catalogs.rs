//! Catalogs: items with typed fields, declared in the workspace file, loaded from a file of lines
//! and edited by customers' servers.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | requests that edit items |
//! | `manage` | requests that list, create and delete catalogs, and that read items |
//! | [`check`] | checks a request's items, and collects everything that is wrong with them |
//! | [`coerce`](mod@coerce) | converts values to the type of their field |
//! | [`known`] | definitions that a gateway caches for some seconds |
//! | [`message`] | the message from the gateway to the workers |
//! | [`apply`] | applies messages to items, in batches; the outcome of each edit |
//! | [`items`] | a file of items |
//! | [`rows`], [`list_rows`] | the SQL; that of lists for people |

pub mod api;
pub mod apply;
pub mod check;
pub mod coerce;
pub mod items;
pub mod known;
pub mod list_rows;
mod manage;
pub mod message;
pub mod rows;
pub mod sweep;

use std::collections::HashMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use gateway::workspaces::rules::{checked, one_of, rules};

/// Maximum characters of a catalog's name, a field's name and an item's id.
pub const MAX_NAME: usize = 250;

/// Maximum number of fields of a catalog.
pub const MAX_FIELDS: usize = 500;

/// The field that every item has, in addition to the declared ones.
pub const ID: &str = "id";

/// A catalog as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    pub id: i32,
    pub workspace: i32,
    pub name: String,
    pub fields: Fields,
}

/// The fields of a catalog, indexed by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    all: Vec<Field>,
    kinds: HashMap<String, Type>,
}

impl Fields {
    /// In the order in which they are declared.
    pub fn all(&self) -> &[Field] {
        &self.all
    }

    /// The type of the field with that name.
    pub fn kind(&self, name: &str) -> Option<Type> {
        self.kinds.get(name).copied()
    }
}

impl From<Vec<Field>> for Fields {
    fn from(all: Vec<Field>) -> Self {
        let kinds = all.iter().map(|field| (field.name.clone(), field.kind)).collect();
        Self { all, kinds }
    }
}

/// A field of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CatalogField")]
pub struct Field {
    /// 1 to 250 characters, no `.`, `$` or control characters.
    #[serde(deserialize_with = "checked::<FieldName, _>")]
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    #[schemars(schema_with = "field_type")]
    pub kind: Type,
}

rules! {
    FieldName -> String, |name: &str| check_field_name(name).map(|()| name.to_owned());
}

fn field_type(_: &mut SchemaGenerator) -> Schema {
    one_of(Type::ALL.map(Type::name))
}

store::text_enum! {
    /// The type of a field's values (docs/reference/api/catalogs.md).
    pub enum Type {
        String = "string",
        Number = "number",
        Boolean = "boolean",
        Time = "time",
        Object = "object",
        Array = "array",
    }
}

/// Whether a text can be the name of a catalog, which is part of a path, or the id of an item: 1 to
/// [`MAX_NAME`] letters, digits, hyphens and underscores.
pub fn is_plain_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && has_plain_characters(name)
}

fn has_plain_characters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Checks the name of a field.
pub fn check_field_name(name: &str) -> Result<(), String> {
    if name == ID {
        return Err("every item has an id: do not declare it".to_owned());
    }
    let is_plain = |c: char| !c.is_control() && !is_reserved(c);
    if (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(format!("expected 1 to {MAX_NAME} characters, no `.`, `$` or control characters"))
    }
}

/// Characters that no key in an item may contain (docs/reference/api/catalogs.md).
fn is_reserved(c: char) -> bool {
    matches!(c, '.' | '$')
}
