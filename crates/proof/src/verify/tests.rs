//! Verifies exports in a directory, each damaged in one way.

pub(super) mod files;

use std::path::PathBuf;
use std::{fs, io};

use jiff::civil::date;
use kit::sshsig::{AllowedSigner, AllowedSigners, PrivateKey};
use reqwest::StatusCode;
use uuid::Uuid;

use super::source::{ExportAddress, HttpError};
use super::*;
use crate::manifest::{
    Counts, Entry, ExportAudience, FORMAT_VERSION, File, Position, RecordSchema, UserRange,
};
use files::{gzip_file, zip_file};
use gateway::workspaces::signing;
use objects::ObjectError;
use people::users::service_id;

const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";
const COMPLETED: i64 = 1_795_249_899_000;

/// The users of each file.
const USERS: [u64; 3] = [3, 2, 4];

fn user(number: u64) -> Position {
    let slice = (number / 4) as i16;
    let bucket = slice.unsigned_abs() * 100;
    Position { slice, service_id: service_id::new(1_795_000_000_000, 0, bucket, number) }
}

fn line(user: Position) -> String {
    format!("{{\"service_id\":\"{}\"}}\n", user.service_id)
}

/// An export in a directory.
struct Export {
    directory: tempfile::TempDir,
    manifest: Manifest,
    key: PrivateKey,
}

/// The users of each file, their text and their range.
fn parts() -> Vec<(u64, String, UserRange)> {
    let mut after = Position { slice: 0, service_id: Uuid::nil() };
    let mut first = 1;
    USERS
        .iter()
        .map(|count| {
            let text = (first..first + count).map(|number| line(user(number))).collect();
            first += count;
            let range = UserRange { after, up_to: user(first - 1) };
            after = range.up_to;
            (*count, text, range)
        })
        .collect()
}

impl Export {
    fn new(format: Format) -> Self {
        let bucket = ExportStorage::S3 { bucket: "b".into(), endpoint: None };
        let mut export = Self::empty(format, bucket);
        fs::create_dir(export.path(PREFIX)).unwrap();
        for (number, (users, text, range)) in parts().into_iter().enumerate() {
            let key = format!("{PREFIX}/{number}.{}", format.extension());
            let bytes = match format {
                Format::Zip => zip_file(&[("users.json", &text)]),
                Format::Gzip => gzip_file("users.json", &text),
            };
            fs::write(export.path(&key), &bytes).unwrap();
            export.manifest.files.push(File {
                key: Some(key),
                users,
                bytes: bytes.len() as u64,
                uncompressed_bytes: text.len() as u64,
                sha256: Some(content::sha256(&bytes)),
                range: Some(range),
                entries: None,
            });
        }
        export.sign();
        export
    }

    /// The archive behind `url`.
    fn archive() -> Self {
        let mut export = Self::empty(Format::Gzip, ExportStorage::Url);
        let (mut texts, mut entries) = (Vec::new(), Vec::new());
        for (number, (users, text, range)) in parts().into_iter().enumerate() {
            let name = format!("{PREFIX}_{number:06}.json");
            let uncompressed_bytes = text.len() as u64;
            entries.push(Entry { name: Some(name.clone()), users, uncompressed_bytes, range });
            texts.push((name, text));
        }
        let named: Vec<(&str, &str)> =
            texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let bytes = zip_file(&named);
        let key = format!("{PREFIX}{ARCHIVE_SUFFIX}");
        fs::write(export.path(&key), &bytes).unwrap();
        export.manifest.files.push(File {
            key: Some(key),
            users: USERS.iter().sum(),
            bytes: bytes.len() as u64,
            uncompressed_bytes: entries.iter().map(|entry| entry.uncompressed_bytes).sum(),
            sha256: Some(content::sha256(&bytes)),
            range: None,
            entries: Some(entries),
        });
        export.sign();
        export
    }

