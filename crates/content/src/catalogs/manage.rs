//! Requests that list, create and delete catalogs, and read items.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, delete, get};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{INVALID, Names, TAG, names, plain_name};
use super::check::{CatalogFault, Code as FaultCode, Faults};
use super::rows;
use super::{Catalog, Field, ID, MAX_FIELDS, Type, check_field_name, is_plain_name, known};
use crate::app::App;
use gateway::formats::{Errors, List, Success, SuccessText};
use gateway::idempotency::{self, Begun, StoredResponse};
use gateway::{
    self, Access, ApiError, Caller, IdempotencyKey, JsonText, NoFields, Operation, Recording,
    Routes, fields, parameter,
};
use runtime::audit::Change;
use store::documents::parsed;
use store::{StoreError, Tx};

const LIST: &str = "catalogs.get";
const CREATE: &str = "catalogs.create";
const DELETE: &str = "catalogs.delete";
const GET_ITEMS: &str = "catalogs.get_items";
const GET_ITEM: &str = "catalogs.get_item";

/// Number of items per page.
const PAGE: i64 = 50;

/// If a workspace has this many catalogs, requests create no more.
const MAX_CATALOGS: usize = 200;

pub(super) fn routes() -> Routes<App> {
    let catalogs = gateway::protected(LIST, get(list))
        .merge(gateway::protected(CREATE, axum::routing::post(create)));
    let catalog = gateway::protected(DELETE, delete(remove));
    Routes::new().route("/catalogs", catalogs, [describe_list(), describe_create()]).route(
        "/catalogs/{catalog_name}",
        catalog,
        [describe_delete()],
    )
}

pub(super) fn items_route() -> MethodRouter<App> {
    gateway::protected(GET_ITEMS, get(items))
}

pub(super) fn item_route() -> MethodRouter<App> {
    gateway::protected(GET_ITEM, get(item))
}

// Catalogs -----------------------------------------------------------------------------------

