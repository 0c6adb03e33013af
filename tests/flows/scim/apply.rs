//! The company document of the workspace file: tokens and dashboard users, applied.

use std::collections::BTreeSet;

use kit::retry::Retry as _;
use longshore::app::App;
use longshore::scim::group::Group;
use longshore::scim::resource::User;
use longshore::scim::tokens::{self, NewToken};
use longshore::workspace_file::apply::{self, Applied};
use longshore::workspace_file::change::Options;
use longshore::workspace_file::company::apply_company;
use longshore::workspace_file::error::ApplyError;
use longshore::workspace_file::file;
use longshore::{scim, setup};
use store::Store;
use uuid::Uuid;

use crate::support::stores::{TestStore, on_both_stores, wait_until_blocked};
use crate::support::{eventually, process};

on_both_stores!(World =>
    applying_twice_changes_nothing_the_second_time,
    removed_declarations_end_only_with_prune,
    another_secret_is_a_rotation,
    the_networks_of_a_token_are_declared,
    names_changed_over_scim_are_set_back,
    the_file_can_follow_a_name_changed_over_scim,
    apply_keeps_users_and_tokens_created_elsewhere,
    app_groups_in_permissions_must_exist,
    permission_sets_are_groups,
    the_commands_report_their_changes,
);

const SECRET: &str = "secret-of-the-identity-provider";

const FILE: &str = "
company: Acme Inc.
scim_tokens: [{name: idp, secret: secret-of-the-identity-provider}]
dashboard_users:
  - user_name: ann@acme.example
    given_name: Ann
    family_name: Lee
    department: CRM
    permissions:
      company: [manage_company_settings]
      workspaces: [{workspace: acme, permissions: [send], teams: [{name: Berlin, permissions: [view]}]}]
  - user_name: bo@acme.example
---
workspace: acme
";

struct World {
    app: App,
    test: TestStore,
}

impl World {
    async fn new(test: TestStore) -> Self {
        let app = App::open(test.config.clone()).await.unwrap();
        setup::run(&app).await.unwrap();
        Self { app, test }
    }

    /// Applies the whole file; returns the outcome of the company.
    async fn apply(&self, text: &str, options: Options) -> Result<Applied, String> {
        let declared = file::read(text, &|_| None).map_err(|error| error.to_string())?;
        for workspace in &declared.workspaces {
            let applied = apply::apply(&self.app, workspace, options).await;
            applied.map_err(|error| error.to_string())?;
        }
        let company = declared.company.expect("a company");
        let applied = apply_company(&self.app, &company, options).await;
        applied.map_err(|error| error.to_string())
    }

    async fn changes(&self, text: &str, options: Options) -> Vec<String> {
        let applied = self.apply(text, options).await.unwrap();
        applied.changes.iter().map(ToString::to_string).collect()
    }

    async fn users(&self) -> Vec<String> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let users = scim::list_declared::<User>(&mut tx).await.unwrap();
        users.into_iter().map(|user| format!("{user:?}")).collect()
    }

    /// Within seconds a token with that secret is taken, or is no longer.
    async fn wait_until_known(&self, is_known: bool, secret: &str) {
        eventually("the process knows of the token", async || {
            tokens::find(&self.app.scim, secret).await.unwrap().is_some() == is_known
        })
        .await;
    }

    /// What a call over SCIM does that gives a declared user another name.
    async fn rename(&self, name: &str, new_name: &str) {
        let mut tx = self.app.store.write().await.unwrap();
        let users = scim::list_declared::<User>(&mut tx).await.unwrap();
        let stored = users.into_iter().find(|user| user.value.user_name == name).expect(name);
        let user = User { user_name: new_name.into(), ..stored.value.clone() };
        scim::update(&mut tx, stored, user, 0).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// The declared users: id and name.
    async fn names(&self) -> Vec<(Uuid, String)> {
        let mut tx = self.app.store.snapshot().await.unwrap();
        let users = scim::list_declared::<User>(&mut tx).await.unwrap();
        users.into_iter().map(|user| (user.id, user.value.user_name)).collect()
    }

    /// A user that is not declared.
    async fn make(&self, user: &User) {
        let mut tx = self.app.store.write().await.unwrap();
        scim::insert(&mut tx, user, false, 0).await.unwrap();
        tx.commit().await.unwrap();
    }
}

