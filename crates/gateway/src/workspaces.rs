//! Workspaces and their keys, apps, storage, control group and channels.
//!
//! [`keys`] are API keys, a [`Budget`] limits their requests, [`groups`] is the global control
//! group, and [`storage`] is a workspace's own storage for exports. [`channels`] are stored
//! encrypted, and [`settings`] are the part of them that messages need. [`signing`] are the keys
//! that sign exports.

use std::collections::BTreeMap;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::workspaces::rules::{FieldAlias, Id, Name, checked, optional};
use crate::workspaces::settings::CappingRule;
use kit::json::ObjectText;
use kit::retry::Retry;
use store::{StoreError, Tx, text_enum};

pub mod budgets;
pub mod channel;
pub mod channel_rows;
pub mod channels;
pub mod email_templates;
pub mod groups;
pub mod key_rows;
pub mod keys;
pub mod known_names;
pub mod notify;
pub mod relay;
pub mod rows;
pub mod rules;
pub mod segments;
pub mod settings;
pub mod signing;
mod signing_rows;
pub mod storage;
pub mod template_data;
pub mod template_rows;

pub use budgets::{Budget, Limit};
pub use channel::Channel;
pub use groups::ControlGroup;
pub use rows::{by_id, by_name, control_group, ids, list, named_storages};
pub use storage::{StorageError, open_storage};

/// A workspace: the space that a key belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    pub id: i32,
    pub name: String,
    /// ISO 4217.
    pub currency: String,
    /// The value of one unit of each other currency, in millionths of `currency`.
    pub exchange_rates: BTreeMap<String, i64>,
    /// IANA.
    pub time_zone: String,
    pub ip_allowlist: Vec<IpNet>,
    /// Limits that differ from the default, by the names of their budgets.
    pub rate_limits: BTreeMap<String, Limit>,
    pub frequency_capping: Vec<CappingRule>,
    pub aliases: Aliases,
    /// Maximum users and bytes of an export without own storage.
    pub export_users_limit: i64,
    pub export_bytes_limit: i64,
    /// How long an export may take before it counts as late, in milliseconds.
    pub export_late_ms: i64,
    pub s3_storage: Option<Uuid>,
    pub azure_storage: Option<Uuid>,
    pub azure_is_default: bool,
}

impl Workspace {
    /// Its rate limit for a budget.
    pub fn rate_limit(&self, budget: Budget) -> Limit {
        self.rate_limits.get(budget.name()).copied().unwrap_or_else(|| budget.default_limit())
    }

    /// The limit before the body is read, for requests whose body decides the budget: the sum of
    /// all its budgets.
    pub fn limit_before_body(&self, permission: &str) -> Option<(Budget, Limit)> {
        let (budget, budgets) = Budget::before_body(permission)?;
        let [first, second] = budgets.map(|budget| self.rate_limit(budget));
        Some((budget, Limit::combine(first, second)))
    }

    /// Whether purchases in a currency add to the revenue.
    pub fn has_rate(&self, currency: &str) -> bool {
        currency == self.currency || self.exchange_rates.contains_key(currency)
    }

    /// The current destination of exports: Azure if it is the default destination, otherwise S3,
    /// otherwise none.
    pub fn own_storage(&self) -> Option<Uuid> {
        self.azure_storage.filter(|_| self.azure_is_default).or(self.s3_storage)
    }
}

/// Other names that clients of the workspace use for fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Aliases {
    /// Another name for `service_id`, for clients that use a different name for it. Requests and
    /// templates may use either name, and exports use the requested one. 1 to 64 lower-case
    /// letters, digits and underscores; must not be the name of another field.
    #[serde(default, deserialize_with = "optional::<FieldAlias, _>")]
    pub service_id: Option<String>,
}

/// Whether a text can be the name of a field.
pub fn is_field_alias(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// An app.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "App")]
pub struct DeclaredApp {
    /// The app's API identifier, a UUID.
    #[serde(deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// The platform of the app.
    #[schemars(schema_with = "platform")]
    pub platform: Platform,
    /// The bundle id, such as com.acme.app.
    #[serde(default, deserialize_with = "optional::<Name, _>")]
    pub bundle_id: Option<String>,
    /// Activity attributes types that the app has registered for push-to-start.
    #[serde(default, deserialize_with = "rules::list::<Name, _>")]
    pub activity_types: Vec<String>,
}

text_enum! {
    /// The platform of an app.
    pub enum Platform {
        Ios = "ios",
        Android = "android",
        Kindle = "kindle",
        Web = "web",
    }
}

fn platform(_: &mut SchemaGenerator) -> Schema {
    use Platform::{Android, Ios, Kindle, Web};
    rules::one_of([Ios, Android, Kindle, Web].map(Platform::name))
}

/// A segment. `audience` is stored as written: `${…}` in it is not read from the environment.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct Segment {
    /// The `segment_id` in requests, a UUID.
    #[serde(deserialize_with = "checked::<Id, _>")]
    #[schemars(with = "String")]
    pub id: Uuid,
    #[serde(deserialize_with = "checked::<Name, _>")]
    pub name: String,
    /// The users of the segment, as a connected audience.
    #[serde(deserialize_with = "rules::verbatim")]
    #[schemars(with = "Map<String, Value>")]
    pub audience: ObjectText,
}

/// The JSON of values that can always be written: texts, numbers, lists and maps of them.
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values are JSON")
}

/// The names of the fields that differ.
pub fn differing<T: Serialize>(current: &T, new: &T) -> String {
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (current, new) = (fields(current), fields(new));
    let added = new.keys().filter(|name| !current.contains_key(*name));
    let names = current.keys().chain(added).filter(|name| current.get(*name) != new.get(*name));
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Why a command cannot determine its workspace.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error("workspace {name} does not exist; the workspaces are: {existing}")]
    Unknown { name: String, existing: String },
    #[error("there is no workspace yet: declare one in a file and run `longshore apply FILE`")]
    None,
    #[error("there are several workspaces ({0}): select one with --workspace")]
    Several(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Retry for ChoiceError {
    fn can_retry(&self) -> bool {
        match self {
            Self::Store(error) => error.can_retry(),
            _ => false,
        }
    }
}

/// The workspace `name`, or the only one if no name is given.
pub async fn only_or_named(tx: &mut Tx, name: Option<&str>) -> Result<Workspace, ChoiceError> {
    let mut all = list(tx).await?;
    let names = |all: &[Workspace]| {
        all.iter().map(|workspace| workspace.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    match name {
        _ if all.is_empty() => Err(ChoiceError::None),
        None if all.len() > 1 => Err(ChoiceError::Several(names(&all))),
        None => Ok(all.swap_remove(0)),
        Some(name) => match all.iter().position(|workspace| workspace.name == name) {
            Some(index) => Ok(all.swap_remove(index)),
            None => Err(ChoiceError::Unknown { name: name.to_owned(), existing: names(&all) }),
        },
    }
}
