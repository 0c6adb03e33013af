//! A file of items: newline-delimited JSON, one item per line with its id and its fields; also
//! compressed.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::{Field, Fields, check};
use people::users::import::{
    BadLine, FileError, Input, Line, describe_error, next_line, problem_of_format,
};

/// Maximum number of invalid lines that an error lists.
const MAX_LISTED: usize = 100;

/// Maximum number of items and of bytes in one batch.
const BATCH_ITEMS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// Properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// SHA-256 of its lines.
    pub hash: [u8; 32],
    pub items: u64,
}

/// An item to be stored.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemDocument {
    pub id: String,
    /// Its values as a JSON object.
    pub doc: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ItemsError {
    #[error("{file}: {error}")]
    Io { file: String, error: std::io::Error },
    #[error("{0}")]
    Bad(BadLines),
}

/// The first invalid lines.
#[derive(Debug, Default)]
pub struct BadLines {
    first: Vec<BadLine>,
    count: u64,
}

impl fmt::Display for BadLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot load the items:")?;
        for BadLine { file, line, reason, .. } in &self.first {
            write!(f, "\n  {file}:{line}: {reason}")?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Reads a whole file, checks every line, and passes its items in batches, each in the order of
/// ids, until `take` returns that no more are needed. Blocks on the disk, so call it where threads
/// may block.
pub fn read(
    path: &Path,
    fields: &Fields,
    mut take: impl FnMut(Vec<ItemDocument>) -> bool,
) -> Result<Digest, ItemsError> {
    let name = path.display().to_string();
    let io = |error| ItemsError::Io { file: name.clone(), error };
    let broken = |file: &str, error| {
        let error = std::io::Error::other(describe_error(&error));
        ItemsError::Io { file: file.to_owned(), error }
    };
    let mut input = Input::new(&name, File::open(path).map_err(io)?);
    let (mut hash, mut count) = (Sha256::new(), 0);
    let (mut ids, mut bad) = (HashSet::new(), BadLines::default());
    let (mut batch, mut bytes, mut line) = (Vec::new(), 0, Vec::new());
    'files: while let Some(mut file) =
        input.next_file().map_err(|FileError { name, error }| broken(&name, error))?
    {
        let mut is_first = true;
        for number in 1.. {
            let read = next_line(&mut *file.reader, &mut line)
                .map_err(|error| broken(&file.name, error))?;
            let item = match read {
                Line::End => break,
                Line::TooLong => Err("is too long".to_owned()),
                Line::Read if line.trim_ascii().is_empty() => continue,
                Line::Read => {
                    let first = std::mem::take(&mut is_first);
                    let problem = first.then(|| problem_of_format(&file.name, &line)).flatten();
                    if let Some(problem) = problem {
                        bad.note(&file.name, number, problem);
                        break;
                    }
                    hash.update(&line);
                    hash.update(b"\n");
                    document(&line, fields).and_then(|item| {
                        if ids.insert(item.id.clone()) {
                            Ok(item)
                        } else {
                            Err(format!("duplicate id {}", item.id))
                        }
                    })
                }
            };
            match item {
                Ok(item) => {
                    count += 1;
                    bytes += item.doc.len();
                    batch.push(item);
                }
                Err(reason) => bad.note(&file.name, number, reason),
            }
            if batch.len() >= BATCH_ITEMS || bytes >= BATCH_BYTES {
                bytes = 0;
                if !take(sorted(std::mem::take(&mut batch))) {
                    break 'files;
                }
            }
        }
    }
    if bad.count > 0 {
        return Err(ItemsError::Bad(bad));
    }
    if !batch.is_empty() {
        take(sorted(batch));
    }
    Ok(Digest { hash: hash.finalize().into(), items: count })
}

impl BadLines {
    fn note(&mut self, file: &str, line: u64, reason: String) {
        self.count += 1;
        if self.first.len() < MAX_LISTED {
            let (file, text) = (file.to_owned(), Vec::new());
            self.first.push(BadLine { file, line, reason, text });
        }
    }
}

fn sorted(mut batch: Vec<ItemDocument>) -> Vec<ItemDocument> {
    batch.sort_unstable();
    batch
}

fn document(line: &[u8], fields: &Fields) -> Result<ItemDocument, String> {
    let line = std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    // Some programs start their files with a byte order mark, and files can be joined.
    let line = line.trim_start_matches('\u{feff}');
    let mut item = check::line(line, fields)?;
    item.values.0.retain(|(_, value)| value.get() != "null");
    let doc = serde_json::to_string(&item.values).map_err(|error| error.to_string())?;
    Ok(ItemDocument { id: item.id.into_owned(), doc })
}

/// An item as a line of a file.
pub fn line(id: &str, doc: &str) -> String {
    let mut out = String::with_capacity(doc.len() + id.len() + 8);
    out.push_str("{\"id\":");
    kit::json::push_string(&mut out, id);
    if doc != "{}" {
        out.push(',');
    }
    out.push_str(doc.strip_prefix('{').unwrap_or(doc));
    out
}

/// The document without these fields; none if it has none of them.
pub fn without(doc: &str, fields: &[String]) -> Result<Option<String>, serde_json::Error> {
    let mut values: super::message::Values<'_> = serde_json::from_str(doc)?;
    let before = values.0.len();
    values.0.retain(|(name, _)| !fields.iter().any(|field| field == name));
    (values.0.len() < before).then(|| serde_json::to_string(&values)).transpose()
}

/// Fields as text, such as `City: string, Rating: number`.
pub fn in_words(fields: &[Field]) -> String {
    let texts = fields.iter().map(|field| format!("{}: {}", field.name, field.kind.name()));
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::catalogs::Type;

    fn fields() -> Fields {
        vec![Field { name: "City".into(), kind: Type::String }].into()
    }

    fn read_text(text: &str) -> Result<(Vec<ItemDocument>, Digest), String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut items = Vec::new();
        let digest = read(file.path(), &fields(), |batch| {
            items.extend(batch);
            true
        });
        let digest = digest.map_err(|error| error.to_string())?;
        Ok((items, digest))
    }

    #[test]
    fn lines_become_items_in_the_order_of_their_ids() {
        let text = "\u{feff}{\"id\":\"b\",\"City\":7}\r\n\n{\"id\":\"a\",\"City\":null}\n";
        let (items, digest) = read_text(text).unwrap();
        let items: Vec<_> =
            items.iter().map(|item| (item.id.as_str(), item.doc.as_str())).collect();
        assert_eq!(items, [("a", "{}"), ("b", "{\"City\":\"7\"}")]);
        assert_eq!(digest.items, 2);
        assert_eq!(line("a", "{}"), "{\"id\":\"a\"}");
        assert_eq!(line("b", "{\"City\":\"7\"}"), "{\"id\":\"b\",\"City\":\"7\"}");
        let (_, changed) = read_text(&text.replace('7', "8")).unwrap();
        assert_ne!(changed.hash, digest.hash);
    }

    #[test]
    fn every_bad_line_is_named() {
        let text = "{\"id\":\"a\"}\n{\"id\":\"a\"}\n{\"id\":\"b\",\"Citty\":1}\n{\n";
        let error = read_text(text).unwrap_err();
        for part in [":2: duplicate id a", ":3: Fields do not exist", ":4: is not valid JSON"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = read_text(&"7\n".repeat(150)).unwrap_err();
        assert!(error.ends_with("and 50 more"), "{error}");
        let error = read(Path::new("no-such.ndjson"), &fields(), |_| true).unwrap_err();
        assert!(error.to_string().starts_with("no-such.ndjson: "), "{error}");
    }

    #[test]
    fn fields_are_removed_from_documents() {
        let removed = ["b".to_owned()];
        assert_eq!(
            without(r#"{"a":1.10,"b":2}"#, &removed).unwrap().as_deref(),
            Some(r#"{"a":1.10}"#)
        );
        assert_eq!(without(r#"{"a":1}"#, &removed).unwrap(), None);
    }
}
