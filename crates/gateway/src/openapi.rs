//! The API as OpenAPI: `GET /openapi.json` (3.1) for validators and tests, `GET /openapi-3.0.json`
//! for code generators, `GET /docs` for people, and `GET /`, which names these. The first one is
//! generated from the code; `longshore reference` converts that to the second one, which is built
//! into the program.
//!
//! Each route is declared together with the description of its methods ([`Routes::route`]), so the
//! document is complete. Its content comes from the code that checks requests: limits are the same
//! constants, examples of errors are real errors, and schemas come from the types that are read and
//! written. Each operation is described next to its handler.

mod access;
mod conditions;
mod document;
mod front_page;
mod introduction;
mod operation;
mod page;
mod samples;
mod webhook;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use schemars::JsonSchema;
use serde_json::Value;

pub use access::Access;
pub use operation::{Operation, Tag};
pub use webhook::{SENT_TO_OTHERS, Webhook};

use crate::app::App;
use crate::coding::Static;
use kit::compute::NO_WORKSPACE;
use runtime::config::Config;

const TAG: Tag = Tag { name: "This document", about: "This description of the API." };

/// A document that its first request creates: this takes long, and most processes never serve it.
type LazyDocument = LazyLock<Static, Box<dyn FnOnce() -> Static + Send>>;

/// Routes, each with its operations. Their handlers have the state `S`, the `App` of their layer.
pub struct Routes<S = ()> {
    router: Router<S>,
    operations: Vec<(String, Operation)>,
    webhooks: Vec<Webhook>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), operations: Vec::new(), webhooks: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route with an operation for each method; no operation if the route only rejects
    /// requests.
    pub fn route(
        mut self,
        path: &str,
        route: MethodRouter<S>,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Self {
        self.router = self.router.route(path, route);
        // In OpenAPI, a parameter with slashes is like any other.
        let path = path.replace("{*", "{");
        self.operations.extend(operations.into_iter().map(|operation| (path.clone(), operation)));
        self
    }

    /// Adds outgoing requests.
    pub fn with_webhooks(mut self, webhooks: impl IntoIterator<Item = Webhook>) -> Self {
        self.webhooks.extend(webhooks);
        self
    }

    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.operations.extend(other.operations);
        self.webhooks.extend(other.webhooks);
        self
    }

    /// The same routes below a path.
    pub fn below(self, path: &str) -> Self {
        let operations = self.operations.into_iter();
        Self {
            router: Router::new().nest(path, self.router),
            operations: operations
                .map(|(rest, operation)| (format!("{path}{rest}"), operation))
                .collect(),
            webhooks: self.webhooks,
        }
    }

    /// Adds the app to the requests, for middleware that needs it.
    pub fn with_extension(mut self, app: Option<&S>) -> Self {
        if let Some(app) = app {
            self.router = self.router.layer(Extension(app.clone()));
        }
        self
    }

    /// Gives the routes their state. Without an app they can be described, but not served.
    pub fn with_app(self, app: Option<&S>) -> Routes {
        let served = |app: &S| self.router.with_state(app.clone());
        Routes {
            router: app.map(served).unwrap_or_default(),
            operations: self.operations,
            webhooks: self.webhooks,
        }
    }
}

impl Routes {
    /// The router, with the routes that serve the description of all routes, including themselves.
    /// `openapi_30` is the stored description as OpenAPI 3.0, with default settings.
    pub fn documented(self, app: &App, openapi_30: &'static str) -> Router {
        let described = Self { router: Router::new(), ..self };
        let (config, config_30) = (app.config.clone(), app.config.clone());
        let own = own_routes(
            lazy_json(move || described.document(&config)),
            lazy_json(move || with_settings(openapi_30, &config_30)),
            &app.config,
        );
        self.router.merge(own.with_app(Some(app)).router)
    }

    /// The document of [`documented`](Self::documented).
    pub fn document(&self, config: &Config) -> Value {
        let unused = || lazy_json(|| Value::Null);
        let own = own_routes(unused(), unused(), config).operations;
        document::document(self.operations.iter().chain(&own), &self.webhooks, config)
    }
}

