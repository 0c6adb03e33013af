//! Requests, such as `POST /users/track`, and their clients.
//!
//! The load shares the processors with what it measures, so it is light: all bytes are made before,
//! a thread serves all connections, and of a response no more is read than its status and where it
//! ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Connections that are kept busy.
pub const CONNECTIONS: usize = 64;

/// Products that are bought: names of groups, as the API prefers them.
const PRODUCTS: u32 = 200;

/// The options of every bench under load.
#[derive(clap::Args)]
pub struct Common {
    /// Another setting of the processes, such as LONGSHORE_LOG__KAFKA__LINGER_MS=5
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The settings of the processes: as they are by default, and logging as in a container. `more`
/// goes over them.
pub fn settings(partitions: u32, more: &[(String, String)]) -> BTreeMap<String, String> {
    let settings = [
        ("RUST_LOG", "info".to_owned()),
        ("LONGSHORE_LOG_FORMAT", "json".to_owned()),
        ("LONGSHORE_LOG__PARTITIONS", partitions.to_string()),
        ("LONGSHORE_DATABASE__MAX_CONNECTIONS", "16".to_owned()),
        ("LONGSHORE_WORKER__POLL_MS", "500".to_owned()),
    ];
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    settings.chain(more.iter().cloned()).collect()
}

/// What an object of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A purchase of the last hour; every fourth has properties.
    Purchase,
    /// A change of a field and of two custom attributes.
    Attributes,
}

/// Makes calls about customers, each chosen at random.
pub struct Requests<'a> {
    rng: ChaCha8Rng,
    customers: &'a [String],
    address: SocketAddr,
    key: String,
    with_idempotency_keys: bool,
}

impl<'a> Requests<'a> {
    /// Another seed makes other calls.
    pub fn new(seed: u64, customers: &'a [String], address: SocketAddr, key: &str) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self { rng, customers, address, key: key.to_owned(), with_idempotency_keys: false }
    }

    /// Gives each call an `Idempotency-Key` of its own.
    pub fn with_idempotency_keys(mut self) -> Self {
        self.with_idempotency_keys = true;
        self
    }

    /// `count` calls of `objects` each, as they go over the wire.
    pub fn make(&mut self, count: usize, kind: Kind, objects: usize) -> Arc<Vec<Vec<u8>>> {
        Arc::new((0..count).map(|_| self.call(kind, objects)).collect())
    }

    fn call(&mut self, kind: Kind, objects: usize) -> Vec<u8> {
        let array = if kind == Kind::Purchase { "purchases" } else { "attributes" };
        let mut body = format!("{{\"{array}\":[");
        for at in 0..objects {
            body.push_str(if at == 0 { "" } else { "," });
            match kind {
                Kind::Purchase => self.purchase(&mut body),
                Kind::Attributes => self.attributes(&mut body),
            }
        }
        body.push_str("]}");
        let repeatable = if self.with_idempotency_keys {
            format!("Idempotency-Key: \"{:032x}\"\r\n", self.rng.random::<u128>())
        } else {
            String::new()
        };
        let (address, key, length) = (self.address, &self.key, body.len());
        format!(
            "POST /users/track HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n{repeatable}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    fn purchase(&mut self, out: &mut String) {
        let time = self.recent();
        let (customer, rng) = (self.customer(), &mut self.rng);
        let currency = ["USD", "USD", "EUR", "GBP"][rng.random_range(0..4)];
        let (units, cents) = (rng.random_range(1..200), rng.random_range(0..100));
        let (product, quantity) = (rng.random_range(0..PRODUCTS), rng.random_range(1..4));
        let properties = match rng.random_range(0..4) {
            0 => ",\"properties\":{\"size\":\"L\",\"gift\":false,\"store\":\"Main Street\"}",
            _ => "",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"external_id\":\"{customer}\",\"app_id\":\"shop\",\"product_id\":\"group-{product}\",\
             \"currency\":\"{currency}\",\"price\":{units}.{cents:02},\"quantity\":{quantity},\
             \"time\":\"{time}\"{properties}}}"
        );
    }

    fn attributes(&mut self, out: &mut String) {
        let time = self.recent();
        let (customer, points) = (self.customer(), self.rng.random_range(0..100_000));
        let city = ["Oslo", "Porto", "Nara", "Quito"][self.rng.random_range(0..4)];
        let _ = write!(
            out,
            "{{\"external_id\":\"{customer}\",\"home_city\":\"{city}\",\"last_visit_at\":\"{time}\",\
             \"loyalty_points\":{points}}}"
        );
    }

    fn customer(&mut self) -> &'a str {
        &self.customers[self.rng.random_range(0..self.customers.len())]
    }

