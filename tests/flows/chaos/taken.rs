//! What the outside was given: messages by relay and webhook, and callbacks, each with the id
//! that it came under. The webhooks and callbacks come to a process of their own, which can be
//! killed, paused and made slow.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::support::channel_receivers::{self, Mark};
use crate::support::mail::{Mail, MailServer};
use crate::support::process::{Process, free_port};
use crate::support::{callbacks, eventually, python};

/// A message as it was taken.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub times: usize,
    /// When first, in milliseconds since the epoch.
    pub at: i64,
}

/// A callback as it came.
#[derive(Clone, Debug)]
pub struct Told {
    pub id: String,
    timestamp: String,
    signature: String,
    pub body: Vec<u8>,
}

impl Told {
    /// Whether it is signed with a secret.
    pub fn is_signed_with(&self, secret: &[u8]) -> bool {
        let ours = callbacks::sign(secret, &self.id, &self.timestamp, &self.body);
        self.signature.split(' ').any(|given| given == ours)
    }
}

#[derive(Default)]
struct Notes {
    messages: HashMap<Mark, Message>,
    /// By the path of the receiver.
    callbacks: HashMap<String, Vec<Told>>,
    /// What must not be, as text.
    wrong: Vec<String>,
    /// How far the file is read.
    read: u64,
}

impl Notes {
    fn enter(&mut self, text: &str, id: &str, at: i64) {
        let Some(mark) = channel_receivers::read(text).filter(|_| !id.is_empty()) else {
            self.wrong.push(format!("without a mark or an id: {id:?} {text:.300}"));
            return;
        };
        match self.messages.get_mut(&mark) {
            Some(first) if first.id == id => first.times += 1,
            Some(first) => {
                let wrong = format!("{mark:?} came under {} and {id}", first.id);
                self.wrong.push(wrong);
            }
            None => {
                self.messages.insert(mark, Message { id: id.to_owned(), times: 1, at });
            }
        }
    }
}

/// The relay and the receiver.
pub struct Taken {
    notes: Arc<Mutex<Notes>>,
    mail: MailServer,
    port: u16,
    file: PathBuf,
    directory: PathBuf,
    process: Mutex<Process>,
}

impl Taken {
    pub async fn start(directory: PathBuf) -> Self {
        let notes = Arc::new(Mutex::new(Notes::default()));
        let of_mail = notes.clone();
        let mail = MailServer::start(move |mail: Mail| {
            let mut notes = of_mail.lock().expect("no test panics here");
            let at = i64::try_from(mail.at / 1_000_000).expect("a time");
            notes.enter(&mail.subject, &mail.message_id, at);
            let mark = channel_receivers::read(&mail.subject);
            if mark.is_some_and(|(.., user)| mail.to != channel_receivers::address(user as usize)) {
                notes.wrong.push(format!("to somebody else: {mail:?}"));
            }
        });
        let (mail, port, file) = (mail.await, free_port(), directory.join("taken.ndjson"));
        let process = Mutex::new(receiver(&directory, port, &file));
        let taken = Self { notes, mail, port, file, directory, process };
        taken.answers().await;
        taken
    }

    pub fn relay(&self) -> String {
        self.mail.url()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().expect("no test panics here")
    }

    pub fn kill_receiver(&self) {
        self.process().kill();
    }

    /// Starts it again, and waits until it listens.
    pub async fn start_receiver(&self) {
        *self.process() = receiver(&self.directory, self.port, &self.file);
        self.answers().await;
    }

    async fn answers(&self) {
        let address = ("127.0.0.1", self.port);
        eventually("the receiver listens", || async {
            tokio::net::TcpStream::connect(address).await.is_ok()
        })
        .await;
    }

    /// Sends the receiver a signal by its name.
    pub fn signal_receiver(&self, signal: &str) {
        self.process().signal(signal);
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        let mut notes = self.notes.lock().expect("no test panics here");
        self.read_on(&mut notes);
        notes
    }

    /// Reads what the receiver has written since.
    fn read_on(&self, notes: &mut Notes) {
        let Ok(mut file) = std::fs::File::open(&self.file) else { return };
        let mut text = String::new();
        file.seek(SeekFrom::Start(notes.read)).expect("a place in the file");
        file.read_to_string(&mut text).expect("lines are UTF-8");
        // The last may not be whole yet.
        let complete_bytes = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[..complete_bytes].lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let word = |name: &str| line[name].as_str().expect("a text").to_owned();
            let body = BASE64_STANDARD.decode(word("body")).expect("base64");
            let at = line["at"].as_i64().expect("a time");
            if word("path") == "/webhook" {
                notes.enter(&String::from_utf8_lossy(&body), &word("id"), at);
                continue;
            }
            let (timestamp, signature) = (word("timestamp"), word("signature"));
            let told = Told { id: word("id"), timestamp, signature, body };
            notes.callbacks.entry(word("path")).or_default().push(told);
        }
        notes.read += complete_bytes as u64;
    }

    /// Leaves those messages, and those paths of callbacks, that did not come.
    pub fn leave_missing(&self, marks: &mut Vec<Mark>, paths: &mut Vec<String>) {
        let notes = self.notes();
        marks.retain(|mark| !notes.messages.contains_key(mark));
        paths.retain(|path| !notes.callbacks.contains_key(path));
    }

    /// All messages; and what must not be, as text.
    pub fn messages(&self) -> (HashMap<Mark, Message>, Vec<String>) {
        let notes = self.notes();
        (notes.messages.clone(), notes.wrong.clone())
    }

    /// The callbacks by path.
    pub fn callbacks(&self) -> HashMap<String, Vec<Told>> {
        self.notes().callbacks.clone()
    }
}

fn receiver(directory: &Path, port: u16, file: &Path) -> Process {
    let mut command = Command::new("python3");
    command.arg(python::file("chaos/taker.py")).arg(port.to_string()).arg(file);
    Process::start("receiver", directory, command)
}
