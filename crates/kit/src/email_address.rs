//! The spellings of an email address.
//!
//! An international host name has two: in its own script, and in the ASCII form of DNS (`xn--`), to
//! which emails go. Profiles have either, and relays report the second. So addresses are compared
//! in ASCII, and looked up in each spelling that rows can have.

use std::borrow::Cow;

use url::Host;
use url::quirks::domain_to_unicode;

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
        }
    }
}
