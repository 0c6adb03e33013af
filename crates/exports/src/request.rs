//! The request for an export.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields::{CUSTOM_ATTRIBUTES, FieldSet, MAX_BYTES, MAX_NAMES, exportable};
use super::{Format, warnings};
use gateway::{ApiError, fields};
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
}

/// Names of fields of the user record.
#[derive(Debug, Deserialize, JsonSchema)]
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
struct FieldNames(Vec<String>);

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
    pub callback_endpoint: Option<String>,
    /// Warnings about unknown fields.
    pub warnings: Vec<String>,
}

impl ExportOptions {
    /// Reads the fields of a request. Ignores unknown ones with a warning.
    pub fn read(
        body: &Map<String, Value>,
        check_address: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ApiError> {
        let request: ExportRequest = fields::read(body)?;
        let address = request.callback_endpoint.filter(|address| !address.is_empty());
        // The parsed URL, which is what the service requests: the raw text may have characters that
        // a URL cannot have.
        let callback_endpoint = address.map(|address| check_address(&address)).transpose();
        Ok(Self {
            fields: request.fields_to_export.0,
            format: request.output_format.unwrap_or_default(),
            callback_endpoint: callback_endpoint
                .map_err(|error| ApiError::invalid_field(format!("callback_endpoint: {error}")))?,
            warnings: warnings::unknown_fields(body, fields::names::<ExportRequest>()),
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
            callback_endpoint: None,
            warnings: Vec::new(),
        };
        let nothing = json!({
            "fields_to_export": fields, "output_format": null, "callback_endpoint": null,
        });
        assert_eq!(read(nothing), Ok(bare.clone()));
        let empty = json!({ "fields_to_export": fields, "callback_endpoint": "" });
        assert_eq!(read(empty), Ok(bare));
        let full = json!({
            "fields_to_export": fields, "output_format": "gzip", "callback_endpoint": "https://a.b/c"
        });
        let callback_endpoint = Some("https://a.b/c".to_owned());
        let warnings = Vec::new();
        assert_eq!(
            read(full),
            Ok(ExportOptions { fields, format: Format::Gzip, callback_endpoint, warnings })
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
        ] {
            let mut body = json!({ "fields_to_export": ["email"] });
            body[member] = wrong.clone();
            let text = read(body).expect_err(&wrong.to_string());
            assert!(text.contains(member), "{wrong}: {text}");
        }
        assert!(read(json!({})).unwrap_err().contains("fields_to_export"));
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
