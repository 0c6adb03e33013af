//! Compression of an export's files.
//!
//! Data of up to [`WHOLE`] bytes is compressed at once by libdeflate, which is the fastest at its
//! ratio but needs the whole input; larger data is streamed through flate2. Both use level 1. The
//! same data gives the same bytes, whatever its pieces.

use std::io::{self, Write as _};
use std::sync::{Arc, Weak};

use flate2::write::DeflateEncoder;
use libdeflater::{CompressionLvl, Compressor, Crc};
use parking_lot::Mutex;

/// Maximum bytes that are compressed at once.
pub const WHOLE: usize = 16 << 20;

/// Streamed data is passed on in blocks of this size, so that the result does not depend on its
/// pieces.
const BLOCK: usize = 1 << 20;

const LEVEL: u8 = 1;

/// Buffers and compressors of each kind that wait for their next file.
const MAX_IDLE: usize = 4;

/// Capacity after the deflate data for what follows it in a file, such as a ZIP's directory.
const TRAILER: usize = 512;

/// Memory that finished files leave to the next ones: the kernel has to clear fresh memory, and the
/// allocator keeps what is freed for a while. Freed with the last [`Deflater`].
static SHARED: Mutex<Weak<Recycled>> = Mutex::new(Weak::new());

#[derive(Default)]
struct Recycled {
    /// Empty buffers for uncompressed data.
    raw: Mutex<Vec<Vec<u8>>>,
    whole: Mutex<Vec<WholeCompressor>>,
}

impl Recycled {
    fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let recycled = Arc::default();
            *shared = Arc::downgrade(&recycled);
            recycled
        })
    }
}

/// Keeps it for a later file, unless enough wait.
fn keep<T>(idle: &Mutex<Vec<T>>, value: T) {
    let mut idle = idle.lock();
    if idle.len() < MAX_IDLE {
        idle.push(value);
    }
}

/// Finished deflate data.
#[derive(Debug)]
pub struct Deflated {
    /// The data after the bytes reserved for a header; or, if some were taken, the rest.
    pub bytes: Vec<u8>,
    /// How many bytes were taken before.
    pub taken: u64,
    /// Checksum of the uncompressed data.
    pub crc32: u32,
    pub raw_bytes: u64,
}

/// Compresses data piece by piece, holding at most [`WHOLE`] bytes of it.
pub struct Deflater {
    header: usize,
    raw: Vec<u8>,
    /// Used once the data exceeds [`WHOLE`].
    stream: Option<DeflateEncoder<Vec<u8>>>,
    taken: u64,
    crc: Crc,
    raw_bytes: u64,
    recycled: Arc<Recycled>,
}

impl Deflater {
    /// The result will begin with `header` bytes of zero.
    pub fn new(header: usize) -> Self {
        let recycled = Recycled::shared();
        let raw = recycled.raw.lock().pop();
        // Memory that is not written costs nothing, and a buffer that grows is copied each time.
        let raw = raw.unwrap_or_else(|| Vec::with_capacity(WHOLE));
        Self { header, raw, stream: None, taken: 0, crc: Crc::new(), raw_bytes: 0, recycled }
    }

    /// Adds the data that `write` appends to the buffer; it must not change the buffer's content.
    pub fn append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let result = write(&mut self.raw);
        if self.stream.is_some() || self.raw.len() > WHOLE {
            self.compress(self.raw.len() / BLOCK * BLOCK)?;
        }
        Ok(result)
    }

    /// Takes the compressed data so far, without the bytes reserved for a header, if there are at
    /// least `min_bytes`.
    pub fn take(&mut self, min_bytes: usize) -> Option<Vec<u8>> {
        let bytes = self.stream.as_mut()?.get_mut();
        if bytes.len() < min_bytes {
            return None;
        }
        let mut bytes = std::mem::take(bytes);
        if self.taken == 0 {
            bytes.drain(..self.header);
        }
        self.taken += bytes.len() as u64;
        Some(bytes)
    }

    /// Bytes held, plus the bytes that finishing may need.
    pub fn held_bytes(&self) -> usize {
        match &self.stream {
            Some(stream) => self.raw.len() + stream.get_ref().len(),
            None => 2 * self.raw.len(),
        }
    }

    pub fn finish(mut self) -> io::Result<Deflated> {
        if self.stream.is_none()
            && let Some(bytes) = self.deflate_whole()
        {
            self.count(self.raw.len());
            return Ok(self.deflated(bytes));
        }
        self.compress(self.raw.len())?;
        let bytes = match self.stream.take() {
            Some(stream) => stream.finish()?,
            None => vec![0; self.header],
        };
        Ok(self.deflated(bytes))
    }

    /// None if libdeflate fails, which only happens for lack of space.
    fn deflate_whole(&self) -> Option<Vec<u8>> {
        let compressor = self.recycled.whole.lock().pop();
        let mut compressor = match compressor {
            Some(compressor) => compressor,
            None => WholeCompressor::new()?,
        };
        let bytes = compressor.deflate(&self.raw, self.header);
        keep(&self.recycled.whole, compressor);
        bytes
    }

    fn deflated(&self, bytes: Vec<u8>) -> Deflated {
        Deflated { bytes, taken: self.taken, crc32: self.crc.sum(), raw_bytes: self.raw_bytes }
    }

    /// Streams the first `length` bytes of the buffer.
    fn compress(&mut self, length: usize) -> io::Result<()> {
        self.count(length);
        let header = self.header;
        let stream = self.stream.get_or_insert_with(|| {
            DeflateEncoder::new(vec![0; header], flate2::Compression::new(LEVEL.into()))
        });
        for block in self.raw[..length].chunks(BLOCK) {
            stream.write_all(block)?;
        }
        self.raw.drain(..length);
        Ok(())
    }

    fn count(&mut self, length: usize) {
        self.crc.update(&self.raw[..length]);
        self.raw_bytes += length as u64;
    }
}

