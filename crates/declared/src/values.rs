//! The single values that only the workspace file has: their formats and errors. No error repeats a
//! secret.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ipnet::IpNet;
use secrecy::SecretString;

use content::campaigns::Kind;
use content::catalogs;
use gateway::workspaces::keys;
use gateway::workspaces::rules::rules;
use gateway::workspaces::storage;
use kit::money;
use kit::zones;
use objects::settings::{KMS_KEY_EXPECTED, is_kms_key, parse_endpoint};
use runtime::config::network::network;

type Checked<T> = Result<T, String>;

rules! {
    WorkspaceName -> String, workspace_name;
    Currency -> String, currency, else "USD";
    Rate -> i64, millionths;
    TimeZone -> String, time_zone, else "UTC";
    Network -> IpNet, network;
    Percent -> i32, percent;
    Count -> i64, count, else "500000";
    Bytes -> i64, bytes, else "5GiB";
    KeyName -> String, |text| check_text(text, keys::check_name(text));
    KeySecret -> SecretString, |text| check_text(text, keys::check_secret(text)).map(Into::into);
    Permission -> String, |text: &str| check_text(text, keys::check_permissions(&[text.to_owned()]));
    CatalogName -> String, catalog_name;
    File -> PathBuf, |text| Ok(PathBuf::from(text));
    CampaignType -> Kind, Kind::from_campaign_type;
    Duration -> String, duration;
    LateAfter -> i64, late_after, else "6h";
    Bucket -> String, bucket;
    Region -> String, region;
    Endpoint -> String, endpoint;
    Credential -> String, credential;
    Account -> String, account;
    Container -> String, container;
    AzureKey -> String, azure_key;
    KmsKey -> String, kms_key;
    StorageName -> String, storage_name;
    SasToken -> String, |text: &str| credential(text.strip_prefix('?').unwrap_or(text));
}

/// A text that a check has accepted.
fn check_text(text: &str, checked: Result<(), keys::KeyError>) -> Checked<String> {
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn workspace_name(text: &str) -> Checked<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // The name is part of a URL, where . and .. are not names.
    let is_dots = matches!(text, "." | "..");
    if (1..=100).contains(&text.len()) && text.chars().all(is_allowed) && !is_dots {
        Ok(text.to_owned())
    } else {
        Err("a workspace name must have 1 to 100 letters, digits, hyphens, underscores and \
             dots, and must not be . or .."
            .into())
    }
}

fn catalog_name(text: &str) -> Checked<String> {
    if catalogs::is_plain_name(text) {
        Ok(text.to_owned())
    } else {
        let limit = catalogs::MAX_NAME;
        Err(format!("{text:?}: expected 1 to {limit} letters, digits, hyphens and underscores"))
    }
}

fn currency(text: &str) -> Checked<String> {
    money::check_currency(text).map(|()| text.to_owned())
}

fn millionths(text: &str) -> Checked<i64> {
    let wrong = || format!("{text:?}: expected a number above 0 with at most six decimals");
    let (units, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(units) || !is_digits(decimals) || decimals.len() > 6 {
        return Err(wrong());
    }
    let units = units.parse::<i64>().map_err(|_| wrong())?;
    let decimals = format!("{decimals:0<6}").parse::<i64>().map_err(|_| wrong())?;
    match units.checked_mul(1_000_000).and_then(|millionths| millionths.checked_add(decimals)) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err(wrong()),
    }
}

fn time_zone(text: &str) -> Checked<String> {
    zones::spelled(text)
        .ok_or_else(|| format!("{text:?} is not an IANA time zone such as America/New_York"))
}

fn percent(text: &str) -> Checked<i32> {
    match text.parse::<i32>() {
        Ok(percent) if (1..=100).contains(&percent) => Ok(percent),
        _ => Err(format!("{text:?}: expected a whole number from 1 to 100")),
    }
}

fn count(text: &str) -> Checked<i64> {
    match text.parse::<i64>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("{text:?}: expected a whole number above 0")),
    }
}

