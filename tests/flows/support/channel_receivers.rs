//! Receivers of every channel on this machine, which identify each message by a mark in its text:
//! webhooks and the providers of push, SMS and WhatsApp over HTTP, emails over SMTP.
//!
//! What is taken is counted in memory by mark, with the id that it came under, so that hundreds of
//! thousands are a small thing.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::mail::{Mail, MailServer};

/// The channels whose messages leave the program, by the members of the messages object.
pub const WIRED: [&str; 8] = [
    "apple_push",
    "android_push",
    "kindle_push",
    "web_push",
    "email",
    "webhook",
    "sms",
    "whats_app",
];

/// What messages are sent by, as the workspace file declares it.
pub const SMS_GROUP: &str = "0a6d1f6e-6a56-4f0b-8b1c-5c9e1f1f0a01";
pub const WHATS_APP_GROUP: &str = "0a6d1f6e-6a56-4f0b-8b1c-5c9e1f1f0a02";

/// An app of each platform, and the kind of push that goes to it.
const APPS: [(&str, &str, &str); 4] = [
    ("ios", "apple_push", "1c3f0a52-8f1e-4c57-9a3e-0d5b1c2e7f01"),
    ("android", "android_push", "1c3f0a52-8f1e-4c57-9a3e-0d5b1c2e7f02"),
    ("kindle", "kindle_push", "1c3f0a52-8f1e-4c57-9a3e-0d5b1c2e7f03"),
    ("web", "web_push", "1c3f0a52-8f1e-4c57-9a3e-0d5b1c2e7f04"),
];

/// One of so many messages over HTTP is refused for now the first time.
const REFUSED_EVERY: usize = 997;

/// Which message it is: of which send, by which channel, for which user.
pub type Mark = (u32, String, u32);

/// A template that becomes the mark of a send's message by a channel.
pub fn mark(send: usize, channel: &str) -> String {
    format!("mark:{send}:{channel}:{{{{${{external_id}}}}}};")
}

/// A user's external id, and the number in it.
pub fn external_id(number: usize) -> String {
    format!("u{number}")
}

/// A user's email address.
pub fn address(number: usize) -> String {
    format!("{}@acme.example", external_id(number))
}

/// The mark in a text.
pub fn read(text: &str) -> Option<Mark> {
    let (_, mark) = text.split_once("mark:")?;
    let mut parts = mark.split_once(';')?.0.split(':');
    let mark = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    Some((mark.0, mark.1.to_owned(), mark.2.strip_prefix('u')?.parse().ok()?))
}

/// A message that was taken.
struct ReceivedMessage {
    id: String,
    times: u32,
}

#[derive(Default)]
struct Ledger {
    received: Mutex<HashMap<Mark, ReceivedMessage>>,
    /// Messages, each once.
    count: AtomicUsize,
    /// Those that were refused once.
    refused: Mutex<HashSet<Mark>>,
    /// What must not be, as text.
    violations: Mutex<Vec<String>>,
}

impl Ledger {
    fn enter(&self, mark: Option<Mark>, id: &str, describe: impl Fn() -> String) {
        let Some(mark) = mark.filter(|_| !id.is_empty()) else {
            return self.blame(format!("without a mark of its user or an id: {}", describe()));
        };
        let mut received = self.received.lock().expect("no test panics here");
        match received.get_mut(&mark) {
            Some(first) if first.id == id => first.times += 1,
            Some(first) => self.blame(format!("{mark:?} came under {id} and {}", first.id)),
            None => {
                received.insert(mark, ReceivedMessage { id: id.to_owned(), times: 1 });
                self.count.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Whether a message is to come again later: some are, the first time.
    fn refuses(&self, mark: &Mark) -> bool {
        let (send, channel, user) = mark;
        let number = *send as usize * 31 + *user as usize * 7 + channel.len();
        number.is_multiple_of(REFUSED_EVERY)
            && self.refused.lock().expect("no test panics here").insert(mark.clone())
    }

    fn blame(&self, violation: String) {
        let mut violations = self.violations.lock().expect("no test panics here");
        if violations.len() < 20 {
            violations.push(violation);
        }
    }
}

/// All of them; they stop when this is dropped.
pub struct ChannelReceivers {
    ledger: Arc<Ledger>,
    mail: MailServer,
    http: SocketAddr,
    stop: CancellationToken,
}

impl ChannelReceivers {
    pub async fn start() -> Self {
        let (ledger, stop) = (Arc::new(Ledger::default()), CancellationToken::new());
        let mail_ledger = ledger.clone();
        let mail = MailServer::start(move |mail: Mail| {
            let mark = read(&mail.subject).filter(|(.., user)| mail.to == address(*user as usize));
            mail_ledger.enter(mark, &mail.message_id, || format!("{mail:?}"));
        });
        let mail = mail.await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("an address");
        let http = listener.local_addr().expect("an address");
        let router = Router::new().fallback(take).with_state(ledger.clone());
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            let served = axum::serve(listener, router).with_graceful_shutdown(stopped).await;
            served.expect("the receiver serves");
        });
        Self { ledger, mail, http, stop }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.http)
    }

