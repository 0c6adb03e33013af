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

/// A command of this program. `words` are its name and its options without values. Options are
/// before the arguments, because an argument that begins with `-` needs `--` before it.
pub fn command(words: &str, options: &[(&str, &str)], arguments: &[&str]) -> String {
    let mut command = format!("longshore {words}");
    for (name, value) in options {
        command += &format!(" {}", option(name, value));
    }
    if arguments.iter().any(|argument| argument.starts_with('-')) {
        command += " --";
    }
    for argument in arguments {
        command += &format!(" {}", quoted(argument));
    }
    command
}

/// A [`command`] for the workspace of the page.
pub fn workspace_command(
    page: &Page,
    words: &str,
    options: &[(&str, &str)],
    arguments: &[&str],
) -> String {
    let workspace = page.workspace_if_any().map(|workspace| ("workspace", &*workspace.name));
    let options: Vec<_> = workspace.into_iter().chain(options.iter().copied()).collect();
    command(words, &options, arguments)
}

/// An option with its value as one word: the value may begin with `-`.
pub fn option(name: &str, value: &str) -> String {
    format!("--{name}={}", quoted(value))
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
    fn options_and_arguments_may_be_any_text() {
        let name = "-a b'c";
        assert_eq!(
            command("catalogs items", &[("workspace", name), ("id", "-1")], &[name]),
            r"longshore catalogs items --workspace='-a b'\''c' --id=-1 -- '-a b'\''c'"
        );
        assert_eq!(
            command("users find --json", &[("workspace", "acme")], &["ann"]),
            "longshore users find --json --workspace=acme ann"
        );
    }

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
