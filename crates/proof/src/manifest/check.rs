//! Whether a manifest agrees with itself.

use std::collections::BTreeSet;

use super::difference::{Difference, DifferenceKind};
use super::{ARCHIVE_SUFFIX, ExportAudience, ExportStorage, File, Manifest, Position, UserRange};
use people::users::SLICES;
use uuid::Uuid;

impl Manifest {
    /// All contradictions: counts that do not add up, ranges that overlap or leave a gap, keys that
    /// are not unique or lead out of the export's folder. Empty for a manifest that a worker wrote.
    pub fn check(&self) -> Vec<Difference> {
        let mut checker = Checker { manifest: self, differences: Vec::new() };
        checker.counts();
        checker.files();
        checker.ranges();
        checker.differences
    }

    /// The name of an object next to the export's folder.
    pub fn sibling(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.object_prefix)
    }

    fn is_archive(&self) -> bool {
        self.storage == ExportStorage::Url
    }
}

struct Checker<'m> {
    manifest: &'m Manifest,
    differences: Vec<Difference>,
}

impl Checker<'_> {
    fn report(&mut self, file: &str, kind: DifferenceKind, detail: impl Into<String>) {
        self.differences.push(Difference::new(file, kind, detail));
    }

    /// Reports a contradiction in the manifest that concerns no single file.
    fn contradiction(&mut self, kind: DifferenceKind, detail: String) {
        let name = self.manifest.sibling(super::MANIFEST_SUFFIX);
        self.report(&name, kind, detail);
    }

    fn counts(&mut self) {
        let counts = self.manifest.counts;
        let (planned, exported, erased) = (counts.planned, counts.exported, counts.erased);
        if exported.checked_add(erased) != Some(planned) {
            let detail = format!(
                "{planned} users are planned, {exported} exported and {erased} erased: the last \
                 two do not add up to the first"
            );
            self.contradiction(DifferenceKind::Count, detail);
        }
        let in_files = sum(self.manifest.files.iter().map(|file| file.users));
        if in_files != Some(exported) {
            let detail =
                format!("{exported} users are exported, the files have {}", shown(in_files));
            self.contradiction(DifferenceKind::Count, detail);
        }
    }

    fn files(&mut self) {
        if !is_plain_name(&self.manifest.object_prefix) {
            let detail = format!("object_prefix {:?} is not a name", self.manifest.object_prefix);
            self.contradiction(DifferenceKind::Manifest, detail);
        }
        if self.manifest.is_archive() && self.manifest.files.len() != 1 {
            let count = self.manifest.files.len();
            let detail = format!("one archive is expected, {count} files are listed");
            self.contradiction(DifferenceKind::Manifest, detail);
        }
        let mut keys = BTreeSet::new();
        for (index, file) in self.manifest.files.iter().enumerate() {
            let name = file.label(index);
            if let Some(key) = &file.key {
                if !keys.insert(key) {
                    self.report(&name, DifferenceKind::Manifest, "listed twice");
                }
                if !self.is_in_place(key) {
                    let detail = "the key is not in the folder of the export";
                    self.report(&name, DifferenceKind::Manifest, detail);
                }
            }
            self.file(&name, file);
        }
    }

    fn file(&mut self, name: &str, file: &File) {
        let is_hashed = file.sha256.as_deref().is_some_and(is_hex_sha256);
        if file.key.is_some() && !is_hashed {
            let detail = "has no SHA-256 hash of 64 lower-case hexadecimal digits";
            self.report(name, DifferenceKind::Manifest, detail);
        }
        let is_empty = file.users == 0 && file.bytes == 0 && file.uncompressed_bytes == 0;
        if file.key.is_none() && !(is_empty && file.sha256.is_none()) {
            self.report(name, DifferenceKind::Manifest, "has content and no key");
        }
        match &file.entries {
            Some(_) if self.manifest.is_archive() => self.entries(name, file),
            None if !self.manifest.is_archive() => {}
            Some(_) => {
                self.report(name, DifferenceKind::Manifest, "only an archive has entries");
            }
            None => self.report(name, DifferenceKind::Manifest, "entries are missing"),
        }
    }

    fn entries(&mut self, name: &str, file: &File) {
        let entries = file.entries.as_deref().unwrap_or_default();
        let users = sum(entries.iter().map(|entry| entry.users));
        if users != Some(file.users) {
            let detail =
                format!("{} users are listed, the entries have {}", file.users, shown(users));
            self.report(name, DifferenceKind::Count, detail);
        }
        let bytes = sum(entries.iter().map(|entry| entry.uncompressed_bytes));
        if bytes != Some(file.uncompressed_bytes) {
            let listed = file.uncompressed_bytes;
            let detail = format!(
                "{listed} uncompressed bytes are listed, the entries have {}",
                shown(bytes)
            );
            self.report(name, DifferenceKind::Size, detail);
        }
        let mut names = BTreeSet::new();
        for entry in entries {
            match &entry.name {
                Some(entry_name) if !is_plain_name(entry_name) || !names.insert(entry_name) => {
                    let detail = format!("entry {entry_name:?} is listed twice or not a name");
                    self.report(name, DifferenceKind::Manifest, detail);
                }
                None if entry.users != 0 || entry.uncompressed_bytes != 0 => {
                    let detail = "an entry has content and no name";
                    self.report(name, DifferenceKind::Manifest, detail);
                }
                _ => {}
            }
        }
    }

    /// Whether a key is that of a file of this export: the archive, or a file in the folder.
    fn is_in_place(&self, key: &str) -> bool {
        if self.manifest.is_archive() {
            return key == self.manifest.sibling(ARCHIVE_SUFFIX);
        }
        let in_folder = key.strip_prefix(self.manifest.object_prefix.as_str());
        in_folder.and_then(|rest| rest.strip_prefix('/')).is_some_and(is_plain_name)
    }

    /// Contiguous ranges without overlap prove that no user is in two files.
    fn ranges(&mut self) {
        let slices = self.audience_slices();
        let mut expected =
            slices.first().map(|slice| Position { slice: *slice, service_id: Uuid::nil() });
        let manifest = self.manifest;
        let mut count = 0_u64;
        for (index, file) in manifest.files.iter().enumerate() {
            let name = file.label(index);
            let entries = file.entries.as_deref().unwrap_or_default();
            if file.range.is_some() == manifest.is_archive() {
                let detail = if file.range.is_some() {
                    "an archive has ranges only in its entries"
                } else {
                    "has no range"
                };
                self.report(&name, DifferenceKind::Range, detail);
            }
            for range in file.range.iter().chain(entries.iter().map(|entry| &entry.range)) {
                self.range(&name, range, expected, &slices);
                expected = Some(range.up_to);
                count += 1;
            }
        }
        if count == 0 && manifest.counts.planned > 0 {
            let detail = "users are planned, and no range is listed".to_owned();
            self.contradiction(DifferenceKind::Range, detail);
        }
    }

    fn range(&mut self, name: &str, range: &UserRange, expected: Option<Position>, slices: &[i16]) {
        let UserRange { after, up_to } = *range;
        if after >= up_to {
            self.report(name, DifferenceKind::Range, "ends before its start");
        }
        match expected {
            Some(before) if after < before => {
                self.report(name, DifferenceKind::Range, "overlaps the range before");
            }
            Some(before) if after > before => {
                self.report(name, DifferenceKind::Range, "does not begin where the last one ends");
            }
            _ => {}
        }
        if slices.binary_search(&up_to.slice).is_err() {
            let detail = format!("slice {} is not part of the audience", up_to.slice);
            self.report(name, DifferenceKind::Range, detail);
        }
    }

    /// The slices with users of the audience, ascending.
    fn audience_slices(&mut self) -> Vec<i16> {
        let ExportAudience::ControlGroup { slices, .. } = &self.manifest.audience else {
            return (0..SLICES).collect();
        };
        let is_ascending = slices.is_sorted_by(|a, b| a < b);
        if !is_ascending || slices.iter().any(|slice| !(0..SLICES).contains(slice)) {
            let detail = "the slices of the control group are not ascending".to_owned();
            self.contradiction(DifferenceKind::Range, detail);
        }
        slices.clone()
    }
}

impl File {
    /// Names the file in a difference.
    pub(crate) fn label(&self, index: usize) -> String {
        self.key.clone().unwrap_or_else(|| format!("files[{index}]"))
    }
}

/// None: more than a number can hold.
fn sum(mut numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.try_fold(0_u64, u64::checked_add)
}

fn shown(sum: Option<u64>) -> String {
    sum.map_or_else(|| "too many".to_owned(), |sum| sum.to_string())
}

fn is_hex_sha256(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_digit)
}

/// Whether a text is the name of one file, without a path, on every platform.
pub(crate) fn is_plain_name(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '/' | '\\' | ':');
    !matches!(text, "" | "." | "..") && text.chars().all(is_plain)
}
