//! Parses a source: blocks and tags.

use std::collections::HashMap;

use super::lex::{Lexed, Lexer, Opener, Token, Wrong, wrong};
use super::node::{
    Case, Condition, Cycle, Expression, For, If, Join, LoopKind, Node, Offset, Program, Root,
};

/// Blocks within each other.
pub const MAX_NESTING: usize = 32;

/// Bytes of a source.
pub const MAX_SOURCE: usize = 256 << 10;

/// A list of tags that end a part of a block.
type Ends = &'static [&'static str];

/// Parses a whole source.
pub(super) fn parse(source: &str) -> Lexed<Program> {
    if source.len() > MAX_SOURCE {
        return wrong(0, format!("a template has {MAX_SOURCE} bytes at most"));
    }
    let mut parser = Parser {
        lexer: Lexer::new(source),
        names: HashMap::new(),
        cycles: HashMap::new(),
        resumes: HashMap::new(),
        nesting: 0,
        text: 0,
    };
    let (nodes, _) = parser.nodes("", &[])?;
    Ok(Program {
        nodes,
        names: parser.names.len(),
        cycles: parser.cycles.len(),
        resumes: parser.resumes.len(),
        text: parser.text,
    })
}

pub(super) struct Parser<'s> {
    pub lexer: Lexer<'s>,
    names: HashMap<&'s str, usize>,
    cycles: HashMap<String, usize>,
    resumes: HashMap<Box<str>, usize>,
    nesting: usize,
    text: usize,
}

impl<'s> Parser<'s> {
    /// What a block has up to the tag that ends it, or the source up to its end; and that tag.
    fn nodes(&mut self, block: &str, ends: Ends) -> Lexed<(Vec<Node>, &'static str)> {
        let opened = self.lexer.opened_at();
        let mut nodes = Vec::new();
        loop {
            let (text, opener) = self.lexer.text();
            if !text.is_empty() {
                self.text += text.len();
                nodes.push(Node::Text(text.into()));
            }
            match opener {
                Opener::Print => nodes.extend(self.print()?),
                Opener::Tag => {
                    if let Some(end) = self.tag(ends, &mut nodes)? {
                        return Ok((nodes, end));
                    }
                }
                Opener::End if block.is_empty() => return Ok((nodes, "")),
                Opener::End => {
                    return wrong(opened, format!("`{block}` is not closed by `end{block}`"));
                }
            }
        }
    }

    /// `{{ … }}`; nothing prints nothing.
    fn print(&mut self) -> Lexed<Option<Node>> {
        if self.lexer.peek()?.0 == Token::Close {
            self.lexer.next()?;
            return Ok(None);
        }
        let chain = self.chain()?;
        self.close()?;
        Ok(Some(Node::Print(chain)))
    }

