//! What a shell would do instead.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::report::Measured;

/// A query whose lines are cut into files of 5,000 and compressed.
pub struct Pipe {
    name: &'static str,
    query: &'static str,
    compress: &'static str,
}

const DOCUMENTS: &str = "SELECT doc FROM users";

/// The activity's fields, put into the document before its closing brace.
pub const RECORDS: &str = "SELECT left(rtrim(doc), -1) || \
    CASE WHEN a.body IS NULL OR a.body = '' THEN '' ELSE ',' || a.body END || '}' \
    FROM users u LEFT JOIN activity_text a USING (slice, service_id)";

pub const ALL: [Pipe; 4] = [
    Pipe { name: "igzip -1, documents", query: DOCUMENTS, compress: "igzip -1" },
    Pipe { name: "gzip -6, documents", query: DOCUMENTS, compress: "gzip -6" },
    Pipe { name: "igzip -1, records", query: RECORDS, compress: "igzip -1" },
    Pipe { name: "gzip -6, records", query: RECORDS, compress: "gzip -6" },
];

impl Pipe {
    pub fn run(&self, database: String) -> Measured {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let copy = format!("COPY ({}) TO STDOUT", self.query);
        let pipe = format!(
            "psql -qAtX -c \"$COPY\" \"$DATABASE\" | split -l 5000 --filter '{} > $FILE.gz'",
            self.compress
        );
        let began = Instant::now();
        shell(directory.path(), &pipe, &database, &copy);
        let seconds = began.elapsed().as_secs_f64();
        let bytes = bytes_in(directory.path());
        let raw = shell(directory.path(), "cat *.gz | gzip -dc | wc -c", &database, &copy);
        let raw_bytes = raw.trim().parse().expect("a number");
        Measured { name: self.name.to_owned(), seconds, raw_bytes, bytes, resident: None }
    }
}

/// The size of all files of a folder.
pub fn bytes_in(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).expect("the files");
    files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum()
}

pub fn shell(directory: &Path, line: &str, database: &str, copy: &str) -> String {
    let output = Command::new("bash")
        .args(["-c", &format!("set -euo pipefail; {line}")])
        .env("DATABASE", database)
        .env("COPY", copy)
        .current_dir(directory)
        .output()
        .expect("bash runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {error}\nscripts/bench installs what is missing");
    String::from_utf8(output.stdout).expect("text")
}
