//! Parses the tags that read other data: `catalog_items`, `catalog_selection_items`,
//! `connected_content`.

use super::lex::{ParseResult, Token, wrong};
use super::names::Source;
use super::node::{Content, Items, Node, Part, Pattern, Wanted};
use super::parse::Parser;
use super::request::MAX_ITEMS;

/// Allowed values of `cache_max_age`, in seconds.
const MAX_AGES: std::ops::RangeInclusive<i64> = 300..=14_400;

/// Default of `cache_max_age` for a GET, in seconds.
const USUAL_AGE: u32 = 300;

/// Maximum number of headers in one tag.
const MAX_HEADERS: usize = 50;

impl<'s> Parser<'s> {
    /// `catalog_items catalog id …`
    pub fn catalog_items(&mut self) -> ParseResult<Node> {
        let (catalog, at) = self.literal("the name of a catalog")?;
        let mut ids = Vec::new();
        while !self.is_at_close()? {
            let id_at = self.lexer.position();
            if self.lexer.rest().starts_with(':') {
                return wrong(id_at, "`catalog_items` has no options");
            }
            if ids.len() == MAX_ITEMS {
                return wrong(id_at, format!("`catalog_items` takes at most {MAX_ITEMS} items"));
            }
            ids.push(self.word_pattern()?);
        }
        self.check_source(at, Source::Catalog(catalog));
        self.items(catalog, Wanted::Ids(ids), at)
    }

    /// `catalog_selection_items catalog selection`
    pub fn catalog_selection_items(&mut self) -> ParseResult<Node> {
        let (catalog, at) = self.literal("the name of a catalog")?;
        let (name, _) = self.literal("the name of a selection")?;
        self.check_source(at, Source::Selection { catalog, name });
        self.items(catalog, Wanted::Selection(name.into()), at)
    }

    fn items(&mut self, catalog: &str, wanted: Wanted, at: usize) -> ParseResult<Node> {
        let name = self.name("items", at)?;
        self.close()?;
        Ok(Node::Items(Box::new(Items { name, catalog: catalog.into(), wanted })))
    }

    /// `connected_content URL :option …`
    pub fn connected_content(&mut self) -> ParseResult<Node> {
        self.lexer.eat_space_and("");
        let at = self.lexer.position();
        let url = self.word_pattern()?;
        let (beginning, is_whole) = match &url[..] {
            [] => return wrong(at, "the URL is missing"),
            [Part::Text(text)] => (&**text, true),
            [Part::Text(text), ..] => (&**text, false),
            _ => ("", false),
        };
        self.check_source(at, Source::Address { beginning, is_whole });
        let mut content = Content {
            url,
            is_post: false,
            headers: Vec::new(),
            body: Pattern::new(),
            content_type: None,
            credential: None,
            max_age: None,
            retries: false,
            save: None,
            connected: 0,
        };
        let (mut max_age, mut is_cached) = (None, true);
        while !self.is_at_close()? {
            self.expect(Token::Mark(":"))?;
            let (option, at) = self.word()?;
            match option {
                "method" => {
                    let (method, at) = self.literal("`get` or `post`")?;
                    content.is_post = match method.to_ascii_lowercase().as_str() {
                        "get" => false,
                        "post" => true,
                        _ => return wrong(at, "`method` must be `get` or `post`"),
                    };
                }
                "headers" => content.headers = self.headers()?,
                "body" => content.body = self.body()?,
                "content_type" => content.content_type = Some(self.word_pattern()?),
                "basic_auth" | "auth_credentials" => {
                    let (name, at) = self.literal("the name of a credential")?;
                    self.check_source(at, Source::Credential(name));
                    content.credential = Some(name.into());
                }
                "save" => {
                    let (name, at) = self.word()?;
                    content.save = Some(self.name(name, at)?);
                }
                "cache_max_age" => match self.lexer.next()? {
                    (Token::Int(seconds), _) if MAX_AGES.contains(&seconds) => {
                        max_age = u32::try_from(seconds).ok();
                    }
                    (_, at) => {
                        let (min, max) = (MAX_AGES.start(), MAX_AGES.end());
                        return wrong(
                            at,
                            format!("`cache_max_age` must be {min} to {max} seconds"),
                        );
                    }
                },
                "no_cache" => is_cached = false,
                "retry" => content.retries = true,
                _ => {
                    return wrong(at, format!("`connected_content` has no option `:{option}`"));
                }
            }
        }
        self.close()?;
        let usual = (!content.is_post).then_some(USUAL_AGE);
        content.max_age = max_age.or(usual).filter(|_| is_cached);
        content.connected = self.name("connected", at)?;
        Ok(Node::Content(Box::new(content)))
    }

