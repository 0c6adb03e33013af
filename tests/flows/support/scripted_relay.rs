//! A relay on this machine that misbehaves as scripted, step by step, and stores what it hears.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// How far a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Connect,
    Hello,
    Tls,
    LogIn,
    From,
    To,
    Data,
    /// All of the email is there.
    End,
    Reset,
}

/// What is done in the place of what is right.
#[derive(Clone, Debug)]
pub enum Action {
    Reply(u16, &'static str),
    /// These bytes, with their line ends. It takes the email if they begin with 2, and continues
    /// after DATA if they begin with 3.
    SendBytes(&'static [u8]),
    /// A line without an end, as long as somebody listens.
    Flood,
    /// What is right, after a while.
    Delay(Duration),
    /// Nothing, ever.
    Stall,
    Close,
    /// Takes the email, and closes without a word.
    AcceptAndClose,
}

/// An email that was taken, from its first header to its last line, without stuffing.
#[derive(Clone, Debug)]
pub struct AcceptedEmail {
    pub from: String,
    pub to: Vec<String>,
    pub text: String,
}

impl AcceptedEmail {
    /// A header, unfolded.
    pub fn header(&self, name: &str) -> Option<String> {
        let (head, _) = self.text.split_once("\r\n\r\n")?;
        let head = head.replace("\r\n ", " ").replace("\r\n\t", " ");
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }
}

/// Listens until it is dropped.
pub struct ScriptedRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Shared {
    /// What EHLO is answered next to the name.
    offers: Vec<&'static str>,
    script: Mutex<HashMap<Step, VecDeque<Action>>>,
    accepted: Mutex<Vec<AcceptedEmail>>,
    received_commands: Mutex<Vec<String>>,
    opened: AtomicUsize,
    open: AtomicUsize,
    max_open: AtomicUsize,
    flooded: AtomicUsize,
}

impl ScriptedRelay {
    /// Does at each step what `script` says for it, one after the other, and else what is right.
    pub async fn start(
        offers: &[&'static str],
        script: impl IntoIterator<Item = (Step, Action)>,
    ) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), offers, script).await
    }

    /// The same at an address.
    pub async fn start_at(
        address: SocketAddr,
        offers: &[&'static str],
        script: impl IntoIterator<Item = (Step, Action)>,
    ) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { offers: offers.to_vec(), ..Shared::default() });
        let (stop, serving) = (CancellationToken::new(), shared.clone());
        let smtp = Self { address, shared, stop: stop.clone() };
        smtp.script(script);
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stop.cancelled() => return,
                };
                let Ok((stream, _)) = accepted else { return };
                let (shared, stop) = (serving.clone(), stop.clone());
                tokio::spawn(async move {
                    shared.opened.fetch_add(1, Ordering::SeqCst);
                    let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
                    shared.max_open.fetch_max(open, Ordering::SeqCst);
                    tokio::select! {
                        // A client that hangs up is no fault of the relay.
                        ended = converse(stream, &shared) => ended.unwrap_or_default(),
                        () = stop.cancelled() => {}
                    }
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        smtp
    }

    /// Adds to the script.
    pub fn script(&self, script: impl IntoIterator<Item = (Step, Action)>) {
        let mut all = self.shared.script.lock().unwrap();
        for (step, action) in script {
            all.entry(step).or_default().push_back(action);
        }
    }

    /// Its address as a workspace file has it, with `login` (`user:password@`) and `query`.
    pub fn url(&self, login: &str, query: &str) -> String {
        format!("smtp://{login}{}{query}", self.address)
    }

    pub fn accepted(&self) -> Vec<AcceptedEmail> {
        self.shared.accepted.lock().unwrap().clone()
    }

    /// Every line but those of emails.
    pub fn received_commands(&self) -> Vec<String> {
        self.shared.received_commands.lock().unwrap().clone()
    }

    /// Connections there have been.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Connections there are.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Bytes of lines without an end that were sent, with those that nobody has read.
    pub fn flooded(&self) -> usize {
        self.shared.flooded.load(Ordering::SeqCst)
    }

    /// Connections there have been at once.
    pub fn max_open(&self) -> usize {
        self.shared.max_open.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedRelay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    fn next(&self, step: Step) -> Option<Action> {
        self.script.lock().unwrap().get_mut(&step)?.pop_front()
    }
}

/// A conversation to its end.
async fn converse(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let hello = "220 relay.example";
    if !answer(&mut stream, shared, Step::Connect, hello).await? {
        return Ok(());
    }
    let (mut from, mut to) = (String::new(), Vec::new());
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let command = line.trim_end().to_owned();
        shared.received_commands.lock().unwrap().push(command.clone());
        let verb = command.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let address = || command.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        let (step, reply) = match verb.as_str() {
            "EHLO" => {
                let mut lines = vec!["relay.example"];
                lines.extend(&shared.offers);
                let last = lines.pop().unwrap_or_default();
                let lines: String = lines.iter().map(|line| format!("250-{line}\r\n")).collect();
                (Step::Hello, format!("{lines}250 {last}"))
            }
            // It has no certificate: what follows is up to the script.
            "STARTTLS" => (Step::Tls, "220 ready".to_owned()),
            "AUTH" => (Step::LogIn, "235 welcome".to_owned()),
            "MAIL" => {
                (from, to) = (address(), Vec::new());
                (Step::From, "250 OK".to_owned())
            }
            "RCPT" => {
                to.push(address());
                (Step::To, "250 OK".to_owned())
            }
            "DATA" => (Step::Data, "354 go on".to_owned()),
            "NOOP" | "RSET" => (Step::Reset, "250 OK".to_owned()),
            "QUIT" => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => (Step::Reset, "500 what?".to_owned()),
        };
        let is_scripted = step == Step::Data && has_refusal(shared);
        if !answer(&mut stream, shared, step, &reply).await? {
            return Ok(());
        }
        if step == Step::Data && !is_scripted {
            let text = email(&mut stream).await?;
            let email = AcceptedEmail { from: from.clone(), to: to.clone(), text };
            if !end(&mut stream, shared, email).await? {
                return Ok(());
            }
        }
    }
}

