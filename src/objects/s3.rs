//! Objects in a bucket of S3, or of a store that is compatible with it. Nothing of the AWS SDK
//! is seen outside this file.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    Builder, Credentials, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
    retry::RetryConfig,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::stream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::failure::{Failure, clock_is_off, clock_skew, innermost, may_pass};
use super::settings::S3Settings;
use super::stream::{PARTS_IN_FLIGHT, UnderWay, collect, in_parts, md5, part_size};
use super::{
    ByteStream, Entry, Head, ObjectError, Put, PutOptions, Sizes, below, content_disposition,
    content_type, without,
};
use crate::retry;

const CONNECT: Duration = Duration::from_secs(5);
/// One try of one request, its body included: a part of 8 MiB at 70 KB/s. Streams that stand
/// still are ended by the SDK after 20 seconds.
const TRY: Duration = Duration::from_secs(120);
const TRIES: u32 = 3;
/// Requests that delete, under way at once.
const DELETES_IN_FLIGHT: usize = 16;
/// Tries of a write that collides with another of the same key.
const COLLISIONS: u32 = 5;

/// What can be asked where there is no object yet.
const NEEDS_BUCKET_ONLY: [&str; 3] = ["PutObject", "ListBucket", "ListBucketMultipartUploads"];

type Response = aws_sdk_s3::config::http::HttpResponse;

/// A bucket, and the prefix below which objects lie.
#[derive(Clone)]
pub struct S3 {
    client: Client,
    bucket: String,
    prefix: String,
    region: String,
    endpoint: Option<String>,
    sizes: Sizes,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", below(&self.bucket, &self.prefix).trim_end_matches('/'))?;
        match &self.endpoint {
            Some(endpoint) => write!(f, " at {endpoint}"),
            None => write!(f, " in {}", self.region),
        }
    }
}

