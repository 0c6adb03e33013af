//! What a person may see and do in the console (docs/reference/console-rights.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

store::text_enum! {
    /// A right. Stored names that are not listed grant nothing.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Right {
        /// Exports, their progress and their proof; not the records of users in them.
        ExportsView = "exports.view",
        /// Request, repeat and cancel exports.
        ExportsRun = "exports.run",
        /// Download the files of exports: personal data.
        ExportsDownload = "exports.download",
        /// Segments, their conditions and numbers of users; not the users.
        SegmentsView = "segments.view",
        /// Users, their activity and messages, and invalid phone numbers: personal data.
        UsersView = "users.view",
        /// Erase users.
        UsersErase = "users.erase",
        /// Sends, their results and deliveries; not their recipients.
        MessagesView = "messages.view",
        /// Cancel sends.
        MessagesCancel = "messages.cancel",
        /// Send campaigns to segments.
        MessagesSend = "messages.send",
        /// Catalogs, their items, and the products that were bought.
        CatalogsView = "catalogs.view",
        /// Send callbacks and postbacks again.
        DeliveriesResend = "deliveries.resend",
        /// Processes, lag and dead letters, of the whole installation.
        SystemView = "system.view",
        /// Apply and discard dead letters: discarded data is lost.
        DeadLettersManage = "dead_letters.manage",
        /// Create and revoke API keys.
        KeysManage = "keys.manage",
        /// See and end the sessions of all people.
        SessionsManage = "sessions.manage",
        /// The audit log, of the whole installation.
        AuditView = "audit.view",
    }
}

store::text_enum! {
    /// A set of rights in every workspace, for sign-in links.
    pub enum Role {
        /// Sees work, but no personal data; changes nothing.
        Viewer = "viewer",
        /// Also starts and stops work.
        Operator = "operator",
        /// Has every right.
        Admin = "admin",
    }
}

impl Role {
    pub fn rights(self) -> RightSet {
        const VIEWER: [Right; 5] = [
            Right::ExportsView,
            Right::SegmentsView,
            Right::MessagesView,
            Right::CatalogsView,
            Right::SystemView,
        ];
        const OPERATOR: [Right; 9] = [
            Right::ExportsView,
            Right::SegmentsView,
            Right::MessagesView,
            Right::CatalogsView,
            Right::SystemView,
            Right::ExportsRun,
            Right::MessagesCancel,
            Right::MessagesSend,
            Right::DeliveriesResend,
        ];
        match self {
            Self::Viewer => RightSet::from_rights(&VIEWER),
            Self::Operator => RightSet::from_rights(&OPERATOR),
            Self::Admin => RightSet::from_rights(&Right::ALL),
        }
    }
}

/// A set of rights. Stored as their names, so that a program of another release can read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RightSet(Vec<String>);

impl RightSet {
    pub fn from_rights(rights: &[Right]) -> Self {
        Self(rights.iter().map(|right| right.name().to_owned()).collect())
    }

    pub fn has(&self, right: Right) -> bool {
        self.0.iter().any(|name| name == right.name())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rights of a person: in every workspace, and further ones in some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    pub everywhere: RightSet,
    #[serde(default)]
    pub in_workspaces: BTreeMap<i32, RightSet>,
}

impl Rights {
    pub fn from_role(role: Role) -> Self {
        Self { everywhere: role.rights(), in_workspaces: BTreeMap::new() }
    }

    /// Whether the person has the right in a workspace; without one, in the whole installation.
    pub fn has(&self, right: Right, workspace: Option<i32>) -> bool {
        let further = workspace.and_then(|id| self.in_workspaces.get(&id));
        self.everywhere.has(right) || further.is_some_and(|rights| rights.has(right))
    }

    /// Whether the workspace exists for the person.
    pub fn sees(&self, workspace: i32) -> bool {
        !self.everywhere.is_empty()
            || self.in_workspaces.get(&workspace).is_some_and(|rights| !rights.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_grow() {
        for right in Right::ALL {
            assert!(Role::Admin.rights().has(right));
            assert!(Role::Operator.rights().has(right) || !Role::Viewer.rights().has(right));
        }
        for personal in [Right::UsersView, Right::ExportsDownload, Right::UsersErase] {
            assert!(!Role::Operator.rights().has(personal), "{personal:?}");
        }
    }

    #[test]
    fn a_right_in_one_workspace_is_none_in_another() {
        let mut rights = Rights::default();
        rights.in_workspaces.insert(1, RightSet::from_rights(&[Right::ExportsView]));
        assert!(rights.has(Right::ExportsView, Some(1)) && rights.sees(1));
        assert!(!rights.has(Right::ExportsView, Some(2)) && !rights.sees(2));
        assert!(!rights.has(Right::ExportsView, None));
        assert!(!rights.has(Right::ExportsRun, Some(1)));
    }

    #[test]
    fn the_reference_has_the_roles_of_each_right() {
        let page = include_str!("../../../docs/reference/console-rights.md");
        // A table of permissions follows.
        let (page, _) = page.split_once("## Permissions").expect("the section is there");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), Right::ALL.len());
        for right in Right::ALL {
            let roles = Role::ALL.into_iter().filter(|role| role.rights().has(right));
            let roles: Vec<&str> = roles.map(Role::name).collect();
            let name = format!("| `{}` |", right.name());
            let row = rows.iter().find(|row| row.starts_with(&name)).expect("each right is there");
            assert!(row.ends_with(&format!("| {} |", roles.join(", "))), "{row}");
        }
    }

    #[test]
    fn unknown_names_grant_nothing() {
        let stored = r#"{"everywhere": ["exports.everything", "*"]}"#;
        let rights: Rights = serde_json::from_str(stored).unwrap();
        assert!(Right::ALL.iter().all(|right| !rights.has(*right, Some(1))));
    }
}
