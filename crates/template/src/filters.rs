//! The filters of templates. Each filter counts its input and output before it works, so that no
//! chain exceeds the limits of a rendering; every filter treats an absent value as empty.

mod encode;
mod hash;
mod list;
mod number;
mod text;
mod time;
mod time_words;

use std::fmt;
use std::ops::RangeInclusive;

use super::Stop;
use super::budget::RenderBudget;
use super::value::Value;

type Apply = for<'a> fn(&mut RenderBudget, Value<'a>, &[Value<'a>]) -> Result<Value<'a>, Stop>;

/// A filter by its name.
pub(super) struct Filter {
    pub name: &'static str,
    /// Allowed number of arguments.
    pub arguments: RangeInclusive<usize>,
    /// The name of the last argument, if it has one.
    pub option: Option<&'static str>,
    pub apply: Apply,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn filter(name: &'static str, arguments: RangeInclusive<usize>, apply: Apply) -> Filter {
    Filter { name, arguments, option: None, apply }
}

/// All filters, sorted by name.
pub(super) const FILTERS: &[Filter] = &[
    filter("abs", 0..=0, number::abs),
    filter("append", 1..=1, text::append),
    filter("as_json_string", 0..=0, encode::as_json_string),
    filter("at_least", 1..=1, number::at_least),
    filter("at_most", 1..=1, number::at_most),
    filter("base64_decode", 0..=0, encode::base64_decode),
    filter("base64_encode", 0..=0, encode::base64_encode),
    filter("base64_url_safe_decode", 0..=0, encode::base64_url_safe_decode),
    filter("base64_url_safe_encode", 0..=0, encode::base64_url_safe_encode),
    filter("capitalize", 0..=0, text::capitalize),
    filter("ceil", 0..=0, number::ceil),
    filter("compact", 0..=1, list::compact),
    filter("concat", 1..=1, list::concat),
    filter("date", 1..=1, time::date),
    Filter { name: "default", arguments: 0..=2, option: Some("allow_false"), apply: list::default },
    filter("divided_by", 1..=1, number::divided_by),
    filter("downcase", 0..=0, text::downcase),
    filter("escape", 0..=0, encode::escape),
    filter("escape_once", 0..=0, encode::escape_once),
    filter("find", 1..=2, list::find),
    filter("find_index", 1..=2, list::find_index),
    filter("first", 0..=0, list::first),
    filter("floor", 0..=0, number::floor),
    filter("has", 1..=2, list::has),
    filter("hmac_sha1_base64", 1..=1, hash::hmac_sha1_base64),
    filter("hmac_sha1_hex", 1..=1, hash::hmac_sha1_hex),
    filter("hmac_sha256_base64", 1..=1, hash::hmac_sha256_base64),
    filter("hmac_sha256_hex", 1..=1, hash::hmac_sha256_hex),
    filter("join", 0..=1, list::join),
    filter("json_escape", 0..=0, encode::json_escape),
    filter("json_parse", 0..=0, encode::json_parse),
    filter("last", 0..=0, list::last),
    filter("lstrip", 0..=0, text::lstrip),
    filter("map", 1..=1, list::map),
    filter("md5", 0..=0, hash::md5),
    filter("minus", 1..=1, number::minus),
    filter("modulo", 1..=1, number::modulo),
    filter("money", 0..=0, number::money),
    filter("newline_to_br", 0..=0, text::newline_to_br),
    filter("number_with_delimiter", 0..=0, number::with_delimiter),
    filter("plus", 1..=1, number::plus),
    filter("prepend", 1..=1, text::prepend),
    filter("property_accessor", 1..=1, list::property_accessor),
    filter("reject", 1..=2, list::reject),
    filter("remove", 1..=1, text::remove),
    filter("remove_first", 1..=1, text::remove_first),
    filter("remove_last", 1..=1, text::remove_last),
    filter("replace", 1..=2, text::replace),
    filter("replace_first", 1..=2, text::replace_first),
    filter("replace_last", 2..=2, text::replace_last),
    filter("reverse", 0..=0, list::reverse),
    filter("round", 0..=1, number::round),
    filter("rstrip", 0..=0, text::rstrip),
    filter("sha1", 0..=0, hash::sha1),
    filter("sha2", 0..=0, hash::sha2),
    filter("size", 0..=0, list::size),
    filter("slice", 1..=2, list::slice),
    filter("sort", 0..=1, list::sort),
    filter("sort_natural", 0..=1, list::sort_natural),
    filter("sort_numeric", 0..=1, list::sort_numeric),
    filter("split", 1..=1, text::split),
    filter("squish", 0..=0, text::squish),
    filter("strip", 0..=0, text::strip),
    filter("strip_html", 0..=0, encode::strip_html),
    filter("strip_newlines", 0..=0, text::strip_newlines),
    filter("sum", 0..=1, list::sum),
    filter("time_zone", 1..=1, time::time_zone),
    filter("times", 1..=1, number::times),
    filter("truncate", 0..=2, text::truncate),
    filter("truncatewords", 0..=2, text::truncatewords),
    filter("uniq", 0..=1, list::uniq),
    filter("upcase", 0..=0, text::upcase),
    filter("url_decode", 0..=0, encode::url_decode),
    filter("url_encode", 0..=0, encode::url_encode),
    filter("url_escape", 0..=0, encode::url_escape),
    filter("url_param_escape", 0..=0, encode::url_param_escape),
    filter("where", 1..=2, list::select),
];

pub(super) fn by_name(name: &str) -> Option<&'static Filter> {
    FILTERS.binary_search_by_key(&name, |filter| filter.name).ok().map(|at| &FILTERS[at])
}

/// Applies a function to the text; the output has at most `growth` times its bytes.
fn changed<'a>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    growth: usize,
    change: impl FnOnce(&str) -> String,
) -> Result<Value<'a>, Stop> {
    let text = input.to_text(budget)?;
    budget.make(text.len().saturating_mul(growth))?;
    Ok(Value::from_text(change(&text)))
}

/// A part of the text. If the text is in the profile, the part is a view of it.
fn part<'a>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    cut: impl Fn(&str) -> &str,
) -> Result<Value<'a>, Stop> {
    if let Value::Text(text) = input {
        budget.read(text.len())?;
        return Ok(Value::Text(cut(text)));
    }
    let text = input.to_text(budget)?;
    budget.make(text.len())?;
    Ok(Value::from_text(cut(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_found_by_name() {
        assert!(FILTERS.is_sorted_by_key(|filter| filter.name));
        assert!(FILTERS.iter().all(|filter| by_name(filter.name).is_some()));
        assert!(by_name("pluralize").is_none());
    }
}
