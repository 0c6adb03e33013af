//! Where the files of an export go: the request's `destination`, or the workspace's default.

use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::Job;
use gateway::ApiError;
use gateway::workspaces::storage::{AZURE, MAX_NAME, S3, URL, is_name};
use gateway::workspaces::{self, Workspace};
use store::{StoreError, Tx};

/// A chosen destination: the name of a storage, or one of the reserved names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(
    with = "String",
    inline,
    description = "Where the files go: the name of a storage that the workspace declares; `s3` or \
                   `azure` for the workspace's own storage of that kind; `url` for a download URL, \
                   even if the workspace has own storage. Default: Azure if it is the default \
                   destination, else S3, else a download URL.",
    extend("pattern" = format!("^[a-z0-9_-]{{1,{MAX_NAME}}}$"))
)]
pub(super) struct Destination(pub String);

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if is_name(&text) {
            return Ok(Self(text));
        }
        Err(format!("must be 1 to {MAX_NAME} lower-case letters, digits, hyphens and underscores"))
    }
}

/// The storage of a new export; none means a download URL. A destination that the workspace does
/// not have is rejected.
pub(super) async fn storage(
    tx: &mut Tx,
    workspace: &Workspace,
    destination: Option<&str>,
) -> Result<Option<Uuid>, ApiError> {
    let Some(destination) = destination else { return Ok(workspace.own_storage()) };
    let named = workspaces::named_storages(tx, workspace.id).await?;
    find(destination, &destinations(workspace, named)).map_err(ApiError::invalid_field)
}

/// The storage of an export that repeats `former`. Without a `destination`, the workspace's default
/// must be of the same kind as for `former`.
pub(super) async fn storage_again(
    tx: &mut Tx,
    workspace: &Workspace,
    former: &Job,
) -> Result<Option<Uuid>, ApiError> {
    let storage = storage(tx, workspace, former.destination.as_deref()).await?;
    if former.destination.is_none() {
        let (before, now) = (kind(tx, former.storage_id).await?, kind(tx, storage).await?);
        if before != now {
            return Err(changed(&before, &now));
        }
    }
    Ok(storage)
}

/// The destination of a job for people: the chosen one, or the kind of the default one.
pub(super) async fn shown(tx: &mut Tx, job: &Job) -> Result<String, StoreError> {
    match &job.destination {
        Some(name) => Ok(name.clone()),
        None => kind(tx, job.storage_id).await,
    }
}

async fn kind(tx: &mut Tx, storage: Option<Uuid>) -> Result<String, StoreError> {
    match storage {
        Some(id) => workspaces::storage::kind(tx, id).await,
        None => Ok(URL.to_owned()),
    }
}

/// The error of a repeat whose destination the workspace's default no longer is.
pub(super) fn changed(before: &str, now: &str) -> ApiError {
    ApiError::Conflict(format!(
        "The default destination was {before} and is now {now}: request a new export, and set \
         destination"
    ))
}

/// The destinations that requests of the workspace can choose. Without a choice, the files go to
/// the workspace's own storage, or to `url` if it has none.
pub async fn names(tx: &mut Tx, workspace: &Workspace) -> Result<Vec<String>, StoreError> {
    let named = workspaces::named_storages(tx, workspace.id).await?;
    Ok(destinations(workspace, named).into_iter().map(|(name, _)| name).collect())
}

/// The destinations that requests of the workspace can choose, with their storages.
fn destinations(workspace: &Workspace, named: Vec<(String, Uuid)>) -> Vec<(String, Option<Uuid>)> {
    let own = [(S3, workspace.s3_storage), (AZURE, workspace.azure_storage)];
    let own = own.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?)));
    let storages = own.chain(named).map(|(name, id)| (name, Some(id)));
    std::iter::once((URL.to_owned(), None)).chain(storages).collect()
}

fn find(
    destination: &str,
    destinations: &[(String, Option<Uuid>)],
) -> Result<Option<Uuid>, String> {
    let found = destinations.iter().find(|(name, _)| name == destination);
    found.map(|(_, storage)| *storage).ok_or_else(|| {
        let names: Vec<&str> = destinations.iter().map(|(name, _)| name.as_str()).collect();
        format!(
            "destination: {destination:?} does not match a storage in this workspace, whose \
             destinations are {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_one_that_the_workspace_declares() {
        let (s3, lake) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let destinations =
            [("url".into(), None), ("s3".into(), Some(s3)), ("lake".into(), Some(lake))];
        assert_eq!(find("url", &destinations), Ok(None));
        assert_eq!(find("s3", &destinations), Ok(Some(s3)));
        assert_eq!(find("lake", &destinations), Ok(Some(lake)));
        for unknown in ["azure", "warehouse", "lak"] {
            let text = find(unknown, &destinations).unwrap_err();
            assert!(text.contains("destination") && text.contains(unknown), "{text}");
            assert!(text.ends_with("url, s3, lake"), "{text}");
        }
    }

    #[test]
    fn only_names_are_destinations() {
        let read = |text: &str| Destination::try_from(text.to_owned());
        assert!(read("url").is_ok() && read("data_lake-2").is_ok());
        for text in ["", "Lake", "a b", "a\0", &"x".repeat(65)] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
