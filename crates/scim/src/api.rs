//! The requests for resources (docs/reference/api/scim.md; RFC 7644, section 3).

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::auth::{TokenCaller, protected, protected_discovery};
use super::discovery::ListResponse;
use super::group::Group;
use super::operations::DescribedResource;
use super::patch::Patch;
use super::projection::Projection;
use super::query::Query;
use super::resource::{self, Resource, Stored, User, Written};
use super::rows;
use super::schema::{self, Attributes, ResourceSchema};
use super::{discovery, operations};
use crate::app::App;
use gateway::idempotency::{Begun, StoredResponse};
use gateway::scim::CONTENT_TYPE;
use gateway::scim::{ScimError, ScimType};
use gateway::{ApiError, IdempotencyKey, JsonText, Routes, idempotency};
use store::{StoreError, Tx};

pub(super) type Result<T, E = ScimError> = std::result::Result<T, E>;

/// Maximum bytes of a body: enough for a few users of maximum size.
const MAX_BODY_BYTES: usize = 256 << 10;

/// The routes of SCIM.
pub fn routes() -> Routes<App> {
    resources::<User>()
        .merge(resources::<Group>())
        .route("/.search", protected(post(search_all)), [operations::search_all()])
        .route("/Me", protected_discovery(get(me).post(me).put(me).patch(me).delete(me)), [])
        .merge(discovery::routes())
        .route("/{*rest}", any(no_path), [])
        .route("/", any(no_path), [])
        .below(gateway::scim::PATH)
}

/// The routes of one kind of resource. Some clients write a slash at the end of paths.
fn resources<R: DescribedResource>() -> Routes<App> {
    let collection = || protected(get(list::<R>).post(create::<R>));
    let resource =
        || protected(get(read::<R>).put(replace::<R>).patch(modify::<R>).delete(remove::<R>));
    let resource_operations = [
        operations::read::<R>(),
        operations::replace::<R>(),
        operations::patch::<R>(),
        operations::delete::<R>(),
    ];
    let path = R::SCHEMA.endpoint;
    Routes::new()
        .route(path, collection(), [operations::list::<R>(), operations::create::<R>()])
        .route(&format!("{path}/"), collection(), [])
        .route(
            &format!("{path}/.search"),
            protected(post(search::<R>)),
            [operations::search::<R>()],
        )
        .route(&format!("{path}/{{id}}"), resource(), resource_operations)
        .route(&format!("{path}/{{id}}/"), resource(), [])
}

/// `/Me`: not supported, because a token does not identify a user.
async fn me() -> ScimError {
    ScimError::new(StatusCode::NOT_IMPLEMENTED, "A SCIM token does not identify a user")
}

async fn no_path() -> ApiError {
    ApiError::NotFound("Unknown path".into())
}

/// `GET /Users`.
async fn list<R: Resource>(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    page::<R>(&app, &Query::from_query_string(query.as_deref().unwrap_or_default(), R::SCHEMA)?)
        .await
}

/// `POST /Users/.search`. It changes nothing, so an idempotency key has no effect.
async fn search<R: Resource>(
    State(app): State<App>,
    _key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    page::<R>(&app, &Query::from_body(&attributes(&body)?, R::SCHEMA)?).await
}

/// `POST /.search`: users, then groups. A kind of resource without an attribute of the filter has
/// no matches.
async fn search_all(
    State(app): State<App>,
    _key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    let body = attributes(&body)?;
    let users = Query::from_body(&body, User::SCHEMA);
    let groups = Query::from_body(&body, Group::SCHEMA);
    let base = app.config.public_base();
    let mut tx = app.request_queue.snapshot().await?;
    let (mut total, mut shown, mut start) = (0, Vec::new(), 1);
    let groups = match (users, groups) {
        (Err(error), Err(_)) => return Err(error),
        (users, groups) => {
            if let Ok(users) = users {
                start = users.start_index;
                (total, shown) = find::<User>(&mut tx, &users, &base).await?;
            }
            groups.ok()
        }
    };
    if let Some(mut groups) = groups {
        start = groups.start_index;
        groups.start_index = start.saturating_sub(total).max(1);
        groups.count -= shown.len() as i64;
        let (group_count, page) = find::<Group>(&mut tx, &groups, &base).await?;
        total += group_count;
        shown.extend(page);
    }
    tx.commit().await?;
    Ok(response(StatusCode::OK, &ListResponse::page(total, start, shown)))
}

