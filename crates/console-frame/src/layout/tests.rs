use super::*;
use crate::rights::Right;
use store::StoreError;

fn info(method: Method, uri: &str, is_update: bool) -> RequestInfo {
    RequestInfo { method, uri: uri.parse().unwrap(), is_update }
}

#[test]
fn the_settings_of_htmx_are_json() {
    let config: serde_json::Value = serde_json::from_str(HTMX_CONFIG).unwrap();
    assert_eq!(config["includeIndicatorCSS"], false);
    assert_eq!(config["extensions"], "sse");
}

#[test]
fn signing_in_returns_to_the_page_but_never_to_an_action() {
    let page = info(Method::GET, "/w/acme/exports?state=failed", false);
    assert_eq!(page.next(), "/w/acme/exports?state=failed");
    assert_eq!(info(Method::POST, "/w/acme/exports/x/cancel", false).next(), "/");
    assert_eq!(info(Method::GET, "/overview/live", true).next(), "/");
}

#[test]
fn an_error_page_links_to_the_page_above() {
    let parents = [
        ("/w/acme/exports/x/cancel", Some("/w/acme/exports/x")),
        ("/w/acme/exports/x", Some("/w/acme/exports")),
        ("/w/acme/exports", None),
        ("/audit", None),
        ("/", None),
    ];
    for (path, parent) in parents {
        assert_eq!(info(Method::GET, path, false).parent(), parent, "{path}");
    }
}

#[test]
fn errors_never_show_the_details_for_the_operator() {
    let detail = "password=hunter2";
    let errors = [
        PageError::Store(StoreError::Corrupt(detail.into())),
        PageError::Api(ApiError::Internal(detail.into())),
        PageError::Api(ApiError::Unavailable(detail.into())),
    ];
    for error in errors {
        for reloads in [true, false] {
            let text = ErrorText::new(&error, reloads);
            assert!(!text.text.contains(detail), "{}", text.text);
        }
    }
}

#[test]
fn a_missing_right_is_named() {
    let text = ErrorText::new(&PageError::Forbidden(Right::ExportsRun.name()), false);
    assert!(text.text.contains("exports.run"), "{}", text.text);
}

#[test]
fn messages_of_the_domains_become_sentences() {
    assert_eq!(sentence("Unknown segment"), "Unknown segment.");
    assert_eq!(sentence("Try again."), "Try again.");
}
