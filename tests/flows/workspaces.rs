//! Workspaces: applying their file, keys, control groups, secrets at rest, the secret key;
//! on SQLite and on PostgreSQL.

use std::collections::BTreeSet;
use std::process::Output;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kit::secrets::SecretKey;
use longshore::app::App;
use longshore::setup;
use longshore::setup::fixed;
use longshore::workspace_file::apply::{Applied, apply};
use longshore::workspace_file::change::Options;
use longshore::workspace_file::company::apply_company;
use longshore::workspace_file::error::ApplyError;
use longshore::workspace_file::file;
use longshore::workspaces::keys::{self, KeyError, NewKey};
use longshore::workspaces::settings::{self, Secret};
use longshore::workspaces::{self, Workspace, groups};
use secrecy::SecretString;
use serde_json::json;
use store::{Store, Tx};
use uuid::Uuid;

use crate::support::storage::TestStorage;
use crate::support::stores::{TestStore, on_both_stores, on_pool};
use crate::support::{eventually, process, servers};

mod generated;

use generated::files_are_applied_to_any_state;

on_both_stores!(World =>
    files_are_applied_to_any_state,
    applying_twice_changes_nothing_the_second_time,
    a_dry_run_writes_nothing,
    removed_declarations_end_only_with_prune,
    another_secret_is_a_rotation,
    a_file_with_a_mistake_changes_nothing,
    two_that_apply_at_once_make_one_workspace,
    storage_is_tried_kept_and_changed_under_a_new_id,
    secrets_are_not_readable_where_they_are_stored,
    the_callback_secret_is_created_once,
    signing_secrets_are_created_rotated_and_never_shared,
    webhooks_are_signed_before_the_first_apply_of_an_upgrade,
    the_control_group_is_made_once_and_renewed,
    keys_are_made_found_and_revoked,
    revoked_secrets_are_refused,
    revoked_secrets_are_revoked_again_after_a_restore,
    a_wrong_secret_key_is_rejected_and_rotation_reseals,
    another_number_of_partitions_is_refused,
    the_commands_report_their_changes,
);

const SECRET: &str = "integrator-secret-number-one";
const OTHER_SECRET: &str = "integrator-secret-number-two";
const APP: &str = "7b1f8a34-8f4e-4d0e-9a55-0c5a2f3f6d01";

/// An installation of its own.
struct World {
    app: App,
    test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        servers::install_tls();
        let app = App::open(test.config.clone()).await.unwrap();
        assert!(!setup::run(&app).await.unwrap().rotated);
        Self { app, test }
    }

    /// As a process with another secret key, which may know the previous one.
    async fn with_secret_key(&self, new: &str, old: Option<&SecretString>) -> App {
        let mut config = self.test.config.clone();
        config.secret_key = Some(new.to_owned().into());
        config.secret_key_old = old.cloned();
        App::open(config).await.unwrap()
    }

    async fn apply(&self, text: &str) -> Result<Applied, String> {
        self.apply_with(text, Options::default()).await
    }

    async fn apply_with(&self, text: &str, options: Options) -> Result<Applied, String> {
        let declared = file::read(text, &environment).map_err(|error| error.to_string())?;
        apply(&self.app, &declared.workspaces[0], options).await.map_err(|error| error.to_string())
    }

    async fn workspace(&self) -> Workspace {
        let mut tx = self.app.store.snapshot().await.unwrap();
        workspaces::only_or_named(&mut tx, None).await.unwrap()
    }

    async fn knows(&self, secret: &str) -> bool {
        keys::find(&self.app, secret).await.unwrap().is_some()
    }

    async fn rejects_soon(&self, secret: &str) {
        eventually("a revoked key is rejected", || async { !self.knows(secret).await }).await;
    }

    /// Every row of every table of this domain, as text and bytes.
    async fn everything_stored(&self) -> Vec<u8> {
        match &self.app.store {
            Store::Postgres { pool, .. } => {
                let mut all = Vec::new();
                for table in ["workspaces", "storages", "api_keys", "apps", "settings"] {
                    let sql = format!("SELECT * FROM {table}");
                    let mut connection = pool.acquire().await.unwrap();
                    let sql = format!("COPY ({sql}) TO STDOUT (FORMAT binary)");
                    let rows = connection.copy_out_raw(&sql).await.unwrap();
                    let rows: Vec<_> = futures::TryStreamExt::try_collect(rows).await.unwrap();
                    all.extend(rows.concat());
                }
                all
            }
            Store::Sqlite { .. } => {
                let mut all = Vec::new();
                for entry in std::fs::read_dir(&self.test.config.data).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        all.extend(std::fs::read(path).unwrap());
                    }
                }
                all
            }
        }
    }

    /// Runs the program itself on this installation.
    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = process::command(&self.test.config.data, &self.test.environment());
        command.args(arguments).env("ACME_KEY", SECRET);
        process::output(command).await
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "ACME_KEY" => Some(SECRET.into()),
        "ACME_OTHER_KEY" => Some(OTHER_SECRET.into()),
        _ => None,
    }
}

