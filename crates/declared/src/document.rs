//! The workspace's document: one type for each thing in it, which parses and checks itself, and is
//! compared and stored unchanged. The comments on fields are their descriptions in the JSON Schema.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub mod company;
pub(crate) mod email_template;
pub(crate) mod storage;

use crate::values::{
    Bytes, CampaignType, CatalogName, Count, Currency, Duration, KeyName, KeySecret, LateAfter,
    Network, Percent, Permission, Rate, TimeZone, WorkspaceName,
};
use company::Company;
use content::campaigns::{Campaign, Content, Kind};
use content::catalogs::Field;
use email_template::DeclaredEmailTemplate;
use gateway::workspaces::channels::{Channels, DeclaredPart, Part};
use gateway::workspaces::email_templates::EmailTemplate;
use gateway::workspaces::keys::PERMISSIONS;
use gateway::workspaces::notify::Receiver;
use gateway::workspaces::rules::{
    self, Id, Name, Parsed, SigningSecret, checked, default_of, list, number, one_of, optional,
    optional_number, or_default,
};
use gateway::workspaces::settings::{
    CappingRule, Email, Secret, SignedAddress, SigningSecrets, SubscriptionGroup,
};
use gateway::workspaces::storage::NamedStorage;
use gateway::workspaces::template_data::{CatalogSelection, ConnectedContent, ContentBlock};
use gateway::workspaces::{Aliases, Budget, DeclaredApp, Limit, Segment};
use kit::json::ObjectText;
use storage::{DeclaredStorage, Storage};

/// A workspace of Longshore, created and changed by `longshore apply FILE`. In every value,
/// `${NAME}` is replaced by the environment variable NAME; write `$${` for a literal `${`.
#[derive(Deserialize, JsonSchema)]
#[schemars(title = "Workspace", rename = "Workspace")]
pub struct Declaration {
    /// The name of the workspace: 1 to 100 letters, digits, hyphens, underscores and dots.
    #[serde(rename = "workspace", deserialize_with = "checked::<WorkspaceName, _>")]
    pub name: String,
    /// ISO 4217 code of the currency in which revenue is added up. Default: USD.
    #[serde(default = "default_of::<Currency>", deserialize_with = "or_default::<Currency, _>")]
    #[schemars(with = "Option<String>")]
    pub currency: String,
    /// The value of one unit of each other currency in `currency`, with at most six decimals.
    // Kept in millionths.
    #[serde(default, deserialize_with = "rates")]
    #[schemars(schema_with = "rates_schema")]
    pub exchange_rates: BTreeMap<String, i64>,
    /// IANA name of a time zone, such as America/New_York. Default: UTC.
    #[serde(default = "default_of::<TimeZone>", deserialize_with = "or_default::<TimeZone, _>")]
    #[schemars(with = "Option<String>")]
    pub time_zone: String,
    /// Addresses or networks (CIDRs) from which requests are accepted. Empty: from everywhere.
    #[serde(default, deserialize_with = "list::<Network, _>")]
    #[schemars(with = "Vec<String>")]
    pub ip_allowlist: Vec<IpNet>,
    /// Rate limits of the workspace, by budget. Budgets without an entry have the default limit.
    #[serde(default)]
    #[schemars(schema_with = "rate_limits")]
    pub rate_limits: BTreeMap<String, Limit>,
    /// Limits of an export without own storage.
    #[serde(default)]
    pub export_limits: ExportLimits,
    /// How long an export may take, from its request to its end, before it counts as late, such as
    /// 30m, 6h or 2d; at most 365d. The receivers in `notify` are then notified. Default: 6h.
    // Kept in milliseconds.
    #[serde(default = "default_of::<LateAfter>", deserialize_with = "or_default::<LateAfter, _>")]
    #[schemars(with = "Option<String>")]
    pub export_late_after: i64,
    /// Maximum number of messages for each user. Default: no limit.
    #[serde(default)]
    pub frequency_capping: Vec<CappingRule>,
    /// Other names of fields, for clients that were written for another service of this family.
    #[serde(default)]
    pub aliases: Aliases,
    /// API keys, in addition to those created by `longshore key create`.
    #[serde(default)]
    pub keys: Vec<Key>,
    /// The apps of the workspace.
    #[serde(default)]
    pub apps: Vec<DeclaredApp>,
    /// Catalogs. `PATCH /catalogs/{catalog_name}/items` edits their items.
    #[serde(default)]
    pub catalogs: Vec<DeclaredCatalog>,
    /// Selections of catalog items, which templates read with `catalog_selection_items`.
    #[serde(default)]
    pub catalog_selections: Vec<CatalogSelection>,
    /// Texts that templates include as `{{content_blocks.${name}}}`, by name. A name has 1 to 100
    /// letters, digits, hyphens and underscores. `${…}` in a text belongs to the template, and is
    /// not read from the environment.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub content_blocks: Map<String, Value>,
    /// Templates of email objects (`email_template_id`).
    #[serde(default)]
    pub(crate) email_templates: Vec<DeclaredEmailTemplate>,
    /// Servers that templates may request with `connected_content`.
    pub(crate) connected_content: Option<ConnectedContent>,
    /// Sets of users. Requests send messages to a segment by its id.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// Senders of SMS and WhatsApp messages. Users subscribe to a group.
    #[serde(default)]
    pub subscription_groups: Vec<SubscriptionGroup>,
    /// Campaigns. New ones are listed in this order.
    #[serde(default)]
    pub(crate) campaigns: Vec<DeclaredCampaign>,
    /// Canvases. `POST /canvas/trigger/schedule/create` schedules them.
    #[serde(default)]
    pub(crate) canvases: Vec<DeclaredCanvas>,
    /// Settings for sending emails.
    pub(crate) email: Option<Email>,
    /// HTTP services that send push, SMS and WhatsApp messages.
    #[serde(default)]
    pub(crate) providers: Providers,
    /// Own storage for exports: Azure if it is the default destination, otherwise S3.
    #[serde(default)]
    pub(crate) storage: Storage,
    /// More storages for exports. A request chooses one with its name as `destination`. At most 20.
    #[serde(default)]
    pub(crate) storages: Vec<DeclaredStorage>,
    /// The global control group. `apply` creates it once; `longshore control-group renew` changes
    /// it.
    pub(crate) control_group: Option<DeclaredGroup>,
    /// Who is notified when an export fails, is late or is done. At most 20 entries.
    #[serde(default)]
    pub(crate) notify: Vec<Receiver>,
    /// Secrets that sign the callbacks of exports.
    pub(crate) callbacks: Option<SigningSecrets>,
    /// Secrets that sign webhook messages.
    pub(crate) webhooks: Option<SigningSecrets>,
    /// Where the file has the messages of campaigns and Canvases, in their order.
    #[serde(skip)]
    pub(crate) message_locations: Vec<SourceLocation>,
    /// Where the file has the email templates, in their order.
    #[serde(skip)]
    pub(crate) email_template_locations: Vec<SourceLocation>,
}

