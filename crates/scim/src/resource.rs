//! The stored and the returned form of resources, and of users.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::group::UserGroup;
use super::schema::{
    self, Attributes, DEPARTMENT, ENTERPRISE, ResourceSchema, USER, USERS, invalid,
};
use super::{members, rows, sign_in, sign_in_rows};
use gateway::ApiError;
use gateway::scim::PATH;
use gateway::scim::ScimError;
use gateway::workspaces;
use kit::clock::{format_long, format_time};
use kit::derived_ids;
use store::{StoreError, Tx};

pub use super::permissions::{Permissions, Team, UserAppGroup};

/// Maximum bytes of a user as JSON.
const MAX_BYTES: usize = 64 << 10;

/// `lastSignInAt` of a user without a sign-in (docs/reference/api/scim.md).
pub const NEVER: &str = "Thursday, January 1, 1970 12:00:00 AM";

/// A kind of resource, in its stored form.
pub trait Resource:
    Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + Sized + 'static
{
    const SCHEMA: &'static ResourceSchema;
    /// The table of its rows; all have the same columns.
    const TABLE: &'static str;
    /// Attributes that depend on other tables.
    const LINKS: &'static [&'static str];

    /// The unique name, compared without case.
    fn name(&self) -> &str;

    /// Its attributes, in the form of a parsed body.
    fn attributes(&self) -> Result<Attributes, ScimError>;

    /// Adds the read-only attributes; `base` is the beginning of public URLs.
    fn show(&self, attributes: &mut Attributes, base: &str);

    /// Loads the attributes that are in other tables.
    fn complete(
        tx: &mut Tx,
        found: &mut [Stored<Self>],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Parses a new resource, or the new form of an existing one.
    fn read(
        tx: &mut Tx,
        written: Written,
        former: Option<&Stored<Self>>,
    ) -> impl Future<Output = Result<Self, ScimError>> + Send;

    /// The stored resource that a new one replaces, if it exists already.
    fn adopted(
        &self,
        tx: &mut Tx,
    ) -> impl Future<Output = Result<Option<Stored<Self>>, ScimError>> + Send;

    /// Writes the attributes that are in other tables.
    fn link(
        tx: &mut Tx,
        stored: &Stored<Self>,
        former: Option<&Self>,
        now: i64,
    ) -> impl Future<Output = Result<(), ScimError>> + Send;

    /// Increments the versions of the resources that show this one, before its row is locked for
    /// its deletion.
    fn unlink(
        tx: &mut Tx,
        id: Uuid,
        now: i64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Deletes the attributes that are in other tables.
    fn deleted(
        tx: &mut Tx,
        stored: Stored<Self>,
        now: i64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The stored form.
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, lists and booleans are JSON")
    }

    /// The key for lookups: the name in lower case, because names are compared without case.
    fn key(&self) -> String {
        folded(self.name())
    }
}

/// A stored resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<R> {
    pub id: Uuid,
    pub value: R,
    /// The [key](Resource::key) under which the company document declares the resource, even if its
    /// name has changed; none for other resources.
    pub declared_key: Option<String>,
    /// Incremented by each change.
    pub version: i64,
    /// Milliseconds since the Unix epoch, as everywhere here.
    pub created_at: i64,
    pub modified_at: i64,
}

/// The content that a request writes.
#[derive(Debug)]
pub struct Written {
    pub attributes: Attributes,
    /// The user's own `department`, if the extension has another one.
    pub department: Option<String>,
    /// Whether it replaces the whole returned resource, including the permissions of groups.
    pub replaces: bool,
}

impl Written {
    /// From a body with the whole resource.
    pub fn from_body(body: Attributes, schema: &'static ResourceSchema) -> Result<Self, ScimError> {
        schema::check_schemas(&body, schema.urn)?;
        let department = schema::member(&body, DEPARTMENT).and_then(Value::as_str);
        let department = department.map(str::to_owned);
        let mut attributes = schema.read(body)?;
        if schema == &USERS {
            attributes.entry("active").or_insert(true.into());
        }
        let differs = |text: &String| {
            schema::member(&attributes, DEPARTMENT).and_then(Value::as_str) != Some(text)
        };
        Ok(Self { department: department.filter(differs), attributes, replaces: true })
    }

    /// From the new state of a resource.
    pub fn from_resource(resource: &impl Resource) -> Result<Self, ScimError> {
        Ok(Self { attributes: resource.attributes()?, department: None, replaces: false })
    }
}

