//! Content codings (RFC 9110, 8.4): of request bodies, and of large responses.

use std::io::{ErrorKind, Read};
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http_body_util::BodyExt as _;
use libdeflater::{CompressionLvl, Compressor};
use zstd_safe::zstd_sys::ZSTD_ErrorCode;

use super::ApiError;
use crate::app::App;
use kit::compute::NO_WORKSPACE;
use runtime::fairness::Reservation;

/// The accepted codings of bodies, for `Accept-Encoding`.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, zstd, deflate");

/// Maximum ratio of a body's decompressed size to its received size. JSON of many similar objects
/// reaches about 30.
const MAX_DECOMPRESSION_RATIO: usize = 200;

/// Decompressed bytes below which the ratio is not checked.
const FREE_BYTES: usize = 64 << 10;

/// Smaller responses fit into a packet or two, and are not compressed.
const LARGE_BYTES: usize = 2 << 10;

/// The compression level of responses: the lowest.
const LEVEL: i32 = 1;

/// Larger bodies are decoded on a compute thread, because it takes more than a fraction of a
/// millisecond.
pub(super) const INLINE_BYTES: usize = 64 << 10;

/// `application/json`, or a type built on it (`application/…+json`), with any parameters.
pub(super) fn is_json_type(content_type: Option<&HeaderValue>) -> bool {
    let Some(value) = content_type.and_then(|value| value.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence
        .strip_prefix("application/")
        .is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

/// The coding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Identity,
    Gzip,
    Zstd,
    /// The zlib format; many clients send raw deflate under this name.
    Deflate,
}

impl Coding {
    /// The coding of a request's body. Combined codings are not accepted.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut found = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            let value = value.to_str().map_err(|_| ApiError::UnsupportedEncoding)?;
            for name in value.split(',').map(str::trim) {
                let coding = match name.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Self::Gzip,
                    "zstd" => Self::Zstd,
                    "deflate" => Self::Deflate,
                    _ => return Err(ApiError::UnsupportedEncoding),
                };
                if found != Self::Identity {
                    return Err(ApiError::UnsupportedEncoding);
                }
                found = coding;
            }
        }
        Ok(found)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        }
    }
}

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
enum DecodeError {
    /// It is longer than the buffer.
    TooLong,
    Invalid,
}

/// Decodes a complete body of at most `limit` decoded bytes; `memory` grows to hold both forms.
pub fn decode(
    coding: Coding,
    coded: &[u8],
    limit: usize,
    memory: &mut Reservation,
    no_memory: impl Fn() -> ApiError,
) -> Result<Vec<u8>, ApiError> {
    let max_bytes = limit.min(coded.len().saturating_mul(MAX_DECOMPRESSION_RATIO).max(FREE_BYTES));
    let mut bytes = max_bytes.min((4 * coded.len()).max(UNCODED_BYTES));
    loop {
        if !memory.try_grow(coded.len() + bytes) {
            return Err(no_memory());
        }
        let mut decoded = vec![0; bytes];
        match decode_into(coding, coded, &mut decoded) {
            Ok(length) => {
                decoded.truncate(length);
                decoded.shrink_to_fit();
                memory.shrink(length);
                return Ok(decoded);
            }
            // Starts again from the beginning, at twice the cost. So only counted bytes are held,
            // and no sender controls how many.
            Err(DecodeError::TooLong) if bytes < max_bytes => bytes = max_bytes.min(2 * bytes),
            Err(DecodeError::TooLong) => return Err(ApiError::TooLarge),
            Err(DecodeError::Invalid) => {
                let name = coding.name();
                return Err(ApiError::Invalid(format!("The request body is not valid {name}")));
            }
        }
    }
}

/// The first reservation for a decoded body.
const UNCODED_BYTES: usize = 4 << 10;

