//! The location and credentials of an object storage: declared in a workspace file, or read from a
//! URL.

use std::fmt;
use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use url::Url;

use super::ObjectError;

/// A bucket of S3 or a compatible store. Serialization includes the credentials, for encrypted
/// storage; printing does not.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct S3Settings {
    pub bucket: String,
    /// The prefix of every key; may be empty.
    #[serde(default)]
    pub prefix: String,
    /// `us-east-1` if an endpoint is set; otherwise from the environment (variables, profile,
    /// instance).
    #[serde(default)]
    pub region: Option<String>,
    /// Without it, the default credential chain is used.
    #[serde(default)]
    pub access_key_id: Option<String>,
    #[serde(default)]
    pub secret_access_key: Option<String>,
    #[serde(default)]
    pub session_token: Option<String>,
    /// `http(s)://host:port` of a compatible store.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The endpoint for downloads, if clients reach the store at another one.
    #[serde(default)]
    pub public_endpoint: Option<String>,
    /// `endpoint/bucket/key` instead of `bucket.endpoint/key`.
    #[serde(default)]
    pub path_style: bool,
    /// The ARN, id or alias of the KMS key that encrypts written objects (SSE-KMS).
    #[serde(default)]
    pub sse_kms_key_id: Option<String>,
}

/// A container of Azure Blob Storage. Serialization includes the credentials, for encrypted
/// storage; printing does not.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AzureSettings {
    pub account: String,
    pub container: String,
    /// The prefix of every blob's name; may be empty.
    #[serde(default)]
    pub prefix: String,
    /// The account's key, in base64. Without it and a token, `AZURE_STORAGE_KEY` and
    /// `AZURE_STORAGE_SAS_TOKEN` of the environment are used.
    #[serde(default)]
    pub access_key: Option<String>,
    /// A shared access signature, with or without its question mark. It cannot sign download URLs.
    #[serde(default)]
    pub sas_token: Option<String>,
    /// URL of the account, if it is not in the public cloud.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The endpoint for downloads, if clients reach the account at another one.
    #[serde(default)]
    pub public_endpoint: Option<String>,
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("public_endpoint", &self.public_endpoint)
            .field("sse_kms_key_id", &self.sse_kms_key_id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AzureSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureSettings")
            .field("account", &self.account)
            .field("container", &self.container)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl S3Settings {
    /// Rejects invalid settings.
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        let texts = [&self.region, &self.access_key_id, &self.secret_access_key];
        refuse(self.bucket.is_empty() || self.bucket.contains('/'), "S3 needs a bucket name")?;
        refuse(
            any_empty(texts),
            "region, access_key_id or secret_access_key is empty: leave it out",
        )?;
        refuse(
            self.access_key_id.is_some() != self.secret_access_key.is_some(),
            "set both access_key_id and secret_access_key, or neither",
        )?;
        refuse(
            self.session_token.is_some() && self.access_key_id.is_none(),
            "a session_token needs its access_key_id and secret_access_key",
        )?;
        refuse(
            self.sse_kms_key_id.as_deref().is_some_and(|key| !is_kms_key(key)),
            KMS_KEY_EXPECTED,
        )?;
        check_endpoint("endpoint", self.endpoint.as_deref())?;
        check_endpoint("public_endpoint", self.public_endpoint.as_deref())
    }
}

impl AzureSettings {
    /// Rejects invalid settings.
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        refuse(self.account.is_empty(), "Azure needs an account")?;
        refuse(
            self.container.is_empty() || self.container.contains('/'),
            "Azure needs a container name",
        )?;
        refuse(
            any_empty([&self.access_key, &self.sas_token]),
            "access_key or sas_token is empty: leave it out",
        )?;
        refuse(
            self.access_key.is_some() && self.sas_token.is_some(),
            "set access_key or sas_token, not both",
        )?;
        let broken = |key: &String| BASE64_STANDARD.decode(key).is_err();
        refuse(self.access_key.as_ref().is_some_and(broken), "the access_key must be base64")?;
        check_endpoint("endpoint", self.endpoint.as_deref())?;
        check_endpoint("public_endpoint", self.public_endpoint.as_deref())
    }
}

/// What an invalid `sse_kms_key_id` must be.
pub const KMS_KEY_EXPECTED: &str =
    "sse_kms_key_id must be the ARN, the id or the alias (alias/NAME) of a KMS key";

