//! The descriptions of the requests about users and groups (RFC 7644, section 3).

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::api::changed;
use super::auth::NO_ORIGIN;
use super::discovery::ListResponse;
use super::formats::{
    AnyResource, GroupPatchRequest, GroupRequest, GroupResource, SearchRequest, UserPatchRequest,
    UserRequest, UserResource,
};
use super::group::Group;
use super::query::PAGE;
use super::resource::{Resource, User};
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

fn is_user<R: Resource>() -> bool {
    R::SCHEMA == &USERS
}

/// The text for users, or the one for groups.
fn of<R: Resource>([users, groups]: [&'static str; 2]) -> &'static str {
    if is_user::<R>() { users } else { groups }
}

fn operation<R: Resource>(
    method: Method,
    ids: [&'static str; 2],
    summaries: [&'static str; 2],
) -> Operation {
    let no_origin = ScimError::from(ApiError::Invalid(NO_ORIGIN.into()));
    Operation::new(method, of::<R>(ids), TAG, of::<R>(summaries))
        .by(Access::Scim)
        .refuses(&no_origin, "`X-Request-Origin` is missing, and the token does not waive it")
}

/// Adds the `id` in the path.
fn of_one<R: Resource>(operation: Operation) -> Operation {
    let id = json!({ "type": "string", "format": "uuid", "examples": [ID] });
    let what = of::<R>(["The user's `id`.", "The group's `id`."]);
    operation.in_path("id", what, id).refuses(&R::SCHEMA.unknown(), "Unknown id")
}

/// Adds the parameters that select a part of a resource.
fn projected<R: Resource>(operation: Operation) -> Operation {
    let names = |example: &str| json!({ "type": "string", "examples": [example] });
    let (only, without) = match is_user::<R>() {
        true => ("userName,name.givenName", "permissions"),
        false => ("displayName", "members"),
    };
    operation
        .in_query(
            "attributes",
            "Names of attributes: the response contains only these and the attributes that are \
             always returned.",
            names(only),
        )
        .in_query(
            "excludedAttributes",
            "Names of attributes to omit from the response. Not allowed together with \
             `attributes`.",
            names(without),
        )
        .refuses_some(
            [Query::from_query_string("attributes=id&excludedAttributes=id", R::SCHEMA)],
            "A parameter is invalid",
        )
}

/// Adds the conditions on the resource's version.
fn conditional<R: Resource>(operation: Operation) -> Operation {
    operation
        .parameter(json!({
            "in": "header", "name": "If-Match", "schema": { "type": "string" },
            "description": "Entity tags of versions, or `*`. The request succeeds only if the \
                            resource has one of these versions.",
            "example": "W/\"1\"",
        }))
        .refuses(&changed(R::SCHEMA), "The resource's version is not in `If-Match`")
}

fn answers_one<R: Resource>(
    operation: Operation,
    status: StatusCode,
    about: &'static str,
) -> Operation {
    let location = match status {
        StatusCode::CREATED => "Location",
        _ => "Content-Location",
    };
    let operation = match is_user::<R>() {
        true => operation.returns::<UserResource>(status, about),
        false => operation.returns::<GroupResource>(status, about),
    };
    operation
        .with_example(example::<R>())
        .with_header(
            "ETag",
            "The version.",
            json!({ "type": "string", "pattern": "^W/\"[0-9]+\"$" }),
        )
        .with_header(location, "URL of the resource.", json!({ "type": "string", "format": "uri" }))
}

fn answers_page<R: Resource>(operation: Operation) -> Operation {
    let page = ListResponse::all(vec![example::<R>()]);
    match is_user::<R>() {
        true => operation
            .returns::<ListResponse<UserResource>>(StatusCode::OK, "A page of the results.")
            .with_example(page),
        false => operation
            .returns::<ListResponse<GroupResource>>(StatusCode::OK, "A page of the results.")
            .with_example(page),
    }
}

fn example<R: Resource>() -> Value {
    let mut resource = example_request::<R>();
    resource["id"] = ID.into();
    if is_user::<R>() {
        resource["schemas"] = json!([USER, ENTERPRISE]);
        resource["active"] = true.into();
        resource["lastSignInAt"] = super::resource::NEVER.into();
        resource[ENTERPRISE]["department"] = resource["department"].clone();
    } else {
        let path = super::resource::location(BASE, &USERS, uuid::Uuid::nil());
        resource["members"][0]["$ref"] = path.into();
        resource["members"][0]["type"] = USERS.name.into();
    }
    let ResourceSchema { name, endpoint, .. } = R::SCHEMA;
    resource["meta"] = json!({
        "resourceType": name, "created": "2026-11-21T08:00:00.000Z",
        "lastModified": "2026-11-21T08:00:00.000Z", "version": "W/\"1\"",
        "location": format!("{BASE}{}{endpoint}/{ID}", gateway::scim::PATH),
    });
    resource
}

fn example_request<R: Resource>() -> Value {
    match is_user::<R>() {
        true => json!({
            "schemas": [USER], "userName": "ann@acme.example",
            "name": { "givenName": "Ann", "familyName": "Lee" }, "department": "Marketing",
            "emails": [{ "value": "ann@acme.example", "type": "work", "primary": true }],
            "permissions": { "companyPermissions": ["admin"], "appGroup": [] },
        }),
        false => json!({
            "schemas": [GROUP], "displayName": "Marketing", "externalId": "8aa1a0c0",
            "members": [{ "value": uuid::Uuid::nil() }],
        }),
    }
}

/// Adds the body with a whole resource.
fn takes_one<R: Resource>(operation: Operation) -> Operation {
    match is_user::<R>() {
        true => operation.takes::<UserRequest>("A user", example_request::<R>()),
        false => operation.takes::<GroupRequest>("A group", example_request::<R>()),
    }
}

/// Links from a response with a resource to the operations on it.
fn linked<R: Resource>(operation: Operation) -> Operation {
    let to = match is_user::<R>() {
        true => ["readUser", "replaceUser", "patchUser", "deleteUser"],
        false => ["readGroup", "replaceGroup", "patchGroup", "deleteGroup"],
    };
    to.into_iter().fold(operation, |operation, to| {
        operation.with_link(to, json!({ "parameters": { "id": "$response.body#/id" } }))
    })
}

pub(super) fn list<R: Resource>() -> Operation {
    let number = |default: i64| {
        json!({
            "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX, "default": default,
        })
    };
    let example = match is_user::<R>() {
        true => "userName eq \"ann@acme.example\"",
        false => "displayName eq \"Marketing\"",
    };
    let operation =
        operation::<R>(Method::GET, ["listUsers", "listGroups"], ["List users", "List groups"])
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
                json!({ "type": "string", "examples": [example] }),
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
    let operation = answers_page::<R>(operation).refuses_some(
        ["filter=userName", "count=x"].map(|query| Query::from_query_string(query, R::SCHEMA)),
        "A parameter is invalid",
    );
    projected::<R>(operation)
}

fn searched(operation: Operation) -> Operation {
    let filter = "meta.created gt \"2026-11-21T08:00:00Z\"";
    operation.takes::<SearchRequest>(
        "New resources",
        json!({ "schemas": [schema::SEARCH], "filter": filter }),
    )
}

pub(super) fn search<R: Resource>() -> Operation {
    let operation = searched(operation::<R>(
        Method::POST,
        ["searchUsers", "searchGroups"],
        ["Search users with a request body", "Search groups with a request body"],
    ));
    answers_page::<R>(operation).refuses_some(
        [Query::from_body(&schema::Attributes::new(), R::SCHEMA)],
        "A field is invalid",
    )
}

/// The search of all kinds of resources.
pub(super) fn search_all() -> Operation {
    let operation = operation::<User>(Method::POST, ["search"; 2], ["Search users and groups"; 2])
        .about(
            "Users come before groups. If users or groups lack an attribute of the filter, none of \
             them match.",
        );
    searched(operation)
        .returns::<ListResponse<AnyResource>>(StatusCode::OK, "A page of the results.")
        .with_example(ListResponse::all(vec![example::<User>(), example::<Group>()]))
        .refuses_some([Query::from_body(&schema::Attributes::new(), &USERS)], "A field is invalid")
}

pub(super) fn create<R: Resource>() -> Operation {
    let about = of::<R>([
        "The `userName` must be unique, ignoring case.",
        "If the workspace file declares permission sets, the `displayName` must be the name of \
         one, and the members of the group have its permissions.",
    ]);
    let operation = operation::<R>(
        Method::POST,
        ["createUser", "createGroup"],
        ["Create a user", "Create a group"],
    )
    .about(about);
    let operation = takes_one::<R>(operation.repeatable());
    let operation = answers_one::<R>(operation, StatusCode::CREATED, "The resource is created.");
    let operation = linked::<R>(operation).refuses(&R::SCHEMA.taken(), "The name is in use");
    projected::<R>(wrong_body::<R>(operation))
}

fn wrong_body<R: Resource>(operation: Operation) -> Operation {
    let missing = schema::check_schemas(&schema::Attributes::new(), R::SCHEMA.urn);
    operation.refuses_some([missing], "An attribute is invalid, or the body is not a resource")
}

pub(super) fn read<R: Resource>() -> Operation {
    let operation =
        operation::<R>(Method::GET, ["readUser", "readGroup"], ["Read a user", "Read a group"])
            .parameter(json!({
                "in": "header", "name": "If-None-Match", "schema": { "type": "string" },
                "description": "Entity tags of versions. If the resource has one of these \
                                versions, the response is 304.",
                "example": "W/\"1\"",
            }));
    let operation = answers_one::<R>(operation, StatusCode::OK, "The resource.")
        .returns_empty(StatusCode::NOT_MODIFIED, "The resource's version is in `If-None-Match`.")
        .with_header("ETag", "The version.", json!({ "type": "string" }));
    of_one::<R>(projected::<R>(operation))
}

pub(super) fn replace<R: Resource>() -> Operation {
    let about = of::<R>([
        "Attributes that are missing in the body are removed, and `active` becomes true.",
        "Attributes that are missing in the body are removed, and the members are replaced.",
    ]);
    let operation = takes_one::<R>(
        operation::<R>(
            Method::PUT,
            ["replaceUser", "replaceGroup"],
            ["Replace a user", "Replace a group"],
        )
        .about(about),
    );
    let operation = answers_one::<R>(operation, StatusCode::OK, "The changed resource.")
        .refuses(&R::SCHEMA.taken(), "The name is in use");
    of_one::<R>(conditional::<R>(projected::<R>(wrong_body::<R>(operation))))
}

pub(super) fn patch<R: Resource>() -> Operation {
    let operation = operation::<R>(
        Method::PATCH,
        ["patchUser", "patchGroup"],
        ["Change a user", "Change a group"],
    );
    let operation = match is_user::<R>() {
        true => operation
            .about(
                "The operations are applied in order, all or none. A path identifies an attribute, \
                 such as `department`, `name.givenName`, `emails[type eq \"work\"].value` and \
                 `permissions.companyPermissions[value eq \"admin\"]`; filters in a path have the \
                 syntax of list filters, and compare sub-attributes of the value.",
            )
            .repeatable()
            .takes::<UserPatchRequest>(
                "Add a department, remove a permission",
                json!({
                    "schemas": [schema::PATCH],
                    "Operations": [
                        { "op": "replace", "path": "department", "value": "Sales" },
                        {
                            "op": "remove",
                            "path": "permissions.companyPermissions[value eq \"admin\"]",
                        },
                    ],
                }),
            ),
        false => operation
            .about("The operations are applied in order, all or none.")
            .repeatable()
            .takes::<GroupPatchRequest>(
            "Add a member",
            json!({
                "schemas": [schema::PATCH],
                "Operations": [
                    { "op": "add", "path": "members", "value": [{ "value": ID }] },
                ],
            }),
        ),
    };
    let bad = |kind, what: &'static str| ScimError::bad(kind, what);
    let operation = answers_one::<R>(operation, StatusCode::OK, "The changed resource.")
        .refuses(&R::SCHEMA.taken(), "The name is in use")
        .refuses(
            &bad(ScimType::InvalidPath, "path: unknown attribute \"x\""),
            "A path does not match an attribute",
        )
        .refuses(
            &bad(ScimType::NoTarget, "path: no value of appGroup matches the filter"),
            "No value matches the path",
        )
        .refuses(
            &bad(ScimType::Mutability, "id: read-only attribute"),
            "The attribute is read-only, or required and cannot be removed",
        );
    of_one::<R>(conditional::<R>(projected::<R>(wrong_body::<R>(operation))))
}

pub(super) fn delete<R: Resource>() -> Operation {
    let operation = operation::<R>(
        Method::DELETE,
        ["deleteUser", "deleteGroup"],
        ["Remove a user", "Remove a group"],
    )
    .returns_empty(StatusCode::NO_CONTENT, "The resource is deleted.");
    of_one::<R>(conditional::<R>(operation))
}
