//! The keys that sign exports: made, rotated, served, and checked by `ssh-keygen`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use axum::body::Body;
use axum::http::{HeaderMap, Request, header};
use jiff::Timestamp;
use kit::clock::from_ms;
use kit::secrets::SecretKey;
use kit::sshsig::{self, AllowedSigners, PrivateKey, PublicKey, SignerError, SshSigError};
use longshore::app::App;
use longshore::workspace_file::apply::apply;
use longshore::workspace_file::change::Options;
use longshore::workspace_file::file;
use longshore::workspaces::signing::{self, MIN_NOTICE, NAMESPACE, SigningKeyInfo};
use longshore::workspaces::{self, storage};
use longshore::{gateway, routes, setup};
use serde_json::{Value, json};
use store::Tx;
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{eventually, process, servers};

on_both_stores!(World =>
    applying_twice_creates_one_key,
    a_workspace_of_an_earlier_release_gets_its_key,
    processes_that_need_the_first_key_at_once_create_one,
    rotations_at_once_announce_one_key,
    an_announced_key_is_brought_forward_only,
    a_retired_key_verifies_what_it_signed,
    a_new_key_verifies_an_export_that_waited_for_its_storage,
    the_secret_key_can_be_rotated,
    a_changed_private_key_signs_nothing,
    the_keys_are_served_to_everyone,
    the_commands_list_and_rotate,
);

const DAY: i64 = 86_400_000;
const MESSAGE: &[u8] = b"{\"version\": 1}\n";

/// An installation of its own.
struct World {
    app: App,
    test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        servers::install_tls();
        let app = App::open(test.config.clone()).await.expect("all opens");
        setup::run(&app).await.expect("it becomes an installation");
        Self { app, test }
    }

    /// What `apply` did.
    async fn apply(&self, text: &str) -> Vec<String> {
        let declared = file::read(text, &|_| None).expect("a workspace file");
        let applied = apply(&self.app, &declared.workspaces[0], Options::default()).await;
        applied.expect("it applies").changes.iter().map(ToString::to_string).collect()
    }

    /// The id of the workspace.
    async fn workspace(&self) -> i32 {
        let mut tx = self.app.store.snapshot().await.unwrap();
        workspaces::only_or_named(&mut tx, None).await.expect("one workspace").id
    }

    async fn keys(&self, workspace: i32) -> Vec<SigningKeyInfo> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        signing::list(&mut tx, workspace).await.expect("the keys are listed")
    }

    /// Signs [`MESSAGE`] as a worker does at that time; returns the key as well.
    async fn sign(&self, workspace: i32, now: i64) -> (PublicKey, String) {
        sign(&self.app, workspace, now).await
    }

    /// As an operator does at that time, with the shortest notice.
    async fn rotate(&self, workspace: i32, now: i64) {
        self.rotate_from(workspace, now, now).await;
    }

    async fn rotate_from(&self, workspace: i32, now: i64, signs_from: i64) -> PublicKey {
        let mut tx = self.app.store.write().await.unwrap();
        signing::lock(&mut tx, workspace).await.unwrap();
        let rotated = signing::rotate(&mut tx, &self.app.secrets, workspace, now, signs_from).await;
        tx.commit().await.unwrap();
        rotated.expect("it rotates")
    }

    /// Runs a statement behind the program's back.
    async fn execute(&self, sql: &'static str) {
        let mut tx = self.app.store.write().await.unwrap();
        match &mut tx {
            Tx::Postgres(tx) => drop(sqlx::query(sql).execute(&mut **tx).await.unwrap()),
            Tx::Sqlite(tx) => drop(sqlx::query(sql).execute(&mut **tx).await.unwrap()),
        }
        tx.commit().await.unwrap();
    }

    /// The response to a request for the keys, without an API key.
    async fn served(&self, workspace: &str) -> (u16, HeaderMap, String) {
        let router = gateway::router(self.app.gateway.clone(), routes(Some(&self.app)));
        let path = format!("/.well-known/longshore/{workspace}/allowed_signers");
        let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        (head.status.as_u16(), head.headers, text)
    }

    /// Runs a command of the program itself; returns what it printed.
    async fn run(&self, arguments: &[&str]) -> (String, String) {
        let mut command = process::command(&self.test.config.data, &self.test.environment());
        command.args(arguments);
        let output = process::output(command).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        (out, err)
    }
}

