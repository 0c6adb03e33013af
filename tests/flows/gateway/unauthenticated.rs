//! Floods by unauthenticated senders, or with one key, at a real gateway, while calls with other
//! keys and signed reports continue being served.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use jiff::Timestamp;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, callbacks, eventually};

const SECRET: &str = "secret-of-the-providers-feedback";

/// Connections that the gateway has at once.
const CONNECTIONS: usize = 512;

/// Requests that the gateway has in progress at once, where that is less than usual.
const REQUESTS: usize = 128;

struct World {
    fleet: Fleet,
    workspaces: Vec<WorkspaceFile>,
}

impl World {
    /// A gateway that waits for clients for longer than the tests take, with so many workspaces.
    async fn start(workspaces: usize) -> Self {
        Self::start_with(workspaces, &[]).await
    }

    /// The same with further settings.
    async fn start_with(workspaces: usize, settings: &[(&str, String)]) -> Self {
        let usual = [
            ("LONGSHORE_GATEWAY__CONNECTIONS", CONNECTIONS.to_string()),
            ("LONGSHORE_GATEWAY__REQUEST_TIMEOUT_SECONDS", "3600".to_owned()),
        ];
        let settings = [&usual, settings].concat();
        let fleet = Fleet::start(Backend::Embedded, &settings).await;
        let workspaces: Vec<WorkspaceFile> = (0..workspaces)
            .map(|number| {
                WorkspaceFile::new(&format!("acme-{number}"))
                    .with_percent(None)
                    .with("providers", json!({ "feedback_secret": SECRET }))
            })
            .collect();
        fleet.apply(&workspaces).await;
        Self { fleet, workspaces }
    }

    fn address(&self) -> SocketAddr {
        self.fleet.base().trim_start_matches("http://").parse().expect("an address")
    }

    /// A connection from an address of this machine.
    async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(self.address()).await.expect("the gateway listens")
    }

    /// More connections than requests that may be in progress, each with one of these heads; their
    /// bodies are withheld. Returns them once all but so many are refused.
    async fn withhold(&self, from: [u8; 4], head: &str, share: usize) -> Vec<TcpStream> {
        let connections = (0..REQUESTS + 72).map(|_| async {
            let mut stream = self.connect(from).await;
            stream.write_all(head.as_bytes()).await.expect("the head is taken");
            stream
        });
        let held = futures::future::join_all(connections).await;
        eventually("no more requests are under way than the share", async || {
            let refused: f64 = (self.fleet.metrics("standalone").await.lines())
                .filter(|line| line.starts_with("longshore_http_refused_total"))
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                .sum();
            refused >= (REQUESTS + 72 - share) as f64
        })
        .await;
        held
    }

    /// A client that connects for each call.
    fn client(from: [u8; 4]) -> Client {
        let client = Client::builder().no_proxy().pool_max_idle_per_host(0);
        client.local_address(IpAddr::from(from)).build().unwrap()
    }

    /// Tracks an event of so many bytes with a key.
    async fn track(&self, client: &Client, workspace: usize, bytes: usize) -> u16 {
        let event = json!({
            "external_id": "ann", "name": "viewed", "time": "2026-11-21",
        });
        let body = json!({ "events": [event], "ignored": "x".repeat(bytes) });
        let call = client.post(format!("{}/users/track", self.fleet.base())).json(&body);
        let call = call.bearer_auth(&self.workspaces[workspace].key);
        call.send().await.expect("an answer").status().as_u16()
    }

    /// Reports on behalf of a workspace.
    async fn report(&self, client: &Client, workspace: &str) -> u16 {
        let (now, body) = (Timestamp::now().as_second().to_string(), report().to_string());
        let path = format!("/feedback/sms?workspace={workspace}");
        let call = client.post(format!("{}{path}", self.fleet.base()));
        let id = uuid::Uuid::new_v4().to_string();
        let signature = callbacks::sign(SECRET.as_bytes(), &id, &now, body.as_bytes());
        let call = call.header("webhook-id", id).header("webhook-timestamp", now);
        let call = call.header("webhook-signature", signature);
        let call = call.header("content-type", "application/json").body(body);
        call.send().await.expect("an answer").status().as_u16()
    }

    /// Calls with a key, of so many bytes, and signed reports of a workspace are all taken.
    async fn serves(&self, client: &Client, workspace: usize, bytes: usize) {
        for _ in 0..20 {
            assert_eq!(self.track(client, workspace, bytes).await, 201);
            assert_eq!(self.report(client, &format!("acme-{workspace}")).await, 200);
        }
    }

    /// Once the flood of the first address is over, its room is free again.
    async fn end(self, held: Vec<TcpStream>) {
        drop(held);
        let client = Self::client([127, 0, 0, 1]);
        eventually("the address can report", async || self.report(&client, "acme-0").await == 200)
            .await;
        self.fleet.close().await;
    }
}

