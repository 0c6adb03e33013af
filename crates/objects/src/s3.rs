//! Objects in a bucket of S3 or a compatible store. No type of the AWS SDK is visible outside this
//! module.
//!
//! | module | is about |
//! |---|---|
//! | [`upload`] | multipart uploads |
//! | [`refusal`] | the causes of failures, as text |
//! | [`known_hash`] | the hash of a body in the signature of its request |
//! | [`limited`] | the limit of responses |

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    Builder, Credentials, RequestChecksumCalculation, ResponseChecksumValidation,
    RuntimeComponents, SharedHttpClient, retry::RetryConfig,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::ServerSideEncryption;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::stream;
use futures::{StreamExt as _, TryStreamExt as _};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use self::known_hash::KnownHash;
use self::limited::LimitedResponses;
use super::bounds::{self, Pages};
use super::failure::Failure;
use super::proxy::Proxy;
use super::settings::S3Settings;
use super::stream::{PARTS_IN_FLIGHT, collect, delete_each, in_parts, md5, part_size};
use super::{
    ByteStream, Entry, Head, HeadPredicate, ObjectError, Put, PutOptions, Reason, Sizes, below,
    content_disposition, content_type, percent_encoded, without,
};
use kit::retry;

mod known_hash;
mod limited;
mod refusal;
mod upload;

const CONNECT: Duration = Duration::from_secs(5);
/// Time limit of one attempt of one request with its body: a part of 8 MiB at 70 KB/s. The SDK ends
/// stalled streams after 20 seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(120);
const TRIES: u32 = 3;
/// Attempts of a write that collides with another write of the same key.
const COLLISIONS: u32 = 5;

type Response = aws_sdk_s3::config::http::HttpResponse;