async fn sign(app: &App, workspace: i32, now: i64) -> (PublicKey, String) {
    let mut tx = app.store.write().await.unwrap();
    let key = signing::active(&mut tx, &app.secrets, workspace, now).await.expect("a key");
    tx.commit().await.unwrap();
    (key.public_key(), key.sign(MESSAGE))
}

/// A directory in which `ssh-keygen` runs.
struct SshKeygen(TempDir);

impl SshKeygen {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("the file is written");
        path
    }

    fn run(&self, arguments: &[&str], input: Stdio) -> Output {
        let mut command = Command::new("ssh-keygen");
        // Times without Z would depend on it.
        command.args(arguments).current_dir(self.0.path()).env("TZ", "America/New_York");
        command.stdin(input).output().unwrap_or_else(|error| {
            panic!("ssh-keygen does not run ({error}): apt-get install openssh-client")
        })
    }

    /// Whether it accepts a signature of `message` by `acme`, at a time.
    fn accepts(&self, keys: &str, signature: &str, message: &[u8], time: i64) -> bool {
        self.accepts_for("acme", NAMESPACE, keys, signature, message, time)
    }

    fn accepts_for(
        &self,
        principal: &str,
        namespace: &str,
        keys: &str,
        signature: &str,
        message: &[u8],
        time: i64,
    ) -> bool {
        self.write("allowed_signers", keys.as_bytes());
        self.write("message.sig", signature.as_bytes());
        let message = File::open(self.write("message", message)).expect("the file opens");
        let time = from_ms(time).strftime("-Overify-time=%Y%m%d%H%M%SZ").to_string();
        let verify = ["-Y", "verify", "-f", "allowed_signers", "-I", principal, "-n", namespace];
        let arguments = [&verify[..], &["-s", "message.sig", &time]].concat();
        let output = self.run(&arguments, message.into());
        println!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }
}

fn now() -> i64 {
    Timestamp::now().as_millisecond()
}

#[test]
fn ssh_keygen_accepts_our_signatures_and_we_accept_its() {
    let ssh_keygen = SshKeygen::new();
    let key = PrivateKey::from_seed(&[7; 32]);
    let keys = format!("acme {}\n", key.public_key());
    for message in [MESSAGE, b"", &[0_u8, 255, 10].repeat(100_000)] {
        let signature = key.sign(NAMESPACE, message);
        assert!(ssh_keygen.accepts(&keys, &signature, message, now()));
        let changed = [message, b"x"].concat();
        assert!(!ssh_keygen.accepts(&keys, &signature, &changed, now()));
        for (principal, namespace) in [("other", NAMESPACE), ("acme", "file")] {
            let is_accepted =
                ssh_keygen.accepts_for(principal, namespace, &keys, &signature, message, now());
            assert!(!is_accepted, "{principal} {namespace}");
        }
    }

    let made = ssh_keygen
        .run(&["-q", "-t", "ed25519", "-N", "", "-C", "a comment", "-f", "key"], Stdio::null());
    assert!(made.status.success(), "{made:?}");
    ssh_keygen.write("file", MESSAGE);
    let signed = ssh_keygen.run(&["-Y", "sign", "-f", "key", "-n", "file", "file"], Stdio::null());
    assert!(signed.status.success(), "{signed:?}");
    let read = |name| std::fs::read_to_string(ssh_keygen.0.path().join(name)).expect("a file");
    let public_key: PublicKey = read("key.pub").parse().expect("a public key");
    assert_eq!(sshsig::verify(&read("file.sig"), "file", MESSAGE), Ok(public_key));
    assert_eq!(sshsig::verify(&read("file.sig"), "file", b"x"), Err(SshSigError::Mismatch));
    let shown = ssh_keygen.run(&["-l", "-f", "key.pub"], Stdio::null());
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&public_key.fingerprint()));
}