const PLAIN: Options = Options { dry_run: false, prune: false, confirmed: false };
const PRUNE: Options = Options { dry_run: false, prune: true, confirmed: false };

fn user(name: &str) -> User {
    User {
        user_name: name.into(),
        external_id: Some("7".into()),
        active: Some(false),
        ..User::default()
    }
}

async fn applying_twice_changes_nothing_the_second_time(world: World) {
    let dry = Options { dry_run: true, prune: false, confirmed: false };
    let all = [
        "+ company Acme Inc.",
        "+ scim_token idp",
        "+ dashboard_user ann@acme.example",
        "+ dashboard_user bo@acme.example",
    ];
    assert_eq!(world.changes(FILE, dry).await, all, "a workspace of the same file is taken");
    assert!(world.users().await.is_empty());
    world.wait_until_known(false, SECRET).await;
    assert_eq!(world.changes(FILE, PLAIN).await, all);
    world.wait_until_known(true, SECRET).await;
    let before = world.users().await;
    assert_eq!(before.len(), 2);
    assert!(world.changes(FILE, PLAIN).await.is_empty());
    assert_eq!(world.users().await, before);

    let changed = FILE.replace("CRM", "Sales").replace("ann@", "Ann@").replace("Inc.", "Ltd.");
    assert_eq!(
        world.changes(&changed, PLAIN).await,
        [
            "~ company Acme Ltd. (was Acme Inc.)",
            "~ dashboard_user Ann@acme.example (user_name, department)",
        ]
    );
    assert!(world.changes(&changed, PLAIN).await.is_empty());
}

async fn removed_declarations_end_only_with_prune(world: World) {
    world.apply(FILE, PLAIN).await.unwrap();
    let none = "company: Acme Inc.\n";
    let applied = world.apply(none, PLAIN).await.unwrap();
    assert!(applied.changes.is_empty() && applied.notes.len() == 3, "{:?}", applied.notes);
    world.wait_until_known(true, SECRET).await;
    assert_eq!(
        world.changes(none, PRUNE).await,
        [
            "- scim_token idp (revoked)",
            "- dashboard_user ann@acme.example",
            "- dashboard_user bo@acme.example",
        ]
    );
    assert!(world.users().await.is_empty());
    world.wait_until_known(false, SECRET).await;
    assert!(world.changes(none, PRUNE).await.is_empty());
}

async fn another_secret_is_a_rotation(world: World) {
    world.apply(FILE, PLAIN).await.unwrap();
    let other = FILE.replace(SECRET, "another-secret-of-that-provider");
    let changes = world.changes(&other, PLAIN).await;
    assert_eq!(changes, ["~ scim_token idp (new secret; the previous one is revoked)"]);
    world.wait_until_known(false, SECRET).await;
    world.wait_until_known(true, "another-secret-of-that-provider").await;
    // A secret can move to another name.
    let moved = other.replace("name: idp", "name: okta");
    assert_eq!(
        world.changes(&moved, PRUNE).await,
        ["- scim_token idp (revoked)", "+ scim_token okta"]
    );
}

/// Only PostgreSQL has two writing transactions at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_revoked_during_an_apply_is_revoked_once() {
    let world = World::new(TestStore::postgres().await).await;
    world.apply(FILE, PLAIN).await.unwrap();
    let none = "company: Acme Inc.\n";
    let company = file::read(none, &|_| None).unwrap().company.expect("a company");
    let mut tx = world.app.store.write().await.unwrap();
    tokens::revoke(&mut tx, &world.app.clock, "idp").await.unwrap();
    let Store::Postgres { pool, .. } = &world.app.store else { panic!("PostgreSQL") };
    let commit = async {
        // The apply waits for the revocation.
        wait_until_blocked(pool).await;
        tx.commit().await.unwrap();
    };
    let (applied, ()) = tokio::join!(apply_company(&world.app, &company, PRUNE), commit);
    let error = applied.err().expect("the token was revoked by another transaction");
    assert!(matches!(error, ApplyError::ChangedConcurrently(_)), "{error}");
    assert!(error.can_retry());
    assert_eq!(
        world.changes(none, PRUNE).await,
        ["- dashboard_user ann@acme.example", "- dashboard_user bo@acme.example"]
    );
}

