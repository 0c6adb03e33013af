//! A gateway with something of everything.

use longshore::outbound::signature;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use uuid::Uuid;

use crate::support::api::{ApiResponse, answer};
use crate::support::fleet::{Backend, Fleet};
use crate::support::{Api, WorkspaceFile};

pub const CANVAS: &str = "0b0a6c8e-6d0c-4f39-9d0b-6f0f6f9a2c11";
pub const CAMPAIGN: &str = "3c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f60";
pub const SEGMENT: &str = "8a1d0f5e-2c3b-4d6a-9e7f-0123456789ab";
pub const RECEIPT: &str = "7d0c41a8-3f5e-4b7a-9c1d-2e6f8a90b1c2";
pub const APP: &str = "7d1f3c1a-54b1-4c0e-9b1e-2f6f8a1d0c33";
pub const GROUP: &str = "7d0c6f5e-4b1a-4e0f-9a55-2f6d1c3b8a90";
pub const CATALOG: &str = "restaurants";

/// What reports are signed with.
const SECRET: &str = "secret-that-reports-are-signed-with";

pub struct World {
    pub fleet: Fleet,
    pub api: Api,
    /// Of SCIM.
    pub token: String,
    scim: Api,
}

impl World {
    pub async fn start(backend: Backend) -> Self {
        let fleet = Fleet::start(backend, &[]).await;
        let api = fleet.apply(&[workspace("acme")]).await.remove(0);
        let token = fleet.run(&["scim-token", "create", "--name", "openapi"]).await;
        let token = token.trim().to_owned();
        let scim = Api::new(fleet.base(), &token);
        Self { fleet, api, token, scim }
    }

    /// A call with the SCIM token and all that it needs.
    pub fn scim(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.scim.request(method, &format!("/scim/v2{path}"));
        request.header("x-request-origin", "idp.acme.example")
    }

    /// A call with the right key or token, and nothing else.
    pub fn keyed(&self, method: Method, path: &str) -> RequestBuilder {
        let api = if path.starts_with("/scim") { &self.scim } else { &self.api };
        api.request(method, path)
    }

    /// A report for the workspace, signed as it must be.
    pub fn signed(&self, path: &str, body: &str) -> RequestBuilder {
        let now = jiff::Timestamp::now().as_second();
        let signed = signature::sign(SECRET.as_bytes(), "report".into(), now, body);
        let request = reqwest::Client::new();
        let request = request.post(format!("{}{path}?workspace=acme", self.fleet.base()));
        let request = request.header("webhook-id", signed.id);
        let request = request.header("webhook-timestamp", signed.timestamp);
        request.header("webhook-signature", signed.signature).body(body.to_owned())
    }

    /// A call without any.
    pub async fn keyless(&self, method: Method, path: &str) -> ApiResponse {
        answer(reqwest::Client::new().request(method, format!("{}{path}", self.fleet.base()))).await
    }
}

/// With a key for every call, a campaign, a segment, a Canvas, and a catalog with a field of each
/// type.
pub fn workspace(name: &str) -> WorkspaceFile {
    let fields = [
        ("City", "string"),
        ("Rating", "number"),
        ("Open", "boolean"),
        ("Closed_at", "time"),
        ("Address", "object"),
        ("Tags", "array"),
    ];
    let fields = fields.map(|(name, kind)| json!({ "name": name, "type": kind }));
    // An app is of one workspace.
    let app = if name == "acme" { APP.to_owned() } else { Uuid::new_v4().to_string() };
    WorkspaceFile::new(name)
        .with(
            "campaigns",
            json!([{
                "id": CAMPAIGN, "name": "Welcome", "type": "api",
                "tags": ["onboarding"],
                "messages": { "webhook": {
                    "url": "https://hooks.acme.example/", "request_method": "GET",
                } },
            }, {
                "id": RECEIPT, "name": "Receipt", "type": "transactional",
                "email": { "subject": "Your order", "body": "{{${first_name}}}" },
            }]),
        )
        // Nobody listens there.
        .with(
            "email",
            json!({
                "smtp": "smtp://127.0.0.1:1", "from": "hello@acme.example", "events_secret": SECRET,
            }),
        )
        .with(
            "segments",
            json!([{ "id": SEGMENT, "name": "VIP", "audience": {
            "custom_attribute": { "custom_attribute_name": "tier", "comparison": "exists" },
        } }]),
        )
        .with(
            "apps",
            json!([{
                "id": app, "name": "Acme", "platform": "ios", "activity_types": ["Delivery"],
            }]),
        )
        // Nobody listens there either.
        .with(
            "providers",
            json!({
                "push": { "url": "http://127.0.0.1:1/", "secret": "a-secret-of-the-provider" },
                "feedback_secret": SECRET,
            }),
        )
        .with(
            "subscription_groups",
            json!([{ "id": GROUP, "channel": "sms", "from": "+15550100" }]),
        )
        .with("canvases", json!([{ "id": CANVAS, "name": "Onboarding" }]))
        .with("catalogs", json!([{ "name": CATALOG, "fields": fields }]))
        .permitted(longshore::workspaces::keys::PERMISSIONS)
        .unlimited()
}
