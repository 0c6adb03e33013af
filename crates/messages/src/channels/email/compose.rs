//! Converts a rendered message object to an email (docs/reference/api/message-objects.md).

use std::time::{Duration, SystemTime};

use lettre::Address;
use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, Mailboxes, Message, MultiPart};
use serde_json::{Map, Value};

use super::conversation::{Content, OutgoingEmail};
use super::{header, message_id};
use crate::app::App;
use crate::channels::MAX_HEADERS;
use crate::unsubscribe_token;
use crate::{Outcome, Outgoing};
use gateway::workspaces::settings::Email;
use kit::html::html_to_text;
use kit::words::about_field;
use people::users::address::ascii_host;
use people::users::profile::check;

/// Headers that customers cannot set, and the beginnings of the names of others.
const RESERVED: [&str; 13] = [
    "authentication-results",
    "bcc",
    "cc",
    "date",
    "from",
    "message-id",
    "mime-version",
    "received",
    "reply-to",
    "return-path",
    "sender",
    "subject",
    "to",
];
const RESERVED_BEGINNINGS: [&str; 6] =
    ["arc-", "content-", "dkim-", "list-unsubscribe", "received-", "resent-"];

/// Maximum characters of a header and of its name.
const MAX_HEADER_LENGTH: usize = 900;
const MAX_HEADER_NAME_LENGTH: usize = 76;

/// Maximum number of recipients of copies.
const MAX_COPIES: usize = 10;

/// Larger bodies are written on a compute thread.
const INLINE_BYTES: usize = 64 << 10;

/// The email, or the outcome of a message without one.
pub fn compose(
    app: &App,
    message: &Outgoing<'_>,
    settings: &Email,
) -> Result<OutgoingEmail, Outcome> {
    let object = &message.rendered.object;
    let bytes = |name: &str| object.get(name).and_then(Value::as_str).map_or(0, str::len);
    if bytes("body") + bytes("plaintext_body") > INLINE_BYTES {
        app.cores.compute_here(message.workspace_id, || write(app, message, settings, object))
    } else {
        write(app, message, settings, object)
    }
}

fn write(
    app: &App,
    message: &Outgoing<'_>,
    settings: &Email,
    object: &Map<String, Value>,
) -> Result<OutgoingEmail, Outcome> {
    let to = recipient(message).map_err(Outcome::Unreachable)?;
    let from = text(object, "from")?.or(settings.from.as_deref());
    let from = from.ok_or_else(|| Outcome::Failed("the sender is empty: set from".into()))?;
    let from = mailbox(from).map_err(|why| Outcome::Failed(about_field("from", why)))?;
    let body = text(object, "body")?;
    let body = body.ok_or_else(|| Outcome::Failed("the body is empty".into()))?;

    let copies = addresses(object, "bcc")?;
    let recipients =
        [&to].into_iter().chain(&copies).map(|mailbox| mailbox.email.clone()).collect();
    let envelope = Envelope::new(Some(from.email.clone()), recipients)
        .map_err(|error| Outcome::Failed(format!("cannot write the email: {error}")))?;
    let now = u64::try_from(app.clock.now_ms()).unwrap_or_default();
    let mut builder = Message::builder()
        .envelope(envelope)
        .date(SystemTime::UNIX_EPOCH + Duration::from_millis(now))
        .message_id(Some(format!("<{}>", message_id(&message.id, from.email.domain()))))
        .raw_header(header::mailbox("From", &from))
        .raw_header(header::mailbox("To", &to));
    if let Some(reply_to) = text(object, "reply_to")? {
        let reply_to =
            mailbox(reply_to).map_err(|why| Outcome::Failed(about_field("reply_to", why)))?;
        builder = builder.raw_header(header::mailbox("Reply-To", &reply_to));
    }
    if let Some(subject) = text(object, "subject")? {
        let name = HeaderName::new_from_ascii_str("Subject");
        builder = builder.raw_header(header::text(name, &in_one_line(subject)));
    }
    for header in headers(object)? {
        builder = builder.raw_header(header);
    }
    if !message.rendered.extras.is_empty() {
        let extras = serde_json::to_string(&message.rendered.extras).unwrap_or_default();
        let name = HeaderName::new_from_ascii_str("X-Message-Extras");
        builder = builder.raw_header(header::custom(name, &extras));
    }
    if !message.is_transactional {
        let recipient = unsubscribe_token::Recipient {
            workspace: message.workspace_id,
            user: message.id.service_id,
            address: message.address,
        };
        let url = unsubscribe_token::url(app, &recipient);
        for (name, value) in [
            ("List-Unsubscribe", format!("<{url}>")),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".into()),
        ] {
            let name = HeaderName::new_from_ascii_str(name);
            builder = builder.raw_header(HeaderValue::new(name, value));
        }
    }
    let text = match text(object, "plaintext_body")? {
        Some(text) => text.to_owned(),
        None => html_to_text(body),
    };
    let html = with_preheader(body, self::text(object, "preheader")?);
    let written = builder
        .multipart(MultiPart::alternative_plain_html(text, html))
        .map_err(|error| Outcome::Failed(format!("cannot write the email: {error}")))?;
    let written = String::from_utf8(written.formatted())
        .map_err(|error| Outcome::Failed(format!("cannot write the email: {error}")))?;
    Ok(OutgoingEmail {
        from: from.email,
        to: to.email,
        copies: copies.into_iter().map(|copy| copy.email).collect(),
        content: Content::new(&written),
    })
}

