//! The spellings of an email address.
//!
//! An international host name has two: in its own script, and in the ASCII form of DNS (`xn--`), to
//! which emails go. Profiles have either, and relays report the second. So addresses are compared
//! in ASCII, and looked up in each spelling that rows can have.
//!
//! The part before @ can be written with decomposed letters (NFD), and with characters that are not
//! shown. New profiles have neither, so opt-outs are about the [mailbox].

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use url::Host;
use url::quirks::domain_to_unicode;

use crate::words::{MAX_LABEL, MAX_LOCAL};

/// A host name in the ASCII form of DNS; none if it is invalid.
pub fn ascii_host(host: &str) -> Option<String> {
    Host::parse(host).ok().map(|host| host.to_string())
}

/// An address in the spelling in which addresses are compared: in lower case, with the host name in
/// ASCII if it is valid.
pub fn compared(email: &str) -> Cow<'_, str> {
    if email.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(email);
    }
    let in_ascii = || {
        let (local, host) = email.rsplit_once('@').filter(|(_, host)| !host.is_ascii())?;
        // Some letters are valid only in lower case.
        let host = ascii_host(host).or_else(|| ascii_host(&host.to_lowercase()))?;
        Some(format!("{}@{host}", local.to_lowercase()))
    };
    Cow::Owned(in_ascii().unwrap_or_else(|| email.to_lowercase()))
}

/// The mailbox of an address: as addresses are [compared], with composed letters (NFC) before @, and
/// without characters that are not shown.
pub fn mailbox(email: &str) -> Cow<'_, str> {
    let Some((local, host)) = email.rsplit_once('@').filter(|(local, _)| !local.is_ascii()) else {
        return compared(email);
    };
    let visible: String = local.chars().filter(|c| !is_invisible(*c)).collect();
    let visible = format!("{visible}@{host}");
    let compared = compared(&visible);
    // The host name, without its @, is not changed again.
    let (local, host) = compared.rsplit_once('@').unwrap_or((&*compared, ""));
    Cow::Owned(format!("{}@{host}", local.nfc().collect::<String>()))
}

/// The spellings of an address that rows can have, first the one that is compared.
pub fn spellings(email: &str) -> Vec<Cow<'_, str>> {
    let ascii = compared(email);
    let unicode = in_unicode(&ascii);
    // Earlier versions stored any spelling in lower case.
    let lower = matches!(ascii, Cow::Owned(_)).then(|| email.to_lowercase());
    let mut spellings = vec![ascii];
    for other in [unicode, lower].into_iter().flatten() {
        let is_known = spellings.iter().any(|known| *known == other);
        if !is_known && compared(&other) == spellings[0] {
            spellings.push(Cow::Owned(other));
        }
    }
    spellings
}

/// The same address with the host name in its own script, if it has another one than ASCII.
fn in_unicode(ascii: &str) -> Option<String> {
    let (local, host) = ascii.rsplit_once('@').filter(|(_, host)| host.contains("xn--"))?;
    let unicode = domain_to_unicode(host).to_lowercase();
    // Empty for an invalid name.
    (!unicode.is_empty()).then(|| format!("{local}@{unicode}"))
}

/// The spelling that new rows have: that of the profile in lower case, which earlier versions look
/// up. An unusual one, such as decomposed letters, could not be found by the other spellings, so it
/// becomes ASCII.
pub fn stored(email: &str) -> String {
    let (lower, compared) = (email.to_lowercase(), compared(email));
    let is_usual = spellings(&compared).iter().any(|usual| *usual == lower);
    if is_usual { lower } else { compared.into_owned() }
}

/// Checks the format of an email address: `local@domain`, without quotes, comments or address
/// literals, with letters of any script. Does not check that mail can be delivered.
pub fn check(text: &str) -> Result<(), String> {
    let is_valid = text
        .split_once('@')
        .is_some_and(|(local, domain)| is_local_part(local) && is_domain(domain));
    if is_valid { Ok(()) } else { Err("expected an email address".to_owned()) }
}

/// Checks an email address that a profile is to have. Addresses of earlier versions may have what
/// this rejects, so identifiers need only pass [`check`].
pub fn check_new(text: &str) -> Result<(), String> {
    check(text)?;
    if let Some(c) = text.chars().find(|c| is_invisible(*c)) {
        return Err(format!("must not contain the invisible character U+{:04X}", u32::from(c)));
    }
    let (local, _) = text.rsplit_once('@').unwrap_or((text, ""));
    match local.chars().find(|c| is_combining(*c)) {
        Some(c) => Err(format!(
            "must have composed letters (NFC) before @, without the combining character U+{:04X}",
            u32::from(c)
        )),
        None => Ok(()),
    }
}

/// Whether a character is not shown: no mailbox has such a name, but texts that were copied do.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a character is a part of a decomposed letter (NFD): of Latin, Greek, Cyrillic, Kana or
/// Hangul.
fn is_combining(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{3099}' | '\u{309a}' | '\u{1160}'..='\u{11ff}')
}

