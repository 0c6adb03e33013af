//! A client of the API, as a customer would write it.

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::checker;
use super::contract::CONTRACT;

/// How long an export may take, unless a test says otherwise.
const TIMEOUT: Duration = Duration::from_secs(600);

pub const EXPORT: &str = "/users/export/global_control_group";

/// Every field of the export's user record.
pub const ALL_FIELDS: [&str; 27] = [
    "apps",
    "attributed_campaign",
    "attributed_source",
    "attributed_adgroup",
    "attributed_ad",
    "service_id",
    "country",
    "created_at",
    "custom_attributes",
    "custom_events",
    "devices",
    "dob",
    "email",
    "external_id",
    "first_name",
    "gender",
    "home_city",
    "language",
    "last_coordinates",
    "last_name",
    "phone",
    "purchases",
    "random_bucket",
    "time_zone",
    "total_revenue",
    "uninstalled_at",
    "user_aliases",
];

/// What was answered.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Null where the body is not JSON.
    pub body: Value,
}

impl ApiResponse {
    /// Checks the status and that the message holds `part`.
    pub fn refuses(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let message = self.body["message"].as_str().unwrap_or_else(|| panic!("{self:?}"));
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
}

/// An export that was accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub prefix: String,
    pub url: Option<String>,
}

impl Accepted {
    /// The download address; panics where none was given.
    pub fn address(&self) -> &str {
        self.url.as_deref().unwrap_or_else(|| panic!("no url for {}", self.prefix))
    }
}

/// Calls with a key.
#[derive(Clone)]
pub struct Api {
    base: String,
    key: String,
    client: reqwest::Client,
    timeout: Duration,
}

impl Api {
    pub fn new(base: &str, key: &str) -> Self {
        super::servers::install_tls();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        Self {
            base: base.to_owned(),
            key: key.to_owned(),
            client: client.build().expect("a client"),
            timeout: TIMEOUT,
        }
    }

    /// Waits so long for what exports come to.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// A request with the key, to be finished by the caller.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::DELETE, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> ApiResponse {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// A body with its own digits and order.
    pub async fn post_text(&self, path: &str, body: String) -> ApiResponse {
        let request = self.request(Method::POST, path).header(CONTENT_TYPE, "application/json");
        answer(request.body(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> ApiResponse {
        answer(self.request(Method::PATCH, path).json(body)).await
    }

    /// GET of an address, without a key, following nothing.
    pub async fn open(&self, address: &str) -> ApiResponse {
        answer(self.client.get(address)).await
    }

    /// Asks for an export that must be accepted.
    pub async fn export(&self, body: &Value) -> Accepted {
        let answer = self.post(EXPORT, body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.body["message"], "success", "{answer:?}");
        let text = |name: &str| answer.body[name].as_str().map(str::to_owned);
        let prefix = text("object_prefix").unwrap_or_else(|| panic!("{answer:?}"));
        Accepted { prefix, url: text("url") }
    }

    /// An export of all fields.
    pub async fn export_all(&self) -> Accepted {
        self.export(&json!({ "fields_to_export": ALL_FIELDS })).await
    }

    /// How far an export is.
    pub async fn status(&self, prefix: &str) -> Value {
        let answer = self.get(&format!("/users/export/{prefix}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Waits until `condition` holds for an export's status, and answers the status.
    pub async fn status_when(
        &self,
        prefix: &str,
        description: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status(prefix).await;
            if condition(&status) {
                return status;
            }
            assert!(since.elapsed() < self.timeout, "{prefix} is not {description}: {status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until an export, which is still in the middle of it then, has at least so many
    /// files.
    pub async fn wait_for_files(&self, prefix: &str, count: u64) {
        let has = |status: &Value| files_done(status) >= count || status["finished_at"].is_string();
        let status = self.status_when(prefix, "that far", has).await;
        assert_eq!(status["state"], "running", "{status}");
    }

    /// Waits for the end of an export, good or bad.
    pub async fn ended(&self, prefix: &str) -> Value {
        self.status_when(prefix, "ended", |status| {
            ["done", "failed", "cancelled"].iter().any(|state| status["state"] == *state)
        })
        .await
    }

    /// Waits for the end of an export, which must be good.
    pub async fn done(&self, prefix: &str) -> Value {
        let status = self.ended(prefix).await;
        assert_eq!(status["state"], "done", "{status}");
        assert_eq!(status["users"]["done"], status["users"]["total"], "{status}");
        status
    }

    /// Waits for the end of an export, which must be bad; returns the error.
    pub async fn failed(&self, prefix: &str) -> String {
        let status = self.ended(prefix).await;
        assert_eq!(status["state"], "failed", "{status}");
        status["error"].as_str().unwrap_or_else(|| panic!("no error: {status}")).to_owned()
    }

    /// Every user as an export that begins now has them, through a download.
    pub async fn exported(&self) -> Vec<Value> {
        let accepted = self.export_all().await;
        self.done(&accepted.prefix).await;
        let files = checker::downloaded(&self.download(accepted.address()).await);
        let lines = files.iter().flat_map(|file| file.bytes.split(|byte| *byte == b'\n'));
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    /// What is behind a download address: through the gateway's redirect, which must be
    /// one, without a key.
    pub async fn download(&self, address: &str) -> Vec<u8> {
        let answer = self.open(address).await;
        assert_eq!(answer.status, 302, "{answer:?}");
        let location = answer.headers["location"].to_str().expect("an address").to_owned();
        let answer = self.client.get(location).send().await.expect("the storage answers");
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("the whole file").to_vec()
    }
}

/// How many files an export with this status has.
pub fn files_done(status: &Value) -> u64 {
    status["files"]["done"].as_u64().unwrap_or_default()
}

/// Sends a request and reads what is answered, which must be as the API's document has it.
pub async fn answer(request: reqwest::RequestBuilder) -> ApiResponse {
    let (client, request) = request.build_split();
    let request = request.expect("a request");
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.expect("the gateway answers");
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.expect("a body");
    CONTRACT.check(&method, &path, status.as_u16(), &headers, &bytes);
    ApiResponse { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
}
