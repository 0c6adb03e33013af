//! Messages whose receiver got them and did not respond, or not completely: after a cancellation,
//! they are known, and an apology reaches their users.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::sending::{Sending, message};
use crate::support::eventually;
use crate::support::fleet::Backend;
use crate::support::process;
use crate::support::receiver::ScriptedResponse;
use crate::support::scripted_relay::{Action, ScriptedRelay, Step};

const DISPATCHES: &str = "/messages/dispatches";
const MARKED: &str = "may_have_been_sent";

/// Listens until the test ends, and treats each request as its user's name says: `fine` gets a
/// response.
async fn listen() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that hangs up is no fault of the receiver.
            tokio::spawn(async move { respond(stream).await.unwrap_or_default() });
        }
    });
    address
}

async fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = vec![0; 64 << 10];
    // The request stays unread, so closing the connection resets it.
    let (length, user) = loop {
        let length = stream.peek(&mut request).await?;
        if let Some(user) = user_of(&request[..length]) {
            break (length, user);
        }
        tokio::task::yield_now().await;
    };
    if user == "reset" {
        return Ok(());
    }
    stream.read_exact(&mut request[..length]).await?;
    let response: &[u8] = match user.as_str() {
        "never" => std::future::pending().await,
        "half" => b"HTTP/1.1 200 OK\r\ncontent-le",
        _ => b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    };
    stream.write_all(response).await?;
    stream.shutdown().await
}

/// The user of a request, once all of it has arrived.
fn user_of(request: &[u8]) -> Option<String> {
    let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let body: Value = serde_json::from_slice(&request[end + 4..]).ok()?;
    Some(body["user"].as_str().expect("a user").to_owned())
}

/// A second attempt is hours later.
fn once() -> [(&'static str, String); 2] {
    [
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "1".to_owned()),
        ("LONGSHORE_MESSAGES__RETRY_MS", "3600000".to_owned()),
    ]
}

