//! The requests of catalogs: edits of items are checked and appended; the others read and write
//! rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::routing::{MethodRouter, delete, patch, post, put};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::check::{self, CatalogFault, Faults, MAX_CHARACTERS, MAX_ITEMS, MAX_LEVELS};
use super::manage::{self, with_catalog, with_item};
use super::message::{Action, Edit, Item};
use super::{Catalog, ID, MAX_NAME, is_plain_name, known};
use crate::app::App;
use gateway::fields::UnsetSelector;
use gateway::formats::{Errors, List, NO_NUL, Success};
use gateway::idempotency::{Begun, StoredResponse};
use gateway::openapi::Tag;
use gateway::{
    self, ApiError, Caller, Code, IdempotencyKey, JsonText, Operation, Routes, idempotency,
};
use kit::json;
use log::{NewMessage, partition_of};
use runtime::topics;

/// The message of every rejection.
pub(super) const INVALID: &str = "Invalid Request";

/// Partitions used for a catalog. An item always uses the same one, so that its edits stay in
/// order, while several workers can share a catalog. This limits the messages of a request: with
/// one message per partition, 64 partitions would need ten times the messages for the same items,
/// and as many records of outcomes.
pub const LANES: u32 = 4;

pub(super) const TAG: Tag =
    Tag { name: "Catalogs", about: "Items, with the fields that their catalog declares." };

const ITEMS: &str = "/catalogs/{catalog_name}/items";
const ITEM: &str = "/catalogs/{catalog_name}/items/{item_id}";

const UPDATE_ITEMS: &str = "catalogs.update_items";
const UPDATE_ITEM: &str = "catalogs.update_item";
const ADD_ITEMS: &str = "catalogs.add_items";
const CREATE_ITEM: &str = "catalogs.create_item";
const REPLACE_ITEMS: &str = "catalogs.replace_items";
const REPLACE_ITEM: &str = "catalogs.replace_item";
const DELETE_ITEMS: &str = "catalogs.delete_items";
const DELETE_ITEM: &str = "catalogs.delete_item";

/// The routes of catalogs.
pub fn routes() -> Routes<App> {
    let items = manage::items_route()
        .merge(edit_route(UPDATE_ITEMS, patch(edit), Action::Update))
        .merge(edit_route(ADD_ITEMS, post(edit), Action::Create))
        .merge(edit_route(REPLACE_ITEMS, put(edit), Action::Replace))
        .merge(edit_route(DELETE_ITEMS, delete(edit), Action::Delete));
    let item = manage::item_route()
        .merge(edit_route(UPDATE_ITEM, patch(edit), Action::Update))
        .merge(edit_route(CREATE_ITEM, post(edit), Action::Create))
        .merge(edit_route(REPLACE_ITEM, put(edit), Action::Replace))
        .merge(edit_route(DELETE_ITEM, delete(edit), Action::Delete));
    let describe_items = [
        manage::describe_items(),
        describe_update_items(),
        describe_add_items(),
        describe_replace_items(),
        describe_delete_items(),
    ];
    let describe_item = [
        manage::describe_item(),
        describe_update_item(),
        describe_create_item(),
        describe_replace_item(),
        describe_delete_item(),
    ];
    Routes::new()
        .route(ITEMS, items, describe_items)
        .route(ITEM, item, describe_item)
        .merge(manage::routes())
}

fn edit_route(
    permission: &'static str,
    route: MethodRouter<App>,
    action: Action,
) -> MethodRouter<App> {
    gateway::protected(permission, route.layer(Extension(action)))
}

// Descriptions -------------------------------------------------------------------------------

const ABOUT_UPDATE: &str = "A field that is not sent keeps its value; null removes the value. An \
                            item that does not exist is not created.";

fn describe_update_items() -> Operation {
    let operation = Operation::new(Method::PATCH, "editItems", TAG, "Edit catalog items");
    describe_edit(takes_items(operation, UPDATE_ITEMS), ABOUT_UPDATE)
}

fn describe_update_item() -> Operation {
    let operation = Operation::new(Method::PATCH, "editItem", TAG, "Edit catalog items");
    describe_edit(takes_fields(operation, UPDATE_ITEM), ABOUT_UPDATE)
}

const ABOUT_CREATE: &str = "An item that exists already is not changed.";

fn describe_add_items() -> Operation {
    let operation = Operation::new(Method::POST, "createItems", TAG, "Create catalog items");
    describe_edit(takes_items(operation, ADD_ITEMS), ABOUT_CREATE)
}

fn describe_create_item() -> Operation {
    let operation = Operation::new(Method::POST, "createItem", TAG, "Create catalog items");
    describe_edit(takes_fields(operation, CREATE_ITEM), ABOUT_CREATE)
}