/// The `storage` of a workspace file that names a place; and its bucket.
fn storage(place: &TestStorage) -> (String, String) {
    let (kind, settings) = place.storage();
    let bucket = settings["bucket"].as_str().unwrap().to_owned();
    (format!("storage: {}\n", json!({ kind: settings })), bucket)
}

fn acme(rest: &str) -> String {
    format!(
        "workspace: acme\ncurrency: EUR\nexchange_rates: {{USD: 0.92}}\n\
         keys:\n  - {{name: integrator, secret: \"${{ACME_KEY}}\", permissions: [users.track]}}\n\
         apps:\n  - {{id: {APP}, name: Acme for iOS, platform: ios}}\n{rest}"
    )
}

fn lines(applied: &Applied) -> Vec<String> {
    applied.changes.iter().map(ToString::to_string).collect()
}

async fn applying_twice_changes_nothing_the_second_time(world: World) {
    let text = acme("control_group: {percent: 5}\n");
    let applied = world.apply(&text).await.unwrap();
    assert_eq!(
        lines(&applied),
        [
            "+ workspace acme".to_owned(),
            "+ key integrator (users.track)".into(),
            format!("+ app Acme for iOS ({APP})"),
            "+ control_group (5%)".into(),
            "+ callbacks.secret (generated: the file has none)".into(),
            "+ webhooks.secret (generated: the file has none)".into(),
        ]
    );
    let workspace = world.workspace().await;
    assert_eq!((workspace.currency.as_str(), workspace.exchange_rates["USD"]), ("EUR", 920_000));
    assert!(world.knows(SECRET).await);

    let before = world.everything_in_rows().await;
    let applied = world.apply(&text).await.unwrap();
    assert!(applied.changes.is_empty() && applied.callback_secret.is_none());
    assert_eq!(world.everything_in_rows().await, before);

    let changed = text.replace("USD: 0.92", "USD: 0.93") + "time_zone: Europe/Berlin\n";
    let applied = world.apply(&changed).await.unwrap();
    assert_eq!(
        lines(&applied),
        ["~ exchange_rates (USD 0.92 -> USD 0.93)", "~ time_zone (UTC -> Europe/Berlin)"]
    );
}

async fn a_dry_run_writes_nothing(world: World) {
    let dry = Options { dry_run: true, ..Options::default() };
    let applied = world.apply_with(&acme(""), dry).await.unwrap();
    assert!(applied.changes.len() > 3 && applied.callback_secret.is_none());
    let mut tx = world.app.store.snapshot().await.unwrap();
    assert!(workspaces::list(&mut tx).await.unwrap().is_empty());
    tx.commit().await.unwrap();

    world.apply(&acme("")).await.unwrap();
    let before = world.everything_in_rows().await;
    let gone = Options { dry_run: true, prune: true };
    let applied = world.apply_with("workspace: acme\n", gone).await.unwrap();
    assert!(lines(&applied).iter().any(|line| line.starts_with("- key integrator")));
    assert_eq!(world.everything_in_rows().await, before);
    assert!(world.knows(SECRET).await);
}

