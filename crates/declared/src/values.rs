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
use kit::money;
use kit::zones;
use objects::settings::parse_endpoint;
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
    Bucket -> String, bucket;
    Region -> String, region;
    Endpoint -> String, endpoint;
    Credential -> String, credential;
    Account -> String, account;
    Container -> String, container;
    AzureKey -> String, azure_key;
    SasToken -> String, |text: &str| credential(text.strip_prefix('?').unwrap_or(text));
}

/// A text that a check has accepted.
fn check_text(text: &str, checked: Result<(), keys::KeyError>) -> Checked<String> {
    checked.map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn workspace_name(text: &str) -> Checked<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=100).contains(&text.len()) && text.chars().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err("a workspace name must have 1 to 100 letters, digits, hyphens, underscores and \
             dots"
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
    fn names_of_places_have_their_shape() {
        assert!(bucket("acme-exports.eu").is_ok());
        for text in ["ab", "Acme", "-acme", "acme-", "a..b", "a/b", &"x".repeat(64)] {
            assert!(bucket(text).is_err(), "{text}");
        }
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
            let _ = (workspace_name(&text), account(&text), currency(&text), percent(&text));
        }

        #[test]
        fn every_rate_survives_a_round_trip(rate in 1..i64::MAX) {
            let text = format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
            prop_assert_eq!(millionths(&text), Ok(rate));
        }
    }
}
