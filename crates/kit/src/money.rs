//! Money: decimal in JSON, an integer of millionths inside.

use iso_currency::Currency;

/// Millionths in one unit of a currency.
pub const MILLION: i64 = 1_000_000;

/// Amounts from outside are below this limit, a whole number of units.
pub const LIMIT: i64 = i64::MAX / MILLION * MILLION;

/// [`parse`] of an amount below the [`LIMIT`].
pub fn parse_below_limit(number: &str) -> Option<i64> {
    parse(number).filter(|amount| *amount < LIMIT)
}

/// Parses a JSON number exactly, without binary floating point. Rounds half to even to six
/// decimals. None for a text that is not a number or does not fit.
pub fn parse(number: &str) -> Option<i64> {
    if let Some(millionths) = parse_plain(number) {
        return Some(millionths);
    }
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{integer}{fraction}");
    if integer.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    // The value in millionths is `digits` with the point moved by `shift` places.
    let shift = i64::from(exponent) - i64::try_from(fraction.len()).ok()? + 6;
    let length = i64::try_from(digits.len()).ok()? + shift;
    if length > 19 {
        return None;
    }
    let millionths = if shift >= 0 {
        format!("{digits}{}", "0".repeat(shift as usize)).parse().ok()?
    } else {
        round(digits, length)?
    };
    if negative { i64::checked_neg(millionths) } else { Some(millionths) }
}

/// [`parse`] of a number without a sign and an exponent, with at most twelve digits before the
/// point and six after it. Most are, and this allocates nothing. None if [`parse`] must decide.
fn parse_plain(number: &str) -> Option<i64> {
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let missing_digits = 6_usize.checked_sub(fraction.len())?;
    if !(1..=12).contains(&integer.len()) {
        return None;
    }
    let number = integer.bytes().chain(fraction.bytes()).try_fold(0, |number: i64, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })?;
    Some(number * 10_i64.pow(missing_digits as u32))
}

/// The first `length` digits, rounded by the others.
fn round(digits: &str, length: i64) -> Option<i64> {
    let Ok(length) = usize::try_from(length) else { return Some(0) };
    let (rounded, dropped) = digits.split_at(length);
    let rounded: i64 = if rounded.is_empty() { 0 } else { rounded.parse().ok()? };
    let is_half = dropped.starts_with('5') && dropped[1..].bytes().all(|digit| digit == b'0');
    let rounds_up =
        if is_half { rounded % 2 == 1 } else { dropped.as_bytes().first() >= Some(&b'5') };
    rounded.checked_add(i64::from(rounds_up))
}

/// Writes millionths as the shortest JSON number: `12.5`, `-0.000001`, `3`.
pub fn format(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let (units, rest) =
        (millionths.unsigned_abs() / 1_000_000, millionths.unsigned_abs() % 1_000_000);
    if rest == 0 {
        return format!("{sign}{units}");
    }
    let text = format!("{sign}{units}.{rest:06}");
    text.trim_end_matches('0').to_owned()
}

/// Checks that a text is an active ISO 4217 code for payments: no metals, no test codes.
pub fn check_currency(text: &str) -> Result<(), String> {
    match Currency::from_code(text) {
        // Has a successor for accounting, but is still in use.
        Some(Currency::VES) => Ok(()),
        Some(currency) if currency.is_special() => {
            Err(format!("{text} is not a currency for payments"))
        }
        Some(currency) => match currency.is_superseded() {
            Some(new) => Err(format!("{text} was replaced by {}", new.code())),
            None => Ok(()),
        },
        None => Err(format!("{text:?} is not an ISO 4217 currency code, such as USD")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_values_are_decoded(millionths in -i64::MAX..i64::MAX) {
            prop_assert_eq!(parse(&format(millionths)), Some(millionths));
        }

        #[test]
        fn plain_numbers_are_read_like_others(text in "[0-9]{1,13}(\\.[0-9]{0,7})?") {
            prop_assert_eq!(parse(&text), parse(&format!("{text}e0")));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9eE.]{0,12}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn millionths_are_written_as_decimals() {
        for (millionths, text) in [
            (0, "0"),
            (1, "0.000001"),
            (12_500_000, "12.5"),
            (100_000_000, "100"),
            (-1_050_000, "-1.05"),
            (i64::MAX, "9223372036854.775807"),
            (i64::MIN, "-9223372036854.775808"),
        ] {
            assert_eq!(format(millionths), text);
        }
    }

    #[test]
    fn amounts_from_outside_are_below_the_limit() {
        for (text, is_below) in [
            ("9223372036853.999999", true),
            ("9223372036853.9999994", true),
            // Rounded to the limit.
            ("9223372036853.9999995", false),
            ("9223372036854", false),
            ("9223372036854.775807", false),
            ("9.223372036854e12", false),
        ] {
            assert_eq!(parse_below_limit(text).is_some(), is_below, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_exactly() {
        for (text, millionths) in [
            ("0.1", 100_000),
            ("-12.5", -12_500_000),
            ("1e3", 1_000_000_000),
            ("25E-1", 2_500_000),
            ("0.0000005", 0),
            ("0.0000015", 2),
            ("0.00000051", 1),
            ("0.00000049", 0),
            ("1e-400", 0),
            ("0e400", 0),
            ("9223372036854.775807", i64::MAX),
        ] {
            assert_eq!(parse(text), Some(millionths), "{text}");
        }
        for text in ["9223372036854.775808", "1e400", "", ".5", "1x", "--1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
