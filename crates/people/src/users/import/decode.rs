//! Opens a stream of lines in any of its forms, by its content: plain UTF-8, UTF-16, gzip, ZIP, or
//! one inside another.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use super::zip::{Zip, ZipEntry};

type Bytes = Box<dyn Read + Send>;

const BUFFER: usize = 256 << 10;

/// Forms inside one another, such as a file that was compressed twice.
const MAX_DEPTH: usize = 4;

/// Bytes at the beginning that show the form.
const PREFIX: usize = 6;

const UTF16_LE: &[u8] = &[0xff, 0xfe];
const UTF16_BE: &[u8] = &[0xfe, 0xff];
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The beginnings of files that cannot be read, and what they are.
const UNSUPPORTED: [(&[u8], &str); 8] = [
    (&[0xff, 0xfe, 0, 0], "UTF-32, not UTF-8: convert it, such as with `iconv -f UTF-32 -t UTF-8`"),
    (&[0, 0, 0xfe, 0xff], "UTF-32, not UTF-8: convert it, such as with `iconv -f UTF-32 -t UTF-8`"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed with Zstandard: decompress it with `zstd -d`"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "compressed with xz: decompress it with `xz -d`"),
    (b"BZh", "compressed with bzip2: decompress it with `bzip2 -d`"),
    (&[b'7', b'z', 0xbc, 0xaf], "a 7z archive: extract its files"),
    (b"PAR1", "a Parquet file, not newline-delimited JSON"),
    (b"SQLite", "an SQLite database, not newline-delimited JSON"),
];

/// One stream of lines, or several in an archive.
pub struct Input {
    /// Its name in messages.
    name: Arc<str>,
    files: Files,
    read: Arc<AtomicU64>,
}

enum Files {
    One(Bytes),
    Archive(Zip),
    End,
}

/// An error that ended a file.
pub struct FileError {
    /// The file's name, as in [`LineFile`].
    pub name: Arc<str>,
    pub error: io::Error,
}

/// A stream of lines.
pub struct LineFile {
    /// Its name in messages; an archive's file has the names of both.
    pub name: Arc<str>,
    pub reader: Box<dyn BufRead + Send>,
    read: Arc<AtomicU64>,
}

impl Input {
    /// Newline-delimited JSON.
    pub fn new(name: &str, reader: impl Read + Send + 'static) -> Self {
        let read = Arc::new(AtomicU64::new(0));
        let files = Files::One(Box::new(Counted { reader, read: read.clone() }));
        Self { name: name.into(), files, read }
    }

    /// Opens the next stream of lines. After an error of one, the next one may be readable.
    pub fn next_file(&mut self) -> Result<Option<LineFile>, FileError> {
        let name = self.name.clone();
        let input_error = |error| FileError { name: name.clone(), error };
        let zip = match std::mem::replace(&mut self.files, Files::End) {
            Files::End => return Ok(None),
            Files::One(bytes) => match open(bytes, MAX_DEPTH).map_err(input_error)? {
                Opened::Lines(reader) => return Ok(Some(self.file(name, reader))),
                Opened::Archive(zip) => zip,
            },
            Files::Archive(zip) => zip,
        };
        let Some(ZipEntry { name: entry, reader }) = zip.next_entry().map_err(input_error)? else {
            return Ok(None);
        };
        self.files = Files::Archive(zip);
        let name: Arc<str> = format!("{name}/{entry}").into();
        let opened = reader.and_then(|reader| open(Box::new(reader), MAX_DEPTH));
        match opened {
            Ok(Opened::Lines(reader)) => Ok(Some(self.file(name, reader))),
            Ok(Opened::Archive(_)) => {
                Err(FileError { name, error: unreadable("this is a ZIP inside a ZIP: extract it") })
            }
            Err(error) => Err(FileError { name, error }),
        }
    }

    fn file(&self, name: Arc<str>, reader: Box<dyn BufRead + Send>) -> LineFile {
        LineFile { name, reader, read: self.read.clone() }
    }
}

impl LineFile {
    /// The bytes that were read from the input until now, as they are stored.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// The text of an error that ended a file.
pub fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "the file is truncated: its compressed data has no end".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The problem of a file that continues with this line after others; none if it may be another
/// line. Files of different forms cannot be joined.
pub fn changed_form(line: &[u8]) -> Option<String> {
    let form = match line {
        line if line.starts_with(UTF16_LE) || line.starts_with(UTF16_BE) => "UTF-16",
        line if line.starts_with(GZIP) => "gzip",
        line if line.starts_with(Zip::MAGIC) => "ZIP",
        _ => return None,
    };
    Some(format!("the file continues in another form, {form}: import its parts separately"))
}

enum Opened {
    Lines(Box<dyn BufRead + Send>),
    Archive(Zip),
}

fn open(mut bytes: Bytes, depth: usize) -> io::Result<Opened> {
    let mut prefix = Vec::with_capacity(PREFIX);
    // A terminal's first line may be shorter. Blank ones do not show the form.
    let is_line = |prefix: &[u8]| {
        prefix.contains(&b'\n')
            && !prefix.iter().all(|byte| matches!(byte, 0 | b' ' | b'\t'..=b'\r'))
    };
    while prefix.len() < PREFIX && !is_line(&prefix) {
        let mut byte = [0];
        match bytes.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => prefix.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if let Some((_, description)) = UNSUPPORTED.iter().find(|(magic, _)| prefix.starts_with(magic))
    {
        return Err(unreadable(format!("this is {description}")));
    }
    let form = prefix.clone();
    let bytes: Chain<Cursor<Vec<u8>>, Bytes> = Cursor::new(prefix).chain(bytes);
    let bytes = BufReader::with_capacity(BUFFER, bytes);
    if form.starts_with(GZIP) {
        if depth == 0 {
            return Err(unreadable(format!("this is compressed more than {MAX_DEPTH} times")));
        }
        return open(Box::new(Gzip { part: Some(GzDecoder::new(bytes)) }), depth - 1);
    }
    if form.starts_with(Zip::MAGIC) || form.starts_with(Zip::EMPTY) {
        return Ok(Opened::Archive(Zip::new(Box::new(bytes))));
    }
    // Without a byte order mark, text in UTF-16 begins with a character of ASCII.
    let is_big = match form.as_slice() {
        [0xfe, 0xff, ..] | [0, 1..=0x7f, ..] => Some(true),
        [0xff, 0xfe, ..] | [1..=0x7f, 0, ..] => Some(false),
        _ => None,
    };
    Ok(Opened::Lines(match is_big {
        Some(is_big) => {
            let utf8 = Utf16 { bytes, is_big, high: None, text: Vec::new(), offset: 0 };
            Box::new(BufReader::with_capacity(BUFFER, utf8))
        }
        None => Box::new(bytes),
    }))
}

pub(super) fn unreadable(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Gzip data, which may be several files that were joined.
struct Gzip<R> {
    /// None at the end.
    part: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.part {
            let count = part.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let next = part.get_mut().fill_buf()?.first().copied();
            let rest = self.part.take().map(GzDecoder::into_inner);
            match next {
                Some(next) if next == GZIP[0] => self.part = rest.map(GzDecoder::new),
                Some(_) => return Err(unreadable("other data follows the gzip data: remove it")),
                None => {}
            }
        }
        Ok(0)
    }
}

/// Counts the bytes of an input.
struct Counted<R> {
    reader: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// UTF-16 as UTF-8. What is no text becomes a byte that UTF-8 cannot have, so that its line is
/// invalid.
struct Utf16<R> {
    bytes: R,
    is_big: bool,
    /// The first half of a pair.
    high: Option<u16>,
    text: Vec<u8>,
    /// Bytes of the text that were read.
    offset: usize,
}

const NO_TEXT: u8 = 0xff;

impl<R: BufRead> Utf16<R> {
    /// Decodes more text; none is left at the end.
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.offset = 0;
        let mut carried: Option<u8> = None;
        while self.text.is_empty() {
            let available = match self.bytes.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            if available.is_empty() {
                // Half a pair, or half a unit.
                if self.high.take().is_some() || carried.is_some() {
                    self.text.push(NO_TEXT);
                }
                return Ok(());
            }
            let length = available.len();
            let units: Vec<u8> =
                carried.take().into_iter().chain(available.iter().copied()).collect();
            let (pairs, rest) = units.as_chunks::<2>();
            for pair in pairs {
                let unit =
                    if self.is_big { u16::from_be_bytes(*pair) } else { u16::from_le_bytes(*pair) };
                push_unit(&mut self.text, &mut self.high, unit);
            }
            carried = rest.first().copied();
            self.bytes.consume(length);
            // A unit is never divided between two calls.
            if let (Some(first), false) = (carried, self.text.is_empty()) {
                let mut second = [0];
                match self.bytes.read_exact(&mut second) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        self.text.push(NO_TEXT);
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
                let pair = [first, second[0]];
                let unit =
                    if self.is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
                push_unit(&mut self.text, &mut self.high, unit);
            }
        }
        Ok(())
    }
}

fn push_unit(text: &mut Vec<u8>, high: &mut Option<u16>, unit: u16) {
    let is_high = (0xd800..0xdc00).contains(&unit);
    let units = match high.take() {
        None if is_high => {
            *high = Some(unit);
            return;
        }
        None => [None, Some(unit)],
        Some(first) if is_high => {
            *high = Some(unit);
            [None, Some(first)]
        }
        first => [first, Some(unit)],
    };
    for decoded in char::decode_utf16(units.into_iter().flatten()) {
        match decoded {
            Ok(char) => text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(_) => text.push(NO_TEXT),
        }
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.offset == self.text.len() {
            self.fill()?;
        }
        let count = buffer.len().min(self.text.len() - self.offset);
        buffer[..count].copy_from_slice(&self.text[self.offset..self.offset + count]);
        self.offset += count;
        Ok(count)
    }
}
