//! A browser without JavaScript at the console: cookies, forms with their token, no redirects.

use std::collections::BTreeMap;
use std::sync::Mutex;

use regex::Regex;
use reqwest::header::{COOKIE, HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::fleet::Fleet;
use super::process::free_port;

/// What every response must have.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// The settings of a console on a free port.
pub fn settings() -> Vec<(&'static str, String)> {
    vec![("LONGSHORE_CONSOLE_LISTEN", format!("127.0.0.1:{}", free_port()))]
}

/// A response, whose headers were checked.
#[derive(Debug)]
pub struct PageResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl PageResponse {
    /// Where a redirect leads.
    pub fn location(&self) -> &str {
        let location = self.headers.get(LOCATION).unwrap_or_else(|| panic!("{self:?}"));
        location.to_str().expect("ASCII")
    }

    fn check(&self, path: &str) {
        let header = |name: &str| {
            let value = self.headers.get(name).unwrap_or_else(|| panic!("{path}: no {name}"));
            value.to_str().expect("ASCII")
        };
        assert_eq!(header("content-security-policy"), POLICY, "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "same-origin", "{path}");
        let is_file = path.contains("/assets/") && self.status == 200;
        // Browsers ask whether their copy of a part of a page is the latest.
        let is_part = header("cache-control") == "private, no-cache";
        let is_kept = is_file || is_part;
        assert_eq!(header("cache-control") == "no-store", !is_kept, "{path}");
        assert!(is_file || header("vary").to_lowercase().contains("cookie"), "{path}");
        assert!(self.headers.contains_key("x-request-id"), "{path}");
    }
}

/// A browser.
pub struct Browser {
    /// Where requests go.
    address: String,
    /// What the browser believes to be the origin.
    pub origin: String,
    client: reqwest::Client,
    cookies: Mutex<BTreeMap<String, String>>,
}

impl Browser {
    /// A browser without a session.
    pub fn new(fleet: &Fleet) -> Self {
        let config = fleet.config();
        let listen = config.console.address().expect("the console is on");
        Self {
            address: format!("http://{listen}"),
            origin: config.console_url().origin().ascii_serialization(),
            client: reqwest::Client::builder()
                .no_proxy()
                .redirect(Policy::none())
                .build()
                .expect("a client"),
            cookies: Mutex::default(),
        }
    }

    /// A browser with a new session of a person with that role.
    pub async fn signed_in(fleet: &Fleet, name: &str, role: &str) -> Self {
        let browser = Self::new(fleet);
        let signed_in = browser.sign_in(&token(fleet, name, role).await, "/").await;
        assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{signed_in:?}");
        browser
    }

    pub async fn sign_in(&self, token: &str, next: &str) -> PageResponse {
        self.submit("/sign-in", &[("token", token), ("next", next)]).await
    }

    /// The value of a cookie: of that name, without the tags at its end.
    pub fn cookie(&self, name: &str) -> Option<String> {
        self.tagged_cookies(name).into_iter().next().map(|(_, value)| value)
    }

    /// The names and values of the cookies of that name, without the tags at its end.
    pub fn tagged_cookies(&self, name: &str) -> Vec<(String, String)> {
        let cookies = self.cookies.lock().expect("no test panics here");
        let has_name = |tagged: &str| tagged.split('.').next() == Some(name);
        let found = cookies.iter().filter(|(tagged, _)| has_name(tagged));
        found.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub fn set_cookie(&self, name: &str, value: &str) {
        let mut cookies = self.cookies.lock().expect("no test panics here");
        cookies.insert(name.to_owned(), value.to_owned());
    }

    pub async fn get(&self, path: &str) -> PageResponse {
        self.send(path, self.request(Method::GET, path)).await
    }

    /// Submits a form of the page of sessions' token.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> PageResponse {
        let token = self.form_token().await;
        self.submit(path, &[&[("form_token", token.as_str())][..], fields].concat()).await
    }

    /// Submits exactly these fields.
    pub async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> PageResponse {
        self.submit_from(Some(&self.origin), path, fields).await
    }

    /// The same from a page of another origin.
    pub async fn submit_from(
        &self,
        origin: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> PageResponse {
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self
            .request(Method::POST, path)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        self.send(path, request).await
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies = self.cookies.lock().expect("no test panics here");
        let pairs = cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = pairs.collect::<Vec<_>>().join("; ");
        let request = self.client.request(method, format!("{}{path}", self.address));
        if cookies.is_empty() { request } else { request.header(COOKIE, cookies) }
    }

    /// Sends a request, keeps the cookies of the response, and checks its headers.
    pub async fn send(&self, path: &str, request: RequestBuilder) -> PageResponse {
        let response = request.send().await.expect("a response");
        for cookie in response.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().expect("ASCII").split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a name and a value");
            if value.is_empty() {
                self.cookies.lock().expect("no test panics here").remove(name);
            } else {
                self.set_cookie(name, value);
            }
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("a text");
        let response = PageResponse { status, headers, text };
        response.check(path);
        response
    }

    /// The token in the forms of this session.
    pub async fn form_token(&self) -> String {
        let page = self.get("/people/sessions").await;
        assert_eq!(page.status, 200, "{page:?}");
        let input = Regex::new(r#"name="form_token" value="([^"]+)""#).expect("an expression");
        input.captures(&page.text).unwrap_or_else(|| panic!("{page:?}"))[1].to_owned()
    }
}

/// The token of a new sign-in link.
pub async fn token(fleet: &Fleet, name: &str, role: &str) -> String {
    let link = fleet.run(&["console", "link", "--as", name, "--role", role, "--json"]).await;
    let link: Value = serde_json::from_str(&link).expect("JSON");
    let url = link["url"].as_str().expect("a URL");
    url.split_once('#').expect("a fragment").1.to_owned()
}