impl Sending {
    /// Sends messages to users; returns the dispatch's id.
    async fn send_to(&self, users: &[&str], messages: Value) -> String {
        let body = json!({
            "external_user_ids": users, "messages": messages, "recipient_subscription_state": "all",
        });
        let sent = self.api.post("/messages/send", &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        sent.body["dispatch_id"].as_str().expect("a dispatch_id").to_owned()
    }

    /// The recipients with an outcome; empty while the dispatch is unknown.
    async fn with_outcome(&self, dispatch: &str, outcome: &str) -> Vec<Value> {
        let path = format!("{DISPATCHES}/{dispatch}/recipients?outcome={outcome}");
        let page = self.api.get(&path).await.body;
        page["recipients"].as_array().cloned().unwrap_or_default()
    }

    async fn users_with(&self, dispatch: &str, outcome: &str) -> BTreeSet<String> {
        let found = self.with_outcome(dispatch, outcome).await;
        let user = |recipient: &Value| recipient["external_user_id"].as_str().unwrap().to_owned();
        found.iter().map(user).collect()
    }

    /// Waits until a dispatch is in a state; returns it.
    async fn in_state(&self, dispatch: &str, state: &str) -> Value {
        let path = format!("{DISPATCHES}/{dispatch}");
        eventually(&format!("{dispatch} is {state}"), || async {
            self.api.get(&path).await.body["state"] == state
        })
        .await;
        self.api.get(&path).await.body
    }

    async fn cancelled(&self, dispatch: &str) -> Value {
        let cancelled = self.api.delete(&format!("{DISPATCHES}/{dispatch}")).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        self.in_state(dispatch, "cancelled").await
    }

    /// Sends to those who have, or may have, the message of a dispatch; returns who got it.
    async fn apologize(&self, dispatch: &str, text: &str) -> BTreeSet<String> {
        let body = json!({ "messages": message(&self.receiver, text) });
        let sent = self.api.post(&format!("{DISPATCHES}/{dispatch}/send"), &body).await;
        assert_eq!(sent.status, 201, "{sent:?}");
        let id = sent.body["dispatch_id"].as_str().expect("a dispatch_id");
        self.in_state(id, "done").await;
        let got = self.sent().into_iter().filter(|sent| sent.text == text);
        got.map(|sent| sent.user).collect()
    }
}

fn names(users: &[&str]) -> BTreeSet<String> {
    users.iter().map(|user| (*user).to_owned()).collect()
}

/// The counts of a dispatch that was cancelled.
fn check_counts(shown: &Value, (sent, cancelled, marked): (u64, u64, u64)) {
    let outcomes = shown["outcomes"].as_object().expect("an object");
    let total: u64 = outcomes.values().map(|count| count.as_u64().expect("a number")).sum();
    assert_eq!(total, sent + cancelled, "each message counts once: {shown}");
    assert_eq!((&outcomes["sent"], &outcomes["cancelled"]), (&json!(sent), &json!(cancelled)));
    assert_eq!((&shown[MARKED], &shown["may_still_be_sent"]), (&json!(marked), &json!(0)));
}

// Webhooks -------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn messages_without_a_response_are_counted_standalone() {
    are_counted(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_without_a_response_are_counted_in_a_fleet() {
    are_counted(Backend::Fleet(1)).await;
}

async fn are_counted(backend: Backend) {
    let sending = Sending::start(backend, &once(), |_| Vec::new()).await;
    let unanswered = ["half", "never", "reset"];
    sending.import(&["fine", "half", "never", "reset", "refused"].map(|id| (id, None))).await;
    let webhook = |address: SocketAddr| {
        let body = json!({ "user": "{{${external_id}}}", "text": "wrong" }).to_string();
        json!({ "webhook": {
            "url": format!("http://{address}/hook"), "request_method": "POST", "body": body,
        } })
    };
    let wrong = webhook(listen().await);
    let wrong = sending.send_to(&["fine", "half", "never", "reset"], wrong).await;
    eventually("each message was tried", || async {
        sending.users_with(&wrong, MARKED).await == names(&unanswered)
            && sending.users_with(&wrong, "sent").await == names(&["fine"])
    })
    .await;
    // Nobody listens there.
    let free = SocketAddr::from(([127, 0, 0, 1], process::free_port()));
    let refused = sending.send_to(&["refused"], webhook(free)).await;
    eventually("the message was tried", || async {
        let waiting = sending.with_outcome(&refused, "waiting").await;
        waiting.iter().any(|recipient| recipient["attempts"] == 1)
    })
    .await;

    check_counts(&sending.cancelled(&wrong).await, (1, 3, 3));
    check_counts(&sending.cancelled(&refused).await, (0, 1, 0));
    let marked = sending.with_outcome(&wrong, MARKED).await;
    assert_eq!(marked.len(), 3, "{marked:?}");
    for recipient in &marked {
        assert_eq!(recipient["outcome"], "cancelled", "{recipient}");
        assert_eq!(recipient[MARKED], true, "{recipient}");
        assert!(recipient["reason"].is_string(), "{recipient}");
    }
    let fine = sending.with_outcome(&wrong, "sent").await;
    assert_eq!(fine[0][MARKED], false, "{fine:?}");
    assert!(sending.users_with(&refused, MARKED).await.is_empty());

    // The same for the operator.
    let shown = sending.fleet.run(&["dispatches", "show", &wrong, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((&shown[MARKED], &shown["cancelled"]), (&json!(3), &json!(3)), "{shown}");
    let arguments = ["dispatches", "recipients", &wrong, "--outcome", MARKED, "--json"];
    let printed = sending.fleet.run(&arguments).await;
    let printed = printed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    assert_eq!(printed.collect::<Vec<Value>>(), marked);

    let sorry = sending.apologize(&wrong, "sorry").await;
    assert_eq!(sorry, names(&["fine", "half", "never", "reset"]));
    assert!(sending.apologize(&refused, "for nothing").await.is_empty());
    sending.fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_stays_marked_until_it_is_accepted_standalone() {
    stays_marked(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_stays_marked_until_it_is_accepted_in_a_fleet() {
    stays_marked(Backend::Fleet(1)).await;
}

async fn stays_marked(backend: Backend) {
    let settings = [
        ("LONGSHORE_DELIVERIES__TIMEOUT_SECONDS", "1".to_owned()),
        ("LONGSHORE_MESSAGES__RETRY_MS", "100".to_owned()),
    ];
    let sending = Sending::start(backend, &settings, |_| Vec::new()).await;
    sending.import(&[("ann", None)]).await;
    let busy = || std::iter::repeat_n(ScriptedResponse::Status(503), 1_000);
    let lost_and_refused = async |text: &str| {
        sending.receiver.script([ScriptedResponse::Close]);
        sending.receiver.script(busy());
        let id = sending.send_to(&["ann"], message(&sending.receiver, text)).await;
        eventually("an attempt had no response, and a later one was refused", || async {
            let marked = sending.with_outcome(&id, MARKED).await;
            let is_refused = |recipient: &Value| {
                recipient["attempts"].as_i64() > Some(1)
                    && recipient["reason"].as_str().is_some_and(|reason| reason.contains("503"))
            };
            marked.iter().any(is_refused)
        })
        .await;
        id
    };
    let cancelled = lost_and_refused("cancelled").await;
    check_counts(&sending.cancelled(&cancelled).await, (0, 1, 1));
    sending.receiver.clear_script();
    assert_eq!(sending.apologize(&cancelled, "sorry").await, names(&["ann"]));

    let accepted = lost_and_refused("accepted").await;
    sending.receiver.clear_script();
    let shown = sending.in_state(&accepted, "done").await;
    check_counts(&shown, (1, 0, 0));
    assert!(sending.users_with(&accepted, MARKED).await.is_empty());
    sending.fleet.close().await;
}

// Emails ---------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn emails_whose_relay_is_lost_after_their_content_are_counted_standalone() {
    relay_is_lost(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_whose_relay_is_lost_after_their_content_are_counted_in_a_fleet() {
    relay_is_lost(Backend::Fleet(1)).await;
}

async fn relay_is_lost(backend: Backend) {
    let relay = ScriptedRelay::start(&[], []).await;
    let email = json!({ "smtp": relay.url("", "") });
    let sending = Sending::start(backend, &once(), |_| vec![("email", email)]).await;
    let user = json!({ "external_id": "ann", "email": "ann@people.example" });
    sending.fleet.import("acme", &[user.to_string()]).await;
    for (step, action, marked) in [
        (Step::End, Action::AcceptAndClose, 1),
        (Step::End, Action::Reply(452, "disk full"), 0),
        (Step::Data, Action::Close, 0),
        (Step::To, Action::Close, 0),
    ] {
        relay.script([(step, action.clone())]);
        let email = json!({ "email": {
            "app_id": "web", "from": "hello@acme.example", "subject": "Wrong", "body": "<p>Hello</p>",
        } });
        let id = sending.send_to(&["ann"], email).await;
        eventually("the email was tried", || async {
            let waiting = sending.with_outcome(&id, "waiting").await;
            waiting.iter().any(|recipient| recipient["attempts"] == 1)
        })
        .await;
        let shown = sending.cancelled(&id).await;
        assert_eq!(shown[MARKED], marked, "{step:?} {action:?}: {shown}");
        check_counts(&shown, (0, 1, marked));
        let text = format!("sorry for {id}");
        let got = if marked == 1 { names(&["ann"]) } else { BTreeSet::new() };
        assert_eq!(sending.apologize(&id, &text).await, got, "{step:?} {action:?}");
    }
    assert_eq!(relay.accepted().len(), 1);
    sending.fleet.close().await;
}