impl S3 {
    pub(super) async fn open(settings: &S3Settings, sizes: Sizes) -> Result<Self, ObjectError> {
        settings.check()?;
        let keys = settings.access_key_id.as_ref().zip(settings.secret_access_key.as_ref());
        let mut region = settings.region.clone();
        let mut config = match keys {
            Some((id, secret)) => Builder::new().credentials_provider(Credentials::new(
                id,
                secret,
                settings.session_token.clone(),
                None,
                "longshore",
            )),
            None => {
                let shared = aws_config::defaults(BehaviorVersion::latest())
                    .http_client(http_client())
                    .load()
                    .await;
                region = region.or_else(|| shared.region().map(ToString::to_string));
                Builder::from(&shared)
            }
        };
        // Compatible stores take any region for theirs, and most are asked for this one.
        if region.is_none() && settings.endpoint.is_some() {
            region = Some("us-east-1".to_owned());
        }
        let region =
            region.ok_or_else(|| ObjectError::Settings("S3 needs the bucket's region".into()))?;
        if let Some(endpoint) = &settings.endpoint {
            config = config.endpoint_url(endpoint);
        }
        let config = config
            .behavior_version(BehaviorVersion::latest())
            .http_client(http_client())
            .region(Region::new(region.clone()))
            .force_path_style(settings.path_style)
            // Every write carries Content-MD5 instead: some compatible stores do not know the
            // SDK's trailing checksums, all know this.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT)
                    .read_timeout(TRY)
                    .operation_attempt_timeout(TRY)
                    .build(),
            )
            .build();
        Ok(Self {
            client: Client::from_conf(config),
            bucket: settings.bucket.clone(),
            prefix: settings.prefix.trim_matches('/').to_owned(),
            region,
            endpoint: settings.endpoint.clone(),
            sizes,
        })
    }

    pub(super) fn with_sizes(&self, sizes: Sizes) -> Self {
        Self { sizes, ..self.clone() }
    }

    pub(super) async fn put(
        &self,
        path: &str,
        body: Bytes,
        options: &PutOptions,
    ) -> Result<Put, ObjectError> {
        let md5 = BASE64_STANDARD.encode(md5(&body).await?);
        let mut tries = 0;
        loop {
            let request = self
                .client
                .put_object()
                .bucket(&self.bucket)
                .key(self.full(path))
                .content_type(content_type(options))
                .set_metadata(Some(to_headers(options)))
                .content_md5(&md5)
                .set_if_none_match(options.if_absent.then(|| "*".to_owned()))
                .body(body.clone().into());
            let failure = match self.call("PutObject", path, request.send()).await {
                Ok(_) => return Ok(Put::Written),
                Err(failure) => failure,
            };
            tries += 1;
            match failure.status {
                Some(412) if options.if_absent => return Ok(Put::Exists),
                // Another write of the key is under way: whether it exists is told after it.
                Some(409) if options.if_absent && tries < COLLISIONS => {
                    let (base, cap) = (Duration::from_millis(100), Duration::from_secs(2));
                    tokio::time::sleep(retry::pause(tries, base, cap)).await;
                }
                // The store has no conditional writes; a look before is the best there is.
                Some(501) if options.if_absent => {
                    if self.head(path).await?.is_some() {
                        return Ok(Put::Exists);
                    }
                    let plain = PutOptions { if_absent: false, ..options.clone() };
                    return Box::pin(self.put(path, body, &plain)).await;
                }
                _ => return Err(failure.error),
            }
        }
    }

    pub(super) async fn put_stream(
        &self,
        path: &str,
        size: u64,
        body: ByteStream,
        options: &PutOptions,
    ) -> Result<(), ObjectError> {
        let part = part_size(size, self.sizes.part);
        if size <= part {
            let body = collect(body, size).await?;
            self.put(path, body, options).await?;
            return Ok(());
        }
        let upload = self.begin(path, content_type(options), Some(to_headers(options))).await?;
        let target = upload.target.clone();
        let parts = in_parts(body, size, part)
            .map_ok(move |(number, bytes)| target.parts.begin(target.clone().part(number, bytes)));
        let parts = parts.try_buffered(PARTS_IN_FLIGHT).try_collect().await;
        upload.end(parts).await
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<Head>, ObjectError> {
        Ok(self.look(path).await?.map(|(head, _)| head))
    }

    /// The head of an object, and its content type.
    async fn look(&self, path: &str) -> Result<Option<(Head, Option<String>)>, ObjectError> {
        let request = self.client.head_object().bucket(&self.bucket).key(self.full(path));
        let answer = match self.call("HeadObject", path, request.send()).await {
            Err(failure) if failure.is_not_found() => return Ok(None),
            answered => answered?,
        };
        let size = u64::try_from(answer.content_length().unwrap_or_default()).unwrap_or_default();
        let metadata = answer.metadata().into_iter().flatten();
        let metadata = metadata.map(|(name, value)| (from_header(name), value.clone())).collect();
        Ok(Some((Head { size, metadata }, answer.content_type)))
    }

    pub(super) async fn get(&self, path: &str) -> Result<ByteStream, ObjectError> {
        let request = self.client.get_object().bucket(&self.bucket).key(self.full(path));
        let answer = self.call("GetObject", path, request.send()).await?;
        let place = self.to_string();
        Ok(stream::try_unfold((answer.body, place), |(mut body, place)| async {
            match body.try_next().await {
                Ok(bytes) => Ok(bytes.map(|bytes| (bytes, (body, place)))),
                Err(_) => Err(ObjectError::Unavailable(format!("{place}: reading was cut off"))),
            }
        })
        .boxed())
    }

    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<(), ObjectError> {
        let (head, content_type) =
            self.look(from).await?.ok_or_else(|| ObjectError::NotFound(from.to_owned()))?;
        let source = copy_source(&self.bucket, &self.full(from));
        if head.size > self.sizes.copy {
            return self.copy_in_parts(&head, content_type, &source, to).await;
        }
        let request =
            self.client.copy_object().bucket(&self.bucket).key(self.full(to)).copy_source(source);
        self.call("CopyObject", from, request.send()).await?;
        Ok(())
    }

    /// What is larger than one request may copy is copied in parts; the metadata do not come
    /// along by themselves.
    async fn copy_in_parts(
        &self,
        head: &Head,
        content_type: Option<String>,
        source: &str,
        to: &str,
    ) -> Result<(), ObjectError> {
        let metadata = head.metadata.iter();
        let metadata = metadata.map(|(name, value)| (to_header(name), value.clone())).collect();
        let content_type = content_type.unwrap_or_default();
        let upload = self.begin(to, &content_type, Some(metadata)).await?;
        let size = head.size;
        let part = part_size(size, self.sizes.copy);
        let ranges = (0..size.div_ceil(part)).map(|i| (i * part, ((i + 1) * part).min(size) - 1));
        let (target, source) = (upload.target.clone(), source.to_owned());
        let parts = stream::iter((1..).zip(ranges)).map(move |(number, (first, last))| {
            let range = format!("bytes={first}-{last}");
            target.parts.begin(target.clone().copied_part(number, source.clone(), range))
        });
        let parts = parts.buffered(PARTS_IN_FLIGHT).boxed().try_collect().await;
        upload.end(parts).await
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        let mut entries = Vec::new();
        let mut next = None;
        loop {
            let request = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(self.full(prefix))
                .max_keys(self.sizes.page.into())
                .set_continuation_token(next);
            let page = self.call("ListBucket", prefix, request.send()).await?;
            for object in page.contents() {
                let key = without(&self.prefix, object.key().unwrap_or_default());
                let size = u64::try_from(object.size().unwrap_or_default()).unwrap_or_default();
                entries.push(Entry { key, size });
            }
            next = page.next_continuation_token;
            if next.is_none() {
                return Ok(entries);
            }
        }
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), ObjectError> {
        let request = self.client.delete_object().bucket(&self.bucket).key(self.full(path));
        match self.call("DeleteObject", path, request.send()).await {
            Err(failure) if !failure.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }

    pub(super) async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let entries = self.list(prefix).await?;
        let count = entries.len() as u64;
        let deletes: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let s3 = self.clone();
                async move { s3.delete(&entry.key).await }.boxed()
            })
            .collect();
        stream::iter(deletes).buffered(DELETES_IN_FLIGHT).try_collect::<()>().await?;
        match self.abort_below(prefix).await {
            // Not every key may list uploads, and not every store can: the objects are gone.
            Err(ObjectError::Refused(reason)) => {
                tracing::warn!(%reason, prefix, "unfinished uploads could not be looked for");
            }
            aborted => aborted?,
        }
        Ok(count)
    }

    /// Aborts unfinished uploads whose key begins with `prefix`. MinIO lists none by prefix.
    async fn abort_below(&self, prefix: &str) -> Result<(), ObjectError> {
        let (mut key_marker, mut id_marker) = (None, None);
        loop {
            let request = self
                .client
                .list_multipart_uploads()
                .bucket(&self.bucket)
                .prefix(self.full(prefix))
                .max_uploads(self.sizes.page.into())
                .set_key_marker(key_marker)
                .set_upload_id_marker(id_marker);
            let page = self.call("ListBucketMultipartUploads", prefix, request.send()).await?;
            for upload in page.uploads() {
                let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else { continue };
                self.abort(key, id).await?;
            }
            if !page.is_truncated.unwrap_or_default() {
                return Ok(());
            }
            (key_marker, id_marker) = (page.next_key_marker, page.next_upload_id_marker);
        }
    }

    /// Removes an unfinished upload with its parts; `key` is the whole one.
    async fn abort(&self, key: &str, id: &str) -> Result<(), ObjectError> {
        let request =
            self.client.abort_multipart_upload().bucket(&self.bucket).key(key).upload_id(id);
        match self.call("AbortMultipartUpload", key, request.send()).await {
            Err(failure) if !failure.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }

    pub(super) async fn signed_get(
        &self,
        path: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        let config = PresigningConfig::expires_in(valid)
            .map_err(|error| ObjectError::Settings(format!("a signed address: {error}")))?;
        let request = self
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(self.full(path))
            .response_content_disposition(content_disposition(file_name));
        let signed = self.call("GetObject", path, request.presigned(config)).await?;
        Ok(signed.uri().to_owned())
    }

    fn full(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    async fn begin(
        &self,
        path: &str,
        content_type: &str,
        metadata: Option<HashMap<String, String>>,
    ) -> Result<Upload, ObjectError> {
        let key = self.full(path);
        let request = self
            .client
            .create_multipart_upload()
            .bucket(&self.bucket)
            .key(&key)
            .content_type(content_type)
            .set_metadata(metadata);
        let answer = self.call("PutObject", path, request.send()).await?;
        let id = answer.upload_id.ok_or_else(|| {
            ObjectError::Refused(format!("{self}: the store began an upload without an id"))
        })?;
        Ok(Upload {
            target: Target { s3: self.clone(), key, id, parts: UnderWay::default() },
            open: true,
        })
    }

    /// Waits for an answer. What the SDK would log of the request is not logged, and a failure
    /// is told in words: `action` is the permission that it needs.
    async fn call<T, E: ProvideErrorMetadata>(
        &self,
        action: &'static str,
        path: &str,
        request: impl Future<Output = Result<T, SdkError<E, Response>>>,
    ) -> Result<T, Failure> {
        // The SDK's futures are large; on the heap they do not fill their callers'.
        let answer = Box::pin(request.with_subscriber(NoSubscriber::new())).await;
        answer.map_err(|error| self.failure(action, path, &error))
    }

    fn failure<E: ProvideErrorMetadata>(
        &self,
        action: &str,
        path: &str,
        error: &SdkError<E, Response>,
    ) -> Failure {
        match error {
            SdkError::ServiceError(context) => {
                let code = context.err().code().unwrap_or_default();
                let status = context.raw().status().as_u16();
                let error = self.refusal(action, path, code, context.raw());
                Failure { status: Some(status), error }
            }
            SdkError::ResponseError(context) => {
                let status = context.raw().status().as_u16();
                Failure {
                    status: Some(status),
                    error: self.refusal(action, path, "", context.raw()),
                }
            }
            SdkError::TimeoutError(_) => Failure::unanswered(ObjectError::Unavailable(format!(
                "{self}: {action} was not answered in time"
            ))),
            SdkError::DispatchFailure(failure) => {
                let error = failure.as_connector_error();
                let reason = error.map(|error| innermost(&error)).unwrap_or_default();
                Failure::unanswered(if error.is_some_and(|error| lacks_credentials(error)) {
                    credentials_missing(self, reason)
                } else {
                    ObjectError::Unavailable(format!("{self} cannot be reached: {reason}"))
                })
            }
            _ => Failure::unanswered(ObjectError::Refused(format!(
                "{self}: {action} cannot be asked: a setting or the key {path:?} is not usable"
            ))),
        }
    }

    /// What a refusal means, and how to mend it.
    fn refusal(&self, action: &str, path: &str, code: &str, answer: &Response) -> ObjectError {
        let (bucket, status) = (&self.bucket, answer.status().as_u16());
        let header = |name| answer.headers().get(name);
        let region = header("x-amz-bucket-region");
        let refused = |text: String| ObjectError::Refused(format!("{self}: {text}"));
        match code {
            "NoSuchBucket" => refused(format!("the bucket {bucket} does not exist")),
            "NoSuchUpload" => ObjectError::NotFound(path.to_owned()),
            // The second is versitygw's.
            "InvalidAccessKeyId" | "XAdminUserNotFound" => {
                refused("the store does not know the access_key_id".into())
            }
            "SignatureDoesNotMatch" => {
                refused("the secret_access_key does not belong to the access_key_id".into())
            }
            "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => {
                refused("the session_token has expired or is not valid: give a new one".into())
            }
            "RequestTimeTooSkewed" => {
                clock_is_off(header("date").and_then(|date| clock_skew(date, Timestamp::now())))
            }
            "PermanentRedirect"
            | "TemporaryRedirect"
            | "AuthorizationHeaderMalformed"
            | "IllegalLocationConstraintException"
            | "IncorrectEndpoint" => refused(self.wrong_region(region)),
            "InvalidBucketName" => refused(format!("{bucket} cannot be the name of a bucket")),
            "SlowDown"
            | "RequestTimeout"
            | "OperationAborted"
            | "ConditionalRequestConflict"
            | "BadDigest"
            | "IncompleteBody" => {
                ObjectError::Unavailable(format!("{self}: {action} is to be tried again ({code})"))
            }
            _ if may_pass(status) => ObjectError::Unavailable(format!(
                "{self}: {action} failed at the store ({status} {code})"
            )),
            _ => match status {
                301 | 307 | 400 if region.is_some_and(|theirs| theirs != self.region) => {
                    refused(self.wrong_region(region))
                }
                404 if NEEDS_BUCKET_ONLY.contains(&action) => refused(format!(
                    "the bucket {bucket} does not exist, or not at this endpoint ({code})"
                )),
                404 => ObjectError::NotFound(path.to_owned()),
                401 | 403 => refused(format!(
                    "access denied: the key may not {action} in the bucket {bucket}"
                )),
                _ => refused(format!("{action} was refused ({status} {code})")),
            },
        }
    }

    fn wrong_region(&self, theirs: Option<&str>) -> String {
        let (bucket, ours) = (&self.bucket, &self.region);
        match theirs {
            Some(theirs) => format!("the bucket {bucket} is in region {theirs}, not in {ours}"),
            None => format!("the bucket {bucket} is not in region {ours}, or not at this endpoint"),
        }
    }
}

