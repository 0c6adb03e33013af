//! Submitted forms: their fields, and the check of where they come from.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};
use url::{Url, form_urlencoded};

use runtime::fairness::{SLOT_BYTES, SharedMemory};

/// The name of the hidden field with the session's token.
pub const TOKEN_FIELD: &str = "form_token";

/// The largest form, in bytes.
pub const MAX_FORM_BYTES: usize = 256 << 10;

/// The largest form of somebody who is not signed in.
pub const MAX_SIGN_IN_BYTES: usize = 16 << 10;

/// Forms that are read at the same time, of people who are signed in, and of everybody else.
const FORMS_AT_ONCE: usize = 16;

/// The slots of forms that are read. A network gets at most as many as it leaves free: whoever
/// sends forms slowly leaves most of the requests in progress to others.
pub struct FormSlots {
    pub signed_in: SharedMemory,
    pub signing_in: SharedMemory,
}

impl Default for FormSlots {
    fn default() -> Self {
        let slots = || SharedMemory::halves(FORMS_AT_ONCE * SLOT_BYTES);
        Self { signed_in: slots(), signing_in: slots() }
    }
}

/// The fields of a form, in its order; a name may be there several times.
#[derive(Clone, Debug, Default)]
pub struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    /// The first value of a field, without spaces around it; empty if it is not there.
    pub fn value(&self, name: &str) -> &str {
        self.values(name).next().unwrap_or_default()
    }

    /// Whether a name or a value has the character NUL, which PostgreSQL cannot store.
    pub fn has_nul(&self) -> bool {
        self.0.iter().any(|(name, value)| name.contains('\0') || value.contains('\0'))
    }

    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim())
    }
}

/// Whether a page of the console sent the request, as the browser reports it: the origin is that of
/// the public address, or that under which the request came. A proxy may change the latter.
pub fn is_same_origin(headers: &HeaderMap, public: &Url) -> bool {
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else {
        // Every browser sends it with a POST.
        return false;
    };
    if origin == public.origin().ascii_serialization() {
        return true;
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    Url::parse(origin).is_ok_and(|origin| {
        origin.scheme() == public.scheme()
            && !host.is_empty()
            && origin[url::Position::BeforeHost..url::Position::AfterPort] == *host
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_have_several_values() {
        let form = Form::parse(b"fields=a&fields=+b+&all=on&name=x%26y");
        assert_eq!(form.values("fields").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((form.value("name"), form.value("other")), ("x&y", ""));
        assert!(!form.has_nul());
        assert!(Form::parse(b"a=x%00").has_nul() && Form::parse(b"%00=x").has_nul());
    }

    #[test]
    fn only_pages_of_the_console_may_send_forms() {
        let public = Url::parse("https://longshore.example.com/console").unwrap();
        let sent_by = |origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            is_same_origin(&headers, &public)
        };
        assert!(sent_by(Some("https://longshore.example.com"), "internal:8081"));
        assert!(sent_by(Some("https://internal:8081"), "internal:8081"));
        let others =
            ["null", "https://evil.example", "http://longshore.example.com", "", "https://"];
        for other in others {
            assert!(!sent_by(Some(other), "longshore.example.com"), "{other}");
        }
        assert!(!sent_by(None, "longshore.example.com"));
    }
}
