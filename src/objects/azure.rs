//! Objects as block blobs in a container of Azure Blob Storage. Nothing of the Azure SDK is
//! seen outside this file.

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use azure_core::auth::Secret;
use azure_core::error::ErrorKind;
use azure_core::headers::{HeaderName, HeaderValue, Headers};
use azure_core::hmac::hmac_sha256;
use azure_core::prelude::{IfMatchCondition, Metadata};
use azure_core::{
    Body, ExponentialRetryOptions, HttpClient, Request, Response, RetryOptions, StatusCode,
    TransportOptions,
};
use azure_storage::{CloudLocation, StorageCredentials};
use azure_storage_blobs::blob::{BlobBlockType, BlockList, CopyStatus};
use azure_storage_blobs::prelude::{
    BlobClient, BlobContentMD5, BlobContentType, ClientBuilder, ContainerClient, Hash,
};
use bytes::Bytes;
use futures::stream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use md5::{Digest as _, Md5};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use url::Url;

use super::failure::{Failure, clock_is_off, clock_skew, innermost, may_pass};
use super::settings::AzureSettings;
use super::stream::{PARTS_IN_FLIGHT, UnderWay, collect, digest, in_parts, md5, part_size};
use super::{
    ByteStream, Entry, Head, ObjectError, Put, PutOptions, Sizes, below, content_disposition,
    content_type, without,
};
use crate::retry;

const CONNECT: Duration = Duration::from_secs(5);
/// Without a byte received: long enough to send a part of 8 MiB at 70 KB/s.
const READ_IDLE: Duration = Duration::from_secs(120);
const RETRIES: u32 = 2;
/// Requests that delete, under way at once.
const DELETES_IN_FLIGHT: usize = 16;
/// How long the source of a copy stays readable for the service.
const COPY_SOURCE_VALID: Duration = Duration::from_secs(60 * 60);
/// How long a large copy may take.
const COPY_MOST: Duration = Duration::from_secs(30 * 60);
/// The version of the service whose signatures are made here.
const SAS_VERSION: &str = "2022-11-02";
/// Past this the service takes a request for a replay.
const SKEW_ALLOWED: SignedDuration = SignedDuration::from_mins(14);

/// A container, and the prefix below which objects lie.
#[derive(Clone)]
pub struct Azure {
    container: ContainerClient,
    account: String,
    prefix: String,
    credentials: Credentials,
    clock: Arc<ServiceClock>,
    sizes: Sizes,
}

#[derive(Clone)]
enum Credentials {
    Key(Secret),
    /// The token as a query, without a question mark.
    Sas(String),
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = below(self.container.container_name(), &self.prefix);
        write!(f, "azure://{} of {}", container.trim_end_matches('/'), self.account)
    }
}

impl fmt::Display for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Azure {
    pub(super) fn open(settings: &AzureSettings, sizes: Sizes) -> Result<Self, ObjectError> {
        let mut settings = settings.clone();
        if settings.access_key.is_none() && settings.sas_token.is_none() {
            settings.access_key = std::env::var("AZURE_STORAGE_KEY").ok();
        }
        if settings.access_key.is_none() && settings.sas_token.is_none() {
            settings.sas_token = std::env::var("AZURE_STORAGE_SAS_TOKEN").ok();
        }
        settings.check()?;
        let account = settings.account.clone();
        let (credentials, given) = match (settings.access_key, settings.sas_token) {
            (Some(key), _) => {
                let key = Secret::new(key);
                let given = StorageCredentials::access_key(account.clone(), key.clone());
                (Credentials::Key(key), given)
            }
            (None, Some(token)) => {
                let token = token.trim_start_matches('?').to_owned();
                let given = StorageCredentials::sas_token(&token)
                    .map_err(|_| ObjectError::Settings("the sas_token cannot be read".into()))?;
                (Credentials::Sas(token), given)
            }
            (None, None) => {
                return Err(ObjectError::Settings(
                    "Azure needs an access_key or a sas_token (or AZURE_STORAGE_KEY or \
                     AZURE_STORAGE_SAS_TOKEN in the environment)"
                        .into(),
                ));
            }
        };
        let location = match settings.endpoint {
            Some(uri) => {
                let uri = uri.trim_end_matches('/').to_owned();
                CloudLocation::Custom { account: account.clone(), uri }
            }
            None => CloudLocation::Public { account: account.clone() },
        };
        let clock = Arc::new(ServiceClock::default());
        let retry = ExponentialRetryOptions::default().max_retries(RETRIES);
        let container = ClientBuilder::with_location(location, given)
            .transport(TransportOptions::new(Arc::new(Transport::new(clock.clone())?)))
            .retry(RetryOptions::exponential(retry))
            .container_client(settings.container);
        let prefix = settings.prefix.trim_matches('/').to_owned();
        Ok(Self { container, account, prefix, credentials, clock, sizes })
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
        let md5 = md5(&body).await?;
        let mut request = self
            .blob(path)
            .put_block_blob(body)
            .hash(Hash::from(md5))
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
        let blocks = UnderWay::default();
        let staged = Staged {
            azure: self.clone(),
            path: path.to_owned(),
            blocks: blocks.clone(),
            open: true,
        };
        let sent = self.stage_and_commit(path, in_parts(body, size, part), &blocks, options).await;
        staged.end(sent).await
    }

