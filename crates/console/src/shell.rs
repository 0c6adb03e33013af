//! Words of the commands that pages show for a POSIX shell.

use crate::page::Page;

/// The header with the key.
pub const KEY_HEADER: &str = r#"-H "Authorization: Bearer $LONGSHORE_KEY""#;

/// The address of an endpoint of the API, as one word.
pub fn api(page: &Page, path: &str) -> String {
    quoted(&format!("{}{path}", page.app.config.public_base()))
}

/// A POST of JSON to an endpoint of the API.
pub fn post(page: &Page, path: &str, body: &serde_json::Value) -> String {
    format!(
        "curl -sS {} {KEY_HEADER} \\\n  -H 'Content-Type: application/json' -d {}",
        api(page, path),
        quoted(&body.to_string())
    )
}

/// A text as one word.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@,+%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_is_quoted_if_it_needs_to_be() {
        for (text, expected) in [
            ("https://a.example/x", "https://a.example/x"),
            ("", "''"),
            ("All users", "'All users'"),
            ("a?b&c", "'a?b&c'"),
            ("it's", r"'it'\''s'"),
            ("$(rm)", "'$(rm)'"),
            ("~", "'~'"),
            ("a\nb", "'a\nb'"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