/// A request that is signed with nothing: as much of it as anybody can send.
fn unproved(workspace: &str, headers: &str, body: &str) -> String {
    let now = Timestamp::now().as_second();
    format!(
        "POST /feedback/sms?workspace={workspace} HTTP/1.1\r\nHost: h\r\nwebhook-id: a\r\n\
         webhook-timestamp: {now}\r\nwebhook-signature: v1,AAAA\r\n{headers}\r\n\r\n{body}"
    )
}

fn report() -> Value {
    json!({ "reports": [{ "type": "invalid_number", "number": "+15550177" }] })
}

/// Whether nobody at the other end has closed a connection.
fn is_open(stream: &TcpStream) -> bool {
    let mut answer = [0; 512];
    match stream.try_read(&mut answer) {
        Ok(0) => false,
        Ok(_) => is_open(stream),
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// More connections than there are places, on which nothing is sent, or most of a head that never
/// ends.
#[tokio::test(flavor = "multi_thread")]
async fn incomplete_heads_do_not_block_other_clients() {
    let world = World::start(1).await;
    // A connection that has shown a key stays, however long it is idle.
    let known = Client::builder().no_proxy().pool_max_idle_per_host(1).build().unwrap();
    assert_eq!(world.track(&known, 0, 0).await, 201);
    let clients = [[127, 0, 0, 1], [127, 0, 0, 2]].map(World::client);
    let part = format!("POST /users/track HTTP/1.1\r\nX-Filler: {}", "x".repeat(12 << 10));
    // Half of the places; and of 8 MiB for heads of 16 KiB, an eighth for one address.
    for (head, share) in [("", CONNECTIONS / 2), (part.as_str(), 64)] {
        let mut held = Vec::new();
        for number in 0..CONNECTIONS + 100 {
            let mut stream = world.connect([127, 0, 0, 1]).await;
            // One that was closed already cannot be written to.
            let _ = stream.write_all(head.as_bytes()).await;
            held.push(stream);
            if number % 100 == 99 {
                assert_eq!(world.track(&clients[1], 0, 0).await, 201);
            }
        }
        for client in &clients {
            for _ in 0..10 {
                assert_eq!(world.track(client, 0, 70 << 10).await, 201);
            }
            assert_eq!(world.report(client, "acme-0").await, 200);
        }
        assert_eq!(world.track(&known, 0, 0).await, 201);
        eventually("one address has its share", async || {
            held.iter().filter(|stream| is_open(stream)).count() <= share
        })
        .await;
    }
    let metrics = world.fleet.metrics("standalone").await;
    let closed = metrics.lines().find_map(|line| {
        line.strip_prefix("longshore_http_connections_closed_total ")?.parse::<f64>().ok()
    });
    assert!(closed.is_some_and(|closed| closed > 0.0), "{closed:?}");
    world.fleet.close().await;
}

/// Whether a connection is let in with a key, and answered with one of these statuses.
async fn shows_key(stream: &mut TcpStream, key: &str, statuses: &[u16]) {
    let body = r#"{"events":[{"external_id":"ann","name":"viewed","time":"2026-11-21"}]}"#;
    let head = format!(
        "POST /users/track HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("it is open");
    // To its end, which is that of an object, so that the next one is read from its beginning.
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert_ne!(stream.read_buf(&mut answer).await.expect("an answer"), 0, "it ended");
    }
    let status = |status: &u16| answer.starts_with(format!("HTTP/1.1 {status}").as_bytes());
    assert!(statuses.iter().any(status));
}

/// More connections than there are places, each of which has shown a key and is idle.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_other_workspaces() {
    let world = World::start(2).await;
    let mut other = world.connect([127, 0, 0, 2]).await;
    shows_key(&mut other, &world.workspaces[1].key, &[201]).await;
    let client = World::client([127, 0, 0, 3]);
    let mut held = Vec::new();
    let flood = async {
        for _ in 0..CONNECTIONS + 100 {
            let mut stream = world.connect([127, 0, 0, 1]).await;
            shows_key(&mut stream, &world.workspaces[0].key, &[201]).await;
            held.push(stream);
        }
        for workspace in [0, 1] {
            for _ in 0..10 {
                assert_eq!(world.track(&client, workspace, 0).await, 201);
            }
        }
    };
    let timeout = std::time::Duration::from_secs(180);
    tokio::time::timeout(timeout, flood).await.expect("connections are accepted");
    let open = held.iter().filter(|stream| is_open(stream)).count();
    assert!((CONNECTIONS / 2..CONNECTIONS).contains(&open), "{open}");
    // That of the workspace that has only one is as it was.
    shows_key(&mut other, &world.workspaces[1].key, &[201]).await;
    world.fleet.close().await;
}

/// A key at an address that it is not for is none: its connections are closed for others.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_elsewhere_proves_nothing() {
    let world = World::start(1).await;
    let far = WorkspaceFile::new("far").with("ip_allowlist", json!(["198.51.100.0/24"]));
    world.fleet.apply(std::slice::from_ref(&far)).await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS / 2 + 50 {
        let mut stream = world.connect([127, 0, 0, 1]).await;
        // The later ones are beyond the limit of refused requests.
        shows_key(&mut stream, &far.key, &[403, 429]).await;
        held.push(stream);
    }
    eventually("unauthenticated senders have their share", async || {
        held.iter().filter(|stream| is_open(stream)).count() <= CONNECTIONS / 2
    })
    .await;
    world.fleet.close().await;
}

