//! The workspace file as it is written: every name it may have, before anything is checked
//! but the names. What is said of each here is the description in the JSON Schema.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::keys::PERMISSIONS;

/// A value of the file as its text, with its line. Numbers are kept as text too: money is
/// never read through binary floats, and `${NAME}` may stand for any value.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Text(Spanned<String>);

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0.value
    }

    pub fn line(&self) -> u64 {
        self.0.referenced.line()
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["number", "string", "null"]})
}

fn rates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"type": ["number", "string"]},
    })
}

fn permissions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"enum": PERMISSIONS}, {"type": "string", "pattern": "\\$\\{"}]},
    })
}

fn platform(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": ["ios", "android", "kindle", "web"]})
}

/// A workspace of Longshore, brought about by `longshore apply FILE`. In every value
/// `${NAME}` is read from the environment; `$${` stands for `${` itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Longshore workspace file")]
pub(super) struct WorkspaceFile {
    /// The name of the workspace: 1 to 100 letters, digits, hyphens, underscores and dots.
    pub workspace: Text,
    /// ISO 4217 code of the currency that revenue is summed in; USD when absent.
    pub currency: Option<Text>,
    /// What one of the other currency is worth in `currency`, with at most six decimals.
    #[serde(default)]
    #[schemars(schema_with = "rates")]
    pub exchange_rates: BTreeMap<String, Text>,
    /// IANA name, such as America/New_York; UTC when absent.
    pub time_zone: Option<Text>,
    /// Addresses or networks (CIDRs) that calls may come from; empty: everyone.
    #[serde(default)]
    pub ip_allowlist: Vec<Text>,
    /// What an export without own storage may have.
    pub export_limits: Option<ExportLimitsFile>,
    /// API keys, besides those made by `longshore key create`.
    #[serde(default)]
    pub keys: Vec<KeyFile>,
    /// The apps of the workspace.
    #[serde(default)]
    pub apps: Vec<AppFile>,
    /// Own storage for exports: Azure if it is the default destination, else S3.
    pub storage: Option<StorageFile>,
    /// The global control group. Made once; `longshore control-group renew` changes it.
    pub control_group: Option<ControlGroupFile>,
    /// Callbacks when exports are ready.
    pub callbacks: Option<CallbacksFile>,
}

/// What an export without own storage may have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportLimitsFile {
    /// Users in one export; 500000 when absent.
    #[schemars(schema_with = "number")]
    pub users: Option<Text>,
    /// Bytes of one export, such as 5GiB; that when absent.
    #[schemars(schema_with = "number")]
    pub bytes: Option<Text>,
}

/// An API key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFile {
    /// 1 to 100 characters, unique in the workspace.
    pub name: Text,
    /// What requests carry as bearer: at least 20 printable characters. Another secret is
    /// a rotation: the former one ends.
    pub secret: Text,
    /// What the key may be used for.
    #[schemars(schema_with = "permissions")]
    pub permissions: Vec<Text>,
    /// Addresses or networks (CIDRs) that the key may be used from; empty: everywhere.
    #[serde(default)]
    pub allow: Vec<Text>,
}

/// An app.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AppFile {
    /// The app's API identifier, a UUID.
    pub id: Text,
    pub name: Text,
    /// What the app runs on.
    #[schemars(schema_with = "platform")]
    pub platform: Text,
    /// Such as com.acme.app.
    pub bundle_id: Option<Text>,
    /// Activity attributes types that the app has registered for push-to-start.
    #[serde(default)]
    pub activity_types: Vec<Text>,
}

/// Own storage for exports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StorageFile {
    pub s3: Option<S3File>,
    pub azure: Option<AzureFile>,
}

/// Amazon S3, or what is compatible with it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct S3File {
    pub bucket: Text,
    /// Such as eu-west-1; only where an endpoint is given it may be absent.
    pub region: Option<Text>,
    /// Absent: the default credential chain of the machine.
    pub access_key_id: Option<Text>,
    pub secret_access_key: Option<Text>,
    /// With temporary credentials.
    pub session_token: Option<Text>,
    /// The address of a compatible service; Amazon's own when absent.
    pub endpoint: Option<Text>,
    /// Whether the bucket's name goes into the path and not into the host name.
    #[serde(default)]
    pub path_style: bool,
}

/// Azure Blob Storage, with an access key or a SAS token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AzureFile {
    pub account: Text,
    pub container: Text,
    /// The account's access key, in base64.
    pub access_key: Option<Text>,
    /// A shared access signature that may read, write, create, list and delete.
    pub sas_token: Option<Text>,
    /// The address of the account; `https://<account>.blob.core.windows.net` when absent.
    pub endpoint: Option<Text>,
    /// Whether exports go here even where S3 is configured, and at all where it is not.
    #[serde(default)]
    pub default_export_destination: bool,
}

/// The global control group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ControlGroupFile {
    /// Whole percent of the users, 1 to 100; a live group has 1 to 15.
    #[schemars(schema_with = "number")]
    pub percent: Text,
}

/// Callbacks when exports are ready.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CallbacksFile {
    /// What callbacks are signed with (Standard Webhooks): `whsec_` and 24 to 64 bytes in
    /// base64. Made when absent, and shown once.
    pub secret: Option<Text>,
}

/// The JSON Schema of one document of the file, as `apply --schema` prints it.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(WorkspaceFile);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_schema_is_current() {
        let published = include_str!("../../deploy/workspace.schema.json");
        assert!(
            published == super::json_schema(),
            "renew it: cargo run -- apply --schema > deploy/workspace.schema.json"
        );
    }
}
