//! Multipart uploads.

use std::collections::HashMap;

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;

use super::S3;
use crate::failure::Failure;
use crate::stream::{PendingParts, md5};
use crate::{ObjectError, Put};

impl S3 {
    pub(super) async fn begin(
        &self,
        path: &str,
        size: u64,
        content_type: &str,
        metadata: HashMap<String, String>,
    ) -> Result<Upload, ObjectError> {
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(self.full(path))
            .content_type(content_type)
            // The parts have no such fields: they are encrypted as their upload is.
            .set_server_side_encryption(self.encryption())
            .set_ssekms_key_id(self.kms_key.clone())
            .set_metadata(Some(metadata));
        let answer = self.call("PutObject", path, request.send()).await?;
        self.check_encryption(answer.server_side_encryption())?;
        let id = answer.upload_id.ok_or_else(|| {
            ObjectError::Refused(
                format!(
                    "{self}: the store started an upload without an upload \
                                          ID"
                )
                .into(),
            )
        })?;
        let (s3, path) = (self.clone(), path.to_owned());
        let target = Target { s3, path, size, id, parts: PendingParts::default() };
        Ok(Upload { target, open: true })
    }

    /// Whether the store itself rejects a conditional upload because the object at `path` exists.
    pub(crate) async fn rejects_upload(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<bool, ObjectError> {
        let size = body.len() as u64;
        let upload = self.begin(path, size, "text/plain", HashMap::new()).await?;
        upload.rejects_completion(body).await
    }
}

/// An unfinished multipart upload; aborted if dropped in this state.
pub(super) struct Upload {
    pub target: Target,
    open: bool,
}

/// The destination of an upload's parts.
#[derive(Clone)]
pub(super) struct Target {
    s3: S3,
    path: String,
    /// Size of the whole object.
    size: u64,
    id: String,
    pub parts: PendingParts,
}

impl Target {
    pub async fn part(self, number: i32, bytes: Bytes) -> Result<CompletedPart, ObjectError> {
        let md5 = BASE64_STANDARD.encode(md5(&bytes).await?);
        let request = self
            .s3
            .client
            .upload_part()
            .bucket(&self.s3.bucket)
            .key(self.s3.full(&self.path))
            .upload_id(&self.id)
            .part_number(number)
            .content_md5(md5)
            .body(bytes.into());
        let answer = self.s3.call("PutObject", &self.path, request.send()).await?;
        Ok(CompletedPart::builder().part_number(number).set_e_tag(answer.e_tag).build())
    }

    pub async fn copied_part(
        self,
        number: i32,
        source: String,
        range: String,
        source_tag: Option<String>,
    ) -> Result<CompletedPart, ObjectError> {
        let request = self
            .s3
            .client
            .upload_part_copy()
            .bucket(&self.s3.bucket)
            .key(self.s3.full(&self.path))
            .upload_id(&self.id)
            .part_number(number)
            .copy_source(&source)
            .copy_source_range(range)
            .set_copy_source_if_match(source_tag);
        let answer = self.s3.call("CopyObject", &source, request.send()).await?;
        let tag = answer.copy_part_result.and_then(|copied| copied.e_tag);
        Ok(CompletedPart::builder().part_number(number).set_e_tag(tag).build())
    }

    async fn complete(
        &self,
        parts: Vec<CompletedPart>,
        if_absent: bool,
    ) -> Result<Put, ObjectError> {
        // Some compatible stores support the condition in PutObject only, and would replace a file
        // that an earlier writer completed.
        if if_absent {
            match self.s3.head(&self.path).await {
                Ok(Some(_)) => return Ok(Put::Exists),
                // Without the right to read, only the store can check.
                Ok(None) | Err(ObjectError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut completed = self.request_completion(parts.clone(), if_absent).await;
        if if_absent && completed.as_ref().is_err_and(|failure| failure.status == Some(501)) {
            completed = self.request_completion(parts, false).await;
        }
        let failure = match completed {
            Ok(()) => return Ok(Put::Written),
            Err(failure) => failure,
        };
        match failure.status {
            // A retry after a lost response: if the upload was completed, the object exists. If
            // there can be other writers, it may be theirs.
            Some(404) => match self.s3.head(&self.path).await {
                Ok(Some(_)) if if_absent => Ok(Put::Exists),
                Ok(Some(head)) if head.size == self.size => Ok(Put::Written),
                // Without the right to list, S3 refuses to look at a missing object.
                Ok(_) | Err(ObjectError::Refused(_)) => Err(failure.error),
                Err(error) => Err(error),
            },
            Some(412) if if_absent => Ok(Put::Exists),
            // Another write of the key is in progress. S3 then rejects this upload for good.
            Some(409) if if_absent => {
                Err(ObjectError::Unavailable(failure.error.to_string().into()))
            }
            _ => Err(failure.error),
        }
    }

    async fn request_completion(
        &self,
        parts: Vec<CompletedPart>,
        if_absent: bool,
    ) -> Result<(), Failure> {
        let request = self
            .s3
            .client
            .complete_multipart_upload()
            .bucket(&self.s3.bucket)
            .key(self.s3.full(&self.path))
            .upload_id(&self.id)
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(parts)).build())
            .set_if_none_match(if_absent.then(|| "*".to_owned()));
        self.s3.call("PutObject", &self.path, request.send()).await.map(drop)
    }

    /// A later delete by prefix, or the bucket's lifecycle, removes the rest.
    async fn abort(&self) {
        self.parts.ended().await;
        if let Err(error) = self.s3.abort(&self.s3.full(&self.path), &self.id).await {
            tracing::warn!(%error, path = self.path, "cannot abort an unfinished upload");
        }
    }
}

impl Upload {
    /// Completes the upload, or aborts it if a part failed or, with `if_absent`, if the object
    /// exists.
    pub async fn end(
        mut self,
        parts: Result<Vec<CompletedPart>, ObjectError>,
        if_absent: bool,
    ) -> Result<Put, ObjectError> {
        let ended = match parts {
            Ok(parts) => self.target.complete(parts, if_absent).await,
            Err(error) => Err(error),
        };
        if !matches!(ended, Ok(Put::Written)) {
            self.target.abort().await;
        }
        self.open = false;
        ended
    }

    /// Whether the store rejects the completion because the object exists; leaves no upload.
    async fn rejects_completion(mut self, body: Bytes) -> Result<bool, ObjectError> {
        let completed = match self.target.clone().part(1, body).await {
            Ok(part) => self.target.request_completion(vec![part], true).await,
            Err(error) => Err(Failure::without_response(error)),
        };
        self.target.abort().await;
        self.open = false;
        match completed {
            Err(failure) if failure.status == Some(412) => Ok(true),
            Err(failure) if failure.status != Some(501) => Err(failure.error),
            _ => Ok(false),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // Its task was dropped, so nothing waits for this.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let target = self.target.clone();
            runtime.spawn(async move { target.abort().await });
        }
    }
}
