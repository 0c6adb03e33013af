//! What the service can do, for clients that ask (RFC 7643 sections 5 to 7, RFC 7644 section 4).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::api::{Result, answer, app_groups};
use super::auth::protected_discovery;
use super::operations::{BASE, TAG};
use super::query::PAGE;
use super::resource::AppGroup;
use super::schema::{
    self, APP_GROUP_ID, APP_GROUP_NAME, Attribute, Kind, LIST, USER, USER_ATTRIBUTES,
};
use crate::app::App;
use crate::gateway::scim::{PATH, ScimError};
use crate::gateway::{Access, Operation, Routes};

const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";
const RESOURCE_TYPE: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SERVICE_PROVIDER_CONFIG: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";

const USER_OF: &str = "A user of the dashboard";

/// The routes of it.
pub(super) fn routes() -> Routes {
    let route = protected_discovery;
    let config = route(get(service_provider_config));
    Routes::new()
        .route("/ServiceProviderConfig", config, [describe_service_provider_config()])
        .route("/ResourceTypes", route(get(resource_types)), [describe_resource_types()])
        .route("/ResourceTypes/{id}", route(get(resource_type)), [describe_resource_type()])
        .route("/Schemas", route(get(schemas)), [describe_schemas()])
        .route("/Schemas/{id}", route(get(schema)), [describe_schema_resource()])
}

/// A page of resources.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}List")]
pub(super) struct ListResponse<T> {
    #[schemars(extend("const" = [LIST]))]
    schemas: [&'static str; 1],
    /// All there are.
    #[schemars(range(min = 0))]
    total_results: i64,
    #[schemars(range(min = 1))]
    start_index: i64,
    /// Those in `Resources`.
    items_per_page: usize,
    #[serde(rename = "Resources")]
    #[schemars(length(max = PAGE))]
    resources: Vec<T>,
}

impl<T> ListResponse<T> {
    /// A page of a list.
    pub fn page(total_results: i64, start_index: i64, resources: Vec<T>) -> Self {
        let items_per_page = resources.len();
        Self { schemas: [LIST], total_results, start_index, items_per_page, resources }
    }

    /// All there is.
    pub fn all(resources: Vec<T>) -> Self {
        Self::page(resources.len() as i64, 1, resources)
    }
}

/// Of which kind a resource is, and where.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Meta {
    resource_type: &'static str,
    #[schemars(url)]
    location: String,
}

fn meta(base: &str, resource_type: &'static str, path: &str) -> Meta {
    Meta { resource_type, location: format!("{base}{PATH}/{path}") }
}

