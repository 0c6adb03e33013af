//! Numbers as texts that people read.

use indicatif::HumanCount;

/// `1 user`, `2,000 users`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_not_many() {
        let texts = [0, 1, 2_000].map(|number| super::count(number, "user"));
        assert_eq!(texts, ["0 users", "1 user", "2,000 users"]);
    }
}