async fn removed_declarations_end_only_with_prune(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    let by_hand = world.create_key(&workspace, "by hand").await.unwrap();

    let bare = "workspace: acme\ncurrency: EUR\nexchange_rates: {USD: 0.92}\n";
    let applied = world.apply(bare).await.unwrap();
    assert!(applied.changes.is_empty(), "{:?}", lines(&applied));
    assert_eq!(applied.notes.len(), 2, "{:?}", applied.notes);
    assert!(world.knows(SECRET).await);

    let prune = Options { prune: true, ..Options::default() };
    let applied = world.apply_with(bare, prune).await.unwrap();
    assert_eq!(
        lines(&applied),
        ["- key integrator (revoked)".to_owned(), format!("- app Acme for iOS ({APP})")]
    );
    world.rejects_soon(SECRET).await;
    assert!(world.knows(&by_hand).await);
    assert!(world.apply_with(bare, prune).await.unwrap().changes.is_empty());
    // And back again, with another secret than the one that was revoked.
    world.apply(&acme("").replace("ACME_KEY", "ACME_OTHER_KEY")).await.unwrap();
    eventually("the key is known", || async { world.knows(OTHER_SECRET).await }).await;
}

async fn another_secret_is_a_rotation(world: World) {
    world.apply(&acme("")).await.unwrap();
    assert!(world.knows(SECRET).await);
    let rotated = acme("").replace("ACME_KEY", "ACME_OTHER_KEY");
    let applied = world.apply(&rotated).await.unwrap();
    assert_eq!(lines(&applied), ["~ key integrator (new secret; the previous one is revoked)"]);
    assert!(world.knows(OTHER_SECRET).await);
    world.rejects_soon(SECRET).await;

    let wider = rotated.replace("[users.track]", "[users.track, messages.send]");
    let applied = world.apply(&wider).await.unwrap();
    assert_eq!(lines(&applied), ["~ key integrator (users.track, messages.send; from everywhere)"]);
    assert!(world.apply(&wider).await.unwrap().changes.is_empty());
}

async fn a_file_with_a_mistake_changes_nothing(world: World) {
    let error = world.apply(&acme("campains: []\n")).await.err().unwrap();
    assert!(error.contains("line 8: ") && error.contains("campains"), "{error}");
    let error = world.apply(&acme("control_group: {percent: 0}\n")).await.err().unwrap();
    assert!(error.contains("line 8: control_group.percent"), "{error}");

    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    world.create_key(&workspace, "taken").await.unwrap();
    let before = world.everything_in_rows().await;
    // Refused within the transaction, after other steps of it.
    let taken = "workspace: acme\ncurrency: USD\nkeys:\n  \
                 - {name: taken, secret: twenty-characters-ok, permissions: [users.track]}\n";
    let error = world.apply(taken).await.err().unwrap();
    assert!(error.contains("taken") && error.contains("key create"), "{error}");
    let same_secret = "workspace: second\nkeys:\n  \
                       - {name: k, secret: \"${ACME_KEY}\", permissions: [users.track]}\n";
    let error = world.apply(same_secret).await.err().unwrap();
    assert!(error.contains("key k: ") && !error.contains(SECRET), "{error}");
    let same_app =
        format!("workspace: second\napps:\n  - {{id: {APP}, name: Theirs, platform: web}}\n");
    let error = world.apply(&same_app).await.err().unwrap();
    assert!(error.contains(APP), "{error}");
    assert_eq!(world.everything_in_rows().await, before);
}

async fn two_that_apply_at_once_make_one_workspace(world: World) {
    let text = acme("control_group: {percent: 5}\n");
    let applied = futures::future::join_all((0..4).map(|_| world.apply(&text))).await;
    let applied: Vec<Applied> = applied.into_iter().map(Result::unwrap).collect();
    let made = applied.iter().filter(|applied| !applied.changes.is_empty()).count();
    assert_eq!(made, 1, "{:?}", applied.iter().map(lines).collect::<Vec<_>>());
    let shown = applied.iter().filter(|applied| applied.callback_secret.is_some()).count();
    assert_eq!(shown, 1);
}

