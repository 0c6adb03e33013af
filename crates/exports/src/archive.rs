//! The files of an export: ZIP and gzip.
//!
//! A ZIP consists of finished *segments* (a local header with known checksum and sizes, then
//! deflate data) and a central directory after them. A segment does not depend on its position, so
//! many workers write segments in parallel, and the ZIP behind `url` is their concatenation with
//! the directory appended: nothing is compressed twice. Every time in a file is the time of the
//! export's request, so that repeated attempts with the same data give the same bytes.

use std::io;

use jiff::{Timestamp, tz::TimeZone};

use super::deflate::{Deflated, Deflater};

/// The largest number in the fields of a plain ZIP; larger ones need ZIP64.
const MAX_32: u64 = u32::MAX as u64;
const MAX_16: u64 = u16::MAX as u64;

const LOCAL_HEADER: usize = 30;
const GZIP_HEADER: usize = 10;

/// Both sizes, after the id and length of the extra field.
const ZIP64_LOCAL: u64 = 4 + 16;

/// "The name is UTF-8."
const UTF8: u16 = 1 << 11;
const DEFLATE: u16 = 8;
const ZIP64_ID: u16 = 1;
const VERSION_DEFLATE: u16 = 20;
const VERSION_ZIP64: u16 = 45;
const MADE_ON_UNIX: u16 = 3 << 8;
const IS_TEXT: u16 = 1;
/// A regular file that everyone may read, on Unix.
const FILE_MODE: u32 = 0o100_644 << 16;

/// A segment's entry in the central directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub crc32: u32,
    /// Size of the data before compression.
    pub raw_bytes: u64,
    /// Size of the whole segment, its local header included.
    pub stored_bytes: u64,
}

/// A finished file: `head`, then the data that was taken, then `bytes`.
#[derive(Debug)]
pub struct Packed {
    /// The header, if data was taken.
    pub head: Vec<u8>,
    /// How many bytes were taken.
    pub taken: u64,
    /// The whole file, or what follows the data that was taken.
    pub bytes: Vec<u8>,
    /// Checksum of the data before compression.
    pub crc32: u32,
    /// Size of the data before compression.
    pub raw_bytes: u64,
}

impl Packed {
    /// Size of the whole file.
    pub fn stored_bytes(&self) -> u64 {
        (self.head.len() + self.bytes.len()) as u64 + self.taken
    }
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A ZIP of one entry.
    Zip,
    /// A gzip file with its entry's name.
    Gzip,
    /// A segment of a larger ZIP.
    Segment,
}

/// Compresses a file's data piece by piece, with bounded memory.
pub struct Packer {
    shape: Shape,
    name: String,
    time: Timestamp,
    deflater: Deflater,
}

impl Packer {
    /// `name` must have at most 65,535 bytes and no NUL.
    pub fn new(shape: Shape, name: String, time: Timestamp) -> Self {
        let deflater = Deflater::new(header_bytes(shape, &name));
        Self { shape, name, time, deflater }
    }

    /// Adds the data that `write` appends to the buffer; it must not change the buffer's content.
    pub fn append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        self.deflater.append(write)
    }

    /// Takes the compressed data so far if there are at least `min_bytes`.
    pub fn take(&mut self, min_bytes: usize) -> Option<Vec<u8>> {
        self.deflater.take(min_bytes)
    }

    /// Bytes held, plus the bytes that finishing may need.
    pub fn held_bytes(&self) -> usize {
        self.deflater.held_bytes()
    }

    pub fn finish(self) -> io::Result<Packed> {
        let Self { shape, name, time, deflater } = self;
        let reserved = header_bytes(shape, &name);
        let Deflated { mut bytes, taken, crc32, raw_bytes } = deflater.finish()?;
        let data = if taken == 0 { bytes.len() - reserved } else { bytes.len() } as u64 + taken;
        let header = match shape {
            Shape::Gzip => gzip_header(&name, time),
            Shape::Zip | Shape::Segment => local_header(&name, crc32, raw_bytes, data, time),
        };
        let stored_bytes = header.len() as u64 + data;
        let head = if taken == 0 {
            bytes.splice(..reserved, header);
            Vec::new()
        } else {
            header
        };
        match shape {
            Shape::Gzip => {
                let mut file = Fields(bytes);
                // The size is modulo 2^32 by definition.
                file.u32(crc32).u32(raw_bytes as u32);
                bytes = file.0;
            }
            Shape::Zip => {
                let entry = Entry { name, crc32, raw_bytes, stored_bytes };
                bytes.extend(central_directory(&[entry], time));
            }
            Shape::Segment => {}
        }
        Ok(Packed { head, taken, bytes, crc32, raw_bytes })
    }
}

/// Size of a file's header, if it does not need ZIP64.
fn header_bytes(shape: Shape, name: &str) -> usize {
    match shape {
        Shape::Zip | Shape::Segment => LOCAL_HEADER + name.len(),
        Shape::Gzip => GZIP_HEADER + name.len() + 1,
    }
}

fn gzip_header(name: &str, time: Timestamp) -> Vec<u8> {
    let seconds = u32::try_from(time.as_second()).unwrap_or(0);
    let mut header = Fields(Vec::with_capacity(GZIP_HEADER + name.len() + 1));
    // Magic number, deflate, "a name follows"; then "fastest compression", created on Unix.
    header.raw(&[0x1f, 0x8b, 8, 8]).u32(seconds).raw(&[4, 3]).raw(name.as_bytes()).raw(&[0]);
    header.0
}