    async fn stage_and_commit(
        &self,
        path: &str,
        parts: stream::BoxStream<'static, Result<(i32, Bytes), ObjectError>>,
        blocks: &UnderWay,
        options: &PutOptions,
    ) -> Result<(), ObjectError> {
        // The digest of the whole wants the parts in their order: they pass it on the way.
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
            blocks.begin(async move { azure.stage(&path, staging).await })
        });
        let staged: Vec<Staging> = staged.try_buffered(PARTS_IN_FLIGHT).try_collect().await?;
        let mut list = BlockList::default();
        let mut whole = [0; 16];
        for staging in staged {
            match staging {
                Staging::Block(number, _) => {
                    list.blocks.push(BlobBlockType::new_uncommitted(block_id(number)));
                }
                Staging::End(md5) => whole = md5,
            }
        }
        let request = self
            .blob(path)
            .put_block_list(list)
            .content_md5(BlobContentMD5(whole))
            .content_type(BlobContentType::from_static(content_type(options)))
            .metadata(to_metadata(options));
        self.call("write", path, request).await?;
        Ok(())
    }

    async fn stage(&self, path: &str, staging: Staging) -> Result<Staging, ObjectError> {
        let Staging::Block(number, bytes) = staging else { return Ok(staging) };
        let request = self.blob(path).put_block(block_id(number), bytes);
        self.call("write", path, request).await?;
        Ok(Staging::Block(number, Bytes::new()))
    }

    /// Blocks that were staged for a blob and never committed cannot be deleted, but whoever
    /// commits others discards them: none, here, and the empty blob that this makes is deleted.
    /// Only where there is no blob: one that is there stays.
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

    pub(super) async fn head(&self, path: &str) -> Result<Option<Head>, ObjectError> {
        let answer = match self.call("read", path, self.blob(path).get_properties()).await {
            Err(failure) if failure.is_not_found() => return Ok(None),
            answered => answered?,
        };
        let metadata = answer.blob.metadata.unwrap_or_default();
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_lowercase(), value));
        let size = answer.blob.properties.content_length;
        Ok(Some(Head { size, metadata: metadata.collect() }))
    }

    pub(super) async fn get(&self, path: &str) -> Result<ByteStream, ObjectError> {
        // The SDK reads by ranges; one that no blob fills is the whole blob.
        let mut pages = self.blob(path).get().chunk_size(1u64 << 50).into_stream();
        let body = match self.page("read", path, pages.next()).await {
            Ok(Some(page)) => page.data,
            Ok(None) => return Ok(stream::empty().boxed()),
            // An empty blob has no first byte to begin a range with.
            Err(failure) if failure.status == Some(416) => return Ok(stream::empty().boxed()),
            Err(failure) => return Err(failure.error),
        };
        let cut_off = format!("{self}: reading was cut off");
        Ok(body.map_err(move |_| ObjectError::Unavailable(cut_off.clone())).boxed())
    }

    pub(super) async fn copy(&self, from: &str, to: &str) -> Result<(), ObjectError> {
        let head = self.head(from).await?.ok_or_else(|| ObjectError::NotFound(from.to_owned()))?;
        let source = self.signed(from, COPY_SOURCE_VALID, None)?;
        if head.size <= self.sizes.copy {
            let request = self.blob(to).copy_from_url(source).is_synchronous(true);
            self.call("copy", from, request).await?;
            return Ok(());
        }
        let begun = self.call("copy", from, self.blob(to).copy(source)).await?;
        self.wait_for_copy(to, begun.copy_status).await
    }

    /// Waits for a copy that the service makes by itself.
    async fn wait_for_copy(&self, to: &str, mut status: CopyStatus) -> Result<(), ObjectError> {
        let begun = tokio::time::Instant::now();
        let mut looks = 0;
        loop {
            match status {
                CopyStatus::Success => return Ok(()),
                CopyStatus::Pending if begun.elapsed() < COPY_MOST => {}
                _ => {
                    return Err(ObjectError::Unavailable(format!(
                        "{self}: the copy to {to} did not come to its end ({status})"
                    )));
                }
            }
            looks += 1;
            let (base, cap) = (Duration::from_millis(100), Duration::from_secs(5));
            tokio::time::sleep(retry::pause(looks, base, cap)).await;
            let answer = self.call("copy", to, self.blob(to).get_properties()).await?;
            status = answer.blob.properties.copy_status.unwrap_or(CopyStatus::Success);
        }
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        let page_size = NonZeroU32::new(self.sizes.page.into()).unwrap_or(NonZeroU32::MIN);
        let mut pages = self
            .container
            .list_blobs()
            .prefix(self.full(prefix))
            .max_results(page_size)
            .into_stream();
        let mut entries = Vec::new();
        while let Some(page) = self.page("list", prefix, pages.next()).await? {
            entries.extend(page.blobs.blobs().map(|blob| Entry {
                key: without(&self.prefix, &blob.name),
                size: blob.properties.content_length,
            }));
        }
        Ok(entries)
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), ObjectError> {
        match self.call("delete", path, self.blob(path).delete()).await {
            Err(failure) if !failure.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }

    /// Blocks that a killed process staged are not found (the SDK cannot read a list with
    /// them); the service discards them within a week.
    pub(super) async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let entries = self.list(prefix).await?;
        let count = entries.len() as u64;
        let deletes: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let azure = self.clone();
                async move { azure.delete(&entry.key).await }.boxed()
            })
            .collect();
        stream::iter(deletes).buffered(DELETES_IN_FLIGHT).try_collect::<()>().await?;
        Ok(count)
    }

    pub(super) async fn signed_get(
        &self,
        path: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        if matches!(self.credentials, Credentials::Sas(_)) {
            return Err(ObjectError::Refused(format!(
                "{self}: a sas_token cannot sign download addresses, and is not given away \
                 itself: set the account's access_key"
            )));
        }
        Ok(self.signed(path, valid, Some(file_name))?.into())
    }

    /// An address at which the blob can be read for `valid`. With a token of ours it carries
    /// that, so it may be shown to the service only.
    fn signed(
        &self,
        path: &str,
        valid: Duration,
        file_name: Option<&str>,
    ) -> Result<Url, ObjectError> {
        let unusable =
            |_| ObjectError::Refused(format!("{self}: {path:?} cannot be the name of a blob"));
        let mut url = self.blob(path).url().map_err(unusable)?;
        let key = match &self.credentials {
            Credentials::Sas(token) => {
                url.set_query(Some(token));
                return Ok(url);
            }
            Credentials::Key(key) => key,
        };
        let expires = i64::try_from(valid.as_secs())
            .ok()
            .and_then(|valid| Timestamp::now().as_second().checked_add(valid))
            .and_then(|second| Timestamp::from_second(second).ok())
            .ok_or_else(|| ObjectError::Settings("a signed address: too long".into()))?
            .to_string();
        let disposition = file_name.map(content_disposition).unwrap_or_default();
        let name = self.full(path);
        let resource = format!("/blob/{}/{}/{name}", self.account, self.container.container_name());
        // Permissions, start, expiry, resource, policy, address, protocol, version, kind,
        // snapshot, scope, then the answer's Cache-Control, Content-Disposition, -Encoding,
        // -Language and -Type ("Create a service SAS").
        let to_sign = [
            "r",
            "",
            &expires,
            &resource,
            "",
            "",
            "",
            SAS_VERSION,
            "b",
            "",
            "",
            "",
            &disposition,
            "",
            "",
            "",
        ];
        let signature = hmac_sha256(&to_sign.join("\n"), key).map_err(unusable)?;
        let mut query = url.query_pairs_mut();
        query.append_pair("sv", SAS_VERSION).append_pair("sr", "b").append_pair("sp", "r");
        query.append_pair("se", &expires);
        if file_name.is_some() {
            query.append_pair("rscd", &disposition);
        }
        query.append_pair("sig", &signature);
        drop(query);
        Ok(url)
    }

    fn full(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    fn blob(&self, path: &str) -> BlobClient {
        self.container.blob_client(self.full(path))
    }

    /// Waits for an answer. What the SDK would log of the request is not logged, and a failure
    /// is told in words.
    async fn call<T>(
        &self,
        action: &'static str,
        path: &str,
        request: impl IntoFuture<Output = azure_core::Result<T>, IntoFuture: Send>,
    ) -> Result<T, Failure> {
        let answer = request.into_future().with_subscriber(NoSubscriber::new()).await;
        answer.map_err(|error| self.failure(action, path, &error))
    }

    /// [`call`](Self::call) for the next page of several.
    async fn page<T>(
        &self,
        action: &'static str,
        path: &str,
        next: impl Future<Output = Option<azure_core::Result<T>>> + Send,
    ) -> Result<Option<T>, Failure> {
        self.call(action, path, async { next.await.transpose() }).await
    }

    /// Never the SDK's own text: it repeats the answer, and that the request.
    fn failure(&self, action: &str, path: &str, error: &azure_core::Error) -> Failure {
        match error.kind() {
            ErrorKind::HttpResponse { status, error_code } => {
                let (status, code) = (u16::from(*status), error_code.as_deref());
                let error = self.refusal(action, path, status, code.unwrap_or_default());
                Failure { status: Some(status), error }
            }
            ErrorKind::Io => Failure::unanswered(ObjectError::Unavailable(format!(
                "{self} cannot be reached: {}",
                innermost(error)
            ))),
            ErrorKind::Credential => Failure::unanswered(ObjectError::Refused(format!(
                "{self}: the credentials cannot be used"
            ))),
            _ => Failure::unanswered(ObjectError::Unavailable(format!(
                "{self}: the answer to a {action} cannot be read: is the endpoint that of Azure \
                 Blob Storage?"
            ))),
        }
    }

    /// What a refusal means, and how to mend it.
    fn refusal(&self, action: &str, path: &str, status: u16, code: &str) -> ObjectError {
        let (account, container) = (&self.account, self.container.container_name());
        let refused = |text: String| ObjectError::Refused(format!("{self}: {text}"));
        match code {
            "ContainerNotFound" => refused(format!("the container {container} does not exist")),
            "ContainerBeingDeleted" => refused(format!("the container {container} is deleted")),
            "BlobNotFound" | "CannotVerifyCopySource" if status == 404 => {
                ObjectError::NotFound(path.to_owned())
            }
            "InvalidResourceName" => refused(format!("{container} is no container's name")),
            "AccountIsDisabled" => refused(format!("the account {account} is disabled")),
            "AuthenticationFailed" | "InvalidAuthenticationInfo" | "AuthorizationFailure" => {
                let skew = self.clock.skew();
                if skew.abs() > SKEW_ALLOWED {
                    return clock_is_off(Some(skew));
                }
                let reason = match self.credentials {
                    Credentials::Key(_) => "the access_key is not one of the account",
                    Credentials::Sas(_) => "the sas_token is not valid here, or has expired",
                };
                refused(format!(
                    "access denied: {reason}, or the network rules of {account} keep this \
                     machine out ({code})"
                ))
            }
            "PendingCopyOperation" | "ServerBusy" | "OperationTimedOut" | "Md5Mismatch" => {
                ObjectError::Unavailable(format!("{self}: {action} is to be tried again ({code})"))
            }
            _ if may_pass(status) => ObjectError::Unavailable(format!(
                "{self}: {action} failed at the service ({status} {code})"
            )),
            _ => match status {
                404 => ObjectError::NotFound(path.to_owned()),
                401 | 403 => refused(format!(
                    "access denied: the credentials may not {action} in the container \
                     {container} ({code})"
                )),
                _ => refused(format!("a {action} was refused ({status} {code})")),
            },
        }
    }
}