async fn page<R: Resource>(app: &App, query: &Query) -> Result<Response> {
    let mut tx = app.request_queue.snapshot().await?;
    let (total, shown) = find::<R>(&mut tx, query, &app.config.public_base()).await?;
    tx.commit().await?;
    Ok(response(StatusCode::OK, &ListResponse::page(total, query.start_index, shown)))
}

/// The number of resources that match a query, and a page of them in the returned form.
async fn find<R: Resource>(
    tx: &mut Tx,
    query: &Query,
    base: &str,
) -> Result<(i64, Vec<Attributes>)> {
    let (total, page) = rows::search::<R>(tx, query, base).await?;
    let shown = page.iter().map(|stored| {
        let mut shown = stored.shown(base)?;
        query.projection.apply(&mut shown);
        Ok(shown)
    });
    Ok((total, shown.collect::<Result<_>>()?))
}

/// `POST /Users`.
async fn create<R: Resource>(
    State(app): State<App>,
    Extension(caller): Extension<TokenCaller>,
    RawQuery(query): RawQuery,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    let projection = projection::<R>(query)?;
    let written = Written::from_body(attributes(&body)?, R::SCHEMA)?;
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => return resource_response(response, &projection),
        Begun::Turn(turn) => turn,
    };
    let (tx, now) = (&mut turn.tx, app.clock.now_ms());
    let new = R::read(tx, written, None).await?;
    let (action, former, stored) = match new.adopted(tx).await? {
        Some(stored) => {
            let written = Written::from_resource(&new)?;
            let new = R::read(tx, written, Some(&stored)).await?;
            let former = stored.value.attributes()?;
            ("scim.update", former, update(tx, stored, new, now).await?)
        }
        None => {
            let stored = rows::insert(tx, &new, false, now).await.map_err(name_conflict::<R>)?;
            R::link(tx, &stored, None, now).await?;
            ("scim.create", Attributes::new(), stored)
        }
    };
    let attributes = stored.value.attributes()?;
    let change = (action, audit_object::<R>(stored.id));
    caller.record(tx, now, change, &changed_names(&former, &attributes)).await?;
    let response = stored_response(StatusCode::CREATED, &stored, &app.config.public_base())?;
    resource_response(turn.commit(response).await?, &projection)
}