impl fmt::Display for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A multipart upload that is not finished; aborted when dropped so.
struct Upload {
    target: Target,
    open: bool,
}

/// Where the parts of an upload go.
#[derive(Clone)]
struct Target {
    s3: S3,
    key: String,
    id: String,
    parts: UnderWay,
}

impl Target {
    async fn part(self, number: i32, bytes: Bytes) -> Result<CompletedPart, ObjectError> {
        let md5 = BASE64_STANDARD.encode(md5(&bytes).await?);
        let request = self
            .s3
            .client
            .upload_part()
            .bucket(&self.s3.bucket)
            .key(&self.key)
            .upload_id(&self.id)
            .part_number(number)
            .content_md5(md5)
            .body(bytes.into());
        let answer = self.s3.call("PutObject", &self.key, request.send()).await?;
        Ok(CompletedPart::builder().part_number(number).set_e_tag(answer.e_tag).build())
    }

    async fn copied_part(
        self,
        number: i32,
        source: String,
        range: String,
    ) -> Result<CompletedPart, ObjectError> {
        let request = self
            .s3
            .client
            .upload_part_copy()
            .bucket(&self.s3.bucket)
            .key(&self.key)
            .upload_id(&self.id)
            .part_number(number)
            .copy_source(source)
            .copy_source_range(range);
        let answer = self.s3.call("CopyObject", &self.key, request.send()).await?;
        let tag = answer.copy_part_result.and_then(|copied| copied.e_tag);
        Ok(CompletedPart::builder().part_number(number).set_e_tag(tag).build())
    }

