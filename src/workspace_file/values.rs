//! The single values of the workspace file: what each may look like, and in words what is
//! wrong with it. No error repeats a secret.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::tz::TimeZone;
use lettre::message::Mailbox;
use uuid::Uuid;

use crate::catalogs;
use crate::outbound;
use crate::workspaces::Channel;
use crate::workspaces::budgets::DAY;
use crate::workspaces::settings::WHSEC;
use kit::money;
use objects::settings::parse_endpoint;

const MOST_REQUESTS: u32 = 1_000_000_000;

type Checked<T> = Result<T, String>;

pub(crate) fn workspace_name(text: &str) -> Checked<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=100).contains(&text.len()) && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err("a workspace's name has 1 to 100 letters, digits, hyphens, underscores and dots".into())
    }
}

pub(crate) fn catalog_name(text: &str) -> Checked<String> {
    if catalogs::is_plain_name(text) {
        Ok(text.to_owned())
    } else {
        let most = catalogs::MAX_NAME;
        Err(format!("{text:?}: expected 1 to {most} letters, digits, hyphens and underscores"))
    }
}

pub(crate) fn name(text: &str) -> Checked<String> {
    if (1..=255).contains(&text.chars().count()) && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 255 characters, no control characters among them".into())
    }
}

pub(crate) fn currency(text: &str) -> Checked<String> {
    money::check_currency(text).map(|()| text.to_owned())
}

pub(crate) fn millionths(text: &str) -> Checked<i64> {
    let wrong = || format!("{text:?}: expected a number above 0 with at most six decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 6 {
        return Err(wrong());
    }
    let whole = whole.parse::<i64>().map_err(|_| wrong())?;
    let decimals = format!("{decimals:0<6}").parse::<i64>().map_err(|_| wrong())?;
    match whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(decimals)) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err(wrong()),
    }
}

pub(crate) fn time_zone(text: &str) -> Checked<String> {
    match TimeZone::get(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("{text:?} is no IANA time zone, such as America/New_York")),
    }
}

pub(crate) fn id(text: &str) -> Checked<Uuid> {
    Uuid::parse_str(text).map_err(|_| format!("{text:?} is no UUID (make one with: uuidgen)"))
}

pub(crate) fn percent(text: &str) -> Checked<i32> {
    match text.parse::<i32>() {
        Ok(percent) if (1..=100).contains(&percent) => Ok(percent),
        _ => Err(format!("{text:?}: expected a whole number from 1 to 100")),
    }
}

pub(crate) fn count(text: &str) -> Checked<i64> {
    match text.parse::<i64>() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("{text:?}: expected a whole number above 0")),
    }
}

/// Requests in a window.
pub(crate) fn requests(text: &str) -> Checked<u32> {
    match text.parse::<u32>() {
        Ok(requests) if (1..=MOST_REQUESTS).contains(&requests) => Ok(requests),
        _ => Err(format!("{text:?}: expected a whole number from 1 to {MOST_REQUESTS}")),
    }
}

/// Seconds of a window.
pub(crate) fn window(text: &str) -> Checked<u32> {
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 && DAY.is_multiple_of(seconds) => Ok(seconds),
        _ => Err(format!(
            "{text:?}: expected whole seconds that divide a day ({DAY}), such as 1, 60 or 3600"
        )),
    }
}

/// A length of time: a whole number of minutes, hours or days, as in `3d`.
pub(crate) fn duration(text: &str) -> Checked<String> {
    let number = text.strip_suffix(['m', 'h', 'd']).unwrap_or_default();
    let is_number = (1..=6).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    if is_number && number.parse::<u32>().is_ok_and(|number| number > 0) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?}: expected minutes, hours or days, such as 30m, 12h or 3d"))
    }
}

/// Bytes: a whole number, or one with a unit as in `5GiB`.
pub(crate) fn bytes(text: &str) -> Checked<i64> {
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

pub(crate) fn bucket(text: &str) -> Checked<String> {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    if (3..=63).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(inner)
        && !text.contains("..")
    {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is no bucket name: 3 to 63 lower-case letters, digits, hyphens and dots, \
             with a letter or digit at both ends"
        ))
    }
}

pub(crate) fn container(text: &str) -> Checked<String> {
    if bucket(text).is_ok() && !text.contains('.') && !text.contains("--") {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?} is no container name: 3 to 63 lower-case letters, digits and single \
             hyphens, with a letter or digit at both ends"
        ))
    }
}

pub(crate) fn account(text: &str) -> Checked<String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if (3..=24).contains(&text.len()) && text.bytes().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no storage account: 3 to 24 lower-case letters and digits"))
    }
}

pub(crate) fn region(text: &str) -> Checked<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no region, such as eu-west-1"))
    }
}

/// An http(s) address that carries nothing secret.
pub(crate) fn endpoint(text: &str) -> Checked<String> {
    match parse_endpoint(text) {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => Err("expected an http or https address, without credentials and query".into()),
    }
}

/// A credential: anything but nothing.
pub(crate) fn credential(text: &str) -> Checked<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("expected printable ASCII without spaces".into())
    }
}

/// An account's access key, which is base64.
pub(crate) fn azure_key(text: &str) -> Checked<String> {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) if !bytes.is_empty() => Ok(text.to_owned()),
        _ => Err("an access key is base64, as the portal shows it".into()),
    }
}

/// A whole number from 1 to `most`.
pub(crate) fn up_to(text: &str, most: u32) -> Checked<u32> {
    match text.parse::<u32>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{text:?}: expected a whole number from 1 to {most}")),
    }
}

