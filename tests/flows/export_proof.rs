//! What proves that an export is whole: checked by `longshore export verify` and by other programs,
//! and what each kind of damage leads to.

mod tampering;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use boon::{Compiler, Draft, Schemas};
use kit::secrets::SecretKey;
use kit::sshsig::PrivateKey;
use objects::{Objects, PutOptions};
use reqwest::header::ETAG;
use serde_json::{Value, json};

use crate::support::api::{Accepted, Api};
use crate::support::fleet::{Backend, Fleet};
use crate::support::storage::TestStorage;
use crate::support::workspace::WorkspaceFile;
use crate::support::{checker, process, stores, user_records};

/// Users, and users in a file.
const USERS: usize = 23;
const PER_FILE: usize = 5;

async fn started(workspace: WorkspaceFile) -> (Fleet, Api) {
    let settings = [("LONGSHORE_EXPORTS__USERS_PER_FILE", PER_FILE.to_string())];
    let fleet = Fleet::start(Backend::Embedded, &settings).await;
    let name = workspace.name.clone();
    let api = fleet.apply(&[workspace]).await.remove(0);
    fleet.import(&name, &user_records::generated(USERS).await).await;
    (fleet, api)
}

async fn exported(api: &Api) -> Accepted {
    let accepted = api.export_all().await;
    api.done(&accepted.prefix).await;
    accepted
}

/// A command in an empty directory, without settings.
async fn longshore(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = process::command(directory.path(), &Default::default());
    command.args(arguments);
    let output = process::output(command).await;
    let left = fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(left, 0, "{arguments:?} created an installation");
    output
}

/// `export verify --json`: the exit status, and the differences of the only export as kind and
/// file.
async fn verified(arguments: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let output = longshore(&[&["export", "verify", "--json"], arguments].concat()).await;
    let shown = String::from_utf8_lossy(&output.stdout);
    let shown: Value = serde_json::from_str(&shown)
        .unwrap_or_else(|_| panic!("{shown}{}", String::from_utf8_lossy(&output.stderr)));
    let differences = shown["exports"][0]["differences"].as_array().expect("a list").clone();
    assert_eq!(shown["valid"], differences.is_empty(), "{shown}");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let found = differences.iter().map(|found| (text(&found["kind"]), text(&found["file"])));
    (output.status.code(), found.collect())
}

fn valid() -> (Option<i32>, Vec<(String, String)>) {
    (Some(0), vec![])
}

fn invalid(kind: &str, file: &str) -> (Option<i32>, Vec<(String, String)>) {
    (Some(1), vec![(kind.to_owned(), file.to_owned())])
}

/// Downloads an export with the command; returns the directory.
async fn downloaded(fleet: &Fleet, api: &Api, prefix: &str, name: &str) -> PathBuf {
    let output = fleet.directory().join(name);
    let directory = output.to_str().expect("a path of ASCII");
    let shown = longshore(&[
        "export",
        "download",
        prefix,
        "--output",
        directory,
        "--url",
        fleet.base(),
        "--key",
        api.key(),
    ])
    .await;
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    output
}