const ABOUT_REPLACE: &str =
    "Fields that are not sent are removed. An item that does not exist is created.";

fn describe_replace_items() -> Operation {
    let operation = Operation::new(Method::PUT, "replaceItems", TAG, "Replace catalog items");
    describe_edit(takes_items(operation, REPLACE_ITEMS), ABOUT_REPLACE)
}

fn describe_replace_item() -> Operation {
    let operation = Operation::new(Method::PUT, "replaceItem", TAG, "Replace catalog items");
    describe_edit(takes_fields(operation, REPLACE_ITEM), ABOUT_REPLACE)
}

const ABOUT_DELETE: &str = "An item that does not exist is ignored.";

fn describe_delete_items() -> Operation {
    let operation = Operation::new(Method::DELETE, "deleteItems", TAG, "Delete catalog items");
    let operation = with_catalog(operation, DELETE_ITEMS).repeatable().takes::<ManyItems<'_>>(
        "Two items",
        json!({ "items": [{ "id": "restaurant1" }, { "id": "restaurant2" }] }),
    );
    describe_edit(operation, ABOUT_DELETE)
}

fn describe_delete_item() -> Operation {
    let operation = Operation::new(Method::DELETE, "deleteItem", TAG, "Delete catalog items");
    let operation = with_item(with_catalog(operation, DELETE_ITEM)).repeatable().takes_no_fields();
    describe_edit(operation, ABOUT_DELETE)
}

fn takes_items(operation: Operation, permission: &'static str) -> Operation {
    with_catalog(operation, permission).repeatable().takes::<ManyItems<'_>>(
        "Two items",
        json!({ "items": [
            { "id": "restaurant1", "City": "Oslo", "Rating": 4.5 },
            { "id": "restaurant2", "Open": false, "Closed_at": null },
        ] }),
    )
}

fn takes_fields(operation: Operation, permission: &'static str) -> Operation {
    with_item(with_catalog(operation, permission)).repeatable().takes::<OneItem>(
        "Fields of the item",
        json!({ "items": [{ "City": "Oslo", "Rating": 4.5 }] }),
    )
}

/// Adds the description and the responses that all edits have.
fn describe_edit(operation: Operation, about: &str) -> Operation {
    // The error for a header is the same for all endpoints.
    let in_own_body = |error: &Value| {
        if error["code"] == json!(Code::InvalidRequest) {
            return error.clone();
        }
        let faults = Faults::no_items(error["message"].as_str().unwrap_or_default().into());
        json!({ "message": INVALID, "code": error["code"], "errors": faults.errors() })
    };
    let mut no_catalog = Faults::default();
    no_catalog.note_no_catalog("cafes");
    operation
        .about(format!(
            "{about} The response is sent once the edit is durable; workers apply it soon after. \
             Edits of one item are applied in the order of their responses.\n\nEach value is \
             converted to the type of its field; if that is not possible, the request is \
             rejected. A rejected request changes nothing, and `errors` lists everything that is \
             wrong with it."
        ))
        .returns_success(StatusCode::ACCEPTED, "The edit is durable.")
        .refuses_as::<Errors<'_, CatalogFault<'_>>>(StatusCode::BAD_REQUEST, in_own_body)
        .refuses(
            &ApiError::NotFoundMany(INVALID.into(), no_catalog.errors()),
            "No catalog in this workspace has that name",
        )
        .refuses_in::<Errors<'_, CatalogFault<'_>>>(StatusCode::NOT_FOUND)
}

// Edits --------------------------------------------------------------------------------------

/// The parameters of a path, in its order.
pub(super) type Names = Result<Path<Vec<(String, String)>>, PathRejection>;

/// The name of the catalog and the id of the item from the path. A path that is not UTF-8 matches
/// nothing.
pub(super) fn names(path: Names) -> (String, Option<String>) {
    let mut names = path.map(|Path(names)| names).unwrap_or_default().into_iter();
    let name = names.next().map(|(_, name)| name).unwrap_or_default();
    (name, names.next().map(|(_, item)| item))
}

async fn edit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(action): Extension<Action>,
    path: Names,
    key: Option<IdempotencyKey>,
    body: Result<JsonText, ApiError>,
) -> Result<StoredResponse, ApiError> {
    let (name, item) = names(path);
    let (key, catalog) = if is_plain_name(&name) {
        let catalog = known::find(&app, caller.workspace.id, &name).await?;
        let resource = match &item {
            Some(item) => format!("{name}/{item}"),
            None => name.clone(),
        };
        let scope = match action {
            Action::Update => resource,
            _ => format!("{action:?} {resource}"),
        };
        (key.map(|key| key.within(&scope)), catalog)
    } else {
        // Such a request never had a stored response.
        (None, None)
    };
    let request = EditRequest {
        workspace: caller.workspace.id,
        action,
        item,
        catalog,
        name,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
    };
    accept(&app, key, body, request).await.inspect_err(count)
}

