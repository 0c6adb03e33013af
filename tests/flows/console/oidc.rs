//! Sign-in with OpenID Connect, at a provider that lies if a test says so.

mod flood;
mod lies;

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::support::console::{self, Browser, PageResponse};
use crate::support::fleet::{Backend, Fleet};
use crate::support::identity_provider::{IdentityProvider, Script};
use crate::support::process::free_port;
use crate::support::{Api, WorkspaceFile, eventually};

const ANN: &str = "ann@acme.example";

/// The cookie of a sign-in in progress.
const SIGN_IN: &str = "longshore_sign-in";

/// Access ends within this time.
const ACCESS_ENDS: Duration = Duration::from_secs(5);

/// An installation whose console uses a provider.
struct World {
    fleet: Fleet,
    provider: IdentityProvider,
    scim: Scim,
    /// A client of the API in the workspace acme.
    acme: Api,
}

/// What the identity provider's company does over SCIM.
struct Scim {
    client: reqwest::Client,
    base: String,
    token: String,
}

impl World {
    async fn start(backend: Backend) -> Self {
        Self::start_below(backend, "").await
    }

    /// With the console below a path.
    async fn start_below(backend: Backend, path: &str) -> Self {
        let provider = IdentityProvider::start().await;
        let listen = format!("127.0.0.1:{}", free_port());
        let mut settings = provider.settings();
        settings.push(("LONGSHORE_TRUSTED_PROXIES", "127.0.0.1".to_owned()));
        settings.push(("LONGSHORE_CONSOLE_PUBLIC_URL", format!("http://{listen}{path}")));
        settings.push(("LONGSHORE_CONSOLE_LISTEN", listen));
        let fleet = Fleet::start(backend, &settings).await;
        let workspaces = [WorkspaceFile::new("acme"), WorkspaceFile::new("beta")];
        let acme = fleet.apply(&workspaces).await.swap_remove(0);
        let arguments = ["scim-token", "create", "--name", "idp", "--without-origin", "--json"];
        let token: Value = serde_json::from_str(&fleet.run(&arguments).await).expect("JSON");
        let scim = Scim {
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            base: format!("{}/scim/v2/Users", fleet.base()),
            token: token["secret"].as_str().expect("a secret").to_owned(),
        };
        // A gateway reads the list of valid tokens every few seconds.
        eventually("the token is accepted", || async {
            let request = scim.client.get(&scim.base).bearer_auth(&scim.token);
            request.send().await.expect("a response").status() == 200
        })
        .await;
        Self { fleet, provider, scim, acme }
    }

    async fn sign_in(&self) -> Browser {
        let browser = Browser::new(&self.fleet);
        let signed_in = self.provider.sign_in(&browser).await;
        assert_eq!((signed_in.status.as_u16(), signed_in.location()), (303, "/"), "{signed_in:?}");
        browser
    }

    /// Signs in with a script; returns the page that says why that is refused.
    async fn refused(&self, script: Script, code: &str) -> PageResponse {
        self.provider.script(script);
        let browser = Browser::new(&self.fleet);
        let page = self.provider.sign_in(&browser).await;
        assert_refused(&browser, &page, code).await;
        assert_eq!(browser.cookie(SIGN_IN), None, "{code}");
        page
    }
}

/// The page names the code, and the browser has no session.
async fn assert_refused(browser: &Browser, page: &PageResponse, code: &str) {
    assert!(page.status.is_client_error() || page.status.is_server_error(), "{code}: {page:?}");
    assert!(page.text.contains(&format!("<code>{code}</code>")), "{code}: {}", page.text);
    assert_eq!(browser.cookie("longshore_console"), None, "{code}");
    assert_eq!(browser.get("/").await.status, 303, "{code}");
}

