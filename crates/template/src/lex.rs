//! Splits a source into text and markup, and markup into tokens. Reads each byte only a few times,
//! whatever the source is.

use std::fmt;

use kit::json::compare_numbers;

/// Maximum characters of a field's name.
const MAX_NAME: usize = 255;

/// Maximum characters of a number.
const MAX_NUMBER: usize = 400;

/// An error, and its byte position.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub at: usize,
    pub text: String,
}

pub(super) type ParseResult<T> = Result<T, SyntaxError>;

pub(super) fn wrong<T>(at: usize, text: impl Into<String>) -> ParseResult<T> {
    Err(SyntaxError { at, text: text.into() })
}

/// The markup that ends a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    /// `{{`
    Print,
    /// `{%`
    Tag,
    /// A line of a `liquid` tag.
    Line,
    /// The end of the source.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'s> {
    Word(&'s str),
    /// `${…}`
    Field(&'s str),
    /// A string in quotes; it cannot contain its own quote.
    Text(&'s str),
    Int(i64),
    Float(f64),
    /// A number that neither of them has exactly.
    Exact(&'s str),
    Mark(&'static str),
    /// `}}`, `%}` or the end of a line, whichever was opened.
    Close,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| kit::words::beginning(text, 40).into_owned();
        match self {
            Self::Word(word) => write!(f, "`{}`", short(word)),
            Self::Field(name) => write!(f, "`${{{}}}`", short(name)),
            Self::Text(text) => write!(f, "the string `{}`", short(text)),
            Self::Int(int) => write!(f, "`{int}`"),
            Self::Float(float) => write!(f, "`{float}`"),
            Self::Exact(digits) => write!(f, "`{}`", short(digits)),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::Close => f.write_str("the end"),
        }
    }
}

/// If one mark begins with another one, the longer one comes first.
const MARKS: [&str; 18] = [
    "{{", "==", "!=", "<>", "<=", ">=", "..", "<", ">", "=", "|", ":", ",", ".", "[", "]", "(", ")",
];

/// Cheap to copy: lookahead lexes a copy.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
    /// Where lexing stops: inside a `liquid` tag, before the end of the source.
    end: usize,
    /// Whether each line is a tag.
    is_lines: bool,
    /// The markup that was opened, and its position.
    opener: Opener,
    /// The position of the opener.
    opened_at: usize,
    /// Number of `{{` within the markup that are not closed yet.
    inner: usize,
    /// Whether `-}}` came before, so that white space is dropped.
    trims: bool,
}

impl<'s> Lexer<'s> {
    pub fn new(source: &'s str) -> Self {
        let (end, opener) = (source.len(), Opener::End);
        Self { source, at: 0, end, is_lines: false, opener, opened_at: 0, inner: 0, trims: false }
    }

    /// The position of the next token or text.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The position where the current markup was opened.
    pub fn opened_at(&self) -> usize {
        self.opened_at
    }

    /// Reads the text up to the next markup, and opens that markup.
    pub fn text(&mut self) -> (&'s str, Opener) {
        if self.is_lines {
            return ("", self.line());
        }
        let rest = self.rest();
        let open = |at: &usize| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%'));
        let end = rest.match_indices('{').map(|(at, _)| at).find(open);
        let mut text = &rest[..end.unwrap_or(rest.len())];
        if self.trims {
            text = text.trim_start();
        }
        self.trims = false;
        let Some(end) = end else {
            self.at = self.end;
            (self.opener, self.opened_at) = (Opener::End, self.at);
            return (text, Opener::End);
        };
        let opener = if rest[end + 1..].starts_with('{') { Opener::Print } else { Opener::Tag };
        (self.opener, self.opened_at) = (opener, self.at + end);
        self.at += end + 2;
        if self.eat("-") {
            text = text.trim_end();
        }
        (text, opener)
    }

    /// Skips to the next line that is not blank, and opens it.
    fn line(&mut self) -> Opener {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let opener = if self.at == self.end { Opener::End } else { Opener::Line };
        (self.opener, self.opened_at) = (opener, self.at);
        opener
    }

    /// The lines of a `liquid` tag; consumes the tag.
    pub fn lines(&mut self) -> ParseResult<Self> {
        let (from, rest) = (self.at, self.rest());
        let (length, trims) = if self.opener == Opener::Line {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else {
            self.skip_to_close()?;
            (self.at - from - "%}".len() - usize::from(self.trims), self.trims)
        };
        let end = from + length;
        if self.opener == Opener::Line {
            self.at = end;
        }
        Ok(Self { at: from, end, is_lines: true, trims, ..*self })
    }

    /// The next token of the current markup, and its position.
    pub fn next(&mut self) -> ParseResult<(Token<'s>, usize)> {
        self.eat_space_and("");
        let (rest, at) = (self.rest(), self.at);
        if self.opener == Opener::Line && (rest.is_empty() || rest.starts_with('\n')) {
            return Ok((Token::Close, at));
        }
        if self.inner > 0 && rest.starts_with("}}") {
            self.inner -= 1;
            return Ok((self.mark("}}"), at));
        }
        let Some(first) = rest.chars().next() else {
            let opener = if self.opener == Opener::Print { "{{" } else { "{%" };
            return wrong(self.opened_at, format!("`{opener}` is not closed"));
        };
        if let Some(length) = self.close() {
            self.trims = rest.starts_with('-');
            self.at += length;
            return Ok((Token::Close, at));
        }
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => Token::Word(self.word()),
            '"' | '\'' => self.quoted(first)?,
            '0'..='9' => self.number()?,
            '-' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => self.number()?,
            '$' if rest[1..].starts_with('{') => self.field()?,
            _ => match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => {
                    self.inner += usize::from(*mark == "{{");
                    self.mark(mark)
                }
                None => return wrong(at, format!("`{first}` is not expected here")),
            },
        };
        Ok((token, at))
    }

    /// The next token, without consuming it.
    pub fn peek(&self) -> ParseResult<(Token<'s>, usize)> {
        let mut lookahead = *self;
        lookahead.next()
    }

    /// The length of the closing mark in bytes, if it is next.
    fn close(&self) -> Option<usize> {
        let close = match self.opener {
            Opener::Print => "}}",
            Opener::Tag => "%}",
            Opener::Line | Opener::End => return None,
        };
        let rest = self.rest();
        match rest.strip_prefix('-') {
            Some(rest) => rest.starts_with(close).then_some(3),
            None => rest.starts_with(close).then_some(2),
        }
    }

    fn word(&mut self) -> &'s str {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut end = 0;
        while let Some(byte) = bytes.get(end) {
            let ends = bytes[end..].starts_with(b"-}}") || bytes[end..].starts_with(b"-%}");
            if ends || !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
                break;
            }
            end += 1;
        }
        end += usize::from(bytes.get(end) == Some(&b'?'));
        self.at += end;
        &rest[..end]
    }

    fn quoted(&mut self, quote: char) -> ParseResult<Token<'s>> {
        let rest = &self.rest()[1..];
        let Some(end) = rest.find(quote) else {
            return wrong(self.at, "the string is not closed");
        };
        self.at += end + 2;
        Ok(Token::Text(&rest[..end]))
    }

    fn number(&mut self) -> ParseResult<Token<'s>> {
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let integer_end = usize::from(rest.starts_with('-'));
        let integer_end = integer_end + digits(&rest[integer_end..]);
        let fraction = rest[integer_end..].strip_prefix('.').map_or(0, digits);
        let end = if fraction == 0 { integer_end } else { integer_end + 1 + fraction };
        let number = &rest[..end];
        let at = self.at;
        self.at += end;
        if let Ok(int) = number.parse() {
            return Ok(Token::Int(int));
        }
        let float = number.parse().ok().filter(|float: &f64| float.is_finite());
        let Some(float) = float.filter(|_| number.len() <= MAX_NUMBER) else {
            return wrong(at, "the number is too large");
        };
        let is_float = fraction > 0 && compare_numbers(&format!("{float:?}"), number).is_eq();
        Ok(if is_float { Token::Float(float) } else { Token::Exact(number) })
    }

    fn field(&mut self) -> ParseResult<Token<'s>> {
        let rest = &self.rest()[2..];
        let Some(end) = rest.find('}') else {
            return wrong(self.at, "`${` is not closed");
        };
        let name = rest[..end].trim();
        if name.is_empty() {
            return wrong(self.at, "`${}` has no name");
        }
        if name.chars().nth(MAX_NAME).is_some() {
            return wrong(self.at, format!("a name can have at most {MAX_NAME} characters"));
        }
        self.at += end + 3;
        Ok(Token::Field(name))
    }

    fn mark(&mut self, mark: &'static str) -> Token<'s> {
        self.at += mark.len();
        Token::Mark(mark)
    }

    /// Skips to the tag that ends an ignored block, and consumes it. A raw block inside of a
    /// comment does not end the comment.
    pub fn skip_to(&mut self, name: &str, nests: bool) -> ParseResult<&'s str> {
        let opened_at = self.opened_at;
        let from = self.at;
        let end_name = format!("end{name}");
        let mut depth = 1;
        while self.is_lines && depth > 0 && self.line() == Opener::Line {
            let word = self.word();
            if word == end_name {
                depth -= 1;
            } else {
                depth += usize::from(nests && word == name);
                self.skip_to_close()?;
            }
        }
        if self.is_lines && depth == 0 {
            return Ok("");
        }
        while let Some(offset) = self.rest().find("{%") {
            let end = self.at + offset;
            (self.opener, self.opened_at) = (Opener::Tag, end);
            self.at = end + 2;
            self.eat("-");
            self.eat_space_and("");
            let word = self.word();
            if nests && word == name {
                depth += 1;
            } else if nests && word == "raw" {
                self.skip_to("raw", false)?;
            } else if word == end_name {
                depth -= 1;
            }
            if depth > 0 {
                continue;
            }
            let (token, at) = self.next()?;
            if token != Token::Close {
                return wrong(at, format!("`{end_name}` takes no arguments"));
            }
            return Ok(&self.source[from..end]);
        }
        wrong(opened_at, format!("`{name}` is not closed by `{end_name}`"))
    }

    /// Skips to the end of the tag or the line.
    pub fn skip_to_close(&mut self) -> ParseResult<()> {
        if self.opener == Opener::Line {
            let rest = self.rest();
            self.at += rest.find('\n').unwrap_or(rest.len());
            return Ok(());
        }
        let Some(offset) = self.rest().find("%}") else {
            return wrong(self.opened_at, "`{%` is not closed");
        };
        self.trims = self.rest()[..offset].ends_with('-');
        self.at += offset + 2;
        Ok(())
    }

    /// Consumes the text if it comes next.
    pub fn eat(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    /// Consumes the text if it comes next after white space.
    pub fn eat_space_and(&mut self, text: &str) -> bool {
        let rest = self.rest();
        let is_line = self.opener == Opener::Line;
        let is_space = |c: char| c.is_whitespace() && !(is_line && c == '\n');
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
        self.eat(text)
    }

    /// The source text up to the end of the markup, `{{`, or the first position where `is_end` is
    /// true.
    pub fn raw_until(&mut self, is_end: impl Fn(&str) -> bool) -> &'s str {
        let (from, is_line) = (self.at, self.opener == Opener::Line);
        while let Some(next) = self.rest().chars().next() {
            let ends = self.close().is_some() || is_line && next == '\n';
            if ends || self.rest().starts_with("{{") || is_end(self.rest()) {
                break;
            }
            self.at += next.len_utf8();
        }
        self.between(from)
    }

    /// Whether the closing mark of the markup is next.
    pub fn is_at_close(&self) -> bool {
        let rest = self.rest();
        let ends_line = rest.is_empty() || rest.starts_with('\n');
        self.close().is_some() || self.opener == Opener::Line && ends_line
    }

    /// The source from that position to the current one.
    pub fn between(&self, from: usize) -> &'s str {
        &self.source[from..self.at]
    }

    /// The rest of the source.
    pub fn rest(&self) -> &'s str {
        &self.source[self.at..self.end]
    }
}
