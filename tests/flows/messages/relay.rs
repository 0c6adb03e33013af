//! A real SMTP server on this machine: it writes down what it takes, and answers as it is told.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is said once all of an email is there.
#[derive(Clone, Debug)]
pub enum Says {
    /// A code and a text; 2xx takes the email.
    Code(u16, &'static str),
    /// It takes the email and closes without a word.
    TakesAndCloses,
    /// It takes the email, and says so after a while.
    Slow(Duration),
}

/// An email that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    pub at: Instant,
    pub to: String,
    pub message_id: String,
    /// Headers and body, as they came.
    pub text: String,
}

impl Taken {
    /// A header, unfolded.
    pub fn header(&self, name: &str) -> Option<String> {
        let (head, _) = self.text.split_once("\r\n\r\n")?;
        let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// Listens until it is dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Says>>,
    taken: Mutex<Vec<Taken>>,
    refused: Mutex<usize>,
}

impl Relay {
    /// Says of the first emails what `script` says, and takes all others.
    pub async fn start(script: impl IntoIterator<Item = Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let script = Mutex::new(script.into_iter().collect());
        let shared = Arc::new(Shared { script, ..Shared::default() });
        let serving = tokio::spawn({
            let shared = shared.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = shared.clone();
                    // A client that hangs up is no fault of the relay.
                    tokio::spawn(async move { serve(stream, &shared).await.unwrap_or_default() });
                }
            }
        });
        Self { address, shared, serving }
    }

    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// Says so of further emails.
    pub fn script(&self, script: impl IntoIterator<Item = Says>) {
        self.shared.script.lock().unwrap().extend(script);
    }

    pub fn taken(&self) -> Vec<Taken> {
        self.shared.taken.lock().unwrap().clone()
    }

    /// Emails that it did not take.
    pub fn refused(&self) -> usize {
        *self.shared.refused.lock().unwrap()
    }

    /// Waits until so many emails were taken.
    pub async fn wait_for(&self, count: usize) -> Vec<Taken> {
        let since = Instant::now();
        loop {
            let taken = self.taken();
            if taken.len() >= count {
                return taken;
            }
            assert!(since.elapsed() < PATIENCE, "{} of {count} emails came", taken.len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 relay.example\r\n").await?;
    let mut to = String::new();
    while let Some(line) = lines.next_line().await? {
        let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let answer: &[u8] = match verb.as_str() {
            "EHLO" => b"250-relay.example\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
            "RCPT" => {
                let address = line.split(['<', '>']).nth(1).unwrap_or_default();
                to = address.to_owned();
                b"250 OK\r\n"
            }
            "DATA" => {
                writer.write_all(b"354 go on\r\n").await?;
                let mut text = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    text.push_str(line.strip_prefix('.').unwrap_or(&line));
                    text.push_str("\r\n");
                }
                if !said(shared, to.clone(), text, &mut writer).await? {
                    return Ok(());
                }
                continue;
            }
            "QUIT" => {
                writer.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => b"250 OK\r\n",
        };
        writer.write_all(answer).await?;
    }
    Ok(())
}

/// Says something of an email; whether the connection goes on.
async fn said(
    shared: &Shared,
    to: String,
    text: String,
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
) -> std::io::Result<bool> {
    let says = shared.script.lock().unwrap().pop_front().unwrap_or(Says::Code(250, "taken"));
    let takes = !matches!(says, Says::Code(code, _) if code >= 300);
    if takes {
        let mut taken = Taken { at: Instant::now(), to, message_id: String::new(), text };
        taken.message_id = taken.header("message-id").expect("a Message-ID");
        shared.taken.lock().unwrap().push(taken);
    } else {
        *shared.refused.lock().unwrap() += 1;
    }
    let (code, word) = match says {
        Says::Code(code, word) => (code, word),
        Says::TakesAndCloses => return Ok(false),
        Says::Slow(time) => {
            tokio::time::sleep(time).await;
            (250, "taken")
        }
    };
    writer.write_all(format!("{code} {word}\r\n").as_bytes()).await?;
    Ok(true)
}
