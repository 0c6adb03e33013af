//! The manifest of an export: what was asked for, how many users there are, and for each file its
//! size, its hash and its range of users (docs/reference/export-manifest.md).
//!
//! Types only, no I/O: whoever ends an export writes one, [`verify`](crate::verify) reads it.

mod check;
mod difference;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Format;
use super::fields::{self, FieldSet};
use super::record;
use kit::clock;
use kit::json::ObjectText;
use kit::retry::Retry;

pub use difference::{Difference, DifferenceKind};

/// The version of the format. A later one that adds fields keeps it.
pub const FORMAT_VERSION: u32 = 1;

// The names of the objects next to an export's folder, after its object_prefix.
pub const MANIFEST_SUFFIX: &str = ".manifest.json";
pub const CHECKSUMS_SUFFIX: &str = ".SHA256SUMS";
pub const SIGNATURE_SUFFIX: &str = ".manifest.json.sig";
pub const ARCHIVE_SUFFIX: &str = ".zip";

/// The objects next to the folder.
pub const ALL_SUFFIXES: [&str; 3] = [MANIFEST_SUFFIX, CHECKSUMS_SUFFIX, SIGNATURE_SUFFIX];

/// Whether a text is `<uuid>-<unix seconds>`.
pub fn is_object_prefix(text: &str) -> bool {
    text.rsplit_once('-')
        .is_some_and(|(id, seconds)| Uuid::try_parse(id).is_ok() && seconds.parse::<u64>().is_ok())
}

/// The manifest of a completed export. Fields appear in the file in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifest")]
pub struct Manifest {
    /// The version of this format. Readers reject other versions, and ignore unknown fields.
    #[schemars(extend("const" = FORMAT_VERSION))]
    pub format_version: u32,
    pub object_prefix: String,
    /// The workspace's name.
    pub workspace: String,
    pub audience: ExportAudience,
    /// `fields_to_export`, as requested.
    pub fields: Vec<String>,
    /// The name of `service_id` in `fields` and in the lines, if it is the workspace's other name
    /// for it. If `fields` has both names, the lines have both fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_id_name: Option<String>,
    /// The currency of `total_revenue` in the lines, as an ISO 4217 code. Manifests of earlier
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The format of the files.
    pub format: Format,
    pub storage: ExportStorage,
    #[serde(serialize_with = "clock::serialize_time", deserialize_with = "read_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub requested_at: i64,
    /// The moment as of which users belong to the audience.
    #[serde(serialize_with = "clock::serialize_time", deserialize_with = "read_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub planned_at: i64,
    /// When the last file was written.
    #[serde(serialize_with = "clock::serialize_time", deserialize_with = "read_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub completed_at: i64,
    /// The first of the UTC days of `purchases` and `custom_events`.
    #[schemars(with = "String", extend("format" = "date"))]
    pub first_day: Date,
    /// The last of these days.
    #[schemars(with = "String", extend("format" = "date"))]
    pub last_day: Date,
    pub record_schema: RecordSchema,
    pub counts: Counts,
    /// In the order of their ranges.
    pub files: Vec<File>,
}

