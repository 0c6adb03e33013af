//! The JSON Schema of a record.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::json;

use super::ExportRecord;

/// The path at a gateway.
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