/// Whether the email is not to be sent after DATA.
fn has_refusal(shared: &Shared) -> bool {
    let script = shared.script.lock().unwrap();
    let next = script.get(&Step::Data).and_then(VecDeque::front);
    next.is_some_and(|next| !matches!(next, Action::SendBytes(bytes) if bytes.starts_with(b"3")))
}

/// Answers as scripted, or what is right; whether it continues.
async fn answer(
    stream: &mut BufReader<TcpStream>,
    shared: &Shared,
    step: Step,
    reply: &str,
) -> std::io::Result<bool> {
    let text = match shared.next(step) {
        None => reply.to_owned(),
        Some(Action::Reply(code, text)) => format!("{code} {text}"),
        Some(Action::SendBytes(bytes)) => {
            stream.write_all(bytes).await?;
            return Ok(true);
        }
        Some(Action::Flood) => return flood(stream, shared).await,
        Some(Action::Delay(time)) => {
            tokio::time::sleep(time).await;
            reply.to_owned()
        }
        Some(Action::Stall) => std::future::pending().await,
        Some(Action::Close | Action::AcceptAndClose) => return Ok(false),
    };
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    Ok(true)
}

/// What is said once an email is there.
async fn end(
    stream: &mut BufReader<TcpStream>,
    shared: &Shared,
    email: AcceptedEmail,
) -> std::io::Result<bool> {
    let next = shared.next(Step::End);
    let accepts = match &next {
        None | Some(Action::Delay(_) | Action::AcceptAndClose) => true,
        Some(Action::Reply(code, _)) => *code < 300,
        Some(Action::SendBytes(bytes)) => bytes.starts_with(b"2"),
        Some(Action::Stall | Action::Close | Action::Flood) => false,
    };
    if let Some(Action::Delay(time)) = &next {
        tokio::time::sleep(*time).await;
    }
    if accepts {
        shared.accepted.lock().unwrap().push(email);
    }
    let text = match next {
        None | Some(Action::Delay(_)) => "250 taken".to_owned(),
        Some(Action::Reply(code, text)) => format!("{code} {text}"),
        Some(Action::SendBytes(bytes)) => {
            stream.write_all(bytes).await?;
            return Ok(true);
        }
        Some(Action::Flood) => return flood(stream, shared).await,
        Some(Action::Stall) => std::future::pending().await,
        Some(Action::Close | Action::AcceptAndClose) => return Ok(false),
    };
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    Ok(true)
}

/// Sends a line without an end until nobody listens.
async fn flood(stream: &mut BufReader<TcpStream>, shared: &Shared) -> std::io::Result<bool> {
    let block = [b'2'; 64 << 10];
    while let Ok(count) = stream.write(&block).await {
        shared.flooded.fetch_add(count, Ordering::SeqCst);
    }
    Ok(false)
}

/// The lines to the last dot.
async fn email(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let (mut text, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == ".\r\n" {
            return Ok(text);
        }
        text.push_str(line.strip_prefix('.').unwrap_or(&line));
    }
}
