//! Formats of texts: clients refuse a whole list if a value in it does not have its format.

use std::sync::LazyLock;

use regex::Regex;
use url::Url;

use gateway::formats::CONTROLS;
use kit::words::MAX_LABEL;

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Any,
    Email,
    /// A URL with `http` or `https`.
    Url,
    /// A URI, or a reference that is relative to one.
    Reference,
}

static EMAIL: LazyLock<Regex> = LazyLock::new(|| compiled(&email_pattern()));
static URL: LazyLock<Regex> = LazyLock::new(|| compiled(&url_pattern()));
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| compiled(&reference_pattern()));

impl Format {
    /// The pattern of texts with this format; the empty string is no value.
    pub fn pattern(self) -> String {
        match self {
            Self::Any => format!("^[^{CONTROLS}]*$"),
            Self::Email => email_pattern(),
            Self::Url => url_pattern(),
            Self::Reference => reference_pattern(),
        }
    }

    /// Checks a text that is not empty.
    pub fn check(self, text: &str) -> Result<(), &'static str> {
        let (is_valid, expected) = match self {
            Self::Any => return Ok(()),
            Self::Email => (EMAIL.is_match(text), "expected an email address"),
            Self::Url => (
                URL.is_match(text) && Url::parse(text).is_ok(),
                "expected a URL that begins with http:// or https://, without spaces",
            ),
            Self::Reference => (REFERENCE.is_match(text), "expected a URI, without spaces"),
        };
        if is_valid { Ok(()) } else { Err(expected) }
    }
}

/// A pattern in the syntax of JSON Schema, as a regular expression.
fn compiled(pattern: &str) -> Regex {
    let pattern = pattern.replace(r"\u0000", r"\x00").replace(r"\u00", r"\x");
    Regex::new(&pattern).expect("the pattern is constant")
}

fn email_pattern() -> String {
    let atom = format!(r#"[^\s{CONTROLS}"(),.:;<>@\[\\\]]+"#);
    let inside = format!(r"[^\s{CONTROLS}!-,./:-@\[-`{{-~]");
    let end = format!(r"[^\s{CONTROLS}!-/:-@\[-`{{-~]");
    let max_inside = MAX_LABEL - 2;
    let label = format!("{end}(?:{inside}{{0,{max_inside}}}{end})?");
    format!(r"^(?:{atom}(?:\.{atom})*@{label}(?:\.{label})+)?$")
}

/// Characters of a URI's path or query, or its fragment (RFC 3986).
const PART: &str = "(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*";

fn url_pattern() -> String {
    const LABEL: &str = "[A-Za-z0-9_-]+";
    // If the last label is a number, the host is an IPv4 address.
    const LAST: &str = "(?:[A-Za-z_-]|[0-9]+[A-WYZa-wyz_-])[A-Za-z0-9_-]*";
    const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    // An IPv6 address with all groups, or with a gap.
    const GROUP: &str = "[0-9A-Fa-f]{1,4}";
    const PORT: &str =
        "(?:[1-5]?[0-9]{1,4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
    let few = format!("(?:{GROUP}(?::{GROUP}){{0,2}})?");
    let ipv6 = format!(r"\[(?:(?:{GROUP}:){{7}}{GROUP}|{few}::{few})\]");
    let host = format!(r"(?:(?:{LABEL}\.)*{LAST}|(?:{BYTE}\.){{3}}{BYTE}|{ipv6})");
    format!("^(?:[hH][tT][tT][pP][sS]?://{host}(?::{PORT})?(?:[/?]{PART})?(?:#{PART})?)?$")
}

fn reference_pattern() -> String {
    format!("^{PART}(?:#{PART})?$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_formats() {
        for (format, good, bad) in [
            (
                Format::Email,
                &["ann@acme.example", "a.b+c@xn--bcher-kva.example", "ann@bücher.example"][..],
                &[
                    "ann",
                    "ann@",
                    "@acme.example",
                    "a n@acme.example",
                    "ann@acme",
                    "a..b@acme.example",
                ][..],
            ),
            (
                Format::Url,
                &[
                    "https://acme.example",
                    "HTTP://acme.example:8080/a%20b?c=d#e",
                    "https://10.0.0.1/",
                    "https://acme.example:65535/a",
                    "https://[2001:db8::1]:18391/a",
                ],
                &[
                    "acme",
                    "/users/ann",
                    "ftp://acme.example/",
                    "https://",
                    "https:acme.example",
                    "https://acme.example/a b",
                    "https://acme.example/%zz",
                    "https://acme.example/\u{e9}",
                    "https://1.2.3.999/",
                    "https://acme.example:65536/",
                    "javascript:alert(1)",
                ],
            ),
            (
                Format::Reference,
                &["../Users/26118915", "https://acme.example/scim/v2/Users/1", "urn:x:1"],
                &["a b", "a\\b", "%", "a#b#c", "<a>"],
            ),
        ] {
            for text in good {
                assert_eq!(format.check(text), Ok(()), "{text}");
            }
            for text in bad {
                assert!(format.check(text).is_err(), "{format:?} {text}");
            }
        }
        assert_eq!(Format::Any.check("a b"), Ok(()));
    }
}
