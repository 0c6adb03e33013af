//! Numbers in JSON: whole numbers by their digits, and comparisons by value.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Number;

/// Digits of a whole number that always fits.
const FEW_DIGITS: usize = 18;

/// The value of a JSON number without a fraction, in any notation: `5`, `5.0` and `50e-1` are the
/// same. None for another value, and for a number that does not fit. Compares digits: no number is
/// rounded to a whole one.
pub fn whole_number(json: &str) -> Option<i64> {
    short_whole_number(json).or_else(|| Decimal::read(json)?.as_whole_number())
}

/// The value of a whole number of few digits without a fraction or an exponent.
fn short_whole_number(json: &str) -> Option<i64> {
    let digits = json.strip_prefix('-').unwrap_or(json);
    (digits.len() <= FEW_DIGITS && is_digits(digits)).then(|| json.parse().ok())?
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A JSON number of any size, exactly. Reading and comparing it takes no longer than reading its
/// text, whatever its exponent is.
#[derive(Clone, Copy, Debug)]
struct Decimal<'j> {
    is_negative: bool,
    /// The digits without zeros around them, in two pieces; none for 0.
    digits: [&'j str; 2],
    /// The number is `0.DIGITS` times 10 to this power. Exponents of more than 38 digits count as
    /// the largest one.
    magnitude: i128,
}

impl<'j> Decimal<'j> {
    /// None if the text is not a number.
    fn read(json: &'j str) -> Option<Self> {
        let number = json.strip_prefix('-').unwrap_or(json);
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)?),
            None => (number, 0),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if integer.is_empty() || !is_digits(integer) || !is_digits(fraction) {
            return None;
        }
        let integer = integer.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let length = |text: &str| text.len() as i128;
        let (digits, magnitude) = match (integer, fraction) {
            ("", "") => return Some(Self { is_negative: false, digits: ["", ""], magnitude: 0 }),
            ("", fraction) => {
                let significant = fraction.trim_start_matches('0');
                (["", significant], length(significant) - length(fraction))
            }
            (integer, "") => ([integer.trim_end_matches('0'), ""], length(integer)),
            (integer, fraction) => ([integer, fraction], length(integer)),
        };
        let magnitude = exponent.saturating_add(magnitude);
        Some(Self { is_negative: json.starts_with('-'), digits, magnitude })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.digits.into_iter().flat_map(str::bytes)
    }

    fn as_whole_number(&self) -> Option<i64> {
        /// Digits of the largest one.
        const MAX_DIGITS: usize = 19;
        let length = self.digits[0].len() + self.digits[1].len();
        if length == 0 {
            return Some(0);
        }
        let size = usize::try_from(self.magnitude).ok();
        let size = size.filter(|size| (length..=MAX_DIGITS).contains(size))?;
        let digit = |number: i128, digit: u8| number * 10 + i128::from(digit - b'0');
        let zeros = std::iter::repeat_n(b'0', size - length);
        let number = self.digits().chain(zeros).fold(0, digit);
        i64::try_from(if self.is_negative { -number } else { number }).ok()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits == ["", ""], number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let by_size = || {
            let by_magnitude = self.magnitude.cmp(&other.magnitude);
            by_magnitude.then_with(|| self.digits().cmp(other.digits()))
        };
        sign(self)
            .cmp(&sign(other))
            .then_with(|| if self.is_negative { by_size().reverse() } else { by_size() })
    }
}

/// The value of an exponent; one that does not fit is the largest of its sign.
fn read_exponent(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !is_digits(digits) {
        return None;
    }
    let largest = if text.starts_with('-') { i128::MIN } else { i128::MAX };
    Some(text.parse().unwrap_or(largest))
}

/// [`whole_number`] of a parsed number. If that was written with a fraction or an exponent, it has
/// only the digits of a double.
pub fn as_whole_number(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| whole_number(&number.to_string()))
}

/// The order of `a` relative to `b`, two JSON numbers: by their values, to the last digit. Other
/// texts are compared as texts.
pub fn compare_numbers(a: &str, b: &str) -> Ordering {
    if let (Some(a), Some(b)) = (short_whole_number(a), short_whole_number(b)) {
        return a.cmp(&b);
    }
    match (Decimal::read(a), Decimal::read(b)) {
        (Some(a), Some(b)) => a.compare(&b),
        _ => a.cmp(b),
    }
}

/// A text that two JSON numbers share if their values are the same, digit by digit.
pub(super) fn canonical_number(json: &str) -> Cow<'_, str> {
    let Some(decimal) = Decimal::read(json) else { return Cow::Borrowed(json) };
    if let Some(whole) = decimal.as_whole_number() {
        return Cow::Owned(whole.to_string());
    }
    let Decimal { is_negative, digits: [first, rest], magnitude } = decimal;
    let sign = if is_negative { "-" } else { "" };
    Cow::Owned(format!("{sign}{first}{rest}e{magnitude}"))
}

