//! What commands print on standard output: lists and objects, as text for people or as JSON for
//! programs, one object per line.
//!
//! A pipe gets each row on one line, two spaces between columns. Only a terminal gets colours, and
//! long texts below their rows.

use std::fmt::Display;

use console::{Color, Style, Term, measure_text_width};
use jiff::Timestamp;
use serde::Serialize;

use super::CommandResult;
use kit::clock::format_seconds;
use kit::words::grouped;

/// Spaces before a text below its row.
const INDENT: usize = 4;

/// Minimum width of a text below its row.
const MIN_WIDTH: usize = 40;

/// A value in a row of a list, or of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// Its column is aligned to the right.
    Number,
    /// Coloured on a terminal.
    State,
    /// To copy: never broken into lines.
    Unbroken,
}

/// A text. Characters that would change the line or the terminal become spaces.
pub fn text(text: impl Display) -> Cell {
    let text: String = text.to_string();
    Cell { text: text.replace(is_unprintable, " "), kind: Kind::Text }
}

/// Lines for people, outside of a table. The same characters become spaces.
pub fn printable(lines: &str) -> String {
    lines.replace(|c| c != '\n' && is_unprintable(c), " ")
}

/// A number with thousands separators.
pub fn number(number: impl TryInto<i64>) -> Cell {
    measure(grouped(number.try_into().unwrap_or(i64::MAX)))
}

/// A quantity of another form, such as a share or a rate.
pub fn measure(quantity: impl Display) -> Cell {
    Cell { kind: Kind::Number, ..text(quantity) }
}

/// How much is done, such as `1,200/5,000`.
pub fn progress<N: TryInto<i64>>(done: N, total: Option<N>) -> Cell {
    let done = number(done);
    match total {
        Some(total) => measure(format!("{}/{}", done.text, number(total).text)),
        None => done,
    }
}

/// A stored time, in UTC.
pub fn time(ms: i64) -> Cell {
    text(format_seconds(ms))
}

/// The time of something that may not have happened yet.
pub fn time_or_never(ms: Option<i64>) -> Cell {
    ms.map_or_else(|| text("never"), time)
}

/// A time in JSON, in the same form.
pub fn time_in(json: &str) -> Cell {
    match json.parse::<Timestamp>() {
        Ok(at) => time(at.as_millisecond()),
        Err(_) => text(json),
    }
}

/// A text to copy as it is, even if it is long.
pub fn unbroken(line: impl Display) -> Cell {
    Cell { kind: Kind::Unbroken, ..text(line) }
}

/// The name of a state.
pub fn state(name: impl Display) -> Cell {
    Cell { kind: Kind::State, ..text(name) }
}

/// A value, or `-` if there is none.
pub fn optional(cell: Option<Cell>) -> Cell {
    cell.filter(|cell| !cell.text.is_empty()).unwrap_or_else(|| text("-"))
}

/// Prints a list, or that there are none of its objects.
pub fn print<T: Serialize, const N: usize>(
    is_json: bool,
    objects: &str,
    headers: [&str; N],
    list: &[T],
    row: impl Fn(&T) -> [Cell; N],
) -> CommandResult {
    if is_json {
        for object in list {
            println!("{}", serde_json::to_string(object)?);
        }
    } else if list.is_empty() {
        eprintln!("No {objects}.");
    } else {
        let rows: Vec<[Cell; N]> = list.iter().map(row).collect();
        let width = Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        print!("{}", table(headers, &rows, width));
    }
    Ok(())
}

