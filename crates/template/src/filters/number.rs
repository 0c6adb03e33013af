//! Filters of numbers. A text that is written as a number is one; what is no number counts as 0.
//! Whole numbers that would overflow go on as floating point, and what has no result is nil.

use super::super::Stop;
use super::super::value::{Number, Value};
use super::super::work::Work;

type Made<'a> = Result<Value<'a>, Stop>;

fn number(value: &Value<'_>) -> Number {
    value.as_number().unwrap_or(Number::Int(0))
}

fn calculate<'a>(
    work: &mut Work,
    one: &Value<'a>,
    two: &Value<'a>,
    ints: impl Fn(i64, i64) -> Option<i64>,
    floats: impl Fn(f64, f64) -> f64,
) -> Made<'a> {
    work.step(1)?;
    let (one, two) = (number(one), number(two));
    if let (Number::Int(one), Number::Int(two)) = (one, two)
        && let Some(result) = ints(one, two)
    {
        return Ok(Value::Int(result));
    }
    Ok(Value::float(tidy(floats(one.as_float(), two.as_float()))))
}

/// The number as it is meant where binary digits cannot hold it: 0.1 plus 0.2 is 0.3.
fn tidy(number: f64) -> f64 {
    format!("{number:.14e}").parse().unwrap_or(number)
}

pub fn plus<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &arguments[0], i64::checked_add, |one, two| one + two)
}

pub fn minus<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &arguments[0], i64::checked_sub, |one, two| one - two)
}

pub fn times<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &arguments[0], i64::checked_mul, |one, two| one * two)
}

/// Of whole numbers a whole number, rounded down; by zero it is nil.
pub fn divided_by<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    if number(&arguments[0]).is_zero() {
        return Ok(Value::Nil);
    }
    let floor = |one: i64, two: i64| {
        let (quotient, rest) = (one.checked_div(two)?, one.checked_rem(two)?);
        let is_above = rest != 0 && (rest < 0) != (two < 0);
        Some(quotient - i64::from(is_above))
    };
    calculate(work, &input, &arguments[0], floor, |one, two| one / two)
}

/// With the sign of the divisor; by zero it is nil.
pub fn modulo<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    if number(&arguments[0]).is_zero() {
        return Ok(Value::Nil);
    }
    let ints = |one: i64, two: i64| {
        let rest = one.checked_rem(two).unwrap_or(0);
        Some(if rest != 0 && (rest < 0) != (two < 0) { rest + two } else { rest })
    };
    calculate(work, &input, &arguments[0], ints, |one, two| one - two * (one / two).floor())
}

pub fn abs<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &Value::Int(0), |one, _| one.checked_abs(), |one, _| one.abs())
}

pub fn at_least<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &arguments[0], |one, two| Some(one.max(two)), f64::max)
}

pub fn at_most<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    calculate(work, &input, &arguments[0], |one, two| Some(one.min(two)), f64::min)
}

pub fn ceil<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    work.step(1)?;
    Ok(whole(number(&input), f64::ceil))
}

pub fn floor<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    work.step(1)?;
    Ok(whole(number(&input), f64::floor))
}

/// To so many places, none if none are named.
pub fn round<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    work.step(1)?;
    let places = arguments.first().and_then(Value::as_int).unwrap_or(0).clamp(0, 15);
    match (number(&input), places) {
        (number, 0) => Ok(whole(number, f64::round)),
        (Number::Float(float), places) => {
            let scale = 10f64.powi(i32::try_from(places).unwrap_or_default());
            let rounded = (float * scale).round() / scale;
            // What is too large for the scale has no such places.
            Ok(Value::float(if rounded.is_finite() { rounded } else { float }))
        }
        (int, _) => Ok(int.into()),
    }
}

/// A whole number where one can hold it.
fn whole<'a>(number: Number, round: impl Fn(f64) -> f64) -> Value<'a> {
    const MOST: f64 = 9e15;
    match number {
        Number::Int(int) => Value::Int(int),
        Number::Float(float) => match round(float) {
            rounded if rounded.abs() <= MOST => Value::Int(rounded as i64),
            rounded => Value::float(rounded),
        },
    }
}

/// With a comma between thousands: `1,234,567.8`.
pub fn with_delimiter<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    let text = input.to_text(work)?;
    let digits_at = usize::from(text.starts_with('-'));
    let (sign, rest) = text.split_at(digits_at);
    let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, fraction) = rest.split_at(whole);
    if input.as_number().is_none() || fraction.contains(['e', 'E']) {
        return Ok(input.clone());
    }
    work.make(text.len().saturating_mul(2))?;
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    Ok(Value::made(out))
}
