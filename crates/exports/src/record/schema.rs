//! The JSON Schema of a record, and where the gateway serves it.

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::ExportRecord;
use crate::api::TAG;
use gateway::app::App;
use gateway::{Operation, Routes};

pub const SCHEMA_PATH: &str = "/schemas/export-record.json";

/// Increases when a field is added, or a field's type changes. Manifests name it.
pub const SCHEMA_VERSION: u32 = 1;

/// The schema as one document (JSON Schema, draft 2020-12).
pub fn schema() -> Schema {
    let mut schema =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<ExportRecord>();
    schema.insert("$id".into(), json!(format!("urn:longshore:export-record:{SCHEMA_VERSION}")));
    schema.insert("version".into(), json!(SCHEMA_VERSION));
    // The workspace's other name for `service_id`, if it was requested by that name.
    let other_name = json!({
        "type": "string", "format": "uuid",
        "description": "`service_id`, if the export requested it under the workspace's other name \
                        for it.",
    });
    schema.insert("additionalProperties".into(), other_name);
    schema
}

pub fn routes() -> Routes<App> {
    let document = schema();
    Routes::new().route(SCHEMA_PATH, get(async move || Json(document.clone())), [describe()])
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
