//! The operator's list of exports, over all workspaces, from the database.

use serde_json::Value;

use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::{self, on_pool};
use crate::support::{Api, WorkspaceFile, eventually, open_work, user_records};

/// The rows of `export list --json` with these arguments.
async fn list(fleet: &Fleet, arguments: &[&str]) -> Vec<Value> {
    let printed = fleet.run(&[&["export", "list", "--json"][..], arguments].concat()).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn prefixes(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["object_prefix"].as_str().expect("text")).collect()
}

/// The exports that the API lists for a key.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("/users/export?{query}")).await;
    assert_eq!(page.status, 200, "{query}: {page:?}");
    let exports = page.body["exports"].as_array().expect("a list");
    prefixes(exports).into_iter().map(str::to_owned).collect()
}

/// Changes the row of an export.
async fn change(fleet: &Fleet, sql: &'static str, prefix: &str) {
    let store = longshore::app::connect(&fleet.config()).await.expect("the store opens");
    let changed = on_pool!(&store, pool => {
        sqlx::query(sql).bind(prefix).execute(pool).await.map(|done| done.rows_affected())
    });
    assert_eq!(changed.expect("an update"), 1);
    store.close().await;
}

/// Two workspaces, each with an export that is done; the newest first.
async fn two_workspaces(backend: Backend) -> (Fleet, [Api; 2], [String; 2]) {
    let fleet = Fleet::start(backend, &[]).await;
    let files = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
    let [acme, beta]: [Api; 2] = fleet.apply(&files).await.try_into().ok().expect("two");
    let mut exports = Vec::new();
    for api in [&acme, &beta] {
        let prefix = api.export_all().await.prefix;
        api.done(&prefix).await;
        exports.insert(0, prefix);
    }
    (fleet, [acme, beta], exports.try_into().expect("two"))
}

