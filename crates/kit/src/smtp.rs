//! SMTP: the replies of relays, and which rejections concern the address of an email (RFC 3463,
//! RFC 7505).

pub mod reply;

crate::named! {
    /// A permanent rejection because of the address, by its enhanced status.
    pub enum AddressBounce {
        /// A report without an enhanced status.
        Unspecified = "",
        NoMailbox = "5.1.1",
        /// The domain accepts no email.
        NullMx = "5.1.10",
        Disabled = "5.2.1",
    }
}

/// The basic codes of reports that concern the address, if there is no enhanced status.
const BASIC_CODES: [&str; 3] = ["550", "551", "553"];

impl AddressBounce {
    /// By the text of a relay's permanent rejection: only an enhanced status shows that the address
    /// is the cause.
    pub fn from_reply(text: &str) -> Option<Self> {
        enhanced_status(text).and_then(Self::from_name)
    }

    /// By a report, with its code, such as `550` or `5.1.1`, and its text.
    pub fn from_report(code: Option<&str>, text: Option<&str>) -> Option<Self> {
        let code = code.map(str::trim).filter(|code| !code.is_empty());
        let text = text.map(str::trim).unwrap_or_default();
        if let Some(status) = code.and_then(enhanced_status).or_else(|| enhanced_status(text)) {
            return Self::from_name(status);
        }
        let concerns_address =
            code.or_else(|| basic_code(text)).is_none_or(|code| BASIC_CODES.contains(&code));
        concerns_address.then_some(Self::Unspecified)
    }
}

/// The first enhanced status in a text, such as `5.1.1`.
fn enhanced_status(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.into_iter().find(|word| is_enhanced_status(word))
}

fn is_enhanced_status(word: &str) -> bool {
    let mut parts = word.split('.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| {
            (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    matches!(parts.next(), Some("2" | "4" | "5"))
        && is_number(parts.next())
        && is_number(parts.next())
        && parts.next().is_none()
}

/// The code at the beginning of a reply.
fn basic_code(text: &str) -> Option<&str> {
    let (code, rest) = text.split_at_checked(3)?;
    let is_code = matches!(code.as_bytes()[0], b'4' | b'5')
        && code.bytes().all(|byte| byte.is_ascii_digit())
        && !rest.starts_with(|c: char| c.is_alphanumeric());
    is_code.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::AddressBounce::{self, Disabled, NoMailbox, NullMx, Unspecified};

    #[test]
    fn replies_are_about_the_address_only_with_its_status() {
        for (text, expected) in [
            ("5.1.1 <ann@acme.example> unknown", Some(NoMailbox)),
            ("5.1.10 null MX", Some(NullMx)),
            ("5.2.1", Some(Disabled)),
            ("host mx.example said: 550-5.1.1 No such user.", Some(NoMailbox)),
            ("No such user (#5.1.1)", Some(NoMailbox)),
            ("Mailbox disabled: 5.2.1.", Some(Disabled)),
            ("no such user", None),
            ("5.7.1 blocked: 5.1.1 is not the reason", None),
            ("5.2.2 mailbox full", None),
            ("4.1.1 later", None),
            ("5.1.1.7 is listed", None),
            ("25.1.1", None),
            ("v5.1.1", None),
            ("5.1.1000", None),
            ("5.1.", None),
            ("", None),
        ] {
            assert_eq!(AddressBounce::from_reply(text), expected, "{text}");
        }
    }

    #[test]
    fn reports_are_read_by_their_code_then_by_their_text() {
        for (code, text, expected) in [
            (Some("5.1.1"), Some("5.7.1 blocked"), Some(NoMailbox)),
            (Some("550 5.1.10"), None, Some(NullMx)),
            (Some("550"), Some("5.2.1 disabled"), Some(Disabled)),
            (Some("550"), Some("550 5.7.1 blocked"), None),
            (Some("5.2.2"), Some("5.1.1"), None),
            (Some("4.4.1"), None, None),
            (Some("550"), Some("No such user"), Some(Unspecified)),
            (Some(" 551 "), None, Some(Unspecified)),
            (Some("553"), None, Some(Unspecified)),
            (Some("552"), None, None),
            (Some("554"), None, None),
            (Some("450"), None, None),
            (Some("soft"), None, None),
            (None, None, Some(Unspecified)),
            (Some(" "), Some(" "), Some(Unspecified)),
            (None, Some("No such user"), Some(Unspecified)),
            (None, Some("550 No such user"), Some(Unspecified)),
            (None, Some("452-too many emails"), None),
            (None, Some("552 full"), None),
            (None, Some("5521 users"), Some(Unspecified)),
            (None, Some("4.2.2 full"), None),
            (None, Some("\u{e4}\u{e4}"), Some(Unspecified)),
        ] {
            assert_eq!(AddressBounce::from_report(code, text), expected, "{code:?} {text:?}");
        }
    }
}