async fn storage_is_tried_kept_and_changed_under_a_new_id(world: World) {
    let missing = servers::new_name();
    let place = TestStorage::s3().await;
    let (storage, bucket) = self::storage(&place);
    let error = world.apply(&acme(&storage.replace(&bucket, &missing))).await.err().unwrap();
    assert!(error.contains(&missing), "{error}");
    assert!(!error.contains(&place.secret().unwrap()), "{error}");
    let mut tx = world.app.store.snapshot().await.unwrap();
    assert!(workspaces::list(&mut tx).await.unwrap().is_empty(), "a refused file left something");
    drop(tx);

    let applied = world.apply(&acme(&storage)).await.unwrap();
    assert!(lines(&applied).iter().any(|line| line.starts_with("+ storage.s3")));
    let first = world.workspace().await.s3_storage.unwrap();
    workspaces::open_storage(&world.app, first).await.unwrap();
    assert!(world.apply(&acme(&storage)).await.unwrap().changes.is_empty());

    let other_place = TestStorage::s3().await;
    let (moved, other) = self::storage(&other_place);
    let applied = world.apply(&acme(&moved)).await.unwrap();
    assert!(lines(&applied)[0].contains(&format!("bucket {bucket}")), "{:?}", lines(&applied));
    assert!(lines(&applied)[0].contains(&format!("bucket {other}")), "{:?}", lines(&applied));
    let second = world.workspace().await.s3_storage.unwrap();
    assert_ne!(first, second);
    // An export that was asked for before keeps its place.
    workspaces::open_storage(&world.app, first).await.unwrap();

    let prune = Options { prune: true, ..Options::default() };
    let applied = world.apply_with(&acme(""), prune).await.unwrap();
    assert!(lines(&applied)[0].starts_with("- storage.s3"), "{:?}", lines(&applied));
    assert_eq!(world.workspace().await.own_storage(), None);
}

async fn secrets_are_not_readable_where_they_are_stored(world: World) {
    let place = TestStorage::s3().await;
    let (storage, bucket) = storage(&place);
    let callback = "whsec_Zm91ci1hbmQtdHdlbnR5LWJ5dGVzLW9yLXNv";
    let text = acme(&format!("{storage}callbacks: {{secret: {callback}}}\n"));
    let applied = world.apply(&text).await.unwrap();
    assert!(applied.callback_secret.is_none());
    let stored = world.everything_stored().await;
    let is_there = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    // What is no secret is found, so the search works.
    assert!(is_there(b"integrator") && is_there(b"Acme for iOS"));
    let s3_secret = place.secret().unwrap();
    for secret in [SECRET, &s3_secret, &bucket, callback, "four-and-twenty-bytes"] {
        assert!(!is_there(secret.as_bytes()), "{secret} is stored as it is");
    }
    let workspace = world.workspace().await;
    let signing = settings::of(&world.app, workspace.id).await.unwrap().callbacks.clone();
    assert_eq!(signing, Secret(b"four-and-twenty-bytes-or-so".into()).into());
}

async fn the_callback_secret_is_created_once(world: World) {
    let shown = world.apply(&acme("")).await.unwrap().callback_secret.unwrap();
    assert!(shown.starts_with("whsec_"));
    assert!(world.apply(&acme("")).await.unwrap().callback_secret.is_none());
    // What was shown is what signs: declared, it changes nothing.
    let declared = acme(&format!("callbacks: {{secret: {shown}}}\n"));
    assert!(world.apply(&declared).await.unwrap().changes.is_empty());
}