fn describe_list() -> Operation {
    Operation::new(Method::GET, "listCatalogs", TAG, "List catalogs")
        .by(Access::Key(LIST))
        .about("Sorted by name, with the number of items of each.")
        .returns::<Listed>(StatusCode::OK, "The catalogs.")
        .with_example(json!({ "message": "success", "catalogs": [{
            "name": "restaurants", "description": "", "num_items": 2,
            "fields": [{ "name": "id", "type": "string" }, { "name": "City", "type": "string" }],
        }] }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CatalogList")]
struct Listed {
    message: SuccessText,
    catalogs: Vec<Entry>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CatalogEntry")]
struct Entry {
    name: String,
    /// Always empty.
    description: &'static str,
    num_items: i64,
    /// The field `id`, then the other fields of the catalog's items.
    fields: Vec<Field>,
}

async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<Listed>, ApiError> {
    let _turn = app.count_turns.wait(caller.workspace.id).await?;
    let mut tx = app.request_queue.snapshot().await?;
    let counted = rows::counted(&mut tx, caller.workspace.id).await?;
    let entry = |(catalog, num_items): (Catalog, i64)| {
        let id = Field { name: ID.to_owned(), kind: Type::String };
        let fields = std::iter::once(id).chain(catalog.fields.all().iter().cloned()).collect();
        Entry { name: catalog.name, description: "", num_items, fields }
    };
    let catalogs = counted.into_iter().map(entry).collect();
    Ok(axum::Json(Listed { message: SuccessText::Success, catalogs }))
}

/// A catalog to create.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateCatalogRequest")]
struct Create {
    catalogs: List<NewCatalog, 1, 1>,
}

#[derive(Deserialize, JsonSchema)]
struct NewCatalog {
    #[schemars(regex(pattern = plain_name()))]
    name: String,
    /// The first field must have the name `id` and the type `string`; the other fields follow.
    fields: List<NewField, 1, { MAX_FIELDS + 1 }>,
}

/// A field of a catalog.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "NewFieldParts")]
#[schemars(with = "NewFieldParts", inline)]
struct NewField(Field);

/// A field of a catalog.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewCatalogField")]
struct NewFieldParts {
    name: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = Type::ALL.map(Type::name)))]
    kind: String,
}

impl TryFrom<NewFieldParts> for NewField {
    type Error = String;

    fn try_from(NewFieldParts { name, kind }: NewFieldParts) -> Result<Self, String> {
        let kinds = Type::ALL.map(Type::name).join(", ");
        let kind = Type::ALL.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or_else(|| format!(".type must be one of {kinds}"))?;
        Ok(Self(Field { name, kind }))
    }
}

fn describe_create() -> Operation {
    Operation::new(Method::POST, "createCatalog", TAG, "Create a catalog")
        .by(Access::Key(CREATE))
        .about(
            "Creates one catalog, in addition to those that the workspace file declares. Other \
             gateways accept its name within five seconds. `longshore apply --prune` deletes \
             catalogs that the file does not declare.",
        )
        .repeatable()
        .takes::<Create>(
            "A catalog of two fields",
            json!({ "catalogs": [{ "name": "restaurants", "fields": [
                { "name": "id", "type": "string" }, { "name": "City", "type": "string" },
                { "name": "Rating", "type": "number" },
            ] }] }),
        )
        .returns_success(StatusCode::CREATED, "The catalog is created.")
        .refuses(&ApiError::Conflict(NAME_EXISTS.into()), "A catalog with this name already exists")
}

const NAME_EXISTS: &str = "A catalog with this name already exists";

impl NewCatalog {
    /// The name, and the fields except `id`.
    fn checked(self) -> Result<(String, Vec<Field>), String> {
        if !is_plain_name(&self.name) {
            return Err("catalogs[0].name: expected 1 to 250 letters, digits, - and _".into());
        }
        let mut fields = self.fields.0.into_iter().map(|NewField(field)| field);
        if fields.next().is_none_or(|first| first.name != ID || first.kind != Type::String) {
            return Err("catalogs[0].fields[0] must have the name id and the type string".into());
        }
        let fields: Vec<Field> = fields.collect();
        for (index, field) in fields.iter().enumerate() {
            let is_duplicate = fields[..index].iter().any(|other| other.name == field.name);
            let checked = check_field_name(&field.name).and_then(|()| {
                if is_duplicate { Err("duplicate field".to_owned()) } else { Ok(()) }
            });
            checked.map_err(|why| format!("catalogs[0].fields[{}].name: {why}", index + 1))?;
        }
        Ok((self.name, fields))
    }
}

async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    key: Option<IdempotencyKey>,
    body: JsonText,
) -> Result<StoredResponse, ApiError> {
    let Create { catalogs: List(mut catalogs) } = fields::read(&body.object_in_place(&app)?)?;
    let Some(new) = catalogs.pop() else {
        return Err(ApiError::invalid_field("catalogs must have 1 element"));
    };
    let (name, fields) = new.checked().map_err(ApiError::invalid_field)?;
    let mut turn = match idempotency::begin_change(&app, key, body.as_bytes()).await? {
        Begun::Replay(response) => {
            // This gateway may not know the catalog yet.
            known::evict(&app, caller.workspace.id);
            return Ok(response);
        }
        Begun::Turn(turn) => turn,
    };
    let workspace = caller.workspace.id;
    let existing = rows::names(&mut turn.tx, workspace).await?;
    if existing.iter().any(|(_, other)| *other == name) {
        return Err(ApiError::Conflict(NAME_EXISTS.into()));
    }
    if existing.len() >= MAX_CATALOGS {
        let text = format!("A workspace can have at most {MAX_CATALOGS} catalogs");
        return Err(ApiError::Invalid(text));
    }
    let now = app.clock.now_ms();
    let inserted = rows::insert(&mut turn.tx, workspace, &name, &fields, now).await;
    // Another request created it at the same time.
    if inserted.as_ref().is_err_and(StoreError::is_unique_violation) {
        return Err(ApiError::Conflict(NAME_EXISTS.into()));
    }
    inserted?;
    let details = json!({ "after": { "fields": fields.len() } });
    let change = Change::new("catalog.create", &*name, details);
    let recording = caller.record(&mut turn.tx, now, change).await?;
    let response =
        turn.commit(StoredResponse::json(StatusCode::CREATED, &Success::default())?).await?;
    tracing::info!(catalog = name, "catalog created");
    known::evict(&app, workspace);
    Ok(response.recorded(recording))
}

fn describe_delete() -> Operation {
    with_catalog(Operation::new(Method::DELETE, "deleteCatalog", TAG, "Delete a catalog"), DELETE)
        .about(
            "Deletes the catalog and its items. If the workspace file declares it, it is created \
             again by the next `longshore apply`.",
        )
        .takes_no_fields()
        .returns_success(StatusCode::ACCEPTED, "The catalog is deleted.")
        .refuses(&no_catalog("cafes"), "The catalog does not exist")
        .refuses_in::<Errors<'_, CatalogFault<'_>>>(StatusCode::NOT_FOUND)
}

async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    path: Names,
    _: NoFields,
) -> Result<(StatusCode, Recording, axum::Json<Success>), ApiError> {
    let ((name, _), workspace) = (names(path), caller.workspace.id);
    let mut tx = app.request_queue.write().await?;
    let catalog = find(&mut tx, workspace, &name).await?;
    rows::lock(&mut tx, &[catalog.id]).await?;
    rows::delete(&mut tx, catalog.id).await?;
    let change = Change::new("catalog.delete", &*name, json!({}));
    let recording = caller.record(&mut tx, app.clock.now_ms(), change).await?;
    tx.commit().await?;
    tracing::info!(catalog = name, "catalog deleted");
    known::evict(&app, workspace);
    Ok((StatusCode::ACCEPTED, recording, axum::Json(Success::default())))
}

// Items --------------------------------------------------------------------------------------