impl Failure {
    /// A condition of the request did not hold.
    fn is_conflict(&self) -> bool {
        matches!(self.status, Some(409 | 412))
    }
}

/// What becomes of a stream: blocks, then the digest of all.
enum Staging {
    Block(i32, Bytes),
    End([u8; 16]),
}

/// Blocks that are not committed; discarded when dropped so.
struct Staged {
    azure: Azure,
    path: String,
    blocks: UnderWay,
    open: bool,
}

impl Staged {
    async fn end(mut self, sent: Result<(), ObjectError>) -> Result<(), ObjectError> {
        if sent.is_err() {
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
        // Its task was dropped: nobody waits for this any more.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (azure, blocks) = (self.azure.clone(), self.blocks.clone());
            let path = std::mem::take(&mut self.path);
            runtime.spawn(async move { azure.discard_with_word(&path, &blocks).await });
        }
    }
}

impl Azure {
    /// What is left is discarded by the service within a week.
    async fn discard_with_word(&self, path: &str, blocks: &UnderWay) {
        blocks.ended().await;
        if let Err(error) = self.discard_staged(path).await {
            tracing::warn!(%error, path, "an unfinished upload could not be discarded");
        }
    }
}

fn block_id(number: i32) -> String {
    format!("{number:08}")
}

