//! `${NAME}` in values of the workspace file.

/// Replaces each `${NAME}` by its value in `environment`; `$${` is a literal `${`, and any other
/// `$` is literal, too. The error does not repeat the text.
pub fn expand(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        let after = &from[2..];
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
        let value =
            environment(name).ok_or_else(|| format!("environment variable {name} is not set"))?;
        expanded.push_str(before);
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
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
