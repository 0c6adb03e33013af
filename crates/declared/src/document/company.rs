//! The company's document: declarations that belong to no single workspace.

use ipnet::IpNet;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use crate::values::{KeyName, KeySecret, Network, WorkspaceName};
use gateway::workspaces::rules::{Name, checked, list, optional};
use scim::resource::{self, AppGroup, User, UserAppGroup};

/// Declarations for the whole installation: at most one document of a file, with `company` as its
/// first field.
#[derive(Deserialize, JsonSchema)]
pub struct Company {
    /// The name of the company.
    #[serde(rename = "company", deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// SCIM tokens, in addition to those created by `longshore scim-token create`.
    #[serde(default)]
    pub(crate) scim_tokens: Vec<Token>,
    /// Users of the dashboard, in addition to those created over SCIM.
    #[serde(default)]
    pub(crate) dashboard_users: Vec<DashboardUser>,
    /// Permissions of the users in a SCIM group. If the file declares any, identity providers can
    /// only create groups with one of these names.
    #[serde(default)]
    pub(crate) permission_sets: Vec<PermissionSet>,
    /// The workspaces that the same file declares.
    #[serde(skip)]
    pub(crate) same_file: Vec<String>,
}

/// A SCIM token.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct Token {
    /// 1 to 100 characters, unique.
    #[serde(deserialize_with = "checked::<KeyName, _>")]
    pub name: String,
    /// The bearer token of requests: at least 20 printable characters. A new value rotates the
    /// secret: the previous one is revoked.
    #[serde(deserialize_with = "checked::<KeySecret, _>")]
    #[schemars(with = "String")]
    pub secret: SecretString,
    /// Addresses or networks (CIDRs) from which the token may be used. Empty: from everywhere.
    #[serde(default, deserialize_with = "list::<Network, _>")]
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<IpNet>,
    /// Whether requests about users and groups need the header `X-Request-Origin`. Okta and
    /// Microsoft Entra do not send it.
    #[serde(default = "default_true")]
    pub require_origin: bool,
}

fn default_true() -> bool {
    true
}

/// A user of the dashboard.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DashboardUser {
    /// The email address, unique regardless of upper and lower case.
    #[serde(deserialize_with = "checked::<Name, _>")]
    pub user_name: String,
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub given_name: Option<String>,
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub family_name: Option<String>,
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub department: Option<String>,
    /// Permissions of the user.
    #[serde(default)]
    pub permissions: Permissions,
}

/// A permission set, which is a group of SCIM.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct PermissionSet {
    /// The `displayName` of the group, unique regardless of upper and lower case.
    #[serde(deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// Permissions of the users in the group.
    #[serde(default)]
    pub permissions: Permissions,
}

/// Permissions of a user.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct Permissions {
    /// Permissions in the whole company.
    #[serde(default, deserialize_with = "list::<Name, _>")]
    pub company: Vec<String>,
    /// Permissions in workspaces, which are the app groups of SCIM.
    #[serde(default)]
    pub workspaces: Vec<WorkspacePermissions>,
}

/// Permissions in a workspace.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct WorkspacePermissions {
    /// The name of an existing workspace, or of one in the same file.
    #[serde(deserialize_with = "checked::<WorkspaceName, _>")]
    pub workspace: String,
    #[serde(default, deserialize_with = "list::<Name, _>")]
    pub permissions: Vec<String>,
    #[serde(default)]
    pub teams: Vec<Team>,
}

/// A team, with its id, its name or both, and the permissions in it.
#[derive(Clone, Deserialize, JsonSchema)]
pub(crate) struct Team {
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "list::<Name, _>")]
    pub permissions: Vec<String>,
}

impl DashboardUser {
    /// The user in the form of SCIM.
    pub(crate) fn user(&self) -> User {
        let (given_name, family_name) = (self.given_name.clone(), self.family_name.clone());
        let has_name = given_name.is_some() || family_name.is_some();
        let permissions = self.permissions.granted();
        User {
            user_name: self.user_name.clone(),
            external_id: None,
            name: has_name.then_some(resource::Name {
                given_name,
                family_name,
                ..resource::Name::default()
            }),
            active: Some(true),
            department: self.department.clone(),
            permissions: Some(permissions)
                .filter(|permissions| *permissions != resource::Permissions::default()),
            ..User::default()
        }
    }
}

impl Permissions {
    /// The permissions in the form of SCIM.
    pub(crate) fn granted(&self) -> resource::Permissions {
        resource::Permissions {
            company_permissions: self.company.clone(),
            app_group: self.workspaces.iter().map(app_group).collect(),
        }
    }
}

fn app_group(declared: &WorkspacePermissions) -> UserAppGroup {
    let AppGroup { id, name } = AppGroup::from_workspace(&declared.workspace);
    let team = declared.teams.iter().map(|team| resource::Team {
        team_id: team.id.clone(),
        team_name: team.name.clone(),
        team_permissions: team.permissions.clone(),
    });
    UserAppGroup {
        app_group_id: id,
        app_group_name: name,
        app_group_permissions: declared.permissions.clone(),
        team: team.collect(),
    }
}
