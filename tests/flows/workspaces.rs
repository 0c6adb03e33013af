//! Workspaces: applying their file, keys, control groups, secrets at rest, the secret key;
//! on SQLite and on PostgreSQL.

mod api_keys;
mod generated;
mod secrets;
mod storages;

use std::collections::BTreeSet;
use std::process::Output;

use longshore::app::App;
use longshore::setup;
use longshore::workspace_file::apply::{Applied, apply};
use longshore::workspace_file::change::Options;
use longshore::workspace_file::file;
use longshore::workspaces::keys::{self, KeyError, NewKey};
use longshore::workspaces::{self, Workspace, groups};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use store::Store;
use uuid::Uuid;

use generated::files_are_applied_to_any_state;

use crate::support::storage::TestStorage;
use crate::support::stores::{TestStore, on_both_stores};
use crate::support::{eventually, process, servers};

on_both_stores!(World =>
    files_are_applied_to_any_state,
    applying_twice_changes_nothing_the_second_time,
    revenue_that_no_longer_counts_is_noted,
    a_dry_run_writes_nothing,
    removed_declarations_end_only_with_prune,
    a_file_with_a_mistake_changes_nothing,
    two_that_apply_at_once_make_one_workspace,
    storage_is_tried_kept_and_changed_under_a_new_id,
    the_control_group_is_made_once_and_renewed,
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
                for table in [
                    "workspaces",
                    "storages",
                    "named_storages",
                    "api_keys",
                    "apps",
                    "settings",
                    "channels",
                ] {
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
fn storage(test_storage: &TestStorage) -> (String, String) {
    let (kind, settings) = test_storage.storage();
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

async fn revenue_that_no_longer_counts_is_noted(world: World) {
    let file = |currency: &str, rates: &str| {
        format!("workspace: acme\ncurrency: {currency}\nexchange_rates: {rates}\n")
    };
    let applied = world.apply(&file("USD", "{EUR: 1.08, GBP: 1.27}")).await.unwrap();
    assert!(applied.notes.is_empty(), "{:?}", applied.notes);
    let dry = Options { dry_run: true, ..Options::default() };
    for (currency, rates, expected) in [
        ("EUR", "{GBP: 1.17}", &["exchange_rates has no rate of USD: total_revenue no longer"][..]),
        ("EUR", "{}", &["exchange_rates has no rate of GBP, USD"]),
        ("USD", "{EUR: 1.09}", &["exchange_rates has no rate of GBP"]),
        (
            "EUR",
            "{GBP: 1.27, USD: 0.92}",
            &["exchange_rates are values in EUR, but the rates of GBP are those in USD"],
        ),
        ("EUR", "{GBP: 1.17, USD: 0.92}", &[]),
        ("USD", "{EUR: 1.1, GBP: 1.3, CHF: 1.1}", &[]),
    ] {
        let applied = world.apply_with(&file(currency, rates), dry).await.unwrap();
        let notes = &applied.notes;
        assert_eq!(notes.len(), expected.len(), "{currency} {rates}: {notes:?}");
        for (note, beginning) in notes.iter().zip(expected) {
            assert!(note.starts_with(beginning), "{currency} {rates}: {note}");
        }
    }
    let applied = world.apply(&file("EUR", "{}")).await.unwrap();
    assert_eq!(applied.notes.len(), 1, "{:?}", applied.notes);
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
    let gone = Options { dry_run: true, prune: true, confirmed: false };
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
    let test_storage = TestStorage::s3().await;
    let (storage, bucket) = self::storage(&test_storage);
    let error = world.apply(&acme(&storage.replace(&bucket, &missing))).await.err().unwrap();
    assert!(error.contains(&missing), "{error}");
    assert!(!error.contains(&test_storage.secret().unwrap()), "{error}");
    let mut tx = world.app.store.snapshot().await.unwrap();
    assert!(workspaces::list(&mut tx).await.unwrap().is_empty(), "a refused file left something");
    drop(tx);

    let applied = world.apply(&acme(&storage)).await.unwrap();
    assert!(lines(&applied).iter().any(|line| line.starts_with("+ storage.s3")));
    let first = world.workspace().await.s3_storage.unwrap();
    workspaces::open_storage(&world.app, first).await.unwrap();
    assert!(world.apply(&acme(&storage)).await.unwrap().changes.is_empty());

    let other_storage = TestStorage::s3().await;
    let (moved, other) = self::storage(&other_storage);
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
        let created = keys::create(&mut tx, &self.app.clock, key).await?;
        tx.commit().await.unwrap();
        Ok(created.secret.expose_secret().to_owned())
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
        for key in &mut keys {
            (key.last_used_at, key.last_permission) = (None, None);
        }
        let mut groups = Vec::new();
        for workspace in &all {
            groups.push(workspaces::control_group(&mut tx, workspace.id).await.unwrap());
        }
        format!("{all:?}\n{keys:?}\n{groups:?}")
    }
}