    fn empty(format: Format, storage: ExportStorage) -> Self {
        let users = USERS.iter().sum();
        let segment_id = Uuid::from_u128(7);
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            object_prefix: PREFIX.into(),
            workspace: "acme".into(),
            audience: ExportAudience::ControlGroup { segment_id, slices: vec![0, 1, 2] },
            fields: vec!["service_id".into()],
            service_id_name: None,
            currency: Some("USD".into()),
            format,
            storage,
            requested_at: COMPLETED - 1_000,
            planned_at: COMPLETED - 900,
            completed_at: COMPLETED,
            first_day: date(2026, 8, 24),
            last_day: date(2026, 11, 21),
            record_schema: RecordSchema::default(),
            counts: Counts { planned: users, exported: users, erased: 0 },
            files: vec![],
        };
        let key = PrivateKey::from_seed(&[1; 32]);
        Self { directory: tempfile::tempdir().unwrap(), manifest, key }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, number: usize) -> PathBuf {
        self.path(self.manifest.files[number].key.as_deref().unwrap())
    }

    /// Writes the manifest as it is now, with checksums and signature.
    fn sign(&self) {
        let bytes = self.manifest.to_bytes();
        let name = self.manifest.sibling(MANIFEST_SUFFIX);
        let checksums = self.manifest.checksums(&name, &content::sha256(&bytes));
        fs::write(self.path(&name), &bytes).unwrap();
        fs::write(self.path(&self.manifest.sibling(CHECKSUMS_SUFFIX)), checksums).unwrap();
        let signature = self.key.sign(signing::NAMESPACE, &bytes);
        fs::write(self.path(&self.manifest.sibling(SIGNATURE_SUFFIX)), signature).unwrap();
    }

    /// A line of allowed signers for the key.
    fn signer(&self) -> AllowedSigner {
        AllowedSigner {
            principals: "acme".into(),
            namespaces: Some(signing::NAMESPACE.into()),
            valid_after: Some(COMPLETED - 60_000),
            valid_before: None,
            key: self.key.public_key(),
            comment: String::new(),
        }
    }

    async fn report(&self, trust: &Trust, reads_records: bool) -> Report {
        let source = Source::Directory(self.directory.path().to_owned());
        assert_eq!(source.exports().await.unwrap(), [PREFIX.to_owned()].into());
        verify(&source, PREFIX, trust, reads_records, |_, _| {}).await.unwrap()
    }

    /// The kinds of the differences, and the files in which they are.
    async fn differences(&self, reads_records: bool) -> Vec<(DifferenceKind, String)> {
        let trust = Trust::Key(self.key.public_key());
        let report = self.report(&trust, reads_records).await;
        report.differences.into_iter().map(|found| (found.kind, found.file)).collect()
    }

    async fn kinds(&self, reads_records: bool) -> Vec<DifferenceKind> {
        self.differences(reads_records).await.into_iter().map(|(kind, _)| kind).collect()
    }

    /// Replaces a file's content, and lists it in a signed manifest: what only the records show.
    fn replace(&mut self, number: usize, text: &str) {
        let bytes = zip_file(&[("users.json", text)]);
        fs::write(self.file(number), &bytes).unwrap();
        let file = &mut self.manifest.files[number];
        file.bytes = bytes.len() as u64;
        file.uncompressed_bytes = text.len() as u64;
        file.sha256 = Some(content::sha256(&bytes));
        self.sign();
    }
}

#[tokio::test]
async fn whole_exports_have_no_differences() {
    for export in [Export::new(Format::Zip), Export::new(Format::Gzip), Export::archive()] {
        for reads_records in [false, true] {
            assert_eq!(export.differences(reads_records).await, []);
        }
        let report = export.report(&Trust::Key(export.key.public_key()), true).await;
        let fingerprint = export.key.public_key().fingerprint();
        assert_eq!(report.signer, Some(Signer { fingerprint, pinned: true }));
        assert_eq!((report.users, report.workspace.as_str()), (9, "acme"));
    }
}

