//! An export behind its `url`. Its objects have four addresses, which differ only in the last
//! segment of the path.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::StatusCode;
use serde::Deserialize;
use url::Url;

use super::source::Chunks;
use crate::manifest::{ARCHIVE_SUFFIX, CHECKSUMS_SUFFIX, MANIFEST_SUFFIX, SIGNATURE_SUFFIX};
use kit::retry::Retry;

/// The path of an export at a gateway.
const EXPORTS: &str = "/users/export/";

/// The last segments of the addresses, and the suffixes of the objects' names.
const SEGMENTS: [(&str, &str); 4] = [
    ("download", ARCHIVE_SUFFIX),
    ("manifest.json", MANIFEST_SUFFIX),
    ("SHA256SUMS", CHECKSUMS_SUFFIX),
    ("manifest.json.sig", SIGNATURE_SUFFIX),
];

/// Attempts at a response without a body, and the pause between them.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// Why a gateway's response cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{}", chain(.0))]
    Request(#[from] reqwest::Error),
    /// The gateway's reason.
    #[error("{host} responded {status}: {message}")]
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

/// An error and its chain of causes.
fn chain(error: &reqwest::Error) -> String {
    let error: &(dyn std::error::Error + 'static) = error;
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
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
pub(super) async fn open(
    client: &reqwest::Client,
    address: Url,
) -> Result<Option<Chunks>, HttpError> {
    let response = get(client, address).await?;
    Ok(response.map(|response| {
        let chunks = response.bytes_stream().map_err(reqwest::Error::without_url);
        chunks.map_err(std::io::Error::other).boxed()
    }))
}

/// A response's body of at most `max` bytes; none for 404.
pub async fn fetch(
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
    let Some(mut response) = get(client, address).await? else { return Ok(None) };
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
pub(super) async fn check(client: &reqwest::Client, address: Url) -> Result<(), HttpError> {
    respond(client, address).await.map(drop)
}

/// A successful response; none for 404.
async fn get(
    client: &reqwest::Client,
    address: Url,
) -> Result<Option<reqwest::Response>, HttpError> {
    match respond(client, address).await {
        Err(HttpError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
        response => response.map(Some),
    }
}

/// A successful response. Errors do not show the address: its signature is a secret.
async fn respond(client: &reqwest::Client, address: Url) -> Result<reqwest::Response, HttpError> {
    #[derive(Default, Deserialize)]
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
    let Refusal { message } = serde_json::from_slice(&body).unwrap_or_default();
    Err(HttpError::Refused { host, status, message })
}
