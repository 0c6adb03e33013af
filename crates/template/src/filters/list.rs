//! Filters of arrays, and of any value. A single value counts as an array with one element, and nil
//! as an empty array. Nested arrays are flattened.

use std::collections::HashSet;
use std::rc::Rc;

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::value::{Number, Value};
use super::{number, part};

type FilterResult<'a> = Result<Value<'a>, Stop>;

/// The elements; an object counts as one.
fn elements<'a>(budget: &mut RenderBudget, input: &Value<'a>) -> Result<Rc<[Value<'a>]>, Stop> {
    let elements = match input {
        Value::Object(_) | Value::Members(_) => return Ok([input.clone()].into()),
        other => other.elements(budget)?,
    };
    let is_array = |value: &Value<'_>| matches!(value, Value::List(_) | Value::Array(_));
    if !elements.iter().any(is_array) {
        return Ok(elements);
    }
    let mut flat = Vec::new();
    for element in elements.iter() {
        if is_array(element) {
            flat.extend(self::elements(budget, element)?.iter().cloned());
        } else {
            flat.push(element.clone());
        }
    }
    budget.hold(flat.len())?;
    Ok(flat.into())
}

/// The property of an element: a field of an object, or, for a string, the name itself if it
/// contains it. Other values have no properties.
fn property<'a>(
    budget: &mut RenderBudget,
    element: &Value<'a>,
    name: &Value<'a>,
) -> Result<Option<Value<'a>>, Stop> {
    Ok(match (element, name.as_text()) {
        (Value::Object(_) | Value::Members(_), name) => match name {
            Some(name) => Some(element.own_member(name, budget)?.unwrap_or(Value::Nil)),
            None => Some(Value::Nil),
        },
        (Value::Nil | Value::Bool(_), _) => None,
        (text, None) if text.as_text().is_some() => None,
        // As in the reference implementation: one bit of the number.
        (Value::Int(int), None) => Some(match name {
            Value::Int(bit @ 0..=63) => Value::Int((int >> bit) & 1),
            _ => Value::Nil,
        }),
        (text, Some(name)) if text.as_text().is_some() => {
            Some(if text.contains(&Value::OwnedText(name.into()), budget)? {
                Value::from_text(name)
            } else {
                Value::Nil
            })
        }
        _ => Some(Value::Nil),
    })
}

/// Each element's property with that name, or the element itself without a name; none if an element
/// has no properties.
fn keys<'a>(
    budget: &mut RenderBudget,
    elements: &[Value<'a>],
    name: Option<&Value<'a>>,
) -> Result<Option<Vec<Value<'a>>>, Stop> {
    budget.hold(elements.len())?;
    let Some(name) = name.filter(|name| !name.is_nil()) else { return Ok(Some(elements.to_vec())) };
    elements.iter().map(|element| property(budget, element, name)).collect()
}

pub fn map<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    budget.hold(elements.len())?;
    let property = |element| Ok(property(budget, element, &arguments[0])?.unwrap_or(Value::Nil));
    let keys: Result<Rc<[Value<'a>]>, Stop> = elements.iter().map(property).collect();
    keys.map(Value::Array)
}

pub fn compact<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let Some(keys) = keys(budget, &elements, arguments.first())? else { return Ok(Value::Nil) };
    Ok(filtered(&elements, keys.iter().map(|key| !key.is_nil())))
}

fn filtered<'a>(elements: &[Value<'a>], keeps: impl Iterator<Item = bool>) -> Value<'a> {
    let matching = elements.iter().zip(keeps).filter(|(_, keeps)| *keeps);
    Value::Array(matching.map(|(element, _)| element.clone()).collect())
}

/// Elements, and whether each one matches: its property has the given value, or is true if no value
/// is given.
struct Matches<'a> {
    elements: Rc<[Value<'a>]>,
    /// None if an element has no properties.
    hits: Option<Vec<bool>>,
}

