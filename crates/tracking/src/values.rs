//! Parses the single values of an object, with their constraints and errors. Each value is JSON and
//! not null.

use std::borrow::Cow;

use uuid::Uuid;

use gateway::fields;
use kit::clock;
use kit::json;
use kit::money;
use kit::words::about_field;
use people::users::identifier::UserAlias;
use people::users::profile::{MAX_TEXT, check};

/// Maximum quantity of a purchase object.
pub const MAX_QUANTITY: u8 = 100;

pub type Checked<T> = Result<T, String>;

/// A string of 1 to 255 characters.
pub fn name(json: &str) -> Checked<Cow<'_, str>> {
    match check::text(json)? {
        text if text.is_empty() => Err(format!("expected 1 to {MAX_TEXT} characters")),
        text => Ok(text),
    }
}

/// A UUID, because no user has another kind of id.
pub fn service_id(json: &str) -> Checked<Uuid> {
    Uuid::try_parse(&check::text(json)?).map_err(|_| "expected a UUID".to_owned())
}

pub fn user_alias(json: &str) -> Checked<UserAlias<'static>> {
    let members = json::unique_fields(json, json::MAX_JSON_FIELDS)?;
    if let Some(name) = fields::unsupported_selector(&members, &[]) {
        return Err(about_field(name, fields::NO_SELECTOR));
    }
    let alias = check::alias(&members)?;
    Ok(UserAlias { alias_name: alias.name.into(), alias_label: alias.label.into() })
}

pub fn email(json: &str) -> Checked<Cow<'_, str>> {
    let text = check::text(json)?;
    check::new_email(&text)?;
    Ok(text)
}

pub fn boolean(json: &str) -> Checked<bool> {
    json::parse(json)
}

/// Milliseconds since the epoch.
pub fn time(json: &str) -> Checked<i64> {
    clock::parse_time(&check::text(json)?)
}

/// An active code of ISO 4217.
pub fn currency(json: &str) -> Checked<Cow<'_, str>> {
    let text = check::text(json)?;
    if text.len() != 3 {
        return Err("expected an ISO 4217 code of three upper-case letters".to_owned());
    }
    money::check_currency(&text)?;
    Ok(text)
}

/// The price in millionths, from 0.
pub fn price(json: &str) -> Checked<i64> {
    let (sign, digits) = (json.starts_with('-'), json.trim_start_matches('-'));
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("expected a number".to_owned());
    }
    // A negative price is rejected even if it would be rounded to 0.
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    if sign && mantissa.contains(|c| matches!(c, '1'..='9')) {
        return Err("must not be negative".to_owned());
    }
    money::parse_below_limit(digits).ok_or_else(price_too_large)
}

/// The error for amounts that are too large.
pub fn price_too_large() -> String {
    format!("is too large: price times quantity must be below {}", money::LIMIT / money::MILLION)
}

/// A whole number in any notation: `1.0` is the same as `1`.
pub fn quantity(json: &str) -> Checked<u8> {
    let number = json::whole_number(json).and_then(|number| u8::try_from(number).ok());
    let quantity = number.filter(|number| (1..=MAX_QUANTITY).contains(number));
    quantity.ok_or_else(|| format!("expected a whole number from 1 to {MAX_QUANTITY}"))
}