async fn accept(
    app: &App,
    key: Option<IdempotencyKey>,
    body: Result<JsonText, ApiError>,
    request: EditRequest,
) -> Result<StoredResponse, ApiError> {
    let body = body.map_err(|error| request.cannot_read(error))?;
    let turn = match idempotency::begin_append(app, key, body).await? {
        Begun::Replay(response) => return Ok(response),
        Begun::Turn(turn) => turn,
    };
    let received_at = turn.received().at;
    let read = turn.in_place(|body| request.read(body, received_at));
    let (items, messages) = read.map_err(|error| turn.rejected(error))?;
    let response = StoredResponse::json(StatusCode::ACCEPTED, &Success::default())?;
    let response = turn.append(messages, response).await?;
    metrics::counter!("longshore_catalog_items_total").increment(items as u64);
    Ok(response)
}

/// The fields of the item that the path names.
#[derive(JsonSchema)] // Not read: requests are read as `ManyItems`.
#[schemars(rename = "EditOneRequest")]
struct OneItem {
    /// One object, without an id.
    #[schemars(rename = "items", with = "List<CatalogFields, 1, 1>")]
    _items: (),
}

/// Fields of an item, as in CatalogItem.
#[derive(JsonSchema)]
struct CatalogFields(#[schemars(schema_with = "fields_schema")] ());

fn fields_schema(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<CatalogValue>();
    json_schema!({
        "type": "object",
        "propertyNames": key_schema(),
        "additionalProperties": value,
    })
}

/// The field whose errors have codes of their own.
const CHECKED_APART: &[&str] = &["items"];

/// The items to edit.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "EditRequest")]
struct ManyItems<'a> {
    /// No duplicate ids.
    #[serde(borrow)]
    #[schemars(with = "List<CatalogItem, 1, MAX_ITEMS>")]
    items: Option<&'a RawValue>,
    #[serde(default, rename = "dry_run")]
    #[schemars(skip)]
    _dry_run: UnsetSelector,
}

/// The id of an item, and its fields. Every field must be declared, and can occur only once. A
/// `string` accepts strings, numbers and booleans; a `number` accepts numbers and numeric strings;
/// a `boolean` accepts booleans, `"true"` and `"false"`; a `time` accepts strings that are a Time;
/// `object` and `array` accept only themselves.
#[derive(JsonSchema)]
struct CatalogItem(#[schemars(schema_with = "item_schema")] ());

fn item_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = fields_schema(generator);
    let id = json!({ ID: { "type": "string", "pattern": plain_name() } });
    schema.insert("properties".into(), id);
    schema.insert("required".into(), json!([ID]));
    schema
}

