//! Recognizes files that are not newline-delimited JSON by their first line.

use std::path::Path;

use kit::words::beginning;

/// Maximum number of columns of a CSV that are shown, and of characters of each.
const COLUMNS: usize = 8;
const SHOWN: usize = 32;

/// The problem of a file that begins with this line; none if it may be lines of JSON.
pub fn problem(name: &str, line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim();
    if text == "[" || text.starts_with("[{") {
        return Some(
            "this is a JSON array, not newline-delimited JSON: write one object per line, such as \
             with `jq -c '.[]'`"
                .into(),
        );
    }
    if text == "{" {
        return Some(
            "this is JSON over several lines, not newline-delimited JSON: write one object per \
             line, such as with `jq -c .`"
                .into(),
        );
    }
    if text.starts_with('{') {
        return None;
    }
    let columns = columns(text);
    (columns.is_some() || has_csv_name(name)).then(|| {
        let columns = columns.map(|columns| format!(" with the columns {columns}"));
        format!(
            "this is CSV{}, not newline-delimited JSON: write one JSON object per line, with the \
             columns as its fields",
            columns.unwrap_or_default()
        )
    })
}

/// The names in the first line of a CSV, as an error shows them.
fn columns(text: &str) -> Option<String> {
    let separator = [',', ';', '\t'].into_iter().find(|separator| text.contains(*separator))?;
    let columns: Vec<&str> =
        text.split(separator).map(|column| column.trim().trim_matches('"')).collect();
    let is_name =
        |column: &&str| column.chars().all(|c| c.is_alphanumeric() || "_-. $".contains(c));
    if !columns.iter().all(is_name) || columns.iter().all(|column| column.is_empty()) {
        return None;
    }
    let shown = columns.iter().filter(|column| !column.is_empty()).take(COLUMNS);
    let mut shown: Vec<_> = shown.map(|column| beginning(column, SHOWN)).collect();
    if columns.len() > COLUMNS {
        shown.push("…".into());
    }
    Some(shown.join(", "))
}

fn has_csv_name(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| {
        extension.eq_ignore_ascii_case("csv") || extension.eq_ignore_ascii_case("tsv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_recognized() {
        for (name, line, part) in [
            ("-", "external_id,email\r\n", "CSV with the columns external_id, email"),
            ("-", "\u{feff}\"external id\";\"e-mail\"", "external id, e-mail"),
            ("u.tsv", "id\tname\n", "id, name"),
            ("u.CSV.gz", "ann@acme.example,Ann", "this is CSV, not"),
            ("u.csv", "email", "this is CSV, not"),
            ("-", ",0,1,2,3,4,5,6,7,8,9", "0, 1, 2, 3, 4, 5, 6, 7, …"),
            ("-", "[", "JSON array"),
            ("u.csv", "[{\"external_id\":\"a\"},", "JSON array"),
            ("-", "{\n", "several lines"),
        ] {
            let problem = problem(name, line.as_bytes()).unwrap_or_default();
            assert!(problem.contains(part), "{line}: {problem}");
        }
        for (name, line) in [
            ("-", "{\"external_id\":\"a\"}"),
            ("u.csv", "{\"external_id\":\"a\"}"),
            ("-", "{\"a\":"),
            ("-", "email"),
            ("-", ",,"),
            ("-", "[1]"),
            ("-", "\"email\": \"a@b\", \"c\": 1}"),
            ("-", "\u{1}"),
        ] {
            assert_eq!(problem(name, line.as_bytes()), None, "{line}");
        }
        assert_eq!(problem("-", b"\xff,a"), None);
    }
}
