//! `PATCH /catalogs/{catalog_name}/items` as it is described.

use axum::http::{Method, StatusCode};
use schemars::SchemaGenerator;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api::{INVALID, PERMISSION};
use super::check::{self, Code, Faults, MOST_CHARACTERS, MOST_ITEMS, MOST_LEVELS};
use super::{Field, Fields, MAX_NAME, Type};
use crate::gateway::openapi::Tag;
use crate::gateway::openapi::shapes::{NO_NUL, Success, error_with, shape};
use crate::gateway::{Access, ApiError, Operation};

const TAG: Tag = Tag { name: "Catalogs", about: "Items with the fields that a catalog declares." };

/// What a name in a path and an id look like.
fn plain_name() -> String {
    format!("^[A-Za-z0-9_-]{{1,{MAX_NAME}}}$")
}

pub(super) fn edit() -> Operation {
    let name = json!({ "type": "string", "pattern": plain_name(), "examples": ["restaurants"] });
    let mut faults = Faults::default();
    faults.note_no_catalog("cafes");
    let no_catalog = ApiError::NotFoundMany(INVALID.into(), faults.errors());
    Operation::new(Method::PATCH, "editItems", TAG, "Edit items of a catalog")
        .by(Access::Key(PERMISSION))
        .about(
            "Fields that are not sent stay as they are; null removes a field's value. Answered \
             once the edit is durable; it is applied soon after, edits of one item in the order \
             in which they were answered. An item that the catalog does not have is not made.\n\n\
             A value becomes what its field's type says, and is refused where it cannot. Of a \
             request that is refused nothing is taken, and everything that is wrong with it is \
             said at once.",
        )
        .in_path("catalog_name", "A catalog that the workspace file declares.", name)
        .repeatable()
        .takes::<EditRequest>([(
            "Two items",
            json!({ "items": [
                { "id": "restaurant1", "City": "Oslo", "Rating": 4.5 },
                { "id": "restaurant2", "Open": false, "Closed_at": null },
            ] }),
        )])
        .answers::<Success>(
            StatusCode::ACCEPTED,
            "The edit is durable.",
            json!({ "message": "success" }),
        )
        .refuses(&wrong_items(), "Everything that is wrong with the items")
        .refuses_in::<CatalogError>(StatusCode::BAD_REQUEST)
        .refuses(&no_catalog, "The workspace has no catalog of that name")
        .refuses_in::<CatalogError>(StatusCode::NOT_FOUND)
}

/// What is said of items that are wrong in two ways.
fn wrong_items() -> ApiError {
    let fields = Fields::from(vec![Field { name: "Rating".into(), kind: Type::Number }]);
    let items = r#"[{"id":"restaurant1","Rating":"good","Citty":"Oslo"}]"#;
    let items: Result<&RawValue, _> = serde_json::from_str(items);
    let faults = check::items(items.ok(), Some(&fields)).err().unwrap_or_default();
    ApiError::InvalidMany(INVALID.into(), faults.errors())
}

shape! {
    /// The items to edit.
    EditRequest = |generator| json!({
        "type": "object",
        "properties": { "items": {
            "type": "array", "minItems": 1, "maxItems": MOST_ITEMS,
            "items": generator.subschema_for::<CatalogItem>(),
            "description": "No two have the same id.",
        } },
        "required": ["items"],
    })
}

shape! {
    /// The id of an item, and the fields to change: those that the catalog declares, each once.
    /// As a `string` strings, numbers and booleans are taken; as a `number` numbers, and strings
    /// that are one; as a `boolean` booleans, `"true"` and `"false"`; as a `time` strings that
    /// are a Time; as an `object` or `array` only themselves.
    CatalogItem = |generator| {
        let value = generator.subschema_for::<CatalogValue>();
        json!({
            "type": "object",
            "properties": { "id": { "type": "string", "pattern": plain_name() } },
            "required": ["id"],
            "propertyNames": key(),
            "additionalProperties": { "anyOf": [value, { "type": "null" }] },
        })
    }
}

shape! {
    /// A value: of a text or of the JSON of anything else at most 5,000 characters, and 50 levels
    /// of arrays and objects.
    CatalogValue = |generator| {
        const { assert!(MOST_CHARACTERS == 5_000 && MOST_LEVELS == 50) };
        any_of(json!({ "maxLength": MOST_CHARACTERS }), generator)
    }
}

shape! {
    /// What is in a value.
    CatalogElement = |generator| any_of(json!({}), generator)
}

/// Any JSON, with limits of its texts.
fn any_of(mut text: Value, generator: &mut SchemaGenerator) -> Value {
    let inside = generator.subschema_for::<CatalogElement>();
    text["type"] = "string".into();
    text["pattern"] = NO_NUL.into();
    json!({ "anyOf": [
        { "type": ["null", "boolean", "number"] },
        text,
        { "type": "array", "items": inside },
        { "type": "object", "propertyNames": key(), "additionalProperties": inside },
    ] })
}

fn key() -> Value {
    json!({ "pattern": r"^[^.$\u0000]*$" })
}

shape! {
    /// One thing that is wrong, with all places where it is.
    CatalogFault = |_| json!({
        "type": "object",
        "properties": {
            "id": { "enum": Code::ALL.map(Code::name), "description": "The code." },
            "message": { "type": "string" },
            "parameters": {
                "type": "array", "items": { "enum": ["catalog_name", "items", "id"] },
                "description": "What the values are: the catalog's name, places in the array from \
                                0, or ids.",
            },
            "parameter_values": {
                "type": "array", "maxItems": MOST_ITEMS, "items": { "type": "string" },
                "description": "Each is cut where it is longer than an id.",
            },
        },
        "required": ["id", "message", "parameters", "parameter_values"],
    })
}

shape! {
    /// What is wrong, once for each code.
    CatalogError = |generator| error_with::<CatalogFault>(generator)
}
