//! Reads the files of a ZIP from its beginning to its end, without seeking, so that it can come
//! from standard input.

use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::decode::unreadable;

const ENTRY: u32 = 0x0403_4b50;
const DIRECTORY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_ZIP64: u32 = 0x0606_4b50;
const LOCATOR_ZIP64: u32 = 0x0706_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;

const ENCRYPTED: u16 = 1;
const HAS_DESCRIPTOR: u16 = 1 << 3;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

const ZIP64: u16 = 1;
const IN_ZIP64: u32 = u32::MAX;

/// The error of a file whose end is unknown, so that the files after it are not found.
const NO_NEXT: &str = "the ZIP is damaged: it has no file where one is expected";

/// A ZIP that is read once.
pub struct Zip(Arc<Mutex<Stream>>);

/// A file in a ZIP.
pub struct ZipEntry {
    pub name: String,
    /// The error of a file that cannot be read.
    pub reader: io::Result<EntryReader>,
}

/// The data of the current file.
pub struct EntryReader(Arc<Mutex<Stream>>);

struct Stream {
    bytes: Box<dyn BufRead + Send>,
    current: Option<Current>,
    /// The ZIP ended inside of a file.
    is_cut: bool,
}

/// The file that is being read.
struct Current {
    /// None for data that is not compressed.
    inflate: Option<Decompress>,
    /// Whether its data cannot be read, so that it can only be skipped.
    is_broken: bool,
    /// Stored bytes that were read, and those that remain, if they are known.
    bytes_read: u64,
    remaining: Option<u64>,
    /// The expected checksum, if it is before the data.
    crc: Option<u32>,
    actual: Crc,
    has_descriptor: bool,
    is_zip64: bool,
}

impl Zip {
    /// The beginning of every ZIP with files, and of one without.
    pub const MAGIC: &'static [u8] = b"PK\x03\x04";
    pub const EMPTY: &'static [u8] = b"PK\x05\x06";

    pub fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self(Arc::new(Mutex::new(Stream { bytes, current: None, is_cut: false })))
    }

    /// The next file; what was not read of the one before is skipped. After an error there is none.
    pub fn next_entry(&self) -> io::Result<Option<ZipEntry>> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !stream.is_cut {
            stream.skip_current()?;
            let Some((name, opened)) = stream.open_next()? else { break };
            if !name.ends_with('/') && !is_of_desktop(&name) {
                let reader = opened.map(|()| EntryReader(self.0.clone()));
                return Ok(Some(ZipEntry { name, reader }));
            }
        }
        Ok(None)
    }
}

/// Whether macOS or Windows added a file to a folder, with data about others.
fn is_of_desktop(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_named = |known: &str| file.eq_ignore_ascii_case(known);
    name.starts_with("__MACOSX/")
        || [".DS_Store", "Thumbs.db", "desktop.ini"].into_iter().any(is_named)
}

impl Read for EntryReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = stream.read(buffer);
        stream.is_cut |=
            read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        read
    }
}

