//! Tests a storage with real requests, and reports what does not work.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use uuid::Uuid;

use super::{NO_CONDITIONAL_WRITES, ObjectError, Objects, Put, PutOptions, Reason};

const BODY: &[u8] = b"longshore tested whether it can write here; you can delete this file\n";

/// The folder of one test's objects.
fn folder(id: Uuid) -> String {
    format!("longshore-probe/{id}/")
}

fn path(id: Uuid, name: &str) -> String {
    format!("{}{name}", folder(id))
}

/// Tests a workspace's own storage: puts, conditionally puts, inspects, reads, copies, uploads in
/// parts and deletes small objects below `longshore-probe/`. Fails if a put fails, or if the store
/// overwrites objects in a conditional put. For each other failure, returns a sentence that says
/// which feature of exports will not work.
pub async fn own_storage(objects: &Objects) -> Result<Vec<Reason>, ObjectError> {
    let id = Uuid::new_v4();
    let (first, second) = (path(id, "put"), path(id, "copy"));
    put_first(objects, &first).await?;
    // Every export file is written with this condition.
    let conditional_put = match put(objects, &first, true).await {
        Ok(Put::Exists) => Ok(()),
        Ok(Put::Written) => Err(ObjectError::Refused(Reason::at(objects, NO_CONDITIONAL_WRITES))),
        Err(error) => Err(error),
    };
    if conditional_put.is_err() {
        // The storage is rejected in any case.
        let _ = objects.delete(&first).await;
    }
    conditional_put?;
    let results = [
        try_head(objects, &first).await,
        try_get(objects, &first).await,
        try_copy(objects, &first, &second).await,
        try_upload(objects, &first).await,
        try_delete(objects, &first, &second).await,
    ];
    Ok(results.into_iter().filter_map(Result::err).collect())
}

/// Tests the storage of the ZIPs behind `url`, with everything that exports need: puts and reads a
/// small object, signs a URL for it and deletes by folder.
pub async fn build_storage(objects: &Objects) -> Result<(), ObjectError> {
    let id = Uuid::new_v4();
    let first = path(id, "put");
    put_first(objects, &first).await?;
    let result = async {
        read(objects, &first).await?;
        objects.signed_get(&first, Duration::from_secs(60), "probe.txt").await
    };
    let result = result.await;
    let removed = objects.delete_prefix(&folder(id)).await;
    result.and(removed).map(drop)
}

/// Tests whether the storage accepts objects: puts a small one, with the same name for the same
/// `id`, and deletes it.
pub async fn can_write(objects: &Objects, id: Uuid) -> Result<(), ObjectError> {
    let key = path(id, "put");
    put(objects, &key, false).await?;
    objects.delete(&key).await
}

/// Whether a storage that failed accepts objects again: a test before work that would be lost. It
/// may refuse what only the test writes.
pub async fn is_back(objects: &Objects, id: Uuid) -> Result<(), ObjectError> {
    match can_write(objects, id).await {
        Err(ObjectError::Refused(_)) => Ok(()),
        tested => tested,
    }
}

/// [`put`]s, and after an error deletes what may have been written nevertheless.
async fn put_first(objects: &Objects, key: &str) -> Result<(), ObjectError> {
    let written = put(objects, key, false).await;
    if written.is_err() {
        // The error of the put is the one to report.
        let _ = objects.delete(key).await;
    }
    written.map(drop)
}

async fn put(objects: &Objects, key: &str, if_absent: bool) -> Result<Put, ObjectError> {
    let options = PutOptions {
        content_type: "text/plain",
        metadata: metadata(),
        if_absent,
        ..PutOptions::default()
    };
    objects.put(key, Bytes::from_static(BODY), options).await
}

fn metadata() -> BTreeMap<String, String> {
    [("probe".to_owned(), "1".to_owned())].into()
}

async fn try_head(objects: &Objects, key: &str) -> Result<(), Reason> {
    const FAILS: &str = "exports that retry a file fail";
    match objects.head(key).await {
        Ok(Some(head)) if head.size != BODY.len() as u64 => {
            Err(format!("the store reports a wrong object size: {FAILS}").into())
        }
        Ok(Some(head)) if head.metadata != metadata() => {
            Err(format!("the store does not store metadata: {FAILS}").into())
        }
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("a written object is not immediately visible: {FAILS}").into()),
        Err(error) => Err(Reason::about(&error, |error| {
            format!("cannot read object properties ({error}): {FAILS}")
        })),
    }
}

async fn try_get(objects: &Objects, key: &str) -> Result<(), Reason> {
    read(objects, key).await.map_err(|error| {
        Reason::about(&error, |error| {
            format!("cannot read objects ({error}): files cannot be verified")
        })
    })
}

/// Reads an object of [`put`].
async fn read(objects: &Objects, key: &str) -> Result<(), ObjectError> {
    let (mut object, mut rest) = (objects.get(key).await?, BODY);
    // Ends with the first byte that differs: the object of a hostile store has no end.
    let is_same = loop {
        match object.try_next().await? {
            None => break rest.is_empty(),
            Some(bytes) => match rest.strip_prefix(&*bytes) {
                Some(remaining) => rest = remaining,
                None => break false,
            },
        }
    };
    if is_same {
        return Ok(());
    }
    let text = "an object read back differs from what was written";
    Err(ObjectError::Refused(Reason::at(objects, text)))
}

async fn try_copy(objects: &Objects, from: &str, to: &str) -> Result<(), Reason> {
    objects.copy(from, to, &|_| true).await.map_err(|error| {
        Reason::about(&error, |error| {
            format!(
                "cannot copy objects ({error}): an export that runs across midnight (UTC) fails"
            )
        })
    })
}

/// Large files are uploaded in parts. Most exports have none, so a store without this condition is
/// not rejected.
async fn try_upload(objects: &Objects, key: &str) -> Result<(), Reason> {
    match objects.rejects_upload(key, Bytes::from_static(BODY)).await {
        Ok(true) => Ok(()),
        Ok(false) => Err("the store does not support conditional writes in parts \
                          (CompleteMultipartUpload with If-None-Match: *): a paused worker could \
                          replace a file of more than 16 MiB that is already counted"
            .into()),
        Err(error) => Err(Reason::about(&error, |error| {
            format!(
                "cannot upload objects in parts ({error}): exports with a file of more than 16 \
                 MiB fail"
            )
        })),
    }
}

async fn try_delete(objects: &Objects, a: &str, b: &str) -> Result<(), Reason> {
    let removed = async {
        objects.delete(a).await?;
        objects.delete(b).await
    };
    removed.await.map_err(|error| {
        Reason::about(&error, |error| {
            format!(
                "cannot delete objects ({error}): an export that runs across midnight (UTC) fails, \
                 and the files of cancelled and failed exports stay, as does the object of this \
                 test below longshore-probe/"
            )
        })
    })
}
