//! The request for an export.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::destination::Destination;
use super::{Format, audience};
use gateway::app::App;
use gateway::formats::exactly_one;
use gateway::warnings::{Warning, Warnings};
use gateway::workspaces::Budget;
use gateway::{ApiError, fields};
use kit::json::ObjectText;
use kit::pattern::TooCostly;
use proof::fields::{CUSTOM_ATTRIBUTES, FieldSet, MAX_BYTES, MAX_NAMES, exportable};
use runtime::outbound;

/// A request for an export.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExportRequest {
    fields_to_export: FieldNames,
    /// The service sends a POST to this http or https URL when the export ends. The host must not
    /// be in a private network. An empty string means no callback.
    #[schemars(extend(
        "maxLength" = outbound::MAX_URL_LENGTH, "pattern" = callback_pattern(),
        "not" = { "type": "string", "pattern": LOCALHOST },
    ))]
    callback_endpoint: Option<String>,
    /// Format of the files in own storage. A download URL always returns one ZIP.
    #[schemars(extend("default" = Format::default()))]
    output_format: Option<Format>,
    destination: Option<Destination>,
    users_per_file: Option<UsersPerFile>,
    /// If true, nothing is exported. The response (200) estimates the export, and has the result of
    /// a test write to the destination.
    // Only its type is checked here: the API also reads it in requests that are invalid.
    #[serde(rename = "dry_run")]
    #[schemars(extend("default" = false))]
    _dry_run: Option<bool>,
}

/// A request for an export of a segment.
#[derive(Debug, JsonSchema)]
#[schemars(transform = exactly_one(&["segment_id", "audience"]))]
pub struct SegmentExportRequest {
    #[serde(flatten)]
    _target: Target,
    #[serde(flatten)]
    _export: ExportRequest,
}

/// The users of an export of a segment.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Target {
    /// A segment of the workspace, from `GET /segments/list`. The segment `All users` has every
    /// user.
    #[schemars(extend("format" = "uuid"))]
    segment_id: Option<String>,
    /// The users in this audience, as of the start of the export.
    audience: Option<people::audience::Audience>,
}

/// Whose users a request is for. They may not exist.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestedUsers {
    ControlGroup,
    Segment {
        segment_id: Uuid,
    },
    Audience {
        conditions: ObjectText,
        /// The one in the paths of their files.
        segment_id: Uuid,
    },
}

impl RequestedUsers {
    /// The budget of requests for them.
    pub fn budget(&self) -> Budget {
        match self {
            Self::ControlGroup => Budget::UsersExport,
            Self::Segment { .. } | Self::Audience { .. } => Budget::UsersExportSegment,
        }
    }
}

impl Target {
    /// The warnings about the audience.
    pub fn warnings(&self) -> Vec<Warning> {
        self.audience.as_ref().map_or_else(Vec::new, |audience| audience.warnings("audience"))
    }

    /// A segment id that is not a UUID is of no segment.
    pub fn read(self, workspace: i32) -> Result<RequestedUsers, ApiError> {
        match (self.segment_id, self.audience) {
            (Some(id), None) => {
                let segment_id = Uuid::try_parse(&id).map_err(|_| unknown_segment())?;
                Ok(RequestedUsers::Segment { segment_id })
            }
            (None, Some(audience)) => {
                let conditions = audience.to_json();
                let segment_id = audience::id_of_connected(workspace, &conditions);
                Ok(RequestedUsers::Audience { conditions, segment_id })
            }
            _ => Err(ApiError::invalid_field("exactly one of segment_id and audience is required")),
        }
    }
}

/// The check of a callback's address, for [`ExportOptions`].
pub fn check_address(app: &App) -> impl Fn(&str) -> Result<String, String> {
    |address| outbound::check_address(address, &app.config).map(String::from)
}

/// The error for a segment that the workspace does not have.
pub fn unknown_segment() -> ApiError {
    ApiError::invalid_field("segment_id does not match a segment in this workspace")
}

/// An error for an audience whose regular expressions take too long.
pub fn too_costly() -> ApiError {
    TooCostly { pattern: "[01]*1[01]{2000}a".into() }.into()
}

/// Maximum number of users in a file.
pub const MAX_USERS_PER_FILE: u32 = 500_000;

/// How many users a file has.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "u64")]
#[schemars(
    with = "u32",
    inline,
    description = "The maximum number of users in a file. Unless it is set, the service decides, \
                   and uses 5,000 by default.",
    extend("minimum" = 1, "maximum" = MAX_USERS_PER_FILE),
)]
struct UsersPerFile(u32);

impl TryFrom<u64> for UsersPerFile {
    type Error = String;

    fn try_from(users: u64) -> Result<Self, String> {
        let users = u32::try_from(users).ok();
        let users = users.filter(|users| (1..=MAX_USERS_PER_FILE).contains(users));
        users.map(Self).ok_or_else(|| format!("must be 1 to {MAX_USERS_PER_FILE}"))
    }
}

