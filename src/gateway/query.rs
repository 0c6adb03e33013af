//! Parameters in the URL.

use url::form_urlencoded;

/// The value of an optional parameter, which must not be empty or repeated. The error has its name.
pub fn parameter<T>(
    query: &str,
    name: &str,
    meant: &str,
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
    read.map(Some).ok_or_else(|| format!("{name} must be {meant}"))
}