/// Dots may be anywhere, because some providers issued such addresses.
fn is_local_part(local: &str) -> bool {
    const SIGNS: &str = "!#$%&'*+-/=?^_`{|}~.";
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || SIGNS.contains(c) || is_foreign(c);
    (1..=MAX_LOCAL).contains(&local.chars().count())
        && local.chars().all(is_allowed)
        && !local.chars().all(is_invisible)
}

fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.chars().count())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || is_foreign(c))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// A visible character outside ASCII.
fn is_foreign(c: char) -> bool {
    !c.is_ascii() && !c.is_whitespace() && !c.is_control()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ASCII: &str = "ann@xn--bcher-kva.example";
    const UNICODE: &str = "ann@bücher.example";

    #[test]
    fn a_host_name_has_two_spellings() {
        for (email, row) in [
            (UNICODE, UNICODE),
            ("Ann@BÜCHER.example", UNICODE),
            (ASCII, ASCII),
            ("ANN@XN--Bcher-KVA.example", ASCII),
        ] {
            assert_eq!(compared(email), ASCII, "{email}");
            assert_eq!(spellings(email), [ASCII, UNICODE], "{email}");
            assert_eq!(stored(email), row, "{email}");
        }
        // Decomposed letters, and labels in different forms.
        for email in ["ann@bu\u{308}cher.example", "ann@bücher.xn--bcher-kva.example"] {
            let ascii = compared(email).into_owned();
            assert!(ascii.is_ascii() && ascii.contains("@xn--bcher-kva."), "{ascii}");
            assert_eq!(stored(email), ascii);
            let spellings = spellings(email);
            assert_eq!((spellings.len(), &*spellings[2]), (3, email));
        }
    }

    #[test]
    fn other_texts_have_one_spelling() {
        for (text, expected) in [
            ("Ann@acme.example", "ann@acme.example"),
            ("Änn@acme.example", "änn@acme.example"),
            ("ann@xn--\u{0}", "ann@xn--\u{0}"),
            ("ann@xn--a.example", "ann@xn--a.example"),
            ("Ann", "ann"),
            ("", ""),
        ] {
            assert_eq!(compared(text), expected);
            assert_eq!(spellings(text), [expected]);
            assert_eq!(stored(text), expected);
        }
    }

    #[test]
    fn a_mailbox_has_composed_letters_and_no_invisible_characters() {
        for (email, expected) in [
            ("Ann@acme.example", "ann@acme.example"),
            ("u\u{308}b@acme.example", "üb@acme.example"),
            ("U\u{200b}\u{308}B@bu\u{308}cher.example", "üb@xn--bcher-kva.example"),
            ("q\u{200b}@acme.example", "q@acme.example"),
            // It has a composed letter in lower case only.
            ("J\u{30c}@acme.example", "\u{1f0}@acme.example"),
            ("Ann", "ann"),
        ] {
            assert_eq!(mailbox(email), expected, "{email}");
        }
        assert!(check("\u{200b}@acme.example").is_err());
    }

    fn any_email() -> impl Strategy<Value = String> {
        const HOST: &str = "[a-zA-Z0-9äÖßẞéñΣσςİıⅎℲ日本бДᎠꭰ．ａ\u{308}.-]{0,12}";
        let in_any_script = ("[a-zA-ZÄéΣ]{0,3}", HOST);
        let in_ascii = ("[a-z]{1,3}", "[a-z0-9-]{0,8}");
        prop_oneof![
            in_any_script.prop_map(|(local, host)| format!("{local}@{host}")),
            in_ascii.prop_map(|(local, host)| format!("{local}@xn--{host}.De")),
            ".{0,20}",
        ]
    }

    proptest! {
        #[test]
        fn all_spellings_of_an_address_are_compared_and_looked_up_alike(email in any_email()) {
            let ascii = compared(&email).into_owned();
            prop_assert!(compared(&ascii) == ascii, "{email}");
            let usual: Vec<String> = spellings(&ascii).into_iter().map(Cow::into_owned).collect();
            let row = stored(&email);
            prop_assert!(usual.contains(&row), "{email}: {row}, {usual:?}");
            for spelling in spellings(&email) {
                prop_assert!(compared(&spelling) == ascii, "{email}: {spelling}");
                let found = spellings(&spelling);
                let is_same = usual.iter().all(|usual| found.iter().any(|found| found == usual));
                prop_assert!(is_same, "{email}: {found:?}, {usual:?}");
            }
            prop_assert!(stored(&row) == row, "{email}: {row}");
            for spelling in spellings(&email) {
                prop_assert!(mailbox(&spelling) == mailbox(&email), "{email}: {spelling}");
            }
            let mailbox = mailbox(&email);
            prop_assert!(super::mailbox(&mailbox) == mailbox, "{email}: {mailbox}");
        }
    }
}
