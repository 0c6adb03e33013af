//! The transfer of a file, which continues after an interruption if the file is still the same
//! (`Range` with `If-Range`).
//!
//! Next to the file is its ETag. It is written while the file is empty, so that no part of one file
//! is continued with a part of another, whenever the process ends.

use std::path::{Path, PathBuf};

use futures::TryStreamExt as _;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap};
use reqwest::{Response, StatusCode};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncWriteExt as _, BufWriter};
use tokio::time::Instant;

use crate::cli::export::client::{Client, ClientError, PAUSE, TIMEOUT};

/// Downloads `url` to `file`, or what is missing of it. If the server fails in the middle, retries
/// until nothing arrives for [`TIMEOUT`].
pub async fn continue_download(
    client: &Client,
    url: &str,
    file: &Path,
    mut progress: impl FnMut(u64, Option<u64>),
) -> Result<(), ClientError> {
    let mut latest_length = length(file).await;
    // None: nothing has arrived, so the user rather sees the reason at once.
    let mut latest_arrival: Option<Instant> = None;
    loop {
        let Err(error) = attempt(client, url, file, &mut progress).await else { return Ok(()) };
        let length = length(file).await;
        if length != latest_length {
            (latest_length, latest_arrival) = (length, Some(Instant::now()));
        }
        let can_continue = latest_arrival.is_some_and(|arrival| arrival.elapsed() < TIMEOUT);
        if !(error.can_retry() && can_continue) {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The bytes that an earlier download left, after which another one continues.
pub async fn downloaded(file: &Path) -> u64 {
    Partial::load(file).await.map_or(0, |partial| partial.length)
}

async fn length(file: &Path) -> u64 {
    fs::metadata(file).await.map_or(0, |metadata| metadata.len())
}

/// What an earlier attempt left.
struct Partial {
    length: u64,
    etag: String,
}

impl Partial {
    async fn load(file: &Path) -> Option<Self> {
        let length = length(file).await;
        let etag = fs::read_to_string(etag_file(file)).await.ok()?;
        (length > 0 && !etag.is_empty()).then_some(Self { length, etag })
    }
}

fn etag_file(file: &Path) -> PathBuf {
    file.with_file_name("etag")
}

async fn attempt(
    client: &Client,
    url: &str,
    file: &Path,
    progress: &mut impl FnMut(u64, Option<u64>),
) -> Result<(), ClientError> {
    if let Some(partial) = Partial::load(file).await {
        let response = client.open(url, Some((partial.length, &partial.etag))).await?;
        match continuation(response.status(), response.headers(), &partial) {
            Continuation::Complete => return Ok(()),
            Continuation::Rest => {
                let out = OpenOptions::new().append(true).open(file).await?;
                return write(client, response, out, partial.length, progress).await;
            }
            Continuation::Whole => return begin(client, response, file, progress).await,
            Continuation::Unusable => {}
        }
    }
    let response = client.open(url, None).await?;
    begin(client, response, file, progress).await
}

/// What the response to a range is.
#[derive(Debug, PartialEq, Eq)]
enum Continuation {
    /// The rest of the same file.
    Rest,
    /// Nothing is missing.
    Complete,
    /// The whole file: it has changed, or the server does not serve ranges.
    Whole,
    /// Another part, or a part of another file: some servers ignore `If-Range`.
    Unusable,
}

fn continuation(status: StatusCode, headers: &HeaderMap, partial: &Partial) -> Continuation {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_same = text(ETAG) == Some(partial.etag.as_str());
    let range = text(CONTENT_RANGE).and_then(|range| range.strip_prefix("bytes "));
    let length = partial.length.to_string();
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let begins = range.and_then(|range| range.split_once('-'));
            let is_rest = begins.is_some_and(|(first, _)| first == length);
            if is_same && is_rest { Continuation::Rest } else { Continuation::Unusable }
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let is_end = range.and_then(|range| range.strip_prefix("*/")) == Some(length.as_str());
            // Its ETag is not always there. A file that has changed since is found when verified.
            let is_same = is_same || text(ETAG).is_none();
            if is_same && is_end { Continuation::Complete } else { Continuation::Unusable }
        }
        _ => Continuation::Whole,
    }
}

/// Writes a whole file from its start.
async fn begin(
    client: &Client,
    response: Response,
    file: &Path,
    progress: &mut impl FnMut(u64, Option<u64>),
) -> Result<(), ClientError> {
    let out = File::create(file).await?;
    let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
    // A weak one does not identify the bytes.
    let etag = etag.filter(|etag| !etag.starts_with("W/")).unwrap_or_default();
    fs::write(etag_file(file), etag).await?;
    write(client, response, out, 0, progress).await
}

/// Appends a response to a file of `length` bytes.
async fn write(
    client: &Client,
    response: Response,
    out: File,
    length: u64,
    progress: &mut impl FnMut(u64, Option<u64>),
) -> Result<(), ClientError> {
    let total = response.content_length().map(|rest| length + rest);
    let mut out = BufWriter::with_capacity(256 << 10, out);
    let mut chunks = response.bytes_stream();
    let mut done = length;
    let written = async {
        while let Some(chunk) = chunks.try_next().await.map_err(|error| client.failed(error))? {
            out.write_all(&chunk).await?;
            done += chunk.len() as u64;
            progress(done, total);
        }
        Ok(())
    }
    .await;
    // What has arrived is kept, also after an error.
    out.flush().await?;
    out.into_inner().sync_all().await?;
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rest_of_the_same_file_is_appended() {
        let partial = Partial { length: 100, etag: "\"a\"".into() };
        let continuation = |status: u16, etag: Option<&str>, range: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(ETAG, etag), (CONTENT_RANGE, range)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            continuation(StatusCode::from_u16(status).unwrap(), &headers, &partial)
        };
        let (same, other) = (Some("\"a\""), Some("\"b\""));
        let rest = Some("bytes 100-199/200");
        assert_eq!(continuation(206, same, rest), Continuation::Rest);
        for (etag, range) in
            [(other, rest), (None, rest), (same, Some("bytes 0-199/200")), (same, None)]
        {
            assert_eq!(continuation(206, etag, range), Continuation::Unusable);
        }
        assert_eq!(continuation(200, other, None), Continuation::Whole);
        for etag in [same, None] {
            assert_eq!(continuation(416, etag, Some("bytes */100")), Continuation::Complete);
        }
        for (etag, range) in [(same, Some("bytes */99")), (other, Some("bytes */100"))] {
            assert_eq!(continuation(416, etag, range), Continuation::Unusable);
        }
    }

    #[tokio::test]
    async fn a_part_without_its_etag_is_not_continued() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p-1.zip");
        assert!(Partial::load(&file).await.is_none());
        fs::write(&file, "abc").await.unwrap();
        assert!(Partial::load(&file).await.is_none());
        fs::write(etag_file(&file), "").await.unwrap();
        assert!(Partial::load(&file).await.is_none());
        fs::write(etag_file(&file), "\"a\"").await.unwrap();
        assert_eq!(Partial::load(&file).await.unwrap().length, 3);
    }
}