/// The stored part of a user, written by requests or by the company document of the workspace file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub user_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// Default for a new user: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub department: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The other attributes of the schema, and its extension.
    #[serde(flatten)]
    pub others: Attributes,
    #[serde(skip)]
    pub groups: Vec<UserGroup>,
    /// In milliseconds since the Unix epoch.
    #[serde(skip)]
    pub last_sign_in_at: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Name {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family_name: Option<String>,
    /// Other parts of the name, such as `formatted`.
    #[serde(flatten)]
    pub others: Attributes,
}

/// An existing app group: a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppGroup {
    pub id: String,
    /// The workspace's name.
    pub name: String,
}

impl AppGroup {
    /// The app group of a workspace. Its id is derived from the name, so it is the same in another
    /// installation with the same file.
    pub fn from_workspace(workspace: &str) -> Self {
        let id = derived_ids::v8(&[b"app group\0", workspace.as_bytes()]);
        Self { id: id.to_string(), name: workspace.to_owned() }
    }

    /// All app groups.
    pub(super) async fn all(tx: &mut Tx) -> Result<Vec<Self>, StoreError> {
        let workspaces = workspaces::list(tx).await?;
        Ok(workspaces.iter().map(|workspace| Self::from_workspace(&workspace.name)).collect())
    }
}

impl User {
    /// Parses the output of [`ResourceSchema::read`]; `app_groups` are the existing app groups.
    pub fn from_attributes(
        attributes: Attributes,
        app_groups: &[AppGroup],
    ) -> Result<Self, ScimError> {
        if attributes.get("userName").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(invalid("userName", "required attribute is missing"));
        }
        let mut user: Self = serde_json::from_value(attributes.into())
            .map_err(|error| ApiError::Internal(format!("stored attributes: {error}")))?;
        if let Some(permissions) = &mut user.permissions {
            permissions.resolve_app_groups(app_groups)?;
        }
        if user.to_json().len() > MAX_BYTES {
            return Err(invalid("permissions", "a user can have at most 64 KiB in total"));
        }
        Ok(user)
    }

    /// The permissions that the user's groups grant.
    fn granted(&self) -> Permissions {
        let mut granted = Permissions::default();
        for permissions in self.groups.iter().flat_map(|group| &group.permissions) {
            granted.add(permissions);
        }
        granted
    }

    /// The user's own permissions, and those of the user's groups.
    pub fn all_permissions(&self) -> Permissions {
        let mut all = self.permissions.clone().unwrap_or_default();
        all.add(&self.granted());
        all
    }

    pub fn is_active(&self) -> bool {
        self.active != Some(false)
    }

    /// The name for people: `displayName`, the formatted name, or the given name and the family
    /// name.
    pub fn shown_name(&self) -> Option<String> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let name = self.name.as_ref();
        let parts = || {
            let parts = name.into_iter().flat_map(|name| [&name.given_name, &name.family_name]);
            parts.flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let shown = text(self.others.get("displayName"))
            .or_else(|| text(name.and_then(|name| name.others.get("formatted"))));
        Some(shown.unwrap_or_else(parts)).filter(|name| !name.is_empty())
    }
}

