//! Describes the service's features and schemas to clients (RFC 7643 sections 5 to 7, RFC 7644
//! section 4).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::api::{Result, response};
use super::auth::protected_discovery;
use super::operations::{BASE, TAG};
use super::query::PAGE;
use super::resource::AppGroup;
use super::schema::{
    APP_GROUP_ID, APP_GROUP_NAME, Attribute, GROUPS, Kind, LIST, Mutability, ResourceSchema, USER,
    USERS,
};
use crate::app::App;
use gateway::scim::{PATH, ScimError};
use gateway::{Access, Operation, Routes};

const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";
const RESOURCE_TYPE: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SERVICE_PROVIDER_CONFIG: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";

/// The schemas of all resources.
const ALL: [&ResourceSchema; 2] = [&USERS, &GROUPS];

/// The routes of the service's configuration.
pub(super) fn routes() -> Routes<App> {
    let route = protected_discovery;
    let routes = [
        (
            "/ServiceProviderConfig",
            get(service_provider_config),
            describe_service_provider_config(),
        ),
        ("/ResourceTypes", get(resource_types), describe_resource_types()),
        ("/ResourceTypes/{id}", get(resource_type), describe_resource_type()),
        ("/Schemas", get(schemas), describe_schemas()),
        ("/Schemas/{id}", get(schema), describe_schema_resource()),
    ];
    routes.into_iter().fold(Routes::new(), |routes, (path, handler, operation)| {
        // Some clients write a slash at the end.
        let slash_route = route(handler.clone());
        routes.route(path, route(handler), [operation]).route(&format!("{path}/"), slash_route, [])
    })
}

/// A page of resources.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}List")]
pub(super) struct ListResponse<T> {
    #[schemars(extend("minItems" = 1, "maxItems" = 1, "items" = { "type": "string", "const": LIST }))]
    schemas: [&'static str; 1],
    /// Number of all results.
    #[schemars(range(min = 0))]
    total_results: i64,
    #[schemars(range(min = 1))]
    start_index: i64,
    /// Number of results in `Resources`.
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

    /// A list of all resources on one page.
    pub fn all(resources: Vec<T>) -> Self {
        Self::page(resources.len() as i64, 1, resources)
    }
}

/// The type and the URL of a resource.
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

/// The features of the service (RFC 7643 section 5).
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
    /// `base` is the beginning of public URLs.
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

/// A resource type (RFC 7643 section 6).
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResourceType {
    schemas: [&'static str; 1],
    id: &'static str,
    name: &'static str,
    endpoint: &'static str,
    description: &'static str,
    schema: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schema_extensions: Vec<SchemaExtension>,
    meta: Meta,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct SchemaExtension {
    schema: &'static str,
    required: bool,
}

impl ResourceType {
    fn all(base: &str) -> Vec<Self> {
        ALL.map(|schema| Self::new(schema, base)).into()
    }

    fn new(schema: &ResourceSchema, base: &str) -> Self {
        let extension = schema
            .extension
            .map(|extension| SchemaExtension { schema: extension.name, required: false });
        Self {
            schemas: [RESOURCE_TYPE],
            id: schema.name,
            name: schema.name,
            endpoint: schema.endpoint,
            description: schema.description,
            schema: schema.urn,
            schema_extensions: extension.into_iter().collect(),
            meta: meta(base, "ResourceType", &format!("ResourceTypes/{}", schema.name)),
        }
    }
}

/// A schema: the attributes of a resource type (RFC 7643 section 7).
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
    #[schemars(extend("enum" = ["string", "boolean", "complex", "dateTime", "reference"]))]
    kind: &'static str,
    multi_valued: bool,
    description: &'static str,
    required: bool,
    #[schemars(extend("enum" = ["readOnly", "readWrite", "immutable"]))]
    mutability: &'static str,
    #[schemars(extend("const" = "default"))]
    returned: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    case_exact: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["server", "none"]))]
    uniqueness: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_types: Option<&'static [&'static str]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical_values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub_attributes: Option<Vec<SchemaAttribute>>,
}

impl SchemaResource {
    /// The existing app groups are listed as the allowed values of permissions.
    fn all(base: &str, app_groups: &[AppGroup]) -> Vec<Self> {
        let resource = |id, name, description, attributes: &'static [Attribute]| Self {
            schemas: [SCHEMA],
            id,
            name,
            description,
            attributes: attributes
                .iter()
                .map(|attribute| SchemaAttribute::new(attribute, app_groups))
                .collect(),
            meta: meta(base, "Schema", &format!("Schemas/{id}")),
        };
        let schemas = ALL
            .map(|schema| resource(schema.urn, schema.name, schema.description, schema.attributes));
        let extensions = ALL.iter().filter_map(|schema| schema.extension).map(|extension| {
            let (name, about) = (extension.name, extension.description);
            resource(name, "EnterpriseUser", about, extension.members())
        });
        schemas.into_iter().chain(extensions).collect()
    }
}

