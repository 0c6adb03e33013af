//! Writes header fields (RFC 5322) so that every reader sees exactly the given text.
//!
//! A text is encoded (RFC 2047) if it has other characters than printable ASCII, words that are too
//! long for a line, or anything that readers could take for an encoded word: a text from a
//! profile must not decode to something else.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lettre::message::Mailbox;
use lettre::message::header::{HeaderName, HeaderValue};

/// The preferred and the maximum length of a line, without its end (RFC 5322, 2.1.1).
const LINE: usize = 78;
const MAX_LINE: usize = 998;

/// The maximum length of an encoded word (RFC 2047, 2), and what surrounds its text.
const ENCODED_WORD: usize = 75;
const PREFIX: &str = "=?utf-8?b?";
const SUFFIX: &str = "?=";

/// A header with a text for people, in one line and without control characters.
pub fn text(name: HeaderName, text: &str) -> HeaderValue {
    let column = name.len() + ": ".len();
    let longest = LINE - column.min(LINE / 2);
    field(name, text, written(column, text, longest))
}

/// A header whose value may be for programs: a long word is encoded only if no line can have it.
pub fn custom(name: HeaderName, value: &str) -> HeaderValue {
    let column = name.len() + ": ".len();
    field(name, value, written(column, value, MAX_LINE - column))
}

/// A header with an address, and the name before it.
pub fn mailbox(name: &'static str, mailbox: &Mailbox) -> HeaderValue {
    let column = name.len() + ": ".len();
    let address: &str = mailbox.email.as_ref();
    let phrase = mailbox.name.as_deref().map(str::trim).filter(|phrase| !phrase.is_empty());
    let value = match phrase {
        None => address.to_owned(),
        Some(phrase) => {
            let mut value = self::phrase(column, phrase);
            let address = format!("<{address}>");
            let last_line = match value.rsplit_once("\r\n") {
                Some((_, last)) => last.len(),
                None => column + value.len(),
            };
            value.push_str(separator(last_line, &address));
            value.push_str(&address);
            value
        }
    };
    field(HeaderName::new_from_ascii_str(name), &mailbox.to_string(), value)
}

fn field(name: HeaderName, raw: &str, value: String) -> HeaderValue {
    HeaderValue::dangerous_new_pre_encoded(name, raw.to_owned(), value)
}

/// The text, folded if all of its words are plain and have at most `longest` characters, else
/// encoded. `column` is where it begins in its line.
fn written(column: usize, text: &str, longest: usize) -> String {
    let is_short = || text.split(' ').all(|word| word.len() <= longest);
    // Readers may change several blanks where a line is folded.
    let can_fold = || column + text.len() <= LINE || !text.contains("  ");
    if is_plain(text) && is_short() && can_fold() {
        folded(column, text)
    } else {
        encoded(column, text)
    }
}

/// Whether readers show the text unchanged in a header.
fn is_plain(text: &str) -> bool {
    let is_ascii = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_ascii && !text.contains("=?") && !text.starts_with(' ') && !text.ends_with(' ')
}

/// The name of an address: words as they are, a quoted string, or encoded.
fn phrase(column: usize, name: &str) -> String {
    let is_atom = |word: &str| {
        let special = b"!#$%&'*+-/=?^_`{|}~";
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || special.contains(&byte);
        (1..=LINE / 2).contains(&word.len()) && word.bytes().all(plain)
    };
    if is_plain(name) && name.split(' ').all(is_atom) {
        return folded(column, name);
    }
    let quoted = format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    if is_plain(name) && column + quoted.len() <= LINE { quoted } else { encoded(column, name) }
}

/// What comes before a word: a blank, or a new line that begins with one.
fn separator(column: usize, word: &str) -> &'static str {
    if column + 1 + word.len() > LINE { "\r\n " } else { " " }
}

fn folded(mut column: usize, text: &str) -> String {
    let mut value = String::with_capacity(text.len() + text.len() / 16);
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            let separator = separator(column, word);
            value.push_str(separator);
            column = if separator == " " { column + 1 } else { 1 };
        }
        value.push_str(word);
        column += word.len();
    }
    value
}

/// The text as encoded words, each in its own line, with whole characters in each.
fn encoded(mut column: usize, text: &str) -> String {
    let (mut value, mut rest) = (String::with_capacity(2 * text.len()), text);
    while !rest.is_empty() {
        let length = (LINE.saturating_sub(column)).min(ENCODED_WORD);
        let bytes = length.saturating_sub(PREFIX.len() + SUFFIX.len()) / 4 * 3;
        // A character that does not fit next to a long name goes there nonetheless.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let (word, remaining) = rest.split_at(rest.floor_char_boundary(bytes).max(first));
        if !value.is_empty() {
            value.push_str("\r\n ");
        }
        value.push_str(PREFIX);
        BASE64_STANDARD.encode_string(word, &mut value);
        value.push_str(SUFFIX);
        (rest, column) = (remaining, 1);
    }
    value
}

#[cfg(test)]
mod tests {
    use lettre::message::header::Headers;
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> HeaderName {
        HeaderName::new_from_ascii(text.to_owned()).unwrap()
    }

    /// The lines of a header as it is sent.
    fn lines(header: HeaderValue) -> Vec<String> {
        let mut headers = Headers::new();
        headers.insert_raw(header);
        let text = headers.to_string();
        let text = text.strip_suffix("\r\n").unwrap();
        assert!(text.is_ascii() && !text.replace("\r\n ", "").contains(['\r', '\n']), "{text:?}");
        text.split("\r\n").map(str::to_owned).collect()
    }