/// As many callers as are not let wait for a list of keys, at a gateway that has just started.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_known_from_the_start() {
    let mut world = World::start(1).await;
    world.fleet.terminate("standalone").await;
    world.fleet.launch("standalone").await;
    let client = World::client([127, 0, 0, 1]);
    let calls = (0..200).map(|_| world.track(&client, 0, 0));
    let statuses = futures::future::join_all(calls).await;
    assert!(statuses.iter().all(|status| *status == 201), "{statuses:?}");
    world.fleet.close().await;
}

/// Requests that name a workspace and a recent time, as anybody can, with as many bytes of a body
/// as fill all memory for bodies, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_bodies_do_not_exhaust_memory() {
    let world = World::start(1).await;
    let json = "Content-Type: application/json";
    let head =
        unproved("acme-0", &format!("{json}\r\nContent-Length: 1000000"), &"x".repeat(70 << 10));
    let attack = (0..400).map(|_| async {
        let mut stream = world.connect([127, 0, 0, 1]).await;
        let _ = stream.write_all(head.as_bytes()).await;
        stream
    });
    let held = futures::future::join_all(attack).await;
    let client = World::client([127, 0, 0, 2]);
    world.serves(&client, 0, 1 << 20).await;
    let metrics = world.fleet.metrics("standalone").await;
    let refused = "longshore_http_refused_total{reason=\"unauthenticated\"} ";
    let refused = metrics.lines().find_map(|line| line.strip_prefix(refused)?.parse::<f64>().ok());
    assert!(refused.is_some_and(|refused| refused > 0.0), "{refused:?}");
    world.end(held).await;
}

/// More requests than may be in progress, with a workspace and a declared body of one byte.
#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_requests_do_not_exhaust_request_slots() {
    let settings = [("LONGSHORE_GATEWAY__REQUESTS_IN_FLIGHT", REQUESTS.to_string())];
    let world = World::start_with(1, &settings).await;
    let head = unproved("acme-0", "Content-Type: application/json\r\nContent-Length: 1", "");
    let client = World::client([127, 0, 0, 2]);
    // What is looked up once is known.
    assert_eq!(world.report(&client, "acme-0").await, 200);
    let held = world.withhold([127, 0, 0, 1], &head, REQUESTS / 16).await;
    world.serves(&client, 0, 0).await;
    world.end(held).await;
}

