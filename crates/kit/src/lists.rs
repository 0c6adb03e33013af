//! Lists of names in one text: separated by commas, and quoted as in CSV.

/// The names of a list. A name that has a comma is in double quotes, and a quote inside of them is
/// doubled: `a,"b,c"`. A quote within a name without quotes is part of it.
pub fn split(list: &str) -> Result<Vec<String>, String> {
    let (mut names, mut rest) = (Vec::new(), list);
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            match rest.split_once(',') {
                Some((name, after)) => {
                    names.push(name.to_owned());
                    rest = after;
                    continue;
                }
                None => {
                    names.push(rest.to_owned());
                    return Ok(names);
                }
            }
        };
        let (name, after) = unquoted(quoted).ok_or_else(|| {
            format!("{rest}: a name that begins with a double quote must end with one")
        })?;
        names.push(name);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None if after.is_empty() => return Ok(names),
            None => return Err(format!("expected a comma after the closing quote, not {after}")),
        }
    }
}

/// The name before its closing quote, and the text after that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

/// A list that [`split`] reads.
pub fn join<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let quoted = |name: &str| {
        let is_plain = !name.contains(',') && !name.starts_with('"');
        if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
    };
    names.into_iter().map(quoted).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        for (list, names) in [
            ("email", &["email"][..]),
            ("email,a", &["email", "a"]),
            (r#""custom_attributes.a,b",email"#, &["custom_attributes.a,b", "email"]),
            (r#"email,"a,""b""","c""#, &["email", r#"a,"b""#, "c"]),
            (r#"custom_attributes.5" nails,x"#, &[r#"custom_attributes.5" nails"#, "x"]),
            ("", &[""]),
            ("a,", &["a", ""]),
        ] {
            assert_eq!(split(list).unwrap(), names, "{list}");
        }
        for wrong in [r#""a"#, r#"a,"b,c"#, r#""a"b"#, r#"""#] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_joined_list_has_its_names(
            names in prop::collection::vec("[ab\",é ]{0,5}", 1..5),
        ) {
            let list = join(names.iter().map(String::as_str));
            prop_assert_eq!(split(&list), Ok(names), "{}", list);
        }
    }
}
