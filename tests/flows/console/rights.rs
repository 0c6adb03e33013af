//! Which pages and actions a session of each role may use.

use serde_json::Value;

use crate::support::WorkspaceFile;
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};

/// Every page and action, as `longshore console rights` lists them; signing out is last.
async fn actions(fleet: &Fleet) -> Vec<Value> {
    let printed = fleet.run(&["console", "rights", "--json"]).await;
    let mut actions: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(actions.len() > 10, "{printed}");
    actions.sort_by_key(|action| action["path"] == "/sign-out");
    actions
}

/// The path of an object that does not exist, in a workspace.
fn path(action: &Value, workspace: &str) -> String {
    let path = action["path"].as_str().expect("a path").replace("{workspace}", workspace);
    path.replace("{object_prefix}", "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10-1795249527")
        .replace("{id}", "1f0c7a52-3a55-4b0e-9d3e-6f1c5e2b7a10")
        .replace("{dispatch_id}", "0197b6a83c557e119a1f3f0f3c2d6e54")
}

async fn use_action(browser: &Browser, action: &Value, path: &str) -> PageResponse {
    if action["method"] == "GET" { browser.get(path).await } else { browser.post(path, &[]).await }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_use_its_pages_and_actions_and_no_others() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let actions = actions(&fleet).await;
    for role in ["viewer", "operator", "admin"] {
        let browser = Browser::signed_in(&fleet, "ana", role).await;
        for action in &actions {
            // It needs no session, and its token is wrong.
            if action["path"] == "/sign-in" {
                continue;
            }
            let roles = action["roles"].as_array().expect("a list");
            let is_allowed = roles.iter().any(|allowed| allowed == role);
            let path = path(action, "acme");
            let response = use_action(&browser, action, &path).await;
            let status = response.status.as_u16();
            let is_signed_out =
                status == 303 && response.location().starts_with("/sign-in") && path != "/sign-out";
            let is_refused = matches!(status, 401 | 403) || is_signed_out;
            assert_eq!(!is_refused, is_allowed, "{role} {path}: {response:?}");
            assert!(status < 500 && (is_allowed || status == 403), "{role} {path}: {response:?}");
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_session_there_is_only_the_sign_in_page() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let browser = Browser::new(&fleet);
    for cookie in [None, Some(""), Some("lsc_guessed")] {
        if let Some(cookie) = cookie {
            browser.set_cookie("longshore_console", cookie);
        }
        for action in actions(&fleet).await {
            if action["needs"] == "nothing" {
                continue;
            }
            let path = path(&action, "acme");
            let response = match action["method"].as_str() {
                Some("GET") => browser.get(&path).await,
                _ => browser.submit(&path, &[("form_token", "guessed")]).await,
            };
            assert_eq!(response.status, 303, "{path}: {response:?}");
            assert!(response.location().starts_with("/sign-in"), "{path}: {response:?}");
        }
    }
    for path in ["/unknown", "/w", "/assets/unknown.js", "/.git/config", "/docs"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_unknown_has_no_pages() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    for action in actions(&fleet).await {
        if !action["path"].as_str().is_some_and(|path| path.contains("{workspace}")) {
            continue;
        }
        for workspace in ["beta", "..%2f", "acme%00", "%3Cscript%3E"] {
            let path = path(&action, workspace);
            let response = use_action(&browser, &action, &path).await;
            assert_eq!(response.status, 404, "{path}: {response:?}");
            assert!(!response.text.contains("<script>"), "{}", response.text);
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_is_shown_and_downloaded() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let browser = Browser::signed_in(&fleet, "Ana <b>", "admin").await;
    let page = browser.get("/audit?action=console.").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("console.sign_in"), "{}", page.text);
    assert!(page.text.contains("Ana &lt;b&gt;") && !page.text.contains("<b>Ana"), "{}", page.text);
    let lines = browser.get("/audit?action=console.&format=ndjson").await;
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    let entries: Vec<Value> =
        lines.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let actions: Vec<&str> =
        entries.iter().map(|entry| entry["action"].as_str().expect("an action")).collect();
    assert_eq!(actions, ["console.sign_in", "console.link"], "the latest first");
    let unknown = browser.get("/audit?workspace=beta").await;
    assert_eq!(unknown.status, 422, "{unknown:?}");
    let of_workspace = browser.get("/audit?workspace=acme&action=console.").await;
    assert!(!of_workspace.text.contains("console.sign_in"), "{}", of_workspace.text);
    fleet.close().await;
}