impl Resource for User {
    const SCHEMA: &'static ResourceSchema = &USERS;
    const TABLE: &'static str = "dashboard_users";
    const LINKS: &'static [&'static str] = &["groups", "permissions", "lastSignInAt"];

    fn name(&self) -> &str {
        &self.user_name
    }

    fn attributes(&self) -> Result<Attributes, ScimError> {
        match serde_json::to_value(self) {
            Ok(Value::Object(attributes)) => USERS.read_stored(attributes),
            other => Err(ApiError::Internal(format!("a user is not an object: {other:?}")).into()),
        }
    }

    fn show(&self, attributes: &mut Attributes, base: &str) {
        let all = self.all_permissions();
        // The lists are always present, because clients read them without checking that they exist.
        if self.permissions.is_some() || all != Permissions::default() {
            attributes.insert("permissions".into(), json!(all));
        }
        if let Some(department) = &self.department {
            let extension = attributes.entry(ENTERPRISE).or_insert_with(|| json!({}));
            if let Some(extension) = extension.as_object_mut() {
                extension.insert(DEPARTMENT.into(), department.clone().into());
            }
        }
        if attributes.contains_key(ENTERPRISE) {
            attributes.insert("schemas".into(), json!([USER, ENTERPRISE]));
        }
        let last_sign_in = self.last_sign_in_at.map_or_else(|| NEVER.to_owned(), format_long);
        attributes.insert("lastSignInAt".into(), last_sign_in.into());
        if !self.groups.is_empty() {
            let groups: Vec<Value> = self.groups.iter().map(|group| group.shown(base)).collect();
            attributes.insert("groups".into(), groups.into());
        }
    }

    async fn complete(tx: &mut Tx, found: &mut [Stored<Self>]) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = found.iter().map(|user| user.id).collect();
        let mut groups = members::groups_of(tx, &ids).await?;
        let sign_ins = sign_in_rows::last_sign_ins(tx, &ids).await?;
        for user in found {
            user.value.groups = groups.remove(&user.id).unwrap_or_default();
            user.value.last_sign_in_at = sign_ins.get(&user.id).copied();
        }
        Ok(())
    }

    async fn read(
        tx: &mut Tx,
        written: Written,
        former: Option<&Stored<Self>>,
    ) -> Result<Self, ScimError> {
        let mut user = Self::from_attributes(written.attributes, &AppGroup::all(tx).await?)?;
        let Some(Stored { value: former, .. }) = former else { return Ok(user) };
        user.groups.clone_from(&former.groups);
        user.last_sign_in_at = former.last_sign_in_at;
        // If a body has two departments, the one that differs from the stored one is the change.
        if written.department.is_some() && user.department == former.department {
            user.department = written.department;
        }
        let granted = user.granted();
        if written.replaces
            && let Some(mut permissions) = user.permissions.take()
        {
            let own = former.permissions.clone().unwrap_or_default();
            permissions.subtract(&granted, &own);
            let is_granted = granted != Permissions::default()
                && former.permissions.is_none()
                && permissions == Permissions::default();
            user.permissions = (!is_granted).then_some(permissions);
        }
        Ok(user)
    }

    async fn adopted(&self, _: &mut Tx) -> Result<Option<Stored<Self>>, ScimError> {
        Ok(None)
    }

    async fn link(
        tx: &mut Tx,
        stored: &Stored<Self>,
        former: Option<&Self>,
        _: i64,
    ) -> Result<(), ScimError> {
        if !stored.value.is_active() {
            sign_in_rows::end_sessions(tx, stored.id).await?;
        }
        if let Some(former) = former {
            sign_in::follow_name(tx, stored, former).await?;
        }
        Ok(())
    }

    async fn unlink(tx: &mut Tx, id: Uuid, now: i64) -> Result<(), StoreError> {
        members::touch_groups_of(tx, id, now).await
    }

    async fn deleted(tx: &mut Tx, stored: Stored<Self>, _: i64) -> Result<(), StoreError> {
        rows::remove_members(tx, "user_id", stored.id).await?;
        sign_in_rows::remove(tx, stored.id).await?;
        sign_in_rows::end_sessions(tx, stored.id).await
    }
}

/// Folds the case of a text for comparison. Each character is folded separately, so that a part of
/// a folded text is the same as a folded part. `co` needs that.
pub fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The URL of a resource; `base` is the beginning of public URLs.
pub fn location(base: &str, schema: &ResourceSchema, id: Uuid) -> String {
    format!("{base}{PATH}{}/{id}", schema.endpoint)
}

/// The entity tag of a version.
pub fn etag(version: i64) -> String {
    format!("W/\"{version}\"")
}

impl<R: Resource> Stored<R> {
    /// The returned form.
    pub fn shown(&self, base: &str) -> Result<Attributes, ScimError> {
        let mut attributes = self.value.attributes()?;
        attributes.insert("schemas".into(), json!([R::SCHEMA.urn]));
        attributes.insert("id".into(), self.id.to_string().into());
        self.value.show(&mut attributes, base);
        attributes.insert(
            "meta".into(),
            json!({
                "resourceType": R::SCHEMA.name,
                "created": format_time(self.created_at),
                "lastModified": format_time(self.modified_at),
                "location": location(base, R::SCHEMA, self.id),
                "version": etag(self.version),
            }),
        );
        Ok(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_app_group_never_changes() {
        let group = AppGroup::from_workspace("shop");
        assert_eq!(group.id, "b84a73d9-a2dd-84f4-852a-57ed4204562f");
    }
}
