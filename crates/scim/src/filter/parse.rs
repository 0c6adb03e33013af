//! Reads filters.

use super::{Comparison, Filter, Literal, MAX, MAX_DEPTH, Operator, Path, Scope, invalid_filter};
use crate::schema::{Attribute, Kind};
use gateway::scim::ScimError;
use kit::clock::parse_time;
use kit::words::beginning;

/// Maximum characters of an unknown name in an error message.
const SHOWN: usize = 128;

pub(super) fn parse(text: &str, scope: Scope) -> Result<Filter, ScimError> {
    let mut reader = Reader { rest: text, comparisons: 0, depth: 0 };
    let filter = reader.any(scope)?;
    reader.skip_spaces();
    match reader.rest {
        "" => Ok(filter),
        _ => Err(invalid_filter("expected and, or, or the end of the filter")),
    }
}

/// The unread rest, and how much was read.
struct Reader<'a> {
    rest: &'a str,
    comparisons: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Terms that `or` joins.
    fn any(&mut self, scope: Scope) -> Result<Filter, ScimError> {
        let mut terms = vec![self.all(scope)?];
        while self.take_word("or") {
            terms.push(self.all(scope)?);
        }
        Ok(joined(terms, Filter::Or))
    }

    /// Terms that `and` joins.
    fn all(&mut self, scope: Scope) -> Result<Filter, ScimError> {
        let mut terms = vec![self.term(scope)?];
        while self.take_word("and") {
            terms.push(self.term(scope)?);
        }
        Ok(joined(terms, Filter::And))
    }

    fn term(&mut self, scope: Scope) -> Result<Filter, ScimError> {
        self.skip_spaces();
        if self.take('(') {
            return self.until(')', scope);
        }
        let name = self.word();
        if name.eq_ignore_ascii_case("not") {
            self.skip_spaces();
            if self.take('(') {
                return Ok(Filter::Not(Box::new(self.until(')', scope)?)));
            }
        }
        if name.is_empty() {
            return Err(invalid_filter("expected an attribute, an operator and a value"));
        }
        let path = scope.resolve(name).ok_or_else(|| {
            invalid_filter(format!("unknown attribute {:?}", beginning(name, SHOWN)))
        })?;
        if self.take('[') {
            return self.selected(path, scope);
        }
        self.comparison(path, scope)
    }

    /// The filter inside parentheses or brackets.
    fn until(&mut self, end: char, scope: Scope) -> Result<Filter, ScimError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(invalid_filter(format!(
                "at most {MAX_DEPTH} levels of parentheses are allowed"
            )));
        }
        let filter = self.any(scope)?;
        self.skip_spaces();
        if !self.take(end) {
            return Err(invalid_filter(format!("expected {end}")));
        }
        self.depth -= 1;
        Ok(filter)
    }

    /// Parses `emails[type eq "work"]`, or `emails[type eq "work"].value eq "a"`.
    fn selected(&mut self, path: Path, scope: Scope) -> Result<Filter, ScimError> {
        let target = scope.target(&path).filter(|target| !target.members().is_empty());
        let target = target.ok_or_else(|| {
            invalid_filter("brackets are only allowed after an attribute with sub-attributes")
        })?;
        let inner = Scope::ValueOf(target);
        let mut filter = self.until(']', inner)?;
        if self.take('.') {
            let name = self.word();
            let path = inner.resolve(name).ok_or_else(|| {
                invalid_filter(format!("unknown attribute {:?}", beginning(name, SHOWN)))
            })?;
            filter = Filter::And(vec![filter, self.comparison(path, inner)?]);
        }
        Ok(Filter::Any(path, Box::new(filter)))
    }

    fn comparison(&mut self, mut path: Path, scope: Scope) -> Result<Filter, ScimError> {
        self.comparisons += 1;
        if self.comparisons > MAX {
            return Err(invalid_filter(format!("at most {MAX} comparisons are allowed")));
        }
        let word = self.word();
        if word.eq_ignore_ascii_case("pr") {
            return Ok(Filter::Present(path));
        }
        let operator = Operator::parse(word).ok_or_else(|| {
            let names = Operator::ALL.map(|(name, _)| name).join(", ");
            invalid_filter(format!("unknown operator; expected one of {names}, pr"))
        })?;
        // `emails eq "a"` compares the addresses.
        if let Some(value) = scope.target(&path).and_then(Attribute::value) {
            path.push(value);
        }
        let target = scope.target(&path).ok_or_else(|| invalid_filter("expected an attribute"))?;
        let value = self.value(target, operator)?;
        Ok(Filter::Compare(Comparison { path, operator, value }))
    }

    /// A value that can be compared with the attribute.
    fn value(&mut self, target: &Attribute, operator: Operator) -> Result<Literal, ScimError> {
        self.skip_spaces();
        let value = match self.rest.strip_prefix('"') {
            Some(inside) => Literal::Text(self.string(inside)?),
            None => match self.word().to_ascii_lowercase().as_str() {
                "true" => Literal::Boolean(true),
                "false" => Literal::Boolean(false),
                "null" => Literal::Null,
                _ => return Err(invalid_filter("expected a string, true, false or null")),
            },
        };
        let is_equality = matches!(operator, Operator::Equals | Operator::NotEquals);
        match (target.kind, value) {
            (_, Literal::Null) if is_equality => Ok(Literal::Null),
            (Kind::Boolean, Literal::Boolean(value)) if is_equality => Ok(Literal::Boolean(value)),
            // Some clients send booleans as strings.
            (Kind::Boolean, Literal::Text(text)) if is_equality => {
                match text.to_ascii_lowercase().as_str() {
                    "true" => Ok(Literal::Boolean(true)),
                    "false" => Ok(Literal::Boolean(false)),
                    _ => Err(invalid_filter(format!("{}: expected true or false", target.name))),
                }
            }
            (Kind::Boolean, _) => Err(invalid_filter(format!(
                "{} is a boolean: only eq and ne are supported",
                target.name
            ))),
            (Kind::Text | Kind::Reference(_) | Kind::DateTime, Literal::Text(text)) => {
                let is_part = !is_equality && !operator.is_order();
                if target.kind == Kind::DateTime {
                    if is_part {
                        return Err(invalid_filter(format!(
                            "{} is a date and time: co, sw and ew are not supported",
                            target.name
                        )));
                    }
                    parse_time(&text)
                        .map_err(|error| invalid_filter(format!("{}: {error}", target.name)))?;
                }
                Ok(Literal::Text(text))
            }
            (Kind::Text | Kind::Reference(_) | Kind::DateTime, _) => {
                Err(invalid_filter(format!("{}: expected a string", target.name)))
            }
            (Kind::Complex(_), _) => Err(invalid_filter(format!(
                "{} has sub-attributes: compare one of them",
                target.name
            ))),
        }
    }

    /// The next word. A plus also counts as a space: form encoding writes spaces as pluses, and
    /// outside of strings a plus has no other meaning.
    fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let end = self.rest.find([' ', '+', '"', '(', ')', '[', ']']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Reads the next word if it is this one.
    fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let is_next = self.word().eq_ignore_ascii_case(word);
        if !is_next {
            self.rest = before;
        }
        is_next
    }

    fn take(&mut self, sign: char) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '+']);
    }

    /// A JSON string; `inside` is the text after its first quote.
    fn string(&mut self, inside: &str) -> Result<String, ScimError> {
        let length =
            end_of_string(inside).ok_or_else(|| invalid_filter("a string is not closed"))?;
        // The length includes both quotes, which are one byte each.
        let (string, rest) = self.rest.split_at(length + 2);
        self.rest = rest;
        serde_json::from_str(string)
            .map_err(|_| invalid_filter("a string is not a valid JSON string"))
    }
}

fn joined(mut terms: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match terms.len() {
        1 => terms.remove(0),
        _ => join(terms),
    }
}

/// The position of the quote that ends a string.
fn end_of_string(inside: &str) -> Option<usize> {
    let mut is_escaped = false;
    inside.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}
