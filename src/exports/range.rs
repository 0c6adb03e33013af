//! The `Range` of a download (RFC 9110, section 14.2). A range that the
//! file server does not support, or that does not apply, is ignored, not rejected.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use jiff::fmt::rfc2822;

/// The current file.
#[derive(Clone, Copy, Debug)]
pub struct FileState {
    pub length: u64,
    /// Seconds since the Unix epoch: the `Last-Modified` of the response. A strong validator, since
    /// a file is written once and completely.
    pub modified: u64,
}

/// Leaves `Range` in the headers only if it is to be served, in its plainest form.
pub fn normalize(method: &Method, headers: &mut HeaderMap, file: FileState) {
    let mut values = headers.get_all(header::RANGE).iter();
    let range = match (values.next(), values.next()) {
        (Some(only), None) if *method == Method::GET && is_unchanged(headers, file) => {
            only.to_str().ok().and_then(|text| parse(text, file.length))
        }
        _ => None,
    };
    headers.remove(header::RANGE);
    if let Some(range) = range.and_then(|range| HeaderValue::try_from(range).ok()) {
        headers.insert(header::RANGE, range);
    }
}

/// Whether `If-Range`, if present, names the current file. Responses have no `ETag`.
fn is_unchanged(headers: &HeaderMap, file: FileState) -> bool {
    let mut values = headers.get_all(header::IF_RANGE).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(only), None) => {
            let date = only.to_str().ok().and_then(|text| rfc2822::parse(text.trim()).ok());
            let second = date.and_then(|date| u64::try_from(date.timestamp().as_second()).ok());
            second == Some(file.modified)
        }
        (Some(_), Some(_)) => false,
    }
}

/// The range of a file of this length. None: more than one range, another unit, not a range, or
/// numbers that are too large. A range outside of the file stays outside.
fn parse(text: &str, length: u64) -> Option<String> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let outside = format!("bytes={length}-");
    if first.is_empty() {
        let suffix = number(last)?.min(length);
        return Some(if suffix == 0 { outside } else { format!("bytes={}-", length - suffix) });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    match (first <= last, first < length) {
        (false, _) => None,
        (true, false) => Some(outside),
        (true, true) => Some(format!("bytes={first}-{}", last.min(length - 1))),
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileState = FileState { length: 1_000, modified: 784_111_777 };

    fn normalized(method: &Method, given: &[(header::HeaderName, &str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(name, value.parse().unwrap());
        }
        normalize(method, &mut headers, FILE);
        headers.get(header::RANGE).map(|range| range.to_str().unwrap().to_owned())
    }

    #[test]
    fn one_range_of_bytes_is_served() {
        for (given, served) in [
            ("bytes=0-0", "bytes=0-0"),
            ("bytes=10-19", "bytes=10-19"),
            ("Bytes = 10-19 ", "bytes=10-19"),
            ("bytes=10-", "bytes=10-999"),
            ("bytes=10-1000", "bytes=10-999"),
            ("bytes=10-18446744073709551615", "bytes=10-999"),
            ("bytes=-1", "bytes=999-"),
            ("bytes=-5000", "bytes=0-"),
            // Outside of the file: 416.
            ("bytes=1000-", "bytes=1000-"),
            ("bytes=5000-6000", "bytes=1000-"),
            ("bytes=-0", "bytes=1000-"),
        ] {
            let got = normalized(&Method::GET, &[(header::RANGE, given)]);
            assert_eq!(got.as_deref(), Some(served), "{given}");
        }
    }

    #[test]
    fn other_ranges_are_ignored() {
        for given in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=5-2",
            "bytes=+1-2",
            "bytes=1-2-3",
            "items=0-5",
            "bytes=0-1,5-6",
            "bytes=0-1,",
            "bytes=0x1-2",
            "bytes=0-18446744073709551616",
            "bytes=99999999999999999999-",
            "bytes=-1e3",
        ] {
            assert_eq!(normalized(&Method::GET, &[(header::RANGE, given)]), None, "{given}");
        }
        let range = (header::RANGE, "bytes=0-1");
        assert_eq!(normalized(&Method::HEAD, std::slice::from_ref(&range)), None);
        assert_eq!(normalized(&Method::GET, &[range.clone(), range]), None);
    }

    #[test]
    fn a_range_of_another_file_is_ignored() {
        let with = |if_range| {
            let range = (header::RANGE, "bytes=0-1");
            normalized(&Method::GET, &[range, (header::IF_RANGE, if_range)]).is_some()
        };
        assert!(with("Sun, 06 Nov 1994 08:49:37 GMT"));
        for other in [
            "Sun, 06 Nov 1994 08:49:36 GMT",
            "Sun, 06 Nov 1994 08:49:38 GMT",
            "\"etag\"",
            "W/\"etag\"",
            "",
            "yesterday",
        ] {
            assert!(!with(other), "{other}");
        }
    }
}