/// Where a value is in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub line: u64,
    /// Such as `campaigns[0]`.
    pub path: String,
}

impl Declaration {
    /// Resolves the paths of files relative to a directory, that of the workspace file.
    pub fn relative_to(&mut self, directory: &Path) {
        for items in self.catalogs.iter_mut().filter_map(|catalog| catalog.items.as_mut()) {
            *items = directory.join(&*items);
        }
    }

    /// The parts that hold secrets.
    pub fn channels(&self) -> Channels {
        let Providers { push, sms, whats_app, feedback_secret } = self.providers.clone();
        let has_relay = |email: &Email| email.relay().is_ok();
        let parts = [
            (Part::Callbacks, self.callbacks.clone().map(DeclaredPart::Signing)),
            (Part::Webhooks, self.webhooks.clone().map(DeclaredPart::Signing)),
            (Part::Email, self.email.clone().filter(has_relay).map(DeclaredPart::Email)),
            (Part::Push, push.map(DeclaredPart::Provider)),
            (Part::Sms, sms.map(DeclaredPart::Provider)),
            (Part::WhatsApp, whats_app.map(DeclaredPart::Provider)),
            (Part::FeedbackSecret, feedback_secret.map(DeclaredPart::Secret)),
            (
                Part::ConnectedContent,
                self.connected_content.clone().map(DeclaredPart::ConnectedContent),
            ),
            (
                Part::Notify,
                Some(self.notify.clone())
                    .filter(|notify| !notify.is_empty())
                    .map(DeclaredPart::Notify),
            ),
        ];
        parts.into_iter().filter_map(|(part, value)| Some((part, value?))).collect()
    }

    /// The content blocks that are texts.
    pub fn blocks(&self) -> Vec<ContentBlock> {
        let block = |(name, body): (&String, &Value)| {
            Some(ContentBlock { name: name.clone(), body: body.as_str()?.to_owned() })
        };
        self.content_blocks.iter().filter_map(block).collect()
    }

    pub fn email_templates(&self) -> Vec<EmailTemplate> {
        self.email_templates.iter().map(DeclaredEmailTemplate::template).collect()
    }

