//! Filters of numbers. A string counts as the number that it begins with, or as 0. Decimals are
//! exact: 0.1 plus 0.2 is 0.3. Whole numbers are exact up to 38 digits; larger ones become floating
//! point. An undefined result is nil.

use std::cmp::Ordering;

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::value::{Number, Value};

type FilterResult<'a> = Result<Value<'a>, Stop>;

fn number(value: &Value<'_>) -> Number {
    value.as_number().unwrap_or(Number::Int(0))
}

/// A decimal number: `digits` / 10^`scale`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// None for a number that is too large or too small to be exact.
    fn from_number(number: Number) -> Option<Self> {
        let float = match number {
            Number::Int(int) => return Some(Self { digits: int, scale: 0 }),
            Number::Float(float) => float,
        };
        // Numbers with few decimal places need no conversion to text: each has its own float.
        const PLACES: u32 = 6;
        const UNIT: f64 = 1e6;
        const MAX: f64 = 1e15;
        let digits = (float * UNIT).round();
        if digits.abs() < MAX && digits / UNIT == float {
            return Some(Self { digits: digits as i128, scale: PLACES });
        }
        Self::parse(&format!("{float}"))
    }

    /// Reads digits with or without a point.
    fn parse(text: &str) -> Option<Self> {
        const MAX_LENGTH: usize = 36;
        if text.len() > MAX_LENGTH {
            return None;
        }
        let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = [integer, fraction].concat().parse().ok()?;
        Some(Self { digits, scale: u32::try_from(fraction.len()).ok()? })
    }

    /// Both numbers with the same number of decimal places.
    fn aligned(self, other: Self) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let scaled =
            |number: Self| number.digits.checked_mul(10_i128.checked_pow(scale - number.scale)?);
        Some((scaled(self)?, scaled(other)?, scale))
    }

    fn plus(self, other: Self) -> Option<Self> {
        let (left, right, scale) = self.aligned(other)?;
        Some(Self { digits: left.checked_add(right)?, scale })
    }

    fn times(self, other: Self) -> Option<Self> {
        let digits = self.digits.checked_mul(other.digits)?;
        Some(Self { digits, scale: self.scale.checked_add(other.scale)? })
    }

    /// The quotient, with more decimal places than a floating-point number has.
    fn divided_by(self, other: Self) -> Option<Self> {
        const PLACES: u32 = 20;
        let (left, right, _) = self.aligned(other)?;
        let digits = left.checked_mul(10_i128.pow(PLACES))?.checked_div(right)?;
        let is_exact = digits.unsigned_abs() > 1 << 60 || left == 0;
        is_exact.then_some(Self { digits, scale: PLACES })
    }

    /// The remainder, with the sign of the divisor.
    fn modulo(self, other: Self) -> Option<Self> {
        let (left, right, scale) = self.aligned(other)?;
        let rest = left.checked_rem(right)?;
        let digits = if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest };
        Some(Self { digits, scale })
    }

    /// Rounds to this number of decimal places, halves away from 0.
    fn rounded(self, places: u32) -> Option<Self> {
        let Some(excess) = self.scale.checked_sub(places) else { return Some(self) };
        let unit = 10_i128.checked_pow(excess)?;
        let half = unit / 2 * self.digits.signum();
        let digits = self.digits.checked_add(half)? / unit;
        Some(Self { digits, scale: places })
    }

    fn as_float(self) -> f64 {
        // Both are exact as floats, so that their quotient is the nearest one.
        const MAX_DIGITS: u128 = 1 << 53;
        const MAX_PLACES: u32 = 22;
        let Self { digits, scale } = self;
        if digits.unsigned_abs() <= MAX_DIGITS && scale <= MAX_PLACES {
            return digits as f64 / 10_f64.powi(scale as i32);
        }
        format!("{digits}e-{scale}").parse().unwrap_or_default()
    }
}

fn calculate<'a>(
    budget: &mut RenderBudget,
    left: &Value<'a>,
    right: &Value<'a>,
    ints: impl Fn(i128, i128) -> Option<i128>,
    decimals: impl Fn(Decimal, Decimal) -> Option<Decimal>,
    floats: impl Fn(f64, f64) -> f64,
) -> FilterResult<'a> {
    budget.step(1)?;
    let (left, right) = (number(left), number(right));
    if let (Number::Int(left), Number::Int(right)) = (left, right)
        && let Some(result) = ints(left, right)
    {
        return Ok(Number::Int(result).into());
    }
    let exact = Decimal::from_number(left)
        .zip(Decimal::from_number(right))
        .and_then(|(left, right)| decimals(left, right));
    let float = || floats(left.as_float(), right.as_float());
    Ok(Value::float(exact.map_or_else(float, Decimal::as_float)))
}

pub fn plus<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let floats = |left, right| left + right;
    calculate(budget, &input, &arguments[0], i128::checked_add, Decimal::plus, floats)
}

pub fn minus<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let decimals = |left: Decimal, right: Decimal| {
        left.plus(Decimal { digits: right.digits.checked_neg()?, ..right })
    };
    let floats = |left, right| left - right;
    calculate(budget, &input, &arguments[0], i128::checked_sub, decimals, floats)
}

pub fn times<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let floats = |left, right| left * right;
    calculate(budget, &input, &arguments[0], i128::checked_mul, Decimal::times, floats)
}

