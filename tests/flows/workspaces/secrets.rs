//! Secrets of workspaces: unreadable where they are stored, created once, rotated; the secret key.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kit::secrets::SecretKey;
use longshore::app::App;
use longshore::setup;
use longshore::setup::fixed;
use longshore::workspaces::settings::{self, Secret};
use secrecy::ExposeSecret as _;
use store::Tx;

use super::{SECRET, World, acme, lines, storage};
use crate::support::storage::TestStorage;
use crate::support::stores::on_both_stores;

on_both_stores!(World =>
    secrets_are_not_readable_where_they_are_stored,
    the_callback_secret_is_created_once,
    signing_secrets_are_created_rotated_and_never_shared,
    webhooks_are_signed_before_the_first_apply_of_an_upgrade,
    a_wrong_secret_key_is_rejected_and_rotation_reseals,
    receivers_of_notifications_are_sealed_compared_and_resealed,
    another_number_of_partitions_is_refused,
);

async fn secrets_are_not_readable_where_they_are_stored(world: World) {
    let test_storage = TestStorage::s3().await;
    let (storage, bucket) = storage(&test_storage);
    let callback = "whsec_Zm91ci1hbmQtdHdlbnR5LWJ5dGVzLW9yLXNv";
    let text = acme(&format!("{storage}callbacks: {{secret: {callback}}}\n"));
    let applied = world.apply(&text).await.unwrap();
    assert!(applied.callback_secret.is_none());
    let stored = world.everything_stored().await;
    let is_there = |text: &[u8]| stored.windows(text.len()).any(|window| window == text);
    // What is no secret is found, so the search works.
    assert!(is_there(b"integrator") && is_there(b"Acme for iOS"));
    let s3_secret = test_storage.secret().unwrap();
    for secret in [SECRET, &s3_secret, &bucket, callback, "four-and-twenty-bytes"] {
        assert!(!is_there(secret.as_bytes()), "{secret} is stored as it is");
    }
    let workspace = world.workspace().await;
    let signing = settings::find(&world.app, workspace.id).await.unwrap().callbacks.clone();
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
    let settings = settings::find(&world.app, workspace.id).await.unwrap();
    let (callbacks, webhooks) = (&settings.callbacks, &settings.webhooks);
    assert!(callbacks.secret.is_some() && webhooks.secret.is_some() && callbacks != webhooks);
    let applied = world.apply(&acme("")).await.unwrap();
    assert_eq!(lines(&applied), ["+ webhooks.secret (generated: the file has none)"]);
}

async fn a_wrong_secret_key_is_rejected_and_rotation_reseals(world: World) {
    let shown = world.apply(&acme("")).await.unwrap().callback_secret.unwrap();
    let workspace = world.workspace().await;
    let signing = async |app: &App| {
        let settings = settings::find(app, workspace.id).await.unwrap();
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
    // Settings of the first step do not turn the rotation back.
    let former = former.unwrap().expose_secret();
    let exchanged = world.with_secret_key(former, Some(&new.into())).await;
    assert!(setup::check(&exchanged).await.is_err() && setup::run(&exchanged).await.is_err());
    setup::check(&both).await.unwrap();
}

async fn receivers_of_notifications_are_sealed_compared_and_resealed(world: World) {
    let notify = |path: &str| {
        format!(
            "notify:\n  - slack: {{url: 'https://hooks.example/services/{path}'}}\n  \
             - webhook: {{url: 'https://ops.example/{path}', secret: {path}-of-a-webhook}}\n  \
             - {{on: [export_done], email: {{to: [ops@acme.example]}}}}\n"
        )
    };
    let email = "email: {smtp: smtp://relay.example, from: exports@acme.example}\n";
    let (first, second) = ("first-secret-path", "second-secret-path");
    let declared = |path: &str| acme(&format!("{email}{}", notify(path)));
    let error = world.apply(&acme(&notify(first))).await.err().unwrap();
    assert!(error.contains("notify[2].email requires email.smtp and email.from"), "{error}");

    let applied = lines(&world.apply(&declared(first)).await.unwrap());
    let line = applied.iter().find(|line| line.starts_with("+ notify")).expect("a change");
    for part in ["Slack https://hooks.example", "webhook https://ops.example", "ops@acme.example"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!applied.concat().contains(first), "{applied:?}");
    assert!(world.apply(&declared(first)).await.unwrap().changes.is_empty());
    let applied = lines(&world.apply(&declared(second)).await.unwrap());
    let [line] = applied.as_slice() else { panic!("{applied:?}") };
    assert!(line.starts_with("~ notify (") && !line.contains("secret-path"), "{line}");
    let late = format!("{}export_late_after: 90m\n", declared(second));
    let applied = lines(&world.apply(&late).await.unwrap());
    assert_eq!(applied, ["~ export_late_after (6h -> 90m)"]);

    let stored = world.everything_stored().await;
    for secret in [first, second, "ops.example"] {
        let is_there = stored.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!is_there, "{secret} is stored as it is");
    }
    let workspace = world.workspace().await;
    let before = settings::find(&world.app, workspace.id).await.unwrap().notify.clone();
    assert_eq!(before.len(), 3);
    let new = SecretKey::generate();
    let both = world.with_secret_key(&new, world.test.config.secret_key.as_ref()).await;
    assert!(setup::run(&both).await.unwrap().rotated, "the keys were rotated");
    let only_new = world.with_secret_key(&new, None).await;
    assert_eq!(settings::find(&only_new, workspace.id).await.unwrap().notify, before);
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