    /// The named storages that have settings; the others were reported.
    pub fn named_storages(&self) -> Vec<NamedStorage> {
        self.storages.iter().filter_map(DeclaredStorage::named).collect()
    }

    /// The campaigns, then the Canvases.
    pub fn campaigns(&self) -> Vec<Campaign> {
        let canvases = self.canvases.iter().map(DeclaredCanvas::campaign);
        self.campaigns.iter().map(DeclaredCampaign::campaign).chain(canvases).collect()
    }
}

fn rates<'de, D: Deserializer<'de>>(rates: D) -> Result<BTreeMap<String, i64>, D::Error> {
    let rates = BTreeMap::<String, Parsed<Rate>>::deserialize(rates)?;
    Ok(rates.into_iter().map(|(currency, rate)| (currency, rate.0)).collect())
}

fn rates_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": number(generator)})
}

fn rate_limits(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": {"enum": Budget::OF_WORKSPACES.map(Budget::name)},
        "additionalProperties": generator.subschema_for::<Limit>(),
    })
}

/// Limits of an export without own storage.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub struct ExportLimits {
    /// Maximum number of users in an export. Default: 500000.
    #[serde(default = "default_of::<Count>", deserialize_with = "or_default::<Count, _>")]
    #[schemars(schema_with = "optional_number")]
    pub users: i64,
    /// Maximum size of an export in bytes, or with a unit. Default: 5GiB.
    #[serde(default = "default_of::<Bytes>", deserialize_with = "or_default::<Bytes, _>")]
    #[schemars(schema_with = "optional_number")]
    pub bytes: i64,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self { users: default_of::<Count>(), bytes: default_of::<Bytes>() }
    }
}

/// An API key.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Key {
    /// 1 to 100 characters, unique in the workspace.
    #[serde(deserialize_with = "checked::<KeyName, _>")]
    pub name: String,
    /// The bearer token of requests: at least 20 printable characters. A new value rotates the
    /// secret: the previous one is revoked.
    #[serde(deserialize_with = "checked::<KeySecret, _>")]
    #[schemars(with = "String")]
    pub secret: SecretString,
    /// Permissions of the key.
    #[serde(deserialize_with = "list::<Permission, _>")]
    #[schemars(schema_with = "permissions")]
    pub permissions: Vec<String>,
    /// Addresses or networks (CIDRs) from which the key may be used. Empty: from everywhere.
    #[serde(default, deserialize_with = "list::<Network, _>")]
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<IpNet>,
}

fn permissions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {"anyOf": [{"enum": PERMISSIONS}, {"type": "string", "pattern": "\\$\\{"}]},
    })
}

/// A catalog.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Catalog")]
pub struct DeclaredCatalog {
    /// 1 to 250 letters, digits, hyphens and underscores, unique in the workspace.
    #[serde(deserialize_with = "checked::<CatalogName, _>")]
    pub name: String,
    /// Fields that its items may have in addition to their id; at most 500.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// Its items: the path of a file of newline-delimited JSON, relative to the workspace file's
    /// directory. The file is loaded if its content has changed since the last load.
    #[serde(default, deserialize_with = "optional::<crate::values::File, _>")]
    #[schemars(with = "Option<String>")]
    pub items: Option<PathBuf>,
}

/// A campaign. `messages`, `variations`, `email`, `trigger` and `audience` are stored as written:
/// `${…}` in them belongs to a template, and is not read from the environment. They are not
/// encrypted.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Campaign")]
pub(crate) struct DeclaredCampaign {
    /// The campaign's API identifier, a UUID.
    #[serde(skip_serializing, deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(skip_serializing, deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// The kind of the campaign, which determines what sends its messages: a request with its id
    /// (`api`), a transactional request (`transactional`), or a purchase (`triggered`).
    #[serde(rename = "type", skip_serializing, deserialize_with = "checked::<CampaignType, _>")]
    #[schemars(schema_with = "campaign_type")]
    pub kind: Kind,
    /// Tag names that the list of campaigns shows.
    #[serde(default, skip_serializing, deserialize_with = "list::<Name, _>")]
    pub tags: Vec<String>,
    /// Whether the campaign is archived: the list omits it unless a request includes archived
    /// campaigns.
    #[serde(default, skip_serializing)]
    pub archived: bool,
    #[serde(default, skip_serializing)]
    pub paused: bool,
    /// Objects with an `id`, a UUID. Messages refer to it as `message_variation_id`. Not allowed in
    /// a transactional campaign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variations: Vec<Map<String, Value>>,
    /// The message objects of the API, by channel. Required in a triggered campaign, and not
    /// allowed in a transactional one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Map<String, Value>>,
    /// The email of a transactional campaign: the email object of the API, with a `body`. Without
    /// `from`, the sender of the workspace's `email` is used. Only allowed in a transactional
    /// campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<Map<String, Value>>,
    /// Number of a transactional campaign's emails that the SLA covers in an hour.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional::<Count, _>"
    )]
    #[schemars(schema_with = "optional_number")]
    pub sla_per_hour: Option<i64>,
    /// The trigger of a triggered campaign: an object with `purchase` and `max_age`. `purchase` is
    /// an object with the `product_id` and `properties` that a purchase must have. `max_age` is the
    /// maximum age of the purchase, such as 90d, 12h or 30m. Default: 3d.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub trigger: Option<ObjectText>,
    /// The audience of a triggered campaign, a connected audience. Default: all users.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub audience: Option<ObjectText>,
    /// Time after a message during which a purchase counts as its result, such as 3d, 12h or 30m.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional::<Duration, _>"
    )]
    pub conversion_window: Option<String>,
}

