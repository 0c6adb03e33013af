//! What a data engineer would export the table with instead: DuckDB and chDB, which read the same
//! rows from PostgreSQL and write files to disk. docs/explanation/benchmarks-method.md has what
//! they leave out.

use std::path::Path;
use std::process::Command;

use crate::pipes::{bytes_in, shell};
use crate::report::Measured;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/copy_out.py");

pub struct Peer {
    name: &'static str,
    tool: &'static str,
    format: &'static str,
    records: Records,
}

/// What is exported of each user.
#[derive(Clone, Copy)]
enum Records {
    Documents,
    /// Documents with purchases and events.
    All,
}

pub const ALL: [Peer; 6] = [
    peer("duckdb ndjson, documents", "duckdb", "ndjson", Records::Documents),
    peer("duckdb ndjson, records", "duckdb", "ndjson", Records::All),
    peer("duckdb parquet, records", "duckdb", "parquet", Records::All),
    peer("chdb ndjson, documents", "chdb", "ndjson", Records::Documents),
    peer("chdb ndjson, records", "chdb", "ndjson", Records::All),
    peer("chdb parquet, records", "chdb", "parquet", Records::All),
];

const fn peer(
    name: &'static str,
    tool: &'static str,
    format: &'static str,
    records: Records,
) -> Peer {
    Peer { name, tool, format, records }
}

impl Records {
    /// The table or view, and its column.
    fn relation(self) -> (&'static str, &'static str) {
        match self {
            Self::Documents => ("users", "doc"),
            Self::All => ("record_lines", "line"),
        }
    }
}

impl Peer {
    pub fn run(&self, python: &Path, database: &str) -> Measured {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (table, column) = self.records.relation();
        let output = Command::new(python)
            .args([SCRIPT, self.tool, self.format, table, column])
            .env("DATABASE", database)
            .current_dir(directory.path())
            .output()
            .expect("the interpreter runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.name);
        let text = String::from_utf8(output.stdout).expect("text");
        let printed: Vec<f64> =
            text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [seconds, resident] = printed[..] else { panic!("{}: {text}", self.name) };

        let size = format!("SELECT sum(octet_length({column}) + 1) FROM {table}");
        let psql = "psql -qAtX -c \"$COPY\" \"$DATABASE\"";
        let raw_bytes = shell(directory.path(), psql, database, &size);
        let raw_bytes: u64 = raw_bytes.trim().parse().expect("a number");
        if self.format == "ndjson" {
            let lines = shell(directory.path(), "cat out/*.gz | gzip -dc | wc -c", database, "");
            assert_eq!(
                lines.trim().parse::<u64>(),
                Ok(raw_bytes),
                "{}: each line is there",
                self.name
            );
        }
        Measured {
            name: self.name.to_owned(),
            seconds,
            raw_bytes,
            bytes: bytes_in(&directory.path().join("out")),
            resident: Some(resident as u64),
        }
    }
}
