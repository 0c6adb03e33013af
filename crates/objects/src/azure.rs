//! Objects as block blobs in a container of Azure Blob Storage. No type of the Azure SDK is visible
//! outside this module.
//!
//! | module | is about |
//! |---|---|
//! | [`transport`] | the HTTP client |
//! | [`sas`] | signed URLs |
//! | [`upload`] | uploads in blocks |

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use azure_core::auth::Secret;
use azure_core::error::ErrorKind;
use azure_core::prelude::{IfMatchCondition, IfSourceMatchCondition, Metadata};
use azure_core::{ExponentialRetryOptions, RetryOptions, TransportOptions};
use azure_storage::{CloudLocation, StorageCredentials};
use azure_storage_blobs::blob::CopyStatus;
use azure_storage_blobs::prelude::{
    BlobClient, BlobContentType, ClientBuilder, ContainerClient, Hash,
};
use bytes::Bytes;
use futures::stream;
use futures::{StreamExt as _, TryStreamExt as _};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;
use url::Url;

use self::transport::{ServiceClock, Transport};
use super::bounds::{self, Pages, TOO_LONG, is_too_long};
use super::failure::{
    Failure, SKEW_ALLOWED, clock_skew_error, innermost, is_transient, shown_code,
};
use super::proxy::Proxy;
use super::settings::AzureSettings;
use super::stream::{collect, delete_each, in_parts, md5, part_size};
use super::{
    ByteStream, Entry, Head, HeadPredicate, ObjectError, Put, PutOptions, Reason, Sizes, below,
    content_type, without,
};
use kit::retry;

mod sas;
mod transport;
mod upload;

const RETRIES: u32 = 2;
/// How long the service can read the source of a copy.
const COPY_SOURCE_VALID: Duration = Duration::from_secs(60 * 60);
/// Time limit of a large copy.
const MAX_COPY_TIME: Duration = Duration::from_secs(30 * 60);

/// A container, and the prefix below which objects lie.
#[derive(Clone)]
pub struct Azure {
    container: ContainerClient,
    account: String,
    prefix: String,
    /// The account's URL for downloads, if it is a different one.
    public_endpoint: Option<String>,
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
    pub(super) fn open(
        settings: &AzureSettings,
        sizes: Sizes,
        proxy: Option<Proxy>,
    ) -> Result<Self, ObjectError> {
        let mut settings = settings.clone();
        if settings.access_key.is_none() && settings.sas_token.is_none() {
            settings.access_key = std::env::var("AZURE_STORAGE_KEY").ok();
        }
        if settings.access_key.is_none() && settings.sas_token.is_none() {
            settings.sas_token = std::env::var("AZURE_STORAGE_SAS_TOKEN").ok();
        }
        settings.check()?;
        let account = settings.account.clone();
        let (credentials, sdk_credentials) = match (settings.access_key, settings.sas_token) {
            (Some(key), _) => {
                let key = Secret::new(key);
                let sdk_credentials = StorageCredentials::access_key(account.clone(), key.clone());
                (Credentials::Key(key), sdk_credentials)
            }
            (None, Some(token)) => {
                let token = token.trim_start_matches('?').to_owned();
                let sdk_credentials = StorageCredentials::sas_token(&token)
                    .map_err(|_| ObjectError::Settings("the sas_token is not valid".into()))?;
                (Credentials::Sas(token), sdk_credentials)
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
        let container = ClientBuilder::with_location(location, sdk_credentials)
            .transport(TransportOptions::new(Arc::new(Transport::new(clock.clone(), proxy)?)))
            .retry(RetryOptions::exponential(retry))
            .container_client(settings.container);
        let prefix = settings.prefix.trim_matches('/').to_owned();
        let public_endpoint = settings.public_endpoint;
        Ok(Self { container, account, prefix, public_endpoint, credentials, clock, sizes })
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
    ) -> Result<Put, ObjectError> {
        let part = part_size(size, self.sizes.part);
        if size <= part {
            let body = collect(body, size).await?;
            return self.put(path, body, options).await;
        }
        self.upload(path, in_parts(body, size, part), options).await
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<Head>, ObjectError> {
        Ok(self.fetch_head(path).await?.map(|(head, _)| head))
    }

    /// The head of a blob, and its tag.
    async fn fetch_head(&self, path: &str) -> Result<Option<(Head, String)>, ObjectError> {
        let answer = match self.call("read", path, self.blob(path).get_properties()).await {
            Err(failure) if failure.is_not_found() => return Ok(None),
            answered => answered?,
        };
        let metadata = answer.blob.metadata.unwrap_or_default();
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_lowercase(), value));
        let properties = answer.blob.properties;
        let head = Head { size: properties.content_length, metadata: metadata.collect() };
        Ok(Some((head, properties.etag.to_string())))
    }

    pub(super) async fn get(&self, path: &str) -> Result<ByteStream, ObjectError> {
        // The SDK reads ranges; a range larger than any blob reads the whole blob.
        let mut pages = self.blob(path).get().chunk_size(1u64 << 50).into_stream();
        let body = match self.page("read", path, pages.next()).await {
            Ok(Some(page)) => page.data,
            Ok(None) => return Ok(stream::empty().boxed()),
            // An empty blob has no first byte to begin a range with.
            Err(failure) if failure.status == Some(416) => return Ok(stream::empty().boxed()),
            Err(failure) => return Err(failure.error),
        };
        let cut_off = format!("{self}: the response was cut off");
        Ok(body.map_err(move |_| ObjectError::Unavailable(cut_off.clone().into())).boxed())
    }

    pub(super) async fn copy(
        &self,
        from: &str,
        to: &str,
        accepts: HeadPredicate<'_>,
    ) -> Result<(), ObjectError> {
        let found = self.fetch_head(from).await?.filter(|(head, _)| accepts(head));
        let (head, tag) = found.ok_or_else(|| ObjectError::NotFound(from.to_owned()))?;
        let source = self.signed(from, COPY_SOURCE_VALID, None)?;
        let same = IfSourceMatchCondition::Match(tag);
        if head.size <= self.sizes.copy {
            let request = self.blob(to).copy_from_url(source).is_synchronous(true);
            self.call("copy", from, request.if_source_match(same)).await?;
            return Ok(());
        }
        let request = self.blob(to).copy(source).if_source_match(same);
        let begun = self.call("copy", from, request).await?;
        self.wait_for_copy(to, begun.copy_status).await
    }

    /// Waits for a copy that the service makes asynchronously.
    async fn wait_for_copy(&self, to: &str, mut status: CopyStatus) -> Result<(), ObjectError> {
        let begun = tokio::time::Instant::now();
        let mut checks = 0;
        loop {
            match status {
                CopyStatus::Success => return Ok(()),
                CopyStatus::Pending if begun.elapsed() < MAX_COPY_TIME => {}
                _ => {
                    return Err(ObjectError::Unavailable(
                        format!("{self}: the copy to {to} did not complete ({status})").into(),
                    ));
                }
            }
            checks += 1;
            let (base, cap) = (Duration::from_millis(100), Duration::from_secs(5));
            tokio::time::sleep(retry::backoff(checks, base, cap)).await;
            let answer = self.call("copy", to, self.blob(to).get_properties()).await?;
            status = answer.blob.properties.copy_status.unwrap_or(CopyStatus::Success);
        }
    }

    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        bounds::in_time(self, "a list", self.list_pages(prefix)).await
    }