/// A channel of the messages object.
pub(crate) fn message_channel(text: &str) -> Checked<Channel> {
    let found = Channel::OF_MESSAGES.into_iter().find(|channel| channel.name() == text);
    found.ok_or_else(|| {
        let names = Channel::OF_MESSAGES.map(Channel::name).join(", ");
        format!("{text:?}: expected one of {names}")
    })
}

/// A channel that goes to phone numbers.
pub(crate) fn number_channel(text: &str) -> Checked<Channel> {
    match text {
        "sms" => Ok(Channel::Sms),
        "whats_app" => Ok(Channel::WhatsApp),
        _ => Err(format!("{text:?}: expected sms or whats_app")),
    }
}

/// What messages to phone numbers come from: a number, or of SMS alone a short code or a name.
pub(crate) fn sender(text: &str, is_sms: bool) -> Checked<String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = text
        .strip_prefix('+')
        .is_some_and(|number| (7..=15).contains(&number.len()) && digits(number));
    let is_short_code = (3..=8).contains(&text.len()) && digits(text);
    let is_name = (1..=11).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ')
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    match is_sms {
        _ if is_number => Ok(text.to_owned()),
        true if is_short_code || is_name => Ok(text.to_owned()),
        true => Err(format!(
            "{text:?}: expected + and 7 to 15 digits, a short code of 3 to 8 digits, or a name of at most \
             11 letters, digits and spaces"
        )),
        false => Err(format!("{text:?}: expected + and 7 to 15 digits")),
    }
}

/// A sender of emails, with a name or without.
pub(crate) fn mailbox(text: &str) -> Checked<String> {
    match text.parse::<Mailbox>() {
        Ok(_) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is no sender, such as Acme <hello@acme.example>")),
    }
}

/// An http(s) address, which may hold a password or a token. No error repeats it.
pub(crate) fn address(text: &str) -> Checked<String> {
    outbound::read_address(text).map(|_| text.to_owned())
}

/// What requests are signed with: the bytes behind `whsec_…`, or a text as it is.
pub(crate) fn signing_secret(text: &str) -> Checked<Vec<u8>> {
    if text.starts_with(WHSEC) {
        return callback_secret(text);
    }
    match (20..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.into()),
        false => Err("a secret that signs is whsec_ and 24 to 64 bytes in base64 (make one with: \
                      echo whsec_$(openssl rand -base64 32)), or 20 to 255 printable ASCII \
                      characters without spaces"
            .into()),
    }
}

/// The bytes behind `whsec_…`.
pub(crate) fn callback_secret(text: &str) -> Checked<Vec<u8>> {
    text.strip_prefix(WHSEC)
        .and_then(|text| BASE64_STANDARD.decode(text).ok())
        .filter(|bytes| (24..=64).contains(&bytes.len()))
        .ok_or_else(|| {
            "such a secret is whsec_ and 24 to 64 bytes in base64 (make one with: \
             echo whsec_$(openssl rand -base64 32))"
                .into()
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::network::network;

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
        assert!(time_zone("Europe/Berlin").is_ok() && time_zone("UTC").is_ok());
        assert!(time_zone("Mars/Olympus").is_err());
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

    #[test]
    fn senders_are_numbers_and_of_sms_names_too() {
        for text in ["+15550100", "+491701234567"] {
            assert!(sender(text, true).is_ok() && sender(text, false).is_ok(), "{text}");
        }
        for text in ["12345", "Acme", "Acme 24"] {
            assert!(sender(text, true).is_ok() && sender(text, false).is_err(), "{text}");
        }
        for text in ["", "+123", "12", "+1 555 0100", "A name that is long", "+1234567890123456"] {
            assert!(sender(text, true).is_err(), "{text}");
        }
        for text in ["hello@acme.example", "Acme <hello@acme.example>", "\"A, B\" <a@b.example>"] {
            assert_eq!(mailbox(text).as_deref(), Ok(text));
        }
        for text in ["", "Acme", "Acme <hello>", "a@b.example, c@d.example", "A\n<a@b.example>"] {
            assert!(mailbox(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_signing_secret_is_bytes_or_a_text() {
        let bytes = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
        assert_eq!(signing_secret(&bytes), Ok(vec![7; 32]));
        let text = "a-secret-that-is-long-enough";
        assert_eq!(signing_secret(text), Ok(text.into()));
        for text in ["", "short", "whsec_", "whsec_c2hvcnQ=", "twenty spaces and more"] {
            let error = signing_secret(text).unwrap_err();
            assert!(error.contains("openssl rand"), "{error}");
        }
    }

    #[test]
    fn a_callback_secret_has_one_form() {
        let text = format!("whsec_{}", BASE64_STANDARD.encode([7; 32]));
        assert_eq!(callback_secret(&text), Ok(vec![7; 32]));
        for text in ["secret", "whsec_", "whsec_c2hvcnQ=", "whsec_***"] {
            let error = callback_secret(text).unwrap_err();
            assert!(error.contains("openssl rand"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC*") {
            let _ = (millionths(&text), bytes(&text), bucket(&text), container(&text));
            let _ = (endpoint(&text), network(&text), time_zone(&text), callback_secret(&text));
            let _ = (workspace_name(&text), account(&text), currency(&text), percent(&text));
            let _ = (duration(&text), sender(&text, true), mailbox(&text), address(&text));
            let _ = (signing_secret(&text), message_channel(&text), up_to(&text, 30));
        }

        #[test]
        fn every_rate_comes_back(rate in 1..i64::MAX) {
            let text = format!("{}.{:06}", rate / 1_000_000, rate % 1_000_000);
            prop_assert_eq!(millionths(&text), Ok(rate));
        }
    }
}