/// A length of time: a whole number of minutes, hours or days, as in `3d`.
fn duration(text: &str) -> Checked<String> {
    let number = text.strip_suffix(['m', 'h', 'd']).unwrap_or_default();
    let is_number = (1..=6).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    if is_number && number.parse::<u32>().is_ok_and(|number| number > 0) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?}: expected minutes, hours or days, such as 30m, 12h or 3d"))
    }
}

/// A length of time in milliseconds: a whole number of seconds, minutes, hours or days, up to a
/// year.
fn late_after(text: &str) -> Checked<i64> {
    const YEAR_MS: i64 = 365 * 86_400_000;
    let wrong = || {
        format!("{text:?}: expected seconds, minutes, hours or days up to 365d, such as 90m or 6h")
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    let ms = number.parse::<i64>().ok().and_then(|number| number.checked_mul(unit));
    ms.filter(|ms| (1..=YEAR_MS).contains(ms)).ok_or_else(wrong)
}

/// Units of time and their milliseconds, longest first.
const TIME_UNITS: [(&str, i64); 4] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// The shortest text of a length of time in milliseconds, in one unit.
pub(crate) fn shown_duration(ms: i64) -> String {
    let unit = TIME_UNITS.iter().find(|(_, unit)| ms % unit == 0);
    unit.map_or_else(|| format!("{ms} ms"), |(name, unit)| format!("{}{name}", ms / unit))
}

/// Bytes: a whole number, or one with a unit as in `5GiB`.
fn bytes(text: &str) -> Checked<i64> {
    const UNITS: &[(&str, i64)] = &[
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
    number
        .parse::<i64>()
        .ok()
        .zip(unit)
        .and_then(|(number, (_, unit))| number.checked_mul(*unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            format!(
                "{text:?}: expected a whole number of bytes above 0, with a unit or without: 5GiB"
            )
        })
}

fn bucket(text: &str) -> Checked<String> {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inner = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    if (3..=63).contains(&bytes.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(is_inner)
        && !text.contains("..")
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a valid bucket name: expected 3 to 63 lower-case letters, digits, \
             hyphens and dots, with a letter or digit at both ends"
        ))
    }
}

fn container(text: &str) -> Checked<String> {
    if bucket(text).is_ok() && !text.contains('.') && !text.contains("--") {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a valid container name: expected 3 to 63 lower-case letters, digits \
             and single hyphens, with a letter or digit at both ends"
        ))
    }
}

fn account(text: &str) -> Checked<String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (3..=24).contains(&text.len()) && text.bytes().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is not a valid storage account name: expected 3 to 24 lower-case \
                     letters and digits"
        ))
    }
}

fn region(text: &str) -> Checked<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a region such as eu-west-1"))
    }
}

/// An http(s) URL without secrets.
fn endpoint(text: &str) -> Checked<String> {
    match parse_endpoint(text) {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => Err("expected an http or https URL, without credentials and query".into()),
    }
}

/// A credential: printable ASCII, not empty.
fn credential(text: &str) -> Checked<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("expected printable ASCII without spaces".into())
    }
}

fn kms_key(text: &str) -> Checked<String> {
    if is_kms_key(text) { Ok(text.to_owned()) } else { Err(KMS_KEY_EXPECTED.into()) }
}

fn storage_name(text: &str) -> Checked<String> {
    let limit = storage::MAX_NAME;
    if storage::RESERVED_NAMES.contains(&text) {
        Err(format!("{text:?} has a meaning of its own in requests: choose another name"))
    } else if storage::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?}: expected 1 to {limit} lower-case letters, digits, hyphens and underscores"
        ))
    }
}