/// Whether a text can name a KMS key. Compatible stores have names of any form, but each is sent as
/// a header.
pub fn is_kms_key(text: &str) -> bool {
    (1..=2048).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn refuse(wrong: bool, text: &str) -> Result<(), ObjectError> {
    if wrong { Err(ObjectError::Settings(text.into())) } else { Ok(()) }
}

fn any_empty<const N: usize>(texts: [&Option<String>; N]) -> bool {
    texts.into_iter().flatten().any(|text| text.is_empty())
}

fn check_endpoint(name: &str, endpoint: Option<&str>) -> Result<(), ObjectError> {
    let unusable = endpoint.is_some_and(|endpoint| parse_endpoint(endpoint).is_none());
    let text = format!("{name} must be a URL such as https://host:port, without credentials");
    refuse(unusable, &text)
}

/// An http or https URL without secrets.
pub fn parse_endpoint(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// Why a `LONGSHORE_OBJECTS_URL` is invalid, whatever the storage supports.
pub fn problem_of(address: &str) -> Option<String> {
    let checked = Location::parse(address).and_then(|location| match location {
        Location::Files(_) => Ok(()),
        Location::S3(settings) => settings.check(),
        Location::Azure(settings) => settings.check(),
    });
    checked.err().map(|error| match error {
        ObjectError::Settings(text) => text,
        other => other.to_string(),
    })
}

/// A parsed `LONGSHORE_OBJECTS_URL`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    Files(PathBuf),
    S3(S3Settings),
    Azure(AzureSettings),
}

impl Location {
    /// Parses `file:///DIR`, `s3://bucket/prefix?…` or `azure://container/prefix?…`. No error
    /// repeats the URL, because its query may hold credentials.
    pub(super) fn parse(address: &str) -> Result<Self, ObjectError> {
        let url = Url::parse(address)
            .map_err(|error| ObjectError::Settings(format!("not a URL: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(ObjectError::Settings(
                "the URL must not contain user:password@ or a # part".into(),
            ));
        }
        match url.scheme() {
            "file" => Self::files(&url),
            "s3" => Self::s3(&url),
            "azure" => Self::azure(&url),
            other => Err(ObjectError::Settings(format!(
                "{other}: expected file:///DIR, s3://bucket or azure://container"
            ))),
        }
    }

    fn files(url: &Url) -> Result<Self, ObjectError> {
        if let Some((name, _)) = pairs(url).into_iter().next() {
            return Err(unknown(&name, "none"));
        }
        let wrong = || ObjectError::Settings("a directory must be written as file:///DIR".into());
        url.to_file_path().map(Self::Files).map_err(|()| wrong())
    }

    fn s3(url: &Url) -> Result<Self, ObjectError> {
        let mut settings =
            S3Settings { bucket: host(url), prefix: prefix(url)?, ..S3Settings::default() };
        for (name, value) in pairs(url) {
            match name.as_str() {
                "endpoint" => settings.endpoint = Some(value),
                "public_endpoint" => settings.public_endpoint = Some(value),
                "region" => settings.region = Some(value),
                "access_key_id" => settings.access_key_id = Some(value),
                "secret_access_key" => settings.secret_access_key = Some(value),
                "session_token" => settings.session_token = Some(value),
                "path_style" => settings.path_style = parse_bool(&value)?,
                "sse_kms_key_id" => settings.sse_kms_key_id = Some(value),
                _ => {
                    return Err(unknown(
                        &name,
                        "endpoint, public_endpoint, region, access_key_id, secret_access_key, \
                         session_token, path_style, sse_kms_key_id",
                    ));
                }
            }
        }
        Ok(Self::S3(settings))
    }

    fn azure(url: &Url) -> Result<Self, ObjectError> {
        let mut settings = AzureSettings {
            container: host(url),
            prefix: prefix(url)?,
            ..AzureSettings::default()
        };
        for (name, value) in pairs(url) {
            match name.as_str() {
                "account" => settings.account = value,
                "access_key" => settings.access_key = Some(value),
                "sas_token" => settings.sas_token = Some(value),
                "endpoint" => settings.endpoint = Some(value),
                "public_endpoint" => settings.public_endpoint = Some(value),
                _ => {
                    return Err(unknown(
                        &name,
                        "account, access_key, sas_token, endpoint, public_endpoint",
                    ));
                }
            }
        }
        Ok(Self::Azure(settings))
    }
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

/// The folder, with its percent-encoding decoded.
fn prefix(url: &Url) -> Result<String, ObjectError> {
    let path = percent_decode_str(url.path()).decode_utf8();
    let path = path.map_err(|_| ObjectError::Settings("the folder must be UTF-8".into()))?;
    Ok(path.trim_matches('/').to_owned())
}

/// The query's pairs. A plus stays a plus: keys are base64, and users do not encode it as `%2B`.
fn pairs(url: &Url) -> Vec<(String, String)> {
    let query = url.query().unwrap_or_default().replace('+', "%2B");
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn parse_bool(text: &str) -> Result<bool, ObjectError> {
    text.parse().map_err(|_| ObjectError::Settings("path_style must be true or false".into()))
}

fn unknown(name: &str, known: &str) -> ObjectError {
    ObjectError::Settings(format!("unknown parameter {name} in the URL; expected one of {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> String {
        match Location::parse(address) {
            Err(error) => error.to_string(),
            Ok(location) => panic!("{address} was read as {location:?}"),
        }
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(
            Location::parse("file:///var/lib/long%20shore").unwrap(),
            Location::Files("/var/lib/long shore".into())
        );
        assert_eq!(
            Location::parse(
                "s3://acme-exports/a/b/?endpoint=http://127.0.0.1:9000&region=eu-west-1\
                 &public_endpoint=https://files.example.com\
                 &access_key_id=AKIA&secret_access_key=a+b/c%3D&path_style=true\
                 &sse_kms_key_id=arn:aws:kms:eu-west-1:111122223333:alias/exports"
            )
            .unwrap(),
            Location::S3(S3Settings {
                bucket: "acme-exports".into(),
                prefix: "a/b".into(),
                region: Some("eu-west-1".into()),
                access_key_id: Some("AKIA".into()),
                secret_access_key: Some("a+b/c=".into()),
                session_token: None,
                endpoint: Some("http://127.0.0.1:9000".into()),
                public_endpoint: Some("https://files.example.com".into()),
                path_style: true,
                sse_kms_key_id: Some("arn:aws:kms:eu-west-1:111122223333:alias/exports".into()),
            })
        );
        assert_eq!(
            Location::parse("azure://exports?account=acme&sas_token=sv%3D1%26sig%3Dx").unwrap(),
            Location::Azure(AzureSettings {
                account: "acme".into(),
                container: "exports".into(),
                sas_token: Some("sv=1&sig=x".into()),
                ..AzureSettings::default()
            })
        );
    }

    #[test]
    fn folders_are_decoded() {
        for (folder, expected) in [
            ("my%20exports/a", "my exports/a"),
            ("my exports", "my exports"),
            // The folder of earlier releases for `my%20exports`.
            ("my%2520exports", "my%20exports"),
            ("%C3%BC", "ü"),
        ] {
            let s3 = Location::parse(&format!("s3://b/{folder}")).unwrap();
            let azure = Location::parse(&format!("azure://c/{folder}?account=a")).unwrap();
            let prefixes = match (s3, azure) {
                (Location::S3(s3), Location::Azure(azure)) => [s3.prefix, azure.prefix],
                other => panic!("{other:?}"),
            };
            assert_eq!(prefixes, [expected, expected], "{folder}");
        }
        assert!(refused("s3://b/%FF").contains("UTF-8"));
    }

    #[test]
    fn unknown_settings_are_rejected_by_name_without_secrets() {
        assert!(refused("s3://b?secret_access_key=hidden&regoin=x").contains("regoin"));
        assert!(!refused("s3://b?secret_access_key=hidden&regoin=x").contains("hidden"));
        assert!(refused("azure://c?bucket=x").contains("bucket"));
        assert!(refused("file:///d?region=x").contains("region"));
        assert!(refused("gs://bucket").contains("gs:"));
        assert!(refused("file://host/d").contains("file:///DIR"));
        assert!(!refused("s3://key:hidden@b").contains("hidden"));
        assert!(!refused("no address, hidden").contains("hidden"));
        assert!(refused("s3://b?path_style=maybe").contains("path_style"));
    }

    #[test]
    fn impossible_combinations_are_refused() {
        let s3 = S3Settings { bucket: "b".into(), ..S3Settings::default() };
        assert!(s3.check().is_ok());
        assert!(S3Settings::default().check().is_err());
        assert!(S3Settings { access_key_id: Some("k".into()), ..s3.clone() }.check().is_err());
        assert!(S3Settings { session_token: Some("k".into()), ..s3.clone() }.check().is_err());
        assert!(S3Settings { region: Some(String::new()), ..s3.clone() }.check().is_err());
        for (key, is_valid) in [("alias/exports", true), ("", false), ("a b", false), ("é", false)]
        {
            let settings = S3Settings { sse_kms_key_id: Some(key.into()), ..s3.clone() };
            assert_eq!(settings.check().is_ok(), is_valid, "{key:?}");
        }
        assert!(S3Settings { endpoint: Some("ftp://x".into()), ..s3.clone() }.check().is_err());
        assert!(S3Settings { public_endpoint: Some("x".into()), ..s3 }.check().is_err());
        let azure = AzureSettings {
            account: "a".into(),
            container: "c".into(),
            access_key: Some("a2V5".into()),
            ..AzureSettings::default()
        };
        assert!(azure.check().is_ok());
        assert!(
            AzureSettings { access_key: Some("hidden!".into()), ..azure.clone() }.check().is_err()
        );
        assert!(AzureSettings { sas_token: Some("sig=x".into()), ..azure }.check().is_err());
    }

    #[test]
    fn credentials_are_stored_but_not_printed() {
        let s3 = S3Settings {
            bucket: "b".into(),
            access_key_id: Some("AKIA".into()),
            secret_access_key: Some("hidden".into()),
            session_token: Some("hidden".into()),
            ..S3Settings::default()
        };
        let azure = AzureSettings { access_key: Some("hidden".into()), ..AzureSettings::default() };
        assert!(!format!("{s3:?}{azure:?}").contains("hidden"));
        let stored = serde_json::to_string(&s3).unwrap();
        assert_eq!(serde_json::from_str::<S3Settings>(&stored).unwrap(), s3);
    }
}