async fn applying_twice_creates_one_key(world: World) {
    assert_eq!(world.apply("workspace: acme\n").await[0], "+ workspace acme");
    let workspace = world.workspace().await;
    let keys = world.keys(workspace).await;
    assert_eq!(keys.len(), 1);
    assert!(world.apply("workspace: acme\n").await.is_empty());
    assert_eq!(world.apply("workspace: acme\ncurrency: EUR\n").await.len(), 1);
    let (key, _) = world.sign(workspace, now()).await;
    let again = world.keys(workspace).await;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].public_key, again[0].id), (key, keys[0].id));
    world.apply("workspace: other\n").await;
    assert_eq!(world.keys(workspace).await.len(), 1, "a key belongs to one workspace");
}

async fn a_workspace_of_an_earlier_release_gets_its_key(world: World) {
    world.apply("workspace: acme\n").await;
    let workspace = world.workspace().await;
    // By `apply`, even if its file has not changed.
    world.execute("DELETE FROM signing_keys").await;
    let (status, _, text) = world.served("acme").await;
    assert_eq!((status, AllowedSigners::parse(&text)), (200, Ok(AllowedSigners::default())));
    assert_eq!(world.apply("workspace: acme\n").await, ["+ signing_key"]);
    assert!(world.apply("workspace: acme\n").await.is_empty());
    assert_eq!(world.keys(workspace).await.len(), 1);
    // Or by the first export.
    world.execute("DELETE FROM signing_keys").await;
    let (key, _) = world.sign(workspace, now()).await;
    assert_eq!(world.keys(workspace).await[0].public_key, key);
    assert!(world.apply("workspace: acme\n").await.is_empty());
}

async fn processes_that_need_the_first_key_at_once_create_one(world: World) {
    let workspace = world.test.workspace("acme").await;
    let tasks = (0..8).map(|_| {
        let app = world.app.clone();
        tokio::spawn(async move { sign(&app, workspace, now()).await.0 })
    });
    let mut used = BTreeSet::new();
    for task in tasks.collect::<Vec<_>>() {
        used.insert(*task.await.expect("no panic").as_bytes());
    }
    let keys = world.keys(workspace).await;
    assert_eq!((used.len(), keys.len()), (1, 1));
    assert!(used.contains(keys[0].public_key.as_bytes()));
}

async fn rotations_at_once_announce_one_key(world: World) {
    let workspace = world.test.workspace("acme").await;
    let now = now();
    world.sign(workspace, now).await;
    tokio::join!(
        world.rotate(workspace, now),
        world.rotate(workspace, now),
        world.rotate(workspace, now),
        world.sign(workspace, now),
    );
    let keys = world.keys(workspace).await;
    let states = |at| keys.iter().map(|key| key.state(at)).collect::<Vec<_>>();
    assert_eq!(states(now + MIN_NOTICE - 1), ["next", "active"]);
    assert_eq!(states(now + MIN_NOTICE), ["active", "retired"]);
    assert_eq!(world.sign(workspace, now + MIN_NOTICE - 1).await.0, keys[1].public_key);
    assert_eq!(world.sign(workspace, now + MIN_NOTICE).await.0, keys[0].public_key);
}

async fn an_announced_key_is_brought_forward_only(world: World) {
    let workspace = world.test.workspace("acme").await;
    let now = now();
    let (first, _) = world.sign(workspace, now - DAY).await;
    let next = world.rotate_from(workspace, now, now + 7 * DAY).await;
    for (signs_from, expected) in
        [(30 * DAY, 7 * DAY), (3 * DAY, 3 * DAY), (5 * DAY, 3 * DAY), (0, MIN_NOTICE)]
    {
        assert_eq!(world.rotate_from(workspace, now, now + signs_from).await, next);
        let keys = world.keys(workspace).await;
        let found: Vec<_> = keys.iter().map(|key| (key.public_key, key.signs_from)).collect();
        assert_eq!(found, [(next, now + expected), (first, now - DAY)]);
        assert_eq!(keys[1].retired_at, Some(now + expected));
        // Whoever pinned the line of the first announcement can still use it.
        assert_eq!(
            keys[0].allowed_signer("acme", &world.app.config).valid_after,
            Some(keys[0].created_at - 7 * DAY)
        );
        assert_eq!(world.sign(workspace, now + expected - 1).await.0, first);
        assert_eq!(world.sign(workspace, now + expected).await.0, next);
    }
    // The next rotation announces another key.
    let later = now + MIN_NOTICE;
    let third = world.rotate_from(workspace, later, later + DAY).await;
    assert_eq!(world.sign(workspace, later).await.0, next);
    assert_eq!(world.sign(workspace, later + DAY).await.0, third);
}