impl<'a> Matches<'a> {
    /// Stops at the first match if `ends` is set.
    fn find(
        budget: &mut RenderBudget,
        input: &Value<'a>,
        arguments: &[Value<'a>],
        ends: bool,
    ) -> Result<Self, Stop> {
        let elements = elements(budget, input)?;
        let mut hits = Vec::with_capacity(elements.len());
        for element in elements.iter() {
            let Some(key) = property(budget, element, &arguments[0])? else {
                return Ok(Self { elements, hits: None });
            };
            let hit = match arguments.get(1).filter(|value| !value.is_nil()) {
                Some(value) => key.equals(value, budget)?,
                None => key.is_true(),
            };
            hits.push(hit);
            if hit && ends {
                break;
            }
        }
        Ok(Self { elements, hits: Some(hits) })
    }

    /// The position of the first match, and whether every element has properties.
    fn first(&self) -> (Option<usize>, bool) {
        let first = self.hits.as_ref().and_then(|hits| hits.iter().position(|hit| *hit));
        (first, self.hits.is_some())
    }
}

/// `where`
pub fn select<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let matches = Matches::find(budget, &input, arguments, false)?;
    let hits = matches.hits.map(Vec::into_iter);
    Ok(hits.map_or(Value::Nil, |hits| filtered(&matches.elements, hits)))
}

pub fn reject<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let matches = Matches::find(budget, &input, arguments, false)?;
    let hits = matches.hits.map(Vec::into_iter);
    Ok(hits.map_or(Value::Nil, |hits| filtered(&matches.elements, hits.map(|hit| !hit))))
}

pub fn has<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let (first, is_known) = Matches::find(budget, &input, arguments, true)?.first();
    Ok(if is_known { Value::Bool(first.is_some()) } else { Value::Nil })
}

pub fn find<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let matches = Matches::find(budget, &input, arguments, true)?;
    let (first, _) = matches.first();
    Ok(first.map_or(Value::Nil, |index| matches.elements[index].clone()))
}

pub fn find_index<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let (first, _) = Matches::find(budget, &input, arguments, true)?.first();
    Ok(first.map_or(Value::Nil, Value::count))
}

pub fn concat<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let (first, second) = (elements(budget, &input)?, elements(budget, &arguments[0])?);
    budget.hold(first.len() + second.len())?;
    Ok(Value::Array([&first[..], &second[..]].concat().into()))
}

pub fn reverse<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    budget.hold(elements.len())?;
    Ok(Value::Array(elements.iter().rev().cloned().collect()))
}

/// Sorts numbers first, then strings, then the rest, then nil; the sort is stable.
pub fn sort<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let Some(keys) = keys(budget, &elements, arguments.first())? else { return Ok(Value::Nil) };
    sorted(budget, &elements, keys)
}

/// Sorts as strings, ignoring case.
pub fn sort_natural<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let Some(mut keys) = keys(budget, &elements, arguments.first())? else { return Ok(Value::Nil) };
    for key in keys.iter_mut().filter(|key| !key.is_nil()) {
        let text = key.to_text(budget)?;
        budget.make(text.len().saturating_mul(3))?;
        *key = Value::from_text(text.to_lowercase());
    }
    sorted(budget, &elements, keys)
}

/// Sorts by the whole numbers in the elements: `v2` comes before `v10`, and elements without a
/// number come last.
pub fn sort_numeric<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let Some(keys) = keys(budget, &elements, arguments.first())? else { return Ok(Value::Nil) };
    let mut pairs = Vec::with_capacity(keys.len());
    for (key, element) in keys.iter().zip(elements.iter()) {
        let numbers = numbers_in(budget, key)?;
        budget.hold(numbers.len())?;
        pairs.push((numbers, element));
    }
    pay_for_sorting(budget, pairs.iter().map(|(numbers, _)| numbers.len() * 8))?;
    pairs.sort_by(|(left, _), (right, _)| {
        let order = left.partial_cmp(right).unwrap_or(std::cmp::Ordering::Equal);
        left.is_empty().cmp(&right.is_empty()).then(order)
    });
    Ok(Value::Array(pairs.into_iter().map(|(_, element)| element.clone()).collect()))
}

fn numbers_in(budget: &mut RenderBudget, value: &Value<'_>) -> Result<Vec<f64>, Stop> {
    if let Value::Int(_) | Value::Float(_) | Value::Exact(_) = value {
        return Ok(value.as_number().map(Number::as_float).into_iter().collect());
    }
    let text = value.to_text(budget)?;
    budget.make(text.len().saturating_mul(8))?;
    let bytes = text.as_bytes();
    let (mut numbers, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let begin = at - usize::from(at > 0 && bytes[at - 1] == b'-');
            numbers.extend(text[begin..at + digits].parse::<f64>());
        }
        at += digits.max(1);
    }
    Ok(numbers)
}