    /// One tag, and of a block all that it has; the tag's name where it is one of `ends`, which
    /// is then left behind its name.
    fn tag(&mut self, ends: Ends, nodes: &mut Vec<Node>) -> Lexed<Option<&'static str>> {
        let rest_at = self.lexer.position();
        let mut lookahead = self.lexer;
        if lookahead.eat_space_and("#") {
            self.lexer = lookahead;
            self.lexer.skip_to_close()?;
            return Ok(None);
        }
        let (token, at) = self.lexer.next()?;
        let Token::Word(name) = token else {
            return wrong(rest_at.max(at), "a tag begins with its name");
        };
        if let Some(end) = ends.iter().find(|end| **end == name) {
            return Ok(Some(end));
        }
        nodes.push(match name {
            "if" | "unless" => self.block(name, |parser| parser.condition_block(name))?,
            "case" => self.block(name, Self::case)?,
            "for" => self.block(name, |parser| parser.loop_block("for"))?,
            "tablerow" => self.block(name, |parser| parser.loop_block("tablerow"))?,
            "capture" => self.block(name, Self::capture)?,
            "assign" => self.assign()?,
            "echo" => match self.print()? {
                Some(node) => node,
                None => return Ok(None),
            },
            "cycle" => self.cycle()?,
            "increment" | "decrement" => {
                let (word, at) = self.word()?;
                let node = Node::Count { name: self.name(word, at)?, up: name == "increment" };
                self.close()?;
                node
            }
            "break" => self.alone(Node::Break)?,
            "continue" => self.alone(Node::Continue)?,
            "abort_message" => self.abort()?,
            "comment" => {
                self.close()?;
                self.lexer.skip_to(name, true)?;
                return Ok(None);
            }
            "raw" => {
                self.close()?;
                let text = self.lexer.skip_to(name, false)?;
                self.text += text.len();
                Node::Text(text.into())
            }
            "include" | "render" | "section" | "layout" => {
                return wrong(at, format!("{token}: there are no other templates"));
            }
            _ if name.starts_with("end") || matches!(name, "else" | "elsif" | "when") => {
                return wrong(at, format!("{token} closes nothing here"));
            }
            _ => return wrong(at, format!("there is no tag {token}")),
        });
        Ok(None)
    }

    fn block(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Lexed<Node>) -> Lexed<Node> {
        let at = self.lexer.opened_at();
        if self.nesting == MAX_NESTING {
            return wrong(at, format!("`{name}`: blocks nest {MAX_NESTING} levels at most"));
        }
        self.nesting += 1;
        let node = read(self);
        self.nesting -= 1;
        node
    }

    /// A node of a tag that has only its name.
    fn alone(&mut self, node: Node) -> Lexed<Node> {
        self.close()?;
        Ok(node)
    }

    fn condition_block(&mut self, name: &str) -> Lexed<Node> {
        const ENDS: [Ends; 2] = [&["elsif", "else", "endif"], &["elsif", "else", "endunless"]];
        const LAST: [Ends; 2] = [&["endif"], &["endunless"]];
        let is_negated = name == "unless";
        let kind = usize::from(is_negated);
        let mut node = If { branches: Vec::new(), otherwise: Vec::new() };
        let mut condition = self.condition(is_negated)?;
        loop {
            self.close()?;
            let (nodes, end) = self.nodes(name, ENDS[kind])?;
            node.branches.push((condition, nodes));
            match end {
                "elsif" => condition = self.condition(false)?,
                "else" => {
                    self.close()?;
                    node.otherwise = self.nodes(name, LAST[kind])?.0;
                    break;
                }
                _ => break,
            }
        }
        self.close()?;
        Ok(Node::If(Box::new(node)))
    }

    fn condition(&mut self, is_negated: bool) -> Lexed<Condition> {
        let mut tests = Vec::new();
        loop {
            let test = self.test()?;
            let join = match self.lexer.peek()?.0 {
                Token::Word("and") => Join::And,
                Token::Word("or") => Join::Or,
                Token::Mark("|") => {
                    let at = self.lexer.peek()?.1;
                    return wrong(at, "a condition has no filters: `assign` the value first");
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

    fn case(&mut self) -> Lexed<Node> {
        const ENDS: Ends = &["when", "else", "endcase"];
        let mut node =
            Case { value: self.expression()?, branches: Vec::new(), otherwise: Vec::new() };
        self.close()?;
        // What is before the first `when` is never printed.
        let (_, mut end) = self.nodes("case", ENDS)?;
        loop {
            match end {
                "when" => {
                    let mut values = vec![self.expression()?];
                    while self.eat(Token::Mark(","))? || self.eat(Token::Word("or"))? {
                        values.push(self.expression()?);
                    }
                    self.close()?;
                    let (nodes, next) = self.nodes("case", ENDS)?;
                    node.branches.push((values, nodes));
                    end = next;
                }
                "else" => {
                    self.close()?;
                    (node.otherwise, end) = self.nodes("case", &["endcase"])?;
                }
                _ => break,
            }
        }
        self.close()?;
        Ok(Node::Case(Box::new(node)))
    }

    fn loop_block(&mut self, name: &'static str) -> Lexed<Node> {
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
                    match (name, &mut node.kind) {
                        ("limit", _) => node.limit = Some(value),
                        ("offset", _) => node.offset = Offset::At(value),
                        (_, LoopKind::Table(columns)) => *columns = Some(value),
                        _ => return wrong(at, "`cols` is for `tablerow`"),
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
        }
        self.close()?;
        Ok(Node::For(Box::new(node)))
    }

    fn capture(&mut self) -> Lexed<Node> {
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

    fn assign(&mut self) -> Lexed<Node> {
        let (word, at) = self.word()?;
        let name = self.name(word, at)?;
        self.expect(Token::Mark("="))?;
        let chain = self.chain()?;
        self.close()?;
        Ok(Node::Assign(name, chain))
    }

    fn cycle(&mut self) -> Lexed<Node> {
        let begin = self.lexer.position();
        let mut values = vec![self.expression()?];
        let mut group = None;
        if self.eat(Token::Mark(":"))? {
            group = Some(self.lexer.between(begin).trim().to_owned());
            values = vec![self.expression()?];
        }
        while self.eat(Token::Mark(","))? {
            values.push(self.expression()?);
        }
        let group = group.unwrap_or_else(|| self.lexer.between(begin).trim().to_owned());
        self.close()?;
        let count = self.cycles.len();
        let group = *self.cycles.entry(group).or_insert(count);
        Ok(Node::Cycle(Box::new(Cycle { group, values })))
    }

    /// `abort_message`, `abort_message("why")`, `abort_message "why"`.
    fn abort(&mut self) -> Lexed<Node> {
        let is_call = self.eat(Token::Mark("("))?;
        let ends = matches!(self.lexer.peek()?.0, Token::Close | Token::Mark(")"));
        let reason = if ends { None } else { Some(self.chain()?) };
        if is_call {
            self.expect(Token::Mark(")"))?;
        }
        self.close()?;
        Ok(Node::Abort(reason))
    }

    /// The number of a name that the template may give a value.
    fn name(&mut self, name: &'s str, at: usize) -> Lexed<usize> {
        match Root::named(name) {
            Some(_) => wrong(at, format!("`{name}` cannot be given a value")),
            None => Ok(self.number(name)),
        }
    }

    pub fn number(&mut self, name: &'s str) -> usize {
        let count = self.names.len();
        *self.names.entry(name).or_insert(count)
    }

    fn word(&mut self) -> Lexed<(&'s str, usize)> {
        match self.lexer.next()? {
            (Token::Word(word), at) => Ok((word, at)),
            (token, at) => wrong(at, format!("expected a name, found {token}")),
        }
    }

    /// Whether the next token is that; then it goes.
    pub fn eat(&mut self, token: Token<'_>) -> Lexed<bool> {
        let mut lookahead = self.lexer;
        let is_next = lookahead.next()?.0 == token;
        if is_next {
            self.lexer = lookahead;
        }
        Ok(is_next)
    }

    pub fn expect(&mut self, expected: Token<'static>) -> Lexed<()> {
        match self.lexer.next()? {
            (token, _) if token == expected => Ok(()),
            (token, at) => Err(Wrong { at, text: format!("expected {expected}, found {token}") }),
        }
    }

    fn close(&mut self) -> Lexed<()> {
        match self.lexer.next()? {
            (Token::Close, _) => Ok(()),
            (token, at) => wrong(at, format!("{token} is not expected here")),
        }
    }
}

impl Expression {
    /// Whether it is a word and nothing else, which could name an argument.
    pub fn is_word(&self) -> bool {
        matches!(self, Self::Path(path) if path.steps.is_empty() && matches!(path.root, Root::Name(_)))
    }
}
