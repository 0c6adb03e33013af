//! `PATCH /catalogs/{catalog_name}/items`: check, append, answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::patch;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::check::{self, CatalogFault, Faults, MOST_CHARACTERS, MOST_ITEMS, MOST_LEVELS};
use super::message::{Edit, Item, VERSION};
use super::{Catalog, ID, MAX_NAME, is_plain_name, known};
use crate::app::App;
use crate::gateway::formats::{Errors, List, NO_NUL, SuccessText};
use crate::gateway::idempotency::Received;
use crate::gateway::openapi::Tag;
use crate::gateway::{
    self, Access, ApiError, Caller, Code, IdempotencyKey, JsonText, Operation, Routes, idempotency,
};
use crate::topics;
use log::{NewMessage, partition_of};

const PERMISSION: &str = "catalogs.update_items";

/// What the message of every refusal is.
const INVALID: &str = "Invalid Request";

/// Ways of a catalog through the log. An item always goes the same one, so its edits stay in
/// order, and as many workers can share a catalog. A request becomes no more messages than
/// this: one for each of 64 partitions would have items travel almost alone, ten times the
/// messages for the same items, and as many records of what became of them.
pub const LANES: u32 = 4;

const TAG: Tag = Tag { name: "Catalogs", about: "Items with the fields that a catalog declares." };

/// The routes of catalogs.
pub fn routes() -> Routes {
    let route = gateway::protected(PERMISSION, patch(edit));
    Routes::new().route("/catalogs/{catalog_name}/items", route, [describe()])
}

fn describe() -> Operation {
    // The error of a header is that of every call.
    let in_own_body = |error: &Value| match error["code"] == json!(Code::InvalidRequest) {
        true => error.clone(),
        false => {
            let faults = Faults::no_items(error["message"].as_str().unwrap_or_default().into());
            json!({ "message": INVALID, "code": error["code"], "errors": faults.errors() })
        }
    };
    let mut no_catalog = Faults::default();
    no_catalog.note_no_catalog("cafes");
    Operation::new(Method::PATCH, "editItems", TAG, "Edit items of a catalog")
        .by(Access::Key(PERMISSION))
        .about(
            "Fields that are not sent stay as they are; null removes a field's value. Answered \
             once the edit is durable; it is applied soon after, edits of one item in the order \
             in which they were answered. An item that the catalog does not have is not created.\n\n\
             A value becomes what its field's type says, and is refused where it cannot. Of a \
             request that is refused nothing is taken, and everything that is wrong with it is \
             said at once.",
        )
        .in_path(
            "catalog_name",
            "A catalog that the workspace file declares.",
            json!({ "type": "string", "pattern": plain_name(), "examples": ["restaurants"] }),
        )
        .repeatable()
        .takes::<Body<'_>>(
            "Two items",
            json!({ "items": [
                { "id": "restaurant1", "City": "Oslo", "Rating": 4.5 },
                { "id": "restaurant2", "Open": false, "Closed_at": null },
            ] }))
        .answers_success(StatusCode::ACCEPTED, "The edit is durable.")
        .refuses_as::<Errors<'_, CatalogFault<'_>>>(StatusCode::BAD_REQUEST, in_own_body)
        .refuses(
            &ApiError::NotFoundMany(INVALID.into(), no_catalog.errors()),
            "The workspace has no catalog of that name",
        )
        .refuses_in::<Errors<'_, CatalogFault<'_>>>(StatusCode::NOT_FOUND)
}

async fn edit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Result<Path<String>, PathRejection>,
    key: Option<IdempotencyKey>,
    body: Result<JsonText, ApiError>,
) -> Result<Response, ApiError> {
    // What is not UTF-8 is no catalog's name.
    let name = name.map(|Path(name)| name).unwrap_or_default();
    let (key, catalog) = match is_plain_name(&name) {
        true => {
            let catalog = known::find(&app, caller.workspace.id, &name).await?;
            (key.map(|key| key.within(&name)), catalog)
        }
        // No such call ever had an answer that could be given again.
        false => (None, None),
    };
    let work = Work {
        workspace: caller.workspace.id,
        catalog,
        name,
        partitions: app.config.log.partitions,
        request_id: caller.request_id,
    };
    let edited = match body {
        Ok(body) => idempotency::append(app, key, body, work).await,
        Err(error) => Err(work.cannot_read(error)),
    };
    edited.inspect_err(count)
}

/// The items to edit.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "EditRequest")]
struct Body<'a> {
    /// No two have the same id.
    #[serde(borrow)]
    #[schemars(with = "List<CatalogItem, 1, MOST_ITEMS>")]
    items: Option<&'a RawValue>,
}