/// An account's access key, which is base64.
fn azure_key(text: &str) -> Checked<String> {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) if !bytes.is_empty() => Ok(text.to_owned()),
        _ => Err("an access key must be base64, as the portal shows it".into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_exact() {
        for (text, rate) in
            [("1.08", 1_080_000), ("1", 1_000_000), ("0.000001", 1), ("150.25", 150_250_000)]
        {
            assert_eq!(millionths(text), Ok(rate), "{text}");
        }
        for text in ["0", "0.0", "-1", "1e3", "1.0000001", "", ".5", "5.", "+1", "1_000", "NaN"] {
            assert!(millionths(text).is_err(), "{text}");
        }
        assert!(millionths("9223372036854.775808").is_err());
        assert_eq!(millionths("9223372036854.775807"), Ok(i64::MAX));
    }

    #[test]
    fn bytes_have_units() {
        for (text, expected) in
            [("5GiB", 5 << 30), ("5 GiB", 5 << 30), ("1024", 1024), ("2MB", 2_000_000)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "-5GiB", "5 gigs", "GiB", "1.5GiB", "9999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_have_units() {
        for text in ["30m", "12h", "3d", "999999d"] {
            assert_eq!(duration(text).as_deref(), Ok(text));
        }
        for text in ["", "d", "0d", "3", "3 d", "-3d", "1.5h", "3w", "9999999d", "٣d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lateness_is_a_length_of_time_up_to_a_year() {
        for (text, ms) in [("30s", 30_000), ("90m", 5_400_000), ("6h", 21_600_000)] {
            assert_eq!(late_after(text), Ok(ms), "{text}");
            assert_eq!(shown_duration(ms), text);
        }
        assert_eq!((late_after("365d"), late_after("24h")), (Ok(31_536_000_000), Ok(86_400_000)));
        assert_eq!(shown_duration(86_400_000), "1d");
        for text in
            ["", "h", "0h", "6", "6 h", "-6h", "1.5h", "1w", "366d", "99999999999999999999d"]
        {
            assert!(late_after(text).is_err(), "{text}");
        }
    }

    #[test]
    fn currencies_zones_and_networks_are_known_ones() {
        for text in ["EUR", "VES"] {
            assert!(currency(text).is_ok(), "{text}");
        }
        for text in ["eur", "EURO", "XXX", "XAU", "HRK", ""] {
            assert!(currency(text).is_err(), "{text}");
        }
        for (text, name) in [("EUROPE/BERLIN", "Europe/Berlin"), ("utc", "UTC")] {
            assert_eq!(time_zone(text).as_deref(), Ok(name), "{text}");
        }
        assert!(time_zone("Mars/Olympus").is_err() && time_zone("Etc/Unknown").is_err());
        assert_eq!(network("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        for (text, expected) in [
            ("::ffff:203.0.113.9/120", "203.0.113.0/24"),
            ("::ffff:cb00:7109", "203.0.113.9/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            // More than what is mapped.
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("::203.0.113.9", "::cb00:7109/128"),
        ] {
            assert_eq!(network(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(network("10.0.0.0/33").is_err() && network("host").is_err());
    }

    #[test]
    fn names_of_workspaces_are_parts_of_a_path() {
        for text in ["acme", "acme.eu", "a_b-c", "...", &"x".repeat(100)] {
            assert_eq!(workspace_name(text), Ok(text.to_owned()));
        }
        for text in ["", ".", "..", "a/b", "a b", &"x".repeat(101)] {
            assert!(workspace_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_places_have_their_shape() {
        assert!(bucket("acme-exports.eu").is_ok());
        for text in ["ab", "Acme", "-acme", "acme-", "a..b", "a/b", &"x".repeat(64)] {
            assert!(bucket(text).is_err(), "{text}");
        }
        assert!(storage_name("data_lake-2").is_ok());
        for text in ["", "Lake", "data lake", "a.b", "url", "s3", "azure", &"x".repeat(65)] {
            assert!(storage_name(text).is_err(), "{text}");
        }
        assert!(kms_key("alias/exports").is_ok() && kms_key("a key").is_err());
        assert!(container("exports").is_ok() && container("a.b").is_err());
        assert!(container("a--b").is_err());
        assert!(endpoint("http://127.0.0.1:9000/").unwrap() == "http://127.0.0.1:9000");
        for text in ["ftp://x", "http://u:p@x", "http://x?a=b", "x"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = (millionths(&text), bytes(&text), bucket(&text), container(&text));
            let _ = (endpoint(&text), network(&text), time_zone(&text), duration(&text));
            let _ = (storage_name(&text), kms_key(&text), late_after(&text));
            let _ = (workspace_name(&text), account(&text), currency(&text), percent(&text));
        }

        #[test]
        fn every_rate_survives_a_round_trip(rate in 1..i64::MAX) {
            let text = format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
            prop_assert_eq!(millionths(&text), Ok(rate));
        }
    }
}
