//! `GET /`: what this server is, and where to read more. A page for browsers, JSON for programs.

use std::net::SocketAddr;

use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{Operation, Page, TAG};
use crate::coding::Static;
use runtime::config::Config;

const DOCS: &str = "/docs";
const OPENAPI: &str = "/openapi.json";
const OPENAPI_30: &str = "/openapi-3.0.json";

/// Where this server can be read about.
#[derive(Serialize, JsonSchema)]
struct FrontPage {
    /// The name of the program.
    name: &'static str,
    /// Its version.
    version: &'static str,
    /// The path of the API reference, a web page.
    docs: &'static str,
    /// The path of the API as OpenAPI 3.1.
    openapi: &'static str,
    /// The path of the API as OpenAPI 3.0.
    openapi_30: &'static str,
    /// How to check whether the server is ready. Not a path of the API.
    health: String,
}

impl FrontPage {
    /// The page of a server whose operations listener has this address.
    fn new(ops: SocketAddr) -> Self {
        Self {
            name: "Longshore",
            version: env!("CARGO_PKG_VERSION"),
            docs: DOCS,
            openapi: OPENAPI,
            openapi_30: OPENAPI_30,
            health: format!("GET /readyz at {ops}, the address of the setting ops.listen"),
        }
    }
}

pub(super) fn operation() -> Operation {
    Operation::new(Method::GET, "frontPage", TAG, "This server")
        .about(
            "The addresses of this document. A request whose `Accept` names `text/html`, as \
             browsers send it, gets a web page.",
        )
        .returns::<FrontPage>(StatusCode::OK, "The addresses.")
        .with_example(FrontPage::new(Config::default().ops.listen))
        .or_as::<Page>("text/html")
}

pub(super) fn route<S: Clone + Send + Sync + 'static>(ops: SocketAddr) -> MethodRouter<S> {
    let page = FrontPage::new(ops);
    let json = Static::new("application/json", json!(page).to_string());
    let html = Static::new("text/html; charset=utf-8", html(&page));
    get(async move |headers: HeaderMap| {
        respond(if prefers_html(&headers) { &html } else { &json }, &headers)
    })
}

fn respond(text: &Static, headers: &HeaderMap) -> Response {
    // The page loads nothing: its style is in the page.
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let policy = [(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    let mut response = (policy, text.response(headers)).into_response();
    response.headers_mut().append(VARY, ACCEPT.into());
    response
}

fn html(page: &FrontPage) -> String {
    let FrontPage { name, version, docs, openapi, openapi_30, health } = page;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>:root {{ color-scheme: light dark }} body {{ font: 1rem/1.6 system-ui, sans-serif; \
         max-width: 40rem; margin: 4rem auto; padding: 0 1rem }}</style>\n\
         <h1>{name} {version}</h1>\n\
         <p>This server imports users, exports them with proof, and sends messages.</p>\n<ul>\n\
         <li><a href=\"{docs}\">{docs}</a>: the API reference, with a first request</li>\n\
         <li><a href=\"{openapi}\">{openapi}</a>: the API as OpenAPI 3.1</li>\n\
         <li><a href=\"{openapi_30}\">{openapi_30}</a>: the API as OpenAPI 3.0, for code \
         generators</li>\n\
         <li>Health: {health}</li>\n</ul>\n</html>\n"
    )
}

/// Whether the client names HTML among what it accepts, and does not prefer JSON (RFC 9110,
/// 12.5.1). Programs that accept anything get JSON.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut json) = (0.0, 0.0);
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight: f32 = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        match name.as_str() {
            "text/html" => html = weight,
            "application/json" => json = weight,
            _ => {}
        }
    }
    html > 0.0 && html >= json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_name_html_get_the_page() {
        let prefers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            prefers_html(&headers)
        };
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for html in [
            &[browser][..],
            &["TEXT/HTML;Q=0.1"],
            &["application/json;q=0.5, text/html"],
            &["application/json", "text/html"],
        ] {
            assert!(prefers(html), "{html:?}");
        }
        for json in [
            &[][..],
            &["*/*"],
            &["text/*"],
            &["application/json, text/html;q=0.9"],
            &["text/html;q=0"],
            &["text/html;q=none"],
        ] {
            assert!(!prefers(json), "{json:?}");
        }
    }

    #[test]
    fn the_page_names_what_the_json_names() {
        let page = FrontPage::new("127.0.0.1:9100".parse().unwrap());
        let html = html(&page);
        for (field, value) in json!(page).as_object().unwrap() {
            assert!(html.contains(value.as_str().unwrap()), "{field}");
        }
        assert!(html.contains("127.0.0.1:9100"));
    }
}
