//! The worker is killed before, between and after the objects that prove an export: the manifest is
//! the last of them, a repeated write changes none, and one callback has the manifest's hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::{PARTS, Scene};
use crate::support::fleet::Backend;
use crate::support::killed;
use crate::support::storage::{PROOFS, TestStorage};

const CHECKSUMS: &str = ".SHA256SUMS";
const SIGNATURE: &str = ".manifest.json.sig";
const MANIFEST: &str = ".manifest.json";

/// What is there to prove the export: the bytes of each object, by the end of its name.
async fn proofs(scene: &Scene) -> BTreeMap<&'static str, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Some(storage) = &scene.storage else {
        let objects = scene.fleet.config().objects_url();
        let folder = Path::new(objects.strip_prefix("file://").expect("a folder")).join("exports");
        for export in fs::read_dir(folder).expect("the exports") {
            let folder = export.expect("an export").path();
            for suffix in PROOFS {
                let bytes = fs::read(folder.join(format!("export{suffix}")));
                found.extend(bytes.ok().map(|bytes| (suffix, bytes)));
            }
        }
        return found;
    };
    for key in storage.list().await {
        if let Some(suffix) = PROOFS.into_iter().find(|suffix| key.ends_with(suffix)) {
            found.insert(suffix, storage.get(&key).await);
        }
    }
    found
}

/// The process ends at `point`, where `written` are all that prove the export; another continues.
async fn killed_at(backend: Backend, name: &str, own: bool, point: &str, written: &[&str]) {
    let storage = if own { Some(TestStorage::s3().await) } else { None };
    let mut scene = Scene::new(backend, storage, (name, &format!("{point}=kill"))).await;
    let accepted = scene.request().await;
    scene.fleet.wait_until_exited(name).await;
    let at_the_kill = proofs(&scene).await;
    let mut expected = written.to_vec();
    expected.sort_unstable();
    assert_eq!(at_the_kill.keys().copied().collect::<Vec<_>>(), expected);
    assert!(scene.receiver.received().is_empty(), "a callback of an export that is not done");

    scene.fleet.launch(name).await;
    scene.ends_whole(&accepted.prefix).await;
    let at_the_end = proofs(&scene).await;
    assert_eq!(at_the_end.len(), PROOFS.len());
    for (suffix, bytes) in &at_the_kill {
        assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&at_the_end[suffix]));
    }
    let callback = scene.callback().await;
    let sha256 = hex::encode(Sha256::digest(&at_the_end[MANIFEST]));
    assert_eq!(callback["manifest"]["sha256"], sha256);
    if let Some(url) = callback["url"].as_str() {
        scene.fleet.run(&["export", "verify", url, "--records"]).await;
    }
    let status = scene.api.status(&accepted.prefix).await;
    assert_eq!(status["files"]["done"], PARTS, "{status}");
    scene.fleet.close().await;
}

killed! {
    before_the_checksums: Backend::Fleet(1), "worker-1", true, "proof::writing", &[];
    before_the_signature:
        Backend::Fleet(1), "worker-1", true, "proof::writing@2", &[CHECKSUMS];
    before_the_manifest:
        Backend::Fleet(1), "worker-1", true, "proof::writing@3", &[CHECKSUMS, SIGNATURE];
    after_the_manifest: Backend::Fleet(1), "worker-1", true, "finish::stored", &PROOFS;
    before_the_checksums_of_an_archive:
        Backend::Embedded, "standalone", false, "proof::writing", &[];
    before_the_signature_of_an_archive:
        Backend::Embedded, "standalone", false, "proof::writing@2", &[CHECKSUMS];
    before_the_manifest_of_an_archive:
        Backend::Embedded, "standalone", false, "proof::writing@3", &[CHECKSUMS, SIGNATURE];
    after_the_manifest_of_an_archive:
        Backend::Embedded, "standalone", false, "finish::stored", &PROOFS;
}
