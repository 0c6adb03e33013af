use console::measure_text_width;
use proptest::prelude::*;

use super::*;

const HEADERS: [&str; 3] = ["NAME", "USERS", "REASON"];

fn rows(rows: &[(&str, i64, &str)]) -> Vec<[Cell; 3]> {
    rows.iter().map(|(name, users, reason)| [text(name), number(*users), text(reason)]).collect()
}

#[test]
fn texts_are_aligned_to_the_left_and_numbers_to_the_right() {
    let rows = rows(&[("acme", 1_234_567, "-"), ("日本", 7, "no \u{1f468}\u{200d}\u{1f469} here")]);
    assert_eq!(
        table(HEADERS, &rows, None),
        "NAME      USERS  REASON\n\
         acme  1,234,567  -\n\
         日本          7  no \u{1f468}\u{200d}\u{1f469} here\n"
    );
}

#[test]
fn only_a_terminal_gets_a_long_text_below_its_row() {
    let reason = "the relay refused the message ".repeat(4);
    let rows = rows(&[("acme", 1, &reason), ("", 2, "short")]);
    let piped = table(HEADERS, &rows, None);
    assert_eq!(piped.lines().count(), 3);
    assert!(piped.lines().any(|line| line.ends_with(reason.trim_end())));
    let shown = table(HEADERS, &rows, Some(60));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "NAME  USERS  REASON");
    assert_eq!(lines[1], "acme      1");
    assert_eq!(lines.last(), Some(&"          2  short"));
    let below: Vec<&str> = lines[2..lines.len() - 1]
        .iter()
        .map(|line| line.strip_prefix("    ").expect("indented"))
        .collect();
    assert_eq!(below.join(" "), reason.trim_end());
    assert!(lines.iter().all(|line| measure_text_width(line) <= 60), "{shown}");
}

#[test]
fn a_missing_value_takes_no_line_below_its_row() {
    let reason = "the relay refused the message ".repeat(4);
    let rows = rows(&[("a name of forty columns, which is enough", 1, &reason), ("b", 2, "-")]);
    let shown = table(HEADERS, &rows, Some(48));
    let last = shown.lines().last().expect("a row");
    assert!(last.starts_with('b') && last.ends_with('2'), "{shown}");
    assert!(!shown.contains('-'), "{shown}");
}

#[test]
fn a_table_wider_than_the_terminal_has_only_columns_that_inform() {
    let headers = ["ID", "NEXT TRY", "WORKSPACE", "REASON"];
    let row = |id: &str, workspace: &str, reason: &str| {
        [text(id), optional(None), text(workspace), text(reason)]
    };
    let id = "0197b6a83c557e119a1f3f0f3c2d6e54";
    let same = [row(id, "acme", "refused"), row(id, "acme", "-")];
    let wide = table(headers, &same, Some(80));
    assert!(wide.contains("NEXT TRY") && wide.contains("acme"), "{wide}");
    assert_eq!(table(headers, &same, None), wide, "a pipe always gets all columns");
    let narrow = table(headers, &same, Some(45));
    assert_eq!(narrow.lines().count(), 3, "{narrow}");
    assert!(!narrow.contains("NEXT TRY") && !narrow.contains("acme"), "{narrow}");
    assert!(narrow.contains("refused"), "{narrow}");
    let several = [row(id, "acme", "refused"), row(id, "beta", "refused")];
    assert!(table(headers, &several, Some(45)).contains("beta"));
}

#[test]
fn a_text_cannot_control_the_terminal() {
    let rows = rows(&[("a\r\nb\t\u{1b}[31m\u{9b}1m", 1, "\u{202e}x\u{2028}")]);
    let piped = table(HEADERS, &rows, None);
    assert_eq!(piped.lines().count(), 2);
    assert!(!piped.chars().any(|c| c != '\n' && is_unprintable(c)), "{piped:?}");
    assert_eq!(printable("a\u{1b}[31m\nb\u{9b}1m\r"), "a [31m\nb 1m ");
}

#[test]
fn values_of_objects_are_aligned() {
    let fields = fields([("id", text("7")), ("retried until", time(0)), ("users", number(2_000))]);
    assert_eq!(
        fields,
        "id             7\nretried until  1970-01-01T00:00:00Z\nusers          2,000\n"
    );
    assert_eq!(optional(None), text("-"));
    assert_eq!(progress(1_200, Some(5_000)), measure("1,200/5,000"));
}

/// What is left of a line without each cell and its padding; none if one is not at its place.
fn unaligned<'a>(mut line: &'a str, row: &[Cell; 3], widths: &[usize; 3]) -> Option<&'a str> {
    for (column, cell) in row.iter().enumerate() {
        let padding = " ".repeat(widths[column] - cell.width());
        let (before, after) = if cell.kind == Kind::Number {
            (padding, String::new())
        } else {
            (String::new(), padding)
        };
        let shown = before + &cell.text + &after;
        if column == 2 {
            return line.strip_prefix(shown.trim_end_matches(' '));
        }
        // Only the end of a line is trimmed.
        let with_gap = shown + "  ";
        line = line
            .strip_prefix(&with_gap)
            .or_else(|| (line == with_gap.trim_end_matches(' ')).then_some(""))?;
    }
    Some(line)
}

fn any_text() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..200).prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn columns_are_aligned_for_any_text(
        listed in prop::collection::vec((any_text(), any::<i64>(), any_text()), 0..8),
    ) {
        let rows: Vec<[Cell; 3]> = listed
            .iter()
            .map(|(name, users, reason)| [text(name), number(*users), text(reason)])
            .collect();
        let shown = table(HEADERS, &rows, None);
        let lines: Vec<&str> = shown.split_terminator('\n').collect();
        prop_assert_eq!(lines.len(), rows.len() + 1);
        let widths = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].width());
            cells.max().unwrap_or(0).max(HEADERS[column].len())
        });
        for (line, row) in lines[1..].iter().zip(&rows) {
            prop_assert_eq!(unaligned(line, row, &widths), Some(""), "{}", shown);
        }
    }

    #[test]
    fn no_character_is_lost_below_a_row(reason in any_text(), width in 8_usize..100) {
        let cell = text(&reason);
        let lines = wrapped(&cell.text, width);
        let without_blanks =
            |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert_eq!(without_blanks(&lines.concat()), without_blanks(&cell.text));
        prop_assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{:?}", lines);
    }
}