/// The user's mailbox; the error is why there is none.
pub fn recipient(message: &Outgoing<'_>) -> Result<Mailbox, String> {
    let no_address = || "the user has no usable email address".to_owned();
    let email = message.recipient.email().ok_or_else(no_address)?;
    if let Some(c) = email.chars().find(|c| check::is_invisible(*c)) {
        let code = u32::from(c);
        return Err(format!(
            "the user's email address contains the invisible character U+{code:04X}"
        ));
    }
    user_mailbox(email).ok_or_else(no_address)
}

/// A string field; none if it is absent, null or blank.
fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Outcome> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(Outcome::Failed(format!("{name}: expected a string"))),
    }
}

/// Checks that a text is an email address, optionally with a name before it.
pub fn check_mailbox(text: &str) -> Result<(), String> {
    mailbox(text).map(drop).map_err(str::to_owned)
}

/// Checks that a text is a list of email addresses that can get copies.
pub fn check_mailboxes(text: &str) -> Result<(), String> {
    mailboxes(text).map(drop)
}

/// Parses an address, optionally with a name before it.
pub(super) fn mailbox(text: &str) -> Result<Mailbox, &'static str> {
    const EXPECTED: &str = "expected an email address";
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err(EXPECTED);
    }
    let mut mailbox: Mailbox = text.parse().map_err(|_| EXPECTED)?;
    mailbox.email = in_ascii(mailbox.email);
    Ok(mailbox)
}

/// The address of a user. Its letters may be decomposed, which [`mailbox`] does not read.
fn user_mailbox(email: &str) -> Option<Mailbox> {
    if let Ok(mailbox) = mailbox(email) {
        return Some(mailbox);
    }
    let (local, domain) = email.trim().rsplit_once('@')?;
    let address = Address::new(local, ascii_host(domain)?).ok()?;
    Some(Mailbox::new(None, address))
}

/// The address with its domain in the ASCII form of DNS.
fn in_ascii(address: Address) -> Address {
    if address.domain().is_ascii() {
        return address;
    }
    let domain = ascii_host(address.domain());
    let ascii = domain.and_then(|domain| Address::new(address.user(), domain).ok());
    ascii.unwrap_or(address)
}

/// The addresses in a field, separated by commas.
fn addresses(object: &Map<String, Value>, name: &str) -> Result<Vec<Mailbox>, Outcome> {
    let Some(text) = text(object, name)? else { return Ok(Vec::new()) };
    mailboxes(text).map_err(|why| Outcome::Failed(about_field(name, &why)))
}

fn mailboxes(text: &str) -> Result<Vec<Mailbox>, String> {
    let expected = || "expected email addresses, separated by commas".to_owned();
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err(expected());
    }
    let found: Vec<Mailbox> =
        text.parse::<Mailboxes>().map_err(|_| expected())?.into_iter().collect();
    if found.len() > MAX_COPIES {
        return Err(format!("at most {MAX_COPIES} addresses"));
    }
    let ascii = |Mailbox { name, email }| Mailbox { name, email: in_ascii(email) };
    Ok(found.into_iter().map(ascii).collect())
}

/// The customer's own headers: an object of strings.
fn headers(object: &Map<String, Value>) -> Result<Vec<HeaderValue>, Outcome> {
    let given = match object.get("headers") {
        None => return Ok(Vec::new()),
        Some(Value::Object(headers)) if headers.len() <= MAX_HEADERS => headers,
        Some(_) => {
            let text = format!("headers: expected an object of at most {MAX_HEADERS} strings");
            return Err(Outcome::Failed(text));
        }
    };
    let mut headers: Vec<HeaderValue> = Vec::with_capacity(given.len());
    for (name, value) in given {
        let failed = |why: &str| Outcome::Failed(format!("headers.{name}: {why}"));
        check_header(name).map_err(|why| failed(&why))?;
        let value = value.as_str().ok_or_else(|| failed("expected a string"))?;
        check_header_value(value).map_err(|why| failed(&why))?;
        let name =
            HeaderName::new_from_ascii(name.clone()).map_err(|error| failed(&error.to_string()))?;
        headers.push(header::custom(name, value));
    }
    Ok(headers)
}

