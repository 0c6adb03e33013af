//! Parses values, filters and tests.

use super::filters::{self, Filter};
use super::lex::{ParseResult, Token, wrong};
use super::node::{Call, Chain, Expression, Operator, Path, Root, Step, Test};
use super::parse::Parser;
use super::value::{Number, Value};

/// Maximum depth of nested indexes: `a[b[c]]`.
pub(super) const MAX_INDEXES: usize = 8;

/// Maximum number of filters of one value.
pub(super) const MAX_FILTERS: usize = 64;

impl<'s> Parser<'s> {
    /// A value and its filters.
    pub fn chain(&mut self) -> ParseResult<Chain> {
        self.chain_in(0)
    }

    fn chain_in(&mut self, depth: usize) -> ParseResult<Chain> {
        let mut chain = Chain { value: self.expression_in(depth)?, filters: Vec::new() };
        while self.eat(Token::Mark("|"))? {
            let (token, at) = self.lexer.next()?;
            let Token::Word(name) = token else {
                return wrong(at, format!("expected a filter's name, found {token}"));
            };
            if chain.filters.len() == MAX_FILTERS {
                return wrong(at, format!("a value can have at most {MAX_FILTERS} filters"));
            }
            let Some(filter) = filters::by_name(name) else {
                return wrong(at, format!("unknown filter {token}"));
            };
            let arguments = if self.eat(Token::Mark(":"))? {
                self.arguments(filter, depth)?
            } else {
                Vec::new()
            };
            if !filter.arguments.contains(&arguments.len()) {
                let (min, max) = (filter.arguments.start(), filter.arguments.end());
                let count = if min == max { min.to_string() } else { format!("{min} to {max}") };
                return wrong(
                    at,
                    format!("`{name}` takes {count} arguments, not {}", arguments.len()),
                );
            }
            chain.filters.push(Call { filter, arguments });
        }
        Ok(chain)
    }

    fn arguments(&mut self, filter: &Filter, depth: usize) -> ParseResult<Vec<Expression>> {
        let max_arguments = *filter.arguments.end();
        let (mut arguments, mut option) = (Vec::new(), None);
        while !matches!(self.lexer.peek()?.0, Token::Close | Token::Mark("|" | "}}")) {
            let at = self.lexer.peek()?.1;
            let (begin, argument) = (self.lexer.position(), self.expression_in(depth)?);
            if argument.is_word() && self.eat(Token::Mark(":"))? {
                let name = self.lexer.between(begin).trim().trim_end_matches(':').trim_end();
                if Some(name) != filter.option {
                    return wrong(at, format!("`{}` has no option `{name}`", filter.name));
                }
                self.forget(at);
                option = Some(self.expression_in(depth)?);
            } else if arguments.len() < max_arguments {
                self.check_argument(filter.name, arguments.len(), at, &argument);
                arguments.push(argument);
            } else {
                return wrong(
                    at,
                    format!("too many arguments for `{}`: at most {max_arguments}", filter.name),
                );
            }
            if !self.eat(Token::Mark(","))? {
                break;
            }
        }
        if let Some(option) = option {
            // The option is always the last argument, wherever the template has it.
            arguments.resize_with(max_arguments - 1, || Expression::Nil);
            arguments.push(option);
        }
        Ok(arguments)
    }

    /// Records an argument that is always wrong.
    fn check_argument(&mut self, filter: &str, index: usize, at: usize, argument: &Expression) {
        match (filter, index) {
            ("slice", _) | ("truncate" | "truncatewords", 0) => self.note_count(at, argument),
            ("divided_by" | "modulo", _) => {
                let divisor = match argument {
                    Expression::Text(text) => Value::Text(text).as_number().map(Number::is_zero),
                    Expression::Int(int) => Some(*int == 0),
                    Expression::Float(float) => Some(*float == 0.0),
                    _ => Some(false),
                };
                if divisor.unwrap_or(true) {
                    self.note(at, format!("`{filter}`: division by zero"));
                }
            }
            _ => {}
        }
    }

