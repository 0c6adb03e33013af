//! Invalid phone numbers: they get no messages until they are removed from the list.

pub mod api;
mod rows;

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

pub use rows::{InvalidNumber, add, is_invalid, list, list_from, remove};

/// Allowed number of digits (docs/reference/api/invalid-numbers.md).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// A phone number in E.164; the plus may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, extend(
    "pattern" = format!(r"^\+?[0-9]{{{},{}}}$", DIGITS.start(), DIGITS.end()),
))]
pub struct PhoneNumber(
    /// The digits alone, because numbers are compared without the plus.
    String,
);

impl TryFrom<String> for PhoneNumber {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl PhoneNumber {
    /// Parses a number, with or without plus; the error has the expected format.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix('+').unwrap_or(text);
        if DIGITS.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self(digits.to_owned()));
        }
        const SHOWN: usize = 40;
        let shown: String = text.chars().take(SHOWN).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Err(format!("{shown:?}{more} is not a valid phone number: expected + and 7 to 15 digits"))
    }

    pub fn digits(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_its_digits() {
        for text in ["+15550100", "15550100", "+1234567", "+123456789012345", "0155501"] {
            let number = PhoneNumber::parse(text).unwrap();
            assert_eq!(number.digits(), text.trim_start_matches('+'));
            assert_eq!(PhoneNumber::parse(&number.to_string()), Ok(number));
        }
        for text in [
            "",
            "+",
            "+123456",
            "+1234567890123456",
            "++15550100",
            "+1 555 0100",
            "+1-555-0100",
            "15550100+",
            "+1555010a",
            "tel:+15550100",
            "+٣٣٣٣٣٣٣",
            " +15550100",
            "+15550100\n",
        ] {
            let error = PhoneNumber::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("{text:?} is not a valid phone number")), "{error}");
        }
        let long = PhoneNumber::parse(&"é".repeat(10_000)).unwrap_err();
        assert!(long.chars().count() < 150 && long.contains('…'), "{long}");
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*") {
            let _ = PhoneNumber::parse(&text);
        }

        #[test]
        fn accepted_numbers_read_alike_with_and_without_plus(
            plus in any::<bool>(), digits in "[0-9]{1,20}"
        ) {
            let text = if plus { format!("+{digits}") } else { digits.clone() };
            match PhoneNumber::parse(&text) {
                Ok(number) => {
                    prop_assert!((7..=15).contains(&digits.len()));
                    prop_assert_eq!(number.digits(), &digits);
                    prop_assert_eq!(number.to_string(), format!("+{digits}"));
                }
                Err(_) => prop_assert!(!(7..=15).contains(&digits.len())),
            }
        }
    }
}
