//! Parses the tags: each method begins after the name of its tag.

use super::super::lex::{ParseResult, Token, wrong};
use super::super::node::{
    Case, Chain, Condition, Cycle, Expression, For, Group, If, Join, LoopKind, Node, Offset,
    drop_blank,
};
use super::{Ends, Parser};

impl<'s> Parser<'s> {
    pub(super) fn if_changed(&mut self) -> ParseResult<Node> {
        self.close()?;
        let (nodes, _) = self.nodes("ifchanged", &["endifchanged"])?;
        self.close()?;
        Ok(Node::IfChanged(nodes))
    }

    /// A `liquid` tag: it has one tag on each line.
    pub(super) fn liquid(&mut self) -> ParseResult<Vec<Node>> {
        let lines = self.lexer.lines()?;
        let after = std::mem::replace(&mut self.lexer, lines);
        let (nodes, _) = self.nodes("", &[])?;
        self.lexer = after;
        Ok(nodes)
    }

    /// The node of a tag without arguments.
    pub(super) fn alone(&mut self, node: Node) -> ParseResult<Node> {
        self.close()?;
        Ok(node)
    }

    pub(super) fn condition_block(&mut self, name: &str) -> ParseResult<Node> {
        const ENDS: [Ends; 2] = [&["elsif", "else", "endif"], &["elsif", "else", "endunless"]];
        let is_unless = name == "unless";
        let ends = ENDS[usize::from(is_unless)];
        let mut node = If { branches: Vec::new(), otherwise: Vec::new() };
        let mut condition = self.condition(is_unless)?;
        let mut end = loop {
            self.close()?;
            let (nodes, end) = self.nodes(name, ends)?;
            node.branches.push((condition, nodes));
            match end {
                "elsif" => condition = self.condition(false)?,
                end => break end,
            }
        };
        if end == "else" {
            self.close()?;
            (node.otherwise, end) = self.nodes(name, ends)?;
        }
        // Branches after an `else` are never printed.
        while end == "else" || end == "elsif" {
            self.lexer.skip_to_close()?;
            (_, end) = self.nodes(name, ends)?;
        }
        self.close()?;
        let branches = node.branches.iter_mut().map(|(_, nodes)| nodes);
        drop_blank(&mut branches.chain([&mut node.otherwise]).collect::<Vec<_>>());
        Ok(Node::If(Box::new(node)))
    }

    fn condition(&mut self, is_negated: bool) -> ParseResult<Condition> {
        let mut tests = Vec::new();
        loop {
            let test = self.test()?;
            let join = match self.lexer.peek()?.0 {
                Token::Word("and") => Join::And,
                Token::Word("or") => Join::Or,
                Token::Mark("|") => {
                    let at = self.lexer.peek()?.1;
                    return wrong(at, "a condition cannot have filters: `assign` the value first");
                }
                _ => Join::End,
            };
            tests.push((test, join));
            if join == Join::End {
                return Ok(Condition { is_negated, tests });
            }
            self.lexer.next()?;
        }
    }

    pub(super) fn case(&mut self) -> ParseResult<Node> {
        const ENDS: Ends = &["when", "else", "endcase"];
        let mut node = Case { value: self.expression()?, branches: Vec::new() };
        self.close()?;
        // Anything before the first `when` is never printed.
        let (_, mut end) = self.nodes("case", ENDS)?;
        while end != "endcase" {
            let values = if end == "when" { Some(self.when()?) } else { None };
            self.close()?;
            let (nodes, next) = self.nodes("case", ENDS)?;
            node.branches.push((values, nodes));
            end = next;
        }
        self.close()?;
        drop_blank(&mut node.branches.iter_mut().map(|(_, nodes)| nodes).collect::<Vec<_>>());
        Ok(Node::Case(Box::new(node)))
    }

    fn when(&mut self) -> ParseResult<Vec<Expression>> {
        let mut values = vec![self.expression()?];
        while self.eat(Token::Mark(","))? || self.eat(Token::Word("or"))? {
            values.push(self.expression()?);
        }
        Ok(values)
    }

