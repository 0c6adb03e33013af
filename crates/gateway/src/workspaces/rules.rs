//! The formats of values of the workspace file, which serde checks as it reads them into the stored
//! types. No error repeats a secret.
//!
//! A field states its rule: `#[serde(deserialize_with = "checked::<Name, _>")]`. Rules for types
//! that are also stored as JSON read the stored form, too.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use lettre::Address as MailAddress;
use lettre::message::Mailbox;
use schemars::{Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use uuid::Uuid;

use super::Channel;
use super::budgets::DAY;
use super::relay::Relay;
use super::settings::{SECRET_PREFIX, Secret};
use kit::json::{ObjectText, Tree, TreeObject};
use runtime::outbound;

const MAX_REQUESTS: u32 = 1_000_000_000;

/// The format of a text, and its value. Stored settings are parsed with the same rules: a rule must
/// never become stricter, because accepted values must stay readable.
pub trait Rule {
    type Value;

    /// The default of an absent field, if it differs from the default of the type.
    const DEFAULT: &'static str = "";

    fn read(text: &str) -> Result<Self::Value, String>;
}

/// Declares rules by the functions that read them.
#[macro_export]
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident -> $value:ty, $read:expr $(, else $default:literal)?;)+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl $crate::workspaces::rules::Rule for $name {
            type Value = $value;
            $(const DEFAULT: &'static str = $default;)?

            fn read(text: &str) -> Result<$value, String> {
                $read(text)
            }
        }
    )+};
}
pub use rules;

rules! {
    Name -> String, name;
    Id -> Uuid, id;
    FieldAlias -> String, field_alias;
    MessageChannel -> Channel, message_channel;
    NumberChannel -> Channel, number_channel;
    RelayAddress -> SecretString, relay;
    Sender -> String, mailbox;
    Address -> String, address;
    EmailAddress -> String, email_address;
    SigningSecret -> Secret, signing_secret;
    CallbackSecret -> Secret, callback_secret;
}

/// A value that passed its rule.
pub struct Parsed<R: Rule>(pub R::Value);

impl<'de, R: Rule> Deserialize<'de> for Parsed<R> {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(text)?;
        R::read(&text).map(Self).map_err(Error::custom)
    }
}

/// Reads a value and checks it.
pub fn checked<'de, R: Rule, D: Deserializer<'de>>(text: D) -> Result<R::Value, D::Error> {
    Parsed::<R>::deserialize(text).map(|read| read.0)
}

/// Reads an optional value. An empty text counts as absent, so that an environment variable can be
/// empty.
pub fn optional<'de, R: Rule, D: Deserializer<'de>>(text: D) -> Result<Option<R::Value>, D::Error> {
    let text = Option::<Cow<str>>::deserialize(text)?.filter(|text| !text.is_empty());
    text.map(|text| R::read(&text)).transpose().map_err(Error::custom)
}

/// Like [`optional`], with a default.
pub fn or_default<'de, R: Rule, D: Deserializer<'de>>(text: D) -> Result<R::Value, D::Error> {
    let read = optional::<R, D>(text)?;
    read.map_or_else(|| R::read(R::DEFAULT).map_err(Error::custom), Ok)
}

pub fn default_of<R: Rule>() -> R::Value {
    R::read(R::DEFAULT).unwrap_or_else(|error| unreachable!("a default of the program: {error}"))
}

pub fn list<'de, R: Rule, D: Deserializer<'de>>(texts: D) -> Result<Vec<R::Value>, D::Error> {
    let read = Vec::<Parsed<R>>::deserialize(texts)?;
    Ok(read.into_iter().map(|read| read.0).collect())
}

/// A whole number from 1 to `MAX`.
pub(crate) fn up_to<'de, const MAX: u32, D: Deserializer<'de>>(number: D) -> Result<u32, D::Error> {
    let number = u64::deserialize(number)?;
    let within = u32::try_from(number).ok().filter(|number| (1..=MAX).contains(number));
    let wrong = || format!("\"{number}\": expected a whole number from 1 to {MAX}");
    within.ok_or_else(|| Error::custom(wrong()))
}

/// The number of requests in a window.
pub(crate) fn requests<'de, D: Deserializer<'de>>(number: D) -> Result<u32, D::Error> {
    up_to::<MAX_REQUESTS, D>(number)
}

