//! OpenAPI descriptions of the SCIM routes of users and groups (RFC 7644, section 3); the handlers
//! are in `api`.

use axum::http::{Method, StatusCode};
use schemars::JsonSchema;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::changed;
use super::auth::NO_ORIGIN;
use super::discovery::ListResponse;
use super::formats::{
    AnyResource, GroupPatchRequest, GroupRequest, GroupResource, SearchRequest, UserPatchRequest,
    UserRequest, UserResource,
};
use super::group::Group;
use super::query::PAGE;
use super::resource::{self, Resource, User};
use super::schema::{ENTERPRISE, GROUP, ResourceSchema, USER, USERS};
use super::{Query, schema};
use gateway::openapi::Tag;
use gateway::scim::{ScimError, ScimType};
use gateway::{Access, ApiError, Operation};

pub(super) const TAG: Tag = Tag {
    name: "Dashboard users (SCIM)",
    about: "SCIM 2.0 (RFC 7643 and RFC 7644) for the users of the dashboard. Attribute names are \
            case-insensitive; unknown and read-only attributes are ignored.",
};

const ID: &str = "2819c223-7f76-453a-919d-413861904646";
pub(super) const BASE: &str = "http://127.0.0.1:8080";

/// The id and the summary of an operation.
pub(super) struct Label {
    id: &'static str,
    summary: &'static str,
}

const fn label(id: &'static str, summary: &'static str) -> Label {
    Label { id, summary }
}

/// A kind of resource, with the texts and types in which the descriptions of its requests differ
/// from those of other kinds.
pub(super) trait DescribedResource: Resource {
    /// The body of requests that create or replace a resource.
    type Request: JsonSchema;
    type PatchRequest: JsonSchema;
    /// A resource in responses.
    type Response: JsonSchema;

    const LIST: Label;
    const SEARCH: Label;
    const CREATE: Label;
    const READ: Label;
    const REPLACE: Label;
    const PATCH: Label;
    const DELETE: Label;

    const ABOUT_ID: &'static str;
    const ABOUT_CREATE: &'static str;
    const ABOUT_REPLACE: &'static str;
    const ABOUT_PATCH: &'static str;

    /// The titles of the examples of request bodies.
    const REQUEST_TITLE: &'static str;
    const PATCH_TITLE: &'static str;

    /// Examples of parameters.
    const FILTER: &'static str;
    const ATTRIBUTES: &'static str;
    const EXCLUDED_ATTRIBUTES: &'static str;

    fn example_request() -> Value;

    fn example_patch() -> Value;

    /// Adds the attributes that a response has in addition to a request.
    fn add_read_only(example: &mut Value);
}

impl DescribedResource for User {
    type Request = UserRequest;
    type PatchRequest = UserPatchRequest;
    type Response = UserResource;

    const LIST: Label = label("listUsers", "List users");
    const SEARCH: Label = label("searchUsers", "Search users with a request body");
    const CREATE: Label = label("createUser", "Create a user");
    const READ: Label = label("readUser", "Read a user");
    const REPLACE: Label = label("replaceUser", "Replace a user");
    const PATCH: Label = label("patchUser", "Change a user");
    const DELETE: Label = label("deleteUser", "Remove a user");

    const ABOUT_ID: &'static str = "The user's `id`.";
    const ABOUT_CREATE: &'static str = "The `userName` must be unique, ignoring case.";
    const ABOUT_REPLACE: &'static str =
        "Attributes that are missing in the body are removed, and `active` becomes true.";
    const ABOUT_PATCH: &'static str = "The operations are applied in order, all or none. A path identifies an attribute, such as \
         `department`, `name.givenName`, `emails[type eq \"work\"].value` and \
         `permissions.companyPermissions[value eq \"admin\"]`; filters in a path have the syntax of \
         list filters, and compare sub-attributes of the value.";

    const REQUEST_TITLE: &'static str = "A user";
    const PATCH_TITLE: &'static str = "Add a department, remove a permission";

    const FILTER: &'static str = "userName eq \"ann@acme.example\"";
    const ATTRIBUTES: &'static str = "userName,name.givenName";
    const EXCLUDED_ATTRIBUTES: &'static str = "permissions";

