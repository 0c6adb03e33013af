//! Which rights the permissions of dashboard users grant (docs/reference/console-rights.md).
//!
//! SCIM stores names of permissions and does not interpret them. This table does. The setting
//! `console.permissions` replaces entries. Names that are not in it grant nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rights::{Right, RightSet, Rights};
use runtime::config::{Config, ConfigError};
use scim::permissions::Permissions;

/// The built-in table, by the names of permissions.
const BUILT_IN: &[(&str, &[Right])] = &[
    ("admin", &Right::ALL),
    (
        "basic_access",
        &[Right::ExportsView, Right::SegmentsView, Right::MessagesView, Right::CatalogsView],
    ),
    (
        "export_user_data",
        &[Right::ExportsView, Right::ExportsRun, Right::ExportsDownload, Right::SegmentsView],
    ),
    ("manage_api_keys", &[Right::KeysManage]),
    (
        "manage_company_settings",
        &[Right::SystemView, Right::AuditView, Right::KeysManage, Right::SessionsManage],
    ),
    ("manage_dashboard_users", &[Right::SessionsManage]),
    ("manage_external_integrations", &[Right::MessagesView, Right::DeliveriesResend]),
    ("see_reports", &[Right::ExportsView, Right::SegmentsView, Right::MessagesView]),
    ("see_users", &[Right::UsersView]),
    (
        "send_campaigns",
        &[
            Right::SegmentsView,
            Right::MessagesView,
            Right::MessagesCancel,
            Right::MessagesSend,
            Right::CatalogsView,
        ],
    ),
    (
        "send_campaigns_canvases",
        &[
            Right::SegmentsView,
            Right::MessagesView,
            Right::MessagesCancel,
            Right::MessagesSend,
            Right::CatalogsView,
        ],
    ),
    ("view_pii", &[Right::UsersView]),
    (
        "view_usage_data",
        &[Right::ExportsView, Right::SegmentsView, Right::MessagesView, Right::SystemView],
    ),
    ("view_user_profile", &[Right::UsersView]),
];

/// The rights that each permission grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionTable(BTreeMap<String, BTreeSet<Right>>);

impl PermissionTable {
    /// The built-in table with the changes of `console.permissions`. Unknown rights grant nothing;
    /// [`check`] reports them.
    pub fn from_config(config: &Config) -> Self {
        let mut table: BTreeMap<String, BTreeSet<Right>> = BUILT_IN
            .iter()
            .map(|(name, rights)| ((*name).to_owned(), rights.iter().copied().collect()))
            .collect();
        for (name, rights) in &config.console.permissions {
            let rights = rights.iter().filter_map(|right| Right::from_name(right)).collect();
            table.insert(name.clone(), rights);
        }
        Self(table)
    }

    /// The permissions, by name, with the rights that each grants.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Vec<Right>)> {
        self.0.iter().map(|(name, rights)| (name.as_str(), rights.iter().copied().collect()))
    }

    /// Whether a permission grants any right.
    pub fn grants(&self, permission: &str) -> bool {
        self.0.get(permission).is_some_and(|rights| !rights.is_empty())
    }

    /// The rights of a person: company permissions in every workspace, those of an app group in its
    /// workspace. Permissions of teams grant nothing: a team is a part of the users of an app
    /// group, and a right is for a whole workspace. `workspaces` are the ids by name.
    pub fn rights(&self, permissions: &Permissions, workspaces: &HashMap<String, i32>) -> Rights {
        let mut in_workspaces = BTreeMap::new();
        for group in &permissions.app_group {
            let rights = self.granted(&group.app_group_permissions);
            if let (Some(id), false) = (workspaces.get(&group.app_group_name), rights.is_empty()) {
                in_workspaces.insert(*id, rights);
            }
        }
        Rights { everywhere: self.granted(&permissions.company_permissions), in_workspaces }
    }

    fn granted(&self, permissions: &[String]) -> RightSet {
        let granted: BTreeSet<Right> =
            permissions.iter().filter_map(|name| self.0.get(name)).flatten().copied().collect();
        RightSet::from_rights(&granted.into_iter().collect::<Vec<_>>())
    }
}

