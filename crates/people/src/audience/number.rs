//! Compares JSON numbers by value. Comparisons with whole numbers are exact, also if the other
//! number has a fraction.

use std::cmp::Ordering;

use serde_json::Number;

/// The order of `a` relative to `b`.
pub fn compare(a: &Number, b: &Number) -> Ordering {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_with_float(a, float(b)),
        (None, Some(b)) => compare_with_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
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
