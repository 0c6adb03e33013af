//! The permissions of users: their own, and those of their groups.

use serde::{Deserialize, Serialize};

use super::resource::AppGroup;
use super::schema::{APP_GROUP_ID, APP_GROUP_NAME, invalid};
use gateway::scim::ScimError;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    pub company_permissions: Vec<String>,
    pub app_group: Vec<UserAppGroup>,
}

/// A user's permissions in an app group. A client sends its id, its name or both; both are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserAppGroup {
    pub app_group_id: String,
    pub app_group_name: String,
    pub app_group_permissions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub team: Vec<Team>,
}

/// A team. Clients choose its id and name, which are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Team {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team_name: Option<String>,
    pub team_permissions: Vec<String>,
}

impl Permissions {
    /// The name of each permission, with where it is granted.
    pub fn names(&self) -> Vec<String> {
        let mut names = self.company_permissions.clone();
        for group in &self.app_group {
            let app_group = &group.app_group_name;
            let granted = group.app_group_permissions.iter();
            names.extend(granted.map(|permission| format!("{app_group}: {permission}")));
            for team in &group.team {
                let team_name = team.team_name.as_ref().or(team.team_id.as_ref());
                let team_name = team_name.map_or("", String::as_str);
                let granted = team.team_permissions.iter();
                names.extend(granted.map(|name| format!("{app_group}, team {team_name}: {name}")));
            }
        }
        names
    }

    /// Adds the permissions of another one.
    pub fn add(&mut self, others: &Self) {
        add(&mut self.company_permissions, &others.company_permissions);
        for other in &others.app_group {
            let Some(own) = self.app_group.iter_mut().find(|own| own.is_same(other)) else {
                self.app_group.push(other.clone());
                continue;
            };
            add(&mut own.app_group_permissions, &other.app_group_permissions);
            for team in &other.team {
                match own.team.iter_mut().find(|own| own.is_same(team)) {
                    Some(own) => add(&mut own.team_permissions, &team.team_permissions),
                    None => own.team.push(team.clone()),
                }
            }
        }
    }

    /// Removes the permissions that the user has only from groups: those in `granted` that are not
    /// in `own`.
    pub fn subtract(&mut self, granted: &Self, own: &Self) {
        subtract(
            &mut self.company_permissions,
            &granted.company_permissions,
            &own.company_permissions,
        );
        self.app_group.retain_mut(|group| {
            let find = |permissions: &Self| {
                permissions.app_group.iter().find(|other| other.is_same(group)).cloned()
            };
            let Some(granted) = find(granted) else { return true };
            let (is_own, own) = (find(own).is_some(), find(own).unwrap_or_default());
            subtract(
                &mut group.app_group_permissions,
                &granted.app_group_permissions,
                &own.app_group_permissions,
            );
            group.team.retain_mut(|team| {
                let find = |teams: &[Team]| teams.iter().find(|other| other.is_same(team)).cloned();
                let Some(granted) = find(&granted.team) else { return true };
                let own = find(&own.team);
                let (is_own, own) = (own.is_some(), own.unwrap_or_default());
                subtract(
                    &mut team.team_permissions,
                    &granted.team_permissions,
                    &own.team_permissions,
                );
                is_own || !team.team_permissions.is_empty()
            });
            is_own || !group.app_group_permissions.is_empty() || !group.team.is_empty()
        });
    }

    /// Sets the id and the name of each app group from its workspace.
    pub(super) fn resolve_app_groups(&mut self, app_groups: &[AppGroup]) -> Result<(), ScimError> {
        resolve_app_groups(&mut self.app_group, app_groups)
    }
}

impl UserAppGroup {
    fn is_same(&self, other: &Self) -> bool {
        self.app_group_id == other.app_group_id
    }
}

impl Team {
    fn is_same(&self, other: &Self) -> bool {
        (&self.team_id, &self.team_name) == (&other.team_id, &other.team_name)
    }
}

fn add(own: &mut Vec<String>, others: &[String]) {
    for other in others {
        if !own.contains(other) {
            own.push(other.clone());
        }
    }
}

fn subtract(permissions: &mut Vec<String>, granted: &[String], own: &[String]) {
    permissions.retain(|permission| own.contains(permission) || !granted.contains(permission));
}

/// Sets the id and the name of each app group from its workspace.
fn resolve_app_groups(
    groups: &mut [UserAppGroup],
    app_groups: &[AppGroup],
) -> Result<(), ScimError> {
    for index in 0..groups.len() {
        let (before, rest) = groups.split_at_mut(index);
        let group = &mut rest[0];
        let matched = app_groups.iter().find(|app_group| {
            let is_id = group.app_group_id.eq_ignore_ascii_case(&app_group.id);
            let is_name = group.app_group_name == app_group.name;
            (is_id || group.app_group_id.is_empty())
                && (is_name || group.app_group_name.is_empty())
                && (is_id || is_name)
        });
        let Some(matched) = matched else {
            let reason = format!("no app group matches this {APP_GROUP_ID} and {APP_GROUP_NAME}");
            return Err(invalid("permissions.appGroup", &reason));
        };
        if before.iter().any(|other| other.app_group_id == matched.id) {
            return Err(invalid("permissions.appGroup", "duplicate app group"));
        }
        group.app_group_id.clone_from(&matched.id);
        group.app_group_name.clone_from(&matched.name);
        if group.team.iter().any(|team| team.team_id.is_none() && team.team_name.is_none()) {
            let reason = "a team must have a teamId or a teamName";
            return Err(invalid("permissions.appGroup.team", reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(company: &[&str], workspaces: &[(&str, &[&str])]) -> Permissions {
        let texts =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let app_group = workspaces.iter().map(|(id, permissions)| UserAppGroup {
            app_group_id: (*id).to_owned(),
            app_group_name: (*id).to_owned(),
            app_group_permissions: texts(permissions),
            team: Vec::new(),
        });
        Permissions { company_permissions: texts(company), app_group: app_group.collect() }
    }

    #[test]
    fn added_permissions_can_be_subtracted() {
        let own = permissions(&["a"], &[("1", &["x"])]);
        let granted = permissions(&["a", "b"], &[("1", &["x", "y"]), ("2", &[])]);
        let mut all = own.clone();
        all.add(&granted);
        assert_eq!(all, permissions(&["a", "b"], &[("1", &["x", "y"]), ("2", &[])]));
        all.subtract(&granted, &own);
        assert_eq!(all, own);
        let mut more = permissions(&["b", "c"], &[("2", &["z"])]);
        more.subtract(&granted, &own);
        assert_eq!(more, permissions(&["c"], &[("2", &["z"])]));
    }
}
