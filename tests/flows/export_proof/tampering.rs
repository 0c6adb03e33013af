//! Each kind of tampering is found by both tools: the steps of the book with standard programs, as
//! they stand there, and `longshore export verify`.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::*;
use crate::support::files::{project, read};

/// The steps with standard programs, without the copying.
fn steps_of_the_book() -> String {
    let page = read(project("docs/how-to/verify-an-export.md"));
    let (_, section) = page.split_once("## With standard programs").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a next section");
    let blocks = section.split("```sh\n").skip(1);
    let blocks: Vec<&str> =
        blocks.map(|block| block.split("```").next().unwrap_or_default()).collect();
    let [_from_storage, _from_url, checks @ ..] = &blocks[..] else { panic!("{blocks:?}") };
    assert_eq!(checks.len(), 4, "{checks:?}");
    checks.concat()
}

/// Copies of two exports of a workspace, and what may be done to the first one.
struct Copies {
    directory: PathBuf,
    prefix: String,
    other: String,
}

impl Copies {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn proof(&self, suffix: &str) -> PathBuf {
        self.path(&format!("{}{suffix}", self.prefix))
    }

    /// The files with users, in order.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(folder) = fs::read_dir(self.path(&self.prefix)) else {
            return vec![self.proof(".zip")];
        };
        let mut files: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        files
    }

    fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).expect("a file");
        change(&mut bytes);
        fs::write(path, bytes).expect("it is written");
    }

    /// Signs the manifest with a key of somebody else.
    fn sign_with_another_key(&self) {
        let key = self.path("another-key");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect("it runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", text(&key)]);
        let (manifest, signature) =
            (self.proof(".manifest.json"), self.proof(".manifest.json.sig"));
        fs::remove_file(&signature).expect("a signature");
        let sign = ["-q", "-Y", "sign", "-n", "longshore-export", "-f"];
        run("ssh-keygen", &[&sign[..], &[text(&key), text(&manifest)]].concat());
    }

    /// The exit status of the steps of the book, and what they printed.
    fn book(&self, signers: &Path) -> (bool, String) {
        fs::copy(signers, self.path("allowed_signers")).expect("a file");
        let output = Command::new("timeout")
            .args(["20", "sh", "-ec", &steps_of_the_book()])
            .current_dir(&self.directory)
            .env("PREFIX", &self.prefix)
            .env("WORKSPACE", "acme")
            .output()
            .expect("a shell");
        let printed = [output.stdout, output.stderr].concat();
        // A step that fails ends with 1: 2 and more is a mistake in the step, 124 the timeout.
        let is_valid = match output.status.code() {
            Some(0) => true,
            Some(1 | 255) => false,
            // The shell cannot open a file that a step reads.
            Some(2) if !self.proof(".manifest.json").is_file() => false,
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&printed)),
        };
        (is_valid, String::from_utf8_lossy(&printed).into_owned())
    }
}