/// Checks that customers may set a header with that name.
pub(in crate::channels) fn check_header(name: &str) -> Result<(), String> {
    let is_name = (1..=MAX_HEADER_NAME_LENGTH).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if !is_name {
        return Err("invalid header name".into());
    }
    let lower = name.to_ascii_lowercase();
    let is_reserved = RESERVED.contains(&lower.as_str())
        || RESERVED_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning));
    if is_reserved {
        return Err("this header is reserved for the service".into());
    }
    Ok(())
}

/// Checks that an email can have a header with that value.
pub(in crate::channels) fn check_header_value(value: &str) -> Result<(), String> {
    if value.chars().any(char::is_control) || value.chars().count() > MAX_HEADER_LENGTH {
        return Err(format!("expected one line of at most {MAX_HEADER_LENGTH} characters"));
    }
    Ok(())
}

pub(super) fn in_one_line(text: &str) -> String {
    let without_control = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(without_control).collect()
}

/// Adds the text that mailboxes show next to the subject; the body itself hides it.
fn with_preheader(body: &str, preheader: Option<&str>) -> String {
    let Some(preheader) = preheader else { return body.to_owned() };
    let hidden = format!(
        "<div style=\"display:none;max-height:0;overflow:hidden;mso-hide:all\">{}</div>",
        html_escape::encode_double_quoted_attribute(preheader)
    );
    let lower = body.to_ascii_lowercase();
    let start = lower.find("<body").and_then(|tag| Some(tag + lower[tag..].find('>')? + 1));
    let (before, after) = body.split_at(start.unwrap_or(0));
    format!("{before}{hidden}{after}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_have_the_form_of_dns_and_smtp() {
        let parse =
            |text: &str| mailbox(text).map(|parsed| (parsed.name, parsed.email.to_string()));
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(parse("a@acme.example"), Ok((None, "a@acme.example".into())));
        assert_eq!(
            parse(" Acme Inc <hello@acme.example> "),
            Ok((named("Acme Inc"), "hello@acme.example".into()))
        );
        assert_eq!(parse("ann@bücher.example").unwrap().1, "ann@xn--bcher-kva.example");
        assert_eq!(parse("änn@acme.example").unwrap().1, "änn@acme.example");
        for wrong in ["", "ann", "ann@", "a b@c", "a@b\r\nRCPT TO:<x@y>", "A\n <a@b.example>"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn copies_are_one_or_several() {
        let read = |bcc: Value| {
            let object = json!({ "bcc": bcc });
            let found = addresses(object.as_object().unwrap(), "bcc")?;
            Ok::<_, Outcome>(found.iter().map(|copy| copy.email.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(read(json!(" ")), Ok(vec![]));
        assert_eq!(read(json!("a@b.example, C <c@d.example>")).unwrap().len(), 2);
        for wrong in [json!("a"), json!(7), ["a@b.example"; 11].join(", ").into()] {
            assert!(matches!(read(wrong.clone()), Err(Outcome::Failed(_))), "{wrong}");
        }
    }

    #[test]
    fn headers_are_the_customers_own_only() {
        let read = |given: Value| {
            let object = json!({ "headers": given });
            headers(object.as_object().unwrap()).map(|headers| headers.len())
        };
        assert_eq!(read(json!({ "X-Campaign": "a b", "List-Id": "é" })), Ok(2));
        for wrong in [
            json!({ "Bcc": "x@y.example" }),
            json!({ "content-type": "text/plain" }),
            json!({ "MESSAGE-ID": "x" }),
            json!({ "List-Unsubscribe": "x" }),
            json!({ "X-A": "b\r\nBcc: c@d.example" }),
            json!({ "X-A\r\nBcc": "c@d.example" }),
            json!({ "X A": "b" }),
            json!({ "": "b" }),
            json!({ "X-É": "b" }),
            json!({ "X-A": ["b"] }),
            json!("X-A: b"),
        ] {
            assert!(matches!(read(wrong.clone()), Err(Outcome::Failed(_))), "{wrong}");
        }
    }

    #[test]
    fn the_preheader_is_first_in_the_body() {
        let body = "<html><BODY class=\"x\"><p>Hi</p></BODY></html>";
        let written = with_preheader(body, Some("5 < 6 > \"4\" & 3"));
        assert!(written.starts_with("<html><BODY class=\"x\"><div style="), "{written}");
        assert!(
            written.contains(">5 &lt; 6 &gt; &quot;4&quot; &amp; 3</div><p>Hi</p>"),
            "{written}"
        );
        assert!(with_preheader("é<p>", Some("x")).ends_with("x</div>é<p>"));
        assert_eq!(with_preheader(body, None), body);
    }
}
