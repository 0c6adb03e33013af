//! The records of a file: each is one of the export's record schema, and they are the users of the
//! file's range, each once.

use uuid::Uuid;

use super::MAX_DIFFERENCES;
use super::lines::Piece;
use crate::manifest::{
    Difference, DifferenceKind, ExportAudience, File, Manifest, Position, UserRange,
};
use crate::record::RecordReader;
use people::users::service_id;

/// What is the same for all files of an export.
#[derive(Debug)]
pub struct RecordRules {
    reader: RecordReader,
    /// The slices of the control group; none if all users may be in the export.
    slices: Option<Vec<i16>>,
}

impl RecordRules {
    /// The error is for a person, and follows the word "it".
    pub fn new(manifest: &Manifest) -> Result<Self, String> {
        let slices = match &manifest.audience {
            ExportAudience::ControlGroup { slices, .. } => Some(slices.clone()),
            _ => None,
        };
        Ok(Self { reader: RecordReader::new(manifest.field_set()?), slices })
    }
}

/// What is expected of an entry.
struct Expected<'f> {
    /// None: any name.
    name: Option<&'f str>,
    users: u64,
    bytes: u64,
    range: Option<UserRange>,
}

/// The check of a file's records.
pub struct RecordsCheck<'f> {
    rules: &'f RecordRules,
    key: &'f str,
    expected: std::vec::IntoIter<Expected<'f>>,
    current: Option<Entry<'f>>,
    differences: Vec<Difference>,
}

/// The entry that is read.
struct Entry<'f> {
    name: String,
    expected: Expected<'f>,
    users: u64,
    bytes: u64,
    previous: Option<Position>,
}

impl<'f> RecordsCheck<'f> {
    pub fn new(rules: &'f RecordRules, key: &'f str, file: &'f File) -> Self {
        let expected: Vec<Expected<'f>> = match &file.entries {
            Some(entries) => entries
                .iter()
                .filter(|entry| entry.name.is_some())
                .map(|entry| Expected {
                    name: entry.name.as_deref(),
                    users: entry.users,
                    bytes: entry.uncompressed_bytes,
                    range: Some(entry.range),
                })
                .collect(),
            None => vec![Expected {
                name: None,
                users: file.users,
                bytes: file.uncompressed_bytes,
                range: file.range,
            }],
        };
        let (expected, differences) = (expected.into_iter(), Vec::new());
        Self { rules, key, expected, current: None, differences }
    }

    pub fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Entry(name) => self.begin(name),
            Piece::Line(line) => self.line(line),
            Piece::OpenLine => {
                let Some(entry) = &mut self.current else { return };
                entry.users += 1;
                let record = entry.users;
                self.report_record(record, "has no line break at its end");
            }
        }
    }

    /// The file is read to its end.
    pub fn end(&mut self) {
        self.end_entry();
        while let Some(expected) = self.expected.next() {
            let detail = expected.name.map_or("its entry".to_owned(), |name| format!("{name:?}"));
            self.report(DifferenceKind::Missing, detail);
        }
    }

    /// The file cannot be read any further.
    pub fn broken(&mut self, problem: &str) {
        let record = self.current.as_ref().map_or(1, |entry| entry.users + 1);
        self.report_record(record, problem);
    }

    pub fn into_differences(self) -> Vec<Difference> {
        self.differences
    }

    fn begin(&mut self, name: &str) {
        self.end_entry();
        let Some(expected) = self.expected.next() else {
            return self.report(DifferenceKind::Added, format!("entry {name:?}"));
        };
        if let Some(listed) = expected.name.filter(|listed| *listed != name) {
            self.report(DifferenceKind::Missing, format!("{listed:?}; {name:?} is in its place"));
        }
        let name = name.to_owned();
        self.current = Some(Entry { name, expected, users: 0, bytes: 0, previous: None });
    }

    fn end_entry(&mut self) {
        let Some(entry) = self.current.take() else { return };
        let Entry { name, expected, users, bytes, .. } = entry;
        let subject = if expected.name.is_some() { format!("{name:?}: ") } else { String::new() };
        if users != expected.users {
            let listed = expected.users;
            self.report(
                DifferenceKind::Count,
                format!("{subject}expected {listed} users, found {users}"),
            );
        }
        if bytes != expected.bytes {
            let listed = expected.bytes;
            let detail = format!("{subject}expected {listed} uncompressed bytes, found {bytes}");
            self.report(DifferenceKind::Size, detail);
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(entry) = &mut self.current else { return };
        entry.users += 1;
        entry.bytes += line.len() as u64 + 1;
        let record = entry.users;
        let problem = match self.rules.reader.read(line) {
            Ok(user) => user.service_id.0.and_then(|id| entry.check_position(id, self.rules)),
            Err(problem) => Some(problem),
        };
        if let Some(problem) = problem {
            self.report_record(record, &problem);
        }
    }

    fn report_record(&mut self, record: u64, problem: &str) {
        let entry = self.current.as_ref().filter(|entry| entry.expected.name.is_some());
        let subject = entry.map(|entry| format!("{:?}, ", entry.name)).unwrap_or_default();
        self.report(DifferenceKind::Record, format!("{subject}record {record}: {problem}"));
    }

    fn report(&mut self, kind: DifferenceKind, detail: String) {
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(Difference::new(self.key, kind, detail));
        }
    }
}

impl Entry<'_> {
    /// Checks that the user is in the entry's range, and after the user of the line before, so that
    /// no user is there twice. Returns a problem.
    fn check_position(&mut self, id: Uuid, rules: &RecordRules) -> Option<String> {
        let Some(bucket) = service_id::bucket(&id) else {
            return Some(format!("{id} is not a service_id of Longshore"));
        };
        let position = Position { slice: service_id::slice_of(bucket), service_id: id };
        let before = self.previous.replace(position);
        if before == Some(position) {
            return Some(format!("the user {id} is there twice"));
        }
        if before.is_some_and(|before| before > position) {
            return Some(format!("the user {id} is not in the order of the export"));
        }
        let is_in_range = self.expected.range.is_none_or(|range| range.contains(position));
        let is_in_group = |slices: &Vec<i16>| slices.contains(&position.slice);
        if !is_in_range || !rules.slices.as_ref().is_none_or(is_in_group) {
            return Some(format!("the user {id} is not in the range of the file"));
        }
        None
    }
}
