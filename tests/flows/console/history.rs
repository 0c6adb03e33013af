//! The history of a workspace and of the installation: charts with their tables, by right.

use reqwest::StatusCode;
use serde_json::Value;

use super::{execute, workspace_id};
use crate::support::console::{self, Browser};
use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, eventually};

async fn printed(fleet: &Fleet, arguments: &[&str]) -> Vec<Value> {
    let printed = fleet.run(&[&["history", "--json"], arguments].concat()).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The rows of a metric in the history; of the last half hour only, if `is_new`.
async fn recorded(fleet: &Fleet, metric: &str, is_new: bool) -> u64 {
    let sql = if is_new {
        "UPDATE history SET value = value
         WHERE metric = $1 AND at > CAST(unixepoch('subsec') * 1000 AS INTEGER) - 1800000"
    } else {
        "UPDATE history SET value = value WHERE metric = $1"
    };
    execute(fleet, sql, metric).await
}

/// Moves what was recorded and counted to an hour before. The current minute is then recorded
/// again.
async fn end_the_hour(fleet: &Fleet) {
    eventually("a minute is recorded", async || recorded(fleet, "dead_letters", false).await > 0)
        .await;
    for sql in [
        "UPDATE history SET at = at - 3600000 WHERE metric <> $1",
        "UPDATE history_counts SET at = at - 3600000 WHERE metric <> $1",
    ] {
        execute(fleet, sql, "").await;
    }
    eventually("a later minute is recorded", async || {
        recorded(fleet, "dead_letters", true).await > 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_in_the_history_of_its_workspace_only() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let files = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
    let mut apis = fleet.apply(&files).await;
    let acme = apis.remove(0);
    let vera = Browser::signed_in(&fleet, "vera", "viewer").await;
    let export = acme.export_all().await.prefix;
    acme.done(&export).await;

    end_the_hour(&fleet).await;
    eventually("the export is counted", async || recorded(&fleet, "exports_done", false).await > 0)
        .await;
    let sum = |rows: &[Value], metric: &str| -> i64 {
        rows.iter().filter_map(|row| row[metric].as_i64()).sum()
    };
    let of_acme = printed(&fleet, &["--workspace", "acme", "--by", "minute"]).await;
    assert_eq!(sum(&of_acme, "exports_done"), 1, "{of_acme:?}");
    assert!(of_acme.iter().all(|row| row["log_behind"].is_null()), "{of_acme:?}");
    let of_beta = printed(&fleet, &["--workspace", "beta", "--by", "minute"]).await;
    assert_eq!(sum(&of_beta, "exports_done"), 0, "{of_beta:?}");
    let all = printed(&fleet, &[]).await;
    assert_eq!(sum(&all, "exports_done"), 1, "{all:?}");
    assert!(all.iter().any(|row| row["log_behind"].is_i64()), "{all:?}");

    for span in ["", "?span=day", "?span=month", "?span=year"] {
        let page = vera.get(&format!("/w/acme/history{span}")).await;
        assert_eq!(page.status, 200, "{span}: {page:?}");
        assert!(page.text.contains("Completed: 1 in total"), "{span}: {}", page.text);
        assert!(page.text.contains("role=\"img\"") && page.text.contains("<caption"), "{span}");
        assert!(!page.text.contains("style="), "{span}: {}", page.text);
        assert!(!page.text.contains("id=\"lag-history\""), "{span}: {}", page.text);
    }
    let beta = vera.get("/w/beta/history").await.text;
    assert!(beta.contains("Completed: 0 in total"), "{beta}");
    let installation = vera.get("/history?span=month").await;
    for id in ["export-history", "message-history", "lag-history", "oldest-work", "dead-letters"] {
        assert!(installation.text.contains(&format!("id=\"{id}\"")), "{id}");
    }
    for path in ["/", "/system"] {
        assert!(vera.get(path).await.text.contains("id=\"lag-history\""), "{path}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_installation_has_an_empty_history() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let vera = Browser::signed_in(&fleet, "vera", "viewer").await;
    let page = vera.get("/w/acme/history").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("The history begins"), "{}", page.text);
    let invalid = vera.get("/w/acme/history?span=%3Cscript%3E").await;
    assert_eq!(invalid.status, StatusCode::BAD_REQUEST, "{invalid:?}");
    assert!(!invalid.text.contains("<script>"), "{}", invalid.text);
    assert_eq!(vera.get("/w/other/history").await.status, 404);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_shows_only_what_the_person_may_see() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme"), WorkspaceFile::new("beta")]).await;
    let acme = workspace_id(&fleet, "acme").await.to_string();
    let sql = "INSERT INTO history_counts (workspace_id, metric, value)
               VALUES (CAST($1 AS INTEGER), 'exports_failed', 12)";
    assert_eq!(execute(&fleet, sql, &acme).await, 1);
    end_the_hour(&fleet).await;
    eventually("they are recorded", async || recorded(&fleet, "exports_failed", false).await > 0)
        .await;

    let ana = Browser::signed_in(&fleet, "ana", "viewer").await;
    assert!(ana.get("/w/acme/history").await.text.contains("Failed: 12 in total"));
    // Rights in one workspace, as permissions of a dashboard user grant them.
    let beta = workspace_id(&fleet, "beta").await;
    let rights =
        format!(r#"{{"everywhere": [], "in_workspaces": {{"{beta}": ["exports.view"]}}}}"#);
    assert_eq!(execute(&fleet, "UPDATE console_sessions SET rights = $1", &rights).await, 1);
    assert_eq!(ana.get("/w/acme/history").await.status, 404);
    assert_eq!(ana.get("/history").await.status, 403);
    let page = ana.get("/w/beta/history").await.text;
    assert!(page.contains("id=\"export-history\""), "{page}");
    assert!(page.contains("Failed: 0 in total"), "{page}");
    assert!(!page.contains("id=\"message-history\"") && !page.contains("id=\"objects\""), "{page}");
    let overview = ana.get("/").await.text;
    assert!(!overview.contains("id=\"lag-history\"") && !overview.contains("12 in total"));
    fleet.close().await;
}
