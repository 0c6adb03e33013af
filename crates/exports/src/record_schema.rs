//! Serves the JSON Schema of an export's lines.

use std::sync::LazyLock;

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::api::TAG;
use gateway::app::App;
use gateway::{Operation, Routes};
use proof::record;

pub fn routes() -> Routes<App> {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(record::schema);
    Routes::new().route(record::SCHEMA_PATH, get(async || Json(&*SCHEMA)), [describe()])
}

/// A JSON Schema.
#[derive(JsonSchema)]
#[schemars(with = "Value", rename = "JsonSchemaDocument")]
struct SchemaDocument;

fn describe() -> Operation {
    Operation::new(Method::GET, "exportRecordSchema", TAG, "Get the schema of an export's lines")
        .about(
            "The JSON Schema of one line of an export's files. `version` is the version that an \
             export's manifest names.",
        )
        .returns::<SchemaDocument>(StatusCode::OK, "The schema.")
}