    /// Members of a workspace file: what messages are sent by.
    pub fn declared(&self) -> Vec<(&'static str, Value)> {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let provider = |name: &str| json!({ "url": self.url(name), "secret": secret });
        let app = |(platform, _, id): (&str, &str, &str)| json!({ "id": id, "name": platform, "platform": platform });
        let group = |(id, channel): (&str, &str)| json!({ "id": id, "channel": channel, "from": "+15550100" });
        vec![
            ("email", json!({ "smtp": self.mail.url(), "from": "Acme <hello@acme.example>" })),
            (
                "providers",
                json!({
                    "push": provider("push"), "sms": provider("sms"),
                    "whats_app": provider("whats_app"),
                }),
            ),
            ("apps", Value::from_iter(APPS.map(app))),
            (
                "subscription_groups",
                Value::from_iter([(SMS_GROUP, "sms"), (WHATS_APP_GROUP, "whats_app")].map(group)),
            ),
        ]
    }

    /// A user who can be reached by every channel, as a line of an import.
    pub fn record(number: usize) -> String {
        let token = |(platform, _, id): (&str, &str, &str)| json!({ "app_id": id, "token": format!("{platform}-{number}"), "device_id": "d" });
        let group =
            |id: &str| json!({ "subscription_group_id": id, "subscription_state": "subscribed" });
        json!({
            "external_id": external_id(number),
            "email": address(number),
            "phone": format!("+1555{number:07}"),
            "push_tokens": APPS.map(token),
            "subscription_groups": [group(SMS_GROUP), group(WHATS_APP_GROUP)],
            "custom_attributes": { "number": number, "tier": if number.is_multiple_of(2) { "gold" } else { "tin" } },
        })
        .to_string()
    }

    /// A message object for every channel, content cards too, marked as of a send.
    pub fn messages(&self, send: usize) -> Value {
        let mark = |channel: &str| mark(send, channel);
        let push = |channel: &str| json!({ "alert": mark(channel), "title": "Hello" });
        let app = APPS[0].2;
        json!({
            "apple_push": push("apple_push"),
            "android_push": push("android_push"),
            "kindle_push": push("kindle_push"),
            "web_push": push("web_push"),
            "email": {
                "app_id": app, "from": "Acme <hello@acme.example>", "subject": mark("email"),
                "body": "<p>Hello {{custom_attribute.${tier}}}</p>",
            },
            "webhook": {
                "url": self.url("webhook"), "request_method": "POST", "body": mark("webhook"),
                "request_headers": { "content-type": "text/plain" },
            },
            "content_card": {
                "type": "CLASSIC", "title": mark("content_card"), "description": "Hello",
                "expire_at": "2127-01-01T00:00:00Z",
            },
            "sms": { "subscription_group_id": SMS_GROUP, "app_id": app, "body": mark("sms") },
            "whats_app": {
                "subscription_group_id": WHATS_APP_GROUP, "app_id": app,
                "message_type": "text", "message": { "body": mark("whats_app") },
            },
        })
    }

    /// Messages that were received, each once.
    pub fn count(&self) -> usize {
        self.ledger.count.load(Ordering::SeqCst)
    }

    /// Panics if a message has no mark, or two ids.
    pub fn check(&self) {
        let violations = self.ledger.violations.lock().expect("no test panics here");
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// What is there of the messages that must be, and of nothing else; how many of each
    /// channel came more than once, and how many were refused once.
    pub fn check_all(&self, expected: impl Iterator<Item = Mark>) -> (HashMap<String, u32>, usize) {
        self.check();
        let received = self.ledger.received.lock().expect("no test panics here");
        let (mut missing, mut all) = (Vec::new(), 0);
        for mark in expected {
            all += 1;
            if !received.contains_key(&mark) {
                missing.push(mark);
            }
        }
        missing.sort();
        let shown = &missing[..missing.len().min(20)];
        assert!(missing.is_empty(), "{} are missing, such as {shown:?}", missing.len());
        assert_eq!(received.len(), all, "messages that nobody asked for");
        let mut ids: Vec<&str> = received.values().map(|received| received.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id is that of several messages");
        let mut repeated = HashMap::new();
        for ((_, channel, _), received) in
            received.iter().filter(|(_, received)| received.times > 1)
        {
            *repeated.entry(channel.clone()).or_default() += received.times - 1;
        }
        (repeated, self.ledger.refused.lock().expect("no test panics here").len())
    }
}

impl Drop for ChannelReceivers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The dispatch of each content card in the store, and the number of its user.
pub async fn stored_cards(database: &str) -> Vec<(Uuid, usize)> {
    let mut database = sqlx::PgConnection::connect(database).await.expect("PostgreSQL answers");
    let sql = "SELECT cards.dispatch_id, users.external_id
               FROM content_cards AS cards JOIN users USING (workspace_id, service_id)";
    let rows: Vec<(Uuid, String)> =
        sqlx::query_as(sql).fetch_all(&mut database).await.expect("cards are read");
    let number = |id: &str| id.strip_prefix('u').and_then(|number| number.parse().ok());
    rows.into_iter().map(|(dispatch, user)| (dispatch, number(&user).expect("a number"))).collect()
}

async fn take(State(ledger): State<Arc<Ledger>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = String::from_utf8_lossy(&body);
    let mark = read(&text);
    if mark.as_ref().is_some_and(|mark| ledger.refuses(mark)) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    ledger.enter(mark, id, || text.chars().take(500).collect());
    StatusCode::OK
}