async fn signing_secrets_are_created_rotated_and_never_shared(world: World) {
    let push = |more: &str| {
        acme(&format!("providers:\n  push: {{url: 'https://push.example/hook'{more}}}\n"))
    };
    let made = world.apply(&push("")).await.unwrap().secrets;
    let paths: Vec<&str> = made.keys().copied().collect();
    assert_eq!(paths, ["callbacks.secret", "providers.push.secret", "webhooks.secret"]);
    // What is left out is kept, and shown no more.
    let again = world.apply(&push("")).await.unwrap();
    assert!(again.changes.is_empty() && again.secrets.is_empty());
    // Both sign while a secret is changed.
    let (old, new) = (&made["providers.push.secret"], &made["callbacks.secret"]);
    let changing = push(&format!(", secret: {new}, secret_old: {old}"));
    let applied = world.apply(&changing).await.unwrap();
    assert_eq!(lines(&applied), ["~ providers.push (secret, secret_old)"]);
    let applied = world.apply(&push(&format!(", secret: {new}"))).await.unwrap();
    assert_eq!(lines(&applied), ["~ providers.push (secret_old)"]);
    let webhooks = |more: &str| acme(&format!("webhooks: {{secret: {}{more}}}\n", other_secret()));
    let old = format!(", secret_old: {}", made["webhooks.secret"]);
    let applied = world.apply(&webhooks(&old)).await.unwrap();
    assert_eq!(lines(&applied), ["~ webhooks.secret (secret, secret_old)"]);
    let applied = world.apply(&acme("")).await.unwrap();
    assert_eq!(lines(&applied), ["~ webhooks.secret (secret_old)"]);

    // Webhooks sign what anybody writes: their secret is nobody else's, old or new.
    let before = world.everything_in_rows().await;
    for (member, named) in [
        (format!("callbacks: {{secret: {}}}", other_secret()), "callbacks.secret"),
        (
            format!("providers: {{feedback_secret: {}}}", other_secret()),
            "providers.feedback_secret",
        ),
        (format!("webhooks: {{secret: {}}}", made["callbacks.secret"]), "callbacks.secret"),
        (
            format!(
                "webhooks: {{secret: {}, secret_old: {}}}",
                made["webhooks.secret"], made["callbacks.secret"]
            ),
            "callbacks.secret",
        ),
    ] {
        let error = world.apply(&acme(&format!("{member}\n"))).await.err().unwrap();
        assert!(error.contains("webhooks.secret") && error.contains(named), "{member}: {error}");
        assert!(!error.contains("whsec_"), "{error}");
    }
    assert_eq!(world.everything_in_rows().await, before);
}

fn other_secret() -> String {
    format!("whsec_{}", BASE64_STANDARD.encode([7; 32]))
}

/// What a former release left: its webhooks continue, by a secret of their own from the start.
async fn webhooks_are_signed_before_the_first_apply_of_an_upgrade(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    let mut tx = world.app.store.write().await.unwrap();
    let sql = "DELETE FROM channels WHERE path IN ('webhooks.secret', 'callbacks.secret')";
    match &mut tx {
        Tx::Postgres(tx) => drop(sqlx::query(sql).execute(&mut **tx).await.unwrap()),
        Tx::Sqlite(tx) => drop(sqlx::query(sql).execute(&mut **tx).await.unwrap()),
    }
    tx.commit().await.unwrap();
    let settings = settings::of(&world.app, workspace.id).await.unwrap();
    let (callbacks, webhooks) = (&settings.callbacks, &settings.webhooks);
    assert!(callbacks.secret.is_some() && webhooks.secret.is_some() && callbacks != webhooks);
    let applied = world.apply(&acme("")).await.unwrap();
    assert_eq!(lines(&applied), ["+ webhooks.secret (generated: the file has none)"]);
}

async fn the_control_group_is_made_once_and_renewed(world: World) {
    let five = acme("control_group: {percent: 5}\n");
    world.apply(&five).await.unwrap();
    let workspace = world.workspace().await;
    let first = world.group(workspace.id).await;
    assert_eq!((first.percent, first.slices.len()), (5, 5));

    let twenty = acme("control_group: {percent: 20}\n");
    let error = world.apply(&twenty).await.err().unwrap();
    assert!(error.contains("control-group renew --percent 20"), "{error}");
    assert_eq!(world.group(workspace.id).await, first);

    let mut tx = world.app.store.write().await.unwrap();
    let second = groups::renew(&mut tx, workspace.id, 20, 0).await.unwrap();
    tx.commit().await.unwrap();
    assert_ne!(second.segment_id, first.segment_id);
    let slices: BTreeSet<i16> = second.slices.iter().copied().collect();
    assert!(slices.len() == 20 && slices.iter().all(|slice| (0..100).contains(slice)));
    assert_eq!(world.group(workspace.id).await, second);
    assert!(world.apply(&twenty).await.unwrap().changes.is_empty());

    let large = twenty.replace("acme", "large").replace(APP, &Uuid::new_v4().to_string());
    let large = large.replace("ACME_KEY", "ACME_OTHER_KEY");
    let applied = world.apply(&large).await.unwrap();
    assert!(applied.notes.iter().any(|note| note.contains("20%")), "{:?}", applied.notes);
}

