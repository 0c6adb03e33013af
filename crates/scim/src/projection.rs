//! `attributes` and `excludedAttributes` (RFC 7644 section 3.9): select a part of a resource.

use std::collections::BTreeSet;

use serde_json::Value;

use super::schema::{Attributes, DEPARTMENT, ENTERPRISE, Located, ResourceSchema, invalid};
use gateway::scim::{ScimError, ScimType};

/// Attributes that are always returned.
const ALWAYS: [&str; 2] = ["schemas", "id"];

/// Maximum number of names in a list: more than a user has attributes.
pub const MAX: usize = 100;

/// The name of an attribute and of its sub-attributes, in lower case.
type Path = Vec<String>;

#[derive(Clone, Debug, Default)]
pub enum Projection {
    #[default]
    All,
    Only(BTreeSet<Path>),
    Without(BTreeSet<Path>),
}

impl Projection {
    /// Parses names such as `userName` and `name.givenName`. Only one of the two lists is allowed.
    /// Unknown names are no error; more than [`MAX`] names are.
    pub fn new(
        only: &[String],
        without: &[String],
        schema: &'static ResourceSchema,
    ) -> Result<Self, ScimError> {
        match (only, without) {
            ([], []) => Ok(Self::All),
            (only, []) => Ok(Self::Only(paths("attributes", only, schema)?)),
            ([], without) => Ok(Self::Without(paths("excludedAttributes", without, schema)?)),
            _ => Err(ScimError::bad(
                ScimType::InvalidValue,
                "use attributes or excludedAttributes, not both",
            )),
        }
    }

    /// Whether a resource is shown with the attribute, or with a part of it.
    pub fn shows(&self, name: &str) -> bool {
        let is_named = |first: &String| first.eq_ignore_ascii_case(name);
        match self {
            Self::All => true,
            Self::Only(paths) => paths.iter().any(|path| path.first().is_some_and(is_named)),
            Self::Without(paths) => {
                !paths.iter().any(|path| matches!(&path[..], [only] if is_named(only)))
            }
        }
    }

    pub fn apply(&self, resource: &mut Attributes) {
        match self {
            Self::All => {}
            Self::Only(paths) => {
                let mut paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
                let always = ALWAYS.map(|name| [name.to_owned()]);
                paths.extend(always.iter().map(<[String; 1]>::as_slice));
                retain_paths(resource, &paths);
            }
            Self::Without(paths) => {
                let is_always = |path: &&Path| ALWAYS.contains(&path[0].as_str());
                paths
                    .iter()
                    .filter(|path| !is_always(path))
                    .for_each(|path| remove_path(resource, path));
            }
        }
    }
}

/// The paths of the names in a list, each once.
fn paths(
    list: &str,
    names: &[String],
    schema: &'static ResourceSchema,
) -> Result<BTreeSet<Path>, ScimError> {
    if names.len() > MAX {
        return Err(invalid(list, &format!("at most {MAX} names are allowed")));
    }
    let mut paths = BTreeSet::new();
    for name in names {
        let name = name.trim();
        let located = schema.locate(name);
        let is_department = located.as_ref().is_some_and(|located| {
            located.attribute.is_some_and(|attribute| attribute.name == DEPARTMENT)
        });
        if is_department {
            // The same value is in two places.
            paths.insert([ENTERPRISE, DEPARTMENT].map(str::to_ascii_lowercase).into());
        }
        paths.insert(match located {
            Some(Located { extension, attribute, rest }) => {
                let names = extension.into_iter().chain(attribute).map(|attribute| attribute.name);
                names.chain(rest.split('.').skip(1)).map(str::to_ascii_lowercase).collect()
            }
            None => name.split('.').map(str::to_ascii_lowercase).collect(),
        });
    }
    Ok(paths)
}

fn retain_paths(object: &mut Attributes, paths: &[&[String]]) {
    object.retain(|name, value| {
        let within: Vec<&[String]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(first, _)| name.eq_ignore_ascii_case(first))
            .map(|(_, rest)| rest)
            .collect();
        if within.iter().all(|rest| !rest.is_empty()) {
            objects(value).for_each(|object| retain_paths(object, &within));
        }
        !within.is_empty()
    });
}

fn remove_path(object: &mut Attributes, path: &[String]) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        object.retain(|name, _| !name.eq_ignore_ascii_case(first));
        return;
    }
    let parents = object.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case(first));
    parents.flat_map(|(_, value)| objects(value)).for_each(|object| remove_path(object, rest));
}

/// The object itself, or the objects in an array.
fn objects(value: &mut Value) -> impl Iterator<Item = &mut Attributes> {
    let values = match value {
        Value::Array(values) => values.as_mut_slice(),
        other => std::slice::from_mut(other),
    };
    values.iter_mut().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::USERS;

    fn projected(only: &[&str], without: &[&str]) -> Value {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut user = json!({
            "schemas": ["s"], "id": "1", "userName": "a",
            "name": { "givenName": "g", "familyName": "f" },
            "permissions": { "appGroup": [{ "appGroupId": "x", "team": [{ "teamId": "t" }] }] },
        });
        let projection = Projection::new(&names(only), &names(without), &USERS).unwrap();
        projection.apply(user.as_object_mut().unwrap());
        user
    }

    #[test]
    fn requested_and_required_attributes_are_returned() {
        assert_eq!(projected(&["x.y"], &[]), json!({ "schemas": ["s"], "id": "1" }));
        assert_eq!(
            projected(
                &["USERNAME", "urn:ietf:params:scim:schemas:core:2.0:User:name.givenName"],
                &[]
            ),
            json!({ "schemas": ["s"], "id": "1", "userName": "a", "name": { "givenName": "g" } })
        );
        assert_eq!(
            projected(&["permissions.appGroup.team", "name.givenName", "name"], &[]),
            json!({
                "schemas": ["s"], "id": "1",
                "name": { "givenName": "g", "familyName": "f" },
                "permissions": { "appGroup": [{ "team": [{ "teamId": "t" }] }] },
            })
        );
    }

    #[test]
    fn excluded_attributes_are_omitted_unless_always_returned() {
        assert_eq!(
            projected(
                &[],
                &[
                    "id",
                    "Schemas",
                    "username",
                    "name.familyName",
                    "permissions.appGroup.appGroupId",
                    "",
                    "."
                ]
            ),
            json!({
                "schemas": ["s"], "id": "1", "name": { "givenName": "g" },
                "permissions": { "appGroup": [{ "team": [{ "teamId": "t" }] }] },
            })
        );
        assert!(Projection::new(&["a".into()], &["b".into()], &USERS).is_err());
    }

    #[test]
    fn a_list_has_a_bound_and_each_name_counts_once() {
        let names = |count: usize| vec!["name".to_owned(); count];
        for (only, without) in [(names(MAX + 1), names(0)), (names(0), names(MAX + 1))] {
            assert!(Projection::new(&only, &without, &USERS).is_err());
        }
        let projection = Projection::new(&names(MAX), &[], &USERS).unwrap();
        assert!(matches!(projection, Projection::Only(paths) if paths.len() == 1));
    }
}
