//! Requests that rename external ids, and that remove former ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::message::{Identity, IdentityChange};
use super::{Body, MAX, by_id};
use gateway::formats::{Identifier, List, SuccessText};

/// External ids to rename.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RenameIdsRequest")]
pub(super) struct RenameIds {
    external_id_renames: List<RenameId, 1, MAX>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "IdRename")]
struct RenameId {
    current_external_id: Identifier,
    new_external_id: Identifier,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IdsRenamed")]
pub(super) struct Renamed {
    message: SuccessText,
    /// The new ids of the entries that were accepted.
    external_ids: Vec<String>,
    /// The errors of rejected entries, each with the index of its entry.
    rename_errors: Vec<(usize, String)>,
}

impl Body for RenameIds {
    type Response = Renamed;
    const PATH: &'static str = "/users/external_ids/rename";
    const PERMISSION: &'static str = "users.external_ids.rename";
    const ID: &'static str = "renameExternalIds";
    const SUMMARY: &'static str = "Rename external ids";
    const DESCRIPTION: &'static str = "Both ids identify the user until `POST \
         /users/external_ids/remove` removes the former one. If a user has several ids, use the \
         current one to rename the user. A user does not get an id that another user has.";

    fn example() -> Value {
        json!({ "external_id_renames": [
            { "current_external_id": "ann", "new_external_id": "ann-2" },
        ] })
    }

    fn changes(self) -> Result<(Renamed, Vec<Identity<'static>>), String> {
        let (mut external_ids, mut rename_errors, mut changes) = (vec![], vec![], vec![]);
        for (index, rename) in self.external_id_renames.0.into_iter().enumerate() {
            let RenameId { current_external_id: current, new_external_id: new } = rename;
            if current == new {
                let text = "current_external_id and new_external_id must be different";
                rename_errors.push((index, text.to_owned()));
                continue;
            }
            let change = IdentityChange::RenameExternalId(new.0.clone().into());
            changes.push(Identity::new(by_id(current), change));
            external_ids.push(new.0);
        }
        Ok((Renamed { message: SuccessText::Success, external_ids, rename_errors }, changes))
    }
}

/// Former external ids to remove.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "RemoveIdsRequest")]
pub(super) struct RemoveIds {
    external_ids: List<Identifier, 1, MAX>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IdsRemoved")]
pub(super) struct Removed {
    message: SuccessText,
    /// The ids that were accepted.
    removed_ids: Vec<String>,
    /// The errors of rejected entries, each with the index of its entry.
    removal_errors: Vec<(usize, String)>,
}

impl Body for RemoveIds {
    type Response = Removed;
    const PATH: &'static str = "/users/external_ids/remove";
    const PERMISSION: &'static str = "users.external_ids.remove";
    const ID: &'static str = "removeExternalIds";
    const SUMMARY: &'static str = "Remove former external ids";
    const DESCRIPTION: &'static str = "The current external id of a user is not removed.";

    fn example() -> Value {
        json!({ "external_ids": ["ann"] })
    }

    fn changes(self) -> Result<(Removed, Vec<Identity<'static>>), String> {
        let remove = |id: &Identifier| {
            let user = by_id(id.clone());
            Identity::new(user, IdentityChange::RemoveExternalId)
        };
        let changes = self.external_ids.0.iter().map(remove).collect();
        let removed_ids = self.external_ids.0.into_iter().map(|id| id.0).collect();
        let removal_errors = Vec::new();
        Ok((Removed { message: SuccessText::Success, removed_ids, removal_errors }, changes))
    }
}