impl Stream {
    fn u16(&mut self) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.bytes.read_exact(&mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.bytes.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads the header of the next file: its name, and the error if its data cannot be read. None
    /// at the directory, which follows the last one.
    fn open_next(&mut self) -> io::Result<Option<(String, io::Result<()>)>> {
        match self.u32()? {
            ENTRY => {}
            signature @ (DIRECTORY | END | END_ZIP64) => {
                self.read_directory(signature)?;
                return Ok(None);
            }
            _ => return Err(unreadable(NO_NEXT)),
        }
        self.u16()?;
        let (flags, method) = (self.u16()?, self.u16()?);
        self.u32()?;
        let (crc, stored, _) = (self.u32()?, self.u32()?, self.u32()?);
        let (name, extra) = (usize::from(self.u16()?), usize::from(self.u16()?));
        let (mut name, mut extra) = (vec![0; name], vec![0; extra]);
        self.bytes.read_exact(&mut name)?;
        self.bytes.read_exact(&mut extra)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let has_descriptor = flags & HAS_DESCRIPTOR != 0;
        let zip64 = zip64_stored(&extra);
        let remaining = match (stored, zip64) {
            _ if has_descriptor => None,
            (IN_ZIP64, Some(stored)) => Some(stored),
            (stored, _) => Some(u64::from(stored)),
        };
        let problem = match method {
            _ if flags & ENCRYPTED != 0 => Some("the file is encrypted: extract it"),
            STORED if remaining.is_none() => {
                Some("the file has no size before its data: extract it")
            }
            STORED | DEFLATED => None,
            _ => Some("the file has an unknown compression: extract it"),
        };
        self.current = Some(Current {
            inflate: (method == DEFLATED).then(|| Decompress::new(false)),
            is_broken: problem.is_some(),
            bytes_read: 0,
            remaining,
            crc: (!has_descriptor).then_some(crc),
            actual: Crc::new(),
            has_descriptor,
            is_zip64: zip64.is_some(),
        });
        Ok(Some((name, problem.map_or(Ok(()), |problem| Err(unreadable(problem))))))
    }

    /// Skips what was not read of the current file.
    fn skip_current(&mut self) -> io::Result<()> {
        let mut skipped = [0; 8_192];
        while self.current.as_ref().is_some_and(|current| !current.is_broken) {
            match self.read(&mut skipped) {
                // Damage is harmless in data that is only skipped.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                read => _ = read?,
            }
        }
        let Some(current) = self.current.take() else { return Ok(()) };
        match current.remaining {
            Some(remaining) => self.skip(remaining),
            None => self.skip_to_descriptor(current.bytes_read, current.is_zip64),
        }
    }

    /// Skips data of unknown size, of which some bytes were read, and the descriptor after it,
    /// which has the size.
    fn skip_to_descriptor(&mut self, mut bytes_read: u64, is_zip64: bool) -> io::Result<()> {
        let mut last = 0_u32;
        loop {
            let mut byte = [0];
            self.bytes.read_exact(&mut byte).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => unreadable(NO_NEXT),
                _ => error,
            })?;
            bytes_read += 1;
            last = last >> 8 | u32::from(byte[0]) << 24;
            if last != DESCRIPTOR {
                continue;
            }
            let [_, size] = [self.u32()?, self.u32()?];
            if is_size(size, bytes_read - 4) {
                return self.skip(after_size(is_zip64));
            }
            (bytes_read, last) = (bytes_read + 8, 0);
        }
    }

    /// Reads the directory from a record on, to the end of the ZIP, which must be that of the file.
    fn read_directory(&mut self, mut signature: u32) -> io::Result<()> {
        loop {
            match signature {
                DIRECTORY => {
                    self.skip(24)?;
                    let lengths = [self.u16()?, self.u16()?, self.u16()?];
                    self.skip(12 + lengths.map(u64::from).iter().sum::<u64>())?;
                }
                END_ZIP64 => {
                    let length = u64::from(self.u32()?) | u64::from(self.u32()?) << 32;
                    self.skip(length)?;
                }
                LOCATOR_ZIP64 => self.skip(16)?,
                END => break,
                _ => return Err(unreadable("the ZIP is damaged: its directory is not readable")),
            }
            signature = self.u32()?;
        }
        self.skip(16)?;
        let comment = self.u16()?;
        self.skip(u64::from(comment))?;
        if self.bytes.fill_buf()?.is_empty() {
            Ok(())
        } else {
            Err(unreadable("the file continues after the ZIP: import its parts separately"))
        }
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.bytes.by_ref().take(count), &mut io::sink())?;
        if skipped == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(current) = self.current.as_mut().filter(|current| !current.is_broken) else {
            return Ok(0);
        };
        loop {
            let available = self.bytes.fill_buf()?;
            let usable = current.remaining.map_or(available.len(), |remaining| {
                usize::try_from(remaining).unwrap_or(usize::MAX).min(available.len())
            });
            let is_cut = available.is_empty() && current.remaining != Some(0);
            let (used, count, is_end) = match &mut current.inflate {
                None => {
                    let count = usable.min(buffer.len());
                    buffer[..count].copy_from_slice(&available[..count]);
                    (count, count, current.remaining == Some(0))
                }
                Some(inflate) => {
                    let before = (inflate.total_in(), inflate.total_out());
                    let status =
                        inflate.decompress(&available[..usable], buffer, FlushDecompress::None);
                    let Ok(status) = status else {
                        current.is_broken = true;
                        return Err(unreadable("the ZIP is damaged"));
                    };
                    // Both are at most the lengths of the buffers.
                    let used = (inflate.total_in() - before.0) as usize;
                    let count = (inflate.total_out() - before.1) as usize;
                    (used, count, matches!(status, Status::StreamEnd))
                }
            };
            self.bytes.consume(used);
            current.bytes_read += used as u64;
            current.remaining = current.remaining.map(|remaining| remaining - used as u64);
            current.actual.update(&buffer[..count]);
            if is_end {
                self.close()?;
                return Ok(count);
            }
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if is_cut {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if used == 0 && usable == 0 {
                current.is_broken = true;
                return Err(unreadable("the ZIP is damaged"));
            }
        }
    }

    /// Ends the current file, and checks it.
    fn close(&mut self) -> io::Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let mut expected = current.crc;
        if current.has_descriptor {
            let first = self.u32()?;
            // Its signature is optional.
            let has_signature = first == DESCRIPTOR;
            expected = Some(if has_signature { self.u32()? } else { first });
            if !is_size(self.u32()?, current.bytes_read) {
                // This is not the descriptor, because the data ended too early.
                let bytes_read = current.bytes_read + if has_signature { 12 } else { 8 };
                self.current = Some(Current { is_broken: true, bytes_read, ..current });
                return Err(unreadable("the ZIP is damaged"));
            }
            self.skip(after_size(current.is_zip64))?;
        }
        self.skip(current.remaining.unwrap_or_default())?;
        if expected == Some(current.actual.sum()) {
            Ok(())
        } else {
            Err(unreadable("the ZIP is damaged: a checksum is wrong"))
        }
    }
}

/// Whether the lower half of a size is that of this many bytes.
fn is_size(size: u32, bytes: u64) -> bool {
    u64::from(size) == bytes & u64::from(u32::MAX)
}

/// Bytes of a descriptor after the lower half of the stored size.
fn after_size(is_zip64: bool) -> u64 {
    if is_zip64 { 12 } else { 4 }
}

/// The stored size in a header's ZIP64 field.
fn zip64_stored(mut extra: &[u8]) -> Option<u64> {
    loop {
        let (id, rest) = extra.split_first_chunk::<2>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let value = rest.get(..length)?;
        if u16::from_le_bytes(*id) == ZIP64 {
            // The size of the data, then its size in the ZIP.
            return Some(u64::from_le_bytes(*value.get(8..)?.first_chunk()?));
        }
        extra = &rest[length..];
    }
}
