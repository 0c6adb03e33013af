//! Emails to a real relay that takes them over TLS only, and only from who has logged in:
//! aiosmtpd, with a certificate of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::json;

use crate::support::fleet::{Backend, Fleet};
use crate::support::{WorkspaceFile, certificates, eventually, python};

/// How long an email may take to come.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The relay, until it is dropped.
struct Relay {
    server: Child,
    lines: Receiver<String>,
    starting: String,
    wrapped: String,
}

impl Relay {
    async fn start(certificate: &str, key: &str) -> Self {
        let mut command = Command::new(python::interpreter("messages/requirements.txt").await);
        command.arg(python::file("messages/tls.py")).args([certificate, key]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("the relay starts");
        let output = BufReader::new(server.stdout.take().expect("it is piped"));
        let (told, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| told.send(line))
        });
        let mut relay = Self { server, lines, starting: String::new(), wrapped: String::new() };
        let ports = relay.next();
        let (starting, wrapped) = ports.split_once('\t').expect("two ports");
        (relay.starting, relay.wrapped) = (starting.to_owned(), wrapped.to_owned());
        relay
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("the relay says something")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_require_a_valid_tls_certificate() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (certificate, key) = certificates::self_signed(directory.path()).await;
    let relay = Relay::start(&certificate, &key).await;
    let fleet = Fleet::start(
        Backend::Embedded,
        &[("SSL_CERT_FILE", certificate), ("LONGSHORE_SMTP__CONNECT_SECONDS", "5".into())],
    )
    .await;
    let workspace = |name: &str, smtp: String| {
        let email = json!({ "smtp": smtp, "from": "hello@acme.example" });
        let workspace = WorkspaceFile::new(name).with_percent(None).with("email", email);
        workspace.permitted(&["messages.send"])
    };
    let (starting, wrapped) = (&relay.starting, &relay.wrapped);
    let files = [
        workspace("starting", format!("smtp://ann:pass-word@127.0.0.1:{starting}")),
        workspace("wrapped", format!("smtps://ann:pass-word@127.0.0.1:{wrapped}")),
        // Whose name the certificate does not have.
        workspace("other-name", format!("smtp://ann:pass-word@localhost:{starting}")),
        workspace("plain", format!("smtp://ann:pass-word@127.0.0.1:{starting}?tls=none")),
    ];
    let clients = fleet.apply(&files).await;
    let message = json!({
        "external_user_ids": ["ann"],
        "messages": { "email": {
            "app_id": "app", "from": "hello@acme.example", "subject": "Hi", "body": "<p>Hi</p>",
        } },
    });
    for (file, client) in files.iter().zip(&clients) {
        let ann = json!({ "external_id": "ann", "email": "ann@people.example" });
        fleet.import(&file.name, &[ann.to_string()]).await;
        let answer = client.post("/messages/send", &message).await;
        assert!(answer.status.is_success(), "{answer:?}");
    }
    // Two come, each over TLS by who has logged in; the other two are tried again and again.
    for _ in 0..2 {
        let line = relay.next();
        assert!(line.starts_with("tls\tann\t<"), "{line}");
    }
    let attempts = |outcome: &str| {
        format!("longshore_message_attempts_total{{channel=\"email\",outcome=\"{outcome}\"}}")
    };
    let (sent, later) = (attempts("sent"), attempts("later"));
    eventually("the others were tried twice", || async {
        let metrics = fleet.metrics("standalone").await;
        let value = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.map_or(0, |value| value.trim().parse::<u64>().expect("a number"))
        };
        value(&sent) == 2 && value(&later) >= 4
    })
    .await;
    assert!(relay.lines.try_recv().is_err(), "an email went where it must not");
    drop(relay);
    fleet.close().await;
}