impl Drop for Deflater {
    fn drop(&mut self) {
        let mut raw = std::mem::take(&mut self.raw);
        // A stream may have made it larger.
        if raw.capacity() <= WHOLE {
            raw.clear();
            keep(&self.recycled.raw, raw);
        }
    }
}

/// A compressor, and the memory to which it writes; as many exist as files are compressed at the
/// same time.
struct WholeCompressor {
    compressor: Compressor,
    /// Its content is of no use.
    out: Vec<u8>,
}

impl WholeCompressor {
    fn new() -> Option<Self> {
        let compressor = Compressor::new(CompressionLvl::new(LEVEL.into()).ok()?);
        Some(Self { compressor, out: Vec::new() })
    }

    fn deflate(&mut self, raw: &[u8], header: usize) -> Option<Vec<u8>> {
        let bound = header + self.compressor.deflate_compress_bound(raw.len());
        if self.out.len() < bound {
            // Not both at the same time.
            self.out = Vec::new();
            self.out = vec![0; bound.next_multiple_of(BLOCK)];
        }
        self.out[..header].fill(0);
        let length = self.compressor.deflate_compress(raw, &mut self.out[header..]).ok()?;
        let end = header + length;
        if length > raw.len() / 2 {
            // A copy would need more memory than is reserved.
            let mut bytes = std::mem::take(&mut self.out);
            bytes.truncate(end);
            bytes.shrink_to(end + TRAILER);
            return Some(bytes);
        }
        let mut bytes = Vec::with_capacity(end + TRAILER);
        bytes.extend_from_slice(&self.out[..end]);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn inflate(data: &[u8]) -> Vec<u8> {
        let mut raw = Vec::new();
        flate2::read::DeflateDecoder::new(data).read_to_end(&mut raw).unwrap();
        raw
    }

    fn deflate(pieces: &[&[u8]], header: usize) -> Deflated {
        let mut deflater = Deflater::new(header);
        for piece in pieces {
            deflater.append(|raw| raw.extend_from_slice(piece)).unwrap();
            assert!(deflater.raw.len() <= WHOLE);
        }
        deflater.finish().unwrap()
    }

    /// Realistic enough to compress, and different everywhere.
    fn text(length: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(length + 32);
        let mut number = 1u64;
        while text.len() < length {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            writeln!(text, "{{\"id\":\"{:x}\"}}", number >> 24).unwrap();
        }
        text.truncate(length);
        text
    }

    proptest! {
        #[test]
        fn values_survive_a_round_trip(raw: Vec<u8>, header in 0usize..60) {
            let deflated = deflate(&[&raw], header);
            prop_assert_eq!(&deflated.bytes[..header], &vec![0; header][..]);
            prop_assert_eq!(inflate(&deflated.bytes[header..]), &raw[..]);
            prop_assert_eq!(deflated.crc32, libdeflater::crc32(&raw));
            prop_assert_eq!(deflated.raw_bytes, raw.len() as u64);
        }
    }

    #[test]
    fn large_data_streams_and_the_pieces_leave_no_trace() {
        for length in [WHOLE, WHOLE + 1, WHOLE + 3 * BLOCK + 5] {
            let raw = text(length);
            let at_once = deflate(&[&raw], 7);
            let pieces: Vec<&[u8]> = raw.chunks(333_333).collect();
            let in_pieces = deflate(&pieces, 7);
            assert!(at_once.bytes == in_pieces.bytes, "{length}");
            assert!(inflate(&at_once.bytes[7..]) == raw, "{length}");
            assert_eq!(in_pieces.crc32, libdeflater::crc32(&raw));
            assert_eq!(in_pieces.raw_bytes, length as u64);
        }
    }

    #[test]
    fn recycled_memory_leaves_no_trace() {
        let _in_progress = Deflater::new(0);
        for length in [WHOLE, 5, 0, 3 * BLOCK] {
            let raw = text(length);
            let mut compressor = Compressor::new(CompressionLvl::new(LEVEL.into()).unwrap());
            let mut expected = vec![0; compressor.deflate_compress_bound(length)];
            let bytes = compressor.deflate_compress(&raw, &mut expected).unwrap();
            assert!(deflate(&[&raw], 3).bytes[3..] == expected[..bytes], "{length}");
        }
    }

    #[test]
    fn data_that_is_taken_in_pieces_is_the_same() {
        let raw = text(WHOLE + 9 * BLOCK);
        let at_once = deflate(&[&raw], 7);
        let mut deflater = Deflater::new(7);
        let (mut data, mut pieces) = (Vec::new(), 0);
        for piece in raw.chunks(BLOCK) {
            deflater.append(|buffer| buffer.extend_from_slice(piece)).unwrap();
            if let Some(taken) = deflater.take(BLOCK) {
                assert!(taken.len() + 7 >= BLOCK);
                data.extend(taken);
                pieces += 1;
            }
        }
        let rest = deflater.finish().unwrap();
        assert!(pieces > 1, "{pieces}");
        assert_eq!(rest.taken, data.len() as u64);
        data.extend(rest.bytes);
        assert!(data == at_once.bytes[7..]);
        assert_eq!((rest.crc32, rest.raw_bytes), (at_once.crc32, at_once.raw_bytes));
    }
}