    fn example_request() -> Value {
        json!({
            "schemas": [USER], "userName": "ann@acme.example",
            "name": { "givenName": "Ann", "familyName": "Lee" }, "department": "Marketing",
            "emails": [{ "value": "ann@acme.example", "type": "work", "primary": true }],
            "permissions": { "companyPermissions": ["admin"], "appGroup": [] },
        })
    }

    fn example_patch() -> Value {
        json!({
            "schemas": [schema::PATCH],
            "Operations": [
                { "op": "replace", "path": "department", "value": "Sales" },
                { "op": "remove", "path": "permissions.companyPermissions[value eq \"admin\"]" },
            ],
        })
    }

    fn add_read_only(example: &mut Value) {
        example["schemas"] = json!([USER, ENTERPRISE]);
        example["active"] = true.into();
        example["lastSignInAt"] = resource::NEVER.into();
        example[ENTERPRISE]["department"] = example["department"].clone();
    }
}

impl DescribedResource for Group {
    type Request = GroupRequest;
    type PatchRequest = GroupPatchRequest;
    type Response = GroupResource;

    const LIST: Label = label("listGroups", "List groups");
    const SEARCH: Label = label("searchGroups", "Search groups with a request body");
    const CREATE: Label = label("createGroup", "Create a group");
    const READ: Label = label("readGroup", "Read a group");
    const REPLACE: Label = label("replaceGroup", "Replace a group");
    const PATCH: Label = label("patchGroup", "Change a group");
    const DELETE: Label = label("deleteGroup", "Remove a group");

    const ABOUT_ID: &'static str = "The group's `id`.";
    const ABOUT_CREATE: &'static str = "If the workspace file declares permission sets, the `displayName` must be the name of \
         one, and the members of the group have its permissions.";
    const ABOUT_REPLACE: &'static str =
        "Attributes that are missing in the body are removed, and the members are replaced.";
    const ABOUT_PATCH: &'static str = "The operations are applied in order, all or none.";

    const REQUEST_TITLE: &'static str = "A group";
    const PATCH_TITLE: &'static str = "Add a member";

    const FILTER: &'static str = "displayName eq \"Marketing\"";
    const ATTRIBUTES: &'static str = "displayName";
    const EXCLUDED_ATTRIBUTES: &'static str = "members";

    fn example_request() -> Value {
        json!({
            "schemas": [GROUP], "displayName": "Marketing", "externalId": "8aa1a0c0",
            "members": [{ "value": Uuid::nil() }],
        })
    }

    fn example_patch() -> Value {
        json!({
            "schemas": [schema::PATCH],
            "Operations": [{ "op": "add", "path": "members", "value": [{ "value": ID }] }],
        })
    }

    fn add_read_only(example: &mut Value) {
        example["members"][0]["$ref"] = resource::location(BASE, &USERS, Uuid::nil()).into();
        example["members"][0]["type"] = USERS.name.into();
    }
}

/// An operation with what all of them share. The descriptions below get examples of errors from the
/// real parsers, run on bad input.
fn operation(method: Method, Label { id, summary }: Label) -> Operation {
    let no_origin = ScimError::from(ApiError::Invalid(NO_ORIGIN.into()));
    Operation::new(method, id, TAG, summary)
        .by(Access::Scim)
        .refuses(&no_origin, "`X-Request-Origin` is missing, and the token does not waive it")
}

/// Adds the `id` in the path.
fn with_id<R: DescribedResource>(operation: Operation) -> Operation {
    let id = json!({ "type": "string", "format": "uuid", "examples": [ID] });
    operation.in_path("id", R::ABOUT_ID, id).refuses(&R::SCHEMA.unknown(), "Unknown id")
}

/// Adds the parameters that select a part of a resource.
fn with_projection<R: DescribedResource>(operation: Operation) -> Operation {
    let names = |example: &str| json!({ "type": "string", "examples": [example] });
    operation
        .in_query(
            "attributes",
            "Names of attributes: the response contains only these and the attributes that are \
             always returned.",
            names(R::ATTRIBUTES),
        )
        .in_query(
            "excludedAttributes",
            "Names of attributes to omit from the response. Not allowed together with \
             `attributes`.",
            names(R::EXCLUDED_ATTRIBUTES),
        )
        .refuses_some(
            [Query::from_query_string("attributes=id&excludedAttributes=id", R::SCHEMA)],
            "A parameter is invalid",
        )
}

