//! An export behind its `url`. Its objects have four addresses, which differ only in the last
//! segment of the path.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::StatusCode;
use serde::Deserialize;
use url::Url;

use crate::manifest::{ARCHIVE_SUFFIX, CHECKSUMS_SUFFIX, MANIFEST_SUFFIX, SIGNATURE_SUFFIX};
use kit::errors::with_causes;
use kit::retry::Retry;
use kit::words::{after_colon, beginning};

/// The path of an export at a gateway.
const EXPORTS: &str = "/users/export/";

/// The last segments of the addresses, and the suffixes of the objects' names.
const SEGMENTS: [(&str, &str); 4] = [
    ("download", ARCHIVE_SUFFIX),
    ("manifest.json", MANIFEST_SUFFIX),
    ("SHA256SUMS", CHECKSUMS_SUFFIX),
    ("manifest.json.sig", SIGNATURE_SUFFIX),
];

/// Attempts to read a small response, and the pause between them.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// Maximum characters of an error that is not from a gateway, such as the page of a proxy.
const MAX_OTHER_ERROR: usize = 500;

/// The pieces of an object.
pub(super) type Chunks = BoxStream<'static, std::io::Result<Bytes>>;

/// Why a gateway's response cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{}", with_causes(.0))]
    Request(#[from] reqwest::Error),
    /// `message` is the gateway's reason, or the beginning of a body in another format.
    #[error("{host} responded {status}{}", after_colon(.message))]
    Refused { host: String, status: StatusCode, message: String },
    #[error("{0} responded with too much data")]
    TooLarge(String),
}

impl Retry for HttpError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Request(_) => true,
            Self::Refused { status, .. } => matches!(status.as_u16(), 429 | 502..=504),
            Self::TooLarge(_) => false,
        }
    }
}

/// The addresses of one export.
#[derive(Clone, Debug)]
pub struct ExportAddress {
    /// The address of one of the objects.
    url: Url,
    object_prefix: String,
}

impl ExportAddress {
    /// None: not an address of one of an export's objects.
    pub fn new(url: Url) -> Option<Self> {
        let (_, path) = url.path().rsplit_once(EXPORTS)?;
        let (object_prefix, last) = path.split_once('/')?;
        let is_known = SEGMENTS.iter().any(|(segment, _)| *segment == last);
        let object_prefix = object_prefix.to_owned();
        (is_known && !object_prefix.is_empty()).then_some(Self { url, object_prefix })
    }

    pub fn object_prefix(&self) -> &str {
        &self.object_prefix
    }

    /// The URL of the gateway itself.
    pub fn gateway(&self) -> String {
        let origin = self.url.origin().ascii_serialization();
        let base = self.url.path().rsplit_once(EXPORTS).map_or("", |(base, _)| base);
        format!("{origin}{base}")
    }

    /// The address of an object of the export.
    pub fn address_of(&self, name: &str) -> Option<Url> {
        let suffix = name.strip_prefix(self.object_prefix.as_str())?;
        let (segment, _) = SEGMENTS.iter().find(|(_, known)| *known == suffix)?;
        let mut url = self.url.clone();
        url.path_segments_mut().ok()?.pop().push(segment);
        Some(url)
    }
}

/// The pieces of a large response; none for 404.
pub(super) async fn open_stream(
    client: &reqwest::Client,
    address: Url,
) -> Result<Option<Chunks>, HttpError> {
    let response = request_if_exists(client, address).await?;
    Ok(response.map(|response| {
        let chunks = response.bytes_stream().map_err(reqwest::Error::without_url);
        chunks.map_err(std::io::Error::other).boxed()
    }))
}

/// A response's body of at most `max` bytes, after retries; none for 404.
pub(super) async fn fetch_with_retries(
    client: &reqwest::Client,
    address: Url,
    max: u64,
) -> Result<Option<Vec<u8>>, HttpError> {
    let host = address.host_str().unwrap_or_default().to_owned();
    let mut attempt = 1;
    loop {
        match fetch_once(client, address.clone(), max, &host).await {
            Err(error) if error.can_retry() && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn fetch_once(
    client: &reqwest::Client,
    address: Url,
    max: u64,
    host: &str,
) -> Result<Option<Vec<u8>>, HttpError> {
    let Some(mut response) = request_if_exists(client, address).await? else { return Ok(None) };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        body.extend_from_slice(&chunk);
        if body.len() as u64 > max {
            return Err(HttpError::TooLarge(host.to_owned()));
        }
    }
    Ok(Some(body))
}

/// An error unless the response is a success, for 404, too. Does not read the body.
pub(super) async fn check_exists(client: &reqwest::Client, address: Url) -> Result<(), HttpError> {
    request(client, address).await.map(drop)
}

/// A successful response; none for 404.
async fn request_if_exists(
    client: &reqwest::Client,
    address: Url,
) -> Result<Option<reqwest::Response>, HttpError> {
    match request(client, address).await {
        Err(HttpError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
        response => response.map(Some),
    }
}

/// A successful response. Errors do not show the address: its signature is a secret.
async fn request(client: &reqwest::Client, address: Url) -> Result<reqwest::Response, HttpError> {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    let host = address.host_str().unwrap_or_default().to_owned();
    let mut response = client.get(address).send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await
        && body.len() + chunk.len() <= MAX_ERROR
    {
        body.extend_from_slice(&chunk);
    }
    let message = match serde_json::from_slice(&body) {
        Ok(Refusal { message }) => message,
        Err(_) => beginning(String::from_utf8_lossy(&body).trim(), MAX_OTHER_ERROR).into_owned(),
    };
    Err(HttpError::Refused { host, status, message })
}
