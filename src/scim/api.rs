//! The calls (src/gateway/README.md, Dashboard users over SCIM; RFC 7644, section 3).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::auth::protected;
use super::discovery::ListResponse;
use super::patch::Patch;
use super::projection::Projection;
use super::query::Query;
use super::resource::{self, AppGroup, User};
use super::rows::{self, NewUser, StoredUser};
use super::schema::{self, Attributes, USER};
use super::{discovery, operations};
use crate::app::App;
use crate::gateway::idempotency::Answer;
use crate::gateway::scim::CONTENT_TYPE;
use crate::gateway::scim::{ScimError, ScimType};
use crate::gateway::{ApiError, IdempotencyKey, JsonText, Routes, idempotency};
use crate::workspaces;
use store::{StoreError, Tx};

pub(super) type Result<T, E = ScimError> = std::result::Result<T, E>;

/// The most bytes of a body: some users in all that they may have.
const LARGEST_BODY: usize = 256 << 10;

/// The routes of SCIM.
pub fn routes() -> Routes {
    let users = protected(get(list).post(create));
    let user = protected(get(read).put(replace).patch(modify).delete(remove));
    let of_user =
        [operations::read(), operations::replace(), operations::patch(), operations::delete()];
    Routes::new()
        .route("/Users", users, [operations::list(), operations::create()])
        .route("/Users/.search", protected(post(search)), [operations::search("searchUsers")])
        .route("/.search", protected(post(search)), [operations::search("search")])
        .route("/Users/{id}", user, of_user)
        .merge(discovery::routes())
        .route("/{*rest}", any(nothing), [])
        .route("/", any(nothing), [])
        .below(crate::gateway::scim::PATH)
}

async fn nothing() -> ApiError {
    ApiError::NotFound("Unknown path".into())
}

