//! What proves that an export in own storage is complete.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ExpectedExport;
use crate::support::storage::{PROOFS, TestStorage};

/// The manifest, the checksums and the signature of an export in own storage, next to its folder:
/// they have exactly these files.
pub async fn check(
    storage: &TestStorage,
    hashes: &BTreeMap<String, String>,
    wanted: &ExpectedExport<'_>,
) {
    let is_proof = |key: &String| {
        let (_, name) = key.rsplit_once('/').unwrap_or_default();
        name.strip_prefix(wanted.prefix).is_some_and(|suffix| PROOFS.contains(&suffix))
    };
    let proofs: Vec<String> = storage.list().await.into_iter().filter(is_proof).collect();
    let [sums, manifest_key, signature] = &proofs[..] else { panic!("{proofs:?}") };
    let folder = manifest_key.rsplit_once('/').expect("a folder").0;
    let bytes = storage.get(manifest_key).await;
    let signature = String::from_utf8(storage.get(signature).await).expect("text");
    kit::sshsig::verify(&signature, "longshore-export", &bytes).expect("the manifest is signed");
    let manifest: Value = serde_json::from_slice(&bytes).expect("JSON");
    let files = manifest["files"].as_array().expect("files");
    let with_key = files.iter().filter(|file| file["key"].is_string());
    let found: BTreeMap<String, String> = with_key
        .map(|file| {
            let text = |name: &str| file[name].as_str().expect(name).to_owned();
            (format!("{folder}/{}", text("key")), text("sha256"))
        })
        .collect();
    assert_eq!(&found, hashes, "{manifest_key}");
    let users: u64 = files.iter().filter_map(|file| file["users"].as_u64()).sum();
    assert_eq!(manifest["counts"]["exported"], users, "{manifest_key}");
    let sums = String::from_utf8(storage.get(sums).await).expect("text");
    for (key, hash) in hashes {
        let line = format!("{hash}  {}\n", key.strip_prefix(folder).expect("a key")[1..].trim());
        assert!(sums.contains(&line), "{sums} lacks {line}");
    }
}