/// Names of fields of the user record.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>")]
#[schemars(
    with = "Vec<String>",
    inline,
    description = format!(
        "Fields of the user record; `{CUSTOM_ATTRIBUTES}` for all custom attributes, \
         `{CUSTOM_ATTRIBUTES}.<name>` for one. Duplicates are ignored. At most {MAX_BYTES} bytes \
         in total."
    ),
    extend("minItems" = 1, "maxItems" = MAX_NAMES, "items" = { "anyOf": [
        { "enum": exportable().collect::<Vec<_>>() },
        { "type": "string", "pattern": format!(r"^{CUSTOM_ATTRIBUTES}\.[^\u0000]+$") },
    ] }),
)]
pub(crate) struct FieldNames(pub(crate) Vec<String>);

impl TryFrom<Vec<String>> for FieldNames {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        FieldSet::parse(&names)?;
        Ok(Self(names))
    }
}

/// A request's fields, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    pub fields: Vec<String>,
    pub format: Format,
    pub destination: Option<String>,
    pub users_per_file: Option<u32>,
    pub callback_endpoint: Option<String>,
    /// Warnings about unknown fields, and about the audience.
    pub warnings: Vec<Warning>,
}

impl ExportOptions {
    /// Reads the fields of a request for the control group.
    pub fn read(
        body: &Map<String, Value>,
        check_address: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ApiError> {
        let (request, warnings) = fields::read_request_to_many::<ExportRequest>(body)?;
        Self::check(request, warnings, check_address)
    }

    /// Reads the fields of a request for a segment or an audience, and whose users it is for.
    pub fn read_with_users(
        body: &Map<String, Value>,
        workspace: i32,
        check_address: impl Fn(&str) -> Result<String, String>,
    ) -> Result<(RequestedUsers, Self), ApiError> {
        let ((target, request), unknown) =
            fields::read_request_both::<Target, ExportRequest>(body)?;
        let mut warnings = Warnings::from(unknown);
        warnings.extend(target.warnings());
        let options = Self::check(request, warnings.into_vec(), check_address)?;
        Ok((target.read(workspace)?, options))
    }

    fn check(
        request: ExportRequest,
        warnings: Vec<Warning>,
        check_address: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ApiError> {
        let address = request.callback_endpoint.filter(|address| !address.is_empty());
        // The parsed URL, which is what the service requests: the raw text may have characters that
        // a URL cannot have.
        let callback_endpoint = address.map(|address| check_address(&address)).transpose();
        Ok(Self {
            fields: request.fields_to_export.0,
            format: request.output_format.unwrap_or_default(),
            destination: request.destination.map(|destination| destination.0),
            users_per_file: request.users_per_file.map(|users| users.0),
            callback_endpoint: callback_endpoint
                .map_err(|error| ApiError::invalid_field(format!("callback_endpoint: {error}")))?,
            warnings,
        })
    }
}

/// A URL with this machine as host.
const LOCALHOST: &str =
    r"^[^:]*://(?:[^/?#]*[.@])?[lL][oO][cC][aA][lL][hH][oO][sS][tT]\.?(?:[:/?#]|$)";

/// The pattern of a callback URL, except literal IPv6 addresses and characters outside ASCII, which
/// are accepted as well.
fn callback_pattern() -> String {
    const LABEL: &str = "[A-Za-z0-9_-]+";
    // If the last label is a number, the host is an IPv4 address.
    const LAST: &str = "(?:[A-Za-z_-]|[0-9]+[A-WYZa-wyz_-])[A-Za-z0-9_-]*";
    const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const PORT: &str =
        "(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let host = format!(r"(?:(?:{LABEL}\.)*{LAST}|(?:{BYTE}\.){{3}}{BYTE})\.?");
    let user = "(?:[A-Za-z0-9._~:%-]+@)?";
    format!("^(?:|[hH][tT][tT][pP][sS]?://{user}{host}(?::{PORT})?(?:[/?#][!-~]*)?)$")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<ExportOptions, String> {
        let Value::Object(body) = body else { panic!("{body}") };
        let check = |address: &str| {
            if address.starts_with("https://") {
                Ok(address.to_owned())
            } else {
                Err("expected an https address".to_owned())
            }
        };
        ExportOptions::read(&body, check).map_err(|error| error.message().into_owned())
    }

    #[test]
    fn missing_fields_have_defaults() {
        let fields = vec!["email".to_owned(), "custom_attributes.tier".to_owned()];
        let bare = ExportOptions {
            fields: fields.clone(),
            format: Format::Zip,
            destination: None,
            users_per_file: None,
            callback_endpoint: None,
            warnings: Vec::new(),
        };
        let nothing = json!({
            "fields_to_export": fields, "output_format": null, "callback_endpoint": null,
            "destination": null, "dry_run": null,
        });
        assert_eq!(read(nothing), Ok(bare.clone()));
        let empty = json!({ "fields_to_export": fields, "callback_endpoint": "" });
        assert_eq!(read(empty), Ok(bare));
        let full = json!({
            "fields_to_export": fields, "output_format": "gzip",
            "callback_endpoint": "https://a.b/c", "destination": "lake", "users_per_file": 500_000.0,
            "dry_run": true,
        });
        let destination = Some("lake".to_owned());
        let callback_endpoint = Some("https://a.b/c".to_owned());
        let warnings = Vec::new();
        assert_eq!(
            read(full),
            Ok(ExportOptions {
                fields,
                format: Format::Gzip,
                destination,
                users_per_file: Some(500_000),
                callback_endpoint,
                warnings,
            })
        );
    }

    #[test]
    fn errors_name_the_invalid_field() {
        for (member, wrong) in [
            ("fields_to_export", json!(null)),
            ("fields_to_export", json!([])),
            ("fields_to_export", json!("email")),
            ("fields_to_export", json!(["email", 1])),
            ("fields_to_export", json!(["e-mail"])),
            ("fields_to_export", json!(["custom_attributes."])),
            ("output_format", json!("rar")),
            ("output_format", json!(1)),
            ("fields_to_export", json!(vec!["email"; 1_001])),
            ("fields_to_export", json!(["x".repeat(64 << 10), "y"])),
            ("callback_endpoint", json!(["https://a.b"])),
            ("callback_endpoint", json!("ftp://a.b")),
            ("users_per_file", json!(0)),
            ("users_per_file", json!(500_001)),
            ("users_per_file", json!(-1)),
            ("users_per_file", json!(1.5)),
            ("users_per_file", json!("5")),
            ("dry_run", json!("true")),
            ("destination", json!("")),
            ("destination", json!("My Lake")),
            ("destination", json!({ "name": "lake" })),
        ] {
            let mut body = json!({ "fields_to_export": ["email"] });
            body[member] = wrong.clone();
            let text = read(body).expect_err(&wrong.to_string());
            assert!(text.contains(member), "{wrong}: {text}");
        }
        assert!(read(json!({})).unwrap_err().contains("fields_to_export"));
    }

    #[test]
    fn a_segment_or_an_audience_is_exported() {
        let id = Uuid::from_u128(7);
        let audience = json!({ "email_subscription_status": {
            "comparison": "is", "value": "opted_in" } });
        let read = |mut body: Value| {
            body["fields_to_export"] = json!(["email"]);
            let Value::Object(body) = body else { panic!("{body}") };
            let read = ExportOptions::read_with_users(&body, 1, |_| Err("none".into()));
            read.map(|(users, _)| users)
        };
        let of_segment = read(json!({ "segment_id": id, "audience": null })).unwrap();
        assert_eq!(of_segment, RequestedUsers::Segment { segment_id: id });
        let of_audience = read(json!({ "audience": audience })).unwrap();
        let conditions = ObjectText::from(audience.as_object().unwrap());
        let segment_id = audience::id_of_connected(1, &conditions);
        assert_eq!(of_audience, RequestedUsers::Audience { conditions, segment_id });
        for wrong in [
            json!({}),
            json!({ "segment_id": id, "audience": audience }),
            json!({ "segment_id": "gold" }),
            json!({ "segment_id": 7 }),
            json!({ "audience": { "AND": [] } }),
            json!({ "segment_id": id, "external_ids": ["a"] }),
            json!({ "segment_id": id, "since": "2026-01-01" }),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    fn is_described(address: &str) -> bool {
        let matches = |pattern: &str| Regex::new(pattern).unwrap().is_match(address);
        matches(&callback_pattern()) && !matches(LOCALHOST)
    }

    fn is_accepted(address: &str) -> bool {
        outbound::check_address(address, &runtime::config::Config::default()).is_ok()
    }

    #[test]
    fn describes_the_addresses_that_are_accepted() {
        for address in [
            "https://Example.COM/x",
            "http://hooks:65535/",
            "https://3scale.example:50443/?a#b",
            "HTTPS://user:pass@a_b.1and1.example.",
            "http://a.3com",
            "http://8.8.8.8/",
            "http://xn--mnchen-3ya.example/",
        ] {
            assert_eq!((is_described(address), is_accepted(address)), (true, true), "{address}");
        }
        for address in [
            "https://*.example.com/",
            "https://a*b/",
            "https://a..example/",
            "https://.example/",
            "http://a.example:65536/",
            "http://a b.example/",
            "http://256.1.1.1/",
            "http://10.2.3.0x4/",
            "http://LocalHost./",
            "http://x@a.localhost:1/",
            "ftp://a.example/",
            "a.example",
        ] {
            assert_eq!((is_described(address), is_accepted(address)), (false, false), "{address}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn addresses_of_the_schema_are_accepted(address in "https?://([a-zA-Z0-9._*@:-]|0x|[lL]ocalhost){1,12}(/[!-~]*)?") {
            let is_literal = url::Url::parse(&address)
                .is_ok_and(|url| matches!(url.host(), Some(url::Host::Ipv4(_))));
            if is_described(&address) && !is_literal && !address.to_lowercase().contains("xn--") {
                prop_assert!(is_accepted(&address), "{address}");
            }
        }
    }
}
