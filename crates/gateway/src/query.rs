//! Parameters in the URL.

use std::ops::Range;

use kit::clock::parse_time;
use url::form_urlencoded;

use crate::Operation;
use crate::formats::{Time, schema_of};

/// The number of the requested page, from 0. A number that is too large is also that of a page
/// after the last one.
pub fn page(query: &str) -> Result<u32, String> {
    let page = parameter(query, "page", "a whole number from 0", |text| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    })?;
    Ok(page.unwrap_or_default())
}

/// The value of an optional parameter, which must not be empty or repeated. The error has its name.
pub fn parameter<T>(
    query: &str,
    name: &str,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut values = form_urlencoded::parse(query.as_bytes())
        .filter(|(given, _)| given == name)
        .map(|(_, value)| value);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(format!("{name} is given more than once"));
    }
    let value = Some(value).filter(|value| !value.is_empty());
    let read = value.and_then(|value| read(&value));
    read.map(Some).ok_or_else(|| format!("{name} must be {expected}"))
}

/// A [parameter] that is the name of one of the values.
pub fn name_parameter<T: Copy, const N: usize>(
    query: &str,
    name: &str,
    values: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<Option<T>, String> {
    let expected = format!("one of {}", values.map(name_of).join(", "));
    let read = |text: &str| values.into_iter().find(|value| name_of(*value) == text);
    parameter(query, name, &expected, read)
}

/// A [parameter] that is a date and time. The error has the reason.
pub fn time_parameter(query: &str, name: &str) -> Result<Option<i64>, String> {
    let mut reason = None;
    let read = |text: &str| parse_time(text).map_err(|error| reason = Some(error)).ok();
    let time = parameter(query, name, "a date and time in ISO 8601", read);
    time.map_err(|error| reason.map_or(error, |reason| format!("{name}: {reason}")))
}

/// The range of the parameters `since` and `until`, which may be open on both ends. The error names
/// the invalid one.
pub fn time_range(query: &str) -> Result<Range<i64>, String> {
    let since = time_parameter(query, "since")?.unwrap_or(i64::MIN);
    let until = time_parameter(query, "until")?.unwrap_or(i64::MAX);
    if since < until { Ok(since..until) } else { Err("since must be before until".into()) }
}

impl Operation {
    /// Adds the parameters of [`time_range`]; `selected` is in the range, such as `dispatches
    /// accepted`.
    pub fn takes_time_range(self, selected: &str) -> Self {
        self.in_query(
            "since",
            &format!("Only {selected} at this time or later. Encode a `+` as `%2B`."),
            schema_of::<Time>(),
        )
        .in_query(
            "until",
            &format!("Only {selected} before this time."),
            schema_of::<Time>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_of_the_values() {
        let read = |query| name_parameter(query, "state", ["done", "failed"], |name| name);
        assert_eq!(read("limit=1"), Ok(None));
        assert_eq!(read("limit=1&state=failed"), Ok(Some("failed")));
        for wrong in ["state=", "state=Failed", "state=x", "state=done&state=failed"] {
            assert!(read(wrong).unwrap_err().starts_with("state "), "{wrong}");
        }
        assert_eq!(read("state=x"), Err("state must be one of done, failed".to_owned()));
    }
}
