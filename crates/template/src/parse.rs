//! Parses a source: blocks and tags.

mod tags;

use std::collections::HashMap;

use super::lex::{Lexer, Opener, ParseResult, SyntaxError, Token, wrong};
use super::names::Names;
use super::node::{Expression, Node, Program, Root};

/// Maximum depth of nested blocks.
pub const MAX_NESTING: usize = 32;

/// Maximum bytes of a source.
pub const MAX_SOURCE: usize = 256 << 10;

/// The name under which templates include content blocks.
pub(super) const CONTENT_BLOCKS: &str = "content_blocks";

/// Maximum depth of nested content blocks.
pub const MAX_BLOCKS: usize = 5;

/// Maximum bytes of all content blocks of a template; a block that is used twice counts twice.
pub const MAX_BLOCK_BYTES: usize = 1 << 20;

/// A list of tags that end a part of a block.
type Ends = &'static [&'static str];

/// Parses a whole source; also returns its first [mistake](super::Template::mistake).
pub(super) fn parse(
    source: &str,
    known: &Names<'_>,
) -> ParseResult<(Program, Option<SyntaxError>)> {
    if source.len() > MAX_SOURCE {
        return wrong(0, format!("a template can have at most {MAX_SOURCE} bytes"));
    }
    let mut parser = Parser {
        lexer: Lexer::new(source),
        known,
        names: HashMap::new(),
        is_own: Vec::new(),
        used: Vec::new(),
        mistake: None,
        cycles: HashMap::new(),
        resumes: HashMap::new(),
        nesting: 0,
        text: 0,
        within: Vec::new(),
        blocks: 0,
        has_unknown_source: false,
    };
    let (nodes, _) = parser.nodes("", &[])?;
    parser.check_names();
    let mut names = vec![""; parser.names.len()];
    for (name, number) in parser.names {
        names[number] = name;
    }
    let from_data = (0..names.len()).filter(|number| known.object(names[*number]).is_some());
    let program = Program {
        nodes,
        from_data: from_data.collect(),
        names: names.into_iter().map(Into::into).collect(),
        cycles: parser.cycles.len(),
        resumes: parser.resumes.len(),
        text: parser.text,
        blocks: parser.blocks,
        has_unknown_source: parser.has_unknown_source,
    };
    Ok((program, parser.mistake))
}

pub(super) struct Parser<'s> {
    pub lexer: Lexer<'s>,
    pub known: &'s Names<'s>,
    names: HashMap<&'s str, usize>,
    /// Whether the template assigns a name, by its number.
    is_own: Vec<bool>,
    /// Positions where names are read. Names in content blocks are not included: the template
    /// around them may not define them.
    used: Vec<(usize, &'s str)>,
    mistake: Option<SyntaxError>,
    cycles: HashMap<String, usize>,
    resumes: HashMap<Box<str>, usize>,
    nesting: usize,
    text: usize,
    /// The content blocks that are being read, the innermost last.
    within: Vec<Block<'s>>,
    /// Bytes of all content blocks.
    blocks: usize,
    pub has_unknown_source: bool,
}

/// A content block where it is used.
struct Block<'s> {
    at: usize,
    name: &'s str,
    source: &'s str,
}

impl Block<'_> {
    /// Moves an error inside the block to the position where the block is used.
    fn placed(&self, inside: &SyntaxError) -> SyntaxError {
        let (line, column) = line_and_column(self.source, inside.at);
        let Self { at, name, .. } = self;
        let text = &inside.text;
        let text = format!("content_blocks.${{{name}}}, line {line}, column {column}: {text}");
        SyntaxError { at: *at, text }
    }
}

/// The line and the column of a byte of a source, both from 1.
pub(super) fn line_and_column(source: &str, at: usize) -> (usize, usize) {
    let before = &source[..at];
    let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_begin..].chars().count() + 1)
}

