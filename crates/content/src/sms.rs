//! Invalid phone numbers: they get no messages until they are removed from the list.

pub mod api;
mod rows;

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use kit::phone;

pub use rows::{InvalidNumber, add, is_invalid, list, list_from, remove};

/// A phone number with 7 to 15 digits. It may begin with `+`, `00` or the country code, and have
/// spaces and the characters `-./()` between its digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "pattern" = phone::PATTERN, "not" = { "pattern": phone::TRUNK_PREFIX },
))]
pub struct PhoneNumber(
    /// In E.164.
    String,
);

impl TryFrom<String> for PhoneNumber {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl PhoneNumber {
    /// Parses a number as people write it; the error has the expected format.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(number) = phone::e164(text) {
            return Ok(Self(number));
        }
        const SHOWN: usize = 40;
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Err(format!("{shown:?}{more} is not a valid phone number: expected + and 7 to 15 digits"))
    }

    /// The digits alone, as the list has them.
    pub fn digits(&self) -> &str {
        self.0.trim_start_matches('+')
    }

    /// The number in E.164.
    pub fn e164(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_its_digits() {
        for text in ["+15550100", "15550100", "0015550100", "+1 (555) 01-00", "+15550100\n"] {
            let number = PhoneNumber::parse(text).unwrap();
            assert_eq!((number.digits(), number.e164()), ("15550100", "+15550100"), "{text}");
        }
        for text in ["", "+", "+123456", "+1234567890123456", "tel:+15550100"] {
            let error = PhoneNumber::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("{text:?} is not a valid phone number")), "{error}");
        }
        let long = PhoneNumber::parse(&"é".repeat(10_000)).unwrap_err();
        assert!(long.chars().count() < 150 && long.contains('…'), "{long}");
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            if let Ok(number) = PhoneNumber::parse(&text) {
                prop_assert_eq!(PhoneNumber::parse(&number.to_string()), Ok(number));
            }
        }
    }
}
