//! Templates that read other data, from the call to the receiver: content blocks, catalogs and
//! servers, those that fail or do harm, too; and previews of all that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::fleet::{Backend, Fleet};
use crate::support::receiver::Receiver;
use crate::support::{Api, WorkspaceFile, eventually, open_work, stores};

const SEND: &str = "/messages/send";
const PREVIEW: &str = "/templates/preview";
const PASSWORD: &str = "the-password-of-the-crm";

/// The memory that nothing here may take a process beyond, in bytes.
const ROOM: u64 = 600 << 20;

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
            json!({ "id": "1234", "title": "Tales", "price": 7.49, "genre": "rpg" }),
            json!({ "id": "1235", "title": "Teslagrad", "price": 4.99, "genre": "puzzle" }),
            json!({ "id": "1236", "title": "Acaratus", "price": 10.25, "genre": "rpg" }),
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
                    ],
                }]),
            )
            .with(
                "catalog_selections",
                json!([{
                    "name": "cheap_first", "catalog": "games", "limit": 2,
                    "filters": [{ "field": "genre", "operator": "equals", "value": "rpg" }],
                    "sort": { "field": "price" },
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
        eventually("every send has ended", || async {
            stores::count(&self.fleet.database_url(), ended).await == sends
        })
        .await;
        open_work::wait_until_done(&self.fleet).await;
    }

    /// The texts that came, in order.
    fn texts(&self) -> Vec<String> {
        let received = self.receiver.received();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut texts: Vec<String> = received.iter().map(|one| text(&one.body)).collect();
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
async fn connected_content_is_off_unless_it_is_declared() {
    let world =
        World::start_with(&[ann()], |file| file.with("connected_content", json!(null))).await;
    let text = format!("{{% connected_content {} %}}", world.server.url("/text"));
    world.refuses(&text, "does not allow").await;
    assert!(world.server.requests("/text").is_empty());
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

#[tokio::test(flavor = "multi_thread")]
async fn connected_content_is_read_and_cached() {
    let users: Vec<Value> = (0..5).map(|n| json!({ "external_id": format!("u{n}") })).collect();
    let world = World::start(&users).await;
    let url = |path: &str| world.server.url(path);
    let all = ["u0", "u1", "u2", "u3", "u4"];
    let text = format!(
        "{{% connected_content {}?q={{{{ 'a b' | url_param_escape }}}} :save got :basic_auth crm %}}\
         {{{{ got.city }}}} {{{{ got.list[1] }}}} {{{{ got.query }}}} {{{{ got.__http_status__ }}}} \
         {{% connected_content {} %}} {{% connected_content {} %}}{{{{ connected[1] }}}}",
        url("/json"),
        url("/text"),
        url("/list"),
    );
    world.send(&all, &text).await;
    world.wait_until_idle(1).await;
    assert_eq!(world.texts(), ["Oslo 2 q=a%20b 200 plain text b"; 5]);
    for path in ["/json", "/text", "/list"] {
        assert_eq!(world.server.requests(path).len(), 1, "{path}");
    }
    let authorization = world.server.requests("/json")[0].0["authorization"].clone();
    assert_eq!(authorization, "Basic bG9uZ3Nob3JlOnRoZS1wYXNzd29yZC1vZi10aGUtY3Jt");
    // Requests that change something are made each time.
    let text = format!(
        "{{% capture body %}}id={{{{${{user_id}}}}}}&n=1{{% endcapture %}}{{% connected_content {} \
         :method post :headers {{ \"X-Id\": \"{{{{${{user_id}}}}}}\" }} :body {{{{ body }}}} \
         :content_type application/json :save got %}}{{{{ got.id }}}}",
        url("/echo"),
    );
    world.send(&all, &text).await;
    world.wait_until_idle(2).await;
    let echoed = world.server.requests("/echo");
    assert_eq!(echoed.len(), 5);
    for (headers, body) in &echoed {
        let body: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body, json!({ "id": headers["x-id"].to_str().unwrap(), "n": "1" }));
        assert_eq!(headers["content-type"], "application/json");
    }
    assert_eq!(world.texts()[5..], all);
    let text = format!("{{% connected_content {} :no_cache %}}", url("/text"));
    world.send(&all, &text).await;
    world.wait_until_idle(3).await;
    assert_eq!(world.server.requests("/text").len(), 6);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_responses_render_as_empty() {
    let world = World::start(&[ann()]).await;
    let got = |path: &str| {
        let url = world.server.url(path);
        format!(
            "{{% connected_content {url} :save got %}}[{{{{ got.__http_status__ }}}}{{{{ got.why }}}}]"
        )
    };
    for (path, expected) in [("/404", "[]"), ("/500", "[]"), ("/418", "[418tea]"), ("/list", "[]")]
    {
        world.renders(&got(path), expected).await;
    }
    let unreachable = "{% assign u = 'http://10.1.2.3/' %}{% connected_content {{ u }} %}[]";
    world.renders(unreachable, "[]").await;
    let text = got("/404")
        + "{% if got.__http_status__ != 200 %}{% abort_message('no data') %}{% endif %}";
    assert_eq!(world.preview(&text).await["aborted"], "no data");
    world.send(&["ann"], &text).await;
    world.wait_until_idle(1).await;
    assert_eq!(world.states().await, BTreeMap::from([("aborted", 1)]));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_servers_fail_only_their_requests() {
    let world = World::start(&[ann()]).await;
    for path in ["/large", "/endless", "/trickle", "/hang", "/redirect", "/deep"] {
        let url = world.server.url(path);
        let text = format!("{{% connected_content {url} :save got %}}[{{{{ got }}}}]");
        world.renders(&text, "[]").await;
        world.send(&["ann"], &text).await;
    }
    assert!(world.server.requests("/target").is_empty(), "a redirect is not followed");
    let url = world.server.url("/wide");
    let loops = format!(
        "{{% connected_content {url} :save got %}}{{% for a in got %}}{{% for b in got %}}x{{% endfor %}}\
         {{% endfor %}}"
    );
    assert!(world.preview(&loops).await["failed"].is_string());
    let many = format!(
        "{{% for i in (1..20) %}}{{% connected_content {url}?{{{{ i }}}} %}}{{% endfor %}}"
    );
    let failed = world.preview(&many).await["failed"].to_string();
    assert!(failed.contains("more than 10 times"), "{failed}");
    world.wait_until_idle(6).await;
    assert_eq!(world.texts(), ["[]"; 6]);
    let peak = world.fleet.peak("standalone");
    assert!(peak < ROOM, "{} MB resident", peak >> 20);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_makes_a_message_wait_for_its_server() {
    let world = World::start(&[ann()]).await;
    let retry = |path: &str| format!("{{% connected_content {} :retry %}}", world.server.url(path));
    world.send(&["ann"], &retry("/flaky")).await;
    world.send(&["ann"], &retry("/500")).await;
    world.wait_until_idle(2).await;
    assert_eq!(world.texts(), ["at last"]);
    assert_eq!(world.server.requests("/flaky").len(), 3);
    assert_eq!(world.server.requests("/500").len(), 5);
    assert_eq!(world.states().await, BTreeMap::from([("aborted", 1), ("sent", 1)]));
    let preview = world.preview(&retry("/500")).await;
    assert!(preview["failed"].as_str().unwrap().contains("would be retried"), "{preview}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_data_delays_no_other_message() {
    let users: Vec<Value> = (0..40).map(|n| json!({ "external_id": format!("u{n}") })).collect();
    let slow = |file: WorkspaceFile, address: &str| {
        file.with("connected_content", json!({ "hosts": [address], "requests_per_second": 1 }))
    };
    let world = World::start(&users).await;
    let file = slow(
        WorkspaceFile::new("acme").with_percent(None).permitted(&["messages.send"]),
        &world.server.address,
    );
    let api = world.fleet.apply(&[file]).await.remove(0);
    let names: Vec<String> = (0..40).map(|n| format!("u{n}")).collect();
    let text = format!("{{% connected_content {} :no_cache %}}", world.server.url("/text"));
    let body = json!({ "external_user_ids": names, "messages": world.message(&text) });
    // The new limit counts within seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(api.post(SEND, &body).await.status, 201);
    eventually("the slow send has begun", || async { !world.server.requests("/text").is_empty() })
        .await;
    let quick = json!({ "external_user_ids": ["u1"], "messages": world.message("quick") });
    assert_eq!(api.post(SEND, &quick).await.status, 201);
    eventually("the quick one has come", || async { world.texts().contains(&"quick".to_owned()) })
        .await;
    assert!(world.server.requests("/text").len() < 40, "the slow ones went first");
    world.wait_until_idle(2).await;
    assert_eq!(world.texts().len(), 41);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_show_the_rendered_message() {
    let world = World::start(&[ann()]).await;
    let post = async |body: Value| world.api.post(PREVIEW, &body).await;
    let answer = post(json!({
        "template": "{{${first_name}}} {{custom_attribute.${n}}} {{api_trigger_properties.${a}}}\
                     {{event_properties.${b}}}{{canvas_entry_properties.${c}}}\
                     {% message_extras :key k :value v %}",
        "external_user_id": "ann", "attributes": { "n": 5 },
        "api_trigger_properties": { "a": 1 }, "event_properties": { "b": 2 },
        "canvas_entry_properties": { "c": 3 },
    }))
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.body["previews"],
        json!([{ "rendered": "Ann 5 123", "message_extras": { "k": "v" } }])
    );
    let digits = r#"{"template":"{{custom_attribute.${o}}} {{custom_attribute.${n}}}",
        "attributes":{"o":{"z":1.10,"a":2},"n":9223372036854775808}}"#;
    let answer = world.api.post_text(PREVIEW, digits.to_owned()).await;
    let rendered = r#"{"z":1.10,"a":2} 9223372036854775808"#;
    assert_eq!(answer.body["previews"], json!([{ "rendered": rendered }]));
    let mut messages = world.message("Hi {{${first_name}}}");
    messages["apple_push"] = json!({ "alert": "x" });
    let answer = post(json!({ "messages": messages, "attributes": { "first_name": "Bo" } })).await;
    assert_eq!(answer.body["previews"][0]["channel"], "webhook", "{answer:?}");
    assert_eq!(answer.body["previews"][0]["rendered"]["body"], "Hi Bo");
    assert_eq!(answer.body["errors"][0]["path"], "messages.apple_push");
    for (body, code, part) in [
        (json!({ "template": "ab{{ x" }), "invalid-request", "template: line 1, column 3"),
        (
            json!({ "template": "{{${frist_name}}}" }),
            "invalid-request",
            "template: line 1, column 3",
        ),
        (
            json!({ "messages": world.message("{% if %}") }),
            "invalid-request",
            "messages.webhook.body: line 1",
        ),
        (json!({}), "invalid-request", ""),
        (json!({ "template": 5 }), "invalid-field", "template"),
        (
            json!({ "template": "x", "external_user_id": "nobody" }),
            "invalid-field",
            "external_user_id",
        ),
    ] {
        let answer = post(body.clone()).await;
        answer.refuses(400, part);
        assert_eq!(answer.body["code"], code, "{body}: {answer:?}");
    }
    let failing = format!("{{% connected_content {} %}}", world.server.url("/500"));
    let answer = post(json!({ "template": failing })).await;
    assert_eq!(answer.body["previews"], json!([{ "rendered": "" }]));
    assert!(answer.body["warnings"][0].as_str().unwrap().contains("500"), "{answer:?}");
    assert!(world.texts().is_empty(), "nothing is sent");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_needs_its_permission() {
    let world = World::start_with(&[ann()], |file| file.permitted(&["messages.send"])).await;
    let answer = world.api.post(PREVIEW, &json!({ "template": "x" })).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["permission"]),
        (403, &json!(PREVIEW_PERMISSION))
    );
    world.close().await;
}

const PREVIEW_PERMISSION: &str = "templates.preview";
