//! Numbers, and what others wrote, as texts that people read.

use std::borrow::Cow;

use indicatif::HumanCount;

/// `1 user`, `2,000 users`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

/// A text that somebody else chose, as an error repeats it: no more than its beginning, of so
/// many characters.
pub fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(super::beginning("éé", 2), "éé");
        assert_eq!(super::beginning("ééé", 2), "éé…");
    }

    #[test]
    fn one_is_not_many() {
        let texts = [0, 1, 2_000].map(|number| super::count(number, "user"));
        assert_eq!(texts, ["0 users", "1 user", "2,000 users"]);
    }
}
