//! Time zones by their names in the IANA database.

use jiff::tz::{self, TimeZone};

/// The time zone of that name, in any case. `Etc/Unknown` names none.
pub fn zone(name: &str) -> Option<TimeZone> {
    tz::db().get(name).ok().filter(|zone| !zone.is_unknown())
}

/// The name of a time zone as the database spells it: `Europe/Berlin` for `EUROPE/BERLIN`.
pub fn spelled(name: &str) -> Option<String> {
    zone(name)?.iana_name().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_in_the_database() {
        for (name, expected) in [
            ("EUROPE/BERLIN", Some("Europe/Berlin")),
            ("utc", Some("UTC")),
            ("etc/gmt+5", Some("Etc/GMT+5")),
            // Another name of a zone stays as it is.
            ("us/eastern", Some("US/Eastern")),
            ("Etc/Unknown", None),
            ("etc/unknown", None),
            ("Mars/Olympus", None),
            ("+01:00", None),
            (" UTC", None),
            ("", None),
        ] {
            assert_eq!(spelled(name).as_deref(), expected, "{name}");
        }
        for name in tz::db().available() {
            assert_eq!(spelled(&name.as_str().to_lowercase()).as_deref(), Some(name.as_str()));
        }
    }
}