/// `GET /Users/{id}`.
async fn read<R: Resource>(
    State(app): State<App>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response> {
    let (id, projection) = (resource_id::<R>(id)?, projection::<R>(query)?);
    let mut tx = app.request_queue.snapshot().await?;
    let stored = rows::by_id::<R>(&mut tx, id).await?.ok_or_else(|| R::SCHEMA.unknown())?;
    tx.commit().await?;
    if lists_version(&headers, header::IF_NONE_MATCH, stored.version) == Some(true) {
        let etag = [(header::ETAG, resource::etag(stored.version))];
        return Ok((StatusCode::NOT_MODIFIED, etag).into_response());
    }
    resource_response(
        stored_response(StatusCode::OK, &stored, &app.config.public_base())?,
        &projection,
    )
}

/// `PUT /Users/{id}`: removes attributes that the body does not have.
async fn replace<R: Resource>(
    State(app): State<App>,
    Extension(caller): Extension<TokenCaller>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: JsonText,
) -> Result<Response> {
    let (id, projection) = (resource_id::<R>(id)?, projection::<R>(query)?);
    let written = Written::from_body(attributes(&body)?, R::SCHEMA)?;
    let change = Change { app: &app, caller, id, headers };
    let response = change.apply::<R>(None, &body, move |_| Ok(written)).await?;
    resource_response(response, &projection)
}

/// `PATCH /Users/{id}`.
async fn modify<R: Resource>(
    State(app): State<App>,
    Extension(caller): Extension<TokenCaller>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    let (id, projection) = (resource_id::<R>(id)?, projection::<R>(query)?);
    let patch = Patch::read(attributes(&body)?, R::SCHEMA)?;
    let key = key.map(|key| key.within(&id.to_string()));
    let change = Change { app: &app, caller, id, headers };
    let response = change.apply::<R>(key, &body, |mut attributes| {
        patch.apply(&mut attributes)?;
        let attributes = R::SCHEMA.read(attributes)?;
        Ok(Written { attributes, department: None, replaces: false })
    });
    resource_response(response.await?, &projection)
}

/// `DELETE /Users/{id}`.
async fn remove<R: Resource>(
    State(app): State<App>,
    Extension(caller): Extension<TokenCaller>,
    id: Result<Path<Uuid>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let id = resource_id::<R>(id)?;
    let now = app.clock.now_ms();
    let mut tx = app.request_queue.write().await?;
    R::unlink(&mut tx, id, now).await?;
    let stored = rows::locked::<R>(&mut tx, id).await?.ok_or_else(|| R::SCHEMA.unknown())?;
    check_version(&headers, &stored)?;
    rows::delete(&mut tx, stored, now).await?;
    caller.record(&mut tx, now, ("scim.delete", audit_object::<R>(id)), &[]).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A change of an existing resource.
struct Change<'a> {
    app: &'a App,
    caller: TokenCaller,
    id: Uuid,
    headers: HeaderMap,
}

impl Change<'_> {
    /// Changes the resource's attributes. A change without effect keeps the version.
    async fn apply<R: Resource>(
        self,
        key: Option<IdempotencyKey>,
        body: &JsonText,
        change: impl FnOnce(Attributes) -> Result<Written>,
    ) -> Result<StoredResponse> {
        let Self { app, caller, id, headers } = self;
        let mut turn = match idempotency::begin_change(app, key, body.as_bytes()).await? {
            Begun::Replay(response) => return Ok(response),
            Begun::Turn(turn) => turn,
        };
        let (tx, now) = (&mut turn.tx, app.clock.now_ms());
        let stored = rows::locked::<R>(tx, id).await?;
        let stored = stored.ok_or_else(|| R::SCHEMA.unknown())?;
        check_version(&headers, &stored)?;
        let former = stored.value.attributes()?;
        let written = change(former.clone())?;
        let new = R::read(tx, written, Some(&stored)).await?;
        let stored = if new == stored.value {
            stored
        } else {
            let stored = update(tx, stored, new, now).await?;
            let attributes = stored.value.attributes()?;
            let change = ("scim.update", audit_object::<R>(id));
            caller.record(tx, now, change, &changed_names(&former, &attributes)).await?;
            stored
        };
        let response = stored_response(StatusCode::OK, &stored, &app.config.public_base())?;
        Ok(turn.commit(response).await?)
    }
}

async fn update<R: Resource>(
    tx: &mut Tx,
    stored: Stored<R>,
    new: R,
    now: i64,
) -> Result<Stored<R>> {
    let former = stored.value.clone();
    let stored = rows::update(tx, stored, new, now).await.map_err(name_conflict::<R>)?;
    R::link(tx, &stored, Some(&former), now).await?;
    Ok(stored)
}

/// A resource in the audit log.
fn audit_object<R: Resource>(id: Uuid) -> String {
    format!("{}/{id}", R::SCHEMA.name)
}

/// The names of the attributes with different values.
fn changed_names<'a>(former: &'a Attributes, new: &'a Attributes) -> Vec<&'a str> {
    let names: BTreeSet<&String> = former.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter(|name| former.get(*name) != new.get(*name));
    changed.map(String::as_str).collect()
}