fn to_metadata(options: &PutOptions) -> Metadata {
    let mut metadata = Metadata::new();
    for (name, value) in &options.metadata {
        metadata.insert(name.clone(), value.clone());
    }
    metadata
}

/// How far this machine's clock is from the service's, as of the latest refusal.
#[derive(Debug, Default)]
struct ServiceClock(AtomicI64);

impl ServiceClock {
    fn skew(&self) -> SignedDuration {
        SignedDuration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// A request that got no answer; the text has no address, since that may carry a signature.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unreached(String);

/// The project's own HTTP client, for an SDK that is built without one.
#[derive(Debug)]
struct Transport {
    client: reqwest::Client,
    clock: Arc<ServiceClock>,
}

impl Transport {
    fn new(clock: Arc<ServiceClock>) -> Result<Self, ObjectError> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(READ_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ObjectError::Settings(format!("an HTTP client: {error}")))?;
        Ok(Self { client, clock })
    }

    async fn execute(&self, request: &Request) -> azure_core::Result<Response> {
        let method = reqwest::Method::from_bytes(request.method().as_ref().as_bytes());
        let method = method.map_err(|error| azure_core::Error::new(ErrorKind::Other, error))?;
        let mut sent = self.client.request(method, request.url().clone());
        for (name, value) in request.headers().iter() {
            sent = sent.header(name.as_str(), value.as_str());
        }
        if let Body::Bytes(bytes) = request.body() {
            sent = sent.body(bytes.clone());
        }
        let answer = sent.send().await.map_err(unreached)?;
        let status = StatusCode::try_from(answer.status().as_u16())
            .map_err(|_| ErrorKind::DataConversion.into_error())?;
        let mut headers = Headers::new();
        for (name, value) in answer.headers() {
            if let Ok(value) = value.to_str() {
                let name = HeaderName::from(name.as_str().to_owned());
                headers.insert(name, HeaderValue::from(value.to_owned()));
            }
        }
        self.note_clock(&answer);
        let body = answer.bytes_stream().map_err(unreached);
        Ok(Response::new(status, headers, Box::pin(body)))
    }

    fn note_clock(&self, answer: &reqwest::Response) {
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(skew) = date.and_then(|date| clock_skew(date, Timestamp::now())) {
            self.clock.0.store(skew.as_secs(), Ordering::Relaxed);
        }
    }
}

fn unreached(error: reqwest::Error) -> azure_core::Error {
    azure_core::Error::new(ErrorKind::Io, Unreached(innermost(&error.without_url())))
}

type Executing<'a> = Pin<Box<dyn Future<Output = azure_core::Result<Response>> + Send + 'a>>;

impl HttpClient for Transport {
    // As the `async_trait` macro would write it.
    fn execute_request<'a, 'b, 'c>(&'a self, request: &'b Request) -> Executing<'c>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.execute(request))
    }
}
