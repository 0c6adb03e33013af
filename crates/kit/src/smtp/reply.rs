//! Replies of a relay (RFC 5321, 4.2), read within limits and whatever bytes their text has: the
//! three digits decide.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Maximum bytes of a line, and lines of a reply. More is not read, so that no relay uses up the
/// memory.
pub const MAX_LINE_BYTES: usize = 8 << 10;
pub const MAX_LINES: usize = 100;

/// Bytes of a line that are kept.
const KEPT_BYTES: usize = 512;

/// A relay's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 200 to 599.
    pub code: u16,
    /// The text of each line. Bytes that are not UTF-8 are replaced.
    pub lines: Vec<String>,
    /// Why the rest of the reply was not read. The connection cannot be used any more.
    pub unread_reason: Option<String>,
}

/// Why a reply is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    #[error("the relay closed the connection")]
    Closed,
    #[error("the relay replied with a line of more than {MAX_LINE_BYTES} bytes")]
    LongLine,
    #[error("the relay replied with more than {MAX_LINES} lines")]
    ManyLines,
    #[error("the relay replied without an SMTP code: {0:?}")]
    NoCode(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Reply {
    /// Reads the next reply. After an error, the connection cannot be used any more.
    pub async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Self, ReplyError> {
        let mut reply = Self { code: 0, lines: Vec::new(), unread_reason: None };
        let end = loop {
            match reply.read_line(stream).await {
                Ok(true) => return Ok(reply),
                Ok(false) if reply.lines.len() < MAX_LINES => {}
                Ok(false) => break ReplyError::ManyLines,
                Err(error) => break error,
            }
        };
        if reply.code == 0 {
            return Err(end);
        }
        reply.unread_reason = Some(end.to_string());
        Ok(reply)
    }

    /// Reads a line; returns whether it is the last one.
    async fn read_line(
        &mut self,
        stream: &mut (impl AsyncBufRead + Unpin),
    ) -> Result<bool, ReplyError> {
        let (bytes, is_complete) = read_line(stream).await?;
        let is_last = match Line::parse(&bytes) {
            Some(Line { code, is_last, text }) => {
                self.lines.push(text);
                // All lines must have the same code. If not, no error counts as success.
                self.code = code.max(self.code);
                is_last
            }
            None if self.lines.is_empty() && is_complete => {
                return Err(ReplyError::NoCode(text(&bytes)));
            }
            // Some relays write texts with line breaks into their replies.
            None => {
                self.lines.push(text(&bytes));
                false
            }
        };
        if is_complete { Ok(is_last) } else { Err(ReplyError::LongLine) }
    }

    /// Whether the code begins with this digit.
    pub fn is_class(&self, digit: u16) -> bool {
        self.code / 100 == digit
    }

    /// The text in one line.
    pub fn text(&self) -> String {
        let lines: Vec<&str> =
            self.lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    }
}

/// A line that begins with a code.
struct Line {
    code: u16,
    is_last: bool,
    text: String,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let (digits, rest) = line.split_at_checked(3)?;
        let is_code = matches!(digits[0], b'2'..=b'5') && digits.iter().all(u8::is_ascii_digit);
        if !is_code || rest.first().is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
        let is_last = rest.first() != Some(&b'-');
        Some(Self { code, is_last, text: text(if is_last { rest } else { &rest[1..] }) })
    }
}

fn text(bytes: &[u8]) -> String {
    let beginning = &bytes[..bytes.len().min(KEPT_BYTES)];
    String::from_utf8_lossy(beginning).trim().to_owned()
}

