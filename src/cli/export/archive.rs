//! Checks a downloaded export that has no manifest, because a worker of an earlier release
//! completed it: every entry's checksum, every line JSON, as many lines as users.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::de::IgnoredAny;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("cannot read the downloaded archive: {0}")]
    Zip(#[from] zip::result::ZipError),
    #[error("the downloaded archive: {entry}: {error}")]
    Entry { entry: String, error: std::io::Error },
    #[error("the downloaded archive: {entry}, line {line}: not a user in JSON")]
    Line { entry: String, line: u64 },
    #[error("the downloaded archive has {found} {unit}, but the export reported {expected}")]
    Count { unit: &'static str, found: u64, expected: u64 },
    #[error("{0}")]
    File(#[from] std::io::Error),
}

/// Checks an export's archive with `files` entries and `users` lines in total. Blocks.
pub fn check(path: &Path, files: u64, users: u64) -> Result<(), ArchiveError> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(path)?))?;
    count("files", archive.len() as u64, files)?;
    let mut lines = 0;
    for index in 0..archive.len() {
        lines += entry(&mut archive, index)?;
    }
    count("users", lines, users)
}

fn count(unit: &'static str, found: u64, expected: u64) -> Result<(), ArchiveError> {
    if found == expected { Ok(()) } else { Err(ArchiveError::Count { unit, found, expected }) }
}

/// Counts the lines of an entry; reading to the end compares its checksum.
fn entry(
    archive: &mut zip::ZipArchive<BufReader<File>>,
    index: usize,
) -> Result<u64, ArchiveError> {
    let entry = archive.by_index(index)?;
    let name = entry.name()?.into_owned();
    let mut reader = BufReader::with_capacity(1 << 20, entry);
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        text.clear();
        let read = reader
            .read_until(b'\n', &mut text)
            .map_err(|error| ArchiveError::Entry { entry: name.clone(), error })?;
        if read == 0 {
            return Ok(line);
        }
        line += 1;
        let is_user = text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(&text).is_ok();
        if !is_user {
            return Err(ArchiveError::Line { entry: name, line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn zip_file(entries: &[&str]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut zip = zip::ZipWriter::new(file.as_file_mut());
        for (index, text) in entries.iter().enumerate() {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(format!("{index}.json"), options).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        file
    }

    #[test]
    fn a_whole_archive_passes() {
        let file = zip_file(&["{\"a\":1}\n{}\n", "{}\n"]);
        check(file.path(), 2, 3).unwrap();
        check(zip_file(&[]).path(), 0, 0).unwrap();
    }

    #[test]
    fn missing_and_broken_parts_are_found() {
        let two = zip_file(&["{}\n", "{}\n"]);
        assert!(matches!(check(two.path(), 3, 2), Err(ArchiveError::Count { unit: "files", .. })));
        assert!(matches!(check(two.path(), 2, 3), Err(ArchiveError::Count { unit: "users", .. })));
        for text in ["{}\n[1]\n", "{}\n{\"a\n", "{}\n\n"] {
            let error = check(zip_file(&[text]).path(), 1, 2).unwrap_err();
            assert!(matches!(error, ArchiveError::Line { line: 2, .. }), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let file = zip_file(&[&"{\"name\":\"somebody\"}\n".repeat(50)]);
        let mut bytes = std::fs::read(file.path()).unwrap();
        bytes[45] ^= 1;
        std::fs::write(file.path(), bytes).unwrap();
        assert!(check(file.path(), 1, 50).is_err());
    }
}
