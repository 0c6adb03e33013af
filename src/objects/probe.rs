//! Tries a storage with real requests and says what does not work with it.

use bytes::Bytes;
use futures::TryStreamExt as _;
use uuid::Uuid;

use super::{ObjectError, ObjectKey, Objects, Put, PutOptions};

/// What goes without: one sentence each; empty when all works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    pub limits: Vec<String>,
}

const BODY: &[u8] = b"longshore looks whether it can write here; this may be removed\n";

/// Puts, puts if absent, reads, copies and deletes small objects below `longshore-probe/`.
/// Only a failing put is an error: without the others exports go on, and the report says
/// what they go without.
pub async fn probe(objects: &Objects) -> Result<ProbeReport, ObjectError> {
    let id = Uuid::new_v4();
    let (first, second) =
        (ObjectKey::Probe { id, name: "put" }, ObjectKey::Probe { id, name: "copy" });
    objects.put(&first, Bytes::from_static(BODY), options(false)).await?;
    let tried = [
        try_if_absent(objects, &first).await,
        try_head(objects, &first).await,
        try_get(objects, &first).await,
        try_copy(objects, &first, &second).await,
        try_delete(objects, &first, &second).await,
    ];
    Ok(ProbeReport { limits: tried.into_iter().filter_map(Result::err).collect() })
}

fn options(if_absent: bool) -> PutOptions {
    PutOptions {
        content_type: "text/plain",
        metadata: [("probe".to_owned(), "1".to_owned())].into(),
        if_absent,
    }
}

async fn try_if_absent(objects: &Objects, key: &ObjectKey) -> Result<(), String> {
    const MEANS: &str = "a worker that was taken for dead may write a file a second time";
    match objects.put(key, Bytes::from_static(BODY), options(true)).await {
        Ok(Put::Exists) => Ok(()),
        Ok(Put::Written) => {
            Err(format!("the store writes over objects although asked not to: {MEANS}"))
        }
        Err(error) => Err(format!("cannot write only if absent ({error}): {MEANS}")),
    }
}

async fn try_head(objects: &Objects, key: &ObjectKey) -> Result<(), String> {
    const MEANS: &str = "a file that a lost worker left is written anew instead of taken over";
    match objects.head(key).await {
        Ok(Some(head)) if head.size != BODY.len() as u64 => {
            Err(format!("the store tells a wrong size of objects: {MEANS}"))
        }
        Ok(Some(head)) if head.metadata != options(false).metadata => {
            Err(format!("the store does not keep metadata: {MEANS}"))
        }
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("what was written is not found at once: {MEANS}")),
        Err(error) => Err(format!("cannot look at objects ({error}): {MEANS}")),
    }
}

async fn try_get(objects: &Objects, key: &ObjectKey) -> Result<(), String> {
    const MEANS: &str = "files cannot be verified";
    let read = async { objects.get(key).await?.try_collect::<Vec<Bytes>>().await };
    match read.await {
        Ok(chunks) if chunks.concat() == BODY => Ok(()),
        Ok(_) => Err(format!("what is read is not what was written: {MEANS}")),
        Err(error) => Err(format!("cannot read objects ({error}): {MEANS}")),
    }
}

async fn try_copy(objects: &Objects, from: &ObjectKey, to: &ObjectKey) -> Result<(), String> {
    objects.copy(from, to).await.map_err(|error| {
        format!(
            "cannot copy objects ({error}): files of an export that runs across midnight cannot \
             be moved to the folder of its date"
        )
    })
}

async fn try_delete(objects: &Objects, a: &ObjectKey, b: &ObjectKey) -> Result<(), String> {
    let removed = async {
        objects.delete(a).await?;
        objects.delete(b).await
    };
    removed.await.map_err(|error| {
        format!(
            "cannot delete objects ({error}): files of cancelled and failed exports stay, and so \
             does what was just tried, below longshore-probe/"
        )
    })
}