/// Adds the conditions on the resource's version.
fn with_if_match<R: DescribedResource>(operation: Operation) -> Operation {
    operation
        .parameter(json!({
            "in": "header", "name": "If-Match", "schema": { "type": "string" },
            "description": "Entity tags of versions, or `*`. The request succeeds only if the \
                            resource has one of these versions.",
            "example": "W/\"1\"",
        }))
        .refuses(&changed(R::SCHEMA), "The resource's version is not in `If-Match`")
}

fn returns_resource<R: DescribedResource>(
    operation: Operation,
    status: StatusCode,
    about: &'static str,
) -> Operation {
    let location = if status == StatusCode::CREATED { "Location" } else { "Content-Location" };
    operation
        .returns::<R::Response>(status, about)
        .with_example(example::<R>())
        .with_header(
            "ETag",
            "The version.",
            json!({ "type": "string", "pattern": "^W/\"[0-9]+\"$" }),
        )
        .with_header(location, "URL of the resource.", json!({ "type": "string", "format": "uri" }))
}

fn returns_page<R: DescribedResource>(operation: Operation) -> Operation {
    operation
        .returns::<ListResponse<R::Response>>(StatusCode::OK, "A page of the results.")
        .with_example(ListResponse::all(vec![example::<R>()]))
}

/// A resource in a response.
fn example<R: DescribedResource>() -> Value {
    let mut example = R::example_request();
    example["id"] = ID.into();
    R::add_read_only(&mut example);
    let ResourceSchema { name, endpoint, .. } = R::SCHEMA;
    example["meta"] = json!({
        "resourceType": name, "created": "2026-11-21T08:00:00.000Z",
        "lastModified": "2026-11-21T08:00:00.000Z", "version": "W/\"1\"",
        "location": format!("{BASE}{}{endpoint}/{ID}", gateway::scim::PATH),
    });
    example
}

/// Adds the body with a complete resource.
fn takes_resource<R: DescribedResource>(operation: Operation) -> Operation {
    operation.takes::<R::Request>(R::REQUEST_TITLE, R::example_request())
}

/// Links from the last response, which has a resource, to the operations on it.
fn with_links<R: DescribedResource>(operation: Operation) -> Operation {
    let link = json!({ "parameters": { "id": "$response.body#/id" } });
    [R::READ, R::REPLACE, R::PATCH, R::DELETE]
        .into_iter()
        .fold(operation, |operation, target| operation.with_link(target.id, link.clone()))
}

pub(super) fn list<R: DescribedResource>() -> Operation {
    let number = |default: i64| {
        json!({
            "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX, "default": default,
        })
    };
    let operation = operation(Method::GET, R::LIST)
        .about(
            "Ordered by time of creation; sorting is not supported. A filter compares \
             attributes with `eq`, `ne`, `co`, `sw`, `ew`, `gt`, `ge`, `lt`, `le` and `pr`, \
             joined by `and`, `or` and `not`, with parentheses and with brackets, as in \
             `emails[type eq \"work\"].value eq \"ann@acme.example\"`. In the URL, a `+` \
             inside of a string is a plus sign, and elsewhere a space.",
        )
        .in_query(
            "filter",
            "Filter that selects resources.",
            json!({ "type": "string", "examples": [R::FILTER] }),
        )
        .in_query(
            "startIndex",
            "Position of the first result of the page, from 1; lower values count as 1.",
            number(1),
        )
        .in_query(
            "count",
            &format!("Maximum number of results; more than {PAGE} counts as {PAGE}."),
            number(PAGE),
        );
    let operation = returns_page::<R>(operation).refuses_some(
        ["filter=userName", "count=x"].map(|query| Query::from_query_string(query, R::SCHEMA)),
        "A parameter is invalid",
    );
    with_projection::<R>(operation)
}

fn takes_search(operation: Operation) -> Operation {
    let filter = "meta.created gt \"2026-11-21T08:00:00Z\"";
    operation.takes::<SearchRequest>(
        "New resources",
        json!({ "schemas": [schema::SEARCH], "filter": filter }),
    )
}

