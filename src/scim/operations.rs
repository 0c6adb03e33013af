//! The calls about users as they are described (RFC 7644, section 3).

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::changed;
use super::auth::NO_ORIGIN;
use super::discovery::ListResponse;
use super::formats::{PatchRequest, SearchRequest, UserRequest, UserResource, filter_pattern};
use super::query::PAGE;
use super::{Query, schema};
use crate::gateway::openapi::Tag;
use crate::gateway::scim::{ScimError, ScimType};
use crate::gateway::{Access, ApiError, Operation};

pub(super) const TAG: Tag = Tag {
    name: "Dashboard users (SCIM)",
    about: "SCIM 2.0 (RFC 7643 and RFC 7644) for the users of the dashboard. Attribute names are \
            case-insensitive; unknown and read-only attributes are ignored.",
};

const ID: &str = "2819c223-7f76-453a-919d-413861904646";
pub(super) const BASE: &str = "http://127.0.0.1:8080";

fn operation(method: Method, id: &'static str, summary: &'static str) -> Operation {
    let no_origin = ScimError::from(ApiError::Invalid(NO_ORIGIN.into()));
    Operation::new(method, id, TAG, summary)
        .by(Access::Scim)
        .refuses(&no_origin, "`X-Request-Origin` is missing")
}

/// Of one user.
fn of_user(operation: Operation) -> Operation {
    let id = json!({ "type": "string", "format": "uuid", "examples": [ID] });
    operation
        .in_path("id", "The user's `id`.", id)
        .refuses(&ScimError::no_user(), "Unknown user id")
}

/// Adds the parameters that select a part of a user.
fn projected(operation: Operation) -> Operation {
    let names = |example: &str| json!({ "type": "string", "examples": [example] });
    operation
        .in_query(
            "attributes",
            "Attribute names: the response contains only these and the attributes that are always \
             returned.",
            names("userName,name.givenName"),
        )
        .in_query(
            "excludedAttributes",
            "Attribute names to omit from the response; not together with `attributes`.",
            names("permissions"),
        )
        .refuses_some(
            ["attributes=id&excludedAttributes=id"].map(Query::of_address),
            "A parameter is invalid",
        )
}

/// Adds the conditions on the user's version.
fn conditional(operation: Operation) -> Operation {
    operation
        .parameter(json!({
            "in": "header", "name": "If-Match", "schema": { "type": "string" },
            "description": "Entity tags of versions, or `*`: the request succeeds only for these.",
            "example": "W/\"1\"",
        }))
        .refuses(&changed(), "The version is not one of `If-Match`")
}

fn answers_user(operation: Operation, status: StatusCode, about: &'static str) -> Operation {
    let location = match status {
        StatusCode::CREATED => "Location",
        _ => "Content-Location",
    };
    operation
        .answers::<UserResource>(status, about)
        .such_as(example_user())
        .with_header(
            "ETag",
            "The version.",
            json!({ "type": "string", "pattern": "^W/\"[0-9]+\"$" }),
        )
        .with_header(location, "URL of the user.", json!({ "type": "string", "format": "uri" }))
}

fn example_user() -> Value {
    let mut user = example_request();
    user["id"] = ID.into();
    user["active"] = true.into();
    user["lastSignInAt"] = super::resource::NEVER.into();
    user["meta"] = json!({
        "resourceType": "User", "created": "2026-11-21T08:00:00.000Z",
        "lastModified": "2026-11-21T08:00:00.000Z", "version": "W/\"1\"",
        "location": format!("{BASE}{}/Users/{ID}", crate::gateway::scim::PATH),
    });
    user
}

fn example_request() -> Value {
    json!({
        "schemas": [schema::USER], "userName": "ann@acme.example",
        "name": { "givenName": "Ann", "familyName": "Lee" }, "department": "Marketing",
        "permissions": { "companyPermissions": ["admin"], "appGroup": [] },
    })
}

/// Links from a response with a user to the operations on the user.
fn linked(operation: Operation) -> Operation {
    ["readUser", "replaceUser", "patchUser", "deleteUser"].into_iter().fold(
        operation,
        |operation, to| {
            operation.with_link(to, json!({ "parameters": { "id": "$response.body#/id" } }))
        },
    )
}