/// The stored document with what the settings change in it: the address of the server, and the
/// limits in the introduction.
fn with_settings(openapi_30: &str, config: &Config) -> Value {
    let mut openapi_30: Value = serde_json::from_str(openapi_30).expect("a generated file");
    openapi_30["servers"] = document::servers(config);
    openapi_30["info"]["description"] = introduction::introduction(config).into();
    openapi_30
}

fn lazy_json(create: impl FnOnce() -> Value + Send + 'static) -> LazyDocument {
    LazyLock::new(Box::new(|| Static::new("application/json", create().to_string())))
}

fn serve_document(document: LazyDocument) -> MethodRouter<App> {
    let document = Arc::new(document);
    get(async move |State(app): State<App>, headers: HeaderMap| {
        let created = LazyLock::get(&document);
        let create = || app.cores.compute_here(NO_WORKSPACE, || LazyLock::force(&document));
        let text = created.unwrap_or_else(create);
        let deny_all = HeaderValue::from_static("default-src 'none'");
        ([(CONTENT_SECURITY_POLICY, deny_all)], text.response(&headers))
    })
}

/// The routes that serve the document in both versions, the page that shows it, and the front page.
fn own_routes(document: LazyDocument, openapi_30: LazyDocument, config: &Config) -> Routes<App> {
    let serve = |text: Static, name: HeaderName, value: HeaderValue| {
        let header = [(name, value)];
        get(async move |headers: HeaderMap| (header, text.response(&headers)))
    };
    let html = Static::new("text/html; charset=utf-8", page::html());
    let script = Static::compressed("text/javascript; charset=utf-8", page::SCRIPT_GZIP);
    Routes::new()
        .route("/", front_page::route(config.ops.listen), [front_page::operation()])
        .route("/openapi.json", serve_document(document), [document_operation()])
        .route("/openapi-3.0.json", serve_document(openapi_30), [document_30_operation()])
        .route("/docs", serve(html, CONTENT_SECURITY_POLICY, page::policy()), [page_operation()])
        .route(
            &page::script_path(),
            serve(script, CACHE_CONTROL, HeaderValue::from_static(page::KEEP)),
            [script_operation()],
        )
}

impl From<Routes> for Router {
    fn from(routes: Routes) -> Self {
        routes.router
    }
}

/// A document in the format of the OpenAPI Specification.
#[derive(JsonSchema)]
#[schemars(with = "Value", extend(
    "type" = "object",
    "properties" = {
        "openapi": { "type": "string", "pattern": r"^3\.[01]\.[0-9]+$" },
        "info": { "type": "object" },
        "paths": { "type": "object" },
        "components": { "type": "object" },
    },
    "required" = ["openapi", "info", "paths", "components"],
    "additionalProperties" = true,
))]
struct OpenApi;

/// An HTML page, or its script.
#[derive(JsonSchema)]
#[schemars(with = "String")]
struct Page;

fn document_operation() -> Operation {
    Operation::new(Method::GET, "openapi", TAG, "This document")
        .about("The API as OpenAPI 3.1, generated from the code.")
        .returns::<OpenApi>(StatusCode::OK, "The document.")
}

fn document_30_operation() -> Operation {
    Operation::new(Method::GET, "openapi30", TAG, "This document for code generators")
        .about(
            "The API as OpenAPI 3.0. It has the same operations, fields and types, without the \
             conditions and patterns that only validators use, and without outgoing requests.",
        )
        .returns::<OpenApi>(StatusCode::OK, "The document.")
}

fn page_operation() -> Operation {
    Operation::new(Method::GET, "docs", TAG, "This document as a page")
        .about("The API reference as a web page, which loads nothing from other servers.")
        .returns_as::<Page>(StatusCode::OK, "The page.", "text/html")
}

fn script_operation() -> Operation {
    Operation::new(Method::GET, "docsScript", TAG, "Script of the page").returns_as::<Page>(
        StatusCode::OK,
        "The script.",
        "text/javascript",
    )
}