/// Prints an object: its fields, or JSON.
pub fn print_object<T: Serialize, const N: usize>(
    is_json: bool,
    object: &T,
    fields: impl FnOnce(&T) -> [(&'static str, Cell); N],
) -> CommandResult {
    if is_json {
        println!("{}", serde_json::to_string(object)?);
    } else {
        print!("{}", self::fields(fields(object)));
    }
    Ok(())
}

/// Fields with their values, one on each line.
pub fn fields<const N: usize>(fields: [(&str, Cell); N]) -> String {
    let width = fields.iter().map(|(name, _)| measure_text_width(name)).max().unwrap_or(0);
    let line = |(name, cell): (&str, Cell)| format!("{name:<width$}  {}\n", cell.coloured());
    fields.map(line).concat()
}

/// A heading and rows. If they are wider than a terminal, columns without information are left out,
/// and a text in the last column that does not fit is below its row.
fn table<const N: usize>(
    headers: [&str; N],
    rows: &[[Cell; N]],
    terminal_width: Option<usize>,
) -> String {
    let heading = headers.map(text);
    let lines = || std::iter::once(&heading).chain(rows);
    let is_number: [bool; N] =
        std::array::from_fn(|column| rows.iter().any(|row| row[column].kind == Kind::Number));
    let widths: [usize; N] =
        std::array::from_fn(|column| lines().map(|row| row[column].width()).max().unwrap_or(0));
    let full_width = widths.iter().sum::<usize>() + 2 * N.saturating_sub(1);
    let is_too_wide = terminal_width.is_some_and(|width| full_width > width);
    let is_shown = |column: &usize| {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[*column]).collect();
        !is_too_wide || informs(headers[*column], &cells)
    };
    let shown: Vec<usize> = (0..N).filter(is_shown).collect();
    let mut output = String::new();
    for row in lines() {
        let (mut line, mut used, mut below) = (String::new(), 0, Vec::new());
        for column in shown.iter().copied() {
            let cell = &row[column];
            let padding = " ".repeat(widths[column] - cell.width());
            used += widths[column] + 2;
            match terminal_width {
                Some(width)
                    if shown.last() == Some(&column)
                        && cell.kind == Kind::Text
                        && used - padding.len() - 2 > width =>
                {
                    let width = width.saturating_sub(INDENT).max(MIN_WIDTH);
                    below = if cell.is_empty() { Vec::new() } else { wrapped(&cell.text, width) };
                }
                _ if is_number[column] => line += &(padding + &cell.coloured() + "  "),
                _ => line += &(cell.coloured() + &padding + "  "),
            }
        }
        output += line.trim_end_matches(' ');
        output.push('\n');
        for text in below {
            output += &format!("{:INDENT$}{text}\n", "");
        }
    }
    output
}

/// Whether a column distinguishes rows: it has a value, and not only the one workspace that all
/// rows have.
fn informs(header: &str, cells: &[&Cell]) -> bool {
    let is_same = cells.windows(2).all(|pair| pair[0] == pair[1]);
    let has_values = cells.iter().any(|cell| !cell.is_empty());
    has_values && (header != "WORKSPACE" || !is_same)
}

/// A text in lines of at most a width, at least 2, broken at spaces if possible.
fn wrapped(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut text = text.trim();
    while !text.is_empty() {
        let ends = text.char_indices().map(|(start, c)| start + c.len_utf8());
        let fits = |end: &usize| measure_text_width(&text[..*end]) <= width;
        let fitting = ends.take_while(fits).last().unwrap_or(text.len());
        let is_word_end = fitting == text.len() || text[fitting..].starts_with(' ');
        let end = match text[..fitting].rfind(' ') {
            Some(space) if !is_word_end => space,
            _ => fitting,
        };
        lines.push(text[..end].trim_end());
        text = text[end..].trim_start();
    }
    lines
}

/// Controls move the cursor; the others change the direction of the rest of the line, or end it.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Cell {
    fn is_empty(&self) -> bool {
        matches!(self.text.as_str(), "" | "-")
    }

    fn width(&self) -> usize {
        measure_text_width(&self.text)
    }

    fn coloured(&self) -> String {
        match colour(&self.text).filter(|_| self.kind == Kind::State) {
            Some(colour) => Style::new().fg(colour).apply_to(&self.text).to_string(),
            None => self.text.clone(),
        }
    }
}

/// Green for a good end, red for what needs attention, yellow for work in progress.
fn colour(state: &str) -> Option<Color> {
    match state {
        "ok" | "active" | "done" | "sent" | "delivered" | "finished" => Some(Color::Green),
        "FAIL" | "aborted" | "bounced" | "failed" | "given_up" | "late" | "missed" | "revoked"
        | "missing" | "slow" | "stalled" | "stopped" => Some(Color::Red),
        "pending" | "waiting" | "running" | "finishing" | "sending" | "cancelling" => {
            Some(Color::Yellow)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