impl SchemaAttribute {
    fn new(attribute: &Attribute, app_groups: &[AppGroup]) -> Self {
        let (kind, is_text, fields) = match attribute.kind {
            Kind::Text => ("string", true, None),
            Kind::Reference(_) => ("reference", true, None),
            Kind::DateTime => ("dateTime", false, None),
            Kind::Boolean => ("boolean", false, None),
            Kind::Complex(fields) => ("complex", false, Some(fields)),
        };
        let sub_attributes = fields.map(|fields| {
            let published = fields.iter().filter(|field| field.is_published);
            published.map(|field| Self::new(field, app_groups)).collect()
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
            mutability: match attribute.mutability {
                Mutability::ReadWrite => "readWrite",
                Mutability::Immutable => "immutable",
                Mutability::ReadOnly => "readOnly",
            },
            returned: "default",
            case_exact: is_text.then_some(attribute.is_case_exact),
            uniqueness: is_text.then_some(if attribute.is_unique { "server" } else { "none" }),
            reference_types: match attribute.kind {
                Kind::Reference(types) => Some(types),
                _ => None,
            },
            canonical_values: match attribute.name {
                APP_GROUP_ID => values(|group| &group.id),
                APP_GROUP_NAME => values(|group| &group.name),
                _ if attribute.canonical.is_empty() => None,
                _ => Some(attribute.canonical.iter().map(|&value| value.to_owned()).collect()),
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
        .refuses(&unknown_id(), "Unknown id")
}

/// RFC 7644 section 4: these lists cannot be filtered.
fn unfiltered(operation: Operation) -> Operation {
    operation.refuses(&no_filter(), "`filter` is not supported here")
}

fn describe_service_provider_config() -> Operation {
    about_service("serviceProviderConfig", "Get the service provider configuration")
        .returns::<ServiceProviderConfig>(StatusCode::OK, "It.")
        .with_example(ServiceProviderConfig::new(BASE))
}

fn describe_resource_types() -> Operation {
    unfiltered(about_service("resourceTypes", "List resource types"))
        .returns::<ListResponse<ResourceType>>(StatusCode::OK, "The complete list.")
        .with_example(ListResponse::all(ResourceType::all(BASE)))
}

fn describe_resource_type() -> Operation {
    with_id(about_service("resourceType", "Get a resource type"), "User")
        .returns::<ResourceType>(StatusCode::OK, "It.")
        .with_example(ResourceType::new(&USERS, BASE))
}

fn describe_schemas() -> Operation {
    unfiltered(about_service("listSchemas", "List schemas"))
        .about(
            "The schema of users lists the existing app groups as allowed values of permissions.",
        )
        .returns::<ListResponse<SchemaResource>>(StatusCode::OK, "The complete list.")
        .with_example(ListResponse::all(SchemaResource::all(BASE, &[])))
}

fn describe_schema_resource() -> Operation {
    with_id(about_service("getSchema", "Get a schema"), USER)
        .returns::<SchemaResource>(StatusCode::OK, "It.")
        .with_example(SchemaResource::all(BASE, &[]).remove(0))
}

/// The id in a path; an error if it is not UTF-8.
type Name = std::result::Result<Path<String>, PathRejection>;

/// `GET /ServiceProviderConfig`.
async fn service_provider_config(State(app): State<App>) -> Response {
    response(StatusCode::OK, &ServiceProviderConfig::new(&app.config.public_base()))
}

/// `GET /ResourceTypes`.
async fn resource_types(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    list(query, ResourceType::all(&app.config.public_base()))
}

/// `GET /ResourceTypes/{id}`.
async fn resource_type(State(app): State<App>, name: Name) -> Result<Response> {
    single(ResourceType::all(&app.config.public_base()), |resource| resource.id, name)
}

/// `GET /Schemas`.
async fn schemas(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    list(query, published_schemas(&app).await?)
}

/// `GET /Schemas/{id}`.
async fn schema(State(app): State<App>, name: Name) -> Result<Response> {
    single(published_schemas(&app).await?, |resource| resource.id, name)
}

async fn published_schemas(app: &App) -> Result<Vec<SchemaResource>> {
    let mut tx = app.request_queue.snapshot().await?;
    let groups = AppGroup::all(&mut tx).await?;
    tx.commit().await?;
    Ok(SchemaResource::all(&app.config.public_base(), &groups))
}

/// The response with all resources of a list.
fn list(query: Option<String>, resources: Vec<impl Serialize>) -> Result<Response> {
    let query = query.unwrap_or_default();
    if url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "filter") {
        // RFC 7644 section 4 requires this status.
        return Err(no_filter());
    }
    Ok(response(StatusCode::OK, &ListResponse::all(resources)))
}

fn no_filter() -> ScimError {
    ScimError::new(StatusCode::FORBIDDEN, "This list cannot be filtered")
}

fn unknown_id() -> ScimError {
    ScimError::new(StatusCode::NOT_FOUND, "Unknown id")
}

/// The response with the resource of that id.
fn single<T: Serialize>(
    resources: Vec<T>,
    id: impl Fn(&T) -> &'static str,
    name: Name,
) -> Result<Response> {
    let Path(name) = name.map_err(|_| unknown_id())?;
    let found = resources.into_iter().find(|resource| id(resource).eq_ignore_ascii_case(&name));
    Ok(response(StatusCode::OK, &found.ok_or_else(unknown_id)?))
}