impl Scim {
    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let request = self.client.request(method, format!("{}{path}", self.base));
        let request = request.bearer_auth(&self.token).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.expect("a response");
        assert!(response.status().is_success(), "{response:?}");
        let text = response.text().await.expect("a text");
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") }
    }

    /// Creates a user; returns the id.
    async fn create(&self, name: &str, permissions: Value) -> String {
        let schemas = ["urn:ietf:params:scim:schemas:core:2.0:User"];
        let user = json!({"schemas": schemas, "userName": name, "permissions": permissions});
        let user = self.send(Method::POST, "", user).await;
        user["id"].as_str().expect("an id").to_owned()
    }

    async fn replace(&self, id: &str, path: &str, value: Value) {
        let schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
        let operation = json!({"op": "replace", "path": path, "value": value});
        let body = json!({"schemas": schemas, "Operations": [operation]});
        self.send(Method::PATCH, &format!("/{id}"), body).await;
    }

    async fn last_sign_in(&self, id: &str) -> String {
        let user = self.send(Method::GET, &format!("/{id}"), Value::Null).await;
        user["lastSignInAt"].as_str().expect("a text").to_owned()
    }
}

/// Permissions in the workspace acme.
fn in_acme(permissions: &[&str]) -> Value {
    json!({"appGroup": [{"appGroupName": "acme", "appGroupPermissions": permissions}]})
}

