//! Sign-in links and sessions.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::WorkspaceFile;
use crate::support::console::{self, Browser, token};
use crate::support::fleet::{Backend, Fleet};
use crate::support::stores::{count, execute, wait_for_count};

const COOKIE: &str = "longshore_console";

async fn sessions(fleet: &Fleet) -> Vec<Value> {
    let printed = fleet.run(&["console", "sessions", "--json"]).await;
    printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn a_link_signs_in_once(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    let (first, second) = (Browser::new(&fleet), Browser::new(&fleet));
    let home = first.get("/").await;
    assert_eq!((home.status.as_u16(), home.location()), (303, "/sign-in"));
    let page = first.get("/sign-in").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("longshore console link"), "{}", page.text);

    // Two at once: one gets a session.
    let token = token(&fleet, "ana", "operator").await;
    let both = tokio::join!(first.sign_in(&token, "/"), second.sign_in(&token, "/"));
    let mut statuses = [both.0.status.as_u16(), both.1.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 401]);
    let browser = if both.0.status == 303 { first } else { second };
    assert_eq!(browser.get("/").await.status, 200);
    let again = Browser::new(&fleet).sign_in(&token, "/").await;
    assert_eq!(again.status, 401);
    assert!(again.text.contains("longshore console link"), "{}", again.text);
    assert!(again.headers.get("set-cookie").is_none(), "{again:?}");
    for unknown in ["", "lsl_unknown", &"x".repeat(5_000)] {
        assert_eq!(Browser::new(&fleet).sign_in(unknown, "/").await.status, 401);
    }
    let found = sessions(&fleet).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["person"], &found[0]["method"]), (&"ana".into(), &"link".into()));
    assert_eq!(found[0]["address"], "127.0.0.1");

    // The database has neither the token nor the secret.
    let secret = browser.cookie(COOKIE).expect("a session");
    assert!(!found[0].to_string().contains(&secret));
    let log = fleet.run(&["audit", "list", "--action", "console.", "--json"]).await;
    assert!(log.contains("console.sign_in") && log.contains("console.link"), "{log}");
    assert!(log.contains("console.sign_in_refused") && log.contains("invalid-link"), "{log}");
    assert!(!log.contains(&secret) && !log.contains(&token), "{log}");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once_on_sqlite() {
    a_link_signs_in_once(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once_on_postgres() {
    a_link_signs_in_once(Backend::Fleet(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_and_sessions_expire() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let url = fleet.database_url();
    let expired = token(&fleet, "ana", "viewer").await;
    execute(&url, "UPDATE console_links SET expires_at = created_at").await;
    assert_eq!(Browser::new(&fleet).sign_in(&expired, "/").await.status, 401);

    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    assert_eq!(browser.get("/").await.status, 200);
    // 13 hours without use.
    execute(&url, "UPDATE console_sessions SET last_seen_at = last_seen_at - 46800000").await;
    assert_eq!(browser.get("/").await.status, 303);
    assert!(sessions(&fleet).await.is_empty());

    // Used until its end.
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    execute(&url, "UPDATE console_sessions SET expires_at = last_seen_at").await;
    assert_eq!(browser.get("/").await.status, 303);

    // The time of the last use is written again after a minute.
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    execute(&url, "UPDATE console_sessions SET last_seen_at = last_seen_at - 120000").await;
    let used_again = "SELECT count(*) FROM console_sessions
                      WHERE expires_at > created_at AND last_seen_at >= created_at";
    // An open page asks for updates, but that is no use.
    for _ in 0..5 {
        let request = browser.request(Method::GET, "/overview/live").header("HX-Request", "true");
        assert_eq!(browser.send("/overview/live", request).await.status, 200);
        assert_eq!(count(&url, used_again).await, 0);
    }
    assert_eq!(browser.get("/").await.status, 200);
    wait_for_count(&url, used_again, |count| count == 1).await;
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_forms_of_the_session_take_effect() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let other = Browser::signed_in(&fleet, "ben", "viewer").await;
    let own = browser.form_token().await;
    let foreign = other.form_token().await;
    assert_ne!(own, foreign);
    assert_ne!(Some(&own), browser.cookie(COOKIE).as_ref());
    for (origin, form_token) in [
        (Some("https://evil.example"), own.as_str()),
        (Some("null"), own.as_str()),
        (None, own.as_str()),
        (Some(fleet.base()), own.as_str()),
        (Some(browser.origin.as_str()), foreign.as_str()),
        (Some(browser.origin.as_str()), ""),
    ] {
        let fields = [("form_token", form_token)];
        let refused = browser.submit_from(origin, "/sign-out", &fields).await;
        assert_eq!(refused.status, 403, "{origin:?}");
    }
    assert_eq!(browser.submit("/sign-out", &[]).await.status, 403);
    let token = token(&fleet, "eve", "admin").await;
    let fields = [("token", token.as_str())];
    let refused = browser.submit_from(Some("https://evil.example"), "/sign-in", &fields).await;
    assert_eq!(refused.status, 403);
    assert_eq!(browser.get("/").await.status, 200, "still signed in");

    let large = "x".repeat(256 << 10);
    let refused = browser.post("/preferences", &[("theme", "dark"), ("x", &large)]).await;
    assert_eq!(refused.status, 400);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_never_arrive_leave_the_console_to_others() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    let address = fleet.config().console.address().expect("the console is on");
    let head = format!(
        "POST /sign-in HTTP/1.1\r\nHost: {address}\r\nOrigin: {}\r\nContent-Length: 100\r\n\r\n",
        browser.origin
    );
    let mut slow = Vec::new();
    // More than requests in progress.
    for _ in 0..80 {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(head.as_bytes()).await.expect("a head");
        slow.push(stream);
    }
    // Those above a part of the requests are refused at once.
    let mut start = [0; 12];
    let last = slow.last_mut().expect("connections");
    last.read_exact(&mut start).await.expect("a response");
    assert_eq!(String::from_utf8_lossy(&start), "HTTP/1.1 503");
    assert_eq!(browser.get("/").await.status, 200);
    let fields = [("theme", "dark"), ("back", "/")];
    assert_eq!(browser.post("/preferences", &fields).await.status, 303);
    let mut too_slow = 0;
    for stream in &mut slow[..79] {
        tokio::time::timeout(Duration::from_secs(30), stream.read_exact(&mut start))
            .await
            .expect("a limit")
            .expect("a response");
        let status = String::from_utf8_lossy(&start);
        assert!(["HTTP/1.1 408", "HTTP/1.1 503"].contains(&&*status), "{status}");
        too_slow += usize::from(status.ends_with("408"));
    }
    assert!(too_slow > 0, "no form was read");
    fleet.close().await;
}

async fn the_character_nul_is_in_no_form_and_no_address(backend: Backend) {
    let fleet = Fleet::start(backend, &console::settings()).await;
    fleet.apply(&[WorkspaceFile::new("acme")]).await;
    let browser = Browser::signed_in(&fleet, "ana", "admin").await;
    for path in ["/w/acme%00/exports", "/audit?actor=a%00", "/audit?workspace=%00"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    let fields = [("field", "custom_attributes.a\0"), ("audience", "control_group")];
    assert_eq!(browser.post("/w/acme/exports/new", &fields).await.status, 400);
    assert_eq!(Browser::new(&fleet).sign_in("lsl_\0", "/").await.status, 400);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_character_nul_is_in_no_form_and_no_address_on_sqlite() {
    the_character_nul_is_in_no_form_and_no_address(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_character_nul_is_in_no_form_and_no_address_on_postgres() {
    the_character_nul_is_in_no_form_and_no_address(Backend::Fleet(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_ends_sessions_and_signs_out() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let ana = Browser::signed_in(&fleet, "ana-lima", "operator").await;
    let elsewhere = Browser::signed_in(&fleet, "ana-lima", "operator").await;
    let ben = Browser::signed_in(&fleet, "ben", "operator").await;
    let page = ben.get("/people/sessions").await;
    assert!(!page.text.contains("ana-lima"), "others' sessions: {}", page.text);
    let all = sessions(&fleet).await;
    let ids = |person: &str| -> Vec<String> {
        let own = all.iter().filter(|session| session["person"] == person);
        own.map(|session| session["id"].as_str().expect("an id").to_owned()).collect()
    };
    let (of_ana, of_ben) = (ids("ana-lima"), ids("ben"));
    let path = |id: &str| format!("/people/sessions/{id}/end");
    // The latest is first.
    assert_eq!(ben.post(&path(&of_ana[0]), &[]).await.status, 404, "of another person");
    assert_eq!(ana.post(&path("unknown"), &[]).await.status, 404);
    let ended = ana.post(&path(&of_ana[0]), &[]).await;
    assert_eq!((ended.status.as_u16(), ended.location()), (303, "/people/sessions"));
    assert_eq!(elsewhere.get("/").await.status, 303);

    // An administrator ends any.
    let admin = Browser::signed_in(&fleet, "root", "admin").await;
    assert_eq!(admin.post(&path(&of_ben[0]), &[]).await.status, 303);
    assert_eq!(ben.get("/").await.status, 303);

    let secret = ana.cookie(COOKIE).expect("a session");
    let out = ana.post("/sign-out", &[]).await;
    assert_eq!((out.status.as_u16(), out.location()), (303, "/sign-in"));
    assert_eq!(ana.cookie(COOKIE), None);
    ana.set_cookie(COOKIE, &secret);
    assert_eq!(ana.get("/").await.status, 303);

    // Commands do the same, and withdraw links.
    let unused = token(&fleet, "root", "admin").await;
    let dry_run = fleet.run(&["console", "sign-out", "--all", "--dry-run"]).await;
    assert!(dry_run.contains("nothing was changed"), "{dry_run}");
    assert_eq!(admin.get("/").await.status, 200);
    fleet.run(&["console", "sign-out", "--person", "root"]).await;
    assert_eq!(admin.get("/").await.status, 303);
    assert_eq!(Browser::new(&fleet).sign_in(&unused, "/").await.status, 401);
    let unknown = ["console", "sign-out", &of_ana[0]];
    assert_eq!(fleet.command(&unknown).await.status.code(), Some(1));
    assert_eq!(fleet.command(&["console", "sign-out"]).await.status.code(), Some(2));
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_replaces_that_of_the_browser() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    let former = browser.cookie(COOKIE).expect("a session");
    let page = browser.get("/sign-in").await;
    assert!(page.text.contains("ana"), "{}", page.text);
    assert_eq!(browser.sign_in("lsl_unknown", "/").await.status, 401);
    assert_eq!(browser.get("/").await.status, 200, "the session stays");
    let token = token(&fleet, "ana", "operator").await;
    let id = sessions(&fleet).await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(browser.sign_in(&token, "/").await.status, 303);
    assert_ne!(browser.cookie(COOKIE), Some(former.clone()));
    assert_eq!(sessions(&fleet).await.len(), 1);
    let log = fleet.run(&["audit", "list", "--action", "console.sign_in", "--json"]).await;
    assert!(log.contains(&format!(r#""replaced_session":"{id}""#)), "{log}");
    let (tagged, _) = browser.tagged_cookies(COOKIE).swap_remove(0);
    browser.set_cookie(&tagged, &former);
    assert_eq!(browser.get("/").await.status, 303);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_consoles_on_a_host_have_sessions_of_their_own() {
    let fleets = [
        Fleet::start(Backend::Embedded, &console::settings()).await,
        Fleet::start(Backend::Embedded, &console::settings()).await,
    ];
    let browsers = [
        Browser::signed_in(&fleets[0], "ana", "viewer").await,
        Browser::signed_in(&fleets[1], "ben", "viewer").await,
    ];
    // A browser sends the cookies of a host to each of its ports.
    for (browser, other) in [(&browsers[0], &browsers[1]), (&browsers[1], &browsers[0])] {
        for (name, value) in other.tagged_cookies(COOKIE) {
            browser.set_cookie(&name, &value);
        }
        assert_eq!(browser.tagged_cookies(COOKIE).len(), 2);
    }
    for (browser, person) in browsers.iter().zip(["ana", "ben"]) {
        assert!(browser.get("/").await.text.contains(person));
    }
    // The cookie of an earlier release continues its session.
    let upgraded = Browser::new(&fleets[0]);
    let (_, secret) =
        Browser::signed_in(&fleets[0], "cyd", "viewer").await.tagged_cookies(COOKIE).swap_remove(0);
    upgraded.set_cookie(COOKIE, &secret);
    assert!(upgraded.get("/").await.text.contains("cyd"));
    for fleet in fleets {
        fleet.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_stay_in_the_console() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::new(&fleet);
    let asked = browser.get("/audit?actor=key%3Ax").await;
    assert_eq!(asked.status, 303);
    assert_eq!(asked.location(), "/sign-in?next=%2Faudit%3Factor%3Dkey%253Ax");
    let page = browser.get(asked.location()).await;
    assert!(page.text.contains(r#"value="/audit?actor=key%3Ax""#), "{}", page.text);
    for (next, location) in [
        ("/audit?actor=key%3Ax", "/audit?actor=key%3Ax"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\t/evil.example", "/"),
    ] {
        let token = token(&fleet, "ana", "admin").await;
        let signed_in = browser.sign_in(&token, next).await;
        assert_eq!((signed_in.status.as_u16(), signed_in.location()), (303, location), "{next:?}");
        let fields = [("theme", "dark"), ("back", next)];
        let set = browser.post("/preferences", &fields).await;
        assert_eq!((set.status.as_u16(), set.location()), (303, location), "{next:?}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_are_those_of_the_browser() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::signed_in(&fleet, "ana", "viewer").await;
    let fields = [("theme", "dark"), ("zone", "europe/berlin"), ("back", "/")];
    assert_eq!(browser.post("/preferences", &fields).await.status, 303);
    assert_eq!(browser.cookie("longshore_zone").as_deref(), Some("Europe/Berlin"));
    let page = browser.get("/").await;
    assert!(page.text.contains(r#"data-theme="dark""#), "{}", page.text);
    for (name, value) in [("theme", "<script>"), ("zone", "Mars/Olympus")] {
        let refused = browser.post("/preferences", &[(name, value)]).await;
        assert_eq!(refused.status, 400, "{name}");
        assert!(!refused.text.contains("<script>"), "{}", refused.text);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_a_page_reloads_it_after_the_session() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::new(&fleet);
    let request = browser.request(reqwest::Method::GET, "/").header("HX-Request", "true");
    let response = browser.send("/", request).await;
    assert_eq!(response.status, 401);
    assert_eq!(response.headers["hx-refresh"], "true");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_off_where_it_is_not_set() {
    let off = [("LONGSHORE_CONSOLE_LISTEN", "off".to_owned())];
    let fleet = Fleet::start(Backend::Embedded, &off).await;
    assert_eq!(fleet.config().console.address(), None);
    let link = fleet.command(&["console", "link"]).await;
    assert_eq!(link.status.code(), Some(1));
    let error = String::from_utf8_lossy(&link.stderr).into_owned();
    assert!(error.contains("LONGSHORE_CONSOLE_LISTEN"), "{error}");
    // Pages are on no other listener.
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    for base in [fleet.base().to_owned(), format!("http://{}", fleet.ops_addresses()[0])] {
        let response = client.get(format!("{base}/sign-in")).send().await.expect("a response");
        assert_eq!(response.status(), 404, "{base}");
    }
    fleet.close().await;
}