/// Rejects `console.permissions` with unknown rights, before the console starts.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    for (name, rights) in &config.console.permissions {
        for right in rights.iter().filter(|right| Right::from_name(right).is_none()) {
            let known = Right::ALL.map(Right::name).join(", ");
            problems.push(format!(
                "console.permissions.{name}: {right:?} is not a right; expected some of {known}"
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ConfigError { problems }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scim::resource::UserAppGroup;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn config(permissions: &[(&str, &[&str])]) -> Config {
        let mut config = Config::default();
        let changes = permissions.iter().map(|(name, rights)| ((*name).to_owned(), texts(rights)));
        config.console.permissions = changes.collect();
        config
    }

    #[test]
    fn company_permissions_count_everywhere_and_others_in_their_workspace() {
        let permissions = Permissions {
            company_permissions: texts(&["see_reports", "no_such_permission"]),
            app_group: vec![
                UserAppGroup {
                    app_group_name: "acme".into(),
                    app_group_permissions: texts(&["export_user_data"]),
                    team: vec![scim::resource::Team {
                        team_permissions: texts(&["admin"]),
                        ..Default::default()
                    }],
                    ..UserAppGroup::default()
                },
                UserAppGroup {
                    app_group_name: "removed".into(),
                    app_group_permissions: texts(&["admin"]),
                    ..UserAppGroup::default()
                },
            ],
        };
        let workspaces = [("acme".to_owned(), 1), ("beta".to_owned(), 2)].into();
        let rights = PermissionTable::from_config(&config(&[])).rights(&permissions, &workspaces);
        assert!(rights.has(Right::ExportsView, None) && rights.has(Right::ExportsView, Some(2)));
        assert!(rights.has(Right::ExportsDownload, Some(1)));
        assert!(!rights.has(Right::ExportsDownload, Some(2)));
        assert!(!rights.has(Right::UsersErase, Some(1)), "permissions of teams grant nothing");
        assert_eq!(rights.in_workspaces.len(), 1);
    }

    #[test]
    fn settings_replace_entries() {
        let changed =
            [("see_reports", &["system.view"][..]), ("own", &["exports.run"]), ("admin", &[])];
        let changed = config(&changed);
        assert!(check(&changed).is_ok());
        let rights = |name: &str| {
            let table = PermissionTable::from_config(&changed);
            let found = table.entries().find(|(known, _)| *known == name);
            found.map(|(_, rights)| rights)
        };
        assert_eq!(rights("see_reports"), Some(vec![Right::SystemView]));
        assert_eq!(rights("own"), Some(vec![Right::ExportsRun]));
        assert_eq!(rights("admin"), Some(Vec::new()));
        assert_eq!(rights("see_users"), Some(vec![Right::UsersView]));
        let wrong = check(&config(&[("own", &["exports.everything"])])).unwrap_err().to_string();
        assert!(wrong.contains("console.permissions.own") && wrong.contains("exports.view"));
    }

    #[test]
    fn the_reference_has_the_built_in_table() {
        let page = include_str!("../../../docs/reference/console-rights.md");
        let (_, table) = page.split_once("| Permission |").expect("the table is there");
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
        let expected = PermissionTable::from_config(&config(&[]));
        let expected: Vec<String> = expected
            .entries()
            .map(|(name, rights)| {
                let names: Vec<String> =
                    rights.iter().map(|right| format!("`{}`", right.name())).collect();
                let all = rights.len() == Right::ALL.len();
                let rights = if all { "every right".to_owned() } else { names.join(", ") };
                format!("| `{name}` | {rights} |")
            })
            .collect();
        assert_eq!(rows, expected);
    }
}