/// The export ended long before the key was created, which signs it.
async fn a_new_key_verifies_an_export_that_waited_for_its_storage(world: World) {
    let ssh_keygen = SshKeygen::new();
    let workspace = world.test.workspace("acme").await;
    let (_, signature) = world.sign(workspace, now()).await;
    let key = world.keys(workspace).await.remove(0);
    let mut config = (*world.app.config).clone();
    for (hours, longest_wait) in [(24, 168), (400, 400)] {
        config.exports.retry_hours = hours;
        let line = format!("{}\n", key.allowed_signer("acme", &config));
        for (wait, is_valid) in [(longest_wait - 1, true), (longest_wait + 1, false)] {
            let completed_at = key.created_at - wait * 3_600_000;
            let is_accepted = ssh_keygen.accepts(&line, &signature, MESSAGE, completed_at);
            assert_eq!(is_accepted, is_valid, "{hours} {wait}");
        }
    }
}

async fn a_retired_key_verifies_what_it_signed(world: World) {
    let ssh_keygen = SshKeygen::new();
    let workspace = world.test.workspace("acme").await;
    let (created, retired, now) = (now() - 20 * DAY, now() - DAY, now());
    let announced = retired - MIN_NOTICE;
    let (old, old_signature) = world.sign(workspace, created).await;
    world.rotate(workspace, announced).await;
    let (new, new_signature) = world.sign(workspace, now).await;
    assert_ne!(old, new);
    let (_, _, file) = world.served("acme").await;
    assert_eq!(file.lines().count(), 2, "{file}");
    let signers = AllowedSigners::parse(&file).expect("our own file");
    assert_eq!(signers.0.iter().map(|signer| signer.key).collect::<Vec<_>>(), [new, old]);

    // `ssh-keygen` and Longshore agree, at each end to the second.
    let (before, after) = (7 * DAY, 10 * 60 * 1_000);
    for (key, signature, time, is_valid) in [
        (old, &old_signature, created, true),
        (old, &old_signature, created - before, true),
        (old, &old_signature, created - before - 1_000, false),
        (old, &old_signature, retired, true),
        (old, &old_signature, retired + after, true),
        (old, &old_signature, retired + after + 1_000, false),
        (old, &old_signature, now, false),
        (new, &new_signature, now, true),
        (new, &new_signature, announced - before, true),
        (new, &new_signature, announced - before - 1_000, false),
        (new, &new_signature, created, false),
    ] {
        assert_eq!(ssh_keygen.accepts(&file, signature, MESSAGE, time), is_valid, "{time}");
        assert!(!ssh_keygen.accepts(&file, signature, b"x", time));
        assert_eq!(sshsig::verify(signature, NAMESPACE, MESSAGE), Ok(key));
        let found = signers.find(&key, Some("acme"), NAMESPACE, time);
        assert_eq!(found.is_ok(), is_valid, "{time}: {found:?}");
    }
    let late = signers.find(&old, None, NAMESPACE, now);
    assert!(matches!(late, Err(SignerError::TooLate { .. })), "{late:?}");
}

async fn the_secret_key_can_be_rotated(world: World) {
    world.apply("workspace: acme\n").await;
    let workspace = world.workspace().await;
    world.sign(workspace, now()).await;
    world.rotate(workspace, now()).await;
    let before = world.sign(workspace, now()).await;
    let with_keys = async |new: &str, with_old: bool| {
        let mut config = world.test.config.clone();
        let old = config.secret_key.replace(new.to_owned().into());
        config.secret_key_old = old.filter(|_| with_old);
        App::open(config).await.expect("all opens")
    };
    let new = SecretKey::generate();
    let both = with_keys(&new, true).await;
    assert_eq!(sign(&both, workspace, now()).await, before);
    assert!(setup::run(&both).await.expect("the secrets are encrypted again").rotated);
    let only_new = with_keys(&new, false).await;
    assert_eq!(sign(&only_new, workspace, now()).await, before);
    assert_eq!(world.keys(workspace).await.len(), 2);
    // All keys are encrypted with the new secret key, the retired ones, too.
    let mut tx = world.app.store.write().await.unwrap();
    let former = signing::active(&mut tx, &world.app.secrets, workspace, now()).await;
    assert!(former.is_err(), "the former secret key still opens a private key");
    drop(tx);
    let mut tx = only_new.store.write().await.unwrap();
    storage::reseal(&mut tx, &only_new.secrets).await.expect("every secret opens");
}