/// The workspace's public keys, in a file.
async fn allowed_signers(fleet: &Fleet) -> PathBuf {
    let address = format!("{}/.well-known/longshore/acme/allowed_signers", fleet.base());
    let response = reqwest::get(address).await.expect("a response");
    assert_eq!(response.status(), 200);
    let keys = response.bytes().await.expect("a body");
    fleet.write_file("allowed_signers", &keys)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ASCII")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downloaded_export_proves_itself_to_any_program() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let accepted = exported(&api).await;
    let prefix = &accepted.prefix;

    // From its address, with keys from there, without a key of the API.
    assert_eq!(verified(&[accepted.address(), "--records"]).await, valid());
    let manifest_url = accepted.address().replace("/download?", "/manifest.json?");
    assert_eq!(verified(&[&manifest_url]).await, valid());
    // An address that the gateway refuses proves nothing about the export.
    let wrong_signature = accepted.address().replace("signature=", "signature=x");
    let wrong_prefix = accepted.address().replace(prefix.as_str(), &format!("{prefix}0"));
    for address in [wrong_signature, wrong_prefix] {
        let output = longshore(&["export", "verify", &address, "--json"]).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{address}: {error}");
        assert!(output.stdout.is_empty() && error.contains("404"), "{address}: {error}");
        fleet.assert_no_secret_in("an error", &error);
    }

    let directory = downloaded(&fleet, &api, prefix, "downloaded").await;
    let mut names: Vec<String> = fs::read_dir(&directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("ASCII"))
        .collect();
    names.sort();
    let expected = [".SHA256SUMS", ".manifest.json", ".manifest.json.sig", ".zip"];
    assert_eq!(names, expected.map(|suffix| format!("{prefix}{suffix}")));

    let signers = allowed_signers(&fleet).await;
    let directory_text = text(&directory);
    let keys = ["--allowed-signers", text(&signers)];
    assert_eq!(verified(&[directory_text, keys[0], keys[1], "--records"]).await, valid());
    let manifest = directory.join(format!("{prefix}.manifest.json"));
    assert_eq!(verified(&[text(&manifest), keys[0], keys[1]]).await, valid());
    assert_eq!(verified(&[directory_text, "--unsigned"]).await, valid());

    let sums = Command::new("sha256sum")
        .args(["-c", &format!("{prefix}.SHA256SUMS")])
        .current_dir(&directory)
        .output()
        .expect("sha256sum runs");
    assert!(sums.status.success(), "{}", String::from_utf8_lossy(&sums.stdout));
    let signature = directory.join(format!("{prefix}.manifest.json.sig"));
    let ssh_keygen = Command::new("ssh-keygen")
        .args(["-Y", "verify", "-f", text(&signers), "-I", "acme", "-n", "longshore-export"])
        .args(["-s", text(&signature)])
        .stdin(File::open(&manifest).expect("the manifest"))
        .output()
        .expect("ssh-keygen runs");
    assert!(ssh_keygen.status.success(), "{}", String::from_utf8_lossy(&ssh_keygen.stderr));

    // A repeated download verifies what is there, and changes nothing.
    let zip = directory.join(format!("{prefix}.zip"));
    let modified = || fs::metadata(&zip).expect("a file").modified().expect("a time");
    let before = modified();
    downloaded(&fleet, &api, prefix, "downloaded").await;
    assert_eq!(modified(), before);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_a_downloaded_export_is_found() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let (accepted, other) = (exported(&api).await, exported(&api).await);
    let prefix = &accepted.prefix;
    let directory = downloaded(&fleet, &api, prefix, "one").await;
    let others = downloaded(&fleet, &api, &other.prefix, "other").await;
    let signers = allowed_signers(&fleet).await;
    let arguments = [text(&directory), "--allowed-signers", text(&signers), "--records"];
    let name = |suffix: &str| format!("{prefix}{suffix}");
    let path = |suffix: &str| directory.join(name(suffix));
    let original = |suffix: &str| fs::read(path(suffix)).expect("a file");
    let (zip, manifest) = (original(".zip"), original(".manifest.json"));

    // Torn, edited, swapped, missing.
    fs::write(path(".zip"), &zip[..zip.len() - 1]).expect("a file");
    assert_eq!(verified(&arguments).await, invalid("size", &name(".zip")));
    let mut edited = zip.clone();
    let middle = edited.len() / 2;
    edited[middle] ^= 1;
    fs::write(path(".zip"), &edited).expect("a file");
    assert_eq!(verified(&arguments).await, invalid("hash", &name(".zip")));
    fs::copy(others.join(format!("{}.zip", other.prefix)), path(".zip")).expect("a file");
    let (status, differences) = verified(&arguments).await;
    assert_eq!((status, differences.len()), (Some(1), 1), "{differences:?}");
    fs::remove_file(path(".zip")).expect("a file");
    assert_eq!(verified(&arguments).await, invalid("missing", &name(".zip")));
    fs::write(path(".zip"), &zip).expect("a file");
    assert_eq!(verified(&arguments).await, valid());

    // The manifest edited.
    let changed = String::from_utf8(manifest.clone()).expect("UTF-8").replace("acme", "acne");
    fs::write(path(".manifest.json"), changed).expect("a file");
    assert_eq!(verified(&arguments).await, invalid("signature", &name(".manifest.json.sig")));
    fs::write(path(".manifest.json"), &manifest).expect("a file");

    // Another key, and the signature of another export.
    let stranger = PrivateKey::from_seed(&[7; 32]).public_key().to_string();
    let found = verified(&[text(&directory), "--public-key", &stranger]).await;
    assert_eq!(found, invalid("signature", &name(".manifest.json.sig")));
    let foreign = others.join(format!("{}.manifest.json.sig", other.prefix));
    fs::copy(foreign, path(".manifest.json.sig")).expect("a file");
    assert_eq!(verified(&arguments).await, invalid("signature", &name(".manifest.json.sig")));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_in_own_storage_are_verified_where_they_are() {
    for storage in [TestStorage::s3().await, TestStorage::azure().await] {
        let (fleet, api) = started(WorkspaceFile::new("acme").with_storage(&storage)).await;
        let prefix = exported(&api).await.prefix;
        let signers = allowed_signers(&fleet).await;
        let keys = storage.list().await;
        let manifest = keys.iter().find(|key| key.ends_with(".manifest.json"));
        let manifest = manifest.unwrap_or_else(|| panic!("no manifest among {keys:?}"));
        let folder = manifest.strip_suffix(&format!("/{prefix}.manifest.json")).expect("a folder");
        let at = |path: &str| storage.objects_url().replacen("/built", &format!("/{path}"), 1);
        let (folder, manifest) = (at(folder), at(manifest));
        for target in [&folder, &manifest] {
            let arguments = [target, "--allowed-signers", text(&signers), "--records"];
            assert_eq!(verified(&arguments).await, valid());
        }

        // A file more, a file less, and two files in each other's place.
        let unused = SecretKey::parse(&SecretKey::generate(), None).expect("a key");
        let objects = Objects::open(&folder, &unused).await.expect("a storage");
        let put = async |key: &str, body: Vec<u8>| {
            objects.put(key, body.into(), PutOptions::default()).await.expect("it is written");
        };
        let full = |key: &str| keys.iter().find(|full| full.ends_with(key)).expect("a key");
        let files: Vec<String> = objects
            .list(&format!("{prefix}/"))
            .await
            .expect("a list")
            .into_iter()
            .map(|entry| entry.key)
            .collect();
        assert_eq!(files.len(), USERS.div_ceil(PER_FILE));
        let (first, second) = (&files[0], &files[1]);
        let contents = [storage.get(full(first)).await, storage.get(full(second)).await];
        let arguments = [folder.as_str(), "--allowed-signers", text(&signers)];

        let added = format!("{prefix}/doubled.zip");
        put(&added, contents[0].clone()).await;
        assert_eq!(verified(&arguments).await, invalid("added", &added));
        objects.delete(&added).await.expect("it is deleted");
        objects.delete(first).await.expect("it is deleted");
        assert_eq!(verified(&arguments).await, invalid("missing", first));
        put(first, contents[1].clone()).await;
        put(second, contents[0].clone()).await;
        let (status, differences) = verified(&arguments).await;
        let differing: Vec<&String> = differences.iter().map(|(_, file)| file).collect();
        assert_eq!(status, Some(1));
        assert!(differing.contains(&first) && differing.contains(&second), "{differences:?}");
        put(first, contents[0].clone()).await;
        put(second, contents[1].clone()).await;
        assert_eq!(verified(&arguments).await, valid());
        fleet.close().await;
    }
}

/// Without the manifest, nothing is signed.
#[tokio::test(flavor = "multi_thread")]
async fn keys_require_a_manifest() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let accepted = exported(&api).await;
    let prefix = &accepted.prefix;
    let signers = allowed_signers(&fleet).await;
    let stranger = PrivateKey::from_seed(&[7; 32]).public_key().to_string();
    let keys = [["--allowed-signers", text(&signers)], ["--public-key", stranger.as_str()]];
    let download = async |name: &str, keys: &[&str]| {
        let output = fleet.directory().join(name);
        let arguments = ["export", "download", prefix, "--output", text(&output)];
        let access = ["--url", fleet.base(), "--key", api.key()];
        let shown = longshore(&[&arguments[..], &access, keys].concat()).await;
        (shown.status.code(), output.join(format!("{prefix}.zip")).exists())
    };

    // Deleted after the download: the status names a manifest.
    let directory = downloaded(&fleet, &api, prefix, "deleted").await;
    let manifest = directory.join(format!("{prefix}.manifest.json"));
    let bytes = fs::read(&manifest).expect("a file");
    fs::remove_file(&manifest).expect("a file");
    assert_eq!(download("deleted", &keys[0]).await, (Some(1), true));
    assert_eq!(download("deleted", &[]).await, (Some(1), true));
    // `verify` reports it, too.
    let zip = directory.join(format!("{prefix}.zip"));
    let found = verified(&[text(&zip), "--allowed-signers", text(&signers)]).await;
    assert_eq!(found, invalid("missing", &format!("{prefix}.manifest.json")));
    fs::write(&manifest, bytes).expect("a file");
    assert_eq!(download("deleted", &keys[0]).await, (Some(0), true));
    // The signature alone.
    fs::remove_file(directory.join(format!("{prefix}.manifest.json.sig"))).expect("a file");
    assert_eq!(download("deleted", &keys[0]).await, (Some(1), true));

    // As a worker of 0.2.0 completes an export: only keys require a manifest.
    let without = "UPDATE export_jobs SET manifest_sha256 = NULL";
    assert_eq!(stores::execute(&fleet.database_url(), without).await, 1);
    for (index, keys) in keys.iter().enumerate() {
        assert_eq!(download(&format!("keys-{index}"), keys).await, (Some(1), false));
    }
    assert_eq!(download("no-keys", &[]).await, (Some(0), true));
    // The archive was kept, and continues without keys.
    assert_eq!(download("keys-0", &[]).await, (Some(0), true));
    assert_eq!(download("keys-0", &keys[0]).await, (Some(1), true));
    fleet.close().await;
}

