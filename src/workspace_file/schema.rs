//! The workspace file as it is written: every name it may have, before anything is checked
//! but the names. What is said of each here is the description in the JSON Schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

mod channels;
pub mod company;

use crate::campaigns;
use crate::catalogs;
use crate::workspace_file::schema::company::CompanyFile;
use crate::workspaces::Budget;
use crate::workspaces::keys::PERMISSIONS;

pub(crate) use channels::{
    CappingFile, EmailFile, ProvidersFile, SegmentFile, SignedAddressFile, SubscriptionGroupFile,
};

/// A value of the file as its text, with its line. Numbers are kept as text too: money is
/// never read through binary floats, and `${NAME}` may stand for any value.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text(Spanned<String>);

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

fn rate_limits(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": {"enum": Budget::OF_WORKSPACES.map(Budget::name)},
        "additionalProperties": generator.subschema_for::<RateLimitFile>(),
    })
}

fn platform(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": ["ios", "android", "kindle", "web"]})
}

fn field_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": catalogs::Type::ALL.map(catalogs::Type::name)})
}

fn campaign_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"enum": campaigns::Kind::CAMPAIGNS.map(campaigns::Kind::name)})
}

/// Members that are kept as they are written, with the line on which they begin.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Verbatim(Spanned<Map<String, Value>>);

impl Verbatim {
    pub fn members(&self) -> &Map<String, Value> {
        &self.0.value
    }

    pub fn line(&self) -> u64 {
        self.0.referenced.line()
    }
}

impl JsonSchema for Verbatim {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Verbatim".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Map::<String, Value>::json_schema(generator)
    }
}

/// One document of the file: the company's where its first member is `company`, else a
/// workspace's.
pub(crate) enum DocumentFile {
    Workspace(Box<WorkspaceFile>),
    Company(CompanyFile),
}

impl JsonSchema for DocumentFile {
    fn schema_name() -> Cow<'static, str> {
        "Longshore workspace file".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                generator.subschema_for::<WorkspaceFile>(),
                generator.subschema_for::<CompanyFile>(),
            ],
        })
    }
}

impl<'de> Deserialize<'de> for DocumentFile {
    fn deserialize<D: Deserializer<'de>>(document: D) -> Result<Self, D::Error> {
        document.deserialize_map(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = DocumentFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a workspace or a company")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<DocumentFile, M::Error> {
        let first: Option<String> = members.next_key()?;
        let is_company = first.as_deref() == Some("company");
        let members = MapAccessDeserializer::new(WithFirst { first, members });
        if is_company {
            CompanyFile::deserialize(members).map(DocumentFile::Company)
        } else {
            let workspace = WorkspaceFile::deserialize(members)?;
            Ok(DocumentFile::Workspace(Box::new(workspace)))
        }
    }
}

/// The members of a document whose first name was read already.
struct WithFirst<M> {
    first: Option<String>,
    members: M,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for WithFirst<M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.members.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.members.next_value_seed(seed)
    }
}

/// A workspace of Longshore, brought about by `longshore apply FILE`. In every value
/// `${NAME}` is read from the environment; `$${` stands for `${` itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Workspace")]
pub(crate) struct WorkspaceFile {
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
    /// How many requests the workspace may make, by budget, where it is not the default.
    #[serde(default)]
    #[schemars(schema_with = "rate_limits")]
    pub rate_limits: BTreeMap<String, RateLimitFile>,
    /// What an export without own storage may have.
    pub export_limits: Option<ExportLimitsFile>,
    /// How many messages a user may get; as many as are sent when absent.
    #[serde(default)]
    pub frequency_capping: Vec<CappingFile>,
    /// API keys, besides those made by `longshore key create`.
    #[serde(default)]
    pub keys: Vec<KeyFile>,
    /// The apps of the workspace.
    #[serde(default)]
    pub apps: Vec<AppFile>,
    /// Catalogs, whose items `PATCH /catalogs/{catalog_name}/items` edits.
    #[serde(default)]
    pub catalogs: Vec<CatalogFile>,
    /// Users whom messages can be sent to by an id.
    #[serde(default)]
    pub segments: Vec<SegmentFile>,
    /// Numbers that SMS and WhatsApp messages come from, which users subscribe to.
    #[serde(default)]
    pub subscription_groups: Vec<SubscriptionGroupFile>,
    /// Campaigns, in the order in which new ones are listed.
    #[serde(default)]
    pub campaigns: Vec<CampaignFile>,
    /// Canvases, which `POST /canvas/trigger/schedule/create` schedules.
    #[serde(default)]
    pub canvases: Vec<CanvasFile>,
    /// How emails are sent.
    pub email: Option<EmailFile>,
    /// Who takes the other messages, over HTTP.
    pub providers: Option<ProvidersFile>,
    /// Own storage for exports: Azure if it is the default destination, else S3.
    pub storage: Option<StorageFile>,
    /// The global control group. Made once; `longshore control-group renew` changes it.
    pub control_group: Option<ControlGroupFile>,
    /// Callbacks when exports are ready.
    pub callbacks: Option<CallbacksFile>,
    /// Webhooks that messages send.
    pub webhooks: Option<WebhooksFile>,
}

/// A limit of requests, in windows that are aligned to the clock.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitFile {
    /// Requests in a window.
    #[schemars(schema_with = "number")]
    pub requests: Text,
    /// The length of a window; it divides a day.
    #[schemars(schema_with = "number")]
    pub seconds: Text,
}

