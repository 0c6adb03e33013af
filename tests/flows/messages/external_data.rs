//! Templates that read other data, from the call to the receiver: content blocks, catalogs and
//! servers, those that fail or do harm, too; and previews of all that.

mod connected;
mod previews;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::api::answer;
use crate::support::eventually;
use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::{Api, WorkspaceFile, open_work, stores};

const SEND: &str = "/messages/send";
const PREVIEW: &str = "/templates/preview";
const PASSWORD: &str = "the-password-of-the-crm";

/// A server that answers by the path of a request.
#[derive(Clone, Default)]
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<(String, HeaderMap, Bytes)>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Self { address, ..Self::default() };
        let router = Router::new().fallback(respond).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn requests(&self, path: &str) -> Vec<(HeaderMap, Bytes)> {
        let requests = self.requests.lock().unwrap();
        let of_path = requests.iter().filter(|(at, ..)| at == path);
        of_path.map(|(_, headers, body)| (headers.clone(), body.clone())).collect()
    }
}

async fn respond(
    State(server): State<Server>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let path = uri.path().to_owned();
    let before = server.requests(&path).len();
    server.requests.lock().unwrap().push((path.clone(), headers, body.clone()));
    let json = |value: Value| axum::Json(value).into_response();
    let endless = || futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 65_536]));
    match path.as_str() {
        "/json" => json(json!({ "city": "Oslo", "list": [1, 2], "query": uri.query() })),
        "/list" => json(json!(["a", "b"])),
        "/text" => "plain text".into_response(),
        "/echo" => body.into_response(),
        "/404" => StatusCode::NOT_FOUND.into_response(),
        "/418" => (StatusCode::IM_A_TEAPOT, axum::Json(json!({ "why": "tea" }))).into_response(),
        "/500" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "/flaky" if before < 2 => StatusCode::BAD_GATEWAY.into_response(),
        "/flaky" => "at last".into_response(),
        "/hang" => std::future::pending().await,
        "/large" => Body::from_stream(endless().take(1_600)).into_response(),
        "/endless" => Body::from_stream(endless()).into_response(),
        "/trickle" => {
            let drops = futures::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Some((Ok::<_, std::io::Error>("x"), ()))
            });
            Body::from_stream(drops).into_response()
        }
        "/redirect" => {
            let to = format!("http://{}/target", server.address);
            (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
        }
        "/deep" => {
            let deep = "[".repeat(400_000) + &"]".repeat(400_000);
            ([(header::CONTENT_TYPE, "application/json")], deep).into_response()
        }
        "/wide" => json(json!(vec![json!([]); 300_000])),
        _ => "unexpected".into_response(),
    }
}

struct World {
    fleet: Fleet,
    api: Api,
    receiver: Receiver,
    server: Server,
}

impl World {
    async fn start(users: &[Value]) -> Self {
        Self::start_with(users, |file| file).await
    }

    async fn start_with(users: &[Value], change: impl Fn(WorkspaceFile) -> WorkspaceFile) -> Self {
        let (receiver, server) = (Receiver::start([]).await, Server::start().await);
        let settings = [("LONGSHORE_MESSAGES__RETRY_MS", "50".to_owned())];
        let fleet = Fleet::start(Backend::Embedded, &settings).await;
        let games = [
            json!({ "id": "1234", "title": "Tales", "price": 7.49, "genre": "rpg",
                    "released": "2025-12-31T22:30:00Z" }),
            json!({ "id": "1235", "title": "Teslagrad", "price": 4.99, "genre": "puzzle",
                    "released": "2026-01-01T00:15:00+01:00" }),
            json!({ "id": "1236", "title": "Acaratus", "price": 10.25, "genre": "rpg",
                    "released": "2026-01-01T00:10:00+01:00" }),
        ];
        let lines = games.map(|game| game.to_string()).join("\n");
        fleet.write_file("games.ndjson", lines.as_bytes());
        let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let file = WorkspaceFile::new("acme")
            .with_percent(None)
            .permitted(&["messages.send", "templates.preview"])
            .with(
                "catalogs",
                json!([{
                    "name": "games", "items": "games.ndjson", "fields": [
                        field("title", "string"), field("price", "number"), field("genre", "string"),
                        field("released", "time"),
                    ],
                }]),
            )
            .with(
                "catalog_selections",
                json!([{
                    "name": "cheap_first", "catalog": "games", "limit": 2,
                    "filters": [{ "field": "genre", "operator": "equals", "value": "rpg" }],
                    "sort": { "field": "price" },
                }, {
                    "name": "of_2026", "catalog": "games", "limit": 5,
                    "filters": [{
                        "field": "released", "operator": "greater_than_or_equal",
                        "value": "2026-01-01T00:00:00+01:00",
                    }],
                    "sort": { "field": "released" },
                }]),
            )
            .with(
                "content_blocks",
                json!({
                    "greeting": "Hi {{${first_name}}}{{content_blocks.${mark}}}",
                    "mark": "{{ mark | default: '!' }}",
                }),
            )
            .with(
                "connected_content",
                json!({
                    "hosts": [server.address],
                    "credentials": [{
                        "name": "crm", "hosts": [server.address], "username": "longshore",
                        "password": PASSWORD,
                    }],
                }),
            );
        let api = fleet.apply(&[change(file)]).await.remove(0);
        let records: Vec<String> = users.iter().map(Value::to_string).collect();
        fleet.import("acme", &records).await;
        Self { fleet, api, receiver, server }
    }

