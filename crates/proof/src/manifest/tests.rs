use jiff::civil::date;
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::*;
use people::users::service_id;

const PREFIX: &str = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";

fn position(slice: i16, number: u64) -> Position {
    Position {
        slice,
        service_id: service_id::new(1_795_000_000_000, 0, slice as u16 * 100, number),
    }
}

fn start(slice: i16) -> Position {
    Position { slice, service_id: Uuid::nil() }
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// Contiguous ranges of one part for each of `users`.
fn ranges(count: usize) -> Vec<UserRange> {
    let ends = (1..=count as u64).map(|n| position((n / 3) as i16, n));
    let starts = std::iter::once(start(0)).chain(ends.clone());
    starts.zip(ends).map(|(after, up_to)| UserRange { after, up_to }).collect()
}

fn manifest(storage: ExportStorage, files: Vec<File>, erased: u64) -> Manifest {
    let exported = files.iter().map(|file| file.users).sum();
    Manifest {
        format_version: FORMAT_VERSION,
        object_prefix: PREFIX.into(),
        workspace: "acme".into(),
        audience: ExportAudience::Segment {
            segment_id: Uuid::from_u128(7),
            name: "All users".into(),
            audience: None,
        },
        fields: vec!["email".into()],
        service_id_name: None,
        currency: Some("USD".into()),
        format: Format::Zip,
        storage,
        requested_at: 1_795_249_898_000,
        planned_at: 1_795_249_898_100,
        completed_at: 1_795_249_899_000,
        first_day: date(2026, 8, 24),
        last_day: date(2026, 11, 21),
        record_schema: RecordSchema::default(),
        counts: Counts { planned: exported + erased, exported, erased },
        files,
    }
}

/// Files in own storage; those without users have no key.
fn own(users: &[u64]) -> Manifest {
    let file = |(number, range): (usize, UserRange)| match users[number] {
        0 => File { range: Some(range), ..File::default() },
        users => File {
            key: Some(format!("{PREFIX}/{number}.zip")),
            users,
            bytes: 10 * users,
            uncompressed_bytes: 30 * users,
            sha256: Some(hash(&number.to_string())),
            range: Some(range),
            entries: None,
        },
    };
    let files = ranges(users.len()).into_iter().enumerate().map(file).collect();
    let bucket = ExportStorage::S3 { bucket: "b".into(), endpoint: None };
    manifest(bucket, files, users.iter().filter(|users| **users == 0).count() as u64)
}

/// The archive behind `url`.
fn archive(users: &[u64]) -> Manifest {
    let entry = |(number, range): (usize, UserRange)| Entry {
        name: (users[number] > 0).then(|| format!("{PREFIX}_{number:06}.json")),
        users: users[number],
        uncompressed_bytes: 30 * users[number],
        range,
    };
    let entries: Vec<Entry> = ranges(users.len()).into_iter().enumerate().map(entry).collect();
    let file = File {
        key: Some(format!("{PREFIX}.zip")),
        users: users.iter().sum(),
        bytes: 22 + users.iter().sum::<u64>(),
        uncompressed_bytes: entries.iter().map(|entry| entry.uncompressed_bytes).sum(),
        sha256: Some(hash("archive")),
        range: None,
        entries: Some(entries),
    };
    let erased = users.iter().filter(|users| **users == 0).count() as u64;
    manifest(ExportStorage::Url, vec![file], erased)
}

fn kinds(manifest: &Manifest) -> Vec<DifferenceKind> {
    manifest.check().into_iter().map(|difference| difference.kind).collect()
}

proptest! {
    #[test]
    fn written_manifests_are_read_back_and_agree_with_themselves(
        users in prop::collection::vec(0..9_u64, 0..40), behind_url: bool,
    ) {
        let manifest = if behind_url { archive(&users) } else { own(&users) };
        prop_assert_eq!(manifest.check(), []);
        let bytes = manifest.to_bytes();
        prop_assert_eq!(&Manifest::parse(&bytes).unwrap(), &manifest);
        prop_assert_eq!(Manifest::parse(&bytes).unwrap().to_bytes(), bytes);
    }

    #[test]
    fn any_changed_number_is_a_contradiction(
        users in prop::collection::vec(0..9_u64, 1..20), behind_url: bool, by in 1..5_u64,
        chosen: prop::sample::Index, number in 0..6,
    ) {
        let mut manifest = if behind_url { archive(&users) } else { own(&users) };
        let file = chosen.index(manifest.files.len());
        match number {
            0 => manifest.counts.planned += by,
            1 => manifest.counts.exported += by,
            2 => manifest.counts.erased += by,
            3 => manifest.files[file].users += by,
            4 if behind_url => {
                let entries = manifest.files[0].entries.as_mut().unwrap();
                let entry = chosen.index(entries.len());
                entries[entry].range.after = position(99, by);
            }
            4 => manifest.files[file].range.as_mut().unwrap().after = position(99, by),
            _ if behind_url => manifest.files[0].uncompressed_bytes += by,
            _ => manifest.files[file].entries = Some(vec![]),
        }
        prop_assert!(!manifest.check().is_empty());
    }

    #[test]
    fn any_bytes_are_read_calmly(bytes: Vec<u8>) {
        let _ = Manifest::parse(&bytes);
    }

    #[test]
    fn a_checksum_line_is_one_line(name: String) {
        let line = checksum_line(&name, &hash(""));
        prop_assert_eq!(line.find(['\n', '\r']), Some(line.len() - 1));
    }
}

#[test]
fn missing_repeated_and_swapped_files_are_contradictions() {
    let sound = own(&[3, 0, 2, 5, 1]);
    let mut missing = sound.clone();
    missing.files.remove(2);
    assert_eq!(kinds(&missing), [DifferenceKind::Count, DifferenceKind::Range]);
    let mut repeated = sound.clone();
    let copy = repeated.files[2].clone();
    repeated.files.insert(2, copy);
    repeated.counts.exported += 2;
    repeated.counts.planned += 2;
    assert_eq!(kinds(&repeated), [DifferenceKind::Manifest, DifferenceKind::Range]);
    let mut swapped = sound.clone();
    swapped.files.swap(2, 3);
    assert!(kinds(&swapped).contains(&DifferenceKind::Range));
    let mut late = sound;
    late.files.remove(0);
    late.counts.exported -= 3;
    late.counts.planned -= 3;
    assert_eq!(kinds(&late), [DifferenceKind::Range], "the first users of the audience");
}

#[test]
fn keys_stay_in_the_folder_of_the_export() {
    for key in [
        "",
        "a.zip",
        "/etc/passwd",
        &format!("{PREFIX}/"),
        &format!("{PREFIX}/.."),
        &format!("{PREFIX}/../a.zip"),
        &format!("{PREFIX}/a/b.zip"),
        &format!("{PREFIX}/a\\b.zip"),
        &format!("{PREFIX}/a\nb.zip"),
        &format!("{PREFIX}/c:b.zip"),
        &format!("{PREFIX}x/a.zip"),
    ] {
        let mut manifest = own(&[1, 2]);
        manifest.files[1].key = Some(key.to_owned());
        assert_eq!(kinds(&manifest), [DifferenceKind::Manifest], "{key:?}");
    }
    let mut other = archive(&[1]);
    other.files[0].key = Some("other.zip".into());
    assert_eq!(kinds(&other), [DifferenceKind::Manifest]);
    let mut climbing = archive(&[1]);
    climbing.object_prefix = "..".into();
    climbing.files[0].key = Some("...zip".into());
    assert_eq!(kinds(&climbing), [DifferenceKind::Manifest]);
}

#[test]
fn files_have_hashes_and_only_files() {
    for sha256 in [None, Some(""), Some(&hash("x").to_uppercase()), Some(&hash("x")[1..])] {
        let mut manifest = own(&[1]);
        manifest.files[0].sha256 = sha256.map(str::to_owned);
        assert_eq!(kinds(&manifest), [DifferenceKind::Manifest], "{sha256:?}");
    }
    let mut nameless = own(&[0, 1]);
    nameless.files[0].bytes = 1;
    assert_eq!(kinds(&nameless), [DifferenceKind::Manifest]);
    let mut unlisted = own(&[1]);
    unlisted.files[0].range = None;
    assert_eq!(kinds(&unlisted), [DifferenceKind::Range, DifferenceKind::Range]);
    let mut flat = archive(&[1]);
    flat.files[0].entries = None;
    assert_eq!(kinds(&flat), [DifferenceKind::Manifest, DifferenceKind::Range]);
    let mut empty = archive(&[]);
    empty.files.clear();
    assert_eq!(kinds(&empty), [DifferenceKind::Manifest]);
}

#[test]
fn a_control_group_has_users_only_in_its_slices() {
    let mut manifest = own(&[1, 1]);
    let segment_id = Uuid::from_u128(7);
    manifest.audience = ExportAudience::ControlGroup { segment_id, slices: vec![3, 8] };
    let range = |after, up_to| Some(UserRange { after, up_to });
    manifest.files[0].range = range(start(3), position(3, 5));
    manifest.files[1].range = range(position(3, 5), position(8, 9));
    assert_eq!(kinds(&manifest), []);
    manifest.files[1].range = range(position(3, 5), position(9, 9));
    assert_eq!(kinds(&manifest), [DifferenceKind::Range]);
    manifest.files[1].range = range(position(3, 5), position(8, 9));
    manifest.audience = ExportAudience::ControlGroup { segment_id, slices: vec![8, 3] };
    assert!(kinds(&manifest).contains(&DifferenceKind::Range));
}

#[test]
fn the_file_reads_as_documented() {
    let mut manifest = own(&[2, 0]);
    manifest.fields = vec!["their_id".into()];
    manifest.service_id_name = Some("their_id".into());
    let json: Value = serde_json::from_slice(&manifest.to_bytes()).unwrap();
    assert_eq!(json["format_version"], 1);
    assert_eq!(json["audience"]["segment"]["name"], "All users");
    assert_eq!(json["storage"], json!({ "kind": "s3", "bucket": "b" }));
    assert_eq!(json["format"], "zip");
    assert_eq!(json["completed_at"], "2026-11-21T08:31:39.000Z");
    assert_eq!(json["last_day"], "2026-11-21");
    assert_eq!(json["counts"], json!({ "planned": 3, "exported": 2, "erased": 1 }));
    assert_eq!(json["files"][0]["key"], format!("{PREFIX}/0.zip"));
    assert_eq!(json["files"][1].get("key"), None);
    assert_eq!(json["files"][1]["range"]["after"], json["files"][0]["range"]["up_to"]);
    let bytes = manifest.to_bytes();
    assert!(bytes.ends_with(b"}\n") && !bytes.ends_with(b"\n\n"));
    let fields = manifest.field_set().unwrap();
    assert!(fields.wants(fields::SERVICE_ID) && fields.service_id_names().eq(["their_id"]));
}

#[test]
fn other_versions_are_rejected_and_further_fields_ignored() {
    let mut json: Value = serde_json::from_slice(&own(&[1]).to_bytes()).unwrap();
    json["later"] = json!(1);
    assert_eq!(Manifest::parse(json.to_string().as_bytes()).unwrap(), own(&[1]));
    json["format_version"] = json!(2);
    json["files"] = json!("elsewhere");
    let error = Manifest::parse(json.to_string().as_bytes()).unwrap_err();
    assert!(matches!(error, ManifestError::Version(2)));
    json["format_version"] = json!(1);
    json["files"] = json!([]);
    json["planned_at"] = json!("yesterday");
    let error = Manifest::parse(json.to_string().as_bytes()).unwrap_err();
    assert!(matches!(error, ManifestError::Json(_)));
}

#[test]
fn checksums_end_with_the_manifest() {
    let manifest = own(&[2, 0, 1]);
    let (first, last) = (hash("0"), hash("2"));
    let own_hash = hash("manifest");
    assert_eq!(
        manifest.checksums("m.json", &own_hash),
        format!("{first}  {PREFIX}/0.zip\n{last}  {PREFIX}/2.zip\n{own_hash}  m.json\n")
    );
    assert_eq!(checksum_line("a\\b\n", "00"), "\\00  a\\\\b\\n\n");
}

#[test]
fn stored_fields_are_shown_as_requested() {
    let stored = ["email", "service_id\u{1f}their_id"].map(str::to_owned);
    let (fields, alias) = requested_fields(&stored);
    assert_eq!((fields.join(","), alias.as_deref()), ("email,their_id".into(), Some("their_id")));
    let plain = ["service_id".to_owned()];
    assert_eq!(requested_fields(&plain), (plain.to_vec(), None));
}

#[test]
fn positions_before_all_users_have_a_slice() {
    let first = Position::from(people::users::Position::START);
    assert_eq!(first, start(0));
}

#[test]
fn an_object_prefix_has_one_shape() {
    assert!(is_object_prefix("9d2261c4-4cf3-44b0-909b-455baf540288-1795249898"));
    for other in ["", "unknown", "\0", "9d2261c4-4cf3-44b0-909b-455baf540288", "x-1795249898", "-1"]
    {
        assert!(!is_object_prefix(other), "{other:?}");
    }
}
