//! The bound: the same messages of the same users rendered, and nothing else; then sent to the
//! same receiver by a client that has nothing else to do. Each on all cores, their times added.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::join_all;
use longshore::messages::content::{Content, MessageSource};
use longshore::messages::personalization::Scope;
use longshore::workspaces::settings::Settings;
use serde_json::{Map, Value};
use sqlx::PgPool;

use crate::receiver::Receiver;

/// Requests in progress at once.
const CONNECTIONS: usize = 64;

/// In seconds.
pub struct Bound {
    pub rendering: f64,
    pub sending: f64,
}

/// Users who are stored, as texts.
pub async fn profiles(pool: &PgPool) -> Arc<Vec<String>> {
    let sql = "SELECT doc FROM users ORDER BY slice, service_id";
    Arc::new(sqlx::query_scalar(sql).fetch_all(pool).await.expect("users"))
}

/// Has a message object for webhooks rendered and sent for each user.
pub async fn measure(profiles: &Arc<Vec<String>>, messages: &Value, receiver: &Receiver) -> Bound {
    let began = Instant::now();
    let bodies = render(profiles.clone(), messages).await;
    let rendering = began.elapsed().as_secs_f64();
    let (began, before) = (Instant::now(), receiver.count());
    send(Arc::new(bodies), receiver).await;
    receiver.has(before + profiles.len()).await;
    Bound { rendering, sending: began.elapsed().as_secs_f64() }
}

/// From the stored text to the text that is sent.
async fn render(profiles: Arc<Vec<String>>, messages: &Value) -> Vec<String> {
    let Value::Object(messages) = messages else { panic!("{messages}") };
    let allow_private = vec!["127.0.0.0/8".parse().expect("a network")];
    let settings = Settings { allow_private, ..Settings::default() };
    let (content, _, problems) = Content::read(messages, MessageSource::Send, &settings);
    assert!(problems.is_empty(), "{problems:?}");
    let (content, cores) = (Arc::new(content), cores());
    let share = profiles.len().div_ceil(cores);
    let threads = (0..cores).map(|number| {
        let (profiles, content) = (profiles.clone(), content.clone());
        tokio::task::spawn_blocking(move || {
            let message = &content.messages()[0];
            let own = profiles.iter().skip(number * share).take(share);
            let body = |profile: &String| {
                let profile: Map<String, Value> = serde_json::from_str(profile).expect("JSON");
                let now = jiff::Timestamp::now().as_millisecond();
                let rendered =
                    message.render(&Scope::from_profile(&profile, now)).expect("it renders");
                rendered.object["body"].as_str().expect("a body").to_owned()
            };
            own.map(body).collect::<Vec<_>>()
        })
    });
    let bodies = join_all(threads).await;
    bodies.into_iter().flat_map(|bodies| bodies.expect("no thread panics")).collect()
}

async fn send(bodies: Arc<Vec<String>>, receiver: &Receiver) {
    let client = reqwest::Client::new();
    let (url, next) = (format!("http://{}/", receiver.address), Arc::new(AtomicUsize::new(0)));
    let connections = (0..CONNECTIONS).map(|_| {
        let (client, bodies, url, next) =
            (client.clone(), bodies.clone(), url.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = client.post(&url).header("content-type", "application/json");
                let answer = request.body(body.clone()).send().await.expect("it is answered");
                assert_eq!(answer.status(), 200);
            }
        })
    });
    join_all(connections).await.into_iter().for_each(|done| done.expect("all are sent"));
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
