//! The `Range` of a download (RFC 9110, section 14.2). A range that the file server does not
//! support, or that does not apply, is ignored, not rejected.

use axum::http::{HeaderMap, HeaderValue, Method, header};

use super::conditions::{self, FileState};

/// Leaves `Range` in the headers only if it is to be served, in its plainest form.
pub fn normalize(method: &Method, headers: &mut HeaderMap, file: FileState) {
    let is_served = *method == Method::GET && conditions::allows_range(headers, file);
    let range = if is_served {
        let value = conditions::single_value(headers, header::RANGE);
        value.and_then(|value| parse(value.to_str().ok()?, file.length))
    } else {
        None
    };
    headers.remove(header::RANGE);
    if let Some(range) = range.and_then(|range| HeaderValue::try_from(range).ok()) {
        headers.insert(header::RANGE, range);
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
    if first > last {
        None
    } else if first >= length {
        Some(outside)
    } else {
        Some(format!("bytes={first}-{}", last.min(length - 1)))
    }
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FILE: FileState = FileState { length: 1_000, modified: Duration::ZERO };

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
        let other = (header::IF_RANGE, "\"etag\"");
        assert_eq!(normalized(&Method::GET, &[range.clone(), other]), None);
        assert_eq!(normalized(&Method::GET, &[range.clone(), range]), None);
    }
}