async fn keys_are_made_found_and_revoked(world: World) {
    world.apply("workspace: acme\nip_allowlist: [10.0.0.0/8]\n").await.unwrap();
    let workspace = world.workspace().await;
    let secret = world.create_key(&workspace, "one").await.unwrap();
    assert!(secret.starts_with("lsk_") && secret.len() == 47, "{}", secret.len());
    let found = keys::find(&world.app, &secret).await.unwrap().unwrap();
    assert_eq!(*found.workspace, workspace);
    assert_eq!(found.permissions, ["users.track"]);
    assert!(found.allow.is_empty() && found.workspace.ip_allowlist.len() == 1);
    for wrong in ["", "lsk_", &secret[..46], &format!("{secret}x"), &secret.to_uppercase()] {
        assert!(!world.knows(wrong).await, "{wrong:?}");
    }
    assert!(matches!(
        world.create_key(&workspace, "one").await,
        Err(KeyError::Taken(name)) if name == "one"
    ));

    // Its use is noted next to the call.
    eventually("its use is noted", || async { world.last_use().await.is_some() }).await;

    let mut tx = world.app.store.write().await.unwrap();
    let clock = &world.app.clock;
    keys::revoke(&mut tx, clock, workspace.id, "one").await.unwrap();
    let again = keys::revoke(&mut tx, clock, workspace.id, "one").await;
    assert!(matches!(again, Err(KeyError::Unknown(_))));
    tx.commit().await.unwrap();
    world.rejects_soon(&secret).await;
    // The name is free again, and an id names a key as well.
    let secret = world.create_key(&workspace, "one").await.unwrap();
    let id = keys::find(&world.app, &secret).await.unwrap().unwrap().key_id;
    let mut tx = world.app.store.write().await.unwrap();
    keys::revoke(&mut tx, clock, workspace.id, &id.to_string()).await.unwrap();
    tx.commit().await.unwrap();
    world.rejects_soon(&secret).await;
}

async fn revoked_secrets_are_refused(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    let mut tx = world.app.store.write().await.unwrap();
    keys::revoke(&mut tx, &world.app.clock, workspace.id, "integrator").await.unwrap();
    tx.commit().await.unwrap();
    world.rejects_soon(SECRET).await;
    let before = world.everything_in_rows().await;
    let renamed = acme("").replace("name: integrator", "name: another");
    let elsewhere = acme("").replace("workspace: acme", "workspace: other");
    for file in [acme(""), renamed, elsewhere] {
        for dry_run in [true, false] {
            let options = Options { dry_run, prune: true };
            let error = world.apply_with(&file, options).await.map(|_| ()).unwrap_err();
            assert!(error.starts_with("key ") && error.contains("was revoked at"), "{error}");
        }
    }
    assert_eq!(world.everything_in_rows().await, before);
    let file = world.test.config.data.join("acme.yaml");
    std::fs::write(&file, acme("")).unwrap();
    let refused = world.run(&["apply", file.to_str().unwrap()]).await;
    assert!(!refused.status.success() && !world.knows(SECRET).await);

    // The secret that a rotation replaces is revoked, too.
    let rotated = acme("").replace("ACME_KEY", "ACME_OTHER_KEY");
    world.apply(&rotated).await.unwrap();
    let third = |name: &str| (name == "ACME_KEY").then(|| "integrator-secret-number-3".to_owned());
    let declared = file::read(&acme(""), &third).unwrap();
    apply(&world.app, &declared.workspaces[0], Options::default()).await.unwrap();
    let error = world.apply(&rotated).await.map(|_| ()).unwrap_err();
    assert!(error.contains("was revoked at"), "{error}");
    world.rejects_soon(OTHER_SECRET).await;

    // A SCIM token cannot have it, either.
    let company = "company: Acme Inc.\nscim_tokens: [{name: idp, secret: \"${ACME_KEY}\"}]\n";
    let declared = file::read(company, &environment).unwrap();
    let company = declared.company.as_ref().unwrap();
    let refused = apply_company(&world.app, company, Options::default()).await.map(|_| ());
    assert!(matches!(refused, Err(ApplyError::Token { .. })), "{refused:?}");
}