#[tokio::test]
async fn damaged_files_are_found() {
    for format in [Format::Zip, Format::Gzip] {
        let torn = Export::new(format);
        let bytes = fs::read(torn.file(1)).unwrap();
        fs::write(torn.file(1), &bytes[..bytes.len() / 2]).unwrap();
        let key = torn.manifest.files[1].key.clone().unwrap();
        assert_eq!(torn.differences(false).await, [(DifferenceKind::Size, key)]);

        let swapped = Export::new(format);
        let (first, third) = (swapped.file(0), swapped.file(2));
        let aside = swapped.path("aside");
        fs::rename(&first, &aside).unwrap();
        fs::rename(&third, &first).unwrap();
        fs::rename(&aside, &third).unwrap();
        assert_eq!(swapped.kinds(true).await.len(), 2);

        let doubled = Export::new(format);
        fs::copy(doubled.file(0), doubled.path(&format!("{PREFIX}/copy"))).unwrap();
        let added = (DifferenceKind::Added, format!("{PREFIX}/copy"));
        assert_eq!(doubled.differences(true).await, [added]);

        let missing = Export::new(format);
        fs::remove_file(missing.file(2)).unwrap();
        let key = missing.manifest.files[2].key.clone().unwrap();
        assert_eq!(missing.differences(true).await, [(DifferenceKind::Missing, key)]);
    }
    let torn = Export::archive();
    let bytes = fs::read(torn.file(0)).unwrap();
    fs::write(torn.file(0), &bytes[1..]).unwrap();
    assert_eq!(torn.kinds(true).await, [DifferenceKind::Size]);
}

#[tokio::test]
async fn any_edited_byte_is_found() {
    for export in [Export::new(Format::Zip), Export::new(Format::Gzip), Export::archive()] {
        let bytes = fs::read(export.file(0)).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut edited = bytes.clone();
            edited[at] ^= 0x20;
            fs::write(export.file(0), edited).unwrap();
            for reads_records in [false, true] {
                let kinds = export.kinds(reads_records).await;
                assert_eq!(kinds, [DifferenceKind::Hash], "byte {at}");
            }
        }
    }
}

#[tokio::test]
async fn the_manifest_the_checksums_and_the_signature_must_be_there_and_fit() {
    let export = Export::new(Format::Zip);
    let manifest = export.path(&export.manifest.sibling(MANIFEST_SUFFIX));
    let edited = fs::read_to_string(&manifest).unwrap().replace("acme", "acne");
    fs::write(&manifest, edited).unwrap();
    assert_eq!(export.kinds(false).await, [DifferenceKind::Signature]);
    export.sign();
    for suffix in [CHECKSUMS_SUFFIX, SIGNATURE_SUFFIX, MANIFEST_SUFFIX] {
        fs::remove_file(export.path(&export.manifest.sibling(suffix))).unwrap();
        let source = Source::Directory(export.directory.path().to_owned());
        let trust = Trust::Key(export.key.public_key());
        let report = verify(&source, PREFIX, &trust, false, |_, _| {}).await.unwrap();
        let missing = Difference::new(export.manifest.sibling(suffix), DifferenceKind::Missing, "");
        assert_eq!(report.differences, [missing]);
        export.sign();
    }
    fs::write(export.path(&export.manifest.sibling(CHECKSUMS_SUFFIX)), "").unwrap();
    assert_eq!(export.kinds(false).await, [DifferenceKind::Checksums]);
    fs::write(export.path(&export.manifest.sibling(SIGNATURE_SUFFIX)), "hello").unwrap();
    assert_eq!(export.kinds(false).await, [DifferenceKind::Signature]);
}

/// Whoever wrote it may have made it large.
#[tokio::test]
async fn a_manifest_without_a_valid_signature_is_not_read_further() {
    let export = Export::new(Format::Zip);
    let manifest = export.path(&export.manifest.sibling(MANIFEST_SUFFIX));
    let edited = fs::read_to_string(&manifest).unwrap().replace("\"counts\"", "\"counted\"");
    fs::write(&manifest, edited).unwrap();
    assert_eq!(export.kinds(false).await, [DifferenceKind::Signature]);
    let source = Source::Directory(export.directory.path().to_owned());
    let unsigned = verify(&source, PREFIX, &Trust::Unsigned, false, |_, _| {}).await;
    assert!(matches!(unsigned, Err(VerifyError::Manifest { .. })), "{unsigned:?}");
}