/// A value: a string of at most 5,000 characters, or any other JSON of at most 5,000 characters and
/// 50 levels of arrays and objects.
#[derive(JsonSchema)]
struct CatalogValue(#[schemars(schema_with = "value_schema")] ());

fn value_schema(generator: &mut SchemaGenerator) -> Schema {
    const { assert!(MAX_CHARACTERS == 5_000 && MAX_LEVELS == 50) };
    any_json(json!({ "maxLength": MAX_CHARACTERS }), generator)
}

/// An element of a value.
#[derive(JsonSchema)]
struct CatalogElement(#[schemars(schema_with = "element_schema")] ());

fn element_schema(generator: &mut SchemaGenerator) -> Schema {
    any_json(json!({}), generator)
}

/// Any JSON, with limits on its strings.
fn any_json(mut text: Value, generator: &mut SchemaGenerator) -> Schema {
    let inside = generator.subschema_for::<CatalogElement>();
    text["type"] = "string".into();
    text["pattern"] = NO_NUL.into();
    json_schema!({ "anyOf": [
        { "type": ["null", "boolean", "number"] },
        text,
        { "type": "array", "items": inside },
        { "type": "object", "propertyNames": key_schema(), "additionalProperties": inside },
    ] })
}

fn key_schema() -> Value {
    json!({ "pattern": r"^[^.$\u0000]*$" })
}

/// The pattern of a name in a path, and of an id.
pub(super) fn plain_name() -> String {
    format!("^[A-Za-z0-9_-]{{1,{MAX_NAME}}}$")
}

/// A requested edit.
pub struct EditRequest {
    pub workspace: i32,
    pub action: Action,
    /// The id of the item, if the path names one.
    pub item: Option<String>,
    /// None if the workspace has no catalog with that name.
    pub catalog: Option<Arc<Catalog>>,
    pub name: String,
    /// Number of partitions of the log.
    pub partitions: u32,
    pub request_id: String,
}

impl EditRequest {
    /// The number of items, and the messages. They depend only on the body, the time and the
    /// catalog.
    pub fn read(
        &self,
        body: &JsonText,
        received_at: i64,
    ) -> Result<(usize, Vec<NewMessage>), ApiError> {
        let item_in_path = self.item_in_path(body)?;
        let items = match &item_in_path {
            Some(items) => Some(items.as_ref()),
            None => {
                body.parse::<ManyItems<'_>>(CHECKED_APART)
                    .map_err(|error| self.cannot_read(error))?
                    .items
            }
        };
        let fields = self.catalog.as_ref().map(|catalog| &catalog.fields);
        match (&self.catalog, check::items(items, fields)) {
            (Some(catalog), Ok(items)) => {
                Ok((items.len(), self.messages(catalog, items, received_at)?))
            }
            (_, checked) => Err(self.refuse(checked.err().unwrap_or_default())),
        }
    }

    /// 400, or 404 for an unknown catalog, which takes precedence.
    fn refuse(&self, mut faults: Faults) -> ApiError {
        if self.catalog.is_some() {
            return ApiError::InvalidMany(INVALID.into(), faults.errors());
        }
        faults.note_no_catalog(&self.name);
        ApiError::NotFoundMany(INVALID.into(), faults.errors())
    }

    /// The error for an unreadable body, in the format of this endpoint's errors.
    fn cannot_read(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::Invalid(why) | ApiError::Field(_, why) => self.refuse(Faults::no_items(why)),
            other => other,
        }
    }

    /// The item that the path names, in the format of a body with several items; none if the path
    /// names no item.
    fn item_in_path(&self, body: &JsonText) -> Result<Option<Box<RawValue>>, ApiError> {
        let Some(id) = &self.item else { return Ok(None) };
        let mut item = format!("[{{\"{ID}\":{}", json!(id));
        if self.action == Action::Delete {
            body.check_no_fields().map_err(|error| self.cannot_read(error))?;
        } else {
            let ManyItems { items, .. } =
                body.parse(CHECKED_APART).map_err(|error| self.cannot_read(error))?;
            let fields = items.and_then(|items| {
                let [fields] = json::parse::<[&RawValue; 1]>(items.get()).ok()?;
                json::fields(fields.get(), json::MAX_JSON_FIELDS).ok()
            });
            let why = || {
                self.refuse(Faults::no_items(
                    "items must be an array with exactly one object".into(),
                ))
            };
            for (name, value) in fields.ok_or_else(why)?.0 {
                item.push(',');
                json::push_string(&mut item, &name);
                item.push(':');
                item.push_str(value.get());
            }
        }
        item.push_str("}]");
        let item = RawValue::from_string(item);
        item.map(Some).map_err(|error| self.refuse(Faults::no_items(error.to_string())))
    }

    /// One message for each partition of the items.
    fn messages(
        &self,
        catalog: &Catalog,
        items: Vec<Item<'_>>,
        received_at: i64,
    ) -> Result<Vec<NewMessage>, ApiError> {
        let mut by_partition: BTreeMap<i32, Vec<Item<'_>>> = BTreeMap::new();
        for item in items {
            by_partition.entry(self.partition(catalog.id, &item.id)).or_default().push(item);
        }
        let message = |(partition, items)| {
            let (v, action) = (self.action.version(), self.action);
            let edit = Edit {
                v,
                workspace: self.workspace,
                catalog: catalog.id,
                name: Some(catalog.name.as_str().into()),
                received_at,
                action,
                items,
            };
            let payload = serde_json::to_vec(&edit)
                .map_err(|error| ApiError::Internal(format!("cannot write a message: {error}")))?;
            Ok(NewMessage {
                topic: topics::CATALOGS,
                key: Vec::new(),
                partition: Some(partition),
                payload,
                request_id: self.request_id.clone(),
            })
        };
        by_partition.into_iter().map(message).collect()
    }

    fn partition(&self, catalog: i32, item: &str) -> i32 {
        let lane = partition_of(item.as_bytes(), LANES);
        let lane = format!("{}\u{1f}{catalog}\u{1f}{lane}", self.workspace);
        partition_of(lane.as_bytes(), self.partitions)
    }
}

fn count(error: &ApiError) {
    let (ApiError::InvalidMany(_, errors) | ApiError::NotFoundMany(_, errors)) = error else {
        return;
    };
    for code in errors.iter().filter_map(|error| error["id"].as_str()) {
        metrics::counter!("longshore_catalog_refused_total", "code" => code.to_owned())
            .increment(1);
    }
}