/// The next line with its end, or the beginning of a line that is too long; and whether it is
/// complete. The end of the stream also ends a line.
async fn read_line(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> Result<(Vec<u8>, bool), ReplyError> {
    let mut line = Vec::new();
    loop {
        let available = stream.fill_buf().await?;
        if available.is_empty() {
            return if line.is_empty() { Err(ReplyError::Closed) } else { Ok((line, true)) };
        }
        let end = available.iter().position(|byte| *byte == b'\n').map(|index| index + 1);
        let wanted = end.unwrap_or(available.len());
        let length = wanted.min(MAX_LINE_BYTES - line.len());
        line.extend_from_slice(&available[..length]);
        stream.consume(length);
        if length < wanted {
            return Ok((line, false));
        }
        if end.is_some() {
            return Ok((line, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The complete replies in these bytes, and why there are no more.
    fn replies(mut bytes: &[u8]) -> (Vec<Reply>, ReplyError) {
        let mut replies = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        loop {
            match runtime.block_on(Reply::read(&mut bytes)) {
                Ok(reply) => {
                    assert_eq!(reply.unread_reason, None);
                    replies.push(reply);
                }
                Err(error) => return (replies, error),
            }
        }
    }

    /// The code of a reply that is not read to its end, and why.
    fn incomplete(mut bytes: &[u8]) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reply = runtime.block_on(Reply::read(&mut bytes)).unwrap();
        assert!(reply.lines.len() <= MAX_LINES && reply.lines[0].len() <= KEPT_BYTES);
        (reply.code, reply.unread_reason.expect("a reply without its end"))
    }

    fn single(bytes: &[u8]) -> (u16, String) {
        let (replies, end) = replies(bytes);
        assert!(matches!(end, ReplyError::Closed), "{bytes:?}: {end}");
        let [reply] = replies.as_slice() else { panic!("{bytes:?}: {replies:?}") };
        (reply.code, reply.text())
    }

    #[test]
    fn three_digits_decide() {
        for (bytes, code, text) in [
            (&b"250 ok\r\n"[..], 250, "ok"),
            (b"250\r\n", 250, ""),
            (b"250 \r\n", 250, ""),
            (b"250\n", 250, ""),
            (b"250", 250, ""),
            (b"250\tok\r\n", 250, "ok"),
            (b"250ok\r\n", 250, "ok"),
            (b"250 f\xfcr Sie\r\n", 250, "f\u{fffd}r Sie"),
            (b"550 \xd3\xca\xcf\xe4\r\n", 550, "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"250-a\r\n250-\r\n250\r\n", 250, "a"),
            (b"250-a\r\n\r\nb \xff\r\n250 c\r\n", 250, "a b \u{fffd} c"),
            (b"250-a\r\n550 b\r\n", 550, "a b"),
            (b"550-a\r\n250 Main Street\r\n", 550, "a Main Street"),
        ] {
            assert_eq!(single(bytes), (code, text.into()), "{bytes:?}");
        }
        for bytes in [&b"\r\n"[..], b"25\r\n", b"ok\r\n", b"2500 ok\r\n", b"150 a\r\n", b"\xff250"]
        {
            let (found, error) = replies(bytes);
            assert!(found.is_empty() && matches!(error, ReplyError::NoCode(_)), "{bytes:?}");
        }
        let (found, error) = replies(b"");
        assert!(found.is_empty() && matches!(error, ReplyError::Closed));
        for (bytes, code) in [(&b"250-a\r\n"[..], 250), (b"550-", 550), (b"250-a\r\nb\r\n", 250)] {
            assert_eq!(incomplete(bytes), (code, ReplyError::Closed.to_string()), "{bytes:?}");
        }
    }

    #[test]
    fn lines_and_replies_are_bounded() {
        let line = |length: usize| format!("250 {}\r\n", "x".repeat(length - 6));
        let (found, _) = replies(line(MAX_LINE_BYTES).as_bytes());
        assert_eq!(found[0].lines[0].len(), KEPT_BYTES - 1);
        let long_line = ReplyError::LongLine.to_string();
        assert_eq!(incomplete(line(MAX_LINE_BYTES + 1).as_bytes()), (250, long_line.clone()));
        let later = format!("550-a\r\n{}", "x".repeat(MAX_LINE_BYTES + 1));
        assert_eq!(incomplete(later.as_bytes()), (550, long_line));
        let many = |lines: usize| format!("{}250 b\r\n", "250-a\r\n".repeat(lines - 1));
        assert_eq!(replies(many(MAX_LINES).as_bytes()).0.len(), 1);
        assert_eq!(
            incomplete(many(MAX_LINES + 1).as_bytes()),
            (250, ReplyError::ManyLines.to_string())
        );
    }

    #[test]
    fn an_endless_line_ends_with_its_limit() {
        let mut endless = tokio::io::BufReader::new(tokio::io::repeat(b'2'));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(Reply::read(&mut endless)).unwrap_err();
        assert!(matches!(error, ReplyError::LongLine), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_have_bounded_replies(bytes in prop::collection::vec(
            prop_oneof![Just(b'2'), Just(b'5'), Just(b'0'), Just(b'-'), Just(b'\n'), any::<u8>()],
            0..400,
        )) {
            let mut bytes = bytes.as_slice();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            while let Ok(reply) = runtime.block_on(Reply::read(&mut bytes)) {
                prop_assert!((200..600).contains(&reply.code) && !reply.text().contains('\n'));
                prop_assert!(reply.lines.len() <= MAX_LINES);
                if reply.unread_reason.is_some() {
                    break;
                }
            }
        }

        #[test]
        fn text_never_changes_the_code(
            code in 200_u16..600,
            text in prop::collection::vec(any::<u8>().prop_filter("", |byte| *byte != b'\n'), 0..80),
        ) {
            let mut bytes = format!("{code} ").into_bytes();
            bytes.extend(&text);
            bytes.extend(b"\r\n");
            prop_assert_eq!(single(&bytes).0, code);
        }
    }
}
