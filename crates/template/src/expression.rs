//! Parses values, filters and tests.

use super::filters::{self, Filter};
use super::lex::{Lexed, Token, wrong};
use super::node::{Call, Chain, Expression, Operator, Path, Root, Step, Test};
use super::parse::Parser;

/// Indexes within each other: `a[b[c]]`.
pub(super) const MAX_INDEXES: usize = 8;

/// Filters of one value.
pub(super) const MAX_FILTERS: usize = 64;

impl<'s> Parser<'s> {
    /// A value and its filters.
    pub fn chain(&mut self) -> Lexed<Chain> {
        let mut chain = Chain { value: self.expression()?, filters: Vec::new() };
        while self.eat(Token::Mark("|"))? {
            let (token, at) = self.lexer.next()?;
            let Token::Word(name) = token else {
                return wrong(at, format!("expected a filter's name, found {token}"));
            };
            if chain.filters.len() == MAX_FILTERS {
                return wrong(at, format!("a value has {MAX_FILTERS} filters at most"));
            }
            let Some(filter) = filters::named(name) else {
                return wrong(at, format!("there is no filter {token}"));
            };
            let arguments =
                if self.eat(Token::Mark(":"))? { self.arguments(filter)? } else { Vec::new() };
            if !filter.arguments.contains(&arguments.len()) {
                let (least, most) = (filter.arguments.start(), filter.arguments.end());
                let count =
                    if least == most { least.to_string() } else { format!("{least} to {most}") };
                return wrong(
                    at,
                    format!("`{name}` takes {count} arguments, not {}", arguments.len()),
                );
            }
            chain.filters.push(Call { filter, arguments });
        }
        Ok(chain)
    }

    fn arguments(&mut self, filter: &Filter) -> Lexed<Vec<Expression>> {
        let mut arguments = Vec::new();
        loop {
            let at = self.lexer.peek()?.1;
            if arguments.len() > *filter.arguments.end() {
                return wrong(at, format!("`{}` takes no further argument", filter.name));
            }
            let (begin, argument) = (self.lexer.position(), self.expression()?);
            if argument.is_word() && self.eat(Token::Mark(":"))? {
                // The one argument with a name comes last: `default: "", allow_false: true`.
                let name = self.lexer.between(begin).trim().trim_end_matches(':').trim_end();
                if Some(name) != filter.option || arguments.len() != *filter.arguments.end() - 1 {
                    return wrong(at, format!("`{}` has no option of this name here", filter.name));
                }
                arguments.push(self.expression()?);
            } else {
                arguments.push(argument);
            }
            if !self.eat(Token::Mark(","))? {
                return Ok(arguments);
            }
        }
    }

    /// A value, or a comparison of two.
    pub fn test(&mut self) -> Lexed<Test> {
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
        Ok(Test { left, right: Some((operator, self.expression()?)) })
    }

    pub fn expression(&mut self) -> Lexed<Expression> {
        self.expression_in(0)
    }

    fn expression_in(&mut self, depth: usize) -> Lexed<Expression> {
        let (token, at) = self.lexer.next()?;
        if depth > MAX_INDEXES {
            return wrong(at, format!("indexes nest {MAX_INDEXES} levels at most"));
        }
        Ok(match token {
            Token::Text(text) => Expression::Text(text.into()),
            Token::Int(int) => Expression::Int(int),
            Token::Float(float) => Expression::Float(float),
            Token::Field(name) => {
                let name = Step::Member(field(name).into());
                self.path(Root::Profile, vec![name], depth)?
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
                let root = Root::named(name).unwrap_or_else(|| Root::Name(self.number(name)));
                self.path(root, Vec::new(), depth)?
            }
            Token::Close => return wrong(at, "a value is missing"),
            token => return wrong(at, format!("expected a value, found {token}")),
        })
    }

    fn path(&mut self, root: Root, mut steps: Vec<Step>, depth: usize) -> Lexed<Expression> {
        loop {
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
        }
    }
}

/// The profile's member that a field of a template names: some have two names.
fn field(name: &str) -> &str {
    match name {
        "user_id" => "external_id",
        "email_address" => "email",
        "phone_number" => "phone",
        "date_of_birth" => "dob",
        "city" => "home_city",
        "random_bucket_number" => "random_bucket",
        name => name,
    }
}