    fn message(&self, text: &str) -> Value {
        json!({ "webhook": {
            "url": self.receiver.url("/webhook"), "request_method": "POST", "body": text,
        } })
    }

    async fn send(&self, users: &[&str], text: &str) {
        let body = json!({ "external_user_ids": users, "messages": self.message(text) });
        let answer = self.api.post(SEND, &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    async fn refuses(&self, text: &str, part: &str) {
        let body = json!({ "external_user_ids": ["ann"], "messages": self.message(text) });
        let answer = self.api.post(SEND, &body).await;
        assert_eq!(answer.status, 400, "{text}: {answer:?}");
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains("messages.webhook.body: line 1, column "), "{message}");
        assert!(message.contains(part), "{text}: {message}");
    }

    /// What a template renders to, as a preview shows it.
    async fn preview(&self, text: &str) -> Value {
        let answer = self.api.post(PREVIEW, &json!({ "template": text })).await;
        assert_eq!(answer.status, 200, "{text}: {answer:?}");
        answer.body["previews"][0].clone()
    }

    async fn renders(&self, text: &str, expected: &str) {
        let preview = self.preview(text).await;
        assert_eq!(preview["rendered"], expected, "{text}: {preview}");
    }

    /// How many messages are in each state.
    async fn states(&self) -> BTreeMap<&'static str, i64> {
        let mut states = BTreeMap::new();
        for (state, sql) in [
            ("sent", "SELECT count(*) FROM messages WHERE state = 'sent'"),
            ("aborted", "SELECT count(*) FROM messages WHERE state = 'aborted'"),
            ("failed", "SELECT count(*) FROM messages WHERE state = 'failed'"),
        ] {
            let count = stores::count(&self.fleet.database_url(), sql).await;
            if count > 0 {
                states.insert(state, count);
            }
        }
        states
    }

    async fn wait_until_idle(&self, sends: i64) {
        let ended = "SELECT count(*) FROM dispatches WHERE finished_at IS NOT NULL";
        let database = self.fleet.database_url();
        stores::wait_for_count(&database, ended, |count| count == sends).await;
        open_work::wait_until_done(&self.fleet).await;
    }

    /// The texts that came, in order.
    fn texts(&self) -> Vec<String> {
        let received = self.receiver.received();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut texts: Vec<String> = received.iter().map(|request| text(&request.body)).collect();
        texts.sort();
        texts
    }

    async fn close(self) {
        let printed = self.fleet.printed();
        assert!(!printed.contains(PASSWORD), "the password is in a log");
        self.fleet.close().await;
    }
}