/// A bucket, and the prefix of all objects.
#[derive(Clone)]
pub struct S3 {
    client: Client,
    /// Reads objects.
    reader: Client,
    /// Signs download URLs, with the public endpoint if there is one.
    signer: Client,
    bucket: String,
    prefix: String,
    region: String,
    endpoint: Option<String>,
    /// The KMS key that encrypts every written object; without it, the bucket's default decides.
    kms_key: Option<String>,
    /// The credentials are the machine's own, which renews temporary ones.
    renews_credentials: bool,
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

/// The properties of an object.
struct FoundObject {
    head: Head,
    content_type: Option<String>,
    /// Changes whenever the object changes.
    tag: Option<String>,
}

impl S3 {
    pub(super) async fn open(
        settings: &S3Settings,
        sizes: Sizes,
        proxy: Option<Proxy>,
    ) -> Result<Self, ObjectError> {
        settings.check()?;
        let http_client = http_client(proxy)?;
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
                    .http_client(http_client.clone())
                    .load()
                    .await;
                region = region.or_else(|| shared.region().map(ToString::to_string));
                Builder::from(&shared)
            }
        };
        // Compatible stores accept any region, and most documents show this one.
        if region.is_none() && settings.endpoint.is_some() {
            region = Some("us-east-1".to_owned());
        }
        let region =
            region.ok_or_else(|| ObjectError::Settings("S3 needs the bucket's region".into()))?;
        if let Some(endpoint) = &settings.endpoint {
            config = config.endpoint_url(with_slash(endpoint));
        }
        let config = config
            .behavior_version(BehaviorVersion::latest())
            .http_client(http_client)
            .region(Region::new(region.clone()))
            .force_path_style(settings.path_style)
            // Every write has Content-MD5 instead: some compatible stores do not support the SDK's
            // trailing checksums, but all support this.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(CONNECT)
                    .read_timeout(ATTEMPT_TIMEOUT)
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            )
            .build();
        let signer = match &settings.public_endpoint {
            Some(endpoint) => config.to_builder().endpoint_url(with_slash(endpoint)).build(),
            None => config.clone(),
        };
        let limited = |are_objects| {
            let limit = LimitedResponses { are_objects };
            Client::from_conf(config.to_builder().interceptor(limit).build())
        };
        Ok(Self {
            client: limited(false),
            reader: limited(true),
            signer: Client::from_conf(signer),
            bucket: settings.bucket.clone(),
            prefix: settings.prefix.trim_matches('/').to_owned(),
            region,
            endpoint: settings.endpoint.clone(),
            kms_key: settings.sse_kms_key_id.clone(),
            renews_credentials: keys.is_none(),
            sizes,
        })
    }

    pub(super) fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
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
                // Of the body as sent. With SSE-KMS the ETag is not an MD5, and nothing here reads
                // it as one.
                .content_md5(&md5)
                .set_server_side_encryption(self.encryption())
                .set_ssekms_key_id(self.kms_key.clone())
                .set_if_none_match(options.if_absent.then(|| "*".to_owned()))
                .body(body.clone().into())
                .customize();
            let request = match &options.sha256 {
                Some(sha256) => request.interceptor(KnownHash::new(sha256)),
                None => request,
            };
            let failure = match self.call("PutObject", path, request.send()).await {
                Ok(response) => {
                    let checked = self.check_encryption(response.server_side_encryption());
                    if checked.is_err() {
                        // It must not stay there without the encryption.
                        let _ = self.delete(path).await;
                    }
                    return checked.map(|()| Put::Written);
                }
                Err(failure) => failure,
            };
            tries += 1;
            match failure.status {
                Some(412) if options.if_absent => return Ok(Put::Exists),
                // Another write of the key is in progress; retry after it.
                Some(409) if options.if_absent && tries < COLLISIONS => {
                    let (base, cap) = (Duration::from_millis(100), Duration::from_secs(2));
                    tokio::time::sleep(retry::backoff(tries, base, cap)).await;
                }
                // A check before the write would allow another write in between.
                Some(501) if options.if_absent => {
                    let reason = Reason::at(self, super::NO_CONDITIONAL_WRITES);
                    return Err(ObjectError::Refused(reason));
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
    ) -> Result<Put, ObjectError> {
        let part = part_size(size, self.sizes.part);
        if size <= part {
            let body = collect(body, size).await?;
            return self.put(path, body, options).await;
        }
        let metadata = to_headers(options);
        let upload = self.begin(path, size, content_type(options), metadata).await?;
        let target = upload.target.clone();
        let parts = in_parts(body, size, part)
            .map_ok(move |(number, bytes)| target.parts.begin(target.clone().part(number, bytes)));
        let parts = parts.try_buffered(PARTS_IN_FLIGHT).try_collect().await;
        upload.end(parts, options.if_absent).await
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<Head>, ObjectError> {
        Ok(self.fetch_head(path).await?.map(|found| found.head))
    }

    async fn fetch_head(&self, path: &str) -> Result<Option<FoundObject>, ObjectError> {
        let request = self.client.head_object().bucket(&self.bucket).key(self.full(path));
        let response = match self.call("HeadObject", path, request.send()).await {
            Ok(response) => response,
            Err(failure) => match self.head_error(path, failure).await {
                ObjectError::NotFound(_) => return Ok(None),
                error => return Err(error),
            },
        };
        let size = u64::try_from(response.content_length().unwrap_or_default()).unwrap_or_default();
        let metadata = response.metadata().into_iter().flatten();
        let metadata = metadata.map(|(name, value)| (from_header(name), value.clone())).collect();
        let head = Head { size, metadata };
        Ok(Some(FoundObject { head, content_type: response.content_type, tag: response.e_tag }))
    }

    pub(super) async fn get(&self, path: &str) -> Result<ByteStream, ObjectError> {
        let request = self.reader.get_object().bucket(&self.bucket).key(self.full(path));
        let response = self.call("GetObject", path, request.send()).await?;
        let location = self.to_string();
        Ok(stream::try_unfold((response.body, location), |(mut body, location)| async {
            match body.try_next().await {
                Ok(bytes) => Ok(bytes.map(|bytes| (bytes, (body, location)))),
                Err(_) => Err(ObjectError::Unavailable(
                    format!("{location}: the response was cut off").into(),
                )),
            }
        })
        .boxed())
    }

    pub(super) async fn copy(
        &self,
        from: &str,
        to: &str,
        accepts: HeadPredicate<'_>,
    ) -> Result<(), ObjectError> {
        let found = self.fetch_head(from).await?.filter(|found| accepts(&found.head));
        let found = found.ok_or_else(|| ObjectError::NotFound(from.to_owned()))?;
        let source = copy_source(&self.bucket, &self.full(from));
        if found.head.size > self.sizes.copy {
            return self.copy_in_parts(found, &source, to).await;
        }
        let request = self.client.copy_object().bucket(&self.bucket).key(self.full(to));
        let request = request
            .copy_source(source)
            .set_copy_source_if_match(found.tag)
            // A copy does not keep the encryption of its source.
            .set_server_side_encryption(self.encryption())
            .set_ssekms_key_id(self.kms_key.clone());
        self.call("CopyObject", from, request.send()).await?;
        Ok(())
    }

    /// Copies an object that is too large for one request, in parts; metadata must be set
    /// explicitly.
    async fn copy_in_parts(
        &self,
        found: FoundObject,
        source: &str,
        to: &str,
    ) -> Result<(), ObjectError> {
        let FoundObject { head, content_type, tag } = found;
        let metadata = head.metadata.iter();
        let metadata = metadata.map(|(name, value)| (to_header(name), value.clone())).collect();
        let content_type = content_type.unwrap_or_default();
        let size = head.size;
        let upload = self.begin(to, size, &content_type, metadata).await?;
        let part = part_size(size, self.sizes.copy);
        let ranges = (0..size.div_ceil(part)).map(|i| (i * part, ((i + 1) * part).min(size) - 1));
        let (target, source) = (upload.target.clone(), source.to_owned());
        let parts = stream::iter((1..).zip(ranges)).map(move |(number, (first, last))| {
            let range = format!("bytes={first}-{last}");
            let (source, tag) = (source.clone(), tag.clone());
            target.parts.begin(target.clone().copied_part(number, source, range, tag))
        });
        let parts = parts.buffered(PARTS_IN_FLIGHT).boxed().try_collect().await;
        upload.end(parts, false).await?;
        Ok(())
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        bounds::in_time(self, "a list", self.list_pages(prefix)).await
    }

    async fn list_pages(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        let (mut entries, mut pages) = (Vec::new(), Pages::default());
        let (full, mut next) = (self.full(prefix), None);
        loop {
            let request = self
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(&full)
                .max_keys(self.sizes.page.into())
                .set_continuation_token(next);
            let page = self.call("ListBucket", prefix, request.send()).await?;
            for object in page.contents() {
                let size = object.size().and_then(|size| u64::try_from(size).ok());
                // The SDK accepts a truncated response as complete.
                let (Some(key), Some(size)) = (object.key(), size) else {
                    return Err(ObjectError::Unavailable(
                        format!("{self}: cannot read a list response").into(),
                    ));
                };
                pages.count_entry(key);
                // Whatever the server lists: a deletion goes only below the prefix.
                if key.starts_with(&full) {
                    entries.push(Entry { key: without(&self.prefix, key), size });
                }
            }
            next = page.next_continuation_token;
            pages.end_page(self, next.as_deref())?;
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
        let deletions = delete_each(entries, |key| {
            let s3 = self.clone();
            async move { s3.delete(&key).await }
        });
        let count = bounds::in_time(self, "deletions", deletions).await?;
        match self.abort_below(prefix).await {
            // Not every key may list uploads, and not every store supports it; the objects are
            // deleted.
            Err(ObjectError::Refused(reason)) => {
                tracing::warn!(%reason, prefix, "cannot list unfinished uploads");
            }
            aborted => aborted?,
        }
        Ok(count)
    }

    /// Aborts unfinished uploads whose key begins with `prefix`. MinIO does not list them by
    /// prefix.
    pub(super) async fn abort_below(&self, prefix: &str) -> Result<(), ObjectError> {
        bounds::in_time(self, "a list of uploads", self.abort_pages(prefix)).await
    }

    async fn abort_pages(&self, prefix: &str) -> Result<(), ObjectError> {
        let (mut key_marker, mut id_marker) = (None, None);
        let (full, mut pages) = (self.full(prefix), Pages::default());
        loop {
            let request = self
                .client
                .list_multipart_uploads()
                .bucket(&self.bucket)
                .prefix(&full)
                .max_uploads(self.sizes.page.into())
                .set_key_marker(key_marker)
                .set_upload_id_marker(id_marker);
            let page = self.call("ListBucketMultipartUploads", prefix, request.send()).await?;
            for upload in page.uploads() {
                let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else { continue };
                if key.starts_with(&full) {
                    self.abort(key, id).await?;
                }
            }
            if !page.is_truncated.unwrap_or_default() {
                return Ok(());
            }
            (key_marker, id_marker) = (page.next_key_marker, page.next_upload_id_marker);
            let marker = format!("{key_marker:?} {id_marker:?}");
            pages.end_page(self, Some(&marker))?;
        }
    }

    /// Deletes an unfinished upload with its parts; `key` is the full key.
    async fn abort(&self, key: &str, id: &str) -> Result<(), ObjectError> {
        let request =
            self.client.abort_multipart_upload().bucket(&self.bucket).key(key).upload_id(id);
        match self.call("AbortMultipartUpload", key, request.send()).await {
            Err(failure) if failure.status != Some(404) => Err(failure.error),
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
            .map_err(|error| ObjectError::Settings(format!("signed URL: {error}")))?;
        let request = self
            .signer
            .get_object()
            .bucket(&self.bucket)
            .key(self.full(path))
            .response_content_disposition(content_disposition(file_name));
        let signed = self.call("GetObject", path, request.presigned(config)).await?;
        Ok(signed.uri().to_owned())
    }

    /// The encryption of written objects, if it is not the bucket's default.
    fn encryption(&self) -> Option<ServerSideEncryption> {
        self.kms_key.is_some().then_some(ServerSideEncryption::AwsKms)
    }

    /// Checks the response to a write: some compatible stores ignore SSE-KMS, and would store the
    /// object without it. Copies are not checked: a storage is first used with other writes.
    fn check_encryption(&self, used: Option<&ServerSideEncryption>) -> Result<(), ObjectError> {
        if self.kms_key.is_none() || used == Some(&ServerSideEncryption::AwsKms) {
            return Ok(());
        }
        Err(ObjectError::Refused(Reason::at(
            self,
            "the store ignores sse_kms_key_id, so objects would not be encrypted with that key: \
             use a store that supports SSE-KMS, or remove sse_kms_key_id",
        )))
    }

    fn full(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    /// Waits for a response. Suppresses the SDK's log lines about the request, and returns failures
    /// as text: `action` is the permission that it needs.
    async fn call<T, E: ProvideErrorMetadata + Error + 'static>(
        &self,
        action: &'static str,
        path: &str,
        request: impl Future<Output = Result<T, SdkError<E, Response>>>,
    ) -> Result<T, Failure> {
        // The SDK's futures are large; boxed, they do not fill those of the callers.
        let result = Box::pin(request.with_subscriber(NoSubscriber::new())).await;
        result.map_err(|error| self.failure(action, path, &error))
    }
}

impl fmt::Display for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One client for http and https; TLS by rustls on ring, with the system's root certificates. A
/// proxy serves https only, so the address of the machine's own credentials is reached directly.
fn http_client(proxy: Option<Proxy>) -> Result<SharedHttpClient, ObjectError> {
    let proxy = match proxy {
        Some(Proxy { url, except }) => {
            ProxyConfig::https(url).map_err(|_| super::proxy::invalid())?.no_proxy(except)
        }
        None => ProxyConfig::disabled(),
    };
    let builder = aws_smithy_http_client::Builder::new();
    Ok(builder.build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder().proxy_config(proxy.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.tls_provider(Provider::Rustls(CryptoMode::Ring)).build()
    }))
}

/// The SDK appends the bucket to the path of an endpoint.
fn with_slash(endpoint: &str) -> String {
    format!("{}/", endpoint.trim_end_matches('/'))
}

/// Proxies drop headers with underscores, so they are sent as hyphens, which no name contains.
fn to_header(name: &str) -> String {
    name.replace('_', "-")
}

fn from_header(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn to_headers(options: &PutOptions) -> HashMap<String, String> {
    options.metadata.iter().map(|(name, value)| (to_header(name), value.clone())).collect()
}

/// `bucket/key`, encoded for a header.
fn copy_source(bucket: &str, key: &str) -> String {
    let names: Vec<String> = key.split('/').map(percent_encoded).collect();
    format!("{bucket}/{}", names.join("/"))
}
