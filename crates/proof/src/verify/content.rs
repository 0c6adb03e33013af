//! One file: its size, its hash and, on request, its records, in one pass.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use super::records::{RecordRules, RecordsCheck};
use super::source::{Reader, Source, SourceError};
use super::{VerifyError, lines};
use crate::Format;
use crate::manifest::{Difference, DifferenceKind, File};

/// Bytes that are read and hashed at once: they stay in the processor's cache.
const BUFFER: usize = 256 << 10;

/// Attempts at a file: a stream over a network may end early.
const ATTEMPTS: u32 = 3;

/// The read bytes of all files.
#[derive(Debug, Default)]
pub struct Meter(AtomicU64);

impl Meter {
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The hash of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The check of a file.
pub struct FileCheck {
    pub key: String,
    /// As listed in the manifest.
    pub file: File,
    pub format: Format,
    /// None: records are not read.
    pub rules: Option<Arc<RecordRules>>,
    pub meter: Arc<Meter>,
    /// Set when nobody waits for the result any more.
    pub stop: Arc<AtomicBool>,
}

impl FileCheck {
    pub async fn run(self, source: &Source) -> Result<Vec<Difference>, VerifyError> {
        let expected = self.file.bytes;
        // A file that has another size need not be read.
        if let Some(size) = source.size(&self.key).filter(|size| *size != expected) {
            return Ok(vec![self.wrong_size(&size.to_string())]);
        }
        let check = Arc::new(self);
        let mut attempt = 1;
        loop {
            let Some(reader) = source.open(&check.key).await? else {
                let missing = Difference::new(&check.key, DifferenceKind::Missing, "");
                return Ok(vec![missing]);
            };
            let this = check.clone();
            let read = tokio::task::spawn_blocking(move || this.read(reader)).await?;
            match read {
                Ok(differences) => return Ok(differences),
                Err(_) if attempt < ATTEMPTS && !check.stop.load(Ordering::Relaxed) => attempt += 1,
                Err(error) => {
                    let name = check.key.clone();
                    return Err(SourceError::Read { name, error }.into());
                }
            }
        }
    }

    /// Reads the file to its end. Records of a file with another hash would only repeat that.
    fn read(&self, reader: Reader) -> io::Result<Vec<Difference>> {
        let mut hashing = Hashing {
            reader,
            hash: Sha256::new(),
            bytes: 0,
            max: self.file.bytes,
            meter: &self.meter,
            stop: &self.stop,
        };
        let read = self.read_through(&mut hashing);
        if hashing.bytes > hashing.max {
            hashing.take_back();
            return Ok(vec![self.wrong_size("more")]);
        }
        let records = match read {
            Ok(records) => records,
            Err(error) => {
                hashing.take_back();
                return Err(error);
            }
        };
        if hashing.bytes != self.file.bytes {
            return Ok(vec![self.wrong_size(&hashing.bytes.to_string())]);
        }
        let found = hex::encode(hashing.hash.finalize());
        let expected = self.file.sha256.as_deref().unwrap_or_default();
        if found != expected {
            let detail = format!("expected {expected}, found {found}");
            return Ok(vec![Difference::new(&self.key, DifferenceKind::Hash, detail)]);
        }
        Ok(records)
    }

    fn read_through(&self, hashing: &mut Hashing<'_>) -> io::Result<Vec<Difference>> {
        let Some(rules) = &self.rules else {
            drain(hashing, &mut vec![0; BUFFER])?;
            return Ok(Vec::new());
        };
        let mut records = RecordsCheck::new(rules, &self.key, &self.file);
        let mut input = BufReader::with_capacity(BUFFER, hashing);
        let result = lines::read(self.format, &mut input, |piece| records.take(piece));
        let hashing = input.into_inner();
        // A format that cannot be read is a difference, unless the source failed.
        if let Err(error) = result {
            if error.get_ref().is_some_and(|inner| inner.is::<lines::FormatError>()) {
                records.broken(&error.to_string());
            } else {
                return Err(error);
            }
        } else {
            records.end();
        }
        drain(hashing, &mut vec![0; BUFFER])?;
        Ok(records.into_differences())
    }

    fn wrong_size(&self, found: &str) -> Difference {
        let detail = format!("expected {} bytes, found {found}", self.file.bytes);
        Difference::new(&self.key, DifferenceKind::Size, detail)
    }
}

/// Reads the rest, for its hash.
fn drain(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match reader.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hashes and counts what is read; ends with an error after `max` bytes, or if nobody waits.
struct Hashing<'c> {
    reader: Reader,
    hash: Sha256,
    bytes: u64,
    max: u64,
    meter: &'c Meter,
    stop: &'c AtomicBool,
}

impl Hashing<'_> {
    /// Another attempt counts these bytes again.
    fn take_back(&self) {
        self.meter.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Read for Hashing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let count = self.reader.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.bytes += count as u64;
        self.meter.0.fetch_add(count as u64, Ordering::Relaxed);
        if self.bytes > self.max {
            return Err(io::Error::other("the file is longer than expected"));
        }
        Ok(count)
    }
}