/// The length of a window in seconds.
pub(crate) fn window<'de, D: Deserializer<'de>>(number: D) -> Result<u32, D::Error> {
    let seconds = u64::deserialize(number)?;
    let divides = |seconds: &u32| *seconds > 0 && DAY.is_multiple_of(*seconds);
    let wrong = || {
        format!(
            "\"{seconds}\": expected whole seconds that divide a day ({DAY}), such as 1, 60 or 3600"
        )
    };
    u32::try_from(seconds).ok().filter(divides).ok_or_else(|| Error::custom(wrong()))
}

/// Fields that are stored as written, with all digits of their numbers.
pub(crate) fn verbatim<'de, D: Deserializer<'de>>(fields: D) -> Result<ObjectText, D::Error> {
    match Tree::deserialize(fields)? {
        Tree::Object(fields) => Ok((&fields).into()),
        Tree::Null => Ok((&TreeObject::default()).into()),
        _ => Err(Error::custom("expected fields, each as `name: value`; check the indentation")),
    }
}

/// A secret: a text in the file, bytes in the store.
pub fn secret<'de, R, D>(secret: D) -> Result<Option<Secret>, D::Error>
where
    R: Rule<Value = Secret>,
    D: Deserializer<'de>,
{
    let either = Option::<TextOrBytes<R>>::deserialize(secret)?;
    Ok(either.and_then(|either| either.0))
}

/// Like [`secret`], but required.
pub fn required_secret<'de, R, D>(required: D) -> Result<Secret, D::Error>
where
    R: Rule<Value = Secret>,
    D: Deserializer<'de>,
{
    secret::<R, D>(required)?.ok_or_else(|| Error::custom("is required"))
}

struct TextOrBytes<R>(Option<Secret>, PhantomData<R>);

impl<'de, R: Rule<Value = Secret>> Deserialize<'de> for TextOrBytes<R> {
    fn deserialize<D: Deserializer<'de>>(secret: D) -> Result<Self, D::Error> {
        secret.deserialize_byte_buf(TextOrBytes::<R>(None, PhantomData))
    }
}

impl<'de, R: Rule<Value = Secret>> Visitor<'de> for TextOrBytes<R> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self, E> {
        let read = Some(text).filter(|text| !text.is_empty()).map(R::read);
        read.transpose().map(|secret| Self(secret, PhantomData)).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Self, A::Error> {
        let mut secret = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            secret.push(byte);
        }
        Ok(Self(Some(Secret(secret)), PhantomData))
    }
}

/// The schema of a number, which can also be `${NAME}`.
pub fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["number", "string"]})
}

pub fn optional_number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["number", "string", "null"]})
}

/// The schema of a name from a fixed list.
pub fn one_of<const N: usize>(names: [&str; N]) -> Schema {
    json_schema!({"enum": names.as_slice()})
}

fn name(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.chars().count()) && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 255 characters without control characters".into())
    }
}

fn field_alias(text: &str) -> Result<String, String> {
    super::is_field_alias(text)
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?}: expected 1 to 64 lower-case letters, digits and _"))
}

pub fn id(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text).map_err(|_| format!("{text:?} is not a UUID (create one with: uuidgen)"))
}

/// A channel of the messages object.
fn message_channel(text: &str) -> Result<Channel, String> {
    let found = Channel::OF_MESSAGES.into_iter().find(|channel| channel.name() == text);
    found.ok_or_else(|| {
        let names = Channel::OF_MESSAGES.map(Channel::name).join(", ");
        format!("{text:?}: expected one of {names}")
    })
}

/// A channel that goes to phone numbers.
fn number_channel(text: &str) -> Result<Channel, String> {
    match text {
        "sms" => Ok(Channel::Sms),
        "whats_app" => Ok(Channel::WhatsApp),
        _ => Err(format!("{text:?}: expected sms or whats_app")),
    }
}

/// Checks the sender of messages to phones: a number, or, for SMS, also a short code or a name.
pub fn check_sender(text: &str, channel: Channel) -> Result<(), String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = text
        .strip_prefix('+')
        .is_some_and(|number| (7..=15).contains(&number.len()) && digits(number));
    let is_short_code = (3..=8).contains(&text.len()) && digits(text);
    let is_name = (1..=11).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ')
        && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    match channel {
        _ if is_number => Ok(()),
        Channel::Sms if is_short_code || is_name => Ok(()),
        Channel::Sms => Err(format!(
            "{text:?}: expected + and 7 to 15 digits, a short code of 3 to 8 digits, or a name of \
             at most 11 letters, digits and spaces"
        )),
        _ => Err(format!("{text:?}: expected + and 7 to 15 digits")),
    }
}