async fn the_networks_of_a_token_are_declared(world: World) {
    world.apply(FILE, PLAIN).await.unwrap();
    let narrow = FILE.replace("provider}]", "provider, allow: ['203.0.113.9/24', '::1']}]");
    let changes = world.changes(&narrow, PLAIN).await;
    assert_eq!(changes, ["~ scim_token idp (from 203.0.113.0/24, ::1/128)"]);
    assert!(world.changes(&narrow, PLAIN).await.is_empty());
    eventually("they are known", async || {
        let token = tokens::find(&world.app.scim, SECRET).await.unwrap().expect("the token");
        token.allow.len() == 2
    })
    .await;
    assert_eq!(world.changes(FILE, PLAIN).await, ["~ scim_token idp (from everywhere)"]);
}

async fn names_changed_over_scim_are_set_back(world: World) {
    world.apply(FILE, PLAIN).await.unwrap();
    let before = world.names().await;
    world.rename("ann@acme.example", "lee@acme.example").await;
    let changes = world.changes(FILE, PLAIN).await;
    assert_eq!(changes, ["~ dashboard_user ann@acme.example (user_name)"]);
    assert_eq!(world.names().await, before, "the same users, and no others");

    // Of two that have each other's name.
    world.rename("ann@acme.example", "somebody").await;
    world.rename("bo@acme.example", "ann@acme.example").await;
    world.rename("somebody", "bo@acme.example").await;
    assert_eq!(world.changes(FILE, PLAIN).await.len(), 2);
    assert_eq!(world.names().await, before);

    // Another one has the name by now.
    world.rename("ann@acme.example", "lee@acme.example").await;
    world.make(&user("ann@acme.example")).await;
    let error = world.apply(FILE, PLAIN).await.err().unwrap();
    assert!(error.contains("ann@acme.example") && error.contains("over SCIM"), "{error}");
}

async fn the_file_can_follow_a_name_changed_over_scim(world: World) {
    world.apply(FILE, PLAIN).await.unwrap();
    world.rename("ann@acme.example", "lee@acme.example").await;
    let renamed = world.names().await;
    let follows = FILE.replace("ann@", "Lee@");
    let changes = world.changes(&follows, PRUNE).await;
    assert_eq!(changes, ["~ dashboard_user Lee@acme.example (name in the file, user_name)"]);
    assert!(world.changes(&follows, PRUNE).await.is_empty());
    let ids = |names: &[(Uuid, String)]| names.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>();
    assert_eq!(ids(&world.names().await), ids(&renamed), "the same users");

    // One who is in the file no more has another's name: it is free once that one is removed.
    world.rename("bo@acme.example", "somebody").await;
    world.rename("Lee@acme.example", "bo@acme.example").await;
    let (start, rest) = follows.split_once("  - user_name: Lee@").unwrap();
    let (_, end) = rest.split_once("  - user_name: bo@").unwrap();
    let without = format!("{start}  - user_name: bo@{end}");
    let error = world.apply(&without, PLAIN).await.err().unwrap();
    assert!(error.contains("bo@acme.example"), "{error}");
    assert_eq!(
        world.changes(&without, PRUNE).await,
        ["- dashboard_user bo@acme.example", "~ dashboard_user bo@acme.example (user_name)"]
    );
}

async fn apply_keeps_users_and_tokens_created_elsewhere(world: World) {
    let cy = user("cy@acme.example");
    world.make(&cy).await;
    let mut tx = world.app.store.write().await.unwrap();
    let by_hand = NewToken { name: "by hand", allow: &[], requires_origin: true, declared: false };
    tokens::create(&mut tx, &world.app.clock, by_hand).await.unwrap();
    tx.commit().await.unwrap();
    world.apply(FILE, PRUNE).await.unwrap();
    let mut tx = world.app.store.snapshot().await.unwrap();
    assert!(scim::is_taken(&mut tx, &cy).await.unwrap());
    let all = tokens::list(&mut tx).await.unwrap();
    assert!(all.iter().any(|token| token.name == "by hand" && token.revoked_at.is_none()));
    tx.commit().await.unwrap();

    let error = world.apply(&FILE.replace("bo@", "CY@"), PLAIN).await.err().unwrap();
    assert!(error.contains("CY@acme.example") && error.contains("over SCIM"), "{error}");
    let error =
        world.apply(&FILE.replace("name: idp", "name: by hand"), PLAIN).await.err().unwrap();
    assert!(error.contains("by hand") && error.contains("scim-token create"), "{error}");

    // Of a declared user, what the file says nothing of.
    let mut tx = world.app.store.write().await.unwrap();
    let bo = scim::list_declared::<User>(&mut tx).await.unwrap().remove(1);
    scim::update(&mut tx, bo, user("bo@acme.example"), 0).await.unwrap();
    tx.commit().await.unwrap();
    assert!(world.changes(FILE, PLAIN).await.is_empty());
}

