//! Filters of strings.

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::value::Value;
use super::{changed, part};

type FilterResult<'a> = Result<Value<'a>, Stop>;

pub fn append<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    joined(budget, &input, &arguments[0])
}

pub fn prepend<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    joined(budget, &arguments[0], &input)
}

fn joined<'a>(budget: &mut RenderBudget, head: &Value<'a>, tail: &Value<'a>) -> FilterResult<'a> {
    let (head, tail) = (head.to_text(budget)?, tail.to_text(budget)?);
    budget.make(head.len() + tail.len())?;
    Ok(Value::from_text([head, tail].concat()))
}

pub fn capitalize<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, |text| {
        let mut chars = text.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars.flat_map(char::to_lowercase)).collect()
    })
}

pub fn downcase<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, str::to_lowercase)
}

pub fn upcase<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, str::to_uppercase)
}

pub fn strip<'a>(budget: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    part(budget, &input, str::trim)
}

pub fn lstrip<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    part(budget, &input, str::trim_start)
}

pub fn rstrip<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    part(budget, &input, str::trim_end)
}

pub fn strip_newlines<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 1, |text| text.replace("\r\n", "").replace('\n', ""))
}

/// Removes white space at both ends, and replaces each inner run of white space by one space.
pub fn squish<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 1, |text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub fn newline_to_br<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 7, |text| text.replace("\r\n", "\n").replace('\n', "<br />\n"))
}

/// The occurrences that a filter changes.
#[derive(Clone, Copy)]
enum Occurrences {
    All,
    First,
    Last,
}

pub fn replace<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], second(arguments), Occurrences::All)
}

pub fn replace_first<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], second(arguments), Occurrences::First)
}

pub fn replace_last<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], &arguments[1], Occurrences::Last)
}

pub fn remove<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], &Value::Nil, Occurrences::All)
}

pub fn remove_first<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], &Value::Nil, Occurrences::First)
}

pub fn remove_last<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(budget, &input, &arguments[0], &Value::Nil, Occurrences::Last)
}

fn second<'v, 'a>(arguments: &'v [Value<'a>]) -> &'v Value<'a> {
    arguments.get(1).unwrap_or(&Value::Nil)
}

/// The text of a value; nil stays nil.
fn unchanged<'a>(budget: &mut RenderBudget, input: &Value<'a>) -> FilterResult<'a> {
    match input {
        Value::Nil => Ok(Value::Nil),
        input if input.as_text().is_some() => Ok(input.clone()),
        input => part(budget, input, |text| text),
    }
}

/// An empty string occurs between all characters.
fn replaced<'a>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    from: &Value<'a>,
    to: &Value<'a>,
    occurrences: Occurrences,
) -> FilterResult<'a> {
    let (text, from, to) = (input.to_text(budget)?, from.to_text(budget)?, to.to_text(budget)?);
    budget.read(text.len())?;
    let count = match occurrences {
        Occurrences::All => text.matches(&*from).count(),
        Occurrences::First | Occurrences::Last => usize::from(text.contains(&*from)),
    };
    if count == 0 {
        return unchanged(budget, input);
    }
    budget.make(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(Value::from_text(match occurrences {
        Occurrences::All => text.replace(&*from, &to),
        Occurrences::First => text.replacen(&*from, &to, 1),
        Occurrences::Last => match text.rfind(&*from) {
            Some(at) => [&text[..at], &to, &text[at + from.len()..]].concat(),
            None => return unchanged(budget, input),
        },
    }))
}

/// An empty separator splits into characters, and a space into words. Empty strings at the end are
/// dropped.
pub fn split<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let by = arguments[0].to_text(budget)?;
    if let Value::Text(text) = input {
        budget.hold(pieces(text, &by).count())?;
        return Ok(array(pieces(text, &by).map(Value::Text)));
    }
    let text = input.to_text(budget)?;
    budget.make(text.len())?;
    budget.hold(pieces(&text, &by).count())?;
    Ok(array(pieces(&text, &by).map(Value::from_text)))
}

fn pieces<'t>(text: &'t str, by: &str) -> Box<dyn Iterator<Item = &'t str> + 't> {
    match by {
        _ if text.is_empty() => Box::new(std::iter::empty()),
        "" => Box::new(text.split_inclusive(|_: char| true)),
        " " => Box::new(text.split_whitespace()),
        by => {
            let by = by.to_owned();
            let mut end = text.len();
            while text[..end].ends_with(&by) {
                end -= by.len();
            }
            let mut rest = (end > 0).then_some(&text[..end]);
            Box::new(std::iter::from_fn(move || {
                let text = rest.take()?;
                let Some((piece, after)) = text.split_once(&by) else { return Some(text) };
                rest = Some(after);
                Some(piece)
            }))
        }
    }
}

fn array<'a>(values: impl Iterator<Item = Value<'a>>) -> Value<'a> {
    Value::Array(values.collect())
}

/// Truncates to a number of characters, including the ellipsis.
pub fn truncate<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let length = at_most(arguments.first(), 50);
    let end = ellipsis(budget, arguments)?;
    let text = input.to_text(budget)?;
    budget.read(text.len())?;
    if text.chars().nth(length).is_none() {
        return unchanged(budget, &input);
    }
    let kept_chars = length.saturating_sub(end.chars().count());
    let kept = text.char_indices().nth(kept_chars).map_or(text.len(), |(at, _)| at);
    budget.make(kept + end.len())?;
    Ok(Value::from_text([&text[..kept], &end].concat()))
}

/// Truncates to a number of words.
pub fn truncatewords<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let length = at_most(arguments.first(), 15).max(1);
    let end = ellipsis(budget, arguments)?;
    let text = input.to_text(budget)?;
    budget.read(text.len())?;
    if text.split_whitespace().nth(length).is_none() {
        return unchanged(budget, &input);
    }
    budget.make(text.len() + end.len())?;
    let mut short = String::new();
    for (i, word) in text.split_whitespace().take(length).enumerate() {
        short.push_str(if i == 0 { "" } else { " " });
        short.push_str(word);
    }
    short.push_str(&end);
    Ok(Value::from_text(short))
}

fn at_most(argument: Option<&Value<'_>>, default: usize) -> usize {
    let length = argument.and_then(Value::as_int).map(|length| length.max(0));
    length.map_or(default, |length| usize::try_from(length).unwrap_or(usize::MAX))
}

fn ellipsis(budget: &mut RenderBudget, arguments: &[Value<'_>]) -> Result<String, Stop> {
    match arguments.get(1) {
        Some(end) => {
            let end = end.to_text(budget)?;
            budget.make(end.len())?;
            Ok(end.into_owned())
        }
        None => Ok("...".to_owned()),
    }
}