pub(super) fn list() -> Operation {
    let number = |default: i64| {
        json!({
            "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX, "default": default,
        })
    };
    let operation = operation(Method::GET, "listUsers", "List users")
        .about(
            "Ordered by creation; sorting is not supported. A filter compares `userName` with \
             strings, ignoring case: `eq`, `co` and `sw`, joined by `and`. In the URL, a `+` \
             inside of a string is a plus sign, and elsewhere a space.",
        )
        .in_query(
            "filter",
            "Which users.",
            json!({
                "type": "string", "pattern": filter_pattern(),
                "examples": ["userName eq \"ann@acme.example\""],
            }),
        )
        .in_query(
            "startIndex",
            "First result of the page; lower values than 1 count as 1.",
            number(1),
        )
        .in_query(
            "count",
            &format!("Maximum number of users; more than {PAGE} counts as {PAGE}."),
            number(PAGE),
        )
        .answers::<ListResponse<UserResource>>(StatusCode::OK, "A page.")
        .such_as(ListResponse::all(vec![example_user()]))
        .refuses_some(
            ["filter=userName%20pr", "count=x"].map(Query::of_address),
            "A parameter is invalid",
        );
    projected(operation)
}

pub(super) fn search(id: &'static str) -> Operation {
    operation(Method::POST, id, "Search users with a request body")
        .takes::<SearchRequest>(
            "One user",
            json!({ "schemas": [schema::SEARCH], "filter": "userName eq \"ann@acme.example\"" }),
        )
        .answers::<ListResponse<UserResource>>(StatusCode::OK, "A page.")
        .refuses_some([Query::of_body(&schema::Attributes::new())], "A field is invalid")
}

pub(super) fn create() -> Operation {
    let operation = operation(Method::POST, "createUser", "Create a user")
        .repeatable()
        .takes::<UserRequest>("A user", example_request());
    let operation = answers_user(operation, StatusCode::CREATED, "The user was created.");
    let operation =
        linked(operation).refuses(&ScimError::taken(), "Another user has the `userName`");
    projected(wrong_user(operation))
}

fn wrong_user(operation: Operation) -> Operation {
    let missing = schema::check_schemas(&schema::Attributes::new(), schema::USER);
    operation.refuses_some([missing], "An attribute is invalid, or the body is not a user")
}

pub(super) fn read() -> Operation {
    let operation = operation(Method::GET, "readUser", "Read a user").parameter(json!({
        "in": "header", "name": "If-None-Match", "schema": { "type": "string" },
        "description": "Entity tags of versions: for these the response is 304.",
        "example": "W/\"1\"",
    }));
    let operation = answers_user(operation, StatusCode::OK, "The user.")
        .answers_empty(StatusCode::NOT_MODIFIED, "The version is one of `If-None-Match`.")
        .with_header("ETag", "The version.", json!({ "type": "string" }));
    of_user(projected(operation))
}

pub(super) fn replace() -> Operation {
    let operation = operation(Method::PUT, "replaceUser", "Replace a user")
        .about("Attributes that are missing in the body are removed, and `active` becomes true.")
        .takes::<UserRequest>("A user", example_request());
    let operation = answers_user(operation, StatusCode::OK, "The changed user.")
        .refuses(&ScimError::taken(), "Another user has the `userName`");
    of_user(conditional(projected(wrong_user(operation))))
}

pub(super) fn patch() -> Operation {
    let operation = operation(Method::PATCH, "patchUser", "Change a user")
        .about(
            "The operations are applied in order, all or none. A path identifies an attribute, \
             such as `department`, `name.givenName`, `permissions.companyPermissions[value eq \
             \"admin\"]` and `permissions.appGroup[appGroupName eq \
             \"acme\"].appGroupPermissions`; a path's filters are like those of lists, on the \
             sub-attributes of the value.",
        )
        .repeatable()
        .takes::<PatchRequest>(
            "Add a department, remove a permission",
            json!({
                "schemas": [schema::PATCH],
                "Operations": [
                    { "op": "replace", "path": "department", "value": "Sales" },
                    { "op": "remove", "path": "permissions.companyPermissions[value eq \"admin\"]" },
                ],
            }));
    let of = |kind, what: &'static str| ScimError::bad(kind, what);
    let operation = answers_user(operation, StatusCode::OK, "The changed user.")
        .refuses(&ScimError::taken(), "Another user has the `userName`")
        .refuses(
            &of(ScimType::InvalidPath, "path: \"x\" is not an attribute"),
            "A path does not match an attribute",
        )
        .refuses(
            &of(ScimType::NoTarget, "path: no value of appGroup matches the filter"),
            "No value matches the path",
        )
        .refuses(
            &of(ScimType::Mutability, "id: is read-only"),
            "The attribute is read-only or required",
        );
    of_user(conditional(projected(wrong_user(operation))))
}

pub(super) fn delete() -> Operation {
    let operation = operation(Method::DELETE, "deleteUser", "Remove a user")
        .answers_empty(StatusCode::NO_CONTENT, "The user is deleted.");
    of_user(conditional(operation))
}
