//! One line of an export: the user record (docs/reference/api/user-record.md) as a type, which
//! describes it (`GET /schemas/export-record.json`) and reads it.
//!
//! Exports write lines without this type, because they copy texts (`project` in the crate
//! `exports`).

mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod values;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

pub use reader::RecordReader;
pub use schema::{SCHEMA_PATH, SCHEMA_VERSION, schema};
pub use values::{AttributeNames, Bucket, ExportTime, Optional};

/// A user record. A field is absent if the user has no data for it, or if the export did not
/// request it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExportRecord {
    /// Longshore's identifier of the user. If the export requested it under the workspace's other
    /// name for it, the field has that name: `service_id_name` in the manifest. If it requested
    /// both names, there are both fields.
    pub service_id: Optional<Uuid>,
    /// The customer's identifier of the user.
    pub external_id: Optional<String>,
    pub user_aliases: Optional<Vec<UserAlias>>,
    /// 0 to 9999, in equal shares.
    pub random_bucket: Optional<Bucket>,
    pub created_at: Optional<ExportTime>,
    pub email: Optional<String>,
    /// A number in E.164.
    pub phone: Optional<String>,
    pub first_name: Optional<String>,
    pub last_name: Optional<String>,
    pub gender: Optional<Gender>,
    #[schemars(with = "String", extend("format" = "date"))]
    pub dob: Optional<Date>,
    /// An ISO 3166-1 alpha-2 code, in upper case.
    pub country: Optional<String>,
    /// An ISO 639-1 code, in lower case.
    pub language: Optional<String>,
    /// A name from the IANA time zone database.
    pub time_zone: Optional<String>,
    pub home_city: Optional<String>,
    /// Longitude and latitude.
    pub last_coordinates: Optional<[f64; 2]>,
    pub attributed_campaign: Optional<String>,
    pub attributed_source: Optional<String>,
    pub attributed_adgroup: Optional<String>,
    pub attributed_ad: Optional<String>,
    /// Values of any type, as received.
    pub custom_attributes: Optional<AttributeNames>,
    pub apps: Optional<Vec<UserApp>>,
    pub devices: Optional<Vec<UserDevice>>,
    /// Absent unless the app is uninstalled.
    pub uninstalled_at: Optional<ExportTime>,
    /// Purchases of the last 90 days.
    pub purchases: Optional<Vec<Summary>>,
    /// Events of the last 90 days.
    pub custom_events: Optional<Vec<Summary>>,
    /// Money in the workspace's currency, with up to six decimal places.
    pub total_revenue: Optional<f64>,
    pub email_subscribe: Optional<SubscriptionState>,
    pub push_subscribe: Optional<SubscriptionState>,
    pub subscription_groups: Optional<Vec<SubscriptionGroup>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExportedAlias")]
pub struct UserAlias {
    pub alias_name: String,
    pub alias_label: String,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub enum Gender {
    M,
    F,
    /// Other.
    O,
    /// Not applicable.
    N,
    /// Prefers not to disclose.
    P,
}

/// An app in which the user had sessions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ExportedApp")]
pub struct UserApp {
    pub name: Optional<String>,
    pub platform: Optional<String>,
    pub version: Optional<String>,
    /// A number, as a string.
    pub sessions: Optional<String>,
    pub first_used: Optional<ExportTime>,
    pub last_used: Optional<ExportTime>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ExportedDevice")]
pub struct UserDevice {
    pub model: Optional<String>,
    pub os: Optional<String>,
    pub carrier: Optional<String>,
    pub idfv: Optional<String>,
    pub idfa: Optional<String>,
    pub device_id: Optional<String>,
    pub google_ad_id: Optional<String>,
    pub roku_ad_id: Optional<String>,
    pub ad_tracking_enabled: Optional<bool>,
}

/// The purchases of one product, or the events with one name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExportedSummary")]
pub struct Summary {
    pub name: String,
    pub first: ExportTime,
    pub last: ExportTime,
    #[schemars(range(min = 1))]
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExportedSubscriptionState")]
pub enum SubscriptionState {
    OptedIn,
    Subscribed,
    Unsubscribed,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExportedSubscriptionGroup")]
pub struct SubscriptionGroup {
    pub subscription_group_id: String,
    pub subscription_state: GroupState,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExportedGroupState")]
pub enum GroupState {
    Subscribed,
    Unsubscribed,
}