#[tokio::test]
async fn names_of_entries_are_printed_escaped() {
    let mut export = Export::archive();
    let bytes = zip_file(&[("\u{1b}[2J", "[]\n")]);
    fs::write(export.file(0), &bytes).unwrap();
    let file = &mut export.manifest.files[0];
    (file.bytes, file.sha256) = (bytes.len() as u64, Some(content::sha256(&bytes)));
    export.sign();
    let report = export.report(&Trust::Key(export.key.public_key()), true).await;
    assert!(!report.is_valid());
    for difference in report.differences {
        assert!(!difference.detail.contains('\u{1b}'), "{difference:?}");
    }
}

#[tokio::test]
async fn a_manifest_under_another_name_is_found() {
    let export = Export::new(Format::Zip);
    let other = "other-1";
    for suffix in [MANIFEST_SUFFIX, SIGNATURE_SUFFIX, CHECKSUMS_SUFFIX] {
        let from = export.path(&export.manifest.sibling(suffix));
        fs::rename(from, export.path(&format!("{other}{suffix}"))).unwrap();
    }
    let source = Source::Directory(export.directory.path().to_owned());
    let trust = Trust::Key(export.key.public_key());
    let report = verify(&source, other, &trust, false, |_, _| {}).await.unwrap();
    assert_eq!(report.differences[0].kind, DifferenceKind::Manifest);
}

#[tokio::test]
async fn a_signed_manifest_that_contradicts_itself_is_found() {
    let mut export = Export::new(Format::Zip);
    export.manifest.files.remove(1);
    export.sign();
    let kinds = export.kinds(false).await;
    assert_eq!(kinds, [DifferenceKind::Count, DifferenceKind::Range]);
}

#[tokio::test]
async fn only_allowed_keys_that_are_valid_at_that_time_may_sign() {
    let export = Export::new(Format::Zip);
    let is_valid = async |trust: Trust| {
        let report = export.report(&trust, false).await;
        let kinds: Vec<_> = report.differences.iter().map(|found| found.kind).collect();
        assert!(kinds.is_empty() || kinds == [DifferenceKind::Signature], "{kinds:?}");
        report.is_valid()
    };
    let signers = |signer: AllowedSigner| Trust::Signers(AllowedSigners(vec![signer]));
    let other = PrivateKey::from_seed(&[2; 32]).public_key();
    assert!(is_valid(Trust::Unsigned).await);
    assert!(is_valid(Trust::Key(export.key.public_key())).await);
    assert!(!is_valid(Trust::Key(other)).await);
    assert!(!is_valid(Trust::Signers(AllowedSigners::default())).await);
    let usual = export.signer();
    assert!(is_valid(signers(usual.clone())).await);
    // Rotated after the export's end, and before.
    let retired = |at| AllowedSigner { valid_before: Some(at), ..usual.clone() };
    assert!(is_valid(signers(retired(COMPLETED + 60_000))).await);
    assert!(!is_valid(signers(retired(COMPLETED - 60_000))).await);
    let later = AllowedSigner { valid_after: Some(COMPLETED + 60_000), ..usual.clone() };
    assert!(!is_valid(signers(later)).await);
    let elsewhere = AllowedSigner { principals: "other".into(), ..usual.clone() };
    assert!(!is_valid(signers(elsewhere)).await);
    let purpose = AllowedSigner { namespaces: Some("git".into()), ..usual };
    assert!(!is_valid(signers(purpose)).await);
}

