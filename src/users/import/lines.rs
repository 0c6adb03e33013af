//! Reads lines and checks them, on a separate thread.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use tokio::sync::mpsc;

use super::{BadLine, file_format};
use crate::users::profile::MAX_BYTES;
use crate::users::record::Record;
use kit::clock::Clock;

/// Maximum bytes of a line: enough for the largest profile with its activity.
const MAX_LINE: usize = 4 * MAX_BYTES;

/// Maximum bytes of lines in one batch, give or take one line.
const MAX_BATCH: usize = 16 * MAX_BYTES;

/// One stream of lines.
pub struct Input {
    /// Its name in messages.
    name: Arc<str>,
    pub(crate) reader: Box<dyn BufRead + Send>,
}

impl Input {
    /// Lines of JSON; compressed with gzip if the name ends with `.gz`.
    pub fn new(name: &str, reader: impl Read + Send + 'static) -> Self {
        const BUFFER: usize = 256 << 10;
        let reader: Box<dyn BufRead + Send> = if name.ends_with(".gz") {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader)))
        } else {
            Box::new(BufReader::with_capacity(BUFFER, reader))
        };
        Self { name: name.into(), reader }
    }
}

/// The file and line of a record.
pub struct Origin {
    pub file: Arc<str>,
    pub line: u64,
    /// Empty unless lines are kept.
    pub text: Vec<u8>,
}

/// The records of one transaction.
#[derive(Default)]
pub struct Batch {
    pub records: Vec<Record>,
    /// The origin of each record.
    pub origins: Vec<Origin>,
    pub bad: Vec<BadLine>,
    /// Lines that are not blank.
    pub lines: u64,
    pub broken_files: u64,
    bytes: usize,
}

/// Reads all inputs into batches of `size` records, until the receiver is gone. If an input does
/// not consist of lines of JSON, only its first line is read. With `keep`, batches include the
/// lines themselves.
pub fn read(
    inputs: Vec<Input>,
    size: usize,
    keep: bool,
    clock: &Clock,
    currency: &str,
    to_writer: &mpsc::Sender<Batch>,
) {
    let mut batch = Batch::default();
    for Input { name, mut reader } in inputs {
        let mut line = Vec::new();
        let mut is_first = true;
        for number in 1.. {
            let read = next_line(&mut *reader, &mut line);
            let mut ends = read.is_err();
            let text = || if keep { line.clone() } else { Vec::new() };
            let mut bad_text = Vec::new();
            let bad = match read {
                Ok(Line::End) => break,
                Ok(Line::TooLong) => Some(format!("longer than {} MiB", MAX_LINE >> 20)),
                Ok(Line::Read) if line.trim_ascii().is_empty() => continue,
                Ok(Line::Read) => {
                    let first = std::mem::take(&mut is_first);
                    let file_format = first.then(|| file_format::problem(&name, &line)).flatten();
                    match (file_format, record(&line, number, clock, currency)) {
                        (Some(problem), _) => {
                            ends = true;
                            batch.broken_files += 1;
                            Some(problem)
                        }
                        (None, Ok(record)) => {
                            batch.records.push(record);
                            let (file, line_number) = (name.clone(), number);
                            batch.origins.push(Origin { file, line: line_number, text: text() });
                            batch.bytes += line.len();
                            None
                        }
                        (None, Err(reason)) => {
                            bad_text = text();
                            batch.bytes += bad_text.len();
                            Some(reason)
                        }
                    }
                }
                Err(ref error) => {
                    batch.broken_files += 1;
                    Some(format!("cannot read the rest of the file: {error}"))
                }
            };
            batch.lines += u64::from(read.is_ok());
            if let Some(reason) = bad {
                let (file, text) = (name.to_string(), bad_text);
                batch.bad.push(BadLine { file, line: number, reason, text });
            }
            let full =
                batch.records.len() >= size || batch.bad.len() >= size || batch.bytes >= MAX_BATCH;
            if full && to_writer.blocking_send(std::mem::take(&mut batch)).is_err() {
                return;
            }
            if ends {
                break;
            }
        }
    }
    // A closed receiver has reported its reason.
    let _ = to_writer.blocking_send(batch);
}