    /// A value, or a comparison of two.
    pub fn test(&mut self) -> ParseResult<Test> {
        let at = self.lexer.peek()?.1;
        let left = self.expression()?;
        let operator = match self.lexer.peek()?.0 {
            Token::Mark("==") => Operator::Equal,
            Token::Mark("!=" | "<>") => Operator::NotEqual,
            Token::Mark("<") => Operator::Less,
            Token::Mark("<=") => Operator::LessOrEqual,
            Token::Mark(">") => Operator::Greater,
            Token::Mark(">=") => Operator::GreaterOrEqual,
            Token::Word("contains") => Operator::Contains,
            _ => return Ok(Test { left, right: None }),
        };
        self.lexer.next()?;
        let right = self.expression()?;
        let is_order =
            !matches!(operator, Operator::Equal | Operator::NotEqual | Operator::Contains);
        let is_number = |value: &_| {
            matches!(value, Expression::Int(_) | Expression::Float(_) | Expression::Exact(_))
        };
        let is_text = |value: &_| matches!(value, Expression::Text(_));
        let is_mixed = is_text(&left) && is_number(&right) || is_number(&left) && is_text(&right);
        if is_order && is_mixed {
            self.note(at, "a string cannot be compared with a number");
        }
        Ok(Test { left, right: Some((operator, right)) })
    }

    pub fn expression(&mut self) -> ParseResult<Expression> {
        self.expression_in(0)
    }

    fn expression_in(&mut self, depth: usize) -> ParseResult<Expression> {
        let (token, at) = self.lexer.next()?;
        if depth > MAX_INDEXES {
            return wrong(at, format!("indexes can nest at most {MAX_INDEXES} levels"));
        }
        Ok(match token {
            Token::Text(text) => Expression::Text(text.into()),
            Token::Int(int) => Expression::Int(int),
            Token::Float(float) => Expression::Float(float),
            Token::Exact(digits) => Expression::Exact(digits.into()),
            Token::Field(name) => {
                let name = self.known.field(name);
                if self.is_first(at)
                    && let Some(text) = self.known.unknown_field(name)
                {
                    self.note(at, text);
                }
                self.path(Root::Field(name.into()), None, depth)?
            }
            Token::Mark("{{") => {
                let chain = self.chain_in(depth + 1)?;
                self.expect(Token::Mark("}}"))?;
                if chain.filters.is_empty() {
                    chain.value
                } else {
                    Expression::Chain(Box::new(chain))
                }
            }
            Token::Mark("[") => {
                let root = match self.expression_in(depth + 1)? {
                    Expression::Text(name) => Root::Computed(Box::new(Expression::Text(name))),
                    name => Root::Computed(Box::new(name)),
                };
                self.expect(Token::Mark("]"))?;
                self.path(root, None, depth)?
            }
            Token::Mark("(") => {
                let from = self.expression_in(depth + 1)?;
                self.expect(Token::Mark(".."))?;
                let to = self.expression_in(depth + 1)?;
                self.expect(Token::Mark(")"))?;
                Expression::Range(Box::new((from, to)))
            }
            Token::Word("nil" | "null") => Expression::Nil,
            Token::Word("true") => Expression::Bool(true),
            Token::Word("false") => Expression::Bool(false),
            Token::Word("empty") => Expression::Empty,
            Token::Word("blank") => Expression::Blank,
            Token::Word(name) => {
                let root = self.root(name, at);
                self.path(root, Some(name), depth)?
            }
            Token::Close => return wrong(at, "a value is missing"),
            token => return wrong(at, format!("expected a value, found {token}")),
        })
    }

    /// The rest of a path after its root, which may be a known object.
    fn path(&mut self, root: Root, object: Option<&str>, depth: usize) -> ParseResult<Expression> {
        let mut steps = Vec::new();
        loop {
            let at = self.lexer.position();
            if self.eat(Token::Mark("."))? {
                let (token, at) = self.lexer.next()?;
                let (Token::Word(name) | Token::Field(name)) = token else {
                    return wrong(at, format!("expected a name, found {token}"));
                };
                steps.push(Step::Member(name.into()));
            } else if self.eat(Token::Mark("["))? {
                let index = self.expression_in(depth + 1)?;
                self.expect(Token::Mark("]"))?;
                steps.push(match index {
                    Expression::Text(name) => Step::Member(name),
                    index => Step::Index(index),
                });
            } else {
                return Ok(Expression::Path(Path { root, steps }));
            }
            if let ([Step::Member(name)], Some(object)) = (&mut steps[..], object) {
                if self.is_first(at)
                    && let Some(text) = self.known.unknown_member(object, name)
                {
                    self.note(at, text);
                }
                *name = self.known.member(object, name).into();
            }
        }
    }
}