/// More requests than may be in progress, with a key, whose bodies do not come.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_does_not_exhaust_request_slots() {
    let settings = [("LONGSHORE_GATEWAY__REQUESTS_IN_FLIGHT", REQUESTS.to_string())];
    let world = World::start_with(2, &settings).await;
    let head = format!(
        "POST /users/track HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 1\r\n\r\n",
        world.workspaces[0].key
    );
    let client = World::client([127, 0, 0, 1]);
    for workspace in 0..2 {
        assert_eq!(world.track(&client, workspace, 0).await, 201);
    }
    let held = world.withhold([127, 0, 0, 1], &head, REQUESTS / 2).await;
    assert_eq!(world.track(&client, 0, 0).await, 503);
    world.serves(&client, 1, 0).await;
    drop(held);
    eventually("the key has places", async || world.track(&client, 0, 0).await == 201).await;
    world.fleet.close().await;
}

/// Whatever is wrong with a request that proves nothing, its response does not reveal whether the
/// workspace exists that it names.
#[tokio::test(flavor = "multi_thread")]
async fn responses_do_not_reveal_workspaces() {
    let world = World::start(1).await;
    for (headers, body, expected) in [
        ("Content-Type: text/plain\r\nContent-Length: 2", "{}", 415),
        ("Content-Length: 2", "{}", 415),
        ("Content-Type: application/json\r\nContent-Length: 9999999", "", 413),
        ("Content-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: 2", "{}", 415),
        (
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2",
            "{}",
            401,
        ),
        ("Content-Type: application/json\r\nContent-Length: 1", "{", 401),
        ("Content-Length: 0", "", 401),
    ] {
        for workspace in ["acme-0", "nobody"] {
            let mut stream = world.connect([127, 0, 0, 1]).await;
            let request = unproved(workspace, headers, body);
            stream.write_all(request.as_bytes()).await.expect("it is sent");
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.expect("an answer");
            let status = String::from_utf8_lossy(&status).into_owned();
            assert!(status.ends_with(&expected.to_string()), "{workspace}, {headers}: {status}");
        }
    }
    world.fleet.close().await;
}

/// Reports of workspaces that were not looked up yet, while others name workspaces that there are
/// not.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_names_evict_no_known_one() {
    const WORKSPACES: usize = 20;
    let world = World::start(WORKSPACES).await;
    let client = Client::builder().no_proxy().build().unwrap();
    assert_eq!(world.report(&client, "acme-0").await, 200);
    let is_over = AtomicBool::new(false);
    let guesses = futures::stream::iter(0..)
        .take_while(|_| std::future::ready(!is_over.load(Ordering::Relaxed)))
        .map(|number: u64| {
            let (world, client) = (&world, &client);
            async move { world.report(client, &format!("guess-{number}")).await }
        })
        .buffer_unordered(150)
        .for_each(async |status| assert!([401, 503].contains(&status), "{status}"));
    let reports = async {
        for round in 0..3 {
            for number in 1..WORKSPACES {
                let status = world.report(&client, &format!("acme-{number}")).await;
                assert_eq!(status, 200, "{round}: acme-{number}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(guesses, reports);
    world.fleet.close().await;
}

/// A head of 16 KiB is read, and a larger one is not.
#[tokio::test(flavor = "multi_thread")]
async fn heads_have_16_kib_at_most() {
    let world = World::start(1).await;
    let answered = async |bytes: usize| {
        let mut stream = world.connect([127, 0, 0, 1]).await;
        let head = "GET /openapi.json HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Filler: ";
        let filler = "x".repeat(bytes - head.len() - 4);
        let _ = stream.write_all(format!("{head}{filler}\r\n\r\n").as_bytes()).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    };
    assert_eq!(answered(16 << 10).await, "HTTP/1.1 200");
    assert_eq!(answered(20 << 10).await, "HTTP/1.1 431");
    world.fleet.close().await;
}
