//! Reads archives, with libraries and with other programs.

use std::io::{Cursor, Read as _};
use std::path::Path;
use std::process::Command;

/// A file out of an archive.
pub struct Unpacked {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// All files of a ZIP, in their order.
pub fn unzip(archive: &[u8]) -> Vec<Unpacked> {
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).expect("a ZIP");
    let count = zip.len();
    let read = |index| {
        let mut file = zip.by_index(index).expect("an entry");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("an entry that is whole");
        Unpacked { name: file.name().expect("a name in UTF-8").into_owned(), bytes }
    };
    (0..count).map(read).collect()
}

/// The one file of a gzip archive.
pub fn gunzip(archive: &[u8]) -> Unpacked {
    let mut gzip = flate2::read::MultiGzDecoder::new(archive);
    let mut bytes = Vec::new();
    gzip.read_to_end(&mut bytes).expect("a gzip file that is whole");
    let name = gzip.header().and_then(flate2::GzHeader::filename).expect("the name in the header");
    Unpacked { name: String::from_utf8(name.to_vec()).expect("a name in ASCII"), bytes }
}

/// Has other programs test an archive: Python and `unzip` a ZIP, `gzip` a gzip file.
pub fn test_with_others(archive: &[u8], extension: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join(format!("archive.{extension}"));
    std::fs::write(&file, archive).expect("the archive is written");
    if extension == "gz" {
        return succeeds("gzip", &["-t"], &file);
    }
    // `zipfile -t` says what is broken and ends with 0 all the same.
    let script = "import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip())";
    succeeds("python3", &["-c", script], &file);
    // An archive of nothing is one, but `unzip` warns of it with a status.
    if !unzip(archive).is_empty() {
        succeeds("unzip", &["-tqq"], &file);
    }
}

fn succeeds(program: &str, arguments: &[&str], file: &Path) {
    let output = Command::new(program).args(arguments).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{program} does not run: {error}"));
    assert!(
        output.status.success(),
        "{program} refuses the archive: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