/// The id of an item, and the fields to change: those that the catalog declares, each once.
/// As a `string` strings, numbers and booleans are accepted; as a `number` numbers, and strings
/// that are one; as a `boolean` booleans, `"true"` and `"false"`; as a `time` strings that are a
/// Time; as an `object` or `array` only themselves.
#[derive(JsonSchema)]
struct CatalogItem(#[schemars(schema_with = "item")] ());

fn item(generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<CatalogValue>();
    json_schema!({
        "type": "object",
        "properties": { ID: { "type": "string", "pattern": plain_name() } },
        "required": [ID],
        "propertyNames": key(),
        "additionalProperties": { "anyOf": [value, { "type": "null" }] },
    })
}

/// A value: of a text or of the JSON of anything else at most 5,000 characters, and 50 levels of
/// arrays and objects.
#[derive(JsonSchema)]
struct CatalogValue(#[schemars(schema_with = "value")] ());

fn value(generator: &mut SchemaGenerator) -> Schema {
    const { assert!(MOST_CHARACTERS == 5_000 && MOST_LEVELS == 50) };
    any_of(json!({ "maxLength": MOST_CHARACTERS }), generator)
}

/// What is in a value.
#[derive(JsonSchema)]
struct CatalogElement(#[schemars(schema_with = "element")] ());

fn element(generator: &mut SchemaGenerator) -> Schema {
    any_of(json!({}), generator)
}

/// Any JSON, with limits of its texts.
fn any_of(mut text: Value, generator: &mut SchemaGenerator) -> Schema {
    let inside = generator.subschema_for::<CatalogElement>();
    text["type"] = "string".into();
    text["pattern"] = NO_NUL.into();
    json_schema!({ "anyOf": [
        { "type": ["null", "boolean", "number"] },
        text,
        { "type": "array", "items": inside },
        { "type": "object", "propertyNames": key(), "additionalProperties": inside },
    ] })
}

fn key() -> Value {
    json!({ "pattern": r"^[^.$\u0000]*$" })
}

/// What a name in a path and an id look like.
fn plain_name() -> String {
    format!("^[A-Za-z0-9_-]{{1,{MAX_NAME}}}$")
}

#[derive(Serialize)]
pub struct Answer {
    message: SuccessText,
    #[serde(skip)]
    items: usize,
}

/// An edit that was asked for.
pub struct Work {
    pub workspace: i32,
    /// None where the workspace has none of that name.
    pub catalog: Option<Arc<Catalog>>,
    pub name: String,
    /// Of the log.
    pub partitions: u32,
    pub request_id: String,
}

impl idempotency::Work for Work {
    type Answer = Answer;
    const STATUS: StatusCode = StatusCode::ACCEPTED;

    /// The same body and time come to the same messages as long as the catalog is the same.
    fn read(
        &self,
        body: &JsonText,
        received: Received,
    ) -> Result<(Answer, Vec<NewMessage>), ApiError> {
        let Body { items } = body.parse().map_err(|error| self.cannot_read(error))?;
        let fields = self.catalog.as_ref().map(|catalog| &catalog.fields);
        match (&self.catalog, check::items(items, fields)) {
            (Some(catalog), Ok(items)) => {
                let answer = Answer { message: SuccessText::Success, items: items.len() };
                Ok((answer, self.messages(catalog.id, items, received.at)?))
            }
            (_, checked) => Err(self.refuse(checked.err().unwrap_or_default())),
        }
    }

    fn taken(&self, answer: &Answer) {
        metrics::counter!("longshore_catalog_items_total").increment(answer.items as u64);
    }
}

impl Work {
    /// 400, or 404 where there is no such catalog, which is said before the rest.
    fn refuse(&self, mut faults: Faults) -> ApiError {
        if self.catalog.is_some() {
            return ApiError::InvalidMany(INVALID.into(), faults.errors());
        }
        faults.note_no_catalog(&self.name);
        ApiError::NotFoundMany(INVALID.into(), faults.errors())
    }

    /// What is wrong with a body as a whole, in the form that this call's refusals have.
    fn cannot_read(&self, error: ApiError) -> ApiError {
        match error {
            ApiError::Invalid(why) | ApiError::Field(_, why) => self.refuse(Faults::no_items(why)),
            other => other,
        }
    }

    /// A message for each partition that the items fall on.
    fn messages(
        &self,
        catalog: i32,
        items: Vec<Item<'_>>,
        received_at: i64,
    ) -> Result<Vec<NewMessage>, ApiError> {
        let mut by_partition: BTreeMap<i32, Vec<Item<'_>>> = BTreeMap::new();
        for item in items {
            by_partition.entry(self.partition(catalog, &item.id)).or_default().push(item);
        }
        let message = |(partition, items)| {
            let edit = Edit { v: VERSION, workspace: self.workspace, catalog, received_at, items };
            let payload = serde_json::to_vec(&edit).map_err(|error| {
                ApiError::Internal(format!("a message cannot be written: {error}"))
            })?;
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