/// What the service can do (RFC 7643 section 5).
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ServiceProviderConfig {
    schemas: [&'static str; 1],
    patch: Supported,
    bulk: Bulk,
    filter: Filtered,
    change_password: Supported,
    sort: Supported,
    etag: Supported,
    authentication_schemes: [AuthenticationScheme; 1],
    meta: Meta,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Supported {
    supported: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Bulk {
    supported: bool,
    max_operations: usize,
    max_payload_size: usize,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Filtered {
    supported: bool,
    max_results: i64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct AuthenticationScheme {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    primary: bool,
}

impl ServiceProviderConfig {
    /// `base` is what public addresses begin with.
    fn new(base: &str) -> Self {
        let supported = |supported| Supported { supported };
        Self {
            schemas: [SERVICE_PROVIDER_CONFIG],
            patch: supported(true),
            bulk: Bulk { supported: false, max_operations: 0, max_payload_size: 0 },
            filter: Filtered { supported: true, max_results: PAGE },
            change_password: supported(false),
            sort: supported(false),
            etag: supported(true),
            authentication_schemes: [AuthenticationScheme {
                kind: "oauthbearertoken",
                name: "SCIM token",
                description: "A token from `longshore scim-token create`, sent as a bearer token.",
                primary: true,
            }],
            meta: meta(base, "ServiceProviderConfig", "ServiceProviderConfig"),
        }
    }
}

/// A kind of resources (RFC 7643 section 6).
#[derive(Serialize, JsonSchema)]
struct ResourceType {
    schemas: [&'static str; 1],
    id: &'static str,
    name: &'static str,
    endpoint: &'static str,
    description: &'static str,
    schema: &'static str,
    meta: Meta,
}

impl ResourceType {
    fn user(base: &str) -> Self {
        Self {
            schemas: [RESOURCE_TYPE],
            id: "User",
            name: "User",
            endpoint: "/Users",
            description: USER_OF,
            schema: USER,
            meta: meta(base, "ResourceType", "ResourceTypes/User"),
        }
    }
}

/// The attributes of a kind of resources (RFC 7643 section 7).
#[derive(Serialize, JsonSchema)]
struct SchemaResource {
    schemas: [&'static str; 1],
    id: &'static str,
    name: &'static str,
    description: &'static str,
    attributes: Vec<SchemaAttribute>,
    meta: Meta,
}

/// One attribute.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SchemaAttribute {
    name: &'static str,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["string", "boolean", "complex"]))]
    kind: &'static str,
    multi_valued: bool,
    description: &'static str,
    required: bool,
    #[schemars(extend("enum" = ["readOnly", "readWrite"]))]
    mutability: &'static str,
    #[schemars(extend("const" = "default"))]
    returned: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    case_exact: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["server", "none"]))]
    uniqueness: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical_values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_attributes: Option<Vec<SchemaAttribute>>,
}

impl SchemaResource {
    /// The app groups that there are stand in it as the values that permissions can name.
    fn user(base: &str, app_groups: &[AppGroup]) -> Self {
        let attributes = USER_ATTRIBUTES.iter();
        Self {
            schemas: [SCHEMA],
            id: USER,
            name: "User",
            description: USER_OF,
            attributes: attributes.map(|one| SchemaAttribute::of(one, app_groups)).collect(),
            meta: meta(base, "Schema", &format!("Schemas/{USER}")),
        }
    }
}

impl SchemaAttribute {
    fn of(attribute: &Attribute, app_groups: &[AppGroup]) -> Self {
        let (kind, is_text, fields) = match attribute.kind {
            Kind::Text => ("string", true, None),
            Kind::Boolean => ("boolean", false, None),
            Kind::Complex(fields) => ("complex", false, Some(fields)),
        };
        let sub_attributes = fields.map(|fields| {
            let published = fields.iter().filter(|field| field.is_published);
            published.map(|field| Self::of(field, app_groups)).collect()
        });
        let values = |value: fn(&AppGroup) -> &String| {
            Some(app_groups.iter().map(|group| value(group).clone()).collect())
        };
        Self {
            name: attribute.name,
            kind,
            multi_valued: attribute.is_multi_valued,
            description: attribute.description,
            required: attribute.is_required,
            mutability: if attribute.is_read_only { "readOnly" } else { "readWrite" },
            returned: "default",
            case_exact: is_text.then_some(attribute.is_case_exact),
            uniqueness: is_text.then_some(if attribute.is_unique { "server" } else { "none" }),
            canonical_values: match attribute.name {
                APP_GROUP_ID => values(|group| &group.id),
                APP_GROUP_NAME => values(|group| &group.name),
                _ => None,
            },
            sub_attributes,
        }
    }
}

fn about_service(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Method::GET, id, TAG, summary).by(Access::ScimDiscovery)
}

fn with_id(operation: Operation, example: &str) -> Operation {
    operation
        .in_path(
            "id",
            "The `id` from the list.",
            json!({ "type": "string", "minLength": 1, "examples": [example] }),
        )
        .refuses(&no_such(), "Unknown id")
}

/// RFC 7644 section 4: lists of these are not filtered.
fn unfiltered(operation: Operation) -> Operation {
    operation.refuses(&no_filter(), "`filter` is not supported here")
}

fn describe_service_provider_config() -> Operation {
    about_service("serviceProviderConfig", "Get the service provider configuration")
        .answers::<ServiceProviderConfig>(StatusCode::OK, "It.")
        .such_as(ServiceProviderConfig::new(BASE))
}

fn describe_resource_types() -> Operation {
    unfiltered(about_service("resourceTypes", "List resource types"))
        .answers::<ListResponse<ResourceType>>(StatusCode::OK, "The complete list.")
        .such_as(ListResponse::all(vec![ResourceType::user(BASE)]))
}

fn describe_resource_type() -> Operation {
    with_id(about_service("resourceType", "Get a resource type"), "User")
        .answers::<ResourceType>(StatusCode::OK, "It.")
        .such_as(ResourceType::user(BASE))
}

fn describe_schemas() -> Operation {
    unfiltered(about_service("schemas", "List schemas"))
        .about("The schema lists the existing app groups as allowed values of permissions.")
        .answers::<ListResponse<SchemaResource>>(StatusCode::OK, "The complete list.")
        .such_as(ListResponse::all(vec![SchemaResource::user(BASE, &[])]))
}

fn describe_schema_resource() -> Operation {
    with_id(about_service("schema", "Get a schema"), schema::USER)
        .answers::<SchemaResource>(StatusCode::OK, "It.")
        .such_as(SchemaResource::user(BASE, &[]))
}

/// The id of what a path names; an error where that is no text.
type Name = std::result::Result<Path<String>, PathRejection>;

/// `GET /ServiceProviderConfig`.
async fn service_provider_config(State(app): State<App>) -> Response {
    answer(StatusCode::OK, &ServiceProviderConfig::new(&app.config.public_base()))
}

/// `GET /ResourceTypes`.
async fn resource_types(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    all(query, ResourceType::user(&app.config.public_base()))
}

/// `GET /ResourceTypes/{id}`.
async fn resource_type(State(app): State<App>, name: Name) -> Result<Response> {
    one(&ResourceType::user(&app.config.public_base()), "User", name)
}

/// `GET /Schemas`.
async fn schemas(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    all(query, published_schema(&app).await?)
}

/// `GET /Schemas/{id}`.
async fn schema(State(app): State<App>, name: Name) -> Result<Response> {
    one(&published_schema(&app).await?, USER, name)
}

async fn published_schema(app: &App) -> Result<SchemaResource> {
    let mut tx = app.calls.snapshot().await?;
    let groups = app_groups(&mut tx).await?;
    tx.commit().await?;
    Ok(SchemaResource::user(&app.config.public_base(), &groups))
}

fn all(query: Option<String>, resource: impl Serialize) -> Result<Response> {
    let query = query.unwrap_or_default();
    if url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "filter") {
        // RFC 7644 section 4 requires this status.
        return Err(no_filter());
    }
    Ok(answer(StatusCode::OK, &ListResponse::all(vec![resource])))
}

fn no_filter() -> ScimError {
    ScimError::of(StatusCode::FORBIDDEN, "This list cannot be filtered")
}

fn no_such() -> ScimError {
    ScimError::of(StatusCode::NOT_FOUND, "Unknown id")
}

/// Of all resources there is one.
fn one(resource: &impl Serialize, id: &str, name: Name) -> Result<Response> {
    match name {
        Ok(Path(name)) if name == id => Ok(answer(StatusCode::OK, resource)),
        _ => Err(no_such()),
    }
}
