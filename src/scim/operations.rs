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
    about: "SCIM 2.0 as RFC 7643 and RFC 7644 have it, for the users of the dashboard. Names of \
            attributes are read in any case; unknown and read-only ones are ignored.",
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
        .refuses(&ScimError::no_user(), "No user has the id")
}

/// With parameters that say which part of a user is answered.
fn projected(operation: Operation) -> Operation {
    let names = |example: &str| json!({ "type": "string", "examples": [example] });
    operation
        .in_query(
            "attributes",
            "Names of attributes: only these are answered, and what is always.",
            names("userName,name.givenName"),
        )
        .in_query(
            "excludedAttributes",
            "Names of attributes that are not; not together with `attributes`.",
            names("permissions"),
        )
        .refuses_some(
            ["attributes=id&excludedAttributes=id"].map(Query::of_address),
            "A parameter is wrong",
        )
}

/// Made only of the version that the client means.
fn conditional(operation: Operation) -> Operation {
    operation
        .parameter(json!({
            "in": "header", "name": "If-Match", "schema": { "type": "string" },
            "description": "Entity tags of versions, or `*`: the call is made only of these.",
            "example": "W/\"1\"",
        }))
        .refuses(&changed(), "`If-Match` names another version")
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
        .with_header(location, "The user's address.", json!({ "type": "string", "format": "uri" }))
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

/// Links from an answer with a user to what can be done with the user.
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
            "In the order in which they were made; sorting is not supported. A filter compares \
             `userName` with strings, regardless of case: `eq`, `co` and `sw`, joined by `and`. \
             A `+` in the address stands for itself within a string, and elsewhere for a space.",
        )
        .in_query(
            "filter",
            "Which users.",
            json!({
                "type": "string", "pattern": filter_pattern(),
                "examples": ["userName eq \"ann@acme.example\""],
            }),
        )
        .in_query("startIndex", "Where the page begins; less than 1 counts as 1.", number(1))
        .in_query(
            "count",
            &format!("Users at most; more than {PAGE} counts as {PAGE}."),
            number(PAGE),
        )
        .answers::<ListResponse<UserResource>>(StatusCode::OK, "A page.")
        .such_as(ListResponse::all(vec![example_user()]))
        .refuses_some(
            ["filter=userName%20pr", "count=x"].map(Query::of_address),
            "A parameter is wrong",
        );
    projected(operation)
}

pub(super) fn search(id: &'static str) -> Operation {
    operation(Method::POST, id, "List users, asked for in a body")
        .takes::<SearchRequest>(
            "One user",
            json!({ "schemas": [schema::SEARCH], "filter": "userName eq \"ann@acme.example\"" }),
        )
        .answers::<ListResponse<UserResource>>(StatusCode::OK, "A page.")
        .refuses_some([Query::of_body(&schema::Attributes::new())], "A field is wrong")
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
    operation.refuses_some([missing], "An attribute is wrong, or the body is no user")
}

pub(super) fn read() -> Operation {
    let operation = operation(Method::GET, "readUser", "Read a user").parameter(json!({
        "in": "header", "name": "If-None-Match", "schema": { "type": "string" },
        "description": "Entity tags of versions: of these nothing is answered.",
        "example": "W/\"1\"",
    }));
    let operation = answers_user(operation, StatusCode::OK, "The user.")
        .answers_empty(StatusCode::NOT_MODIFIED, "`If-None-Match` names the version.")
        .with_header("ETag", "The version.", json!({ "type": "string" }));
    of_user(projected(operation))
}

pub(super) fn replace() -> Operation {
    let operation = operation(Method::PUT, "replaceUser", "Replace a user")
        .about("What the body does not have is gone, and `active` is true again.")
        .takes::<UserRequest>("A user", example_request());
    let operation = answers_user(operation, StatusCode::OK, "The user as it is now.")
        .refuses(&ScimError::taken(), "Another user has the `userName`");
    of_user(conditional(projected(wrong_user(operation))))
}

pub(super) fn patch() -> Operation {
    let operation = operation(Method::PATCH, "patchUser", "Change a user")
        .about(
            "The operations are done in their order, all or none. A path names an attribute, such \
             as `department`, `name.givenName`, `permissions.companyPermissions[value eq \
             \"admin\"]` and `permissions.appGroup[appGroupName eq \"acme\"].appGroupPermissions`; \
             filters in it are those of lists, over the members of the value.",
        )
        .repeatable()
        .takes::<PatchRequest>(
            "A department, and a permission less",
            json!({
                "schemas": [schema::PATCH],
                "Operations": [
                    { "op": "replace", "path": "department", "value": "Sales" },
                    { "op": "remove", "path": "permissions.companyPermissions[value eq \"admin\"]" },
                ],
            }));
    let of = |kind, what: &'static str| ScimError::bad(kind, what);
    let operation = answers_user(operation, StatusCode::OK, "The user as it is now.")
        .refuses(&ScimError::taken(), "Another user has the `userName`")
        .refuses(
            &of(ScimType::InvalidPath, "path: \"x\" is no attribute"),
            "A path names nothing that there is",
        )
        .refuses(
            &of(ScimType::NoTarget, "path: no value of appGroup is like that"),
            "No value is like the path",
        )
        .refuses(&of(ScimType::Mutability, "id: it is read-only"), "It is read-only or required");
    of_user(conditional(projected(wrong_user(operation))))
}

pub(super) fn delete() -> Operation {
    let operation = operation(Method::DELETE, "deleteUser", "Remove a user")
        .answers_empty(StatusCode::NO_CONTENT, "The user is gone.");
    of_user(conditional(operation))
}