/// A JSON number as `serde_json` writes it, if that is the same value; otherwise as it is.
pub fn usual_spelling(json: &str) -> Cow<'_, str> {
    let usual = json.parse::<Number>().ok().map(|number| number.to_string());
    match usual {
        Some(usual) if usual != json && compare_numbers(&usual, json).is_eq() => Cow::Owned(usual),
        _ => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_numbers_are_read_in_any_notation() {
        for (json, number) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("-0.0", Some(0)),
            ("0e999", Some(0)),
            ("0e99999999999999999999", Some(0)),
            ("100000000000000000000e-20", Some(1)),
            ("-9223372036854775809", None),
            ("1e-99999999999999999999", None),
            ("50e-1", Some(5)),
            ("0.5E1", Some(5)),
            ("1e2", Some(100)),
            ("-1.20e+2", Some(-120)),
            ("100.0000000000000000001", None),
            ("99.9999999999999999999", None),
            ("0.5", None),
            ("1e-1", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1e99999999999999999999", None),
            ("1e9223372036854775807", None),
            ("\"5\"", None),
            ("true", None),
            ("", None),
        ] {
            assert_eq!(whole_number(json), number, "{json}");
        }
    }

    #[test]
    fn parsed_whole_numbers_are_read_in_any_notation() {
        for (json, number) in [
            ("7", Some(7)),
            ("-7.0", Some(-7)),
            ("0.7e1", Some(7)),
            ("7.5", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e300", None),
        ] {
            assert_eq!(as_whole_number(&json.parse().unwrap()), number, "{json}");
        }
    }

    #[test]
    fn numbers_are_compared_to_the_last_digit() {
        /// Ascending; the spellings of a row are equal.
        const ASCENDING: [&[&str]; 23] = [
            &["-1e400", "-1000e397"],
            &["-1e300"],
            &["-18446744073709551617"],
            &["-9223372036854775809", "-9223372036854775809.0"],
            &["-9223372036854775808", "-9.223372036854775808e18"],
            &["-1.5", "-15e-1"],
            &["-1e-99999999999999999999999999999999999999999"],
            &["0", "-0", "-0.0", "0e99999999999999999999999999999999999999999"],
            &["1e-999999999", "0.1e-999999998"],
            &["1e-400"],
            &["0.1", "0.10", "1e-1", "0.01e1"],
            &["0.10000000000000000001"],
            &["0.5"],
            &["1", "1.0", "10e-1", "0.1E+1", "0.01e2"],
            &["9007199254740992", "9007199254740992.0"],
            &["9007199254740993", "9007199254740993.000"],
            &["123456789012345678", "123456789012345678.0"],
            &["123456789012345678.123456789", "123456789012345678123456789e-9"],
            &["18446744073709551615"],
            &["18446744073709551616", "1.8446744073709551616e19"],
            &["18446744073709551617", "1.8446744073709551617e19"],
            &["1e300", "0.001e303"],
            &["1e999999999", "10e999999998"],
        ];
        for (a, row) in ASCENDING.iter().enumerate() {
            for (b, other) in ASCENDING.iter().enumerate() {
                for (x, y) in row.iter().flat_map(|x| other.iter().map(move |y| (x, y))) {
                    assert_eq!(compare_numbers(x, y), a.cmp(&b), "{x} {y}");
                    assert_eq!(canonical_number(x) == canonical_number(y), a == b, "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn a_usual_spelling_never_changes_the_value() {
        for (json, usual) in [
            ("1", "1"),
            ("1.50", "1.5"),
            ("1e2", "100.0"),
            ("-0", "-0.0"),
            ("18446744073709551617", "18446744073709551617"),
            ("123456789012345678.123456789", "123456789012345678.123456789"),
            ("0.1000000000000000000000", "0.1"),
            ("1e400", "1e400"),
        ] {
            assert_eq!(usual_spelling(json), usual, "{json}");
        }
    }

    #[test]
    fn a_long_number_takes_no_longer_than_its_text() {
        let zeros = "0".repeat(1 << 20);
        let (small, large) = (format!("0.{zeros}1"), format!("1{zeros}e999999999999"));
        assert!(compare_numbers(&small, &large).is_lt());
        assert!(compare_numbers(&small, &format!("1e-{}", (1 << 20) + 1)).is_eq());
        assert_eq!(whole_number(&format!("1{zeros}e-{}", 1 << 20)), Some(1));
    }

    proptest! {
        /// Differences that a double cannot hold count, too.
        #[test]
        fn the_order_is_that_of_the_same_digits_as_whole_numbers(
            a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000,
            shift in -40_i32..40, zeros in 0_usize..4,
        ) {
            let zeros_of = |places: usize| "0".repeat(places);
            let x = format!("{a}{}e{}", zeros_of(zeros), shift - zeros as i32);
            let y = format!("{b}.{}e{shift}", zeros_of(zeros + 1));
            prop_assert_eq!(compare_numbers(&x, &y), a.cmp(&b), "{} {}", x, y);
        }

        #[test]
        fn any_notation_is_the_same_number(number: i32, zeros in 0_usize..5, places in 0_i32..5) {
            let text = format!("{number}.{}", "0".repeat(zeros));
            let text = text.trim_end_matches('.');
            prop_assert_eq!(whole_number(text), Some(number.into()));
            prop_assert_eq!(whole_number(&format!("{number}{}e-{places}",
                "0".repeat(places as usize))), Some(number.into()));
        }

        #[test]
        fn never_panics(text in "[-+0-9eE.]{0,24}") {
            if let (Some(number), Ok(float)) = (whole_number(&text), text.parse::<f64>()) {
                prop_assert_eq!(number as f64, float);
            }
        }
    }
}