/// What an export without own storage may have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportLimitsFile {
    /// Users in one export; 500000 when absent.
    #[serde(default)]
    #[schemars(schema_with = "number")]
    pub users: Option<Text>,
    /// Bytes of one export, such as 5GiB; that when absent.
    #[serde(default)]
    #[schemars(schema_with = "number")]
    pub bytes: Option<Text>,
}

/// An API key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
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
pub(crate) struct AppFile {
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

/// A catalog.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CatalogFile {
    /// 1 to 250 letters, digits, hyphens and underscores, unique in the workspace.
    pub name: Text,
    /// What its items may have beside their id; at most 500.
    #[serde(default)]
    pub fields: Vec<CatalogFieldFile>,
    /// Its items: a file of newline-delimited JSON, from the workspace file's directory on.
    /// Loaded when what it says has changed since it was loaded last.
    pub items: Option<Text>,
}

/// A field of a catalog.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CatalogFieldFile {
    /// 1 to 250 characters, no `.`, `$` or control characters.
    pub name: Text,
    /// What its values are.
    #[serde(rename = "type")]
    #[schemars(schema_with = "field_type")]
    pub kind: Text,
}

/// A campaign. `messages`, `variations`, `email`, `trigger` and `audience` are kept as they are
/// written: what is `${…}` there belongs to a template, and is not read from the environment.
/// They are not encrypted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CampaignFile {
    /// The campaign's API identifier, a UUID.
    pub id: Text,
    pub name: Text,
    /// What its messages are sent by: a call that names it, a transactional call, or an event.
    #[serde(rename = "type")]
    #[schemars(schema_with = "campaign_type")]
    pub kind: Text,
    /// Names that the list of campaigns shows.
    #[serde(default)]
    pub tags: Vec<Text>,
    /// Whether it is over: left out of the list unless that is asked for.
    #[serde(default)]
    pub archived: bool,
    #[serde(default)]
    pub paused: bool,
    /// Objects, each with an `id`, a UUID, which messages name as `message_variation_id`; not of a
    /// transactional campaign.
    #[serde(default)]
    pub variations: Vec<Verbatim>,
    /// The message objects of the API, by channel; not of a transactional campaign, and needed by
    /// a triggered one.
    pub messages: Option<Verbatim>,
    /// What a transactional campaign sends, and only that: `body`, and what else the email object
    /// of the API has; without `from` that of the workspace's `email` is taken.
    pub email: Option<Verbatim>,
    /// Emails of a transactional campaign that are covered in an hour.
    #[serde(default)]
    #[schemars(schema_with = "number")]
    pub sla_per_hour: Option<Text>,
    /// What starts a triggered campaign, and only that: `purchase`, an object with `product_id`
    /// and `properties` that the purchase must have, and `max_age`, how long ago the purchase may
    /// have been made, such as 90d, 12h or 30m; 3d when absent.
    pub trigger: Option<Verbatim>,
    /// To whom a triggered campaign is sent: a connected audience; everybody when absent.
    pub audience: Option<Verbatim>,
    /// How long after a message a purchase counts as brought about by it, such as 3d, 12h or 30m.
    pub conversion_window: Option<Text>,
}

/// A Canvas. `messages` are kept as they are written, as those of a campaign.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CanvasFile {
    /// The Canvas's API identifier, a UUID that no campaign has.
    pub id: Text,
    pub name: Text,
    /// By channel.
    pub messages: Option<Verbatim>,
    /// As of a campaign.
    pub conversion_window: Option<Text>,
}

/// Own storage for exports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StorageFile {
    pub s3: Option<S3File>,
    pub azure: Option<AzureFile>,
}

/// Amazon S3, or what is compatible with it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct S3File {
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
pub(crate) struct AzureFile {
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
pub(crate) struct ControlGroupFile {
    /// Whole percent of the users, 1 to 100; a live group has 1 to 15.
    #[schemars(schema_with = "number")]
    pub percent: Text,
}

/// Callbacks when exports are ready.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallbacksFile {
    /// What callbacks are signed with (Standard Webhooks): `whsec_` and 24 to 64 bytes in
    /// base64. Made when absent, and shown once.
    pub secret: Option<Text>,
    /// The former secret: callbacks are signed with both while receivers change to the new one.
    pub secret_old: Option<Text>,
}

/// Webhooks that messages send.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhooksFile {
    /// What webhooks are signed with (Standard Webhooks): `whsec_` and 24 to 64 bytes in base64.
    /// Made when absent, and shown once. No other secret of the file may be the same.
    pub secret: Option<Text>,
    /// The former secret: webhooks are signed with both while receivers change to the new one.
    pub secret_old: Option<Text>,
}

/// The JSON Schema of one document of the file, as `apply --schema` prints it.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(DocumentFile);
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

    #[test]
    fn the_published_example_fits_it() {
        const HERE: &str = "https://acme.example/workspace";
        let schema = serde_json::from_str(&super::json_schema()).unwrap();
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource(HERE, schema).unwrap();
        let schema = compiler.compile(HERE, &mut schemas).unwrap();
        let example = include_str!("../../deploy/example.yaml");
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(example).unwrap();
        assert_eq!(documents.len(), 2);
        for document in documents {
            if let Err(error) = schemas.validate(&document, schema) {
                panic!("{error:#}");
            }
        }
    }
}