/// Such as a row of another database.
async fn a_changed_private_key_signs_nothing(world: World) {
    let workspace = world.test.workspace("acme").await;
    world.sign(workspace, now()).await;
    world.execute("UPDATE signing_keys SET public_key = private_key").await;
    let mut tx = world.app.store.write().await.unwrap();
    assert!(signing::active(&mut tx, &world.app.secrets, workspace, now()).await.is_err());
    assert!(signing::list(&mut tx, workspace).await.is_err());
}

async fn the_keys_are_served_to_everyone(world: World) {
    world.apply("workspace: acme\nip_allowlist: [198.51.100.0/24]\n").await;
    let (status, headers, text) = world.served("acme").await;
    assert_eq!(status, 200, "{text}");
    assert_eq!(headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
    let key = world.keys(world.workspace().await).await.remove(0);
    assert_eq!(text, format!("{}\n", key.allowed_signer("acme", &world.app.config)));
    for unknown in ["other", "ACME", "acme%00", "%ff", "a".repeat(5_000).as_str()] {
        let (status, _, text) = world.served(unknown).await;
        let body: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((status, &body["code"]), (404, &Value::from("not-found")), "{unknown}");
    }
}

async fn the_commands_list_and_rotate(world: World) {
    let (out, error) = world.run(&["signing-key", "list"]).await;
    assert_eq!((out.as_str(), error.as_str()), ("", "No signing keys.\n"));
    world.apply("workspace: acme\n").await;
    let workspace = world.workspace().await;
    let (_, _, before) = world.served("acme").await;
    let (out, _) = world.run(&["signing-key", "list"]).await;
    assert!(out.contains(before.trim_end()), "{out}");

    let (line, _) = world.run(&["signing-key", "rotate", "--workspace", "acme"]).await;
    let keys = world.keys(workspace).await;
    assert_eq!(line, format!("{}\n", keys[0].allowed_signer("acme", &world.app.config)));
    let notice = keys[0].signs_from - keys[0].created_at;
    assert_eq!(notice, 7 * DAY);
    eventually("the new key is served", || async {
        let (_, _, text) = world.served("acme").await;
        text.starts_with(&line) && text.lines().count() == 2
    })
    .await;
    for wrong in [&["--in", "9s"][..], &["--in", "366d"], &["--in", "7d", "--now"]] {
        let arguments = [&["signing-key", "rotate"], wrong].concat();
        let mut command = process::command(&world.test.config.data, &world.test.environment());
        command.args(&arguments);
        assert_eq!(process::output(command).await.status.code(), Some(2), "{arguments:?}");
    }
    // The same key, earlier.
    let (out, _) = world.run(&["signing-key", "rotate", "--now", "--json"]).await;
    let created: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&created["state"], &created["id"]), (&"next".into(), &json!(keys[0].id)));
    let (out, _) = world.run(&["signing-key", "list", "--workspace", "acme", "--json"]).await;
    let listed: Vec<Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((listed.len(), &listed[0]), (2, &created));
    for (listed, key) in listed.iter().zip(world.keys(workspace).await) {
        assert_eq!(listed["public_key"], key.public_key.to_string());
        assert_eq!(listed["fingerprint"], key.public_key.fingerprint());
        assert_eq!(
            listed["allowed_signer"],
            key.allowed_signer("acme", &world.app.config).to_string()
        );
        assert_eq!(listed["retired_at"].is_null(), key.retired_at.is_none());
        assert!(listed.get("private_key").is_none());
    }
}