/// The list of revoked secrets has those that a backup does not know.
async fn revoked_secrets_are_revoked_again_after_a_restore(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    let by_hand = world.create_key(&workspace, "by hand").await.unwrap();
    let secret = "a-secret-that-only-a-later-file-has";
    let later = |name: &str| (name == "ACME_KEY").then(|| secret.to_owned());
    for name in ["integrator", "by hand"] {
        let mut tx = world.app.store.write().await.unwrap();
        keys::revoke(&mut tx, &world.app.clock, workspace.id, name).await.unwrap();
        tx.commit().await.unwrap();
    }
    let declared = file::read(&acme(""), &later).unwrap();
    apply(&world.app, &declared.workspaces[0], Options::default()).await.unwrap();
    let rotated = acme("").replace("ACME_KEY", "ACME_OTHER_KEY");
    world.apply(&rotated).await.unwrap();

    let printed = world.run(&["key", "revocations"]).await;
    let list = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(!list.contains(SECRET) && !list.contains(secret), "{list}");
    let path = world.test.config.data.join("revocations.jsonl");
    std::fs::write(&path, &list).unwrap();

    // As a backup from before: the first key is valid, the second unknown, the third, too.
    on_pool!(&world.app.store, pool => {
        sqlx::query("DELETE FROM api_keys").execute(pool).await.unwrap();
    });
    let mut tx = world.app.store.write().await.unwrap();
    let permissions = ["users.track".to_owned()];
    let key = NewKey {
        workspace: workspace.id,
        name: "integrator",
        permissions: &permissions,
        allow: &[],
        declared: true,
    };
    keys::create_with_secret(&mut tx, &world.app.clock, key, SECRET).await.unwrap();
    tx.commit().await.unwrap();
    eventually("it is valid again", || async { world.knows(SECRET).await }).await;

    let file = path.to_str().unwrap();
    let restored = world.run(&["key", "revoke", "--from", file, "--json"]).await;
    let restored: serde_json::Value = serde_json::from_slice(&restored.stdout).unwrap();
    assert_eq!(restored, json!({ "secrets": 3, "revoked": ["integrator"] }));
    world.rejects_soon(SECRET).await;
    type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);
    for environment in [&environment as Environment<'_>, &later] {
        let declared = file::read(&acme(""), environment).unwrap();
        let refused = apply(&world.app, &declared.workspaces[0], Options::default()).await;
        assert!(matches!(refused, Err(ApplyError::Key { .. })), "it is valid again");
    }
    assert!(!world.knows(&by_hand).await);
    // Again, and as the next backup has it.
    assert!(world.run(&["key", "revoke", "--from", file]).await.status.success());
    let printed = world.run(&["key", "revocations"]).await;
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), list);

    std::fs::write(&path, format!("{list}{{}}\n")).unwrap();
    let refused = world.run(&["key", "revoke", "--from", file]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("line 4"), "{error}");
}

async fn a_wrong_secret_key_is_rejected_and_rotation_reseals(world: World) {
    let shown = world.apply(&acme("")).await.unwrap().callback_secret.unwrap();
    let workspace = world.workspace().await;
    let signing = async |app: &App| {
        let settings = settings::of(app, workspace.id).await.unwrap();
        (settings.callbacks.clone(), settings.webhooks.clone())
    };
    let before = signing(&world.app).await;

    let new = SecretKey::generate();
    let wrong = world.with_secret_key(&new, None).await;
    let error = setup::check(&wrong).await.unwrap_err().to_string();
    assert!(error.contains("LONGSHORE_SECRET_KEY_OLD"), "{error}");
    assert!(setup::run(&wrong).await.is_err(), "migrate took another key");
    assert!(!error.contains(&new) && !error.contains(&shown));

    let former = world.test.config.secret_key.as_ref();
    let both = world.with_secret_key(&new, former).await;
    setup::check(&both).await.unwrap();
    assert!(setup::run(&both).await.unwrap().rotated, "the keys were rotated");
    let only_new = world.with_secret_key(&new, None).await;
    setup::check(&only_new).await.unwrap();
    assert!(!setup::run(&only_new).await.unwrap().rotated);
    assert_eq!(signing(&only_new).await, before);
    assert!(setup::check(&world.app).await.is_err(), "the former key serves no more");
}