fn decode_into(coding: Coding, coded: &[u8], decoded: &mut [u8]) -> Result<usize, DecodeError> {
    match coding {
        Coding::Identity => Err(DecodeError::Invalid),
        Coding::Gzip => {
            let mut decoder = MultiGzDecoder::new(coded);
            fill(&mut decoder, decoded)
        }
        Coding::Deflate => {
            let mut decoder = Decompress::new(is_zlib(coded));
            let status = decoder.decompress(coded, decoded, FlushDecompress::Finish);
            let read = usize::try_from(decoder.total_in()).unwrap_or(usize::MAX);
            let length = usize::try_from(decoder.total_out()).unwrap_or(usize::MAX);
            match status.map_err(|_| DecodeError::Invalid)? {
                // Data after the end would be lost.
                Status::StreamEnd if read == coded.len() => Ok(length),
                Status::Ok | Status::BufError if length == decoded.len() => {
                    Err(DecodeError::TooLong)
                }
                _ => Err(DecodeError::Invalid),
            }
        }
        Coding::Zstd => zstd_safe::decompress(decoded, coded).map_err(|code| {
            let too_small = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize;
            if code == 0_usize.wrapping_sub(too_small) {
                DecodeError::TooLong
            } else {
                DecodeError::Invalid
            }
        }),
    }
}

/// Reads to the end, or until the buffer is full.
fn fill(decoder: &mut impl Read, decoded: &mut [u8]) -> Result<usize, DecodeError> {
    let mut length = 0;
    loop {
        let mut beyond = [0];
        let free = match decoded.get_mut(length..) {
            Some(free) if !free.is_empty() => free,
            _ => &mut beyond[..],
        };
        match decoder.read(free) {
            Ok(0) => return Ok(length),
            Ok(_) if length == decoded.len() => return Err(DecodeError::TooLong),
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(DecodeError::Invalid),
        }
    }
}

/// Whether the body begins with the zlib header (RFC 1950).
fn is_zlib(coded: &[u8]) -> bool {
    let [first, second, ..] = *coded else { return false };
    first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

/// Whether a client accepts gzip (RFC 9110, 12.5.3).
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut wildcard) = (None, None);
    for value in headers.get_all(ACCEPT_ENCODING) {
        for coding in value.to_str().unwrap_or_default().split(',') {
            let mut parts = coding.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            let is_accepted =
                weight.is_none_or(|weight| weight.parse().is_ok_and(|q: f32| q > 0.0));
            match name.as_str() {
                "gzip" | "x-gzip" => gzip = Some(is_accepted),
                "*" => wildcard = Some(is_accepted),
                _ => {}
            }
        }
    }
    gzip.or(wildcard).unwrap_or(false)
}

/// Whose response it is, in its extensions.
#[derive(Clone, Copy, Debug)]
pub struct ResponseOf(pub i32);

