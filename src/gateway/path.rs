//! Paths as clients write them: slashes that say nothing are left out.

use axum::http::Uri;

/// The address without doubled slashes and without one at the end of its path; none where it has
/// none of these.
pub(super) fn tidied(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    if !path.contains("//") && (path.len() < 2 || !path.ends_with('/')) {
        return None;
    }
    let mut tidied = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        tidied.push('/');
        tidied.push_str(segment);
    }
    if tidied.is_empty() {
        tidied.push('/');
    }
    if let Some(query) = uri.query() {
        tidied.push('?');
        tidied.push_str(query);
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(tidied.parse().ok()?);
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
            let tidied = tidied(&given.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(tidied.as_deref(), tidy, "{given}");
        }
    }
}
