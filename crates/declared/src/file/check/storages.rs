//! Checks the storages of a workspace.

use super::super::{Document, steps};
use crate::document::storage::{DeclaredStorage, S3, Storage};
use gateway::workspaces::storage::MAX_NAMED;

pub(super) fn storage(storage: &Storage, document: &mut Document<'_>) {
    if let Some(bucket) = &storage.s3 {
        s3(bucket, &steps!["storage", "s3"], document);
    }
    if let Some(azure) = &storage.azure {
        let credentials = [&azure.access_key, &azure.sas_token];
        azure_credentials(credentials, &steps!["storage", "azure"], document);
    }
}

pub(super) fn storages(storages: &[DeclaredStorage], document: &mut Document<'_>) {
    let list = steps!["storages"];
    document.distinct(&list, "name", storages.iter().map(|storage| &storage.name));
    if storages.len() > MAX_NAMED {
        document.report(&list, format!("at most {MAX_NAMED} storages"));
    }
    for (i, storage) in storages.iter().enumerate() {
        if storage.s3.is_some() == storage.azure.is_some() {
            document.report(&steps!["storages", i], "exactly one of s3 and azure is required");
        }
        if let Some(bucket) = &storage.s3 {
            s3(bucket, &steps!["storages", i, "s3"], document);
        }
        if let Some(azure) = &storage.azure {
            let credentials = [&azure.access_key, &azure.sas_token];
            azure_credentials(credentials, &steps!["storages", i, "azure"], document);
        }
    }
}

fn s3(s3: &S3, path: &[String], document: &mut Document<'_>) {
    let mut report = |field: &str, text| document.report(&[path, &steps![field]].concat(), text);
    if s3.access_key_id.is_some() != s3.secret_access_key.is_some() {
        let text = "requires secret_access_key; without both, the machine's own credentials \
                    are used";
        report("access_key_id", text);
    } else if s3.session_token.is_some() && s3.access_key_id.is_none() {
        report("session_token", "requires access_key_id and secret_access_key");
    }
    if s3.region.is_none() && s3.endpoint.is_none() {
        report("region", "is required, for example eu-west-1");
    }
}

fn azure_credentials(
    [access_key, sas_token]: [&Option<String>; 2],
    path: &[String],
    document: &mut Document<'_>,
) {
    if access_key.is_some() == sas_token.is_some() {
        let path = [path, &steps!["access_key"]].concat();
        document.report(&path, "exactly one of access_key and sas_token is required");
    }
}
