//! The company document as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Text;

/// What belongs to the installation as a whole: at most one document of a file, whose first
/// member is `company`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompanyFile {
    /// What the company is called.
    pub company: Text,
    /// SCIM tokens, besides those made by `longshore scim-token create`.
    #[serde(default)]
    pub scim_tokens: Vec<TokenFile>,
    /// Users of the dashboard, besides those made over SCIM.
    #[serde(default)]
    pub dashboard_users: Vec<UserFile>,
}

/// A SCIM token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenFile {
    /// 1 to 100 characters, unique.
    pub name: Text,
    /// What requests carry as bearer: at least 20 printable characters. Another secret is
    /// a rotation: the former one ends.
    pub secret: Text,
    /// Addresses or networks (CIDRs) that the token may be used from; empty: everywhere.
    #[serde(default)]
    pub allow: Vec<Text>,
}

/// A user of the dashboard.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserFile {
    /// The email address; no two users have the same, in upper or lower case.
    pub user_name: Text,
    pub given_name: Option<Text>,
    pub family_name: Option<Text>,
    pub department: Option<Text>,
    /// What the user may do.
    pub permissions: Option<PermissionsFile>,
}

/// What a user may do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermissionsFile {
    /// In all of the company.
    #[serde(default)]
    pub company: Vec<Text>,
    /// In workspaces, which are the app groups of SCIM.
    #[serde(default)]
    pub workspaces: Vec<WorkspacePermissionsFile>,
}

/// What a user may do in a workspace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspacePermissionsFile {
    /// The name of a workspace that there is, or that the same file declares.
    pub workspace: Text,
    #[serde(default)]
    pub permissions: Vec<Text>,
    #[serde(default)]
    pub teams: Vec<TeamFile>,
}

/// A team: its id, its name or both, and what the user may do in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TeamFile {
    pub id: Option<Text>,
    pub name: Option<Text>,
    #[serde(default)]
    pub permissions: Vec<Text>,
}
