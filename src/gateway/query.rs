//! Parameters in the address.

use url::form_urlencoded;

/// The value of a parameter that may be there once, and must not be empty then. What is wrong
/// is said with its name.
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