async fn operators_list_all_workspaces(backend: Backend) {
    let (fleet, [acme, _], [newest, oldest]) = two_workspaces(backend).await;
    let all = list(&fleet, &[]).await;
    assert_eq!(prefixes(&all), [&newest, &oldest]);
    let of_both: Vec<&str> = all.iter().filter_map(|row| row["workspace"].as_str()).collect();
    assert_eq!(of_both, ["beta", "acme"]);
    assert!(all.iter().all(|row| row["state"] == "done" && row.get("mark").is_none()), "{all:?}");
    // Whoever has a signed URL needs no key.
    for row in &all {
        assert!(row["manifest"]["sha256"].is_string(), "{row}");
        assert!(!row.to_string().contains("signature="), "{row}");
    }
    let table = fleet.run(&["export", "list"]).await;
    assert_eq!(table.lines().count(), 3, "{table}");
    for (arguments, found) in [
        (&["--workspace", "acme"][..], &[&oldest][..]),
        (&["--limit", "1"], &[&newest]),
        (&["--state", "done", "--state", "failed"], &[&newest, &oldest]),
        (&["--state", "failed"], &[]),
        (&["--active"], &[]),
        (&["--mark", "stalled", "--mark", "slow", "--mark", "late"], &[]),
        (&["--mark", "late", "--state", "done"], &[]),
        (&["--audience", "control-group"], &[&newest, &oldest]),
        (&["--audience", "segment"], &[]),
        (&["--older-than", "1h"], &[]),
        (&["--since", "1h"], &[&newest, &oldest]),
        (&["--since", "2999-01-01T00:00Z"], &[]),
    ] {
        let rows = list(&fleet, arguments).await;
        assert_eq!(prefixes(&rows), *found, "{arguments:?}");
    }
    // One of them, with its address.
    let shown = fleet.run(&["export", "status", &newest, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((&shown["workspace"], &shown["state"]), (&"beta".into(), &"done".into()));
    for url in [&shown["url"], &shown["manifest"]["url"]] {
        assert!(url.as_str().is_some_and(|url| url.contains(&newest)), "{shown}");
    }
    assert!(fleet.run(&["export", "status", &newest]).await.contains("beta"));
    // What has ended cannot be cancelled, and nobody has an unknown one.
    let unknown = format!("{}-1795249527", uuid::Uuid::nil());
    for (arguments, status) in [
        (["export", "cancel", &newest], 1),
        (["export", "status", &unknown], 1),
        (["export", "status", "unknown"], 2),
    ] {
        assert_eq!(fleet.command(&arguments).await.status.code(), Some(status), "{arguments:?}");
    }
    let dry_run = ["export", "cancel", &newest, "--dry-run"];
    assert_eq!(fleet.command(&dry_run).await.status.code(), Some(1));
    // Page by page. The last one is full, and has no cursor.
    for query in ["limit=1", "limit=1&state=done"] {
        let page = acme.get(&format!("/users/export?{query}")).await.body;
        assert_eq!(prefixes(page["exports"].as_array().expect("a list")), [&oldest], "{query}");
        assert!(page.get("next_cursor").is_none(), "{query}: {page}");
    }
    assert_eq!(prefixes(&list(&fleet, &["--limit", "1", "--after", &newest]).await), [&oldest]);
    assert!(list(&fleet, &["--after", &oldest]).await.is_empty());
    // With a key, it is the workspace's list, with the filters of the API.
    let with_key = ["--url", fleet.base(), "--key", acme.key()];
    assert_eq!(prefixes(&list(&fleet, &with_key).await), [&oldest]);
    let after = [&["--after", &oldest][..], &with_key].concat();
    assert!(list(&fleet, &after).await.is_empty());
    for (filter, found) in [
        (["--state", "done"], &[&oldest][..]),
        (["--state", "failed"], &[]),
        (["--mark", "late"], &[]),
    ] {
        let rows = list(&fleet, &[&filter[..], &with_key].concat()).await;
        assert_eq!(prefixes(&rows), *found, "{filter:?}");
    }
    let filters = [
        &["--workspace", "acme"][..],
        &["--state", "done", "--state", "failed"],
        &["--active"],
        &["--mark", "late", "--mark", "slow"],
    ];
    for filter in filters {
        let filtered = [&["export", "list"][..], filter, &with_key].concat();
        let output = fleet.command(&filtered).await;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{filter:?}: {error}");
        assert!(error.contains(filter[0]) && error.contains("--key \"\""), "{error}");
    }
    let both = fleet.command(&["export", "list", "--active", "--state", "done"]).await;
    assert_eq!(both.status.code(), Some(2));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_list_all_workspaces_on_sqlite() {
    operators_list_all_workspaces(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_list_all_workspaces_on_postgres() {
    operators_list_all_workspaces(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_find_and_cancel_an_export_without_a_worker() {
    let (mut fleet, [acme, _], _) = two_workspaces(Backend::Fleet(1)).await;
    fleet.stop("worker-1");
    let prefix = acme.export_all().await.prefix;
    let sql =
        "UPDATE export_jobs SET requested_at = requested_at - 120000 WHERE object_prefix = $1";
    change(&fleet, sql, &prefix).await;
    let rows = list(&fleet, &["--older-than", "1m", "--state", "queued"]).await;
    assert_eq!(prefixes(&rows), [&prefix]);
    assert_eq!((&rows[0]["mark"], &rows[0]["tasks_held"]), (&"stalled".into(), &0.into()));
    for (filter, found) in [
        (&["--active"][..], &[&prefix][..]),
        (&["--mark", "stalled"], &[&prefix]),
        (&["--mark", "late", "--mark", "stalled", "--state", "queued"], &[&prefix]),
        (&["--mark", "stalled", "--state", "running"], &[]),
        (&["--mark", "slow"], &[]),
        (&["--mark", "late"], &[]),
    ] {
        assert_eq!(prefixes(&list(&fleet, filter).await), *found, "{filter:?}");
    }
    assert_eq!(listed(&acme, "mark=stalled").await, [prefix.as_str()]);
    assert!(listed(&acme, "mark=late").await.is_empty());
    // It is both, and the more urgent mark is shown.
    let late = "UPDATE export_jobs SET late_at = requested_at + 1000 WHERE object_prefix = $1";
    change(&fleet, late, &prefix).await;
    let rows = list(&fleet, &["--mark", "late"]).await;
    assert_eq!((prefixes(&rows), &rows[0]["mark"]), (vec![prefix.as_str()], &"stalled".into()));
    let printed = fleet.run(&["export", "cancel", &prefix]).await;
    assert!(printed.contains("acme") && printed.contains("database"), "{printed}");
    assert_eq!(acme.status(&prefix).await["state"], "cancelled");
    // Again, without effect: in the database, and with a key.
    let with_key = ["--url", fleet.base(), "--key", acme.key()];
    for options in [&[][..], &["--dry-run"], &with_key, &[&with_key[..], &["--dry-run"]].concat()] {
        let arguments = [&["export", "cancel", &prefix][..], options].concat();
        let printed = fleet.run(&arguments).await;
        assert!(printed.contains("already") && !printed.contains("deleted"), "{printed}");
    }
    fleet.resume("worker-1");
    fleet.close().await;
}

/// The API has the operator's marks, for the exports that the key may see.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_lists_exports_by_mark() {
    let (mut fleet, [acme, beta], [_, former]) = two_workspaces(Backend::Fleet(1)).await;
    let create = ["key", "create", "--workspace", "acme", "--name", "segments", "--permission"];
    let of_segments = fleet.run(&[&create[..], &["users.export.segment"]].concat()).await;
    let of_segments = Api::new(fleet.base(), of_segments.trim());
    fleet.stop("worker-1");
    let (first, second) = (acme.export_all().await.prefix, acme.export_all().await.prefix);
    // Both are slow next to the former one.
    let fast = "UPDATE export_jobs SET users = 1000000, started_at = completed_at - 1000
                WHERE object_prefix = $1";
    change(&fleet, fast, &former).await;
    let slow = "UPDATE export_jobs SET state = 'running', users = 1000000,
                    started_at = requested_at - 120000, late_at = requested_at
                WHERE object_prefix = $1";
    for prefix in [&first, &second] {
        change(&fleet, slow, prefix).await;
    }
    for (api, query, found) in [
        (&acme, "mark=slow", &[&second, &first][..]),
        (&acme, "mark=late", &[&second, &first]),
        (&acme, "mark=slow&state=running", &[&second, &first]),
        (&acme, "mark=slow&state=queued", &[]),
        (&acme, "mark=slow&state=done", &[]),
        (&beta, "mark=slow", &[]),
        (&of_segments, "mark=slow", &[]),
    ] {
        assert_eq!(listed(api, query).await.iter().collect::<Vec<_>>(), found, "{query}");
    }
    // From page to page.
    let page = acme.get("/users/export?mark=slow&limit=1").await;
    let cursor = page.body["next_cursor"].as_str().expect("a cursor");
    let last = acme.get(&format!("/users/export?mark=slow&limit=1&cursor={cursor}")).await.body;
    assert_eq!(prefixes(last["exports"].as_array().expect("a list")), [&first]);
    assert!(last.get("next_cursor").is_none(), "{last}");
    let with_key = ["--mark", "slow", "--url", fleet.base(), "--key", acme.key()];
    assert_eq!(prefixes(&list(&fleet, &with_key).await), [&second, &first]);
    let next = [&["--after", &second, "--limit", "1"][..], &with_key].concat();
    assert_eq!(prefixes(&list(&fleet, &next).await), [&first]);
    for wrong in ["mark=", "mark=Slow", "mark=fast", "mark=slow&mark=late"] {
        let refused = acme.get(&format!("/users/export?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
        assert_eq!(refused.body["code"], "invalid-request", "{wrong}");
    }
    fleet.resume("worker-1");
    fleet.close().await;
}

/// By the database and by the API: its state has changed since the previous page.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_continues_after_an_export_that_left_the_filter() {
    let mut fleet = Fleet::start(Backend::Fleet(1), &[]).await;
    let acme = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    fleet.stop("worker-1");
    let (oldest, newest) = (acme.export_all().await.prefix, acme.export_all().await.prefix);
    let queued = ["--state", "queued", "--limit", "1"];
    let with_key = [&queued[..], &["--url", fleet.base(), "--key", acme.key()]].concat();
    assert_eq!(prefixes(&list(&fleet, &with_key).await), [&newest]);
    assert_eq!(acme.delete(&format!("/users/export/{newest}")).await.status, 200);
    for options in [&queued[..], &with_key] {
        let next = [&["--after", &newest][..], options].concat();
        assert_eq!(prefixes(&list(&fleet, &next).await), [&oldest], "{options:?}");
        let end = [&["--after", &oldest][..], options].concat();
        assert!(list(&fleet, &end).await.is_empty(), "{options:?}");
        let unknown = format!("{}-1795249527", uuid::Uuid::nil());
        let unknown = [&["export", "list", "--after", &unknown][..], options].concat();
        assert_eq!(fleet.command(&unknown).await.status.code(), Some(1), "{options:?}");
    }
    fleet.resume("worker-1");
    fleet.close().await;
}

/// With all rows about it. An export stays while it is in progress, its files are being deleted, or
/// its URL has not expired for long.
async fn an_export_that_ended_long_ago_is_deleted(backend: Backend, worker: &str) {
    let mut fleet = Fleet::start(backend, &[]).await;
    let acme = fleet.apply(&[WorkspaceFile::new("acme")]).await.remove(0);
    let records: Vec<String> = (0..5).map(|number| user_records::simple(number, 1)).collect();
    fleet.import("acme", &records).await;
    let done = async || {
        let accepted = acme.export_all().await;
        acme.done(&accepted.prefix).await;
        accepted
    };
    let (old, recent, linked) = (done().await, done().await.prefix, done().await.prefix);
    let unfinished = done().await.prefix;
    open_work::expire_exports(&fleet).await;
    let cleaned = done().await.prefix;
    fleet.kill(worker);

    // By 401 days.
    let all_times = "UPDATE export_jobs SET requested_at = requested_at - 34646400000,
                         finished_at = finished_at - 34646400000,
                         expires_at = expires_at - 34646400000
                     WHERE object_prefix = $1";
    let without_url = "UPDATE export_jobs SET requested_at = requested_at - 34646400000,
                           finished_at = finished_at - 34646400000
                       WHERE object_prefix = $1";
    let reopened = "UPDATE export_jobs SET requested_at = requested_at - 34646400000,
                        state = 'running', completed_at = NULL, finished_at = NULL,
                        expires_at = NULL
                    WHERE object_prefix = $1";
    let cleaned_later = "UPDATE claims SET due_at = due_at + 86400000
                         WHERE kind = 'export_cleanup'
                           AND job = (SELECT id FROM export_jobs WHERE object_prefix = $1)";
    for (sql, prefix) in [
        (all_times, &old.prefix),
        (without_url, &linked),
        (reopened, &unfinished),
        (all_times, &cleaned),
        (cleaned_later, &cleaned),
    ] {
        change(&fleet, sql, prefix).await;
    }
    let database = fleet.database_url();
    let broken = "INSERT INTO export_broken_users (job_id, service_id, reason)
                  SELECT id, id, 'unreadable' FROM export_jobs";
    assert_eq!(stores::execute(&database, broken).await, 5);
    fleet.launch(worker).await;

    let status = format!("/users/export/{}", old.prefix);
    eventually("it is deleted", async || acme.get(&status).await.status == 404).await;
    let left = list(&fleet, &[]).await;
    assert_eq!(prefixes(&left), [&cleaned, &unfinished, &linked, &recent]);
    for rows in ["SELECT count(*) FROM export_counts", "SELECT count(*) FROM export_broken_users"] {
        assert_eq!(stores::count(&database, rows).await, 4, "{rows}");
    }
    assert_eq!(acme.open(old.address()).await.status, 403, "its URL has expired");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_ended_long_ago_is_deleted_on_sqlite() {
    an_export_that_ended_long_ago_is_deleted(Backend::Embedded, "standalone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_ended_long_ago_is_deleted_on_postgres() {
    an_export_that_ended_long_ago_is_deleted(Backend::Fleet(1), "worker-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_installation_and_a_key_both_ways_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = crate::support::process::command(directory.path(), &Default::default());
    command.args(["export", "list"]);
    let output = crate::support::process::output(command).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in ["LONGSHORE_DATABASE_URL", "LONGSHORE_KEY"] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}