    fn recent(&mut self) -> jiff::Timestamp {
        let ago = self.rng.random_range(0..3_600_000);
        jiff::Timestamp::now() - Duration::from_millis(ago)
    }
}

/// How long each call took, ascending, and all of them together.
pub struct LoadResult {
    latencies: Vec<Duration>,
    pub seconds: f64,
}

impl LoadResult {
    pub fn calls(&self) -> usize {
        self.latencies.len()
    }

    /// The latency that so many percent of the calls do not exceed, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let at = (self.calls() * percent / 100).min(self.calls() - 1);
        self.latencies[at].as_secs_f64() * 1e3
    }
}

/// Makes each call once; each must get 201 or 202.
pub async fn send(address: SocketAddr, calls: Arc<Vec<Vec<u8>>>) -> LoadResult {
    let count = calls.len();
    run(address, CONNECTIONS, calls, count, Duration::MAX, None).await
}

/// Makes one of the calls, so that the gateway knows their key. Of the first requests with a new
/// key, it rejects those beyond 128 at a time.
pub async fn use_key(address: SocketAddr, calls: &[Vec<u8>]) {
    send(address, Arc::new(calls[..1].to_vec())).await;
}

/// Makes the calls over and over for so long.
pub async fn send_for(
    time: Duration,
    connections: usize,
    address: SocketAddr,
    calls: Arc<Vec<Vec<u8>>>,
) -> LoadResult {
    run(address, connections, calls, usize::MAX, time, None).await
}

/// Makes `count` calls over and over, one every `pace`, whether the former are answered or not.
/// A call that no connection was free for took its wait as well.
pub async fn send_at(
    pace: Duration,
    count: usize,
    address: SocketAddr,
    calls: Arc<Vec<Vec<u8>>>,
) -> LoadResult {
    run(address, CONNECTIONS, calls, count, Duration::MAX, Some(pace)).await
}

async fn run(
    address: SocketAddr,
    connections: usize,
    calls: Arc<Vec<Vec<u8>>>,
    max_calls: usize,
    time: Duration,
    pace: Option<Duration>,
) -> LoadResult {
    let thread = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (began, next) = (Instant::now(), AtomicUsize::new(0));
        let connections = (0..connections).map(async |_| {
            let mut connection = Connection::open(address).await;
            let mut latencies = Vec::new();
            while began.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= max_calls {
                    break;
                }
                let began = match pace {
                    Some(pace) => due(began + pace.mul_f64(number as f64)).await,
                    None => Instant::now(),
                };
                connection.call(&calls[number % calls.len()]).await;
                latencies.push(began.elapsed());
            }
            latencies
        });
        let all = runtime.expect("a runtime").block_on(join_all(connections));
        let seconds = began.elapsed().as_secs_f64();
        let mut latencies = all.concat();
        latencies.sort_unstable();
        LoadResult { latencies, seconds }
    };
    tokio::task::spawn_blocking(thread).await.expect("the load is made")
}

/// Waits for a moment; that moment, also where it is past.
async fn due(at: Instant) -> Instant {
    tokio::time::sleep_until(at.into()).await;
    at
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the gateway takes a connection");
        stream.set_nodelay(true).expect("a connection");
        Self { stream, answer: Vec::with_capacity(4 << 10) }
    }

    async fn call(&mut self, call: &[u8]) {
        self.stream.write_all(call).await.expect("the gateway reads");
        self.answer.clear();
        while !is_complete(&self.answer) {
            let read = self.stream.read_buf(&mut self.answer).await.expect("the gateway answers");
            assert_ne!(read, 0, "the gateway hung up");
        }
        let is_accepted = [b"HTTP/1.1 201", b"HTTP/1.1 202"]
            .iter()
            .any(|status| self.answer.starts_with(*status));
        assert!(is_accepted, "{}", String::from_utf8_lossy(&self.answer));
    }
}

/// Whether the head of a response has come, and so many bytes after it as it says.
fn is_complete(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let find = |text: &[u8]| answer.windows(text.len()).position(|bytes| bytes == text);
    let Some(head) = find(b"\r\n\r\n") else { return false };
    let length = find(LENGTH).expect("an answer of a known length") + LENGTH.len();
    let digits = answer[length..].iter().take_while(|byte| byte.is_ascii_digit());
    let bytes = digits.fold(0, |bytes, digit| bytes * 10 + usize::from(digit - b'0'));
    answer.len() >= head + 4 + bytes
}