fn campaign_type(_: &mut SchemaGenerator) -> Schema {
    one_of(Kind::CAMPAIGNS.map(Kind::name))
}

impl DeclaredCampaign {
    fn campaign(&self) -> Campaign {
        let Self { id, kind, archived, paused, .. } = *self;
        let (name, tags) = (self.name.clone(), self.tags.clone());
        let content = Content::new(content(self), self.trigger.clone(), self.audience.clone());
        Campaign { id, kind, name, tags, archived, paused, content }
    }
}

/// The fields without a separate column.
fn content(declared: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(declared) {
        Ok(Value::Object(content)) => content,
        other => unreachable!("a declaration must be an object: {other:?}"),
    }
}

/// A Canvas. `messages` are stored as written, like those of a campaign.
#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Canvas")]
pub(crate) struct DeclaredCanvas {
    /// The Canvas's API identifier, a UUID that no campaign has.
    #[serde(skip_serializing, deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(skip_serializing, deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// The message objects of the API, by channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Map<String, Value>>,
    /// Like `conversion_window` of a campaign.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional::<Duration, _>"
    )]
    pub conversion_window: Option<String>,
}

impl DeclaredCanvas {
    fn campaign(&self) -> Campaign {
        let (id, name) = (self.id, self.name.clone());
        let content = Content::new(content(self), None, None);
        let (kind, tags) = (Kind::Canvas, Vec::new());
        Campaign { id, kind, name, tags, archived: false, paused: false, content }
    }
}

/// Providers of messages, over HTTP.
#[derive(Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct Providers {
    /// The provider of all four kinds of push, and of live activities.
    pub push: Option<SignedAddress>,
    pub sms: Option<SignedAddress>,
    pub whats_app: Option<SignedAddress>,
    /// The secret that signs the providers' reports, in the format of `providers.push.secret`.
    #[serde(default, deserialize_with = "rules::secret::<SigningSecret, _>")]
    #[schemars(with = "Option<String>")]
    pub feedback_secret: Option<Secret>,
}

/// The global control group.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ControlGroup")]
pub(crate) struct DeclaredGroup {
    /// Percentage of the users, a whole number from 1 to 100; usually 1 to 15.
    #[serde(deserialize_with = "checked::<Percent, _>")]
    #[schemars(schema_with = "number")]
    pub percent: i32,
}

/// The JSON Schema of one document of the file, as `apply --schema` prints it.
pub fn json_schema() -> String {
    let mut generator = SchemaGenerator::default();
    let mut schema = json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Longshore workspace file",
        "anyOf": [
            generator.subschema_for::<Declaration>(),
            generator.subschema_for::<Company>(),
        ],
    });
    schema.insert("$defs".into(), Value::Object(generator.take_definitions(true)));
    let mut adapt_to_file = RecursiveTransform(|schema: &mut Schema| {
        if schema.get("properties").is_some() {
            schema.insert("additionalProperties".into(), false.into());
        }
        // Fields with a separate column are not part of a campaign's content.
        schema.remove("writeOnly");
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
    });
    adapt_to_file.transform(&mut schema);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_schema_is_current() {
        let published = include_str!("../../../deploy/workspace.schema.json");
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
        let example = include_str!("../../../deploy/example.yaml");
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(example).unwrap();
        assert_eq!(documents.len(), 2);
        for document in documents {
            if let Err(error) = schemas.validate(&document, schema) {
                panic!("{error:#}");
            }
        }
    }
}
