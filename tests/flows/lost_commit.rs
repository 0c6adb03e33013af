//! A commit that succeeds while its response is lost: the request is accepted, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::{Request, header};
use longshore::exports::overview::{self, Filter};
use longshore::gateway;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;
use url::Url;

use crate::support::api::EXPORT;
use crate::support::installation::Installation;
use crate::support::stores::TestStore;

const WORKSPACE: &str = "
workspace: acme
currency: USD
control_group: {percent: 5}
keys:
  - name: integrator
    secret: key-that-may-export-all-it-wants
    permissions: [users.export.global_control_group]
";

/// Of which answer it is that nobody hears.
#[derive(Clone, Copy)]
enum Lost {
    /// To the commit of what inserts.
    Commit,
    /// To the insert, which is a transaction by itself.
    Insert,
}

/// The address of `database` by way of a proxy that swallows the response to the commit of what
/// inserts into `table`, and hangs up instead; and whether it did.
pub async fn losing_the_commit_of(
    table: &'static str,
    database: &str,
) -> (String, Arc<AtomicBool>) {
    losing(Lost::Commit, table, database).await
}

/// The same for an insert that is a transaction by itself.
pub async fn losing_the_answer_of(
    table: &'static str,
    database: &str,
) -> (String, Arc<AtomicBool>) {
    losing(Lost::Insert, table, database).await
}

async fn losing(kind: Lost, table: &'static str, database: &str) -> (String, Arc<AtomicBool>) {
    let mut address = Url::parse(database).expect("an address of PostgreSQL");
    let port = address.port().unwrap_or(5432);
    let server = format!("{}:{port}", address.host_str().expect("a host"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let own = listener.local_addr().expect("an address");
    let lost = Arc::new(AtomicBool::new(false));
    let told = lost.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.expect("a connection");
            let server = TcpStream::connect(&server).await.expect("PostgreSQL");
            tokio::spawn(lead(client, server, kind, table, lost.clone()));
        }
    });
    address.set_host(Some("127.0.0.1")).expect("an address with a host");
    address.set_port(Some(own.port())).expect("an address with a port");
    address.query_pairs_mut().append_pair("sslmode", "disable");
    (address.into(), told)
}

async fn lead(
    mut client: TcpStream,
    mut server: TcpStream,
    kind: Lost,
    table: &str,
    lost: Arc<AtomicBool>,
) {
    let insert = format!("INSERT INTO {table}");
    let contains =
        |piece: &[u8], text: &str| piece.windows(text.len()).any(|part| part == text.as_bytes());
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut inserted = false;
    loop {
        tokio::select! {
            Ok(length @ 1..) = client.read(&mut asked) => {
                let piece = &asked[..length];
                // The text is recorded first, and then executed.
                let is_executed = inserted;
                inserted |= contains(piece, &insert);
                if server.write_all(piece).await.is_err() {
                    return;
                }
                let is_last = match kind {
                    Lost::Commit => inserted && contains(piece, "COMMIT"),
                    Lost::Insert => is_executed,
                };
                if is_last {
                    // Once it answers, it has committed.
                    let _ = server.read(&mut answered).await;
                    lost.store(true, Ordering::SeqCst);
                    return;
                }
            }
            Ok(length @ 1..) = server.read(&mut answered) => {
                if client.write_all(&answered[..length]).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}

#[tokio::test]
async fn an_export_whose_commit_is_not_answered_is_accepted_once() {
    let store = TestStore::postgres().await;
    let database = store.config.database.url.as_ref().expect("an address").expose_secret();
    let (database, lost) = losing_the_commit_of("export_jobs", database).await;
    let installation = Installation::open(store, WORKSPACE, |config| {
        config.database.url = Some(database.into());
    })
    .await;
    installation.app.log.create_topics().await.unwrap();

    let request = Request::post(EXPORT)
        .header(header::AUTHORIZATION, "Bearer key-that-may-export-all-it-wants")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "fields_to_export": ["email"] }).to_string()))
        .unwrap();
    let router = gateway::router(
        installation.app.gateway.clone(),
        longshore::routes(Some(&installation.app)),
    );
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert!(lost.load(Ordering::SeqCst), "the commit was answered");
    assert_eq!(status, 201, "{body}");

    let mut tx = installation.app.store.snapshot().await.unwrap();
    let workspace = Some(installation.workspace);
    let filter = Filter { workspace, limit: 10, ..Filter::default() };
    let jobs = overview::jobs(&installation.app.gateway, &mut tx, &filter).await.unwrap();
    let prefixes: Vec<&str> = jobs.iter().map(|(job, _)| job.object_prefix.as_str()).collect();
    assert_eq!(prefixes, [body["object_prefix"].as_str().unwrap()]);
    drop(tx);
    installation.app.log.close().await;
}
