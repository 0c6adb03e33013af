//! Files of an export as other programs write them. `tests/flows/export_proof.rs` verifies those
//! that Longshore writes.

use std::io::{Cursor, Write as _};

use flate2::{Compression, GzBuilder};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub fn zip_file(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub fn gzip_file(name: &str, text: &str) -> Vec<u8> {
    let mut gzip = GzBuilder::new().filename(name).write(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}
