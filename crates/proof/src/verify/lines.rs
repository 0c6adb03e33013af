//! The lines of an export's file, read from start to end without its directory: enough for files
//! whose hash is known.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _};

use flate2::bufread::{DeflateDecoder, GzDecoder};

use crate::Format;

/// Maximum bytes of a line. A profile has at most 1 MiB, and activity at most 2 MiB, which JSON can
/// write six times as long.
const MAX_LINE: usize = 16 << 20;

/// Bytes that are decompressed at once.
const BUFFER: usize = 128 << 10;

const LOCAL_HEADER: &[u8; 4] = b"PK\x03\x04";
/// A local header after its signature.
const HEADER: usize = 26;
const DEFLATED: u16 = 8;

/// A piece of a file.
#[derive(Debug)]
pub enum Piece<'a> {
    /// An entry begins. A gzip file is one entry without a name.
    Entry(&'a str),
    /// A line of the current entry, without its line break.
    Line(&'a [u8]),
    /// The entry's last line has no line break, or is too long.
    OpenLine,
}

/// A file that does not have its format; distinguishes it from a source that cannot be read.
#[derive(Debug)]
pub struct FormatError(String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

fn broken(problem: impl Into<String>) -> io::Error {
    io::Error::other(FormatError(problem.into()))
}

/// Passes on the pieces of a file.
pub fn read(
    format: Format,
    input: &mut impl BufRead,
    mut visit: impl FnMut(Piece<'_>),
) -> io::Result<()> {
    match format {
        Format::Gzip => {
            visit(Piece::Entry(""));
            lines(GzDecoder::new(input), &mut visit)
        }
        Format::Zip => zip(input, &mut visit),
    }
}

fn zip(input: &mut impl BufRead, visit: &mut impl FnMut(Piece<'_>)) -> io::Result<()> {
    loop {
        let mut signature = [0; 4];
        input.read_exact(&mut signature).map_err(truncated)?;
        if signature != *LOCAL_HEADER {
            // The directory, or the end of an empty file.
            let is_zip = signature.starts_with(b"PK");
            return if is_zip { Ok(()) } else { Err(broken("not a ZIP of an export")) };
        }
        let name = header(input)?;
        visit(Piece::Entry(&name));
        lines(DeflateDecoder::new(&mut *input), visit)?;
    }
}

/// Reads the rest of a local header; returns the name.
fn header(input: &mut impl BufRead) -> io::Result<String> {
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(truncated)?;
    let field = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if field(4) != DEFLATED {
        return Err(broken("an entry is not compressed with deflate"));
    }
    let mut name = vec![0; field(22).into()];
    input.read_exact(&mut name).map_err(truncated)?;
    let mut extra = vec![0; field(24).into()];
    input.read_exact(&mut extra).map_err(truncated)?;
    String::from_utf8(name).map_err(|_| broken("the name of an entry is not UTF-8"))
}

fn truncated(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        broken("the file is truncated")
    } else {
        error
    }
}

/// Whether decompression failed, and not the source: its errors have another kind.
fn corrupt(error: io::Error) -> io::Error {
    let is_format = matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    );
    if is_format && !error.get_ref().is_some_and(|inner| inner.is::<FormatError>()) {
        broken(format!("cannot decompress: {error}"))
    } else {
        error
    }
}

fn lines(decoder: impl io::Read, visit: &mut impl FnMut(Piece<'_>)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, decoder);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(MAX_LINE as u64);
        if bounded.read_until(b'\n', &mut line).map_err(corrupt)? == 0 {
            return Ok(());
        }
        match line.strip_suffix(b"\n") {
            Some(line) => visit(Piece::Line(line)),
            None if line.len() < MAX_LINE => {
                visit(Piece::OpenLine);
                return Ok(());
            }
            None => return Err(broken("a line is too long")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::files::{gzip_file, zip_file};
    use super::*;

    /// The pieces of a file as text: `[name]`, lines, `…`.
    fn pieces(format: Format, file: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        read(format, &mut &file[..], |piece| match piece {
            Piece::Entry(name) => text += &format!("[{name}]"),
            Piece::Line(line) => text += &format!("{}|", String::from_utf8_lossy(line)),
            Piece::OpenLine => text += "…",
        })?;
        Ok(text)
    }

    #[test]
    fn every_format_of_an_export_is_read() {
        let text = "{}\n{\"a\":1}\n";
        let zip = zip_file(&[("a.json", text)]);
        assert_eq!(pieces(Format::Zip, &zip).unwrap(), "[a.json]{}|{\"a\":1}|");
        let gzip = gzip_file("a.json", text);
        assert_eq!(pieces(Format::Gzip, &gzip).unwrap(), "[]{}|{\"a\":1}|");
        let two = zip_file(&[("a", "1\n"), ("b", "2\n3")]);
        assert_eq!(pieces(Format::Zip, &two).unwrap(), "[a]1|[b]2|…");
        assert_eq!(pieces(Format::Zip, &zip_file(&[])).unwrap(), "");
    }

    #[test]
    fn a_file_without_its_format_is_an_error_of_the_format() {
        let text = "{}\n".repeat(100);
        let (zip, gzip) = (zip_file(&[("a.json", &text)]), gzip_file("a.json", &text));
        for (format, file) in [
            (Format::Zip, &zip[..20]),
            (Format::Zip, &zip[..40]),
            (Format::Zip, &gzip[..]),
            (Format::Zip, b""),
            (Format::Gzip, &gzip[..gzip.len() - 1]),
            (Format::Gzip, &zip[..]),
            (Format::Gzip, b""),
        ] {
            let error = pieces(format, file).unwrap_err();
            assert!(error.get_ref().is_some_and(|inner| inner.is::<FormatError>()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_calmly(mut file: Vec<u8>, begins: bool) {
            if begins {
                file.splice(..0, *LOCAL_HEADER);
            }
            let _ = pieces(Format::Zip, &file);
            let _ = pieces(Format::Gzip, &file);
        }
    }
}