/// The audience, as requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExportManifestAudience")]
pub enum ExportAudience {
    ControlGroup {
        segment_id: Uuid,
        /// The group's slices of 100 buckets each, ascending.
        slices: Vec<i16>,
    },
    Segment {
        segment_id: Uuid,
        name: String,
        /// The segment's conditions at that time; absent for the segment of all users.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Value>")]
        audience: Option<ObjectText>,
    },
    /// The conditions in the request.
    Audience(#[schemars(with = "Value")] ObjectText),
}

/// Where the files were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schemars(rename = "ExportManifestStorage")]
pub enum ExportStorage {
    S3 {
        bucket: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
    },
    Azure {
        container: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<String>,
    },
    /// No own storage: the archive behind the export's `url`.
    Url,
}

/// The JSON Schema of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifestRecordSchema")]
pub struct RecordSchema {
    /// The path at the gateway.
    pub path: String,
    pub version: u32,
}

impl Default for RecordSchema {
    fn default() -> Self {
        Self { path: record::SCHEMA_PATH.to_owned(), version: record::SCHEMA_VERSION }
    }
}

/// Numbers of users. `planned` is the sum of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifestCounts")]
pub struct Counts {
    pub planned: u64,
    /// The users in the files.
    pub exported: u64,
    /// The users that were deleted between the plan and the reading of their part.
    pub erased: u64,
}

/// A file of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifestFile")]
pub struct File {
    /// Relative to the folder of the manifest. Absent if all users of the range were deleted: then
    /// there is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub users: u64,
    pub bytes: u64,
    /// The bytes of the lines.
    pub uncompressed_bytes: u64,
    /// Hexadecimal, lower case. Absent without `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Absent for the archive behind `url`, whose entries have ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<UserRange>,
    /// Only for the archive behind `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
}

/// An entry of the archive behind `url`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifestEntry")]
pub struct Entry {
    /// Absent if all users of the range were deleted: then there is no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub users: u64,
    pub uncompressed_bytes: u64,
    pub range: UserRange,
}

/// The planned users of a file: those after `after`, up to and including `up_to`. Each range begins
/// where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExportManifestRange")]
pub struct UserRange {
    pub after: Position,
    pub up_to: Position,
}

impl UserRange {
    pub fn contains(&self, position: Position) -> bool {
        self.after < position && position <= self.up_to
    }
}

/// A user's position in the order of an export.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "ExportManifestPosition")]
pub struct Position {
    /// The user's bucket, divided by 100.
    #[schemars(range(min = 0, max = 99))]
    pub slice: i16,
    pub service_id: Uuid,
}

impl From<people::users::Position> for Position {
    fn from(position: people::users::Position) -> Self {
        // The position before all users has a slice of its own.
        Self { slice: position.slice.max(0), service_id: position.service_id }
    }
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("not a manifest of an export: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "format_version {0} is not known to this version of Longshore, which reads \
         {FORMAT_VERSION}: use a newer one"
    )]
    Version(u64),
}

impl Retry for ManifestError {}

impl Manifest {
    /// The file's bytes: the same for the same manifest.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Keys are texts, and no value refuses to be written.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads a manifest; [`check`](Self::check) then looks at its content.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        parse(bytes)
    }

    /// The text of the checksum file, as `sha256sum -c` reads it: a line for each file, and the
    /// last one for the manifest.
    pub fn checksums(&self, manifest_name: &str, manifest_sha256: &str) -> String {
        let files = self.files.iter().filter_map(File::key_and_hash);
        let mut text = String::new();
        for (key, sha256) in files.chain([(manifest_name, manifest_sha256)]) {
            text.push_str(&checksum_line(key, sha256));
        }
        text
    }

    /// The requested fields. The error is for a person.
    pub fn field_set(&self) -> Result<FieldSet, String> {
        let names: Vec<String> = self
            .fields
            .iter()
            .map(|name| fields::stored_name(name, self.service_id_name.as_deref()))
            .collect();
        FieldSet::parse(&names)
    }
}

/// What decides whose signature a manifest needs. It is read before the rest, which may be large.
#[derive(Clone, Debug, Deserialize)]
pub struct SignedFor {
    pub workspace: String,
    #[serde(deserialize_with = "read_time")]
    pub completed_at: i64,
}

impl SignedFor {
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        parse(bytes)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ManifestError> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u64,
    }
    // First, because another version may have other fields.
    let Version { format_version } = serde_json::from_slice(bytes)?;
    if format_version != u64::from(FORMAT_VERSION) {
        return Err(ManifestError::Version(format_version));
    }
    Ok(serde_json::from_slice(bytes)?)
}

impl File {
    fn key_and_hash(&self) -> Option<(&str, &str)> {
        self.key.as_deref().zip(self.sha256.as_deref())
    }
}

/// One line, with the escapes of `sha256sum`: it prefixes a line with `\` if the name needs them.
fn checksum_line(name: &str, sha256: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            c => escaped.push(c),
        }
    }
    let mark = if escaped == name { "" } else { "\\" };
    format!("{mark}{sha256}  {escaped}\n")
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    if !clock::is_formatted(&text) {
        let problem = format!("expected a time such as 2021-06-28T17:02:43.032Z, not {text:?}");
        return Err(serde::de::Error::custom(problem));
    }
    clock::parse_time(&text).map_err(serde::de::Error::custom)
}

/// The requested names of stored `fields_to_export`, and the name of `service_id` among them if it
/// is another one: [`Manifest::fields`] and [`Manifest::service_id_name`].
pub fn requested_fields(stored: &[String]) -> (Vec<String>, Option<String>) {
    let mut aliases = stored.iter().filter_map(|name| fields::alias_in(name));
    let alias = aliases.next_back().map(str::to_owned);
    let requested =
        stored.iter().map(|name| fields::alias_in(name).unwrap_or(name).to_owned()).collect();
    (requested, alias)
}