/// Compresses a large JSON response for a client that accepts that.
pub async fn compressed(app: &App, accepts_gzip: bool, mut response: Response) -> Response {
    let length = axum::body::HttpBody::size_hint(response.body()).exact();
    let is_large = length.is_some_and(|length| length >= LARGE_BYTES as u64);
    let headers = response.headers_mut();
    if !is_large
        || !is_json_type(headers.get(CONTENT_TYPE))
        || headers.contains_key(CONTENT_ENCODING)
    {
        return response;
    }
    headers.insert(VARY, ACCEPT_ENCODING.into());
    if !accepts_gzip {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let workspace = head.extensions.get().map_or(NO_WORKSPACE, |ResponseOf(workspace)| *workspace);
    // The body is in memory, because its length is known.
    let Ok(body) = body.collect().await else { return Response::from_parts(head, Body::empty()) };
    let body = body.to_bytes();
    let gzip = if body.len() > INLINE_BYTES {
        app.cores.compute_here(workspace, || gzip(&body))
    } else {
        gzip(&body)
    };
    let Some(gzip) = gzip else { return Response::from_parts(head, body.into()) };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(CONTENT_LENGTH, gzip.len().into());
    Response::from_parts(head, gzip.into())
}

/// The text of a response that never changes, and its compressed form, which is created once.
#[derive(Clone, Debug)]
pub struct Static {
    media_type: &'static str,
    text: Arc<OnceLock<Bytes>>,
    gzip: Option<Bytes>,
}

impl Static {
    pub fn new(media_type: &'static str, text: String) -> Self {
        let gzip = gzip(text.as_bytes()).map(Bytes::from);
        Self { media_type, text: Arc::new(Bytes::from(text).into()), gzip }
    }

    /// A text that is built into the program as gzip. It is decompressed once, for the first client
    /// that does not accept gzip.
    pub fn compressed(media_type: &'static str, gzip: &'static [u8]) -> Self {
        Self { media_type, text: Arc::default(), gzip: Some(Bytes::from_static(gzip)) }
    }

    fn text(&self) -> Bytes {
        let read = || {
            let mut text = Vec::new();
            let mut decoder = MultiGzDecoder::new(self.gzip.as_deref().unwrap_or_default());
            // Never fails: a test decompresses the built-in text.
            let _ = decoder.read_to_end(&mut text);
            Bytes::from(text)
        };
        self.text.get_or_init(read).clone()
    }

    /// The response to a request with these headers.
    pub fn response(&self, headers: &HeaderMap) -> Response {
        let content_type = HeaderValue::from_static(self.media_type);
        let shared_headers = [(CONTENT_TYPE, content_type), (VARY, ACCEPT_ENCODING.into())];
        match self.gzip.clone().filter(|_| accepts_gzip(headers)) {
            Some(gzip) => {
                let coding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
                (shared_headers, coding, gzip).into_response()
            }
            None => (shared_headers, self.text()).into_response(),
        }
    }
}

/// Compresses the bytes; none if the result is not smaller.
fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::new(LEVEL).ok()?);
    let mut gzip = vec![0; bytes.len()];
    let length = compressor.gzip_compress(bytes, &mut gzip).ok()?;
    gzip.truncate(length);
    // Otherwise the output holds as much memory as the input until it is sent.
    gzip.shrink_to_fit();
    Some(gzip)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;
    use runtime::fairness::{Holder, SharedMemory};

    fn coded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match coding {
            Coding::Identity => bytes.to_vec(),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Zstd => {
                let mut coded = vec![0; zstd_safe::compress_bound(bytes.len())];
                let length = zstd_safe::compress(&mut coded[..], bytes, 3).unwrap();
                coded.truncate(length);
                coded
            }
        }
    }

    fn decoded(
        coding: Coding,
        coded: &[u8],
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<u8>, String> {
        let memory = SharedMemory::halves(bytes);
        let mut reserved = memory.try_reserve(Holder::Workspace(1), coded.len()).expect("memory");
        let no_memory = || ApiError::Unavailable("no memory".into());
        let decoded = decode(coding, coded, limit, &mut reserved, no_memory);
        if let Ok(decoded) = &decoded {
            assert_eq!(memory.used_and_limit().0, decoded.len().div_ceil(1 << 10) << 10);
        }
        decoded.map_err(|error| error.status().as_str().to_owned())
    }

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Deflate];
    const MEMORY: usize = 16 << 20;

    #[test]
    fn a_body_is_decoded_within_its_bounds() {
        let lines: String = (0..20_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        for coding in ALL {
            for bytes in [&b""[..], b"{}", &lines.as_bytes()[..70_000], lines.as_bytes()] {
                let coded = coded(coding, bytes);
                assert_eq!(decoded(coding, &coded, 4 << 20, MEMORY).as_deref(), Ok(bytes));
                if !bytes.is_empty() {
                    assert_eq!(decoded(coding, &coded, bytes.len(), MEMORY).as_deref(), Ok(bytes));
                    let smaller = decoded(coding, &coded, bytes.len() - 1, MEMORY);
                    assert_eq!(smaller.unwrap_err(), "413", "{coding:?}");
                    let cut = &coded[..coded.len() - 1];
                    assert_eq!(decoded(coding, cut, 4 << 20, MEMORY).unwrap_err(), "400");
                }
                let more = [&coded[..], b"x"].concat();
                assert_eq!(decoded(coding, &more, 4 << 20, MEMORY).unwrap_err(), "400");
            }
            let coded = coded(coding, lines.as_bytes());
            assert_eq!(decoded(coding, &coded, 4 << 20, 128 << 10).unwrap_err(), "503");
            assert_eq!(decoded(coding, b"{\"n\":1}", 4 << 20, MEMORY).unwrap_err(), "400");
        }
    }

    #[tokio::test]
    async fn a_text_that_never_changes_is_compressed_once() {
        let text = "many words ".repeat(1_000);
        let page = Static::new("application/json", text.clone());
        let mut headers = HeaderMap::new();
        let read = async |headers: &HeaderMap| {
            let response = page.response(headers);
            assert_eq!(response.headers()[VARY], "accept-encoding");
            let coding = response.headers().get(CONTENT_ENCODING).cloned();
            (coding, response.into_body().collect().await.unwrap().to_bytes())
        };
        assert_eq!(read(&headers).await, (None, Bytes::from(text.clone())));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let ((coding, gzip), (_, again)) = (read(&headers).await, read(&headers).await);
        assert_eq!(coding, Some(HeaderValue::from_static("gzip")));
        assert_eq!(decoded(Coding::Gzip, &gzip, 1 << 20, MEMORY).as_deref(), Ok(text.as_bytes()));
        assert_eq!(gzip.as_ptr(), again.as_ptr());
    }

    #[test]
    fn compressed_bytes_keep_no_more_memory_than_they_need() {
        let gzip = gzip("many words ".repeat(100_000).as_bytes()).unwrap();
        assert!(gzip.capacity() < 2 * gzip.len(), "{} of {}", gzip.len(), gzip.capacity());
    }

    #[test]
    fn a_bomb_is_refused() {
        for coding in ALL {
            let bomb = coded(coding, &vec![b' '; 3 << 20]);
            assert_eq!(decoded(coding, &bomb, 4 << 20, MEMORY).unwrap_err(), "413", "{coding:?}");
            let small = vec![b' '; FREE_BYTES];
            assert_eq!(decoded(coding, &coded(coding, &small), 4 << 20, MEMORY).unwrap(), small);
        }
    }

    #[test]
    fn two_members_are_one_body_and_bare_deflate_is_known() {
        let joined = [coded(Coding::Gzip, b"{\"a\""), coded(Coding::Gzip, b":1}")].concat();
        assert_eq!(decoded(Coding::Gzip, &joined, 100, MEMORY).unwrap(), b"{\"a\":1}");
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"{\"a\":1}").unwrap();
        let bare = encoder.finish().unwrap();
        assert_eq!(decoded(Coding::Deflate, &bare, 100, MEMORY).unwrap(), b"{\"a\":1}");
    }

    #[test]
    fn codings_are_read_from_the_headers() {
        let coding_of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            Coding::from_headers(&headers).ok()
        };
        for (values, coding) in [
            (&[][..], Coding::Identity),
            (&["identity"], Coding::Identity),
            (&["GZIP"], Coding::Gzip),
            (&["x-gzip"], Coding::Gzip),
            (&["identity, zstd"], Coding::Zstd),
            (&["deflate"], Coding::Deflate),
        ] {
            assert_eq!(coding_of(values), Some(coding), "{values:?}");
        }
        for values in [&["br"][..], &["gzip, gzip"], &["gzip", "zstd"], &["gzip;q=1"], &["gzip br"]]
        {
            assert_eq!(coding_of(values), None, "{values:?}");
        }
    }

    #[test]
    fn accept_encoding_decides_about_gzip() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            accepts_gzip(&headers)
        };
        for yes in ["gzip", "br, GZIP;q=0.5", "*", "x-gzip", "gzip;q=1, *;q=0"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.000", "*;q=0", "gzip;q=0, *", "gzip;q=x"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
