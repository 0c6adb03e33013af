//! The company document, checked.

use std::collections::HashSet;

use ipnet::IpNet;
use secrecy::SecretString;

use super::Check;
use crate::config::network::network;
use crate::scim::resource::{AppGroup, Name, Permissions, Team, User, UserAppGroup};
use crate::workspace_file::schema::Text;
use crate::workspace_file::schema::company::{
    CompanyFile, PermissionsFile, TeamFile, TokenFile, UserFile,
};
use crate::workspace_file::values;
use crate::workspaces::keys;

/// What a file declares of the company, checked.
pub struct Company {
    pub name: String,
    pub(crate) tokens: Vec<DeclaredToken>,
    pub(crate) users: Vec<User>,
    /// The workspaces that the same file declares.
    pub(crate) beside: Vec<String>,
}

/// A SCIM token that is declared.
pub(crate) struct DeclaredToken {
    pub name: String,
    pub secret: SecretString,
    pub allow: Vec<IpNet>,
}

impl Check<'_> {
    pub(crate) fn company(&mut self, file: &CompanyFile) -> Company {
        Company {
            name: self.value("company", &file.company, values::name).unwrap_or_default(),
            tokens: self.tokens(&file.scim_tokens),
            users: self.users(&file.dashboard_users),
            beside: Vec::new(),
        }
    }

    fn tokens(&mut self, files: &[TokenFile]) -> Vec<DeclaredToken> {
        let mut declared = Vec::new();
        let (mut names, mut secrets) = (HashSet::new(), HashSet::new());
        for (i, file) in files.iter().enumerate() {
            let (name_path, secret_path) =
                (format!("scim_tokens[{i}].name"), format!("scim_tokens[{i}].secret"));
            let name = self.value(&name_path, &file.name, |text| {
                keys::check_name(text).map(|()| text.to_owned())
            });
            let secret = self.value(&secret_path, &file.secret, |text| {
                keys::check_secret(text).map(|()| text.to_owned())
            });
            let allow = self.list(&format!("scim_tokens[{i}].allow"), &file.allow, network);
            if let (Some(name), Some(secret)) = (name, secret) {
                self.distinct(&name_path, &mut names, name.clone(), &file.name);
                self.distinct(&secret_path, &mut secrets, secret.clone(), &file.secret);
                declared.push(DeclaredToken { name, secret: secret.into(), allow });
            }
        }
        declared
    }

    fn users(&mut self, files: &[UserFile]) -> Vec<User> {
        let mut declared = Vec::new();
        let mut names = HashSet::new();
        for (i, file) in files.iter().enumerate() {
            let path = format!("dashboard_users[{i}]");
            let user = self.user(&path, file);
            self.distinct(&format!("{path}.user_name"), &mut names, user.key(), &file.user_name);
            declared.push(user);
        }
        declared
    }

    fn user(&mut self, path: &str, file: &UserFile) -> User {
        let mut optional = |name: &str, text: &Option<Text>| {
            self.optional(&format!("{path}.{name}"), text.as_ref(), values::name)
        };
        let name = Name {
            given_name: optional("given_name", &file.given_name),
            family_name: optional("family_name", &file.family_name),
        };
        let department = optional("department", &file.department);
        let user_name = self.value(&format!("{path}.user_name"), &file.user_name, values::name);
        let permissions = file.permissions.as_ref().map(|file| Permissions {
            company_permissions: self.list(
                &format!("{path}.permissions.company"),
                &file.company,
                values::name,
            ),
            app_group: self.app_groups(&format!("{path}.permissions.workspaces"), file),
        });
        User {
            user_name: user_name.unwrap_or_default(),
            external_id: None,
            name: Some(name).filter(|name| *name != Name { given_name: None, family_name: None }),
            active: Some(true),
            department,
            permissions: permissions.filter(|permissions| *permissions != Permissions::default()),
        }
    }

    fn app_groups(&mut self, path: &str, file: &PermissionsFile) -> Vec<UserAppGroup> {
        let mut groups = Vec::new();
        let mut names = HashSet::new();
        for (i, file) in file.workspaces.iter().enumerate() {
            let path = format!("{path}[{i}]");
            let name_path = format!("{path}.workspace");
            let name = self.value(&name_path, &file.workspace, values::workspace_name);
            let name = name.unwrap_or_default();
            self.distinct(&name_path, &mut names, name.clone(), &file.workspace);
            let AppGroup { id, name } = AppGroup::of(&name);
            let permissions =
                self.list(&format!("{path}.permissions"), &file.permissions, values::name);
            let teams = file.teams.iter().enumerate();
            let teams = teams.map(|(i, team)| {
                self.team(&format!("{path}.teams[{i}]"), team, file.workspace.line())
            });
            groups.push(UserAppGroup {
                team: teams.collect(),
                app_group_id: id,
                app_group_name: name,
                app_group_permissions: permissions,
            });
        }
        groups
    }

    fn team(&mut self, path: &str, file: &TeamFile, line: u64) -> Team {
        if file.id.is_none() && file.name.is_none() {
            self.refuse(line, path, "a team has an id or a name");
        }
        Team {
            team_id: self.optional(&format!("{path}.id"), file.id.as_ref(), values::name),
            team_name: self.optional(&format!("{path}.name"), file.name.as_ref(), values::name),
            team_permissions: self.list(
                &format!("{path}.permissions"),
                &file.permissions,
                values::name,
            ),
        }
    }
}
