//! Transactional emails, from the call to the SMTP server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use serde_json::json;

use crate::support::mail::{Mail, MailServer};
use crate::support::{Api, WorkspaceFile};

const CAMPAIGN: &str = "6c9f0a52-8f1e-4c57-9a3e-0d5b1c2e7f01";

/// How long the last emails may take.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Transactional {
    server: MailServer,
    /// When each came, by its subject: nanoseconds since the epoch.
    accepted_at: Arc<Mutex<HashMap<String, i128>>>,
    /// Emails so far.
    sent: AtomicUsize,
}

impl Transactional {
    pub async fn start() -> Self {
        let accepted_at = Arc::new(Mutex::new(HashMap::new()));
        let own = accepted_at.clone();
        let server = MailServer::start(move |mail: Mail| {
            own.lock().expect("no thread panics").insert(mail.subject, mail.at);
        });
        Self { server: server.await, accepted_at, sent: AtomicUsize::new(0) }
    }

    /// The workspace with the campaign, and where its emails go.
    pub fn declared(&self, workspace: WorkspaceFile) -> WorkspaceFile {
        let email = json!({
            "from": "Acme <hello@acme.example>",
            "subject": "Receipt {{api_trigger_properties.${number}}}",
            "body": "<p>Thank you, {{${first_name} | default: 'friend'}}!</p>",
        });
        let campaign = json!({
            "id": CAMPAIGN, "name": "Receipt", "type": "transactional", "email": email,
        });
        workspace
            .with("email", json!({ "smtp": self.server.url(), "from": "hello@acme.example" }))
            .with("campaigns", json!([campaign]))
    }

    /// Sends so many, one every `pace`, whether the former have come or not.
    pub async fn measure(
        &self,
        api: &Api,
        customers: &[String],
        pace: Duration,
        count: usize,
    ) -> Vec<(&'static str, f64)> {
        let first = self.sent.fetch_add(count, Ordering::SeqCst);
        let (began, began_at) = (Instant::now(), now());
        let calls = (0..count).map(async |index| {
            let number = first + index;
            tokio::time::sleep_until((began + pace * index as u32).into()).await;
            let body = json!({
                "recipient": { "external_user_id": customers[number % customers.len()] },
                "trigger_properties": { "number": number },
            });
            let path = format!("/transactional/v1/campaigns/{CAMPAIGN}/send");
            let answer = api.post(&path, &body).await;
            assert_eq!(answer.status, 201, "{answer:?}");
        });
        join_all(calls).await;
        let subject = |index: usize| format!("Receipt {}", first + index);
        let since = Instant::now();
        let mut delays = Vec::new();
        for index in 0..count {
            let at = loop {
                let at = self
                    .accepted_at
                    .lock()
                    .expect("no thread panics")
                    .get(&subject(index))
                    .copied();
                match at {
                    Some(at) => break at,
                    None => assert!(since.elapsed() < TIMEOUT, "{} is missing", subject(index)),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            let due = began_at + (pace * index as u32).as_nanos() as i128;
            delays.push((at - due) as f64 / 1e6);
        }
        delays.sort_by(f64::total_cmp);
        let percentile = |percent: usize| delays[(count * percent / 100).min(count - 1)];
        vec![
            ("emails", count as f64),
            ("p50 ms", percentile(50)),
            ("p99 ms", percentile(99)),
            ("max ms", percentile(100)),
        ]
    }
}

fn now() -> i128 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    time.as_nanos() as i128
}