impl<'s> Parser<'s> {
    /// Parses a block up to the tag that ends it, or the source up to its end; also returns that
    /// tag.
    fn nodes(&mut self, block: &str, ends: Ends) -> ParseResult<(Vec<Node>, &'static str)> {
        let opened = self.lexer.opened_at();
        let mut nodes = Vec::new();
        loop {
            let (text, opener) = self.lexer.text();
            if !text.is_empty() {
                self.text += text.len();
                nodes.push(Node::Text(text.into()));
            }
            match opener {
                Opener::Print => self.print(&mut nodes)?,
                Opener::Tag | Opener::Line => {
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

    /// `{{ … }}`; empty markup prints nothing.
    fn print(&mut self, nodes: &mut Vec<Node>) -> ParseResult<()> {
        if self.lexer.peek()?.0 == Token::Close {
            self.lexer.next()?;
            return Ok(());
        }
        if self.is_content_block() {
            return self.content_block(nodes);
        }
        let chain = self.chain()?;
        self.close()?;
        nodes.push(Node::Print(chain));
        Ok(())
    }

    fn is_content_block(&self) -> bool {
        let mut lookahead = self.lexer;
        let mut next = || lookahead.next().ok().map(|(token, _)| token);
        next() == Some(Token::Word(CONTENT_BLOCKS))
            && next() == Some(Token::Mark("."))
            && matches!(next(), Some(Token::Field(_)))
    }

    /// `content_blocks.${name}`: parses the source of the block in its place. Ignores the `id`
    /// option.
    fn content_block(&mut self, nodes: &mut Vec<Node>) -> ParseResult<()> {
        let (_, at) = self.lexer.next()?;
        self.expect(Token::Mark("."))?;
        let (token, _) = self.lexer.next()?;
        let Token::Field(name) = token else {
            return wrong(at, "expected the name of a content block");
        };
        if self.eat(Token::Mark("|"))? {
            self.expect(Token::Word("id"))?;
            self.expect(Token::Mark(":"))?;
            self.expression()?;
        }
        self.close()?;
        let source = match self.known.block(name) {
            Ok(source) => source,
            Err(text) => return wrong(at, text),
        };
        if self.within.iter().any(|block| block.name == name) {
            return wrong(at, "a content block cannot include itself");
        }
        if self.within.len() == MAX_BLOCKS {
            return wrong(at, format!("content blocks can nest at most {MAX_BLOCKS} levels"));
        }
        self.blocks += source.len();
        if self.blocks > MAX_BLOCK_BYTES {
            let text = format!("content blocks can have at most {MAX_BLOCK_BYTES} bytes in total");
            return wrong(at, text);
        }
        let after = std::mem::replace(&mut self.lexer, Lexer::new(source));
        self.within.push(Block { at, name, source });
        let read = self.block(CONTENT_BLOCKS, |parser| parser.nodes("", &[]));
        self.lexer = after;
        match (self.within.pop(), read) {
            (Some(block), Err(inside)) => Err(block.placed(&inside)),
            (_, read) => {
                nodes.extend(read?.0);
                Ok(())
            }
        }
    }

    /// Parses one tag, and its whole block; returns the tag's name if it is one of `ends`, with the
    /// lexer right after the name.
    fn tag(&mut self, ends: Ends, nodes: &mut Vec<Node>) -> ParseResult<Option<&'static str>> {
        let rest_at = self.lexer.position();
        let mut lookahead = self.lexer;
        if lookahead.eat_space_and("#") {
            self.lexer = lookahead;
            self.lexer.skip_to_close()?;
            let mut lines = self.lexer.between(rest_at).trim_end_matches("%}").lines().skip(1);
            let is_comment = |line: &str| matches!(line.trim().chars().next(), None | Some('#'));
            if !lines.all(|line| is_comment(line.trim_end_matches('-'))) {
                return wrong(rest_at, "each line of a comment must begin with `#`");
            }
            return Ok(None);
        }
        let (token, at) = self.lexer.next()?;
        let Token::Word(name) = token else {
            return wrong(rest_at.max(at), "a tag must begin with its name");
        };
        if let Some(end) = ends.iter().find(|end| **end == name) {
            return Ok(Some(end));
        }
        match name {
            "if" => nodes.push(self.block(name, |parser| parser.condition_block("if"))?),
            "unless" => nodes.push(self.block(name, |parser| parser.condition_block("unless"))?),
            "case" => nodes.push(self.block(name, Self::case)?),
            "for" => nodes.push(self.block(name, |parser| parser.loop_block("for"))?),
            "tablerow" => nodes.push(self.block(name, |parser| parser.loop_block("tablerow"))?),
            "capture" => nodes.push(self.block(name, Self::capture)?),
            "ifchanged" => nodes.push(self.block(name, Self::if_changed)?),
            "liquid" => nodes.extend(self.block(name, Self::liquid)?),
            "echo" => self.print(nodes)?,
            _ => nodes.extend(self.single(name, at)?),
        }
        Ok(None)
    }

    /// A tag without inner tags: separate from blocks, whose recursion needs stack.
    fn single(&mut self, name: &'s str, at: usize) -> ParseResult<Option<Node>> {
        Ok(Some(match name {
            "assign" => self.assign()?,
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
            "message_extras" => self.extra()?,
            "catalog_items" => self.catalog_items()?,
            "catalog_selection_items" => self.catalog_selection_items()?,
            "connected_content" => self.connected_content()?,
            "comment" => {
                self.lexer.skip_to_close()?;
                self.lexer.skip_to(name, true)?;
                return Ok(None);
            }
            "doc" => {
                self.close()?;
                if self.lexer.skip_to(name, false)?.contains("{% doc") {
                    return wrong(at, "`doc` blocks cannot nest");
                }
                return Ok(None);
            }
            "raw" => {
                self.close()?;
                let text = self.lexer.skip_to(name, false)?;
                self.text += text.len();
                Node::Raw(text.into())
            }
            "include" | "render" | "section" | "layout" => {
                return wrong(at, format!("`{name}`: a template cannot include other templates"));
            }
            _ => {
                let token = Token::Word(name);
                let is_part = matches!(name, "else" | "elsif" | "when");
                if name.starts_with("end") || is_part {
                    return wrong(at, format!("{token} does not match an open tag"));
                }
                return wrong(at, format!("unknown tag {token}"));
            }
        }))
    }

    fn block<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        let at = self.lexer.opened_at();
        if self.nesting == MAX_NESTING {
            return wrong(at, format!("`{name}`: blocks can nest at most {MAX_NESTING} levels"));
        }
        self.nesting += 1;
        let node = read(self);
        self.nesting -= 1;
        node
    }

    /// The number of a name that the template assigns.
    pub fn name(&mut self, name: &'s str, at: usize) -> ParseResult<usize> {
        if is_loop(name) {
            return wrong(at, format!("`{name}` cannot be assigned"));
        }
        if name.ends_with('?') {
            self.note(at, format!("`{name}`: a name cannot end with `?`"));
        }
        let number = self.number(name);
        self.is_own[number] = true;
        Ok(number)
    }

    /// The root of a path that begins with this name.
    pub fn root(&mut self, name: &'s str, at: usize) -> Root {
        if is_loop(name) {
            return Root::Loop { is_table: name == "tablerowloop" };
        }
        if self.within.is_empty() {
            self.used.push((at, name));
        }
        Root::Name(self.number(name))
    }

    fn number(&mut self, name: &'s str) -> usize {
        let count = self.names.len();
        let number = *self.names.entry(name).or_insert(count);
        if number == self.is_own.len() {
            self.is_own.push(false);
        }
        number
    }

    /// Drops the name that was read last: it is the name of an option.
    pub fn forget(&mut self, at: usize) {
        if self.within.is_empty() {
            self.used.pop_if(|(used, _)| *used == at);
        }
    }

    /// The position in the template itself; for a content block, the position where it is used.
    fn outside(&self, at: usize) -> usize {
        self.within.first().map_or(at, |block| block.at)
    }

    /// Whether a mistake at this position would be the first.
    pub fn is_first(&self, at: usize) -> bool {
        self.mistake.as_ref().is_none_or(|noted| noted.at > self.outside(at))
    }

    /// Records a mistake, unless there is an earlier one.
    pub fn note(&mut self, at: usize, text: impl Into<String>) {
        if self.is_first(at) {
            let inside = SyntaxError { at, text: text.into() };
            let outward = self.within.iter().rev();
            self.mistake = Some(outward.fold(inside, |inside, block| block.placed(&inside)));
        }
    }

    /// Records a mistake if the value can never be a whole number.
    pub fn note_count(&mut self, at: usize, value: &Expression) {
        let is_count = match value {
            Expression::Text(text) => text.trim().parse::<i64>().is_ok(),
            Expression::Exact(digits) => !digits.contains('.'),
            Expression::Float(_) | Expression::Bool(_) | Expression::Range(_) => false,
            _ => true,
        };
        if !is_count {
            self.note(at, "expected a whole number");
        }
    }

    /// Records a mistake if a name that is read is never assigned.
    fn check_names(&mut self) {
        let is_unknown =
            |name: &str| !self.is_own[self.names[name]] && self.known.object(name).is_none();
        let unknown = self.used.iter().find(|(_, name)| is_unknown(name));
        let Some((at, name)) = unknown.copied().filter(|_| !self.known.is_open) else { return };
        let own = self.names.iter().filter(|(_, number)| self.is_own[**number]);
        let text = self.known.unknown_object(name, own.map(|(name, _)| *name));
        self.note(at, text);
    }

    pub fn word(&mut self) -> ParseResult<(&'s str, usize)> {
        match self.lexer.next()? {
            (Token::Word(word), at) => Ok((word, at)),
            (token, at) => wrong(at, format!("expected a name, found {token}")),
        }
    }

    /// Consumes the next token if it equals `token`; returns whether it did.
    pub fn eat(&mut self, token: Token<'_>) -> ParseResult<bool> {
        let mut lookahead = self.lexer;
        let is_next = lookahead.next()?.0 == token;
        if is_next {
            self.lexer = lookahead;
        }
        Ok(is_next)
    }

    pub fn expect(&mut self, expected: Token<'static>) -> ParseResult<()> {
        match self.lexer.next()? {
            (token, _) if token == expected => Ok(()),
            (token, at) => {
                Err(SyntaxError { at, text: format!("expected {expected}, found {token}") })
            }
        }
    }

    pub fn close(&mut self) -> ParseResult<()> {
        match self.lexer.next()? {
            (Token::Close, _) => Ok(()),
            (token, at) => wrong(at, format!("{token} is not expected here")),
        }
    }
}

fn is_loop(name: &str) -> bool {
    matches!(name, "forloop" | "tablerowloop")
}

impl Expression {
    /// Whether the expression is a single word, which can be the name of an option.
    pub fn is_word(&self) -> bool {
        matches!(self, Self::Path(path) if path.steps.is_empty() && matches!(path.root, Root::Name(_)))
    }
}