/// The first half of a download is there, with the ETag of a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_continues_only_the_same_file() {
    let (fleet, api) = started(WorkspaceFile::new("acme")).await;
    let accepted = exported(&api).await;
    let prefix = &accepted.prefix;
    let bytes = api.download(accepted.address()).await;
    let response = reqwest::get(accepted.address()).await.expect("a response");
    let etag = response.headers()[ETAG].to_str().expect("a text").to_owned();
    let half = bytes.len() / 2;
    let wrong = vec![b'x'; half];
    for (name, part, etag, succeeds) in [
        ("continued", &bytes[..half], etag.as_str(), true),
        ("complete", &bytes[..], etag.as_str(), true),
        ("of-another-file", &wrong[..], "\"another\"", true),
        ("without-etag", &wrong[..], "", true),
        // Proves that the others continued: a wrong beginning is not fetched again.
        ("wrong", &wrong[..], etag.as_str(), false),
    ] {
        let output = fleet.directory().join(name);
        let folder = output.join(format!(".{prefix}.part"));
        fs::create_dir_all(&folder).expect("a directory");
        fs::write(folder.join(format!("{prefix}.zip")), part).expect("a file");
        fs::write(folder.join("etag"), etag).expect("a file");
        // Of an earlier release.
        fs::write(folder.join(format!("{prefix}.etag")), etag).expect("a file");
        let arguments = ["export", "download", prefix, "--output", text(&output)];
        let access = ["--url", fleet.base(), "--key", api.key()];
        let shown = longshore(&[&arguments[..], &access].concat()).await;
        let error = String::from_utf8_lossy(&shown.stderr);
        assert_eq!(shown.status.success(), succeeds, "{name}: {error}");
        assert!(!folder.exists(), "{name}");
        // After a failure it begins again.
        downloaded(&fleet, &api, prefix, name).await;
        let file = fs::read(output.join(format!("{prefix}.zip"))).expect("a file");
        assert_eq!(file, bytes, "{name}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_a_record_of_the_served_schema() {
    let workspace = WorkspaceFile::new("acme").with("aliases", json!({ "service_id": "their_id" }));
    let (fleet, api) = started(workspace).await;
    let address = format!("{}/schemas/export-record.json", fleet.base());
    let schema: Value =
        reqwest::get(address).await.expect("a response").json().await.expect("JSON");
    assert_eq!(schema["version"], 1);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V2020_12);
    compiler.add_resource("http://localhost/record.json", schema).expect("a schema");
    let schema = compiler.compile("http://localhost/record.json", &mut schemas).expect("a schema");

    let aliased = api.export(&json!({ "fields_to_export": ["their_id", "email"] })).await;
    api.done(&aliased.prefix).await;
    let twice = api.export(&json!({ "fields_to_export": ["service_id", "their_id"] })).await;
    api.done(&twice.prefix).await;
    let both_names = twice.prefix.clone();
    for accepted in [exported(&api).await, aliased, twice] {
        assert_eq!(verified(&[accepted.address(), "--records"]).await, valid());
        let mut lines = 0;
        for file in checker::downloaded(&api.download(accepted.address()).await) {
            for line in file.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let record: Value = serde_json::from_slice(line).expect("JSON");
                let checked = schemas.validate(&record, schema);
                assert!(checked.is_ok(), "{}: {record}", checked.unwrap_err());
                if accepted.prefix == both_names {
                    let id = &record["service_id"];
                    assert!(id.is_string() && record["their_id"] == *id, "{record}");
                }
                lines += 1;
            }
        }
        assert_eq!(lines, USERS);
    }
    fleet.close().await;
}