fn local_header(name: &str, crc32: u32, raw: u64, data: u64, time: Timestamp) -> Vec<u8> {
    let zip64 = raw >= MAX_32 || data >= MAX_32;
    let mut header = Fields(Vec::with_capacity(LOCAL_HEADER + name.len()));
    header.raw(b"PK\x03\x04").u16(if zip64 { VERSION_ZIP64 } else { VERSION_DEFLATE });
    header.u16(UTF8).u16(DEFLATE).u32(dos_time(time)).u32(crc32);
    // With ZIP64, a local header has both sizes in its extra field.
    header.u32(if zip64 { u32::MAX } else { data as u32 });
    header.u32(if zip64 { u32::MAX } else { raw as u32 });
    header.u16(length_16(name.len())).u16(if zip64 { ZIP64_LOCAL as u16 } else { 0 });
    header.raw(name.as_bytes());
    if zip64 {
        header.u16(ZIP64_ID).u16(16).u64(raw).u64(data);
    }
    header.0
}

/// The bytes after the segments of `entries`, which are concatenated in this order from the start
/// of the file: the central directory and the end of the ZIP.
pub fn central_directory(entries: &[Entry], time: Timestamp) -> Vec<u8> {
    let mut out = Fields(Vec::with_capacity(entries.iter().map(|e| 74 + e.name.len()).sum()));
    let mut offset = 0;
    for entry in entries {
        central_header(&mut out, entry, offset, time);
        offset += entry.stored_bytes;
    }
    let size = out.0.len() as u64;
    end_of_directory(&mut out, entries.len() as u64, size, offset);
    out.0
}

fn central_header(out: &mut Fields, entry: &Entry, offset: u64, time: Timestamp) {
    let data = entry.data_bytes();
    // The extra field has only the values that do not fit, in this order.
    let large: Vec<u64> =
        [entry.raw_bytes, data, offset].into_iter().filter(|value| *value >= MAX_32).collect();
    let extra = if large.is_empty() { 0 } else { 4 + 8 * large.len() as u16 };
    let version = if large.is_empty() { VERSION_DEFLATE } else { VERSION_ZIP64 };
    out.raw(b"PK\x01\x02").u16(MADE_ON_UNIX | VERSION_ZIP64).u16(version).u16(UTF8).u16(DEFLATE);
    out.u32(dos_time(time)).u32(entry.crc32).u32_or_max(data).u32_or_max(entry.raw_bytes);
    // Lengths of name, extra field and comment; the disk; attributes.
    out.u16(length_16(entry.name.len())).u16(extra).u16(0).u16(0).u16(IS_TEXT).u32(FILE_MODE);
    out.u32_or_max(offset).raw(entry.name.as_bytes());
    if !large.is_empty() {
        out.u16(ZIP64_ID).u16(extra - 4);
        large.into_iter().for_each(|value| {
            out.u64(value);
        });
    }
}

/// `size` and `start` of the central directory.
fn end_of_directory(out: &mut Fields, entries: u64, size: u64, start: u64) {
    if entries >= MAX_16 || size >= MAX_32 || start >= MAX_32 {
        out.raw(b"PK\x06\x06").u64(44).u16(MADE_ON_UNIX | VERSION_ZIP64).u16(VERSION_ZIP64);
        // This disk and the directory's; entries here and in total.
        out.u32(0).u32(0).u64(entries).u64(entries).u64(size).u64(start);
        out.raw(b"PK\x06\x07").u32(0).u64(start + size).u32(1);
    }
    let count = entries.min(MAX_16) as u16;
    out.raw(b"PK\x05\x06").u16(0).u16(0).u16(count).u16(count);
    out.u32_or_max(size).u32_or_max(start).u16(0);
}

impl Entry {
    /// Size of the compressed data: the segment without its local header.
    fn data_bytes(&self) -> u64 {
        let plain = self.stored_bytes.saturating_sub((LOCAL_HEADER + self.name.len()) as u64);
        let zip64 = self.raw_bytes >= MAX_32 || plain >= MAX_32;
        if zip64 { plain.saturating_sub(ZIP64_LOCAL) } else { plain }
    }
}

/// Date and time in MS-DOS format, in UTC, with a resolution of two seconds; the date is the upper
/// half. Times out of range become the nearest end.
fn dos_time(time: Timestamp) -> u32 {
    let time = time.to_zoned(TimeZone::UTC).datetime();
    if time.year() < 1980 {
        return (1 << 5 | 1) << 16;
    }
    let year = (time.year() - 1980).min(127) as u32;
    let date = year << 9 | (time.month() as u32) << 5 | time.day() as u32;
    let (hour, minute, second) = (time.hour() as u32, time.minute() as u32, time.second() as u32);
    let clock = hour << 11 | minute << 5 | (second / 2);
    date << 16 | clock
}

fn length_16(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Little-endian fields, one after the other.
struct Fields(Vec<u8>);

impl Fields {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// All ones means that ZIP64 has the value.
    fn u32_or_max(&mut self, value: u64) -> &mut Self {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests;
