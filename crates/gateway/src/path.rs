//! Normalizes paths: removes redundant slashes.

use axum::http::Uri;

/// The URI without doubled and trailing slashes in its path; none if it has none of these.
pub(super) fn normalized(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") && (path.len() < 2 || !path.ends_with('/')) {
        return None;
    }
    let mut normalized = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        normalized.push('/');
        normalized.push_str(segment);
    }
    if normalized.is_empty() {
        normalized.push('/');
    }
    if let Some(query) = uri.query() {
        normalized.push('?');
        normalized.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(normalized.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundant_slashes_are_removed() {
        for (given, tidy) in [
            ("/users/track/", Some("/users/track")),
            ("//users//track", Some("/users/track")),
            ("/catalogs//?cursor=a//b/", Some("/catalogs?cursor=a//b/")),
            ("http://host//docs", Some("http://host/docs")),
            ("///", Some("/")),
            ("/", None),
            ("/users/track", None),
            ("/users/track?a=//", None),
            ("*", None),
        ] {
            let normalized = normalized(&given.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(normalized.as_deref(), tidy, "{given}");
        }
    }
}
