//! Reads lines and checks them, on a separate thread.

use std::io::BufRead;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::decode::{self, Input, LineFile};
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

/// How the reading of a file ended.
enum Ended {
    AtItsEnd,
    /// The rest of its input cannot be read either.
    Broken,
    /// The receiver is gone.
    Stopped,
}

impl Reader {
    /// Reads all inputs, until the receiver is gone. If a file does not consist of lines of JSON,
    /// only its first line is read.
    pub fn read(&self, inputs: Vec<Input>, to_writer: &mpsc::Sender<Batch>) {
        let mut batch = Batch::default();
        for mut input in inputs {
            loop {
                let ended = match input.next_file() {
                    Ok(None) => break,
                    Ok(Some(file)) => self.read_file(file, &mut batch, to_writer),
                    Err(error) => {
                        batch.break_file(input.name(), 1, decode::describe(&error));
                        Ended::Broken
                    }
                };
                match ended {
                    Ended::AtItsEnd => {}
                    Ended::Broken => break,
                    Ended::Stopped => return,
                }
            }
        }
        // A closed receiver has reported its reason.
        let _ = to_writer.blocking_send(batch);
    }

    fn read_file(
        &self,
        mut file: LineFile,
        batch: &mut Batch,
        to_writer: &mpsc::Sender<Batch>,
    ) -> Ended {
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
                        return Ended::AtItsEnd;
                    }
                    self.take(&file.name, number, &line, batch);
                }
                Err(error) => {
                    let reason = format!(
                        "cannot read the rest of the file, after {} and {} of it: {}",
                        count(number - 1, "line"),
                        count(file.bytes_read(), "byte"),
                        decode::describe(&error)
                    );
                    batch.break_file(&file.name, number, reason);
                    return Ended::Broken;
                }
            }
            let is_full = batch.records.len() >= self.size
                || batch.bad.len() >= self.size
                || batch.bytes >= MAX_BATCH;
            if is_full && to_writer.blocking_send(std::mem::take(batch)).is_err() {
                return Ended::Stopped;
            }
        }
        Ended::AtItsEnd
    }

    fn take(&self, file: &Arc<str>, number: u64, line: &[u8], batch: &mut Batch) {
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
    let text = str::from_utf8(line).ok();
    text.is_some_and(|text| text.trim_start_matches(BYTE_ORDER_MARK).trim_ascii().is_empty())
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
    use std::io::Read as _;

    use super::*;

    fn read_all(inputs: Vec<Input>, size: usize) -> Vec<Batch> {
        let (sender, mut receiver) = mpsc::channel(1_000);
        let (clock, currency) = (Clock::system(), "USD".to_owned());
        Reader { size, keep: true, clock, currency, alias: None }.read(inputs, &sender);
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
        let packed = gzip("{\"email\":\"a@b\"}\n{\"email\":\"c@d\"}\n");
        // Two gzip members, as in `cat a.gz b.gz`.
        let twice = [packed.clone(), packed.clone()].concat();
        let torn = packed[..packed.len() - 6].to_vec();
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
        let read = format!("after 2 lines and {} bytes", packed.len() - 6);
        assert!(bad[0].reason.contains(&read), "{}", bad[0].reason);
        assert!(bad[0].reason.contains("truncated"), "{}", bad[0].reason);
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    /// A ZIP of these files, compressed or not, with sizes after the data or before.
    fn zip(files: &[(&str, &[u8])], is_compressed: bool, has_descriptor: bool) -> Vec<u8> {
        let mut zip = Vec::new();
        for (name, data) in files {
            let mut crc = flate2::Crc::new();
            crc.update(data);
            let mut stored = data.to_vec();
            if is_compressed {
                stored.clear();
                let mut encoder = flate2::bufread::DeflateEncoder::new(*data, Default::default());
                encoder.read_to_end(&mut stored).unwrap();
            }
            let sizes = [crc.sum(), stored.len() as u32, data.len() as u32];
            let flags = if has_descriptor { 8_u16 } else { 0 };
            let method = if is_compressed { 8_u16 } else { 0 };
            zip.extend_from_slice(b"PK\x03\x04\x14\0");
            zip.extend_from_slice(&flags.to_le_bytes());
            zip.extend_from_slice(&method.to_le_bytes());
            zip.extend_from_slice(&[0; 4]);
            for size in sizes {
                zip.extend_from_slice(&if has_descriptor { 0 } else { size }.to_le_bytes());
            }
            zip.extend_from_slice(&(name.len() as u16).to_le_bytes());
            zip.extend_from_slice(&[0; 2]);
            zip.extend_from_slice(name.as_bytes());
            zip.extend_from_slice(&stored);
            if has_descriptor {
                zip.extend_from_slice(b"PK\x07\x08");
                sizes.iter().for_each(|size| zip.extend_from_slice(&size.to_le_bytes()));
            }
        }
        zip.extend_from_slice(b"PK\x05\x06");
        zip.extend_from_slice(&[0; 18]);
        zip
    }

    /// The email addresses that were read from bytes, and the reasons of what was not.
    fn read_bytes(bytes: Vec<u8>) -> (Vec<String>, Vec<BadLine>) {
        let batches = read_all(vec![Input::new("-", std::io::Cursor::new(bytes))], 100);
        let (mut emails, mut bad) = (Vec::new(), Vec::new());
        for mut batch in batches {
            emails.extend(batch.records.into_iter().filter_map(|record| record.email));
            bad.append(&mut batch.bad);
        }
        (emails, bad)
    }

    #[test]
    fn forms_are_recognized_by_their_content() {
        let text = "{\"email\":\"a@b\"}\n{\"email\":\"ö@d\",\"first_name\":\"😀\"}";
        let bom = format!("\u{feff}{text}");
        let (little, big) = (utf16(&bom, u16::to_le_bytes), utf16(&bom, u16::to_be_bytes));
        let once = gzip(text);
        let mut twice = Vec::new();
        let mut encoder = flate2::bufread::GzEncoder::new(&once[..], Default::default());
        encoder.read_to_end(&mut twice).unwrap();
        for bytes in [
            bom.clone().into_bytes(),
            little.clone(),
            big,
            utf16(text, u16::to_le_bytes),
            once.clone(),
            twice,
            zip(&[("a", text.as_bytes())], true, false),
            zip(&[("a/", b""), ("a/b", text.as_bytes())], true, true),
            zip(&[("__MACOSX/a", b"\0"), ("b", &little)], false, false),
            zip(&[("a.gz", &once)], false, false),
        ] {
            let (emails, bad) = read_bytes(bytes.clone());
            assert_eq!((emails.join(" "), bad), ("a@b ö@d".to_owned(), vec![]), "{bytes:?}");
        }
        // Large enough for several buffers.
        let many = format!("{text}\n").repeat(20_000);
        for bytes in [
            utf16(&format!("\u{feff}{many}"), u16::to_be_bytes),
            zip(&[("a", many.as_bytes()), ("b", many.as_bytes())], true, true),
            zip(&[("a", many.as_bytes()), ("b", many.as_bytes())], false, false),
        ] {
            let (emails, bad) = read_bytes(bytes);
            assert!(emails.len() >= 40_000 && bad.is_empty(), "{} {:?}", emails.len(), bad.first());
        }
        assert_eq!(read_bytes(zip(&[], true, false)), (vec![], vec![]));
        assert_eq!(read_bytes(Vec::new()), (vec![], vec![]));
        assert_eq!(read_bytes("\u{feff}".into()), (vec![], vec![]));
        // Joined files.
        let joined = format!("{bom}\n{bom}");
        assert_eq!(read_bytes(joined.into_bytes()).0.len(), 4);
    }

    #[test]
    fn forms_that_cannot_be_read_are_named_once() {
        let line = "{\"email\":\"a@b\"}";
        let lines = format!("{line}\n{line}\n");
        let mut encrypted = zip(&[("a", lines.as_bytes())], true, false);
        encrypted[6] |= 1;
        let mut damaged = zip(&[("a", lines.as_bytes())], false, false);
        damaged[14] ^= 1;
        let archive = zip(&[("a", lines.as_bytes()), ("b", lines.as_bytes())], true, false);
        let joined = [lines.as_bytes(), &utf16(&format!("\u{feff}{lines}"), u16::to_le_bytes)];
        let mut many_times = lines.clone().into_bytes();
        for _ in 0..10 {
            let mut packed = Vec::new();
            let mut encoder = flate2::bufread::GzEncoder::new(&many_times[..], Default::default());
            encoder.read_to_end(&mut packed).unwrap();
            many_times = packed;
        }
        for (bytes, part, read) in [
            (b"\x28\xb5\x2f\xfd\n\n\n".to_vec(), "Zstandard", 0),
            (b"\xff\xfe\0\0{\0\0\0\n\0\0\0".to_vec(), "UTF-32", 0),
            (encrypted, "encrypted", 0),
            (zip(&[("b", &archive)], false, false), "ZIP inside a ZIP", 0),
            (archive[..archive.len() - 22].to_vec(), "truncated", 4),
            (damaged, "damaged", 2),
            (many_times, "more than 4 times", 0),
            (joined.concat(), "UTF-16", 2),
            (zip(&[("a", b"id,email\n1,2\n")], true, false), "CSV", 0),
            ([&*archive, &*archive].concat(), "after the ZIP", 4),
        ] {
            let (emails, bad) = read_bytes(bytes);
            let reasons: Vec<&str> = bad.iter().map(|bad| bad.reason.as_str()).collect();
            assert!(reasons.len() == 1 && reasons[0].contains(part), "{part}: {reasons:?}");
            assert_eq!(emails.len(), read, "{part}");
        }
        // Only the joint is lost.
        let joint = format!("{line}\u{feff}{line}\n{line}\n");
        let (emails, bad) = read_bytes(joint.into_bytes());
        assert!(emails.len() == 1 && bad.len() == 1 && bad[0].reason.contains("joined"), "{bad:?}");
        // What is no text in UTF-16.
        let mut broken = utf16(&format!("\u{feff}{line}\n"), u16::to_le_bytes);
        broken.extend([b'{', 0, 0, 0xd8, b'\n', 0]);
        broken.extend(utf16(line, u16::to_le_bytes));
        let (emails, bad) = read_bytes(broken);
        assert!(emails.len() == 2 && bad.len() == 1 && bad[0].line == 2, "{bad:?}");
    }
}
