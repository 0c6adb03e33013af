//! Adds JSON numbers exactly: 0.1 and 0.2 are 0.3.

use kit::json;

/// Decimal places, and leading zeros, up to which numbers are added digit by digit; others are
/// added as doubles.
const MAX_DECIMAL_PLACES: i64 = 30;

/// The sum of two JSON numbers: exact, or as doubles if one is too large or too small for that.
/// None if one is not a number, or the sum exceeds a double. A sum of whole numbers is written
/// without a point, any other with one.
pub fn sum(a: &str, b: &str) -> Option<String> {
    let integer = |text: &str| text.parse::<i128>().ok();
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return a.checked_add(b).map(|sum| sum.to_string());
    }
    let exact = || Decimal::parse(a)?.checked_add(Decimal::parse(b)?);
    if let Some(sum) = exact() {
        return Some(sum.to_text());
    }
    let number = |text: &str| json::parse::<f64>(text).ok();
    let sum = number(a)? + number(b)?;
    serde_json::Number::from_f64(sum).map(|sum| sum.to_string())
}

/// `digits` divided by 10 to the power of `places`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    places: u32,
}

impl Decimal {
    /// Parses a JSON number. None if it is not a number, or has too many digits.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let places = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if !(-MAX_DECIMAL_PLACES..=MAX_DECIMAL_PLACES).contains(&places) {
            return None;
        }
        let digits: i128 = format!("{integer}{fraction}").parse().ok()?;
        match u32::try_from(places) {
            Ok(places) => Some(Self { digits, places }),
            Err(_) => Self { digits, places: 0 }.scaled(places.unsigned_abs().try_into().ok()?),
        }
    }

    /// The same digits with zeros appended.
    fn scaled(self, zeros: u32) -> Option<Self> {
        let digits = self.digits.checked_mul(10_i128.checked_pow(zeros)?)?;
        Some(Self { digits, ..self })
    }

    fn checked_add(self, other: Self) -> Option<Self> {
        let places = self.places.max(other.places);
        let digits = self.scaled(places - self.places)?.digits;
        let added = other.scaled(places - other.places)?.digits;
        Some(Self { digits: digits.checked_add(added)?, places })
    }

    /// Writes at least one digit after the point, and no further trailing zeros.
    fn to_text(self) -> String {
        let sign = if self.digits < 0 { "-" } else { "" };
        let places = self.places.max(1) as usize;
        let missing = places - self.places as usize;
        let digits = format!("{}{}", self.digits.unsigned_abs(), "0".repeat(missing));
        let digits = format!("{digits:0>width$}", width = places + 1);
        let (integer, fraction) = digits.split_at(digits.len() - places);
        let (first, rest) = fraction.split_at(1);
        format!("{sign}{integer}.{first}{}", rest.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_added_exactly() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("0.30000000000000004", "0", "0.30000000000000004"),
            ("1.5", "1", "2.5"),
            ("1.5", "1.5", "3.0"),
            ("-0.05", "0.04", "-0.01"),
            ("-1.0", "1", "0.0"),
            ("1e2", "1", "101.0"),
            ("12e-1", "1E+1", "11.2"),
            ("1.10", "0.90", "2.0"),
            ("9007199254740993", "1", "9007199254740994"),
            ("123456789012345678.9", "0.1", "123456789012345679.0"),
            ("1e-200", "1", "1.0"),
        ] {
            let sum = sum(a, b);
            assert_eq!(sum.as_deref(), Some(expected), "{a} + {b}");
            assert_eq!(super::sum(b, a), sum);
        }
    }

    #[test]
    fn values_without_a_finite_sum_have_none() {
        for other in [r#""1""#, "true", "null", "[1]", "{}", r#""x""#] {
            assert_eq!(sum("1", other), None, "{other}");
            assert_eq!(sum("1.5", other), None, "{other}");
        }
        assert_eq!(sum("1e308", "1e308"), None);
        assert_eq!(sum("1e300", "1e300").unwrap().parse(), Ok(2e300));
        assert_eq!(sum(&i128::MAX.to_string(), "1"), None);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_same_digits_as_whole_numbers(
            a in -1_000_000_000_000_i64..1_000_000_000_000,
            b in -1_000_000_000_000_i64..1_000_000_000_000,
            places in 1_u32..12,
        ) {
            let text = |digits: i64| {
                Decimal { digits: digits.into(), places }.to_text()
            };
            prop_assert_eq!(sum(&text(a), &text(b)), Some(text(a + b)));
        }

        #[test]
        fn a_sum_is_near_that_of_doubles(a in -1e30..1e30_f64, b in -1e30..1e30_f64) {
            let text = |number: f64| serde_json::Number::from_f64(number).unwrap().to_string();
            let sum: f64 = sum(&text(a), &text(b)).unwrap().parse().unwrap();
            prop_assert!((sum - (a + b)).abs() <= 1e-9 * a.abs().max(b.abs()));
        }
    }
}
