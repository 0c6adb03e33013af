//! Filters that encode text for HTML, URLs or JSON.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use kit::json::{Tree, check_readable};

use super::super::Stop;
use super::super::budget::RenderBudget;
use super::super::value::Value;
use super::changed;

type FilterResult<'a> = Result<Value<'a>, Stop>;

fn entity(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        _ => return None,
    })
}

pub fn escape<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    escaped(budget, &input, |_| false)
}

/// Existing entities stay unchanged.
pub fn escape_once<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    escaped(budget, &input, is_entity)
}

fn escaped<'a>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    stays: fn(&str) -> bool,
) -> FilterResult<'a> {
    changed(budget, input, 6, |text| {
        let mut out = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            match entity(c) {
                Some(_) if c == '&' && stays(&text[at..]) => out.push(c),
                Some(entity) => out.push_str(entity),
                None => out.push(c),
            }
        }
        out
    })
}

/// Whether a text begins with an entity, such as `&amp;` or `&#39;`.
fn is_entity(text: &str) -> bool {
    const LONGEST: usize = 32;
    let (name, is_part): (&str, fn(&u8) -> bool) = match text[1..].strip_prefix('#') {
        Some(number) => (number, u8::is_ascii_digit),
        None => (&text[1..], u8::is_ascii_alphabetic),
    };
    let length = name.bytes().take(LONGEST).take_while(is_part).count();
    length > 0 && name[length..].starts_with(';')
}

/// Removes tags, comments, scripts and styles.
pub fn strip_html<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    const WITH_CONTENT: [(&str, &str); 3] =
        [("<script", "</script>"), ("<style", "</style>"), ("<!--", "-->")];
    changed(budget, &input, 2, |text| {
        let lower = text.to_ascii_lowercase();
        let mut out = String::with_capacity(text.len());
        // If an end tag was not found once, it is not searched for again.
        let mut may_close = [true; WITH_CONTENT.len()];
        let mut at = 0;
        while let Some(open) = lower[at..].find('<').map(|open| at + open) {
            out.push_str(&text[at..open]);
            let elements = WITH_CONTENT.iter().zip(&mut may_close);
            let elements = elements.filter(|((begin, _), _)| lower[open..].starts_with(begin));
            let close = elements.filter(|(_, may)| **may).find_map(|((_, end), may)| {
                let close = lower[open..].find(end).map(|offset| open + offset + end.len());
                *may = close.is_some();
                close
            });
            match close.or_else(|| lower[open..].find('>').map(|close| open + close + 1)) {
                Some(close) => at = close,
                None => {
                    at = open;
                    break;
                }
            }
        }
        out.push_str(&text[at..]);
        out
    })
}

/// Encodes for a query: a space becomes a plus, and everything else except letters, digits and
/// `-._~` is escaped.
pub fn url_encode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, |text| percent_encoded(text, b"-._~ ").replace(' ', "+"))
}

/// Encodes for a path or a query: everything except letters, digits and `-._~`.
pub fn url_param_escape<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, |text| percent_encoded(text, b"-._~"))
}

/// Encodes a whole URL: reserved characters stay unchanged.
pub fn url_escape<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 3, |text| percent_encoded(text, b"-._~:/?#[]@!$&'()*+,;=%"))
}

fn percent_encoded(text: &str, stays: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || stays.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.push('%');
            out.extend(digits.map(char::from));
        }
    }
    out
}

pub fn url_decode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    // Each byte that is not UTF-8 becomes a character of three bytes.
    changed(budget, &input, 3, |text| {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let mut ahead = rest.clone();
            bytes.push(match (byte, digit(ahead.next()), digit(ahead.next())) {
                (b'+', ..) => b' ',
                (b'%', Some(high), Some(low)) => {
                    rest = ahead;
                    (high * 16 + low) as u8
                }
                (byte, ..) => byte,
            });
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub fn base64_encode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 2, |text| BASE64_STANDARD.encode(text))
}

pub fn base64_decode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    decoded(budget, &input, &BASE64_STANDARD)
}

pub fn base64_url_safe_encode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 2, |text| BASE64_URL_SAFE.encode(text))
}

pub fn base64_url_safe_decode<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    decoded(budget, &input, &GeneralPurpose::new(&URL_SAFE, config))
}

/// Decodes base64; none if the text is not base64.
fn decoded<'a>(
    budget: &mut RenderBudget,
    input: &Value<'a>,
    engine: &GeneralPurpose,
) -> FilterResult<'a> {
    changed(budget, input, 3, |text| {
        let bytes = engine.decode(text.trim()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The JSON value of a text; nil if it is not JSON.
pub fn json_parse<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    let text = input.to_text(budget)?;
    // Each value takes at least two bytes of text.
    budget.hold(text.len())?;
    let tree = check_readable(&text).and_then(|()| Tree::parse(&text));
    Ok(tree.map_or(Value::Nil, |tree| Value::owned(&tree)))
}

/// Writes the value as JSON: a string with its quotes.
pub fn as_json_string<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    input.to_json(budget).map(Value::from_text)
}

/// Escapes a text as inside the quotes of a JSON string.
pub fn json_escape<'a>(
    budget: &mut RenderBudget,
    input: Value<'a>,
    _: &[Value<'a>],
) -> FilterResult<'a> {
    changed(budget, &input, 6, |text| {
        let json = serde_json::Value::from(text).to_string();
        json[1..json.len() - 1].to_owned()
    })
}