    pub(super) fn loop_block(&mut self, name: &'static str) -> ParseResult<Node> {
        let is_table = name == "tablerow";
        let (word, at) = self.word()?;
        let item = self.name(word, at)?;
        let (token, at) = self.lexer.next()?;
        if token != Token::Word("in") {
            return wrong(at, format!("expected `in`, found {token}"));
        }
        let begin = self.lexer.position();
        let collection = self.expression()?;
        let collected = self.lexer.between(begin).trim();
        let label: Box<str> = format!("{word}-{}", kit::words::beginning(collected, 100)).into();
        let count = self.resumes.len();
        let resume = *self.resumes.entry(label.clone()).or_insert(count);
        let mut node = For {
            label,
            item,
            collection,
            limit: None,
            offset: Offset::None,
            is_reversed: false,
            resume,
            kind: if is_table { LoopKind::Table(None) } else { LoopKind::For },
            body: Vec::new(),
            otherwise: Vec::new(),
        };
        loop {
            self.eat(Token::Mark(","))?;
            match self.lexer.next()? {
                (Token::Close, _) => break,
                (Token::Word("reversed"), _) if !is_table => node.is_reversed = true,
                (Token::Word(name @ ("limit" | "offset" | "cols")), at) => {
                    self.expect(Token::Mark(":"))?;
                    if name == "offset" && self.eat(Token::Word("continue"))? {
                        node.offset = Offset::Continue;
                        continue;
                    }
                    let value = self.expression()?;
                    self.note_count(at, &value);
                    match (name, &mut node.kind) {
                        ("limit", _) => node.limit = Some(value),
                        ("offset", _) => node.offset = Offset::At(value),
                        (_, LoopKind::Table(columns)) => *columns = Some(value),
                        _ => return wrong(at, "`cols` is only allowed in `tablerow`"),
                    }
                }
                (token, at) => return wrong(at, format!("{token} is not expected here")),
            }
        }
        if is_table {
            node.body = self.nodes(name, &["endtablerow"])?.0;
        } else {
            let (body, end) = self.nodes(name, &["else", "endfor"])?;
            node.body = body;
            if end == "else" {
                self.close()?;
                node.otherwise = self.nodes(name, &["endfor"])?.0;
            }
            drop_blank(&mut [&mut node.body, &mut node.otherwise]);
        }
        self.close()?;
        Ok(Node::For(Box::new(node)))
    }

    pub(super) fn capture(&mut self) -> ParseResult<Node> {
        let (word, at) = match self.lexer.peek()? {
            (Token::Text(name), at) => {
                self.lexer.next()?;
                (name, at)
            }
            _ => self.word()?,
        };
        let name = self.name(word, at)?;
        self.close()?;
        let (nodes, _) = self.nodes("capture", &["endcapture"])?;
        self.close()?;
        Ok(Node::Capture(name, nodes))
    }

    pub(super) fn assign(&mut self) -> ParseResult<Node> {
        let (word, at) = self.word()?;
        let name = self.name(word, at)?;
        self.expect(Token::Mark("="))?;
        let chain = self.chain()?;
        self.close()?;
        Ok(Node::Assign(name, chain))
    }

    pub(super) fn cycle(&mut self) -> ParseResult<Node> {
        let begin = self.lexer.position();
        let first = self.expression()?;
        let (group, mut values) = if self.eat(Token::Mark(":"))? {
            (Some(first), vec![self.expression()?])
        } else {
            (None, vec![first])
        };
        while self.eat(Token::Mark(","))? && self.lexer.peek()?.0 != Token::Close {
            values.push(self.expression()?);
        }
        let group = group.map_or_else(
            || {
                let count = self.cycles.len();
                let same = self.lexer.between(begin).split_whitespace().collect();
                Group::Values(*self.cycles.entry(same).or_insert(count))
            },
            Group::Named,
        );
        self.close()?;
        Ok(Node::Cycle(Box::new(Cycle { group, values })))
    }

    /// `abort_message`, `abort_message("why")`, `abort_message "why"`.
    pub(super) fn abort(&mut self) -> ParseResult<Node> {
        let is_call = self.eat(Token::Mark("("))?;
        if is_call && let Some(words) = self.plain_words() {
            self.close()?;
            let value = Expression::Text(words.into());
            return Ok(Node::Abort(Some(Chain { value, filters: Vec::new() })));
        }
        let ends = matches!(self.lexer.peek()?.0, Token::Close | Token::Mark(")"));
        let reason = if ends { None } else { Some(self.chain()?) };
        if is_call {
            self.expect(Token::Mark(")"))?;
        }
        self.close()?;
        Ok(Node::Abort(reason))
    }

    /// Parses an unquoted reason of several words, including the closing `)`.
    fn plain_words(&mut self) -> Option<&'s str> {
        let mut lookahead = self.lexer;
        let words = lookahead.raw_until(|rest| rest.starts_with([')', '\'', '"', '|', '[', '$']));
        let is_plain = words.trim().contains(char::is_whitespace) && lookahead.eat(")");
        is_plain.then(|| {
            self.lexer = lookahead;
            words.trim()
        })
    }

    /// `message_extras :key k :value v`: each is a word, a string or a value.
    pub(super) fn extra(&mut self) -> ParseResult<Node> {
        let mut part = |name: &'static str| {
            self.expect(Token::Mark(":"))?;
            self.expect(Token::Word(name))?;
            match self.lexer.peek()? {
                (Token::Word(word), _) => {
                    self.lexer.next()?;
                    Ok(Chain { value: Expression::Text(word.into()), filters: Vec::new() })
                }
                _ => self.chain(),
            }
        };
        let (key, value) = (part("key")?, part("value")?);
        self.close()?;
        Ok(Node::Extra(Box::new((key, value))))
    }
}
