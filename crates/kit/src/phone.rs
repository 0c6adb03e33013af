//! Phone numbers, as people write them.

/// What [`e164`] reads, if the text has no [`TRUNK_PREFIX`]. A number that begins with 00 has 7 to
/// 15 more digits.
pub const PATTERN: &str = concat!(
    r"^[\s()./-]*(?:(?:\+|0[\s()./-]*0)[\s()./-]*[0-9](?:[\s()./-]*[0-9]){6,14}",
    r"|(?:0[\s()./-]*[1-9]|[1-9][\s()./-]*[0-9])(?:[\s()./-]*[0-9]){5,13})[\s()./-]*$",
);

/// The same for numbers that messages can be sent to: no country code begins with 0.
pub const PATTERN_WITH_COUNTRY: &str = concat!(
    r"^[\s()./-]*(?:\+|0[\s()./-]*0)?",
    r"[\s()./-]*[1-9](?:[\s()./-]*[0-9]){6,14}[\s()./-]*$",
);

/// A digit that is not dialled after a country code, as in `+44 (0)20 …`. A number with it is not
/// read: only a person knows whether it belongs to the number.
pub const TRUNK_PREFIX: &str = r"\(\s*0\s*\)";

/// The number in E.164, without what people write between the digits. It may begin with `+`, `00`
/// or the country code, and has 7 to 15 digits.
pub fn e164(text: &str) -> Option<String> {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, '-' | '.' | '(' | ')' | '/');
    let compact = text.replace(is_separator, "");
    let digits = compact.strip_prefix('+').or_else(|| compact.strip_prefix("00"));
    let digits = digits.unwrap_or(&compact);
    let is_number =
        (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !has_trunk_prefix(text)).then(|| format!("+{digits}"))
}

/// Whether the text has a [`TRUNK_PREFIX`].
fn has_trunk_prefix(text: &str) -> bool {
    text.split('(')
        .skip(1)
        .any(|inside| inside.split_once(')').is_some_and(|(inside, _)| inside.trim() == "0"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for text in [
            "+4915112345678",
            "004915112345678",
            "+49 (151) 1234-5678",
            "+49.151/12345678",
            " 4915112345678\n",
        ] {
            assert_eq!(e164(text).as_deref(), Some("+4915112345678"), "{text}");
        }
        for text in [
            "",
            "+",
            "12345",
            "ann@acme.example",
            "+1234567890123456",
            "+49151x2345678",
            "++15550100",
            "15550100+",
            "tel:+15550100",
            "+٣٣٣٣٣٣٣",
            "+44 (0)20 7946 0000",
            "+44 ( 0 ) 20 7946 0000",
        ] {
            assert_eq!(e164(text), None, "{text}");
        }
    }

    proptest! {
        /// Requests that clients check with the schema are accepted, and only these.
        #[test]
        fn the_patterns_describe_the_numbers_that_are_read(text in "[ +0-9x().-]{0,24}") {
            let matches = |pattern: &str| Regex::new(pattern).unwrap().is_match(&text);
            let number = e164(&text);
            let is_described = matches(PATTERN) && !matches(TRUNK_PREFIX);
            prop_assert_eq!(number.is_some(), is_described, "{:?}", text);
            let has_country = number.is_some_and(|number| !number.starts_with("+0"));
            let is_described = matches(PATTERN_WITH_COUNTRY) && !matches(TRUNK_PREFIX);
            prop_assert_eq!(has_country, is_described, "{:?}", text);
        }

        #[test]
        fn numbers_with_separators_are_read(
            text in "(\\+|00)?([ (.)/-]{0,2}[1-9]){7,15}[ .]?"
        ) {
            let digits = text.replace(|c: char| !c.is_ascii_digit(), "");
            let expected = format!("+{}", digits.trim_start_matches("00"));
            prop_assert_eq!(e164(&text), Some(expected));
            for pattern in [PATTERN, PATTERN_WITH_COUNTRY] {
                prop_assert!(Regex::new(pattern).unwrap().is_match(&text));
            }
        }
    }
}