/// The attributes in a body.
pub fn attributes(body: &JsonText) -> Result<Attributes> {
    if body.bytes() > MAX_BODY_BYTES {
        return Err(ApiError::TooLarge.into());
    }
    let attributes = body.object().map_err(|error| match error {
        ApiError::Invalid(text) | ApiError::Field(_, text) => {
            ScimError::bad(ScimType::InvalidSyntax, text)
        }
        error => error.into(),
    })?;
    schema::check_unique(&attributes)?;
    Ok(attributes)
}

/// An invalid id counts as unknown.
fn resource_id<R: Resource>(id: Result<Path<Uuid>, PathRejection>) -> Result<Uuid> {
    id.map(|Path(id)| id).map_err(|_| R::SCHEMA.unknown())
}

fn projection<R: Resource>(query: Option<String>) -> Result<Projection> {
    Ok(Query::from_query_string(query.as_deref().unwrap_or_default(), R::SCHEMA)?.projection)
}

fn name_conflict<R: Resource>(error: StoreError) -> ScimError {
    if error.is_unique_violation() { R::SCHEMA.name_in_use() } else { error.into() }
}

pub(super) fn changed(schema: &ResourceSchema) -> ScimError {
    let kind = schema.name.to_ascii_lowercase();
    ScimError::new(
        StatusCode::PRECONDITION_FAILED,
        format!("The {kind} was changed by another request: read it again"),
    )
}

/// Rejects a change if the client's `If-Match` does not have the stored version.
fn check_version<R: Resource>(headers: &HeaderMap, stored: &Stored<R>) -> Result<()> {
    match lists_version(headers, header::IF_MATCH, stored.version) {
        Some(false) => Err(changed(R::SCHEMA)),
        Some(true) | None => Ok(()),
    }
}

/// Whether a header has this version; none if it is absent.
fn lists_version(headers: &HeaderMap, name: header::HeaderName, version: i64) -> Option<bool> {
    let etag = resource::etag(version);
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let is_version = |tag: &str| {
        let tag = tag.trim();
        tag == "*" || tag.trim_start_matches("W/") == etag.trim_start_matches("W/")
    };
    Some(values.filter_map(|value| value.to_str().ok()).any(|tags| tags.split(',').any(is_version)))
}

/// The response with a resource, in the form that is stored with an `Idempotency-Key`.
fn stored_response<R: Resource>(
    status: StatusCode,
    stored: &Stored<R>,
    base: &str,
) -> Result<StoredResponse> {
    let body = Value::from(stored.shown(base)?).to_string();
    Ok(StoredResponse::new(status, body))
}

/// The response with a resource, complete or reduced to the requested attributes.
fn resource_response(stored: StoredResponse, projection: &Projection) -> Result<Response> {
    let mut shown: Attributes = serde_json::from_str(&stored.body)
        .map_err(|error| ApiError::Internal(format!("stored response: {error}")))?;
    let meta = |name: &str| shown["meta"][name].as_str().and_then(|text| text.parse().ok());
    let (location, version): (Option<HeaderValue>, Option<HeaderValue>) =
        (meta("location"), meta("version"));
    projection.apply(&mut shown);
    let mut response = response(stored.status, &shown);
    let headers = response.headers_mut();
    headers.extend(version.map(|version| (header::ETAG, version)));
    headers.extend(location.map(|location| {
        let is_created = stored.status == StatusCode::CREATED;
        (if is_created { header::LOCATION } else { header::CONTENT_LOCATION }, location)
    }));
    Ok(response)
}

pub(super) fn response(status: StatusCode, body: &impl Serialize) -> Response {
    let scim = HeaderValue::from_static(CONTENT_TYPE);
    (status, [(header::CONTENT_TYPE, scim)], json!(body).to_string()).into_response()
}