/// The URL of a relay. It is empty if its environment variable is empty; then no email is declared.
fn relay(text: &str) -> Result<SecretString, String> {
    match text {
        "" => Ok(text.into()),
        text => Relay::parse(text).map(|_| text.into()),
    }
}

/// A sender of emails, with or without a name.
fn mailbox(text: &str) -> Result<String, String> {
    match text.parse::<Mailbox>() {
        Ok(_) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a valid sender, such as Acme <hello@acme.example>")),
    }
}

/// An email address without a name.
fn email_address(text: &str) -> Result<String, String> {
    match text.parse::<MailAddress>() {
        Ok(_) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not a valid email address, such as ops@acme.example")),
    }
}

/// An http(s) URL, which may contain a password or a token. No error repeats it.
fn address(text: &str) -> Result<String, String> {
    outbound::read_address(text).map(|_| text.to_owned())
}

/// The signing key: the bytes after `whsec_…`, or a text unchanged.
fn signing_secret(text: &str) -> Result<Secret, String> {
    if text.starts_with(SECRET_PREFIX) {
        return callback_secret(text);
    }
    if (20..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Secret(text.into()))
    } else {
        Err("a signing secret must be whsec_ and 24 to 64 bytes in base64 (create one \
                      with: echo whsec_$(openssl rand -base64 32)), or 20 to 255 printable ASCII \
                      characters without spaces"
            .into())
    }
}

/// The bytes after `whsec_`.
fn callback_secret(text: &str) -> Result<Secret, String> {
    text.strip_prefix(SECRET_PREFIX)
        .and_then(|text| BASE64_STANDARD.decode(text).ok())
        .filter(|bytes| (24..=64).contains(&bytes.len()))
        .map(Secret)
        .ok_or_else(|| {
            "this secret must be whsec_ and 24 to 64 bytes in base64 (create one with: echo \
             whsec_$(openssl rand -base64 32))"
                .into()
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn senders_are_numbers_and_of_sms_names_too() {
        let is_sender = |text: &str| {
            [Channel::Sms, Channel::WhatsApp].map(|channel| check_sender(text, channel).is_ok())
        };
        for text in ["+15550100", "+491701234567"] {
            assert_eq!(is_sender(text), [true, true], "{text}");
        }
        for text in ["12345", "Acme", "Acme 24"] {
            assert_eq!(is_sender(text), [true, false], "{text}");
        }
        for text in ["", "+123", "12", "+1 555 0100", "A name that is long", "+1234567890123456"] {
            assert_eq!(is_sender(text), [false, false], "{text}");
        }
        for text in ["hello@acme.example", "Acme <hello@acme.example>", "\"A, B\" <a@b.example>"] {
            assert_eq!(mailbox(text).as_deref(), Ok(text));
        }
        for text in ["", "Acme", "Acme <hello>", "a@b.example, c@d.example", "A\n<a@b.example>"] {
            assert!(mailbox(text).is_err(), "{text}");
        }
    }

    #[test]
    fn email_addresses_have_no_name() {
        for text in ["ops@acme.example", "änn@bücher.example"] {
            assert_eq!(email_address(text).as_deref(), Ok(text));
        }
        for text in ["", "ops", "Ops <ops@acme.example>", "a@b.example,c@d.example", "a@b\r\n.c"] {
            assert!(email_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_signing_secret_is_bytes_or_a_text() {
        let bytes = format!("{SECRET_PREFIX}{}", BASE64_STANDARD.encode([7; 32]));
        let text = "a-secret-that-is-long-enough";
        assert_eq!(callback_secret(&bytes), Ok(Secret(vec![7; 32])));
        assert_eq!(signing_secret(&bytes), Ok(Secret(vec![7; 32])));
        assert_eq!(signing_secret(text), Ok(Secret(text.into())));
        assert!(callback_secret(text).is_err());
        for text in ["", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_***", "twenty spaces and more"]
        {
            for error in [signing_secret(text), callback_secret(text)] {
                assert!(error.unwrap_err().contains("openssl rand"), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = (name(&text), id(&text), mailbox(&text), address(&text), relay(&text));
            let _ = email_address(&text);
            let _ = (signing_secret(&text), message_channel(&text), number_channel(&text));
            let _ = (check_sender(&text, Channel::Sms), check_sender(&text, Channel::Email));
        }
    }
}
