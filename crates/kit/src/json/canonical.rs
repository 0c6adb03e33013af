//! A text that equal values share, so that a value can be found by its hash.

use std::borrow::Cow;

use super::numbers::canonical_number;
use super::{Tree, plain_text, push_string};

/// Digits of a whole number that is its own canonical text.
const FEW_DIGITS: usize = 18;

/// A text that two JSON values share if they are equal: strings by their characters, numbers digit by
/// digit, arrays element by element, and objects field by field in any order. An unreadable value is
/// equal only to the same text.
pub fn canonical(json: &str) -> Cow<'_, str> {
    let is_short_number =
        json.len() <= FEW_DIGITS && json.bytes().all(|byte| byte.is_ascii_digit());
    if is_short_number || plain_text(json).is_some() {
        return Cow::Borrowed(json);
    }
    let Ok(tree) = Tree::parse(json) else { return Cow::Borrowed(json) };
    let mut out = String::with_capacity(json.len());
    push(&mut out, &tree);
    Cow::Owned(out)
}

/// The recursion is limited by the depth of a [`Tree`].
fn push(out: &mut String, tree: &Tree) {
    match tree {
        Tree::Number(digits) => out.push_str(&canonical_number(digits)),
        Tree::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                push(out, element);
            }
            out.push(']');
        }
        Tree::Object(object) => {
            let mut fields: Vec<(&str, &Tree)> = object.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, value)) in fields.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                push_string(out, name);
                out.push(':');
                push(out, value);
            }
            out.push('}');
        }
        Tree::Null | Tree::Bool(_) | Tree::Text(_) => out.push_str(&tree.to_json()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_share_a_text() {
        for spellings in [
            &[r#""caf\u00e9""#, r#""café""#][..],
            &[r#""a\/b""#, r#""a/b""#, r#""\u0061\/b""#],
            &["1", "1.0", "10e-1", "0.1E1"],
            &["0", "-0", "-0.0", "0e9"],
            &["-5", "-5.00"],
            &["1.5", "1.50", "15e-1"],
            &["1e2", "100", "100.0"],
            &[r#"{"a":1,"b":["x"]}"#, r#"{"b":["\u0078"],"a":1.0}"#],
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling), canonical(spellings[0]), "{spelling}");
            }
        }
    }

    #[test]
    fn different_values_have_different_texts() {
        let values = [
            "null",
            "true",
            "0",
            "1",
            "1.5",
            "9007199254740993",
            "9007199254740992.0",
            "20000000000000000000",
            "20000000000000000001",
            "0.1",
            "0.10000000000000000001",
            "1e300",
            r#""1""#,
            r#""""#,
            r#""\ud800""#,
            "[]",
            "[1]",
            "[[1]]",
            r#"["a","b"]"#,
            r#"["b","a"]"#,
            "{}",
            r#"{"a":1}"#,
            r#"{"a":[1]}"#,
            r#"{"a":1,"b":1}"#,
        ];
        for (index, a) in values.iter().enumerate() {
            for b in &values[index + 1..] {
                assert_ne!(canonical(a), canonical(b), "{a} {b}");
            }
        }
    }
}
