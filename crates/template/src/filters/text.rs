//! Filters of strings.

use super::super::Stop;
use super::super::value::Value;
use super::super::work::RenderBudget;
use super::{changed, part};

type FilterResult<'a> = Result<Value<'a>, Stop>;

pub fn append<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    joined(work, &input, &arguments[0])
}

pub fn prepend<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    joined(work, &arguments[0], &input)
}

fn joined<'a>(work: &mut RenderBudget, head: &Value<'a>, tail: &Value<'a>) -> FilterResult<'a> {
    let (head, tail) = (head.to_text(work)?, tail.to_text(work)?);
    work.make(head.len() + tail.len())?;
    Ok(Value::made([head, tail].concat()))
}

pub fn capitalize<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(work, &input, 3, |text| {
        let mut chars = text.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars.flat_map(char::to_lowercase)).collect()
    })
}

pub fn downcase<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(work, &input, 3, str::to_lowercase)
}

pub fn upcase<'a>(work: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    changed(work, &input, 3, str::to_uppercase)
}

pub fn strip<'a>(work: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    part(work, &input, str::trim)
}

pub fn lstrip<'a>(work: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    part(work, &input, str::trim_start)
}

pub fn rstrip<'a>(work: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    part(work, &input, str::trim_end)
}

pub fn strip_newlines<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(work, &input, 1, |text| text.replace("\r\n", "").replace('\n', ""))
}

/// Removes white space at both ends, and replaces each inner run of white space by one space.
pub fn squish<'a>(work: &mut RenderBudget, input: Value<'a>, _: &[Value<'a>]) -> FilterResult<'a> {
    changed(work, &input, 1, |text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub fn newline_to_br<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(work, &input, 7, |text| text.replace("\r\n", "\n").replace('\n', "<br />\n"))
}

/// The occurrences that a filter changes.
#[derive(Clone, Copy)]
enum Places {
    All,
    First,
    Last,
}

pub fn replace<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], second(arguments), Places::All)
}

pub fn replace_first<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], second(arguments), Places::First)
}

pub fn replace_last<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], &arguments[1], Places::Last)
}

pub fn remove<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], &Value::Nil, Places::All)
}

pub fn remove_first<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], &Value::Nil, Places::First)
}

pub fn remove_last<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    replaced(work, &input, &arguments[0], &Value::Nil, Places::Last)
}

fn second<'v, 'a>(arguments: &'v [Value<'a>]) -> &'v Value<'a> {
    arguments.get(1).unwrap_or(&Value::Nil)
}

/// The text of a value; nil stays nil.
fn unchanged<'a>(work: &mut RenderBudget, input: &Value<'a>) -> FilterResult<'a> {
    match input {
        Value::Nil => Ok(Value::Nil),
        input if input.as_text().is_some() => Ok(input.clone()),
        input => part(work, input, |text| text),
    }
}

/// An empty string occurs between all characters.
fn replaced<'a>(
    work: &mut RenderBudget,
    input: &Value<'a>,
    from: &Value<'a>,
    to: &Value<'a>,
    places: Places,
) -> FilterResult<'a> {
    let (text, from, to) = (input.to_text(work)?, from.to_text(work)?, to.to_text(work)?);
    work.read(text.len())?;
    let count = match places {
        Places::All => text.matches(&*from).count(),
        Places::First | Places::Last => usize::from(text.contains(&*from)),
    };
    if count == 0 {
        return unchanged(work, input);
    }
    work.make(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(Value::made(match places {
        Places::All => text.replace(&*from, &to),
        Places::First => text.replacen(&*from, &to, 1),
        Places::Last => match text.rfind(&*from) {
            Some(at) => [&text[..at], &to, &text[at + from.len()..]].concat(),
            None => return unchanged(work, input),
        },
    }))
}

/// An empty separator splits into characters, and a space into words. Empty strings at the end are
/// dropped.
pub fn split<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let by = arguments[0].to_text(work)?;
    if let Value::Text(text) = input {
        work.hold(pieces(text, &by).count())?;
        return Ok(array(pieces(text, &by).map(Value::Text)));
    }
    let text = input.to_text(work)?;
    work.make(text.len())?;
    work.hold(pieces(&text, &by).count())?;
    Ok(array(pieces(&text, &by).map(Value::made)))
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
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let length = at_most(arguments.first(), 50);
    let end = ellipsis(work, arguments)?;
    let text = input.to_text(work)?;
    work.read(text.len())?;
    if text.chars().nth(length).is_none() {
        return unchanged(work, &input);
    }
    let kept = length.saturating_sub(end.chars().count());
    let kept = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    work.make(kept + end.len())?;
    Ok(Value::made([&text[..kept], &end].concat()))
}

/// Truncates to a number of words.
pub fn truncatewords<'a>(
    work: &mut RenderBudget,
    input: Value<'a>,
    arguments: &[Value<'a>],
) -> FilterResult<'a> {
    let length = at_most(arguments.first(), 15).max(1);
    let end = ellipsis(work, arguments)?;
    let text = input.to_text(work)?;
    work.read(text.len())?;
    if text.split_whitespace().nth(length).is_none() {
        return unchanged(work, &input);
    }
    work.make(text.len() + end.len())?;
    let mut short = String::new();
    for (i, word) in text.split_whitespace().take(length).enumerate() {
        short.push_str(if i == 0 { "" } else { " " });
        short.push_str(word);
    }
    short.push_str(&end);
    Ok(Value::made(short))
}

fn at_most(argument: Option<&Value<'_>>, default: usize) -> usize {
    let length = argument.and_then(Value::as_int).map(|length| length.max(0));
    length.map_or(default, |length| usize::try_from(length).unwrap_or(usize::MAX))
}

fn ellipsis(work: &mut RenderBudget, arguments: &[Value<'_>]) -> Result<String, Stop> {
    match arguments.get(1) {
        Some(end) => {
            let end = end.to_text(work)?;
            work.make(end.len())?;
            Ok(end.into_owned())
        }
        None => Ok("...".to_owned()),
    }
}