async fn another_number_of_partitions_is_refused(world: World) {
    let mut config = world.test.config.clone();
    config.log.partitions = 5;
    let refused = |error: &str| error.contains("log.partitions is 5") && error.contains("4");
    // The embedded log knows its own.
    let error = App::open(config.clone()).await.map(drop).unwrap_err().to_string();
    assert!(refused(&error) && error.contains("log.db"), "{error}");
    // So does the store, also next to a log that is new.
    let store = longshore::app::connect(&config).await.unwrap();
    let mut tx = store.write().await.unwrap();
    for error in [
        fixed::check_partitions(&mut tx, config.log.partitions).await.unwrap_err(),
        fixed::fix_partitions(&mut tx, config.log.partitions).await.unwrap_err(),
    ] {
        assert!(refused(&error.to_string()), "{error}");
    }
}

async fn the_commands_report_their_changes(world: World) {
    let file = world.test.config.data.join("acme.yaml");
    std::fs::write(&file, acme("control_group: {percent: 5}\n")).unwrap();
    let file = file.to_str().unwrap();
    let succeeds = |output: Output| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    succeeds(world.run(&["migrate"]).await);
    let text = succeeds(world.run(&["apply", file]).await);
    assert!(text.contains("+ key integrator") && text.contains("whsec_"), "{text}");
    let text = succeeds(world.run(&["apply", file]).await);
    assert!(text.contains("= no changes") && !text.contains("whsec_"), "{text}");

    let secret = succeeds(
        world
            .run(&[
                "key",
                "create",
                "--name",
                "cli",
                "--permission",
                "users.track",
                "--allow",
                "10.0.0.0/8",
            ])
            .await,
    );
    let found = keys::find(&world.app, secret.trim()).await.unwrap().unwrap();
    assert_eq!(found.allow.len(), 1);
    let refused = world.run(&["key", "create", "--name", "x", "--permission", "y"]).await;
    assert!(!refused.status.success());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("unknown permission: y") && error.contains("users.track"), "{error}");
    let text = succeeds(world.run(&["key", "list", "--json"]).await);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains(secret.trim()) && !text.contains(SECRET));
    succeeds(world.run(&["key", "revoke", "cli"]).await);

    let text = succeeds(world.run(&["control-group", "show", "--json"]).await);
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&shown["percent"], &shown["users"]), (&5.into(), &0.into()));
    let text = succeeds(world.run(&["control-group", "renew", "--percent", "7", "--json"]).await);
    let renewed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(renewed["percent"], 7);
    assert_ne!(renewed["segment_id"], shown["segment_id"]);
    let refused = world.run(&["apply", file]).await;
    assert!(!refused.status.success());

    let text = succeeds(world.run(&["doctor", "--json"]).await);
    for line in text.lines() {
        let finding: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(finding["ok"], true, "{line}");
    }
    assert!(text.lines().count() >= 4, "{text}");
}

impl World {
    async fn create_key(&self, workspace: &Workspace, name: &str) -> Result<String, KeyError> {
        let permissions = ["users.track".to_owned()];
        let key = NewKey {
            workspace: workspace.id,
            name,
            permissions: &permissions,
            allow: &[],
            declared: false,
        };
        let mut tx = self.app.store.write().await.unwrap();
        let secret = keys::create(&mut tx, &self.app.clock, key).await?;
        tx.commit().await.unwrap();
        Ok(secret)
    }

    async fn group(&self, workspace: i32) -> workspaces::ControlGroup {
        let mut tx = self.app.store.snapshot().await.unwrap();
        workspaces::control_group(&mut tx, workspace).await.unwrap().unwrap()
    }

    async fn last_use(&self) -> Option<i64> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let keys = keys::list(&mut tx, None).await.unwrap();
        keys.iter().find_map(|key| key.last_used_at)
    }

    /// What workspaces, keys, apps and groups are, as far as the public interface shows.
    async fn everything_in_rows(&self) -> String {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let all = workspaces::list(&mut tx).await.unwrap();
        let mut keys = keys::list(&mut tx, None).await.unwrap();
        // Written at the same time, at any moment.
        keys.iter_mut().for_each(|key| key.last_used_at = None);
        let mut groups = Vec::new();
        for workspace in &all {
            groups.push(workspaces::control_group(&mut tx, workspace.id).await.unwrap());
        }
        format!("{all:?}\n{keys:?}\n{groups:?}")
    }
}