    async fn complete(&self, parts: Vec<CompletedPart>) -> Result<(), ObjectError> {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let request = self
            .s3
            .client
            .complete_multipart_upload()
            .bucket(&self.s3.bucket)
            .key(&self.key)
            .upload_id(&self.id)
            .multipart_upload(parts);
        self.s3.call("PutObject", &self.key, request.send()).await?;
        Ok(())
    }

    /// What is left is found again by its prefix, or by the bucket's lifecycle.
    async fn abort(&self) {
        self.parts.ended().await;
        if let Err(error) = self.s3.abort(&self.key, &self.id).await {
            tracing::warn!(%error, key = self.key, "an unfinished upload could not be aborted");
        }
    }
}

impl Upload {
    /// Puts the parts together, or aborts where one of them failed.
    async fn end(
        mut self,
        parts: Result<Vec<CompletedPart>, ObjectError>,
    ) -> Result<(), ObjectError> {
        let ended = match parts {
            Ok(parts) => self.target.complete(parts).await,
            Err(error) => Err(error),
        };
        if ended.is_err() {
            self.target.abort().await;
        }
        self.open = false;
        ended
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        // Its task was dropped: nobody waits for this any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let target = self.target.clone();
            runtime.spawn(async move { target.abort().await });
        }
    }
}

/// One client's connections serve http and https; TLS by rustls on ring, with the system's
/// roots.
fn http_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https()
}

/// Whether no credentials are to be had; that they could not be asked for now is different.
fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(
                CredentialsError::CredentialsNotLoaded(_)
                    | CredentialsError::InvalidConfiguration(_)
            )
        )
    })
}

fn credentials_missing(s3: &S3, reason: String) -> ObjectError {
    ObjectError::Refused(format!(
        "{s3}: no credentials were found: give access_key_id and secret_access_key, or set the \
         surroundings for the default credential chain ({reason})"
    ))
}

/// Proxies drop headers with underscores, so they travel as hyphens, which no name has.
fn to_header(name: &str) -> String {
    name.replace('_', "-")
}

fn from_header(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn to_headers(options: &PutOptions) -> HashMap<String, String> {
    options.metadata.iter().map(|(name, value)| (to_header(name), value.clone())).collect()
}

/// `bucket/key`, encoded as a header wants it.
fn copy_source(bucket: &str, key: &str) -> String {
    let encoded = key.bytes().map(|b| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        _ => format!("%{b:02X}"),
    });
    format!("{bucket}/{}", encoded.collect::<String>())
}