/// `GET /Users`.
async fn list(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response> {
    page(&app, &Query::of_address(query.as_deref().unwrap_or_default())?).await
}

/// `POST /.search`: searches users, the only resources. It changes nothing, so an idempotency key
/// has no effect.
async fn search(
    State(app): State<App>,
    _key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    page(&app, &Query::of_body(&attributes(&body)?)?).await
}

async fn page(app: &App, query: &Query) -> Result<Response> {
    let mut tx = app.calls.snapshot().await?;
    let (total, users) =
        rows::search(&mut tx, &query.filter, query.start_index - 1, query.count).await?;
    tx.commit().await?;
    let base = app.config.public_base();
    let shown = users.iter().map(|user| {
        let mut user = resource::shown(user, &base)?;
        query.projection.apply(&mut user);
        Ok(user)
    });
    let shown: Vec<Attributes> = shown.collect::<Result<_>>()?;
    Ok(answer(StatusCode::OK, &ListResponse::page(total, query.start_index, shown)))
}

/// `POST /Users`.
async fn create(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    let projection = projection(query)?;
    let attributes = user_attributes(&body)?;
    let (base, now) = (app.config.public_base(), app.clock.now_ms());
    let answer = idempotency::transact(&app, key.as_ref(), body.as_bytes(), |tx| {
        Box::pin(async move {
            let user = User::of(attributes, &app_groups(tx).await?)?;
            let new = NewUser { user: &user, declared: false };
            let stored = rows::insert(tx, new, now).await.map_err(taken)?;
            kept(StatusCode::CREATED, &stored, &base)
        })
    })
    .await?;
    resource_answer(answer, &projection)
}

/// `GET /Users/{id}`.
async fn read(
    State(app): State<App>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response> {
    let (id, projection) = (user_id(id)?, projection(query)?);
    let mut tx = app.calls.snapshot().await?;
    let stored = rows::by_id(&mut tx, id).await?.ok_or_else(ScimError::no_user)?;
    tx.commit().await?;
    if names(&headers, header::IF_NONE_MATCH, stored.version) == Some(true) {
        let etag = [(header::ETAG, resource::etag(stored.version))];
        return Ok((StatusCode::NOT_MODIFIED, etag).into_response());
    }
    resource_answer(kept(StatusCode::OK, &stored, &app.config.public_base())?, &projection)
}

/// `PUT /Users/{id}`: what the body does not have, the user has no more.
async fn replace(
    State(app): State<App>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: JsonText,
) -> Result<Response> {
    let (id, projection) = (user_id(id)?, projection(query)?);
    let attributes = user_attributes(&body)?;
    let change = Change { app: &app, id, headers };
    let answer = change.make(None, &body, move |_| Ok(attributes)).await?;
    resource_answer(answer, &projection)
}

/// `PATCH /Users/{id}`.
async fn modify(
    State(app): State<App>,
    id: Result<Path<Uuid>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<Response> {
    let (id, projection) = (user_id(id)?, projection(query)?);
    let patch = Patch::read(attributes(&body)?)?;
    let key = key.map(|key| key.within(&id.to_string()));
    let change = Change { app: &app, id, headers };
    let answer = change.make(key, &body, |mut user| {
        patch.apply(&mut user)?;
        schema::read_user(user)
    });
    resource_answer(answer.await?, &projection)
}

/// `DELETE /Users/{id}`.
async fn remove(
    State(app): State<App>,
    id: Result<Path<Uuid>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode> {
    let id = user_id(id)?;
    let mut tx = app.calls.write().await?;
    let stored = rows::locked(&mut tx, id).await?.ok_or_else(ScimError::no_user)?;
    check_version(&headers, &stored)?;
    rows::delete(&mut tx, id).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A change of a user that there is.
struct Change<'a> {
    app: &'a App,
    id: Uuid,
    headers: HeaderMap,
}

impl Change<'_> {
    /// Changes the user's attributes. A change without effect keeps the version.
    async fn make(
        self,
        key: Option<IdempotencyKey>,
        body: &JsonText,
        make: impl FnOnce(Attributes) -> Result<Attributes> + Send + 'static,
    ) -> Result<Answer> {
        let Self { app, id, headers } = self;
        let (base, now) = (app.config.public_base(), app.clock.now_ms());
        idempotency::transact(app, key.as_ref(), body.as_bytes(), |tx| {
            Box::pin(async move {
                let stored = rows::locked(tx, id).await?.ok_or_else(ScimError::no_user)?;
                check_version(&headers, &stored)?;
                let attributes = make(stored.user.attributes()?)?;
                let user = User::of(attributes, &app_groups(tx).await?)?;
                let stored = match user == stored.user {
                    true => stored,
                    false => rows::update(tx, stored, user, now).await.map_err(taken)?,
                };
                kept(StatusCode::OK, &stored, &base)
            })
        })
        .await
    }
}

/// The app groups that there are.
pub(super) async fn app_groups(tx: &mut Tx) -> Result<Vec<AppGroup>, StoreError> {
    let workspaces = workspaces::list(tx).await?;
    Ok(workspaces.iter().map(|workspace| AppGroup::of(&workspace.name)).collect())
}

/// The members of a body.
pub fn attributes(body: &JsonText) -> Result<Attributes> {
    if body.bytes() > LARGEST_BODY {
        return Err(ApiError::TooLarge.into());
    }
    body.object().map_err(|error| match error {
        ApiError::Invalid(text) | ApiError::Field(_, text) => {
            ScimError::bad(ScimType::InvalidSyntax, text)
        }
        error => error.into(),
    })
}

/// The attributes of a body with a user.
pub fn user_attributes(body: &JsonText) -> Result<Attributes> {
    let attributes = attributes(body)?;
    schema::check_schemas(&attributes, USER)?;
    let mut attributes = schema::read_user(attributes)?;
    attributes.entry("active").or_insert(true.into());
    Ok(attributes)
}

/// An invalid id is unknown.
fn user_id(id: Result<Path<Uuid>, PathRejection>) -> Result<Uuid> {
    id.map(|Path(id)| id).map_err(|_| ScimError::no_user())
}

fn projection(query: Option<String>) -> Result<Projection> {
    Ok(Query::of_address(query.as_deref().unwrap_or_default())?.projection)
}

fn taken(error: StoreError) -> ScimError {
    if error.is_unique_violation() { ScimError::taken() } else { error.into() }
}

pub(super) fn changed() -> ScimError {
    ScimError::of(
        StatusCode::PRECONDITION_FAILED,
        "The user was changed by another request: read it again",
    )
}

/// Refuses to change another version than the client means.
fn check_version(headers: &HeaderMap, stored: &StoredUser) -> Result<()> {
    match names(headers, header::IF_MATCH, stored.version) {
        Some(false) => Err(changed()),
        Some(true) | None => Ok(()),
    }
}

/// Whether a header has this version; none if it is absent.
fn names(headers: &HeaderMap, name: header::HeaderName, version: i64) -> Option<bool> {
    let etag = resource::etag(version);
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let is_named = |tag: &str| {
        let tag = tag.trim();
        tag == "*" || tag.trim_start_matches("W/") == etag.trim_start_matches("W/")
    };
    Some(values.filter_map(|value| value.to_str().ok()).any(|tags| tags.split(',').any(is_named)))
}

/// A user as returned, and stored with an `Idempotency-Key`.
fn kept(status: StatusCode, stored: &StoredUser, base: &str) -> Result<Answer> {
    let body = Value::from(resource::shown(stored, base)?).to_string();
    Ok(Answer { status, body })
}

/// The response with a user: complete as it was stored, or a part.
fn resource_answer(kept: Answer, projection: &Projection) -> Result<Response> {
    let mut user: Attributes = serde_json::from_str(&kept.body)
        .map_err(|error| ApiError::Internal(format!("stored response: {error}")))?;
    let meta = |name: &str| user["meta"][name].as_str().and_then(|text| text.parse().ok());
    let (location, version): (Option<HeaderValue>, Option<HeaderValue>) =
        (meta("location"), meta("version"));
    projection.apply(&mut user);
    let mut response = answer(kept.status, &user);
    let headers = response.headers_mut();
    headers.extend(version.map(|version| (header::ETAG, version)));
    headers.extend(location.map(|location| {
        let name = match kept.status {
            StatusCode::CREATED => header::LOCATION,
            _ => header::CONTENT_LOCATION,
        };
        (name, location)
    }));
    Ok(response)
}

pub(super) fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let scim = HeaderValue::from_static(CONTENT_TYPE);
    (status, [(header::CONTENT_TYPE, scim)], json!(body).to_string()).into_response()
}