/// What a person types may have the secrets of a storage: no error repeats them.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_commands_have_no_secrets() {
    let storage = TestStorage::s3().await;
    let secret = "c2VjcmV0LW9mLWEtdGVzdA";
    let export = "9d2261c4-4cf3-44b0-909b-455baf540288-1795249898";
    let unreachable = "endpoint=http://127.0.0.1:1&region=x&access_key_id=a";
    let targets = [
        // Of a storage without exports.
        storage.objects_url(),
        format!("s3://bucket/x?{unreachable}&secret_access_key={secret}"),
        format!("s3://bucket/x?colour=red&secret_access_key={secret}"),
        format!("s3://bucket:{secret}@host/x"),
        format!("s3://[?secret_access_key={secret}"),
        format!("S3://bucket?secret_access_key={secret}"),
        format!(" s3://bucket?secret_access_key={secret}"),
        format!("gs://bucket?secret_access_key={secret}"),
        format!("azure://container?account=a&access_key={secret}!"),
        format!("http://127.0.0.1:1/users/export/{export}/download?signature={secret}"),
        format!("https://u:{secret}@127.0.0.1:1/users/export/{export}/download?signature=x"),
        format!("http://127.0.0.1:1/x?signature={secret}"),
    ];
    let secrets = [Some(secret.to_owned()), storage.secret()];
    let address = format!("https://a.example/users/export/{export}/download?signature={secret}");
    let others = [
        "export status",
        "export download",
        "export cancel",
        "export repeat",
        "export list --after",
        "dispatches show",
        "",
    ];
    let verify = targets.into_iter().map(|target| ("export verify --unsigned", target));
    for (command, target) in verify.chain(others.map(|command| (command, address.clone()))) {
        let words: Vec<&str> = command.split_whitespace().chain([target.as_str()]).collect();
        let output = longshore(&words).await;
        assert!(!output.status.success(), "{target}");
        let printed =
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!printed.is_empty(), "{target}");
        for secret in secrets.iter().flatten() {
            assert!(!printed.contains(secret.as_str()), "{target}: {printed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_of_verify_are_usage_errors() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let empty = text(directory.path());
    for (arguments, status) in [
        (&["/nowhere/at/all", "--unsigned"][..], 2),
        (&["https://example.com/", "--unsigned"], 2),
        (&["s3://bucket/folder?colour=red", "--unsigned"], 2),
        (&[empty], 2),
        (&[empty, "--public-key", "ssh-rsa AAAA"], 2),
        (&[empty, "--allowed-signers", "/nowhere/at/all"], 2),
        (&[empty, "--unsigned", "--public-key", "ssh-ed25519 AAAA"], 2),
        // Nothing in it is a complete export.
        (&[empty, "--unsigned"], 1),
    ] {
        let output = longshore(&[&["export", "verify"], arguments].concat()).await;
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(!error.is_empty() && !error.contains("panicked"), "{arguments:?}: {error}");
    }
}