fn record(line: &[u8], number: u64, clock: &Clock, currency: &str) -> Result<Record, String> {
    let line = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    // Some programs begin their files with a byte order mark.
    let line = if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
    Record::parse(line, clock.now_ms(), currency).map_err(|error| error.to_string())
}

pub(crate) enum Line {
    Read,
    /// The line was too long, and was skipped.
    TooLong,
    End,
}

/// Reads the next line into `line`, without its line break and at most [`MAX_LINE`] bytes.
pub(crate) fn next_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Line> {
    line.clear();
    let mut too_long = false;
    loop {
        let available = match reader.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok(match too_long {
                true => Line::TooLong,
                false if line.is_empty() => Line::End,
                false => Line::Read,
            });
        }
        let (taken, ends) = match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (available.len(), false),
        };
        too_long |= line.len() + taken > MAX_LINE;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        reader.consume(taken);
        if ends {
            return Ok(if too_long { Line::TooLong } else { Line::Read });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(inputs: Vec<Input>, size: usize) -> Vec<Batch> {
        let (sender, mut receiver) = mpsc::channel(100);
        read(inputs, size, true, &Clock::system(), "USD", &sender);
        drop(sender);
        std::iter::from_fn(|| receiver.blocking_recv()).collect()
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::bufread::GzEncoder::new(text.as_bytes(), Default::default());
        let mut bytes = Vec::new();
        encoder.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn blank_lines_are_skipped_and_bad_ones_are_named() {
        let long = format!("{{\"email\":\"{}\"}}", "x".repeat(MAX_LINE));
        let text = format!(
            "\u{feff}{{\"email\":\"a@b\"}}\r\n\n  \n{{\n{long}\n{{\"email\":\"c@d\"}}\n\u{1}\nlast"
        );
        let batches = read_all(vec![Input::new("a.json", std::io::Cursor::new(text))], 100);
        let [batch] = batches.as_slice() else { panic!("one batch") };
        assert_eq!(batch.records.len(), 2);
        assert_eq!(batch.origins.iter().map(|origin| origin.line).collect::<Vec<_>>(), [1, 6]);
        assert_eq!(batch.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [4, 5, 7, 8]);
        assert_eq!(batch.bad[1].reason, "longer than 4 MiB");
        let texts: Vec<&[u8]> = batch.bad.iter().map(|bad| bad.text.as_slice()).collect();
        assert_eq!(texts, [&b"{\n"[..], b"", b"\x01\n", b"last"]);
        assert_eq!(batch.lines, 6);
    }

    #[test]
    fn unknown_file_formats_are_not_read() {
        let csv = "\nexternal_id,email\nann,ann@acme.example\n";
        let batches = read_all(
            vec![
                Input::new("a.txt", std::io::Cursor::new(csv)),
                Input::new("b.json", std::io::Cursor::new("{\"email\":\"a@b\"}")),
            ],
            100,
        );
        let [batch] = batches.as_slice() else { panic!("one batch") };
        assert_eq!((batch.records.len(), batch.bad.len(), batch.broken_files), (1, 1, 1));
        let bad = &batch.bad[0];
        assert!((bad.file.as_str(), bad.line) == ("a.txt", 2) && bad.reason.contains("CSV"));
        assert!(bad.text.is_empty());
    }

    #[test]
    fn gzip_is_unpacked_and_truncation_is_reported() {
        let whole = gzip("{\"email\":\"a@b\"}\n{\"email\":\"c@d\"}\n");
        // Two gzip members, as in `cat a.gz b.gz`.
        let twice = [whole.clone(), whole.clone()].concat();
        let torn = whole[..whole.len() - 6].to_vec();
        let batches = read_all(
            vec![
                Input::new("twice.gz", std::io::Cursor::new(twice)),
                Input::new("torn.gz", std::io::Cursor::new(torn)),
                Input::new("plain", std::io::Cursor::new("{\"email\":\"e@f\"}")),
            ],
            2,
        );
        let records: usize = batches.iter().map(|batch| batch.records.len()).sum();
        assert_eq!(records, 4 + 2 + 1);
        assert_eq!(batches.iter().map(|batch| batch.broken_files).sum::<u64>(), 1);
        let bad: Vec<_> = batches.iter().flat_map(|batch| &batch.bad).collect();
        assert_eq!((bad.len(), bad[0].file.as_str(), bad[0].line), (1, "torn.gz", 3));
    }
}