fn sorted<'a>(
    budget: &mut RenderBudget,
    elements: &[Value<'a>],
    keys: Vec<Value<'a>>,
) -> FilterResult<'a> {
    pay_for_sorting(budget, keys.iter().map(|key| key.as_text().map_or(0, str::len)))?;
    let mut pairs: Vec<(Value<'a>, &Value<'a>)> = keys.into_iter().zip(elements).collect();
    pairs.sort_by(|(left, _), (right, _)| left.sort(right));
    Ok(Value::Array(pairs.into_iter().map(|(_, element)| element.clone()).collect()))
}

/// Each of so many bytes is compared with as many others as the count has bits.
fn pay_for_sorting(
    budget: &mut RenderBudget,
    keys: impl ExactSizeIterator<Item = usize>,
) -> Result<(), Stop> {
    let comparisons = usize::BITS - keys.len().leading_zeros();
    let bytes = keys.fold(0_usize, |sum, bytes| sum.saturating_add(64 + bytes));
    budget.read(bytes.saturating_mul(comparisons as usize))
}

pub fn uniq<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let Some(keys) = keys(budget, &elements, arguments.first())? else { return Ok(Value::Nil) };
    let mut seen = HashSet::new();
    let mut keeps = Vec::with_capacity(keys.len());
    for key in &keys {
        keeps.push(seen.insert(key.to_json(budget)?));
    }
    Ok(filtered(&elements, keeps.into_iter()))
}

pub fn sum<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let elements = elements(budget, &input)?;
    let name = arguments.first().filter(|name| !name.is_nil());
    let mut sum = Value::from(Number::Int(0));
    for element in elements.iter() {
        let key = match name {
            Some(name) => property(budget, element, name)?.unwrap_or(Value::Nil),
            None => element.clone(),
        };
        sum = number::plus(budget, sum, &[key])?;
    }
    Ok(sum)
}

pub fn join<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let between = match arguments.first() {
        Some(between) => between.to_text(budget)?,
        None => " ".into(),
    };
    let mut out = String::new();
    for (i, element) in elements(budget, &input)?.iter().enumerate() {
        let element = element.to_text(budget)?;
        budget.make(between.len() + element.len())?;
        out.push_str(if i == 0 { "" } else { &between });
        out.push_str(&element);
    }
    Ok(Value::from_text(out))
}

pub fn first<'a>(_: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    Ok(input.end(true))
}

pub fn last<'a>(_: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    Ok(input.end(false))
}

pub fn size<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    Ok(Value::count(input.size(budget)?.unwrap_or(0)))
}

/// Returns a number of characters or elements, one by default, from a position that counts from the
/// end if it is negative.
pub fn slice<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let from = arguments[0].as_int().unwrap_or(0);
    let count = arguments.get(1).filter(|count| !count.is_nil());
    let count = count.map_or(Some(1), Value::as_int).unwrap_or(0).max(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let begin = |size: usize| {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let from = if from < 0 { from.saturating_add(size) } else { from };
        usize::try_from(from).ok().filter(|from| *from as i64 <= size)
    };
    if matches!(input, Value::List(_) | Value::Array(_) | Value::Range(..)) {
        let elements = elements(budget, &input)?;
        let Some(begin) = begin(elements.len()) else { return Ok(Value::Array([].into())) };
        let end = begin.saturating_add(count).min(elements.len());
        budget.hold(end - begin)?;
        return Ok(Value::Array(elements[begin..end].into()));
    }
    part(budget, &input, |text| {
        let Some(begin) = begin(text.chars().count()) else { return "" };
        let at = |count: usize, text: &str| {
            text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
        };
        let rest = &text[at(begin, text)..];
        &rest[..at(count, rest)]
    })
}

/// Returns the argument for nil, false and empty values.
pub fn default<'a>(
    _: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let allows_false = arguments.get(1).is_some_and(Value::is_true);
    let is_absent = match &input {
        Value::Nil => true,
        Value::Bool(false) => !allows_false,
        other => other.is_empty(),
    };
    Ok(if is_absent { arguments.first().cloned().unwrap_or(Value::Nil) } else { input })
}

/// The field of an object with that name.
pub fn property_accessor<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let name = arguments[0].to_text(budget)?;
    Ok(input.own_member(&name, budget)?.unwrap_or(Value::Nil))
}
