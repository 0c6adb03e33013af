//! Numbers in JSON: whole numbers by their digits, and comparisons by value.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Number;

/// The value of a JSON number without a fraction, in any notation: `5`, `5.0` and `50e-1` are the
/// same. None for another value, and for a number that does not fit. Compares digits: no number is
/// rounded to a whole one.
pub fn whole_number(json: &str) -> Option<i64> {
    /// Digits of a number that always fits.
    const ALWAYS_FITS: usize = 18;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if json.len() <= ALWAYS_FITS && is_digits(json) {
        return json.parse().ok();
    }
    let Decimal { sign, significant, exponent } = Decimal::read(json)?;
    if significant.is_empty() {
        return Some(0);
    }
    let zeros = usize::try_from(exponent).ok().filter(|zeros| *zeros < 20)?;
    format!("{sign}{significant}{}", "0".repeat(zeros)).parse().ok()
}

/// A JSON number as the digits without zeros around them, and the power of ten to multiply them by.
struct Decimal<'j> {
    sign: &'j str,
    significant: String,
    exponent: i64,
}

impl<'j> Decimal<'j> {
    fn read(json: &'j str) -> Option<Self> {
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (sign, number) = json.split_at(usize::from(json.starts_with('-')));
        let (mantissa, exponent) = match number.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (number, 0),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if integer.is_empty() || !is_digits(integer) || !is_digits(fraction) {
            return None;
        }
        let digits = format!("{integer}{fraction}");
        let without_zeros = digits.trim_end_matches('0');
        let zeros = digits.len() - without_zeros.len();
        let significant = without_zeros.trim_start_matches('0').to_owned();
        let exponent = exponent.checked_sub(fraction.len() as i64)?.checked_add(zeros as i64)?;
        Some(Self { sign, significant, exponent })
    }
}

/// [`whole_number`] of a parsed number. If that was written with a fraction or an exponent, it has
/// only the digits of a double.
pub fn as_whole_number(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| whole_number(&number.to_string()))
}

/// The order of `a` relative to `b`. Comparisons with whole numbers are exact, also if the other
/// number has a fraction.
pub fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_with_float(a, float(b)),
        (None, Some(b)) => compare_with_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

/// A text that two JSON numbers share if their values are the same, digit by digit.
pub(super) fn canonical_number(json: &str) -> Cow<'_, str> {
    if let Some(whole) = whole_number(json) {
        return Cow::Owned(whole.to_string());
    }
    match Decimal::read(json) {
        Some(Decimal { sign, significant, exponent }) => {
            Cow::Owned(format!("{sign}{significant}e{exponent}"))
        }
        None => Cow::Borrowed(json),
    }
}

fn as_integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Every JSON number is a double here.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(0.0)
}

/// `integer` has at most 64 bits.
fn compare_with_float(integer: i128, float: f64) -> Ordering {
    // Beyond 128 bits this saturates, still on the correct side.
    let floor = float.floor();
    let fraction = if float > floor { Ordering::Less } else { Ordering::Equal };
    integer.cmp(&(floor as i128)).then(fraction)
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

    proptest! {
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
