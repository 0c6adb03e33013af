//! `${NAME}` in values of the workspace file.

use runtime::config;

/// Replaces each `${NAME}` by its value in `environment`; `$${` is a literal `${`, and any other
/// `$` is literal, too. Settings of the installation and credentials of its cloud cannot be read.
/// The error does not repeat the text.
pub fn expand(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(offset) = rest.find("${") {
        let (before, reference) = rest.split_at(offset);
        let after = &reference[2..];
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        let Some((name, after)) = after.split_once('}') else {
            return Err("${ is not closed; write $${ for a literal ${".into());
        };
        if !is_name(name) {
            return Err("${…} must contain the name of an environment variable: letters, digits \
                        and underscores; write $${ for a literal ${"
                .into());
        }
        if is_reserved(name) {
            return Err(format!(
                "environment variable {name} belongs to the installation: use another name"
            ));
        }
        let value =
            environment(name).ok_or_else(|| format!("environment variable {name} is not set"))?;
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Whoever writes a workspace file must not send the installation's own secrets elsewhere.
fn is_reserved(name: &str) -> bool {
    config::is_setting(name)
        || ["AWS_", "AZURE_", "PG"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".into()),
            "NESTED" => Some("${A}".into()),
            _ => None,
        }
    }

    #[test]
    fn names_are_replaced_once() {
        for (text, expected) in [
            ("", ""),
            ("plain $5 {x}", "plain $5 {x}"),
            ("${A}", "1"),
            ("a${A}b${A}c", "a1b1c"),
            ("$${A}", "${A}"),
            ("$${A} ${A}", "${A} 1"),
            ("$ ${A}", "$ 1"),
            ("${NESTED}", "${A}"),
            ("ümläut ${A} 🙂", "ümläut 1 🙂"),
        ] {
            assert_eq!(expand(text, &environment).as_deref(), Ok(expected), "{text}");
        }
        assert!(expand("x ${MISSING}", &environment).unwrap_err().contains("MISSING"));
        assert!(expand("${A", &environment).unwrap_err().contains("closed"));
        assert!(expand("${}", &environment).is_err());
        assert!(expand("${a-b}", &environment).is_err());
    }

    #[test]
    fn secrets_of_the_installation_cannot_be_read() {
        let environment = |_: &str| Some("secret".to_owned());
        for name in ["LONGSHORE_SECRET_KEY", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"] {
            assert!(expand(&format!("x${{{name}}}"), &environment).unwrap_err().contains(name));
        }
        // The key of a client is no setting.
        for name in ["LONGSHORE_KEY", "ACME_KEY"] {
            assert_eq!(expand(&format!("${{{name}}}"), &environment).as_deref(), Ok("secret"));
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "(\\PC|[${}A])*") {
            let _ = expand(&text, &environment);
        }

        #[test]
        fn escaped_text_is_unescaped(text in "[^$]*") {
            let escaped = format!("$${{{text}");
            prop_assert_eq!(expand(&escaped, &environment), Ok(format!("${{{text}")));
        }
    }
}
