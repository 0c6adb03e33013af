//! SCIM over a real connection, on SQLite and on PostgreSQL.

mod apply;
mod attributes;
mod conformance;
#[cfg(debug_assertions)]
mod crash;
mod entra;
mod groups;
mod known;
mod okta;
mod protocol;
mod provider;
mod queries;
mod users;

use std::net::SocketAddr;
use std::ops::Deref;

use futures::future::join_all;
use ipnet::IpNet;
use longshore::app::App;
use longshore::scim::resource::AppGroup;
use longshore::scim::tokens::{self, NewToken, TokenError};
use longshore::{gateway, listen};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use crate::support::api::{ApiResponse, answer};
use crate::support::eventually;
use crate::support::installation::Installation;
use crate::support::stores::{TestStore, on_both_stores, on_pool, on_postgres};

const TOKEN: &str = "token-of-the-identity-provider";
const LIMIT: usize = 64 << 10;

const FILE: &str = "
workspace: acme
---
workspace: other
---
company: Acme Inc.
scim_tokens:
  - {name: idp, secret: token-of-the-identity-provider}
  - {name: provider, secret: token-without-an-origin, require_origin: false}
";

/// Its requests need no `X-Request-Origin`.
const WITHOUT_ORIGIN: &str = "token-without-an-origin";

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const SEARCH: &str = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";
const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";
const USERS: &str = "/scim/v2/Users";
const GROUPS: &str = "/scim/v2/Groups";

/// A gateway that listens.
struct Gateway {
    app: App,
    base: String,
    shutdown: CancellationToken,
    client: reqwest::Client,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A gateway on an installation of its own.
struct World {
    installation: Installation,
    gateway: Gateway,
}

impl Deref for World {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl World {
    async fn new(store: TestStore) -> Self {
        let installation = Installation::open(store, FILE, |config| {
            config.gateway.listen = SocketAddr::from(([127, 0, 0, 1], 0));
            config.gateway.max_body_bytes = LIMIT;
            config.public_url = Some("https://api.acme.example".parse().unwrap());
            config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        })
        .await;
        let gateway = Gateway::start(installation.app.clone()).await;
        Self { installation, gateway }
    }

    async fn make_token(&self, name: &str, allow: &[IpNet]) -> Result<String, TokenError> {
        let mut tx = self.app.store.write().await.unwrap();
        let token = NewToken { name, allow, requires_origin: true, declared: false };
        let secret = tokens::create(&mut tx, &self.app.clock, token).await?;
        tx.commit().await.unwrap();
        Ok(secret)
    }

    async fn revoke_token(&self, name: &str) {
        let mut tx = self.app.store.write().await.unwrap();
        tokens::revoke(&mut tx, &self.app.clock, name).await.unwrap();
        tx.commit().await.unwrap();
    }
}

impl Gateway {
    async fn start(app: App) -> Self {
        let listener = listen::bind(app.config.gateway.listen, "LONGSHORE_LISTEN").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let router = gateway::router(app.gateway.clone(), longshore::routes(Some(&app)));
        tokio::spawn(gateway::serve(app.gateway.clone(), router, listener, shutdown.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { app, base, shutdown, client }
    }

    /// Without anything that a call needs.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.request_with(TOKEN, method, path)
    }

    fn request_with(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(token).header("x-request-origin", "idp.acme.example")
    }

    async fn get(&self, path: &str) -> ApiResponse {
        answer(self.request(Method::GET, path)).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> ApiResponse {
        answer(self.request(method, path).json(body)).await
    }

    async fn create(&self, user_name: &str) -> Value {
        let body = json!({ "schemas": [USER], "userName": user_name });
        let made = self.send(Method::POST, USERS, &body).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.body
    }

    async fn patch(&self, id: &Value, operations: Value) -> ApiResponse {
        let body = json!({ "schemas": [PATCH], "Operations": operations });
        self.send(Method::PATCH, &at(id), &body).await
    }

    async fn filtered(&self, filter: &str) -> ApiResponse {
        let query: String = form_urlencoded::byte_serialize(filter.as_bytes()).collect();
        self.get(&format!("{USERS}?filter={}", query.replace('+', "%20"))).await
    }

    /// The names that a filter finds, and how many it says that there are.
    async fn found(&self, filter: &str) -> (u64, Vec<String>) {
        let found = self.filtered(filter).await;
        assert_eq!(found.status, 200, "{filter}: {found:?}");
        (found.body["totalResults"].as_u64().unwrap(), names(&found))
    }
}

fn at(id: &Value) -> String {
    format!("{USERS}/{}", id.as_str().unwrap())
}

fn names(found: &ApiResponse) -> Vec<String> {
    let users = found.body["Resources"].as_array().unwrap_or_else(|| panic!("{found:?}"));
    users.iter().map(|user| user["userName"].as_str().unwrap().to_owned()).collect()
}

/// An error as the protocol has them.
fn refused(answer: &ApiResponse, status: u16, scim_type: Option<&str>) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/scim+json", "{answer:?}");
    assert_eq!(answer.body["schemas"], json!([ERROR]), "{answer:?}");
    assert_eq!(answer.body["status"], status.to_string(), "{answer:?}");
    assert_eq!(answer.body["scimType"].as_str(), scim_type, "{answer:?}");
    assert!(!answer.body["detail"].as_str().unwrap().is_empty(), "{answer:?}");
}

/// Somebody who has everything.
fn ann() -> Value {
    json!({
        "schemas": [USER],
        "userName": "Ann+1@acme.example",
        "externalId": "00u1",
        "name": { "givenName": "Ann", "familyName": "Lee" },
        "active": true,
        "department": "CRM",
        "permissions": {
            "companyPermissions": ["manage_company_settings"],
            "appGroup": [{
                "appGroupName": "acme",
                "appGroupPermissions": ["send_campaigns"],
                "team": [{ "teamName": "Berlin", "teamPermissions": ["view"] }],
            }],
        },
        "password": "not kept",
        "lastSignInAt": "not taken",
    })
}