#[tokio::test]
async fn records_must_be_the_users_of_their_range_each_once() {
    let lines: Vec<String> = (1..=USERS[0]).map(|number| line(user(number))).collect();
    let [first, second, third] = lines.as_slice() else { panic!() };
    let last = line(user(9));
    for (text, expected) in [
        (lines.concat(), vec![]),
        // Twice, swapped, of another file, missing, too many.
        ([first, first, third].map(String::as_str).concat(), vec![DifferenceKind::Record]),
        ([second, first, third].map(String::as_str).concat(), vec![DifferenceKind::Record]),
        ([first, second, &last].map(String::as_str).concat(), vec![DifferenceKind::Record]),
        ([first, second].map(String::as_str).concat(), vec![DifferenceKind::Count]),
        (lines.concat() + "{}\n", vec![DifferenceKind::Count]),
        // Not a record, or one with fields that were not requested.
        (format!("{first}{second}[]\n"), vec![DifferenceKind::Record]),
        (format!("{first}{second}{{\"email\":\"a@b.c\"}}\n"), vec![DifferenceKind::Record]),
        (
            format!("{first}{second}{{\"service_id\":\"{}\"}}\n", Uuid::nil()),
            vec![DifferenceKind::Record],
        ),
    ] {
        let mut export = Export::new(Format::Zip);
        export.replace(0, &text);
        assert_eq!(export.kinds(true).await, expected, "{text}");
        assert_eq!(export.kinds(false).await, [], "hashes alone do not show it: {text}");
    }
}

#[tokio::test]
async fn only_the_first_differences_are_listed() {
    let mut export = Export::new(Format::Zip);
    export.replace(0, &"[]\n".repeat(100));
    export.manifest.files[0].users = 100;
    export.manifest.counts = Counts { planned: 106, exported: 106, erased: 0 };
    export.sign();
    assert_eq!(export.kinds(true).await, [DifferenceKind::Record; MAX_DIFFERENCES]);
}

#[test]
fn names_lead_to_their_export() {
    for suffix in [MANIFEST_SUFFIX, SIGNATURE_SUFFIX, CHECKSUMS_SUFFIX, ARCHIVE_SUFFIX] {
        assert_eq!(prefix_in_name(&format!("{PREFIX}{suffix}")), Some(PREFIX));
    }
    assert_eq!(prefix_in_name(".zip"), None);
    assert_eq!(prefix_in_name("users.csv"), None);
}

#[test]
fn the_addresses_of_an_export_differ_in_their_last_segment() {
    let url = |text: &str| ExportAddress::new(text.parse().unwrap());
    let base = "https://example.com/api/users/export/p-1";
    for last in ["download", "manifest.json", "SHA256SUMS", "manifest.json.sig"] {
        let export = url(&format!("{base}/{last}?signature=a-b")).unwrap();
        assert_eq!(export.object_prefix(), "p-1");
        assert_eq!(export.gateway(), "https://example.com/api");
        let address = export.address_of("p-1.manifest.json.sig").unwrap();
        assert_eq!(address.as_str(), format!("{base}/manifest.json.sig?signature=a-b"));
        assert_eq!(export.address_of("p-1.zip").unwrap().path(), "/api/users/export/p-1/download");
        assert_eq!(export.address_of("p-2.zip"), None);
    }
    for other in ["https://example.com/", "https://example.com/users/export/p-1", base] {
        assert!(url(other).is_none(), "{other}");
    }
}

#[test]
fn a_check_can_be_repeated_if_its_cause_may_pass() {
    let unknown_keys = |status| {
        let (host, message) = ("example.com".to_owned(), String::new());
        VerifyError::from(TrustError::from(HttpError::Refused { host, status, message }))
    };
    assert!(unknown_keys(StatusCode::SERVICE_UNAVAILABLE).can_retry());
    assert!(!unknown_keys(StatusCode::FORBIDDEN).can_retry());
    let unread =
        |error: io::Error| VerifyError::from(SourceError::Read { name: "a".into(), error });
    assert!(unread(io::Error::other(ObjectError::Unavailable("it is busy".into()))).can_retry());
    assert!(!unread(io::Error::other(ObjectError::Refused("no access".into()))).can_retry());
    assert!(!unread(io::ErrorKind::PermissionDenied.into()).can_retry());
}