fn ann() -> Value {
    json!({ "external_id": "ann", "first_name": "Ann",
            "custom_attributes": { "wishlist": ["1236", "none", "1235"] } })
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_catalogs_are_part_of_messages() {
    let world = World::start(&[ann()]).await;
    let text = "{% assign mark = '?' %}{{content_blocks.${greeting} | id: 'cb1'}} \
                {% catalog_items games {{custom_attribute.${wishlist}}} %}\
                {% for item in items %}{{ item.title }} {{ item.price }},{% endfor %} \
                {% catalog_items games 1234 {{ 'no' }} %}{{ items[0].id }} {{ items.size }} \
                {% catalog_selection_items games cheap_first %}{{ items | map: 'title' | join: '+' }}";
    world.send(&["ann"], text).await;
    world.wait_until_idle(1).await;
    let expected = "Hi Ann? Acaratus 10.25,Teslagrad 4.99, 1234 1 Tales+Acaratus";
    assert_eq!(world.texts(), [expected]);
    // Times are compared as times, whatever their offsets.
    let recent =
        "{% catalog_selection_items games of_2026 %}{{ items | map: 'title' | join: '+' }}";
    world.renders(recent, "Acaratus+Teslagrad").await;
    // The same by the command, for a user.
    let file = world.fleet.write_file("t.liquid", text.as_bytes());
    let path = file.to_str().unwrap();
    let shown = world.fleet.run(&["template", "render", path, "--user", "ann"]).await;
    assert_eq!(shown, expected);
    world.fleet.run(&["template", "check", path, "--workspace", "acme"]).await;
    let wrong = world.fleet.write_file("w.liquid", b"\n{{content_blocks.${greting}}}");
    let arguments = ["template", "check", wrong.to_str().unwrap(), "--workspace", "acme"];
    let said = world.fleet.command(&arguments).await;
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.status.success() && error.contains("w.liquid:2:3: "), "{error}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_of_a_large_catalog_fails_without_another_scan() {
    const LARGE: &str = "/catalogs/large/items";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large.ndjson");
    let lines: Vec<String> =
        (0..=100_000).map(|id| json!({ "id": id.to_string() }).to_string()).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let large = json!([{ "name": "large", "items": file, "fields": [
        { "name": "title", "type": "string" },
    ] }]);
    let selections = json!([{ "name": "any", "catalog": "large", "limit": 2 }]);
    let world = World::start_with(&[ann()], |file| {
        let permissions = ["templates.preview", "catalogs.delete_items", "catalogs.get_item"];
        file.permitted(&permissions)
            .with("catalogs", large.clone())
            .with("catalog_selections", selections.clone())
    })
    .await;
    let text = "{% catalog_selection_items large any %}{{ items.size }}";
    let failed = world.preview(text).await;
    assert!(failed["failed"].is_string(), "{failed}");
    // It would not fail now, but is read at most once a minute.
    let gone = json!({ "items": [{ "id": "7" }] });
    let deletion = world.api.request(Method::DELETE, LARGE).json(&gone);
    assert_eq!(answer(deletion).await.status, 202);
    eventually("the item is deleted", async || {
        world.api.get(&format!("{LARGE}/7")).await.status == 404
    })
    .await;
    assert_eq!(world.preview(text).await, failed);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_sources_are_refused_at_the_request() {
    let world = World::start(&[ann()]).await;
    for (text, part) in [
        ("{{content_blocks.${greting}}}", "content_blocks.${greeting}"),
        ("{% catalog_items game 1 %}", "no catalog `game`"),
        ("{% catalog_selection_items games dear %}", "no selection `dear`"),
        ("{% connected_content https://other.example/x %}", "other.example"),
        ("{% connected_content https://other.example/{{${user_id}}} %}", "other.example"),
        ("{% connected_content nonsense %}", "expected an http or https URL"),
    ] {
        world.refuses(text, part).await;
    }
    let credential =
        format!("{{% connected_content {} :basic_auth nobody %}}", world.server.url("/json"));
    world.refuses(&credential, "`nobody` is not in").await;
    assert!(world.texts().is_empty());
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_refuses_blocks_that_no_message_could_use() {
    let fleet = Fleet::start(Backend::Embedded, &[]).await;
    for (member, value, part) in [
        (
            "content_blocks",
            json!({ "a": "{{content_blocks.${b}}}", "b": "{{content_blocks.${a}}}" }),
            "content_blocks.a: ",
        ),
        ("content_blocks", json!({ "a": "{{content_blocks.${c}}}" }), "content_blocks.${c}"),
        ("content_blocks", json!({ "a": "{% if %}" }), "content_blocks.a: line 1, column "),
        (
            "content_blocks",
            json!({ "a": "{{${frist_name}}}" }),
            "content_blocks.a: line 1, column 3",
        ),
        ("content_blocks", json!({ "a b": "x" }), "content_blocks.a b: "),
        ("content_blocks", json!({ "a": 5 }), "content_blocks.a: "),
        ("content_blocks", json!({ "a": "x".repeat(60 << 10) }), "content_blocks.a: "),
        (
            "catalog_selections",
            json!([{ "name": "s", "catalog": "none", "limit": 5 }]),
            "no catalog",
        ),
        ("catalog_selections", json!([{ "name": "s", "catalog": "none", "limit": 51 }]), "limit"),
        ("connected_content", json!({ "hosts": [] }), "connected_content.hosts"),
        ("connected_content", json!({ "hosts": ["a/b"] }), "connected_content.hosts[0]"),
        (
            "connected_content",
            json!({ "hosts": ["a.example"], "credentials": [
            { "name": "n", "hosts": ["a.example"], "username": "u" }] }),
            "credentials[0]",
        ),
    ] {
        let file = WorkspaceFile::new("acme").with_percent(None).with(member, value.clone());
        let file = fleet.write_file("wrong.yaml", file.document().as_bytes());
        let said = fleet.command(&["apply", file.to_str().unwrap()]).await;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && error.contains(part), "{value:.200}: {error}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn template_data_changes_and_prune_deletes_it() {
    let world = World::start(&[ann()]).await;
    let directory = world.fleet.directory().to_owned();
    let apply = async |file: &WorkspaceFile, more: &[&str]| {
        std::fs::write(directory.join("next.yaml"), file.document()).unwrap();
        let path = directory.join("next.yaml");
        world.fleet.run(&[&["apply", path.to_str().unwrap()], more].concat()).await
    };
    let file = WorkspaceFile::new("acme").with_percent(None);
    let blocks = json!({ "mark": "!!" });
    let said = apply(&file.clone().with("content_blocks", blocks), &[]).await;
    assert!(said.contains("~ content_block mark"), "{said}");
    assert!(said.contains("content_block greeting is no longer in the file"), "{said}");
    let said = apply(&file, &["--prune"]).await;
    for gone in ["content_block mark", "selection games cheap_first", "connected_content"] {
        assert!(said.contains(&format!("- {gone}")), "{gone}: {said}");
    }
    world.close().await;
}
