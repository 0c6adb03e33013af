//! The overview: what needs a look appears with its link, and only in workspaces that the person
//! sees.

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::{execute, workspace_id};
use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::on_pool;
use crate::support::{Api, WorkspaceFile, eventually};

/// Stores a dead letter of a workspace.
async fn bury(fleet: &Fleet, workspace: i32) {
    let store = longshore::app::connect(&fleet.config()).await.expect("the store opens");
    let sql = "INSERT INTO dead_letters
                   (id, consumer_group, topic, partition, position, appended_at, key, payload,
                    request_id, reason, attempts, created_at, workspace_id)
               VALUES ($1, 'ingest', 'tracking', 0, $2, 0, $3, $3, 'request-1', 'why', 1, 0, $2)";
    on_pool!(&store, pool => {
        let insert = sqlx::query(sql).bind(Uuid::now_v7()).bind(workspace).bind(&b"{}"[..]);
        insert.execute(pool).await.map(drop)
    })
    .expect("an insert");
    store.close().await;
}

/// An export that failed, and one without a worker.
async fn failed_and_stalled(fleet: &Fleet, api: &Api) -> [String; 2] {
    let failed = api.export_all().await.prefix;
    api.done(&failed).await;
    let sql = "UPDATE export_jobs SET state = 'failed', error = 'the <b>storage</b> is full'
               WHERE object_prefix = $1";
    assert_eq!(execute(fleet, sql, &failed).await, 1);
    // All its work is done, so no worker takes it.
    let stalled = api.export_all().await.prefix;
    api.done(&stalled).await;
    let sql = "UPDATE export_jobs SET state = 'running', finished_at = NULL, completed_at = NULL,
                      requested_at = requested_at - 120000, error = 'the <b>bucket</b> is gone'
               WHERE object_prefix = $1";
    assert_eq!(execute(fleet, sql, &stalled).await, 1);
    [failed, stalled]
}

/// The part of the page that is updated.
async fn live(browser: &Browser) -> PageResponse {
    let path = "/overview/live";
    let request = browser.request(Method::GET, path).header("HX-Request", "true");
    let response = browser.send(path, request).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(!response.text.contains("<html"), "{}", response.text);
    response
}

async fn what_needs_a_look_is_shown_to_those_who_may_see_it(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let files = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
    let [acme, beta]: [Api; 2] = fleet.apply(&files).await.try_into().ok().expect("two");
    let ana = Browser::signed_in(&fleet, "ana", "viewer").await;
    let page = ana.get("/").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("hx-get=\"/overview/live\""), "{}", page.text);
    // A process that starts may wait for its database.
    eventually("all work is moving", || async {
        live(&ana).await.text.contains("All work is moving")
    })
    .await;

    let of_acme = failed_and_stalled(&fleet, &acme).await;
    let of_beta = failed_and_stalled(&fleet, &beta).await;
    let ids = [workspace_id(&fleet, "acme").await, workspace_id(&fleet, "beta").await];
    for id in ids {
        bury(&fleet, id).await;
    }
    let links = |workspace: &str, prefixes: &[String; 2]| {
        prefixes.clone().map(|prefix| format!("href=\"/w/{workspace}/exports/{prefix}\""))
    };
    let (links_of_acme, links_of_beta) = (links("acme", &of_acme), links("beta", &of_beta));

    // Updates show what was read a few seconds ago.
    eventually("dead letters and exports are shown", async || {
        let text = live(&ana).await.text;
        let titles = ["1 dead letter could not be applied", "An export failed"];
        titles.iter().all(|title| text.matches(title).count() == 2)
    })
    .await;
    for text in [ana.get("/").await.text, live(&ana).await.text] {
        for link in links_of_acme.iter().chain(&links_of_beta) {
            assert!(text.contains(link), "{link}: {text}");
        }
        assert_eq!(text.matches("An export failed").count(), 2, "{text}");
        assert_eq!(text.matches("An export is stalled").count(), 2, "{text}");
        assert_eq!(text.matches("An export waits for its storage").count(), 2, "{text}");
        assert!(text.contains("docs/runbooks/object-storage-unavailable.md"), "{text}");
        assert!(text.contains("the &lt;b&gt;storage&lt;/b&gt; is full"), "{text}");
        assert!(text.contains("the &lt;b&gt;bucket&lt;/b&gt; is gone"), "{text}");
        assert!(text.contains("href=\"#work\"") && text.contains("id=\"work\""), "{text}");
        assert!(!text.contains("All work is moving"), "{text}");
    }

    // A person with rights in one workspace sees nothing of the other one.
    let ben = Browser::signed_in(&fleet, "ben", "viewer").await;
    let rights = json!({
        "everywhere": [],
        "in_workspaces": { ids[0].to_string(): ["exports.view", "messages.view", "system.view"] },
    });
    let sql = "UPDATE console_sessions SET rights = $1 WHERE person = 'ben'";
    assert_eq!(execute(&fleet, sql, &rights.to_string()).await, 1);
    for text in [ben.get("/").await.text, live(&ben).await.text] {
        for link in &links_of_acme {
            assert!(text.contains(link), "{link}: {text}");
        }
        assert_eq!(text.matches("1 dead letter could not be applied").count(), 1, "{text}");
        assert!(!text.contains("beta") && !text.contains("Incoming data"), "{text}");
        assert!(of_beta.iter().all(|prefix| !text.contains(prefix)), "{text}");
    }
    let of_other = ben.get(&format!("/w/beta/exports/{}", of_beta[0])).await;
    assert_eq!(of_other.status, 404, "{of_other:?}");

    // Nor does a person see exports whose right is missing.
    let rights = json!({ "everywhere": ["messages.view"] });
    assert_eq!(execute(&fleet, sql, &rights.to_string()).await, 1);
    let text = ben.get("/").await.text;
    assert!(text.contains("Messages of today") && !text.contains("An export"), "{text}");
    assert!(!text.contains("dead letter"), "{text}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_look_is_shown_to_those_who_may_see_it_on_sqlite() {
    what_needs_a_look_is_shown_to_those_who_may_see_it(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_look_is_shown_to_those_who_may_see_it_on_postgres() {
    what_needs_a_look_is_shown_to_those_who_may_see_it(Backend::Fleet(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_page_reloads_the_page_when_the_session_has_ended() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::new(&fleet);
    let path = "/overview/live";
    let request = browser.request(Method::GET, path).header("HX-Request", "true");
    let response = browser.send(path, request).await;
    assert_eq!(response.status, 401, "{response:?}");
    assert_eq!(response.headers["hx-refresh"], "true");
    let page = browser.get("/people/sessions?person=ana").await;
    assert_eq!(page.status, 303, "{page:?}");
    let next = page.location().split_once("next=").expect("the page to return to").1;
    assert!(next.contains("sessions") && next.contains("%3F"), "{next}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_and_styles_are_kept_for_ever() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    let page = browser.get("/").await.text;
    let files: Vec<&str> =
        page.split('"').filter(|address| address.starts_with("/assets/")).collect();
    assert!(files.len() >= 4, "{page}");
    for file in files {
        let response = browser.get(file).await;
        assert_eq!(response.status, 200, "{file}");
        assert_eq!(response.headers["cache-control"], "public, max-age=31536000, immutable");
        assert!(!response.text.is_empty(), "{file}");
    }
    assert!(!page.contains("hx-on") && !page.contains("style=") && !page.contains("<script>"));
    fleet.close().await;
}
