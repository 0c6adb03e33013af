//! Numbers of JSON, compared by what they are worth: whole ones to the last digit, also with
//! those that have a fraction.

use std::cmp::Ordering;

use serde_json::Number;

/// How `a` stands to `b`.
pub fn compare(a: &Number, b: &Number) -> Ordering {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_with_float(a, float(b)),
        (None, Some(b)) => compare_with_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// JSON has no number that is none.
fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(0.0)
}

/// `whole` is one of 64 bits.
fn compare_with_float(whole: i128, float: f64) -> Ordering {
    // Beyond what 128 bits hold, this is the nearest that they do: still on the right side.
    let floor = float.floor();
    whole.cmp(&(floor as i128)).then(match float > floor {
        true => Ordering::Less,
        false => Ordering::Equal,
    })
}
