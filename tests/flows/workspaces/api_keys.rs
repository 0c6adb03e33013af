//! API keys: created, found, rotated and revoked, also after a restore.

use longshore::setup;
use longshore::workspace_file::apply::apply;
use longshore::workspace_file::change::Options;
use longshore::workspace_file::company::apply_company;
use longshore::workspace_file::error::ApplyError;
use longshore::workspace_file::file;
use longshore::workspaces::keys::{self, KeyError, NewKey};
use serde_json::json;

use super::{OTHER_SECRET, SECRET, World, acme, environment, lines};
use crate::support::eventually;
use crate::support::stores::{on_both_stores, on_pool};

/// Who revokes the keys.
const ACTOR: &str = "command:ana";

on_both_stores!(World =>
    another_secret_is_a_rotation,
    keys_are_made_found_and_revoked,
    revoked_secrets_are_refused,
    revoked_secrets_are_revoked_again_after_a_restore,
    revokers_in_the_audit_log_are_known_after_an_upgrade,
);

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

async fn keys_are_made_found_and_revoked(world: World) {
    world.apply("workspace: acme\nip_allowlist: [10.0.0.0/8]\n").await.unwrap();
    let workspace = world.workspace().await;
    let secret = world.create_key(&workspace, "one").await.unwrap();
    assert!(secret.starts_with("lsk_") && secret.len() == 47, "{}", secret.len());
    let found = keys::find(&world.app, &secret).await.unwrap().unwrap();
    assert_eq!(*found.workspace, workspace);
    assert_eq!(*found.permissions, ["users.track"]);
    assert!(found.allow.is_empty() && found.workspace.ip_allowlist.len() == 1);
    for wrong in ["", "lsk_", &secret[..46], &format!("{secret}x"), &secret.to_uppercase()] {
        assert!(!world.knows(wrong).await, "{wrong:?}");
    }
    assert!(matches!(
        world.create_key(&workspace, "one").await,
        Err(KeyError::Taken(name)) if name == "one"
    ));

    // Its use is noted next to the call, once the request passes all checks.
    assert_eq!(world.last_use().await, None);
    keys::record_use(&world.app, &found, &["users.track"]);
    eventually("its use is noted", || async { world.last_use().await.is_some() }).await;

    let mut tx = world.app.store.write().await.unwrap();
    let clock = &world.app.clock;
    keys::revoke(&mut tx, clock, workspace.id, "one", ACTOR).await.unwrap();
    let again = keys::revoke(&mut tx, clock, workspace.id, "one", ACTOR).await;
    assert!(matches!(again, Err(KeyError::Unknown)));
    tx.commit().await.unwrap();
    world.rejects_soon(&secret).await;
    // The name is free again, and an id names a key as well.
    let secret = world.create_key(&workspace, "one").await.unwrap();
    let id = keys::find(&world.app, &secret).await.unwrap().unwrap().key_id;
    // It comes before a name, also if the name sorts first.
    let id = id.to_string();
    assert!(matches!(world.create_key(&workspace, &id).await, Err(KeyError::NewName)));
    let mut tx = world.app.store.write().await.unwrap();
    let permissions = ["users.track".to_owned()];
    let key = NewKey {
        workspace: workspace.id,
        name: &id,
        permissions: &permissions,
        allow: &[],
        declared: true,
    };
    keys::create_with_secret(&mut tx, clock, key, OTHER_SECRET).await.unwrap();
    assert_eq!(keys::revoke(&mut tx, clock, workspace.id, &id, ACTOR).await.unwrap().name, "one");
    tx.commit().await.unwrap();
    assert!(world.knows(OTHER_SECRET).await);
    world.rejects_soon(&secret).await;
}

async fn revoked_secrets_are_refused(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    let mut tx = world.app.store.write().await.unwrap();
    keys::revoke(&mut tx, &world.app.clock, workspace.id, "integrator", ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    world.rejects_soon(SECRET).await;
    let before = world.everything_in_rows().await;
    let renamed = acme("").replace("name: integrator", "name: another");
    let elsewhere = acme("").replace("workspace: acme", "workspace: other");
    for file in [acme(""), renamed, elsewhere] {
        for dry_run in [true, false] {
            let options = Options { dry_run, prune: true, confirmed: false };
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

/// Versions before the column `revoked_by` wrote only the audit log.
async fn revokers_in_the_audit_log_are_known_after_an_upgrade(world: World) {
    world.apply(&acme("")).await.unwrap();
    let workspace = world.workspace().await;
    world.create_key(&workspace, "by hand").await.unwrap();
    assert!(world.run(&["key", "revoke", "integrator"]).await.status.success());
    let mut tx = world.app.store.write().await.unwrap();
    keys::revoke(&mut tx, &world.app.clock, workspace.id, "by hand", ACTOR).await.unwrap();
    tx.commit().await.unwrap();
    for sql in [
        "UPDATE api_keys SET revoked_by = NULL",
        "DROP INDEX segments_by_name",
        "ALTER TABLE transactional_emails DROP COLUMN accepted_at",
        "ALTER TABLE dead_letters DROP COLUMN log_time",
        "ALTER TABLE identity_changes DROP COLUMN second_at",
        "ALTER TABLE identity_changes DROP COLUMN first_at",
        "ALTER TABLE log_offsets DROP COLUMN last_log_time",
        "ALTER TABLE log_offsets DROP COLUMN last_appended_at",
        "ALTER TABLE export_jobs DROP COLUMN refused_since",
        "ALTER TABLE export_jobs DROP COLUMN waiting_since",
        "DROP TABLE dispatch_bounces",
        "ALTER TABLE dispatch_parts DROP COLUMN emails",
        "ALTER TABLE messages DROP COLUMN address",
        "ALTER TABLE transactional_emails DROP COLUMN address",
        "DROP TABLE suppressions",
        "DROP TABLE suppression_keys",
        "ALTER TABLE dispatches DROP COLUMN kept",
        "DROP TABLE dispatch_blocks",
        "ALTER TABLE dispatch_parts DROP COLUMN too_late",
        "DELETE FROM _sqlx_migrations WHERE version >= 30",
    ] {
        on_pool!(&world.app.store, pool => {
            sqlx::query(sql).execute(pool).await.expect(sql);
        });
    }
    setup::run(&world.app).await.unwrap();

    let mut tx = world.app.store.snapshot().await.unwrap();
    let revoked = keys::revoked(&mut tx, workspace.id, None, 10).await.unwrap();
    let [by_hand, integrator] = &revoked[..] else { panic!("{revoked:?}") };
    assert_eq!((by_hand.name.as_str(), &by_hand.revoked_by), ("by hand", &None), "no entry has it");
    let revoker = integrator.revoked_by.as_deref();
    assert!(revoker.is_some_and(|actor| actor.starts_with("command:")), "{revoked:?}");
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
        keys::revoke(&mut tx, &world.app.clock, workspace.id, name, ACTOR).await.unwrap();
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