pub(super) fn search<R: DescribedResource>() -> Operation {
    let operation = takes_search(operation(Method::POST, R::SEARCH));
    returns_page::<R>(operation).refuses_some(
        [Query::from_body(&schema::Attributes::new(), R::SCHEMA)],
        "A field is invalid",
    )
}

/// The search of all kinds of resources.
pub(super) fn search_all() -> Operation {
    let operation = operation(Method::POST, label("search", "Search users and groups")).about(
        "Users come before groups. If users or groups lack an attribute of the filter, none of \
         them match.",
    );
    takes_search(operation)
        .returns::<ListResponse<AnyResource>>(StatusCode::OK, "A page of the results.")
        .with_example(ListResponse::all(vec![example::<User>(), example::<Group>()]))
        .refuses_some([Query::from_body(&schema::Attributes::new(), &USERS)], "A field is invalid")
}

pub(super) fn create<R: DescribedResource>() -> Operation {
    let operation = operation(Method::POST, R::CREATE).about(R::ABOUT_CREATE).repeatable();
    let operation = takes_resource::<R>(operation);
    let operation =
        returns_resource::<R>(operation, StatusCode::CREATED, "The resource is created.");
    let operation =
        with_links::<R>(operation).refuses(&R::SCHEMA.name_in_use(), "The name is in use");
    with_projection::<R>(refuses_invalid::<R>(operation))
}

/// Adds the error of an invalid body.
fn refuses_invalid<R: DescribedResource>(operation: Operation) -> Operation {
    let missing = schema::check_schemas(&schema::Attributes::new(), R::SCHEMA.urn);
    operation.refuses_some([missing], "An attribute is invalid, or the body is not a resource")
}

pub(super) fn read<R: DescribedResource>() -> Operation {
    let operation = operation(Method::GET, R::READ).parameter(json!({
        "in": "header", "name": "If-None-Match", "schema": { "type": "string" },
        "description": "Entity tags of versions. If the resource has one of these versions, the \
                        response is 304.",
        "example": "W/\"1\"",
    }));
    let operation = returns_resource::<R>(operation, StatusCode::OK, "The resource.")
        .returns_empty(StatusCode::NOT_MODIFIED, "The resource's version is in `If-None-Match`.")
        .with_header("ETag", "The version.", json!({ "type": "string" }));
    with_id::<R>(with_projection::<R>(operation))
}

pub(super) fn replace<R: DescribedResource>() -> Operation {
    let operation = operation(Method::PUT, R::REPLACE).about(R::ABOUT_REPLACE);
    let operation = takes_resource::<R>(operation);
    let operation = returns_resource::<R>(operation, StatusCode::OK, "The changed resource.")
        .refuses(&R::SCHEMA.name_in_use(), "The name is in use");
    with_id::<R>(with_if_match::<R>(with_projection::<R>(refuses_invalid::<R>(operation))))
}

pub(super) fn patch<R: DescribedResource>() -> Operation {
    let operation = operation(Method::PATCH, R::PATCH)
        .about(R::ABOUT_PATCH)
        .repeatable()
        .takes::<R::PatchRequest>(R::PATCH_TITLE, R::example_patch());
    let operation = returns_resource::<R>(operation, StatusCode::OK, "The changed resource.")
        .refuses(&R::SCHEMA.name_in_use(), "The name is in use")
        .refuses(
            &ScimError::bad(ScimType::InvalidPath, "path: unknown attribute \"x\""),
            "A path does not match an attribute",
        )
        .refuses(
            &ScimError::bad(ScimType::NoTarget, "path: no value of appGroup matches the filter"),
            "No value matches the path",
        )
        .refuses(
            &ScimError::bad(ScimType::Mutability, "id: read-only attribute"),
            "The attribute is read-only, or required and cannot be removed",
        );
    with_id::<R>(with_if_match::<R>(with_projection::<R>(refuses_invalid::<R>(operation))))
}

pub(super) fn delete<R: DescribedResource>() -> Operation {
    let operation = operation(Method::DELETE, R::DELETE)
        .returns_empty(StatusCode::NO_CONTENT, "The resource is deleted.");
    with_id::<R>(with_if_match::<R>(operation))
}