/// The quotient of two whole numbers is a whole number, rounded down. Division by zero is nil.
pub fn divided_by<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    if number(&arguments[0]).is_zero() {
        return Ok(Value::Nil);
    }
    let floor = |left: i128, right: i128| {
        let (quotient, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
        let is_above = rest != 0 && (rest < 0) != (right < 0);
        Some(quotient - i128::from(is_above))
    };
    let floats = |left, right| left / right;
    calculate(budget, &input, &arguments[0], floor, Decimal::divided_by, floats)
}

/// The remainder has the sign of the divisor. Division by zero is nil.
pub fn modulo<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    if number(&arguments[0]).is_zero() {
        return Ok(Value::Nil);
    }
    let ints = |left: i128, right: i128| {
        let rest = left.checked_rem(right).unwrap_or(0);
        Some(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
    };
    let floats = |left: f64, right: f64| left - right * (left / right).floor();
    calculate(budget, &input, &arguments[0], ints, Decimal::modulo, floats)
}

pub fn abs<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    budget.step(1)?;
    let number = number(&input);
    let float = Number::Float(number.as_float().abs());
    Ok(match number {
        Number::Int(int) => int.checked_abs().map_or(float, Number::Int),
        Number::Float(_) => float,
    }
    .into())
}

fn compare(left: Number, right: Number) -> Ordering {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => left.cmp(&right),
        (left, right) => left.as_float().partial_cmp(&right.as_float()).unwrap_or(Ordering::Equal),
    }
}

pub fn at_least<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    budget.step(1)?;
    let (value, minimum) = (number(&input), number(&arguments[0]));
    Ok(if compare(minimum, value).is_gt() { minimum } else { value }.into())
}

pub fn at_most<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    budget.step(1)?;
    let (value, maximum) = (number(&input), number(&arguments[0]));
    Ok(if compare(maximum, value).is_lt() { maximum } else { value }.into())
}

pub fn ceil<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    budget.step(1)?;
    Ok(to_integer(number(&input), f64::ceil).into())
}

pub fn floor<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    budget.step(1)?;
    Ok(to_integer(number(&input), f64::floor).into())
}

/// Rounds to this number of decimal places, halves away from 0. A negative number rounds to tens,
/// hundreds and so on.
pub fn round<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    budget.step(1)?;
    let places = arguments.first().and_then(Value::as_int).unwrap_or(0).clamp(-20, 15);
    let number = number(&input);
    if places > 0 {
        let Number::Float(float) = number else { return Ok(number.into()) };
        let rounded =
            Decimal::from_number(number).and_then(|decimal| decimal.rounded(places as u32));
        return Ok(Value::float(rounded.map_or(float, Decimal::as_float)));
    }
    // A lost fraction does not affect the rounding to tens.
    let number = match number {
        Number::Float(float) if places < 0 => to_integer(number, |_| float.trunc()),
        number => to_integer(number, f64::round),
    };
    let Number::Int(int) = number else { return Ok(number.into()) };
    let unit = 10_i128.pow(places.unsigned_abs() as u32);
    let sum = int.checked_add(unit / 2 * int.signum());
    let rounded = sum.map(|sum| Number::Int(sum / unit * unit));
    Ok(rounded.unwrap_or(Number::Float(int as f64)).into())
}

/// A whole number if it fits.
fn to_integer(number: Number, round: impl Fn(f64) -> f64) -> Number {
    const MAX: f64 = 1e38;
    match number {
        Number::Int(_) => number,
        Number::Float(float) => match round(float) {
            rounded if rounded.abs() <= MAX => Number::Int(rounded as i128),
            rounded => Number::Float(rounded),
        },
    }
}

/// Writes a number with a comma between thousands: `1,234,567.8`. Other values stay unchanged.
pub fn with_delimiter<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    let text = input.to_text(budget)?;
    let delimited = delimited(budget, &text)?;
    Ok(delimited.map_or_else(|| input.clone(), Value::from_text))
}

/// Writes a number with two decimal places and a comma between thousands: `1,234.50`. Other values
/// stay unchanged.
pub fn money<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    let text = input.to_text(budget)?;
    if parts(text.trim()).is_none() {
        return Ok(input.clone());
    }
    let exact = Decimal::parse(text.trim()).and_then(|number| number.rounded(2));
    let cents = exact.and_then(|Decimal { digits, scale }| {
        digits.checked_mul(10_i128.pow(2_u32.saturating_sub(scale)))
    });
    let Some(digits) = cents else { return Ok(input.clone()) };
    let sign = if digits < 0 { "-" } else { "" };
    let (integer, cents) = (digits.unsigned_abs() / 100, digits.unsigned_abs() % 100);
    let delimited = delimited(budget, &format!("{sign}{integer}.{cents:02}"))?;
    Ok(delimited.map_or_else(|| input.clone(), Value::from_text))
}

/// The sign, the digits and the rest of a number in its text form.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (sign, rest) = text.split_at(usize::from(text.starts_with('-')));
    let integer = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (integer, fraction) = rest.split_at(integer);
    let is_fraction = match fraction.strip_prefix('.') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => fraction.is_empty(),
    };
    (is_fraction && !integer.is_empty()).then_some((sign, integer, fraction))
}

fn delimited(budget: &mut RenderBudget, text: &str) -> Result<Option<String>, Stop> {
    let Some((sign, integer, fraction)) = parts(text.trim()) else { return Ok(None) };
    budget.make(text.len().saturating_mul(2))?;
    let mut out = String::from(sign);
    for (i, digit) in integer.chars().enumerate() {
        if i > 0 && (integer.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push_str(fraction);
    Ok(Some(out))
}
