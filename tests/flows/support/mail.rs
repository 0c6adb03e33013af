//! A real SMTP server on this machine: aiosmtpd, which `scripts/python` installs.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::python;

/// An email that the server has taken.
#[derive(Clone, Debug)]
pub struct Mail {
    /// When: nanoseconds since the epoch.
    #[allow(dead_code, reason = "benches measure by it")]
    pub at: i128,
    /// As it is in the header, in angle brackets.
    pub message_id: String,
    /// With commas between.
    pub to: String,
    pub subject: String,
}

/// Takes every email until it is dropped.
pub struct MailServer {
    server: Child,
    port: u16,
}

impl MailServer {
    /// Calls `on_email` with each email, just before the client hears of it.
    pub async fn start(mut on_email: impl FnMut(Mail) + Send + 'static) -> Self {
        let mut command = Command::new(python::interpreter("messages/requirements.txt").await);
        command.arg(python::file("messages/mail.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("the SMTP server starts");
        let mut lines = BufReader::new(server.stdout.take().expect("it is piped")).lines();
        let (port, first_line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let first = lines.next().and_then(Result::ok).unwrap_or_default();
            let _ = port.send(first);
            for line in lines.map_while(Result::ok) {
                on_email(read(&line));
            }
        });
        let port = first_line.await.expect("the SMTP server listens");
        Self { server, port: port.parse().expect("a port") }
    }

    /// Its address as a workspace file has it.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn read(line: &str) -> Mail {
    let mut words = line.split('\t').map(str::to_owned);
    let mut word = || words.next().unwrap_or_else(|| panic!("a word is missing: {line}"));
    Mail { at: word().parse().expect("a time"), message_id: word(), to: word(), subject: word() }
}
