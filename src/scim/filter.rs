//! Filters (RFC 7644 section 3.4.2.2): comparisons `eq`, `co` and `sw` with strings, joined by
//! `and`. Anything else is refused.

use std::borrow::Cow;

use super::schema::without_urn;
use crate::gateway::scim::{ScimError, ScimType};

/// The most comparisons in one filter.
pub const MOST: usize = 20;

/// Comparisons that must all hold; of an empty one they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(pub Vec<Comparison>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// As it was written, without a schema before it.
    pub attribute: String,
    pub operator: Operator,
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `eq`
    Equals,
    /// `co`
    Contains,
    /// `sw`
    StartsWith,
}

impl Operator {
    pub const ALL: [(&str, Self); 3] =
        [("eq", Self::Equals), ("co", Self::Contains), ("sw", Self::StartsWith)];

    fn parse(word: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name));
        found.map(|(_, operator)| operator)
    }
}

impl Filter {
    /// The error is 400 `invalidFilter`.
    pub fn parse(text: &str) -> Result<Self, ScimError> {
        let mut rest = Rest(text);
        let mut comparisons = Vec::new();
        loop {
            if comparisons.len() == MOST {
                return Err(refused(format!("at most {MOST} comparisons are allowed")));
            }
            comparisons.push(rest.comparison()?);
            match rest.word() {
                "" if rest.0.is_empty() => return Ok(Self(comparisons)),
                word if word.eq_ignore_ascii_case("and") => {}
                _ => return Err(refused("comparisons can only be joined by and")),
            }
        }
    }

    /// Whether it holds for something that has those attributes.
    pub fn holds<'a>(&self, attribute: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|comparison| {
            let value = comparison.value.as_str();
            attribute(&comparison.attribute).is_some_and(|is| match comparison.operator {
                Operator::Equals => is == value,
                Operator::Contains => is.contains(value),
                Operator::StartsWith => is.starts_with(value),
            })
        })
    }
}

/// The unread rest.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn comparison(&mut self) -> Result<Comparison, ScimError> {
        let attribute = without_urn(self.word());
        if attribute.is_empty() {
            return Err(refused("expected an attribute, an operator and a string"));
        }
        let word = self.word();
        let operator = Operator::parse(word).ok_or_else(|| {
            let names = Operator::ALL.map(|(name, _)| name).join(", ");
            refused(format!("unknown operator; expected one of {names}"))
        })?;
        let attribute = attribute.to_owned();
        Ok(Comparison { attribute, operator, value: self.string()? })
    }

    /// The next word, up to a space or a quote; empty at the end. A plus counts as a space, too:
    /// form encoding writes spaces that way, and outside of strings a plus has no other meaning.
    fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let end = self.0.find([' ', '+', '"']).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '+']);
    }

    /// A JSON string.
    fn string(&mut self) -> Result<String, ScimError> {
        self.skip_spaces();
        let inside = self.0.strip_prefix('"').ok_or_else(|| refused("expected a string"))?;
        let length = end_of_string(inside).ok_or_else(|| refused("a string is not closed"))?;
        // With its quotes, which are a byte each.
        let (string, rest) = self.0.split_at(length + 2);
        self.0 = rest;
        serde_json::from_str(string).map_err(|_| refused("a string is not a valid JSON string"))
    }
}

/// Where the quote is that ends a string.
fn end_of_string(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

pub(super) fn refused(what: impl Into<Cow<'static, str>>) -> ScimError {
    ScimError::bad(ScimType::InvalidFilter, format!("filter: {}", what.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Vec<(String, Operator, String)> {
        let Filter(comparisons) = Filter::parse(text).unwrap_or_else(|error| panic!("{error:?}"));
        comparisons.into_iter().map(|c| (c.attribute, c.operator, c.value)).collect()
    }

    fn one(attribute: &str, operator: Operator, value: &str) -> (String, Operator, String) {
        (attribute.to_owned(), operator, value.to_owned())
    }

    #[test]
    fn comparisons_are_read() {
        use Operator::{Contains, Equals, StartsWith};
        for (text, expected) in [
            (r#"userName eq "a@b""#, vec![one("userName", Equals, "a@b")]),
            (r#"  USERNAME   EQ  "a" "#, vec![one("USERNAME", Equals, "a")]),
            (r#"userName+eq+"a+b@c""#, vec![one("userName", Equals, "a+b@c")]),
            (r#"userName eq"""#, vec![one("userName", Equals, "")]),
            (
                r#"urn:ietf:params:scim:schemas:core:2.0:User:userName sw "a""#,
                vec![one("userName", StartsWith, "a")],
            ),
            (r#"userName co "\"\\\u00e9 and ü""#, vec![one("userName", Contains, "\"\\é and ü")]),
            (
                r#"userName sw "a" AND userName co "b"and userName eq "c""#,
                vec![
                    one("userName", StartsWith, "a"),
                    one("userName", Contains, "b"),
                    one("userName", Equals, "c"),
                ],
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let many = vec![r#"userName eq "a""#; MOST + 1].join(" and ");
        let deep = "(".repeat(100_000);
        let huge = format!("userName eq {}", "\\\"".repeat(100_000));
        for text in [
            "",
            " ",
            "userName",
            "userName eq",
            "userName eq a",
            "userName eq \"a",
            "userName eq \"a\\\"",
            "userName eq \"\\x\"",
            "userName eq \"\n\"",
            "userName eq 1",
            "userName eq true",
            "userName eq null",
            "userName pr",
            "userName ne \"a\"",
            "userName ew \"a\"",
            "userName eq \"a\" or userName eq \"b\"",
            "userName eq \"a\" and",
            "userName eq \"a\" userName eq \"b\"",
            "not (userName eq \"a\")",
            "(userName eq \"a\")",
            "userName eq \"a\")",
            "eq \"a\"",
            "\"a\" eq \"a\"",
            &many,
            &deep,
            &huge,
        ] {
            let error = Filter::parse(text).err().unwrap_or_else(|| panic!("taken: {text}"));
            let ScimError::Refused { scim_type, .. } = error else { panic!("{error:?}") };
            assert_eq!(scim_type, Some(ScimType::InvalidFilter), "{text}");
        }
        parsed(&vec![r#"userName eq "a""#; MOST].join(" and "));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn nothing_panics(text in "(\\PC|\\\\|\"|\u{0}| |and|eq|co|sw|userName|\\(|é)*") {
            let _ = Filter::parse(&text);
        }

        #[test]
        fn every_string_comes_through(value in "(\\PC|[\\\\\"\n\u{0}])*") {
            let text = format!("userName sw {}", serde_json::to_string(&value).unwrap());
            prop_assert_eq!(parsed(&text), vec![one("userName", Operator::StartsWith, &value)]);
        }
    }
}
