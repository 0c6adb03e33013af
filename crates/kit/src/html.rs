//! Converts HTML to plain text, for mail programs that show no HTML.

use html_escape::decode_html_entities;

/// Elements whose content is not shown.
const HIDDEN_ELEMENTS: [&str; 5] = ["head", "script", "style", "template", "title"];

/// Elements that begin on a new line.
const BLOCK_ELEMENTS: [&str; 19] = [
    "address",
    "article",
    "blockquote",
    "div",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "p",
    "section",
    "table",
    "tr",
    "ul",
];

/// The text, with trimmed lines and without consecutive empty lines. The URL of a link follows the
/// link's text, in parentheses. An image is its `alt` text.
pub fn html_to_text(html: &str) -> String {
    let mut text = Text::default();
    let mut rest = html;
    // No tag follows: the rest is not searched for an end again.
    let bytes_from_last_tag = html.rfind('>').map_or(html.len(), |end| html.len() - end);
    let has_tag = |rest: &str, start: &usize| rest.len() - start >= bytes_from_last_tag;
    while let Some(start) = rest.find('<').filter(|start| has_tag(rest, start)) {
        text.push(&rest[..start]);
        rest = &rest[start..];
        let Some((tag, after_tag)) = tag(rest) else {
            // A `<` that begins no tag.
            text.push("<");
            rest = &rest[1..];
            continue;
        };
        rest = after_tag;
        let (is_end, name) = name(tag);
        match name.as_str() {
            hidden if HIDDEN_ELEMENTS.contains(&hidden) && !is_end => {
                rest = after_end_tag(rest, hidden)
            }
            "br" => text.end_line(),
            "td" | "th" => text.push(" "),
            "img" => text.push_plain(&attribute(tag, "alt").unwrap_or_default()),
            "a" if is_end => text.end_link(),
            "a" => text.link = attribute(tag, "href"),
            block if BLOCK_ELEMENTS.contains(&block) => text.end_paragraph(),
            _ => {}
        }
    }
    text.push(rest);
    text.end_line();
    let lines = text.lines.join("\n");
    lines.trim_matches('\n').to_owned()
}

#[derive(Default)]
struct Text {
    lines: Vec<String>,
    line: String,
    link: Option<String>,
}

impl Text {
    fn push(&mut self, html: &str) {
        self.push_plain(&decode_html_entities(html));
    }

    fn push_plain(&mut self, text: &str) {
        for c in text.chars() {
            let is_blank = c.is_whitespace() || c.is_control();
            if !is_blank {
                self.line.push(c);
            } else if !self.line.is_empty() && !self.line.ends_with(' ') {
                self.line.push(' ');
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line).trim_end().to_owned();
        let is_second = line.is_empty() && self.lines.last().is_some_and(String::is_empty);
        if !is_second {
            self.lines.push(line);
        }
    }

    fn end_paragraph(&mut self) {
        if !self.line.trim().is_empty() {
            self.end_line();
        }
    }

    fn end_link(&mut self) {
        let link =
            self.link.take().filter(|link| link.contains("://") && !self.line.ends_with(link));
        if let Some(link) = link {
            self.push_plain(&format!(" ({link})"));
        }
    }
}

/// Splits off the tag at the beginning: the text between `<` and `>`, and the rest. Comments count
/// as tags.
fn tag(html: &str) -> Option<(&str, &str)> {
    if let Some(comment) = html.strip_prefix("<!--") {
        return Some(("", comment.split_once("-->").map_or("", |(_, after)| after)));
    }
    let inside = &html[1..];
    inside.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)).then_some(())?;
    inside.split_once('>')
}

/// Whether it is an end tag, and the element's name.
fn name(tag: &str) -> (bool, String) {
    let is_end = tag.starts_with('/');
    let name = tag.trim_start_matches('/');
    let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
    (is_end, name[..end].to_ascii_lowercase())
}

/// The text after the end tag of an element whose content is skipped.
fn after_end_tag<'a>(html: &'a str, element: &str) -> &'a str {
    let mut rest = html;
    while let Some((_, end_tag)) = rest.split_once("</") {
        let is_same_element =
            end_tag.get(..element.len()).is_some_and(|name| name.eq_ignore_ascii_case(element));
        if is_same_element {
            return end_tag.split_once('>').map_or("", |(_, after)| after);
        }
        rest = end_tag;
    }
    ""
}

/// The value of a start tag's attribute; empty if it has none.
fn attribute(tag: &str, wanted: &str) -> Option<String> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '/';
    let mut rest = &tag[tag.find(is_space)?..];
    loop {
        rest = rest.trim_start_matches(is_space);
        // A `=` at the beginning is part of the name, as browsers read it.
        let mut characters = rest.char_indices();
        characters.next()?;
        let end = characters.find(|&(_, c)| is_space(c) || c == '=').map(|(end, _)| end);
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let (value, after) = match after.trim_ascii_start().strip_prefix('=') {
            None => ("", after),
            Some(value) => split_value(value.trim_ascii_start()),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(decode_html_entities(value).trim().to_owned());
        }
        rest = after;
    }
}

/// Splits off an attribute's value, which may be quoted.
fn split_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(value) = text.strip_prefix(quote) {
            return value.split_once(quote).unwrap_or((value, ""));
        }
    }
    text.split_at(text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_text_contains_the_visible_text() {
        for (html, text) in [
            ("", ""),
            ("Hello", "Hello"),
            ("<p>Hello  <b>Ann</b>,</p>\n<p>bye</p>", "Hello Ann,\nbye"),
            ("a<br>b<BR/>c", "a\nb\nc"),
            ("a<br><br><br>b", "a\n\nb"),
            ("<style>p > a { }</style><title>x</title>seen<!-- not > -->!", "seen!"),
            ("<script>if (1 < 2) '</p>'</script>x", "x"),
            ("<ul><li>one<li>two</ul>", "one\ntwo"),
            ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
            (
                "1 < 2 &amp;&lt;b&gt; &#233;&#xe9; &unknown; & &#xffffffff;",
                "1 < 2 &<b> éé &unknown; & &#xffffffff;",
            ),
            (
                "<a href=\"https://e.example/?a=1&amp;b=2\">here</a>.",
                "here (https://e.example/?a=1&b=2).",
            ),
            ("<a class=x href='https://e.example'>https://e.example</a>", "https://e.example"),
            ("<a href=#top>up</a>", "up"),
            ("d&eacute;j&agrave; vu &rarr; 5&nbsp;&euro; &#1; &amp;lt;", "déjà vu → 5 € &#1; &lt;"),
            ("<img src=x alt=\"A caf&eacute;\"><img alt=''><img src=y>!", "A café!"),
            ("<img\tsrc=x\nALT = 'a'><img title=\"set alt=no\" alt=b><img alt><img/alt=c>", "abc"),
            ("<a =href=x href='https://e.example/'>x</a><a href>y</a>", "x (https://e.example/)y"),
            ("<p", "<p"),
            ("<style>", ""),
        ] {
            assert_eq!(html_to_text(html), text, "{html}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(html in "([<>/&;#!a-z\"'= é\n-]|<a href=|<style>|</style>|&#x|<!--){0,40}") {
            let text = html_to_text(&html);
            prop_assert!(text.len() <= 2 * html.len() + 8);
        }
    }
}