/// Adds the permission and the catalog in the path.
pub(super) fn with_catalog(operation: Operation, permission: &'static str) -> Operation {
    operation.by(Access::Key(permission)).in_path(
        "catalog_name",
        "A catalog of the workspace.",
        json!({ "type": "string", "pattern": plain_name(), "examples": ["restaurants"] }),
    )
}

/// Adds the item in the path.
pub(super) fn with_item(operation: Operation) -> Operation {
    operation.in_path(
        "item_id",
        "The item.",
        json!({ "type": "string", "pattern": plain_name(), "examples": ["restaurant1"] }),
    )
}

/// Items of a catalog, each with its id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CatalogItems")]
struct Items {
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    items: Vec<Box<RawValue>>,
    message: SuccessText,
}

pub(super) fn describe_items() -> Operation {
    with_catalog(
        Operation::new(Method::GET, "listItems", TAG, "List items of a catalog"),
        GET_ITEMS,
    )
    .about(format!(
        "Sorted by id, {PAGE} per page, or fewer if they are large. If there are more items, \
         `Link` has the URL of the next page."
    ))
    .in_query(
        "cursor",
        "Start of the page: the `cursor` in the `Link` header of the previous response.",
        json!({ "type": "string" }),
    )
    .returns::<Items>(StatusCode::OK, "A page of the list.")
    .with_example(json!({ "message": "success", "items": [{ "id": "r1", "City": "Oslo" }] }))
    .refuses(&ApiError::invalid_field("cursor must be from a Link header"), "The cursor is invalid")
    .refuses(&no_catalog("cafes"), "The catalog does not exist")
    .refuses_in::<Errors<'_, CatalogFault<'_>>>(StatusCode::NOT_FOUND)
}

pub(super) fn describe_item() -> Operation {
    let operation = Operation::new(Method::GET, "getItem", TAG, "Get an item");
    with_item(with_catalog(operation, GET_ITEM))
        .returns::<Items>(StatusCode::OK, "The item, alone in `items`.")
        .with_example(json!({ "message": "success", "items": [{ "id": "r1", "City": "Oslo" }] }))
        .refuses(&no_catalog("cafes"), "The catalog does not exist")
        .refuses(&no_item("r2"), "The item does not exist")
        .refuses_in::<Errors<'_, CatalogFault<'_>>>(StatusCode::NOT_FOUND)
}

async fn items(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    path: Names,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let cursor =
        parameter(query.as_deref().unwrap_or_default(), "cursor", "from a Link header", |text| {
            is_plain_name(text).then(|| text.to_owned())
        });
    let after = cursor.map_err(ApiError::invalid_field)?.unwrap_or_default();
    let mut tx = app.request_queue.snapshot().await?;
    let catalog = find(&mut tx, caller.workspace.id, &names(path).0).await?;
    let rows::ItemPage { items, has_more } =
        rows::items_after(&mut tx, catalog.id, &after, PAGE).await?;
    let next = items.last().filter(|_| has_more).map(|last| {
        format!("</catalogs/{}/items?cursor={}>; rel=\"next\"", catalog.name, last.item_id)
    });
    let mut response = response(&items)?.into_response();
    let next = next.and_then(|next| HeaderValue::from_str(&next).ok());
    response.headers_mut().extend(next.map(|next| (header::LINK, next)));
    Ok(response)
}

async fn item(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    path: Names,
) -> Result<axum::Json<Items>, ApiError> {
    let (name, id) = names(path);
    let id = id.unwrap_or_default();
    let mut tx = app.request_queue.snapshot().await?;
    let catalog = find(&mut tx, caller.workspace.id, &name).await?;
    let mut budget = store::ByteBudget::unlimited();
    let found = rows::find_items(&mut tx, &[(catalog.id, id.as_str())], &mut budget).await?;
    if found.is_empty() { Err(no_item(&id)) } else { response(&found) }
}

fn response(stored: &[rows::StoredItem]) -> Result<axum::Json<Items>, ApiError> {
    let item = |stored: &rows::StoredItem| {
        let id = json!(stored.item_id);
        let fields = stored.doc.trim_start_matches('{').trim_start();
        let gap = if fields.starts_with('}') { "" } else { "," };
        let text = format!("{{\"{ID}\":{id}{gap}{fields}");
        parsed("catalog_items.doc", &stored.item_id, &text)
    };
    let items = stored.iter().map(item).collect::<Result<_, _>>()?;
    Ok(axum::Json(Items { items, message: SuccessText::Success }))
}

async fn find(tx: &mut Tx, workspace: i32, name: &str) -> Result<Catalog, ApiError> {
    let catalogs = rows::list(tx, workspace).await?;
    catalogs.into_iter().find(|catalog| catalog.name == name).ok_or_else(|| no_catalog(name))
}

fn no_catalog(name: &str) -> ApiError {
    let mut faults = Faults::default();
    faults.note_no_catalog(name);
    ApiError::NotFoundMany(INVALID.into(), faults.errors())
}

fn no_item(id: &str) -> ApiError {
    let mut faults = Faults::default();
    faults.note(FaultCode::ItemNotFound, id, None);
    ApiError::NotFoundMany(INVALID.into(), faults.errors())
}
