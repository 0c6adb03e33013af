//! What commands print: text for people, or JSON for programs.

use jiff::{SpanRound, Timestamp, Unit};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::CommandResult;
use kit::clock::from_ms;

/// Prints rows as lines below a heading, or each as a JSON object on one line.
pub fn rows<T: Serialize>(
    is_json: bool,
    heading: &str,
    rows: &[T],
    line: impl Fn(&T) -> String,
) -> CommandResult {
    if !is_json {
        println!("{heading}");
    }
    for row in rows {
        println!("{}", if is_json { serde_json::to_string(row)? } else { line(row) });
    }
    Ok(())
}

/// Prints an object as lines, or as indented JSON.
pub fn object<T: Serialize>(
    is_json: bool,
    object: &T,
    details: impl FnOnce(&T) -> String,
) -> CommandResult {
    if is_json {
        println!("{}", serde_json::to_string_pretty(object)?);
    } else {
        print!("{}", details(object));
    }
    Ok(())
}

/// Fields with their values, one on each line.
pub fn fields<const N: usize>(fields: [(&str, String); N]) -> String {
    fields.map(|(name, value)| format!("{name:<12} {value}\n")).concat()
}

/// Maximum number of characters of a text at the end of a row.
const ROW_TEXT: usize = 60;

/// Maximum number of characters of a line below a row.
const LINE: usize = 100;

/// The last column of a row, if it may be long: as it is if it is short, or else in indented lines
/// below the row.
pub fn last_column(text: Option<&str>) -> String {
    match text {
        None | Some("") => "-".into(),
        Some(text) if text.chars().count() <= ROW_TEXT => text.into(),
        Some(text) => wrapped(text).iter().fold("below".into(), |all, line| all + "\n    " + line),
    }
}

/// A text in lines. Words that are longer than a line are split.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let characters: Vec<char> = word.chars().collect();
        for piece in characters.chunks(LINE) {
            let piece: String = piece.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + piece.chars().count() <= LINE => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    lines
}

/// How long ago, in days to seconds, such as `2d 3h 4m 5s`.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let rounding = SpanRound::new().largest(Unit::Day).smallest(Unit::Second).days_are_24_hours();
    match (now - then.min(now)).round(rounding) {
        Ok(span) => format!("{span:#}"),
        Err(_) => (now - then.min(now)).to_string(),
    }
}

/// An instant in a JSON object.
pub fn instant(ms: Option<i64>) -> Option<String> {
    ms.map(|ms| from_ms(ms).to_string())
}

/// Prints a new secret, which `object` describes with the secret in it, and `name` to people.
pub fn secret(is_json: bool, object: &Value, name: &str, secret: &str) {
    if is_json {
        println!("{object}");
    } else {
        eprintln!("{name}; its secret is shown only once:");
        println!("{secret}");
    }
}

/// Prints keys or tokens: `text` has the name and what distinguishes them.
pub fn credentials<T>(
    is_json: bool,
    found: &[T],
    kind: &str,
    object: impl Fn(&T) -> Value,
    text: impl Fn(&T) -> String,
) {
    for credential in found {
        if is_json {
            println!("{}", object(credential));
        } else {
            print!("{}", text(credential));
        }
    }
    if found.is_empty() && !is_json {
        println!("No {kind}.");
    }
}

/// The lines of a key or token with its times.
pub fn times(created_at: i64, last_used_at: Option<i64>, revoked_at: Option<i64>) -> String {
    let line = |name: &str, ms: Option<i64>| {
        format!("  {name:<12} {}\n", instant(ms).unwrap_or_else(|| "never".into()))
    };
    let revoked = revoked_at.map(|ms| line("revoked", Some(ms))).unwrap_or_default();
    line("created", Some(created_at)) + &line("last used", last_used_at) + &revoked
}

/// Prints that a key or token is revoked; `suffix` is " of WORKSPACE", if it is of one.
pub fn revoked(is_json: bool, id: Uuid, name: &str, suffix: &str, is_declared: bool) {
    if is_json {
        println!("{}", json!({"id": id, "name": name, "revoked": true}));
    } else {
        println!("revoked {name}{suffix}");
    }
    if is_declared {
        eprintln!(
            "the workspace file declares it: remove it there, or set a new secret; apply refuses \
             the revoked one"
        );
    }
}

/// An error if some of the objects that a command was to change were not; each was printed.
pub fn all_done(failed: usize, all: usize, failure: &str) -> CommandResult {
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} of {all} {failure}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_below_its_row() {
        assert_eq!([None, Some(""), Some("busy")].map(last_column), ["-", "-", "busy"]);
        for text in
            ["a reply of words ".repeat(30), "é".repeat(250), format!("x {}", "y".repeat(99))]
        {
            let column = last_column(Some(&text));
            let mut lines = column.lines();
            assert_eq!(lines.next(), Some("below"));
            let below: Vec<&str> = lines.map(|line| line.strip_prefix("    ").unwrap()).collect();
            assert!(below.iter().all(|line| line.chars().count() <= LINE), "{below:?}");
            let without_blanks = |text: &str| text.replace(' ', "");
            assert_eq!(without_blanks(&below.concat()), without_blanks(&text));
        }
    }

    #[test]
    fn ages_read_well() {
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        let then: Timestamp = "2026-03-02T04:06:02Z".parse().unwrap();
        assert_eq!(age(then, now), "2d 1h 5s");
        assert_eq!(age(now, then), "0s");
    }
}