type Tampering = (&'static str, fn(&Copies));

/// What both kinds of exports can suffer.
const ANY: &[Tampering] = &[
    ("a byte is edited", |copies| copies.edit(&copies.files()[0], |bytes| bytes[40] ^= 1)),
    ("a file is truncated", |copies| copies.edit(&copies.files()[0], |bytes| bytes.truncate(60))),
    ("a file is dropped", |copies| fs::remove_file(&copies.files()[0]).expect("a file")),
    ("the manifest is gone", |copies| {
        fs::remove_file(copies.proof(".manifest.json")).expect("a manifest");
    }),
    ("the manifest is edited", |copies| {
        copies.edit(&copies.proof(".manifest.json"), |bytes| {
            let text = String::from_utf8(bytes.clone()).expect("JSON");
            *bytes = text.replacen("\"format_version\": 1", "\"format_version\":  1", 1).into();
        });
    }),
    ("the signature is gone", |copies| {
        fs::remove_file(copies.proof(".manifest.json.sig")).expect("a signature");
    }),
    ("another key signed", Copies::sign_with_another_key),
    ("it has the proof of another export", |copies| {
        for suffix in [".manifest.json", ".manifest.json.sig", ".SHA256SUMS"] {
            let other = copies.path(&format!("{}{suffix}", copies.other));
            fs::copy(other, copies.proof(suffix)).expect("a copy");
        }
    }),
    ("a file is a link to a device", |copies| replace_by_link(copies, Path::new("/dev/zero"))),
    ("a file is a link to its copy", |copies| {
        let kept = copies.path("kept");
        fs::copy(&copies.files()[0], &kept).expect("a copy");
        replace_by_link(copies, &kept);
    }),
    ("a file is a pipe", |copies| {
        let file = &copies.files()[0];
        fs::remove_file(file).expect("a file");
        let made = Command::new("mkfifo").arg(file).status().expect("mkfifo runs");
        assert!(made.success());
    }),
];

/// What lies next to the folder or the archive, and begins with the same name.
const NEXT_TO_IT: &[Tampering] = &[
    ("a compressed file is next to it", |copies| add_next(copies, ".gz")),
    ("an archive of another kind is next to it", |copies| add_next(copies, ".tar")),
    ("an archive with a capital suffix is next to it", |copies| add_next(copies, ".ZIP")),
    ("an archive with more of the name is next to it", |copies| add_next(copies, "-more.zip")),
    ("a folder is next to it", |copies| {
        fs::create_dir(copies.proof(".d")).expect("a folder");
        add_next(copies, ".d/file");
    }),
];

/// What needs a folder with files.
const IN_OWN_STORAGE: &[Tampering] = &[
    ("a file is added", |copies| add(copies, "more.zip")),
    ("a hidden file is added", |copies| add(copies, ".more.zip")),
    ("an archive is added", |copies| add_next(copies, ".zip")),
    ("two files are swapped", |copies| {
        let files = copies.files();
        let [first, second] = [&files[0], &files[1]].map(|file| fs::read(file).expect("a file"));
        fs::write(&files[0], second).expect("it is written");
        fs::write(&files[1], first).expect("it is written");
    }),
    ("a file has the content of another", |copies| {
        fs::copy(&copies.files()[0], &copies.files()[1]).expect("a copy");
    }),
    ("the folder is a link", |copies| {
        let folder = copies.path(&copies.prefix);
        let moved = copies.path("moved");
        fs::rename(&folder, &moved).expect("it is moved");
        symlink(&moved, &folder).expect("a link");
    }),
];

fn add(copies: &Copies, name: &str) {
    let added = copies.path(&copies.prefix).join(name);
    fs::copy(&copies.files()[0], added).expect("a copy");
}

fn add_next(copies: &Copies, suffix: &str) {
    fs::copy(&copies.files()[0], copies.proof(suffix)).expect("a copy");
}

fn replace_by_link(copies: &Copies, target: &Path) {
    let file = &copies.files()[0];
    fs::remove_file(file).expect("a file");
    symlink(target, file).expect("a link");
}

/// Files below a directory, copied.
fn copied(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().expect("cp runs");
    assert!(status.success());
}

async fn all_tampering_is_found(
    originals: &Path,
    exports: &[String; 2],
    signers: &Path,
    kinds: &[&[Tampering]],
) {
    let [prefix, other] = exports;
    let keys = ["--allowed-signers", text(signers)];
    let copies = |name: &str| {
        let directory = originals.with_extension(name);
        copied(originals, &directory);
        Copies { directory, prefix: prefix.clone(), other: other.clone() }
    };
    let whole = copies("whole");
    let (is_valid, printed) = whole.book(signers);
    assert!(is_valid, "{printed}");
    let output = longshore(&["export", "verify", text(&whole.directory), keys[0], keys[1]]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    for (index, (name, tamper)) in kinds.iter().copied().flatten().enumerate() {
        let copies = copies(&format!("tampered{index}"));
        tamper(&copies);
        let (is_valid, printed) = copies.book(signers);
        assert!(!is_valid, "{name}: the steps of the book find nothing: {printed}");
        let verify = ["export", "verify", text(&copies.directory), keys[0], keys[1], "--json"];
        let output = longshore(&verify).await;
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let reports = shown["exports"].as_array().expect("a list");
        for report in reports {
            let is_whole = report["differences"].as_array().expect("a list").is_empty();
            assert_eq!(is_whole, report["object_prefix"] == **other, "{name}: {shown}");
        }
        assert_eq!(reports.len(), 2, "{name}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tampering_with_files_in_own_storage_is_found() {
    let storage = TestStorage::s3().await;
    let (fleet, api) = started(WorkspaceFile::new("acme").with_storage(&storage)).await;
    let exports = [exported(&api).await.prefix, exported(&api).await.prefix];
    let directory = fleet.directory().join("copied");
    for key in storage.list().await {
        let Some(start) = exports.iter().find_map(|prefix| key.find(prefix)) else { continue };
        let path = directory.join(&key[start..]);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, storage.get(&key).await).expect("it is written");
    }
    let signers = allowed_signers(&fleet).await;
    all_tampering_is_found(&directory, &exports, &signers, &[ANY, NEXT_TO_IT, IN_OWN_STORAGE])
        .await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tampering_with_an_archive_is_found() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let exports = [exported(&api).await.prefix, exported(&api).await.prefix];
    for prefix in &exports {
        downloaded(&fleet, &api, prefix, "downloaded").await;
    }
    let signers = allowed_signers(&fleet).await;
    let directory = fleet.directory().join("downloaded");
    all_tampering_is_found(&directory, &exports, &signers, &[ANY, NEXT_TO_IT]).await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_nobody_is_proven() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    let storage = TestStorage::s3().await;
    let api = fleet.apply(&[WorkspaceFile::new("acme").with_storage(&storage)]).await.remove(0);
    let prefix = exported(&api).await.prefix;
    let directory = fleet.directory().join("copied");
    fs::create_dir(&directory).expect("a folder");
    for key in storage.list().await {
        if let Some(start) = key.find(&prefix) {
            fs::write(directory.join(&key[start..]), storage.get(&key).await).expect("written");
        }
    }
    let signers = allowed_signers(&fleet).await;
    let copies = Copies { directory, prefix, other: String::new() };
    let (is_valid, printed) = copies.book(&signers);
    assert!(is_valid, "{printed}");
    let keys = ["--allowed-signers", text(&signers)];
    assert_eq!(verified(&[text(&copies.directory), keys[0], keys[1]]).await, valid());
    fleet.close().await;
}

/// A rotated key proves what it signed before, with both tools.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_of_before_a_rotation_stays_proven() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let prefix = exported(&api).await.prefix;
    let directory = downloaded(&fleet, &api, &prefix, "downloaded").await;
    fleet.run(&["signing-key", "rotate", "--workspace", "acme"]).await;
    let signers = allowed_signers(&fleet).await;
    let copies = Copies { directory, prefix, other: String::new() };
    let (is_valid, printed) = copies.book(&signers);
    assert!(is_valid, "{printed}");
    let keys = ["--allowed-signers", text(&signers)];
    assert_eq!(verified(&[text(&copies.directory), keys[0], keys[1]]).await, valid());
    fleet.close().await;
}

/// A job with keys that it fetched while the next one was announced verifies what both sign. An
/// export is never signed with a key that its gateway does not list yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_job_survives_a_rotation() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    // The gateway has the list in its cache.
    let former = fs::read_to_string(allowed_signers(&fleet).await).expect("a file");
    fleet.run(&["signing-key", "rotate", "--workspace", "acme"]).await;
    let mut signers = allowed_signers(&fleet).await;
    while fs::read_to_string(&signers).expect("a file") == former {
        tokio::time::sleep(Duration::from_millis(200)).await;
        signers = allowed_signers(&fleet).await;
    }
    let pinned = signers.with_file_name("pinned");
    fs::copy(&signers, &pinned).expect("a copy");
    let keys = ["--allowed-signers", text(&pinned), "--json"];
    let mut fingerprints = BTreeSet::new();
    for is_now in [false, true] {
        if is_now {
            fleet.run(&["signing-key", "rotate", "--workspace", "acme", "--now"]).await;
        }
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(if is_now { 13 } else { 1 }) {
            let prefix = exported(&api).await.prefix;
            // Verified with the keys that the gateway serves, too.
            let directory = downloaded(&fleet, &api, &prefix, &prefix).await;
            let target = text(&directory).to_owned();
            let output = longshore(&[&["export", "verify", &target], &keys[..]].concat()).await;
            let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(shown["valid"], true, "{shown}");
            fingerprints.insert(shown["exports"][0]["signer"]["fingerprint"].to_string());
            let copies = Copies { directory, prefix, other: String::new() };
            let (is_valid, printed) = copies.book(&pinned);
            assert!(is_valid, "{printed}");
        }
        assert_eq!(fingerprints.len(), if is_now { 2 } else { 1 });
    }
    fleet.close().await;
}

/// An export without a manifest is not complete, whatever is next to it.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_without_a_manifest_is_found() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let prefix = exported(&api).await.prefix;
    let directory = downloaded(&fleet, &api, &prefix, "downloaded").await;
    let stray = format!("{}-{}", uuid::Uuid::new_v4(), 1_795_249_898);
    let archive = directory.join(format!("{prefix}.zip"));
    fs::copy(archive, directory.join(format!("{stray}.zip"))).expect("a copy");
    // Other programs have archives, too.
    fs::write(directory.join("photos.zip"), "").expect("it is written");
    let arguments = ["export", "verify", "--json", "--unsigned", text(&directory)];
    let output = longshore(&arguments).await;
    assert_eq!(output.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let reports = shown["exports"].as_array().expect("a list");
    let found = reports.iter().find(|report| report["object_prefix"] == *stray).expect("the stray");
    assert_eq!((reports.len(), &found["differences"][0]["kind"]), (2, &json!("missing")));
    fleet.close().await;
}
