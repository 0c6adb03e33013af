//! The conditions of a request for a file (RFC 9110, section 13).

use std::time::Duration;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;

/// The current file. It is written once and completely, so its validators are strong.
#[derive(Clone, Copy, Debug)]
pub struct FileState {
    pub length: u64,
    /// Since the Unix epoch. The `Last-Modified` of the response has its seconds.
    pub modified: Duration,
}

impl FileState {
    /// The `ETag` of the response.
    pub fn etag(self) -> String {
        format!("\"{:x}-{:x}\"", self.modified.as_nanos(), self.length)
    }

    fn modified_second(self) -> i64 {
        i64::try_from(self.modified.as_secs()).unwrap_or(i64::MAX)
    }
}

/// The status of a response without the file, in the order of section 13.2.2: 412 or 304. None if
/// the file is to be sent.
pub fn status(headers: &HeaderMap, file: FileState) -> Option<StatusCode> {
    let (etag, modified) = (file.etag(), file.modified_second());
    let is_unmodified = |since: i64| modified <= since;
    let precondition = lists(headers, header::IF_MATCH, |tag| tag == etag)
        .or_else(|| date(headers, header::IF_UNMODIFIED_SINCE).map(is_unmodified));
    if precondition == Some(false) {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let is_etag = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag) == etag;
    let is_known = lists(headers, header::IF_NONE_MATCH, is_etag)
        .or_else(|| date(headers, header::IF_MODIFIED_SINCE).map(is_unmodified));
    (is_known == Some(true)).then_some(StatusCode::NOT_MODIFIED)
}

/// Whether `If-Range`, if present, has a validator of the current file.
pub fn allows_range(headers: &HeaderMap, file: FileState) -> bool {
    if !headers.contains_key(header::IF_RANGE) {
        return true;
    }
    single_value(headers, header::IF_RANGE).is_some_and(|value| {
        let is_etag = value.to_str().is_ok_and(|tag| tag.trim() == file.etag());
        is_etag || http_date(value) == Some(file.modified_second())
    })
}

/// The value of a header; none if it is absent or repeated.
pub fn single_value(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Whether a header lists a tag of the file, or any tag (`*`); none if the header is absent.
fn lists(headers: &HeaderMap, name: HeaderName, is_tag: impl Fn(&str) -> bool) -> Option<bool> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let is_listed = |tag: &str| tag == "*" || is_tag(tag);
    let mut lists = values.filter_map(|value| value.to_str().ok());
    Some(lists.any(|tags| tags.split(',').any(|tag| is_listed(tag.trim()))))
}

/// The seconds since the Unix epoch in a header. One that is not a single date is ignored.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<i64> {
    single_value(headers, name).and_then(http_date)
}

/// The seconds since the Unix epoch of a date, in one of the three formats (section 5.6.7).
fn http_date(value: &HeaderValue) -> Option<i64> {
    const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let text = value.to_str().ok()?.trim();
    if let Ok(date) = rfc2822::parse(text) {
        return Some(date.timestamp().as_second());
    }
    let date = OBSOLETE.into_iter().find_map(|form| strtime::parse(form, text).ok())?;
    let date = date.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(date.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileState =
        FileState { length: 1_000, modified: Duration::new(784_111_777, 500_000_000) };

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn with(given: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    /// The headers of a request, and the status that they lead to instead of the file.
    type Case<'a> = (&'a [(HeaderName, &'a str)], Option<u16>);

    #[test]
    fn conditions_are_checked_in_their_order() {
        use header::{
            IF_MATCH as MATCH, IF_MODIFIED_SINCE as SINCE, IF_NONE_MATCH as NONE,
            IF_UNMODIFIED_SINCE as UNMODIFIED,
        };
        let etag = FILE.etag();
        let (weak, listed) = (format!("W/{etag}"), format!("\"a\", {etag} ,\"b\""));
        let cases: &[Case<'_>] = &[
            (&[], None),
            (&[(MATCH, &etag)], None),
            (&[(MATCH, &listed)], None),
            (&[(MATCH, "*")], None),
            (&[(MATCH, "\"a\""), (MATCH, &etag)], None),
            (&[(MATCH, "\"a\"")], Some(412)),
            (&[(MATCH, &weak)], Some(412)),
            (&[(MATCH, "")], Some(412)),
            (&[(UNMODIFIED, MODIFIED)], None),
            (&[(UNMODIFIED, AFTER)], None),
            (&[(UNMODIFIED, BEFORE)], Some(412)),
            (&[(UNMODIFIED, "yesterday")], None),
            (&[(UNMODIFIED, BEFORE), (UNMODIFIED, BEFORE)], None),
            // The second of each pair counts only without the first.
            (&[(MATCH, &etag), (UNMODIFIED, BEFORE)], None),
            (&[(NONE, "\"a\""), (SINCE, AFTER)], None),
            (&[(NONE, &etag)], Some(304)),
            (&[(NONE, &weak)], Some(304)),
            (&[(NONE, &listed)], Some(304)),
            (&[(NONE, "*")], Some(304)),
            (&[(SINCE, MODIFIED)], Some(304)),
            (&[(SINCE, BEFORE)], None),
            (&[(SINCE, "Sunday, 06-Nov-94 08:49:37 GMT")], Some(304)),
            (&[(SINCE, "Sun Nov  6 08:49:37 1994")], Some(304)),
            (&[(MATCH, "\"a\""), (NONE, &etag)], Some(412)),
            (&[(MATCH, &etag), (NONE, &etag)], Some(304)),
        ];
        for (given, expected) in cases {
            let status = status(&with(given), FILE).map(|status| status.as_u16());
            assert_eq!(status, *expected, "{given:?}");
        }
    }

    #[test]
    fn a_range_needs_a_validator_of_the_file() {
        let allows = |validator: &str| allows_range(&with(&[(header::IF_RANGE, validator)]), FILE);
        assert!(allows_range(&HeaderMap::new(), FILE));
        assert!(allows(&FILE.etag()) && allows(MODIFIED));
        let weak = format!("W/{}", FILE.etag());
        for other in [BEFORE, AFTER, "\"etag\"", weak.as_str(), "*", "", "yesterday"] {
            assert!(!allows(other), "{other}");
        }
        let twice = [(header::IF_RANGE, MODIFIED), (header::IF_RANGE, MODIFIED)];
        assert!(!allows_range(&with(&twice), FILE));
    }
}
