//! Texts that people read: counts, and texts from outside.

use std::borrow::Cow;

/// Characters of an identifier, a name or an email address.
pub const MAX_TEXT: usize = 255;

/// Characters of an email address before its `@`, and of a label of its host (RFC 5321, 4.5.3.1).
pub const MAX_LOCAL: usize = 64;
pub const MAX_LABEL: usize = 63;

/// At most [`MAX_TEXT`] characters.
pub fn check_short(text: &str) -> Result<(), String> {
    // A text with more bytes than the limit allows needs no counting.
    if text.len() > MAX_TEXT && (text.len() > MAX_TEXT * 4 || text.chars().count() > MAX_TEXT) {
        return Err(format!("has more than {MAX_TEXT} characters"));
    }
    Ok(())
}

/// Checks text that people type and programs compare byte by byte: an external id, or a part of an
/// alias. It must not have control characters.
pub fn check_identifier(text: &str) -> Result<(), String> {
    check_short(text)?;
    if text.chars().any(char::is_control) {
        return Err("contains a control character".to_owned());
    }
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(()) }
}

/// `1 user`, `2,000 users`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `2,000`.
pub fn grouped(number: impl Into<i128>) -> String {
    let number: i128 = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The beginning of a text from outside, with at most `max_chars` characters, for an error message.
pub fn beginning(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// `: text`, to follow another text; nothing if it is empty.
pub fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

/// The known name that is closest to an unknown one, for "did you mean …?".
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 100;
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_lowercase();
    let max_distance = name.chars().count().max(3) / 3;
    let distance_to = |known: &str| {
        let known = known.to_lowercase();
        // A matching beginning counts as one wrong letter.
        if name.len() > 2 && known.starts_with(&name) { 1 } else { distance(&name, &known) }
    };
    let distances = known.into_iter().map(|known| (distance_to(known), known));
    let candidates = distances.filter(|(distance, _)| *distance <= max_distance);
    candidates.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many letters differ between two names; neighbours that are swapped count as one.
pub fn distance(name: &str, other: &str) -> usize {
    strsim::osa_distance(name, other)
}

/// An error's text after the path of its field: `currency is required`, but `price: too large`.
pub fn about_field(path: &str, text: &str) -> String {
    let gap = match text.split(' ').next() {
        _ if path.is_empty() => "",
        Some("is" | "has" | "contains" | "must" | "may" | "names" | "cannot") => " ",
        // The text begins with a path within the value.
        _ if text.starts_with(['.', '[']) => "",
        _ => ": ",
    };
    format!("{path}{gap}{text}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")]
        {
            assert_eq!(super::grouped(number), text);
        }
        assert_eq!(super::grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn finds_the_nearest_known_name() {
        let known = ["currency", "keys", "worker.lease_ms", "ip_allowlist"];
        for (name, nearest) in [
            ("curency", Some("currency")),
            ("Currency", Some("currency")),
            ("kyes", Some("keys")),
            ("key", Some("keys")),
            ("worker.lease", Some("worker.lease_ms")),
            ("ip_allow_list", Some("ip_allowlist")),
            ("secret", None),
            ("", None),
        ] {
            assert_eq!(super::nearest(name, known), nearest, "{name}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(super::beginning("éé", 2), "éé");
        assert_eq!(super::beginning("ééé", 2), "éé…");
    }

    #[test]
    fn one_is_not_many() {
        let texts = [0, 1, 999, 2_000, 1_234_567].map(|number| super::count(number, "user"));
        assert_eq!(texts, ["0 users", "1 user", "999 users", "2,000 users", "1,234,567 users"]);
    }
}
