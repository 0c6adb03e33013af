//! Reads lines and checks them, on a separate thread.

use std::io::BufRead;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::decode::{self, FileError, Input, LineFile};
use super::{BadLine, file_format};
use crate::users::profile::MAX_BYTES;
use crate::users::record::{Record, RecordContext};
use kit::clock::Clock;
use kit::words::count;

/// Maximum bytes of a line: enough for the largest profile with its activity.
const MAX_LINE: usize = 4 * MAX_BYTES;

/// Maximum bytes of lines in one batch, give or take one line.
const MAX_BATCH: usize = 16 * MAX_BYTES;

const BYTE_ORDER_MARK: char = '\u{feff}';

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

/// Reads inputs into batches.
pub struct Reader {
    /// Records of a batch.
    pub size: usize,
    /// Whether batches include the lines themselves.
    pub keep: bool,
    pub clock: Clock,
    /// The workspace's currency, and its other name for `service_id`.
    pub currency: String,
    pub alias: Option<String>,
}

impl Reader {
    /// Reads all inputs, until the receiver is gone. If a file does not consist of lines of JSON,
    /// only its first line is read.
    pub fn read(&self, inputs: Vec<Input>, to_writer: &mpsc::Sender<Batch>) {
        let mut batch = Batch::with_capacity(self.size);
        for mut input in inputs {
            loop {
                match input.next_file() {
                    Ok(None) => break,
                    Ok(Some(file)) => {
                        if !self.read_file(file, &mut batch, to_writer) {
                            return;
                        }
                    }
                    Err(FileError { name, error }) => {
                        batch.break_file(&name, 1, decode::describe(&error));
                    }
                }
            }
        }
        // A closed receiver has reported its reason.
        let _ = to_writer.blocking_send(batch);
    }

    /// Returns whether the receiver is still there.
    fn read_file(
        &self,
        mut file: LineFile,
        batch: &mut Batch,
        to_writer: &mpsc::Sender<Batch>,
    ) -> bool {
        let mut line = Vec::new();
        let mut is_first = true;
        for number in 1.. {
            match next_line(&mut *file.reader, &mut line) {
                Ok(Line::End) => break,
                Ok(Line::Read) if is_blank(&line) => continue,
                Ok(Line::TooLong) => {
                    batch.lines += 1;
                    let reason = format!("longer than {} MiB", MAX_LINE >> 20);
                    batch.reject(&file.name, number, reason, Vec::new());
                }
                Ok(Line::Read) => {
                    batch.lines += 1;
                    let problem = if std::mem::take(&mut is_first) {
                        file_format::problem(&file.name, &line)
                    } else {
                        decode::changed_form(&line)
                    };
                    if let Some(problem) = problem {
                        batch.break_file(&file.name, number, problem);
                        return true;
                    }
                    self.add(&file.name, number, &line, batch);
                }
                Err(error) => {
                    let reason = format!(
                        "cannot read the rest of the file, after {} and {} of it: {}",
                        count(number - 1, "line"),
                        count(file.bytes_read(), "byte"),
                        decode::describe(&error)
                    );
                    batch.break_file(&file.name, number, reason);
                    return true;
                }
            }
            let is_full = batch.records.len() >= self.size
                || batch.bad.len() >= self.size
                || batch.bytes >= MAX_BATCH;
            if is_full {
                let full = std::mem::replace(batch, Batch::with_capacity(self.size));
                if to_writer.blocking_send(full).is_err() {
                    return false;
                }
            }
        }
        true
    }

    fn add(&self, file: &Arc<str>, number: u64, line: &[u8], batch: &mut Batch) {
        let text = || if self.keep { line.to_vec() } else { Vec::new() };
        match self.record(line) {
            Ok(record) => {
                batch.records.push(record);
                batch.origins.push(Origin { file: file.clone(), line: number, text: text() });
                batch.bytes += line.len();
            }
            Err(reason) => {
                let text = text();
                batch.bytes += text.len();
                batch.reject(file, number, reason, text);
            }
        }
    }

    fn record(&self, line: &[u8]) -> Result<Record, String> {
        let line = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
        // Some programs begin their files with a byte order mark, and files can be joined.
        let line = line.trim_start_matches(BYTE_ORDER_MARK);
        let context = RecordContext {
            now_ms: self.clock.now_ms(),
            currency: &self.currency,
            service_id_alias: self.alias.as_deref(),
        };
        Record::parse(line, &context).map_err(|error| {
            if line.contains("}\u{feff}{") {
                "two lines without a line break between them, where files were joined".into()
            } else {
                error.to_string()
            }
        })
    }
}

impl Batch {
    fn with_capacity(records: usize) -> Self {
        let (records, origins) = (Vec::with_capacity(records), Vec::with_capacity(records));
        Self { records, origins, ..Self::default() }
    }

    fn reject(&mut self, file: &Arc<str>, line: u64, reason: String, text: Vec<u8>) {
        self.bad.push(BadLine { file: file.to_string(), line, reason, text });
    }

    /// Rejects a file from a line on.
    fn break_file(&mut self, file: &Arc<str>, line: u64, reason: String) {
        self.broken_files += 1;
        self.reject(file, line, reason, Vec::new());
    }
}

/// Whether a line has nothing but spaces and byte order marks.
fn is_blank(line: &[u8]) -> bool {
    if line.starts_with(b"{") {
        return false;
    }
    let text = str::from_utf8(line).ok();
    text.is_some_and(|text| text.trim_start_matches(BYTE_ORDER_MARK).trim_ascii().is_empty())
}

pub enum Line {
    Read,
    /// The line was too long, and was skipped.
    TooLong,
    End,
}

/// Reads the next line into `line`, with its line break and at most [`MAX_LINE`] bytes.
pub fn next_line(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Line> {
    line.clear();
    let length = std::io::Read::take(&mut *reader, MAX_LINE as u64 + 1).read_until(b'\n', line)?;
    if length > MAX_LINE {
        if !line.ends_with(b"\n") {
            reader.skip_until(b'\n')?;
        }
        line.clear();
        return Ok(Line::TooLong);
    }
    Ok(if length == 0 { Line::End } else { Line::Read })
}

#[cfg(test)]
mod tests;
