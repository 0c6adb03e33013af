//! Filters of arrays, and of any value. A single value is an array of itself, nil one of nothing.

use std::collections::HashSet;
use std::rc::Rc;

use super::super::Stop;
use super::super::value::{Number, Value};
use super::super::work::Work;
use super::{number, part};

type Made<'a> = Result<Value<'a>, Stop>;

/// The elements; an object is one.
fn elements<'a>(work: &mut Work, input: &Value<'a>) -> Result<Rc<[Value<'a>]>, Stop> {
    match input {
        Value::Object(_) => Ok([input.clone()].into()),
        other => other.elements(work),
    }
}

/// Each element's member of that name, or the element where none is named.
fn keys<'a>(
    work: &mut Work,
    elements: &[Value<'a>],
    name: Option<&Value<'a>>,
) -> Result<Vec<Value<'a>>, Stop> {
    work.hold(elements.len())?;
    let Some(name) = name.filter(|name| !name.is_nil()) else { return Ok(elements.to_vec()) };
    let name = name.to_text(work)?.into_owned();
    elements.iter().map(|element| element.member(&name, work)).collect()
}

pub fn map<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    keys(work, &elements, Some(&arguments[0])).map(|keys| Value::Array(keys.into()))
}

pub fn compact<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let keys = keys(work, &elements, arguments.first())?;
    Ok(kept(&elements, keys.iter().map(|key| !key.is_nil())))
}

fn kept<'a>(elements: &[Value<'a>], keeps: impl Iterator<Item = bool>) -> Value<'a> {
    let kept = elements.iter().zip(keeps).filter(|(_, keeps)| *keeps);
    Value::Array(kept.map(|(element, _)| element.clone()).collect())
}

/// Those with a member of that value, or one that is true.
pub fn select<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let keys = keys(work, &elements, Some(&arguments[0]))?;
    let mut keeps = Vec::with_capacity(keys.len());
    for key in &keys {
        keeps.push(match arguments.get(1) {
            Some(value) => key.equals(value, work)?,
            None => key.is_true(),
        });
    }
    Ok(kept(&elements, keeps.into_iter()))
}

pub fn concat<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let (one, two) = (elements(work, &input)?, elements(work, &arguments[0])?);
    work.hold(one.len() + two.len())?;
    Ok(Value::Array([&one[..], &two[..]].concat().into()))
}

pub fn reverse<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    work.hold(elements.len())?;
    Ok(Value::Array(elements.iter().rev().cloned().collect()))
}

/// Numbers, then texts, then the rest, then nil; equals stay in their order.
pub fn sort<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let keys = keys(work, &elements, arguments.first())?;
    sorted(work, &elements, keys)
}

/// Without regard to upper and lower case.
pub fn sort_natural<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let mut keys = keys(work, &elements, arguments.first())?;
    for key in &mut keys {
        if let Some(text) = key.as_text() {
            work.make(text.len().saturating_mul(3))?;
            *key = Value::made(text.to_lowercase());
        }
    }
    sorted(work, &elements, keys)
}

fn sorted<'a>(work: &mut Work, elements: &[Value<'a>], keys: Vec<Value<'a>>) -> Made<'a> {
    // Each is compared with as many others as the count has bits.
    let bytes = keys.iter().map(|key| 64 + key.as_text().map_or(0, str::len));
    let bytes = bytes.fold(0, usize::saturating_add);
    let comparisons = usize::BITS - keys.len().leading_zeros();
    work.read(bytes.saturating_mul(comparisons as usize))?;
    let mut pairs: Vec<(Value<'a>, &Value<'a>)> = keys.into_iter().zip(elements).collect();
    pairs.sort_by(|one, two| one.0.sort(&two.0));
    Ok(Value::Array(pairs.into_iter().map(|(_, element)| element.clone()).collect()))
}

pub fn uniq<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let keys = keys(work, &elements, arguments.first())?;
    let mut seen = HashSet::new();
    let mut keeps = Vec::with_capacity(keys.len());
    for key in &keys {
        keeps.push(seen.insert(key.to_json(work)?));
    }
    Ok(kept(&elements, keeps.into_iter()))
}

pub fn sum<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let elements = elements(work, &input)?;
    let keys = keys(work, &elements, arguments.first())?;
    let mut sum = Value::from(Number::Int(0));
    for key in keys {
        sum = number::plus(work, sum, &[key])?;
    }
    Ok(sum)
}

pub fn join<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let between = match arguments.first() {
        Some(between) => between.to_text(work)?,
        None => " ".into(),
    };
    let mut out = String::new();
    for (i, element) in elements(work, &input)?.iter().enumerate() {
        let element = element.to_text(work)?;
        work.make(between.len() + element.len())?;
        out.push_str(if i == 0 { "" } else { &between });
        out.push_str(&element);
    }
    Ok(Value::made(out))
}

pub fn first<'a>(_: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    Ok(input.at(0))
}

pub fn last<'a>(_: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    Ok(input.at(-1))
}

pub fn size<'a>(work: &mut Work, input: Value<'a>, _: &[Value<'a>]) -> Made<'a> {
    Ok(Value::count(input.size(work)?.unwrap_or(0)))
}

/// So many characters or elements, one if it is not said, from a place that is counted from the
/// end where it is negative.
pub fn slice<'a>(work: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let from = arguments[0].as_int().unwrap_or(0);
    let count = arguments.get(1).map_or(Some(1), Value::as_int).unwrap_or(0).max(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let begin = |size: usize| {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let from = if from < 0 { from.saturating_add(size) } else { from };
        usize::try_from(from).ok().filter(|from| *from as i64 <= size)
    };
    if matches!(input, Value::List(_) | Value::Array(_) | Value::Range(..)) {
        let elements = elements(work, &input)?;
        let Some(begin) = begin(elements.len()) else { return Ok(Value::Array([].into())) };
        let end = begin.saturating_add(count).min(elements.len());
        work.hold(end - begin)?;
        return Ok(Value::Array(elements[begin..end].into()));
    }
    part(work, &input, |text| {
        let Some(begin) = begin(text.chars().count()) else { return "" };
        let at = |count: usize, text: &str| {
            text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
        };
        let rest = &text[at(begin, text)..];
        &rest[..at(count, rest)]
    })
}

/// The argument where there is nothing: nil, false, or what is empty.
pub fn default<'a>(_: &mut Work, input: Value<'a>, arguments: &[Value<'a>]) -> Made<'a> {
    let allows_false = arguments.get(1).is_some_and(Value::is_true);
    let is_absent = match &input {
        Value::Nil => true,
        Value::Bool(false) => !allows_false,
        other => other.is_empty(),
    };
    Ok(if is_absent { arguments[0].clone() } else { input })
}
