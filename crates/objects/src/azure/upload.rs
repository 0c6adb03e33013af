//! Uploads in blocks.

use azure_core::prelude::IfMatchCondition;
use azure_storage_blobs::blob::{BlobBlockType, BlockList};
use azure_storage_blobs::prelude::{BlobContentMD5, BlobContentType};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use md5::{Digest as _, Md5};
use uuid::Uuid;

use super::{Azure, to_metadata};
use crate::stream::{PARTS_IN_FLIGHT, PendingParts, digest};
use crate::{ObjectError, Put, PutOptions, content_type};

type Parts = BoxStream<'static, Result<(i32, Bytes), ObjectError>>;

impl Azure {
    /// Writes a blob of several blocks; on failure, deletes them all, unless another writer may
    /// have staged blocks for the same blob.
    pub(super) async fn upload(
        &self,
        path: &str,
        parts: Parts,
        options: &PutOptions,
    ) -> Result<Put, ObjectError> {
        let blocks = PendingParts::default();
        let staged = Staged {
            azure: self.clone(),
            path: path.to_owned(),
            blocks: blocks.clone(),
            open: !options.if_absent,
        };
        let sent = self.stage_and_commit(path, parts, &blocks, options).await;
        staged.end(sent).await
    }

    async fn stage_and_commit(
        &self,
        path: &str,
        parts: Parts,
        blocks: &PendingParts,
        options: &PutOptions,
    ) -> Result<Put, ObjectError> {
        let upload = Uuid::new_v4();
        // The digest of the whole needs the parts in order, so they pass through it.
        let parts = stream::try_unfold((parts, Some(Md5::new())), |(mut parts, md5)| async {
            let Some(md5) = md5 else { return Ok(None) };
            Ok::<_, ObjectError>(Some(match parts.try_next().await? {
                Some((number, bytes)) => {
                    let md5 = digest(md5, bytes.clone()).await?;
                    (Staging::Block(number, bytes), (parts, Some(md5)))
                }
                None => (Staging::End(md5.finalize().into()), (parts, None)),
            }))
        })
        .boxed();
        let target = (self.clone(), path.to_owned(), blocks.clone());
        let staged = parts.map_ok(move |staging| {
            let (azure, path, blocks) = target.clone();
            blocks.begin(async move { azure.stage(&path, upload, staging).await })
        });
        let staged: Vec<Staging> = staged.try_buffered(PARTS_IN_FLIGHT).try_collect().await?;
        let mut list = BlockList::default();
        let mut blob_md5 = [0; 16];
        for staging in staged {
            match staging {
                Staging::Block(number, _) => {
                    // Includes committed blocks: a lost response is requested again.
                    list.blocks.push(BlobBlockType::new_latest(block_id(upload, number)));
                }
                Staging::End(md5) => blob_md5 = md5,
            }
        }
        let mut request = self
            .blob(path)
            .put_block_list(list)
            .content_md5(BlobContentMD5(blob_md5))
            .content_type(BlobContentType::from_static(content_type(options)))
            .metadata(to_metadata(options));
        if options.if_absent {
            request = request.if_match(IfMatchCondition::NotMatch("*".into()));
        }
        match self.call("write", path, request).await {
            Ok(_) => Ok(Put::Written),
            Err(failure) if options.if_absent && failure.is_conflict() => Ok(Put::Exists),
            Err(failure) => Err(failure.error),
        }
    }

    async fn stage(
        &self,
        path: &str,
        upload: Uuid,
        staging: Staging,
    ) -> Result<Staging, ObjectError> {
        let Staging::Block(number, bytes) = staging else { return Ok(staging) };
        let request = self.blob(path).put_block(block_id(upload, number), bytes);
        self.call("write", path, request).await?;
        Ok(Staging::Block(number, Bytes::new()))
    }

    /// Discards the blocks that were staged but never committed for a blob. They cannot be deleted,
    /// but a commit of other blocks discards them: this commits none and deletes the resulting
    /// empty blob. An existing blob stays.
    async fn discard_staged(&self, path: &str) -> Result<(), ObjectError> {
        let absent = IfMatchCondition::NotMatch("*".into());
        let request = self.blob(path).put_block_list(BlockList::default()).if_match(absent);
        let written = match self.call("write", path, request).await {
            Err(failure) if failure.is_conflict() => return Ok(()),
            answered => answered?,
        };
        let ours = IfMatchCondition::Match(written.etag);
        match self.call("delete", path, self.blob(path).delete().if_match(ours)).await {
            Err(failure) if !failure.is_conflict() && !failure.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }

    /// The service discards the rest within a week.
    async fn discard_with_word(&self, path: &str, blocks: &PendingParts) {
        blocks.ended().await;
        if let Err(error) = self.discard_staged(path).await {
            tracing::warn!(%error, path, "cannot discard an unfinished upload");
        }
    }
}

/// The output of a stream: blocks, then the digest of all.
enum Staging {
    Block(i32, Bytes),
    End([u8; 16]),
}

/// Blocks that are not committed; discarded if dropped in this state.
struct Staged {
    azure: Azure,
    path: String,
    blocks: PendingParts,
    open: bool,
}

impl Staged {
    async fn end(mut self, sent: Result<Put, ObjectError>) -> Result<Put, ObjectError> {
        if sent.is_err() && self.open {
            self.azure.discard_with_word(&self.path, &self.blocks).await;
        }
        self.open = false;
        sent
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // Its task was dropped, so nothing waits for this.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (azure, blocks) = (self.azure.clone(), self.blocks.clone());
            let path = std::mem::take(&mut self.path);
            runtime.spawn(async move { azure.discard_with_word(&path, &blocks).await });
        }
    }
}

/// Several writers may stage blocks for the same blob: each commits only its own.
fn block_id(upload: Uuid, number: i32) -> String {
    format!("{number:08}{}", upload.simple())
}