async fn a_dashboard_user_signs_in_with_the_rights_of_the_permissions(backend: Backend) {
    let world = World::start(backend).await;
    let id = world.scim.create("Ann@Acme.example", in_acme(&["see_reports", "paint_walls"])).await;
    assert!(world.scim.last_sign_in(&id).await.contains("1970"));
    for algorithm in ["RS256", "ES256"] {
        world.provider.script(Script { algorithm, ..Script::default() });
        let browser = world.sign_in().await;
        assert_eq!(browser.get("/w/acme/exports").await.status, 200);
        assert_eq!(browser.get("/w/acme/exports/new").await.status, 403);
        assert_eq!(browser.get("/w/beta/exports").await.status, 404);
        assert_eq!(browser.get("/people/users").await.status, 403);
        let own = browser.get("/people/sessions").await;
        assert!(own.text.contains("Ann@Acme.example"), "{}", own.text);
    }
    assert!(!world.scim.last_sign_in(&id).await.contains("1970"));
    let sessions = world.fleet.run(&["console", "sessions", "--json"]).await;
    assert_eq!(sessions.matches(r#""method":"oidc""#).count(), 2, "{sessions}");

    // The next request has the new name and permissions.
    let browser = world.sign_in().await;
    world.scim.replace(&id, "userName", json!("anna@acme.example")).await;
    let own = browser.get("/people/sessions").await;
    assert_eq!(own.text.matches("Sign out<span").count(), 2, "{}", own.text);
    assert!(browser.get("/").await.text.contains("anna@acme.example"));
    world.scim.replace(&id, "userName", json!("Ann@Acme.example")).await;
    world.scim.replace(&id, "permissions", in_acme(&["export_user_data"])).await;
    assert_eq!(browser.get("/w/acme/exports/new").await.status, 200);
    let everywhere = json!({"companyPermissions": ["manage_dashboard_users"], "appGroup": []});
    world.scim.replace(&id, "permissions", everywhere).await;
    assert_eq!(browser.get("/w/acme/exports/new").await.status, 403);
    let page = browser.get("/people/users").await;
    assert!(page.text.contains("sessions.manage") && page.text.contains("Active"), "{page:?}");
    assert!(page.text.contains("/people/sessions?person=Ann%40Acme.example"), "{page:?}");

    let log = world.fleet.run(&["audit", "list", "--action", "console.sign_in", "--json"]).await;
    assert!(
        log.contains(r#""method":"oidc""#) && log.contains("dashboard:Ann@Acme.example"),
        "{log}"
    );
    let first: Vec<&str> = log.lines().filter(|line| line.contains(r#""subject-1""#)).collect();
    assert_eq!(first, [log.lines().last().expect("an entry")], "only the first one binds");
    let printed = world.fleet.printed();
    assert!(!printed.contains("ID token") && !printed.contains("secret:of"), "{printed}");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_user_signs_in_with_the_rights_of_the_permissions_on_sqlite() {
    a_dashboard_user_signs_in_with_the_rights_of_the_permissions(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_user_signs_in_with_the_rights_of_the_permissions_on_postgres() {
    a_dashboard_user_signs_in_with_the_rights_of_the_permissions(Backend::Fleet(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_deactivated_over_scim_is_signed_out_also_in_an_open_stream() {
    let mut world = World::start(Backend::Fleet(1)).await;
    let id = world.scim.create(ANN, in_acme(&["export_user_data"])).await;
    let browser = world.sign_in().await;
    // An export that does not end.
    world.fleet.stop("worker-1");
    let prefix = world.acme.export_all().await.prefix;
    let live = format!("/w/acme/exports/{prefix}/live?view={}", Uuid::new_v4());
    let mut stream = browser.request(Method::GET, &live).send().await.expect("a response");
    assert_eq!(stream.status(), StatusCode::OK);
    stream.chunk().await.expect("a chunk").expect("a message");

    world.scim.replace(&id, "active", json!(false)).await;
    let rest = timeout(ACCESS_ENDS, stream.text()).await.expect("the stream ends in time");
    assert!(rest.expect("a text").contains("event: ended"));
    assert_eq!(browser.get("/").await.status, 303);
    world.refused(Script::default(), "not-a-dashboard-user").await;

    // The session from before stays ended.
    world.scim.replace(&id, "active", json!(true)).await;
    assert_eq!(browser.get("/").await.status, 303);
    let browser = world.sign_in().await;
    world.scim.send(Method::DELETE, &format!("/{id}"), Value::Null).await;
    assert_eq!(browser.get("/").await.status, 303);
    let sessions = world.fleet.run(&["console", "sessions", "--json"]).await;
    assert!(sessions.trim().is_empty(), "{sessions}");
    world.fleet.resume("worker-1");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_account_of_the_first_sign_in_is_accepted_until_an_operator_resets_it() {
    let world = World::start(Backend::Embedded).await;
    world.scim.create(ANN, json!({"companyPermissions": ["see_reports"]})).await;
    world.scim.create("bob@acme.example", json!({})).await;
    let browser = world.sign_in().await;
    let script = |claims: Value| Script { claims, ..Script::default() };
    let page = world.refused(script(json!({"sub": "subject-2"})), "other-account").await;
    assert!(page.text.contains(ANN), "{}", page.text);
    // Nor does the account sign in somebody else.
    world.refused(script(json!({"email": "bob@acme.example"})), "other-account").await;

    world.fleet.run(&["console", "reset-identity", ANN]).await;
    assert_eq!(browser.get("/").await.status, 303, "its sessions have ended");
    world.provider.script(script(json!({"sub": "subject-2"})));
    world.sign_in().await;
    world.refused(Script::default(), "other-account").await;
    let log = world.fleet.run(&["audit", "list", "--action", "console.", "--json"]).await;
    assert!(log.contains("console.sign_in_refused"), "{log}");
    assert!(log.contains("console.reset_identity"), "{log}");
    let users = world.fleet.run(&["console", "users", "--json"]).await;
    assert!(users.contains(ANN) && users.contains("exports.view"), "{users}");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_a_renamed_user_are_found_by_the_new_name() {
    let world = World::start(Backend::Embedded).await;
    let id = world.scim.create(ANN, in_acme(&["see_reports"])).await;
    let browser = world.sign_in().await;
    let new = "anna@acme.example";
    // An operator with this name is somebody else.
    let link = Browser::signed_in(&world.fleet, new, "admin").await;
    world.scim.replace(&id, "userName", json!(new)).await;
    let of_user = browser.get("/w/acme/exports/new").await;
    assert_eq!(of_user.status, 403, "{of_user:?}");
    link.post("/sign-out", &[]).await;
    let log = world.fleet.run(&["audit", "list", "--action", "console.", "--json"]).await;
    let entries: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let find = |action: &str, actor: &str| {
        let is_it = |entry: &&Value| entry["action"] == action && entry["actor"] == actor;
        entries.iter().find(is_it).unwrap_or_else(|| panic!("{action} {actor}: {log}"))
    };
    let signed_in = find("console.sign_in", &format!("dashboard:{ANN}"));
    assert_eq!(signed_in["details"]["user_id"], json!(id));
    assert_eq!(signed_in["details"]["first_identity"]["subject"], "subject-1");
    let refused = find("console.refused", &format!("dashboard:{new}"));
    assert_eq!(refused["object"], "exports.run");
    assert_eq!(refused["details"]["user_id"], json!(id));
    assert_eq!(refused["details"]["session_id"], signed_in["object"]);
    assert_eq!(refused["details"]["route"], "GET /w/{workspace}/exports/new");
    assert_eq!(refused["workspace"], "acme");
    let signed_out = find("console.sign_out", &format!("console:{new}"));
    assert_eq!(signed_out["details"]["session_id"], signed_out["object"]);
    assert_eq!(signed_out["details"]["user_id"], Value::Null);
    for (name, sessions, status) in [(ANN, 0, 200), (new, 1, 303)] {
        let found = world.fleet.run(&["console", "sessions", "--person", name, "--json"]).await;
        assert_eq!(found.lines().count(), sessions, "{found}");
        world.fleet.run(&["console", "sign-out", "--person", name]).await;
        assert_eq!(browser.get("/w/acme/exports").await.status, status, "{name}");
    }
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_the_provider_as_a_sign_in_does() {
    let world = World::start(Backend::Embedded).await;
    let doctor = async |is_ok: bool| -> Value {
        let output = world.fleet.command(&["doctor", "--json"]).await;
        assert_eq!(output.status.success(), is_ok, "{output:?}");
        let printed = String::from_utf8(output.stdout).expect("text");
        let mut checks = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let check = checks.find(|check: &Value| check["what"] == "identity provider");
        let check = check.unwrap_or_else(|| panic!("{printed}"));
        assert_eq!(check["ok"], json!(is_ok), "{check}");
        check
    };
    doctor(true).await;
    let issuer = Some("https://id.evil.example");
    world.provider.script(Script { issuer, ..Script::default() });
    let lying = doctor(false).await;
    assert!(lying["text"].to_string().contains("id.evil.example"), "{lying}");
    world.provider.script(Script { has_no_keys: true, ..Script::default() });
    doctor(false).await;
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn below_a_path_the_provider_returns_to_the_public_address() {
    let world = World::start_below(Backend::Embedded, "/ops").await;
    world.scim.create(ANN, json!({"companyPermissions": ["see_reports"]})).await;
    let browser = Browser::new(&world.fleet);
    let page = browser.get("/ops/sign-in?next=/w/acme/exports").await;
    assert!(page.text.contains("/ops/sign-in/oidc?next=%2Fw%2Facme%2Fexports"), "{}", page.text);
    let sent = browser.get("/ops/sign-in/oidc?next=%2Fw%2Facme%2Fexports").await;
    let callback = world.provider.authorize(&sent);
    assert!(callback.starts_with("/ops/sign-in/oidc/callback?"), "{callback}");
    let signed_in = browser.get(&callback).await;
    assert_eq!(signed_in.location(), "/ops/w/acme/exports", "{signed_in:?}");
    // No address elsewhere.
    let sent = browser.get("/ops/sign-in/oidc?next=%2F%2Fevil.example").await;
    let signed_in = browser.get(&world.provider.authorize(&sent)).await;
    assert_eq!(signed_in.location(), "/ops/", "{signed_in:?}");
    world.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_provider_there_is_only_the_link() {
    let fleet = Fleet::start(Backend::Embedded, &console::settings()).await;
    let browser = Browser::new(&fleet);
    assert!(!browser.get("/sign-in").await.text.contains("/sign-in/oidc"));
    for path in ["/sign-in/oidc", "/sign-in/oidc/callback?code=a&state=b"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_mapped_by_a_table_that_settings_change() {
    let fleet = Fleet::new_empty(Backend::Embedded, &[]).await;
    let printed = fleet.run(&["console", "rights", "--permissions", "--json"]).await;
    assert!(printed.contains(r#"{"permission":"see_users","rights":["users.view"]}"#), "{printed}");
    let name = "LONGSHORE_CONSOLE__PERMISSIONS__SEE_USERS";
    let changed = [(name, "exports.view, audit.view".to_owned())];
    let changed = Fleet::new_empty(Backend::Embedded, &changed).await;
    let printed = changed.run(&["console", "rights", "--permissions", "--json"]).await;
    assert!(
        printed.contains(r#"{"permission":"see_users","rights":["exports.view","audit.view"]}"#),
        "{printed}"
    );
    let wrong = Fleet::new_empty(Backend::Embedded, &[(name, "exports.all".to_owned())]).await;
    let refused = wrong.command(&["standalone"]).await;
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("console.permissions.see_users"), "{text}");
}