    /// The text that a reader sees.
    fn read(lines: &[String]) -> String {
        let value = lines.concat();
        let (_, value) = value.split_once(": ").unwrap();
        let (mut bytes, mut was_encoded) = (Vec::new(), false);
        for (index, word) in value.split(' ').enumerate() {
            let inner = word.strip_prefix(PREFIX).and_then(|word| word.strip_suffix(SUFFIX));
            let decoded = inner.map(|inner| {
                assert!(word.len() <= ENCODED_WORD + 25, "{word}");
                // Each encoded word has whole characters.
                String::from_utf8(BASE64_STANDARD.decode(inner).unwrap()).unwrap()
            });
            if index > 0 && !(was_encoded && decoded.is_some()) {
                bytes.push(b' ');
            }
            was_encoded = decoded.is_some();
            bytes.extend(decoded.unwrap_or_else(|| word.to_owned()).bytes());
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn plain_texts_stay_readable() {
        for plain in ["", "Hello Ann", "5 < 6? a=b, \"c\"", "a  b"] {
            assert_eq!(lines(text(name("Subject"), plain)), [format!("Subject: {plain}")]);
        }
        let long = "word ".repeat(40);
        let folded = lines(text(name("Subject"), long.trim_end()));
        assert!(folded.len() == 3 && folded.iter().all(|line| line.len() <= LINE), "{folded:?}");
        assert_eq!(read(&folded), long.trim_end());
        // Programs may read it.
        let json = format!("{{\"a\":\"{}\"}}", "x".repeat(800));
        assert_eq!(lines(custom(name("X-Data"), &json)), [format!("X-Data: {json}")]);
    }

    #[test]
    fn long_words_and_words_that_look_encoded_are_encoded() {
        for given in [
            "x".repeat(1_119),
            "=?utf-8?Q?a=0D=0ABcc:_b@c.example?=".into(),
            "Hello =?utf-8?b?QQ==?= there".into(),
            "Grüße".into(),
            " a".into(),
            "a ".into(),
            format!("a{}b", " ".repeat(80)),
        ] {
            let lines = lines(text(name("Subject"), &given));
            assert!(lines[0].starts_with("Subject: =?utf-8?b?"), "{lines:?}");
            assert!(lines.iter().all(|line| line.len() <= LINE), "{lines:?}");
            assert_eq!(read(&lines), given);
        }
        let long = custom(name("X-Data"), &"x".repeat(MAX_LINE - 7));
        assert!(lines(long)[0].len() <= LINE);
    }

    #[test]
    fn names_of_addresses_are_words_quoted_or_encoded() {
        let written = |name: &str| {
            let email = "a@b.example".parse().unwrap();
            lines(mailbox("From", &Mailbox { name: Some(name.into()), email })).join("|")
        };
        for (name, expected) in [
            ("", "From: a@b.example"),
            ("Acme", "From: Acme <a@b.example>"),
            ("Acme Inc", "From: Acme Inc <a@b.example>"),
            ("Acme, Inc. \"A\\B\"", r#"From: "Acme, Inc. \"A\\B\"" <a@b.example>"#),
            ("Ännä", "From: =?utf-8?b?w4RubsOk?= <a@b.example>"),
            ("=?utf-8?Q?x?=", "From: =?utf-8?b?PT91dGYtOD9RP3g/PQ==?= <a@b.example>"),
        ] {
            assert_eq!(written(name), expected);
        }
        let long = written(&"x".repeat(1_000));
        assert!(long.split('|').all(|line| line.len() <= LINE), "{long}");
    }

    /// Texts with everything that headers are sensitive to.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-z]{1,12} ",
            "[!-~]{1,30}",
            "x{60,200}",
            " {1,3}",
            "\\PC{0,8}",
            Just("=?".to_owned()),
            Just("?=".to_owned()),
            Just("=?utf-8?q?a=0D=0Ab?=".to_owned()),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was_given(given in texts(), length in 1_usize..70) {
            let name = name(&"X".repeat(length));
            let text_lines = lines(text(name.clone(), &given));
            prop_assert!(text_lines.iter().all(|line| line.len() <= 110), "{:?}", text_lines);
            prop_assert!(length > 30 || text_lines.iter().all(|line| line.len() <= LINE));
            prop_assert_eq!(read(&text_lines), given.clone());
            let custom_lines = lines(custom(name, &given));
            prop_assert!(custom_lines.iter().all(|line| line.len() <= MAX_LINE));
            prop_assert_eq!(read(&custom_lines), given);
        }

        #[test]
        fn every_name_of_an_address_is_written(given in texts()) {
            let email = "a@b.example".parse().unwrap();
            let name = Some(given.clone());
            let written = lines(mailbox("Reply-To", &Mailbox { name, email }));
            prop_assert!(written.iter().all(|line| line.len() <= LINE), "{:?}", written);
            let shown = match written.concat().strip_prefix("Reply-To: \"") {
                Some(quoted) => {
                    let (phrase, address) = quoted.rsplit_once('"').unwrap();
                    let phrase = phrase.replace("\\\"", "\"").replace("\\\\", "\\");
                    format!("{phrase}{address}")
                }
                None => read(&written),
            };
            let expected = match given.trim() {
                "" => "a@b.example".to_owned(),
                name => format!("{name} <a@b.example>"),
            };
            prop_assert_eq!(shown, expected);
        }
    }
}