    /// `{ "name": "value", … }`
    fn headers(&mut self) -> ParseResult<Vec<(Pattern, Pattern)>> {
        let mut headers = Vec::new();
        self.eat_raw("{")?;
        while !self.lexer.eat_space_and("}") {
            if headers.len() == MAX_HEADERS {
                let text = format!("`headers` can have at most {MAX_HEADERS} headers");
                return wrong(self.lexer.position(), text);
            }
            let name = self.quoted_pattern()?;
            self.eat_raw(":")?;
            headers.push((name, self.quoted_pattern()?));
            if !self.lexer.eat_space_and(",") {
                self.eat_raw("}")?;
                break;
            }
        }
        Ok(headers)
    }

    /// Everything up to the next option.
    fn body(&mut self) -> ParseResult<Pattern> {
        let mut body = Pattern::new();
        self.lexer.eat_space_and("");
        loop {
            body.append(&mut self.pattern(|rest| rest.starts_with(char::is_whitespace))?);
            let from = self.lexer.position();
            let ends = self.is_at_close()? || {
                let option = self.lexer.rest().strip_prefix(':');
                option.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            };
            if ends {
                return Ok(body);
            }
            body.push(Part::Text(self.lexer.between(from).into()));
        }
    }

    /// A word, unchanged and without quotes around it.
    fn literal(&mut self, expected: &str) -> ParseResult<(&'s str, usize)> {
        self.lexer.eat_space_and("");
        let at = self.lexer.position();
        let word = self.lexer.raw_until(|rest| rest.starts_with(char::is_whitespace));
        match word.trim_matches(['\'', '"']) {
            "" => wrong(at, format!("expected {expected}")),
            word => Ok((word, at)),
        }
    }

    /// A word, or a string in quotes; both can contain `{{ … }}`.
    fn word_pattern(&mut self) -> ParseResult<Pattern> {
        self.lexer.eat_space_and("");
        if self.lexer.rest().starts_with(['"', '\'']) {
            self.quoted_pattern()
        } else {
            self.pattern(|rest| rest.starts_with(char::is_whitespace))
        }
    }

    fn quoted_pattern(&mut self) -> ParseResult<Pattern> {
        self.lexer.eat_space_and("");
        let at = self.lexer.position();
        let Some(quote) = self.lexer.rest().chars().next().filter(|c| matches!(c, '"' | '\''))
        else {
            return wrong(at, "expected a string in quotes");
        };
        let mut buffer = [0; 4];
        let mark = quote.encode_utf8(&mut buffer);
        self.lexer.eat(mark);
        let pattern = self.pattern(|rest| rest.starts_with(quote))?;
        if self.lexer.eat(mark) { Ok(pattern) } else { wrong(at, "the string is not closed") }
    }

    /// Unchanged text with values in it.
    fn pattern(&mut self, is_end: impl Fn(&str) -> bool) -> ParseResult<Pattern> {
        let mut parts = Pattern::new();
        loop {
            let text = self.lexer.raw_until(&is_end);
            if !text.is_empty() {
                parts.push(Part::Text(text.into()));
            }
            if !self.lexer.rest().starts_with("{{") {
                return Ok(parts);
            }
            self.expect(Token::Mark("{{"))?;
            let value = self.chain()?;
            self.expect(Token::Mark("}}"))?;
            parts.push(Part::Value(value));
        }
    }

    fn eat_raw(&mut self, mark: &str) -> ParseResult<()> {
        if self.lexer.eat_space_and(mark) {
            Ok(())
        } else {
            wrong(self.lexer.position(), format!("expected `{mark}`"))
        }
    }

    /// Whether nothing but the end of the tag follows.
    fn is_at_close(&mut self) -> ParseResult<bool> {
        self.lexer.eat_space_and("");
        if self.lexer.is_at_close() {
            Ok(true)
        } else if self.lexer.rest().is_empty() {
            // `peek` returns the error that names the unclosed markup.
            self.lexer.peek().map(|_| true)
        } else {
            Ok(false)
        }
    }

    /// Records a mistake if the template cannot use the source.
    fn check_source(&mut self, at: usize, source: Source<'_>) {
        if let Some(Err(text)) = self.known.sources.map(|sources| sources.check(source)) {
            self.has_unknown_source = true;
            self.note(at, text);
        }
    }
}
