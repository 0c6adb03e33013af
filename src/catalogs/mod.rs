//! Catalogs: items with typed fields, declared in the workspace file, loaded from a file of
//! lines and edited by customers' servers.
//!
//! | module | is about |
//! |---|---|
//! | [`api`] | calls that edit items |
//! | `manage` | calls that list, create and delete catalogs, and that read items |
//! | [`check`] | from a request's items to what is applied, or everything that is wrong with them |
//! | [`coerce`](mod@coerce) | values as the type of their field has them |
//! | [`known`] | definitions that a gateway keeps for some seconds |
//! | [`message`] | what the log carries from the gateway to the workers |
//! | [`apply`] | from messages to items, in batches; what became of each edit |
//! | [`items`] | a file of items |
//! | [`rows`] | the SQL |

pub mod api;
pub mod apply;
pub mod check;
pub mod coerce;
pub mod items;
pub mod known;
mod manage;
pub mod message;
pub mod rows;
pub mod sweep;

use std::collections::HashMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::workspaces::rules::{one, one_of, rules};

/// The longest name of a catalog, name of a field and id of an item, in characters.
pub const MAX_NAME: usize = 250;

/// Fields that a catalog may have.
pub const MAX_FIELDS: usize = 500;

/// What every item has beside its fields.
pub const ID: &str = "id";

/// A catalog as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    pub id: i32,
    pub workspace: i32,
    pub name: String,
    pub fields: Fields,
}

/// The fields of a catalog, each found by its name.
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

    /// The type of the field of that name.
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
    #[serde(deserialize_with = "one::<FieldName, _>")]
    pub name: String,
    /// What its values are.
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
    /// What the values of a field are (src/gateway/README.md, Editing catalog items).
    pub enum Type {
        String = "string",
        Number = "number",
        Boolean = "boolean",
        Time = "time",
        Object = "object",
        Array = "array",
    }
}

/// The name of a catalog, which stands in a path, and the id of an item: 1 to [`MAX_NAME`]
/// letters, digits, hyphens and underscores.
pub fn is_plain_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && has_plain_characters(name)
}

fn has_plain_characters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Checks the name of a field: items' members must be able to have it.
pub fn check_field_name(name: &str) -> Result<(), String> {
    if name == ID {
        return Err("every item has an id already: it is not declared".to_owned());
    }
    let is_plain = |c: char| !c.is_control() && !is_reserved(c);
    if (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(format!("expected 1 to {MAX_NAME} characters, no `.`, `$` or control characters"))
    }
}

/// What no key in an item may contain (src/gateway/README.md, Editing catalog items).
fn is_reserved(c: char) -> bool {
    matches!(c, '.' | '$')
}
