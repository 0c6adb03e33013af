//! The stored and the returned form of a user.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use super::rows::StoredUser;
use super::schema::{self, APP_GROUP_ID, APP_GROUP_NAME, Attributes, USER, invalid};
use crate::gateway::ApiError;
use crate::gateway::scim::PATH;
use crate::gateway::scim::ScimError;
use kit::clock::format_time;

/// The most bytes of a user, as JSON.
const LARGEST: usize = 64 << 10;

/// `lastSignInAt` of a user without a sign-in (docs/reference/api/scim.md): Longshore has no
/// sign-in.
pub const NEVER: &str = "Thursday, January 1, 1970 12:00:00 AM";

/// What of a user is written: by the calls, or by the company document of the workspace file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    pub user_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// True for a new user by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub department: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Name {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    pub company_permissions: Vec<String>,
    pub app_group: Vec<UserAppGroup>,
}

/// What a user may do in an app group. Of id and name a client gives one or both; kept are both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserAppGroup {
    pub app_group_id: String,
    pub app_group_name: String,
    pub app_group_permissions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub team: Vec<Team>,
}

/// A team is known here by what clients call it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Team {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
    pub team_permissions: Vec<String>,
}

/// An existing app group: a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppGroup {
    pub id: String,
    /// The workspace's.
    pub name: String,
}

impl AppGroup {
    /// The app group of a workspace. Its id is derived from the name, so it is the same in another
    /// installation with the same file.
    pub fn of(workspace: &str) -> Self {
        let hash: [u8; 32] =
            Sha256::new().chain_update("app group\0").chain_update(workspace).finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        let id = Builder::from_custom_bytes(bytes).into_uuid();
        Self { id: id.to_string(), name: workspace.to_owned() }
    }
}

impl User {
    /// Of attributes as [`schema::read_user`] leaves them; its app groups are among `there_are`.
    pub fn of(attributes: Attributes, there_are: &[AppGroup]) -> Result<Self, ScimError> {
        if attributes.get("userName").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(invalid("userName", "is missing"));
        }
        let mut user: Self = serde_json::from_value(attributes.into())
            .map_err(|error| ApiError::Internal(format!("stored attributes: {error}")))?;
        if let Some(permissions) = &mut user.permissions {
            settle(&mut permissions.app_group, there_are)?;
        }
        if user.to_json().len() > LARGEST {
            return Err(invalid("permissions", "a user can have at most 64 KiB in total"));
        }
        Ok(user)
    }

    /// Its attributes, as of a body that was read.
    pub fn attributes(&self) -> Result<Attributes, ScimError> {
        match serde_json::to_value(self) {
            Ok(Value::Object(attributes)) => Ok(schema::read_user(attributes)?),
            other => Err(ApiError::Internal(format!("a user is not an object: {other:?}")).into()),
        }
    }

    /// As it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, lists and booleans are JSON")
    }

    /// What the user is found by: names are the same regardless of case.
    pub fn key(&self) -> String {
        folded(&self.user_name)
    }
}

/// A text for case-insensitive comparison. Each character is folded separately, so that a part of a
/// folded text is a folded part, which `co` needs.
pub fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Sets the id and the name of each app group from its workspace.
fn settle(groups: &mut [UserAppGroup], there_are: &[AppGroup]) -> Result<(), ScimError> {
    for at in 0..groups.len() {
        let (before, rest) = groups.split_at_mut(at);
        let group = &mut rest[0];
        let meant = there_are.iter().find(|is| {
            let is_id = group.app_group_id.eq_ignore_ascii_case(&is.id);
            let is_name = group.app_group_name == is.name;
            (is_id || group.app_group_id.is_empty())
                && (is_name || group.app_group_name.is_empty())
                && (is_id || is_name)
        });
        let Some(meant) = meant else {
            let what = format!("no app group matches this {APP_GROUP_ID} and {APP_GROUP_NAME}");
            return Err(invalid("permissions.appGroup", &what));
        };
        if before.iter().any(|other| other.app_group_id == meant.id) {
            return Err(invalid("permissions.appGroup", "duplicate app group"));
        }
        group.app_group_id.clone_from(&meant.id);
        group.app_group_name.clone_from(&meant.name);
        if group.team.iter().any(|team| team.team_id.is_none() && team.team_name.is_none()) {
            let what = "a team needs a teamId or a teamName";
            return Err(invalid("permissions.appGroup.team", what));
        }
    }
    Ok(())
}

/// Where a user is found; `base` is what public addresses begin with.
pub fn location(base: &str, id: Uuid) -> String {
    format!("{base}{PATH}/Users/{id}")
}

/// The entity tag of a version.
pub fn etag(version: i64) -> String {
    format!("W/\"{version}\"")
}

/// A user as it is returned.
pub fn shown(stored: &StoredUser, base: &str) -> Result<Attributes, ScimError> {
    let mut attributes = stored.user.attributes()?;
    // Clients read these without checking that they exist.
    if let Some(permissions) = &stored.user.permissions {
        attributes.insert("permissions".into(), json!(permissions));
    }
    attributes.insert("schemas".into(), json!([USER]));
    attributes.insert("id".into(), stored.id.to_string().into());
    attributes.insert("lastSignInAt".into(), NEVER.into());
    attributes.insert(
        "meta".into(),
        json!({
            "resourceType": "User",
            "created": format_time(stored.created_at),
            "lastModified": format_time(stored.modified_at),
            "location": location(base, stored.id),
            "version": etag(stored.version),
        }),
    );
    Ok(attributes)
}