async fn app_groups_in_permissions_must_exist(world: World) {
    let alone = FILE.split("---").next().unwrap();
    let error = world.apply(alone, PLAIN).await.err().unwrap();
    assert_eq!(error, "dashboard_user ann@acme.example: unknown workspace acme");
    world.apply(FILE, PLAIN).await.unwrap();
    assert!(world.changes(alone, PLAIN).await.is_empty());
}

async fn permission_sets_are_groups(world: World) {
    let with_set = FILE.replace(
        "dashboard_users:",
        "permission_sets: [{name: Marketing, permissions: {company: [send]}}]\ndashboard_users:",
    );
    let changes = world.changes(&with_set, PLAIN).await;
    assert!(changes.contains(&"+ permission_set Marketing".to_owned()), "{changes:?}");
    assert!(world.changes(&with_set, PLAIN).await.is_empty());
    let more = with_set.replace("company: [send]", "company: [send, see]");
    assert_eq!(world.changes(&more, PLAIN).await, ["~ permission_set Marketing (permissions)"]);
    let renamed = with_set.replace("name: Marketing", "name: MARKETING");
    let changes = world.changes(&renamed, PLAIN).await;
    assert_eq!(changes, ["~ permission_set MARKETING (name, permissions)"]);
    let unknown = with_set.replace("company: [send]", "workspaces: [{workspace: none}]");
    let error = world.apply(&unknown, PLAIN).await.err().unwrap();
    assert_eq!(error, "permission_set Marketing: unknown workspace none");
    let twice = with_set.replace("permission_sets: [", "permission_sets: [{name: marketing}, ");
    assert!(world.apply(&twice, PLAIN).await.is_err(), "two of one name");
    let groups = async || {
        let mut tx = world.app.store.snapshot().await.unwrap();
        scim::list_declared::<Group>(&mut tx).await.unwrap().len()
    };
    assert!(world.changes(FILE, PLAIN).await.is_empty());
    assert_eq!(groups().await, 1);
    assert_eq!(world.changes(FILE, PRUNE).await, ["- permission_set MARKETING"]);
    assert_eq!(groups().await, 0);
}

async fn the_commands_report_their_changes(world: World) {
    let file = world.test.config.data.join("acme.yaml");
    std::fs::write(&file, FILE).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = process::command(&world.test.config.data, &world.test.environment());
        command.args(arguments);
        async {
            let output = process::output(command).await;
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{error}");
            String::from_utf8(output.stdout).unwrap()
        }
    };
    let path = file.to_str().unwrap();
    let text = run(&["apply", path]).await;
    assert!(text.contains("Acme Inc.:\n  + company") && !text.contains(SECRET), "{text}");
    assert!(run(&["apply", path]).await.contains("Acme Inc.:\n  = no changes"));
    let okta = run(&["scim-token", "create", "--name", "okta", "--without-origin"]).await;
    assert!(run(&["scim-token", "list", "--json"]).await.contains(r#""requires_origin":false"#));
    assert!(run(&["scim-token", "list"]).await.contains("not required"));
    assert_eq!(run(&["scim-token", "revoke", "okta"]).await, "revoked okta\n");
    assert!(okta.starts_with("lss_"), "{okta}");
    let secret = run(&["scim-token", "create", "--name", "cli", "--allow", "10.1.2.3/8"]).await;
    assert!(secret.starts_with("lss_"), "{secret}");
    world.wait_until_known(true, secret.trim()).await;
    let text = run(&["scim-token", "list", "--json"]).await;
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains(secret.trim()) && !text.contains(SECRET));
    assert!(text.contains(r#""allow":["10.0.0.0/8"]"#), "{text}");
    let text = run(&["scim-token", "list"]).await;
    assert!(text.contains("everywhere") && text.contains("10.0.0.0/8"), "{text}");
    assert_eq!(run(&["scim-token", "revoke", "cli"]).await, "revoked cli\n");
    world.wait_until_known(false, secret.trim()).await;
}