    async fn list_pages(&self, prefix: &str) -> Result<Vec<Entry>, ObjectError> {
        let page_size = NonZeroU32::new(self.sizes.page.into()).unwrap_or(NonZeroU32::MIN);
        let full = self.full(prefix);
        let mut pages =
            self.container.list_blobs().prefix(full.clone()).max_results(page_size).into_stream();
        let (mut entries, mut bounds) = (Vec::new(), Pages::default());
        while let Some(page) = self.page("list", prefix, pages.next()).await? {
            for blob in page.blobs.blobs() {
                bounds.count_entry(&blob.name);
                // Whatever the server lists: a deletion goes only below the prefix.
                if blob.name.starts_with(&full) {
                    let key = without(&self.prefix, &blob.name);
                    entries.push(Entry { key, size: blob.properties.content_length });
                }
            }
            bounds.end_page(self, page.next_marker.as_ref().map(|marker| marker.as_str()))?;
        }
        Ok(entries)
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), ObjectError> {
        match self.call("delete", path, self.blob(path).delete()).await {
            Err(failure) if !failure.is_not_found() => Err(failure.error),
            _ => Ok(()),
        }
    }

    /// The SDK cannot list the blocks that a killed process staged; the service discards them
    /// within a week.
    pub(super) async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        let entries = self.list(prefix).await?;
        let deletions = delete_each(entries, |key| {
            let azure = self.clone();
            async move { azure.delete(&key).await }
        });
        bounds::in_time(self, "deletions", deletions).await
    }

    pub(super) async fn signed_get(
        &self,
        path: &str,
        valid: Duration,
        file_name: &str,
    ) -> Result<String, ObjectError> {
        if matches!(self.credentials, Credentials::Sas(_)) {
            return Err(ObjectError::Refused(
                format!(
                    "{self}: a sas_token cannot sign download URLs: set the account's access_key"
                )
                .into(),
            ));
        }
        let signed = self.signed(path, valid, Some(file_name))?;
        Ok(match &self.public_endpoint {
            Some(endpoint) => self.below_public(endpoint, &signed),
            None => signed.into(),
        })
    }

    /// The blob's URL below another endpoint of the account; signatures do not cover the endpoint.
    fn below_public(&self, endpoint: &str, signed: &Url) -> String {
        let container = self.container.container_name();
        let own = self.container.url().map(String::from).unwrap_or_default();
        let rest = signed.as_str().strip_prefix(own.trim_end_matches('/')).unwrap_or_default();
        format!("{}/{container}{rest}", endpoint.trim_end_matches('/'))
    }

    fn full(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    fn blob(&self, path: &str) -> BlobClient {
        self.container.blob_client(self.full(path))
    }

    /// Waits for a response. Suppresses the SDK's log lines about the request, and returns failures
    /// as text.
    async fn call<T>(
        &self,
        action: &'static str,
        path: &str,
        request: impl IntoFuture<Output = azure_core::Result<T>, IntoFuture: Send>,
    ) -> Result<T, Failure> {
        let answer = request.into_future().with_subscriber(NoSubscriber::new()).await;
        answer.map_err(|error| self.failure(action, path, &error))
    }

    /// [`call`](Self::call) for the next of several pages.
    async fn page<T>(
        &self,
        action: &'static str,
        path: &str,
        next: impl Future<Output = Option<azure_core::Result<T>>> + Send,
    ) -> Result<Option<T>, Failure> {
        self.call(action, path, async { next.await.transpose() }).await
    }

    /// Never uses the SDK's own text, which repeats the response and the request.
    fn failure(&self, action: &str, path: &str, error: &azure_core::Error) -> Failure {
        match error.kind() {
            ErrorKind::HttpResponse { status, error_code } => {
                let (status, code) = (u16::from(*status), error_code.as_deref());
                let code = shown_code(code.unwrap_or_default());
                let error = self.refusal(action, path, status, code);
                Failure { status: Some(status), error }
            }
            _ if is_too_long(error) => {
                Failure::without_response(ObjectError::Refused(Reason::at(self, TOO_LONG)))
            }
            ErrorKind::Io => Failure::without_response(ObjectError::Unavailable(format!(
                "cannot reach {self}: {}",
                innermost(error)
            ).into())),
            ErrorKind::Credential => Failure::without_response(ObjectError::Refused(format!(
                "{self}: the credentials cannot be used: check the access_key or sas_token"
            ).into())),
            _ => Failure::without_response(ObjectError::Unavailable(format!(
                "{self}: cannot read the response to a {action}: check that the endpoint is Azure \
                 Blob Storage"
            ).into())),
        }
    }

    /// The cause of a rejection, and how to fix it.
    fn refusal(&self, action: &str, path: &str, status: u16, code: &str) -> ObjectError {
        let (account, container) = (&self.account, self.container.container_name());
        let refused = |text: String| ObjectError::Refused(Reason::at(self, text));
        let unavailable = |text: String| ObjectError::Unavailable(Reason::at(self, text));
        match code {
            "ContainerNotFound" => refused(format!("the container {container} does not exist")),
            "ContainerBeingDeleted" => {
                refused(format!("the container {container} is being deleted"))
            }
            "BlobNotFound" | "CannotVerifyCopySource" if status == 404 => {
                ObjectError::NotFound(path.to_owned())
            }
            "InvalidResourceName" => refused(format!("{container} is not a valid container name")),
            "AccountIsDisabled" => refused(format!("the account {account} is disabled")),
            "AuthenticationFailed" | "InvalidAuthenticationInfo" | "AuthorizationFailure" => {
                let skew = self.clock.skew();
                // Tokens do not depend on this machine's clock.
                let is_signed = matches!(self.credentials, Credentials::Key(_));
                if is_signed && skew.abs() > SKEW_ALLOWED {
                    return clock_skew_error(Some(skew));
                }
                let reason = match self.credentials {
                    Credentials::Key(_) => "the access_key does not belong to the account",
                    Credentials::Sas(_) => {
                        "the sas_token is not valid for this container, or has \
                                            expired"
                    }
                };
                refused(format!(
                    "access denied: {reason}, or the network rules of {account} block this \
                     machine ({code})"
                ))
            }
            "PendingCopyOperation"
            | "ServerBusy"
            | "OperationTimedOut"
            | "InternalError"
            // Another writer of the same blob discarded the blocks.
            | "InvalidBlockList"
            | "Md5Mismatch" => {
                unavailable(format!("{action} failed for now ({code})"))
            }
            _ if is_transient(status) => unavailable(format!("{action} failed in Azure ({status} {code})"
            )),
            _ => match status {
                // A proxy's, or that of a wrong endpoint: what is written or listed need not exist.
                404 if !matches!(action, "write" | "list") => ObjectError::NotFound(path.to_owned()),
                // The source changed after its head was read.
                412 if action == "copy" => ObjectError::NotFound(path.to_owned()),
                401 | 403 => refused(format!(
                    "access denied: the credentials may not {action} in the container \
                     {container} ({code})"
                )),
                _ => refused(format!("a {action} was rejected ({status} {code})")),
            },
        }
    }
}

impl Failure {
    /// Whether a condition of the request failed.
    fn is_conflict(&self) -> bool {
        matches!(self.status, Some(409 | 412))
    }
}

fn to_metadata(options: &PutOptions) -> Metadata {
    let mut metadata = Metadata::new();
    for (name, value) in &options.metadata {
        metadata.insert(name.clone(), value.clone());
    }
    metadata
}
