//! A way to a server that can become slow, lie, or end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use url::Url;

/// How the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    Open,
    /// What goes to the server waits so long, piece by piece.
    Slow(Duration),
    /// Nothing gets through, silently.
    Stuck,
    /// Connections are closed.
    Closed,
    /// Connections are closed, and nobody listens for others.
    Refused,
    /// The server gets what it is asked, and nobody its answers.
    Unanswered,
    /// Answers come as garbage.
    Garbled,
    /// Kafka is not asked for the offsets of this partition of the topic of tracking, so that no
    /// client gets them; all else continues.
    WithoutOffsetsOf(i32),
}

impl ProxyMode {
    fn is_passable(self) -> bool {
        !matches!(self, Self::Stuck | Self::Closed | Self::Refused)
    }

    /// Whether what was led on this way is of no use on another.
    fn spoils(self) -> bool {
        matches!(self, Self::Unanswered | Self::Garbled)
    }
}

/// Listens until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
    server: Arc<Server>,
}

/// What it leads to.
struct Server {
    /// `host:port`.
    address: String,
    /// Of Kafka, how brokers call themselves in answers, and what is put in its place: clients
    /// would continue without the proxy.
    renamed: Option<[Vec<u8>; 2]>,
    /// Bytes of its answers.
    answered: AtomicU64,
}

impl Server {
    fn new(address: String, renamed: Option<[Vec<u8>; 2]>) -> Self {
        Self { address, renamed, answered: AtomicU64::new(0) }
    }
}

impl Proxy {
    /// A way to the server of an address, such as `http://host:port`; open.
    pub async fn to(address: &str) -> Self {
        let server = Url::parse(address).expect("an address");
        let port =
            server.port().or_else(|| server.scheme().starts_with("postgres").then_some(5432));
        let address = format!("{}:{}", server.host_str().expect("a host"), port.unwrap_or(80));
        Self::listen(|_| Server::new(address, None)).await
    }

    /// A way to the Kafka broker that is advertised as `broker` (`127.0.0.1:port`).
    pub async fn to_kafka(broker: &str) -> Self {
        let named = |port: u16| [b"127.0.0.1", &u32::from(port).to_be_bytes()[..]].concat();
        let port = broker.strip_prefix("127.0.0.1:").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no broker on this machine: {broker}"));
        let address = broker.to_owned();
        Self::listen(|own| Server::new(address, Some([named(port), named(own)]))).await
    }

    /// `server` is given the port that is listened at.
    async fn listen(server: impl FnOnce(u16) -> Server) -> Self {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = bind(any_port).listen(BACKLOG).expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (mode, watched) = watch::channel(ProxyMode::Open);
        let server = Arc::new(server(address.port()));
        tokio::spawn(accept(listener, server.clone(), watched));
        Self { address, mode, server }
    }

    /// Its address, `http://host:port`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address, `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// An address of the server (`postgres://…`), by this way.
    pub fn instead_of(&self, address: &str) -> String {
        let mut address = Url::parse(address).expect("an address");
        address.set_ip_host(self.address.ip()).expect("an address with a host");
        address.set_port(Some(self.address.port())).expect("an address with a port");
        address.into()
    }

    /// Bytes that the server answered.
    pub fn answered(&self) -> u64 {
        self.server.answered.load(Ordering::Relaxed)
    }

    /// Changes the way. Connections that it closes are cut at once, and those that were stuck
    /// or garbled when that is over.
    pub fn set(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
    }
}

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// A socket that several may bind to the same address.
fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option of the socket");
    socket.set_reuseport(true).expect("an option of the socket");
    socket.bind(address).expect("the port");
    socket
}

/// Takes connections until the proxy, and with it the sender, is gone.
async fn accept(
    mut listener: TcpListener,
    server: Arc<Server>,
    mut mode: watch::Receiver<ProxyMode>,
) {
    let address = listener.local_addr().expect("an address");
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("a connection");
                tokio::spawn(forward(client, server.clone(), mode.clone()));
            }
            changed = mode.changed() => if changed.is_err() { return },
        }
        if *mode.borrow_and_update() == ProxyMode::Refused {
            // Bound without listening, and before nothing listens, so that no other test gets the
            // port.
            let socket = bind(address);
            drop(listener);
            if mode.wait_for(|mode| *mode != ProxyMode::Refused).await.is_err() {
                return;
            }
            listener = socket.listen(BACKLOG).expect("the same port");
        }
    }
}

/// Leads one connection until an end hangs up or the way is not passable any more.
async fn forward(client: TcpStream, server: Arc<Server>, mut mode: watch::Receiver<ProxyMode>) {
    let current = *mode.borrow_and_update();
    if current.is_passable() {
        let Ok(stream) = TcpStream::connect(&server.address).await else { return };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = stream.into_split();
        let requests = copy_requests(from_client, to_server, &server, mode.clone());
        let responses = copy_responses(from_server, to_client, &server, mode.clone());
        // Not dropped before the end, so that who waits on a stuck way is not woken.
        let mut forwarding = std::pin::pin!(async { tokio::join!(requests, responses) });
        tokio::select! {
            _ = &mut forwarding => {}
            () = until_cut(current, &mut mode) => hold_while_stuck(&mut mode).await,
        }
    } else {
        hold_while_stuck(&mut mode).await;
    }
}

async fn hold_while_stuck(mode: &mut watch::Receiver<ProxyMode>) {
    let _ = mode.wait_for(|mode| *mode != ProxyMode::Stuck).await;
}

/// Waits until the way cuts a connection that it led when it was `former`.
async fn until_cut(mut former: ProxyMode, mode: &mut watch::Receiver<ProxyMode>) {
    while mode.changed().await.is_ok() {
        let current = *mode.borrow_and_update();
        if !current.is_passable() || former.spoils() && current != former {
            return;
        }
        former = current;
    }
}

async fn copy_requests(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    server: &Server,
    mode: watch::Receiver<ProxyMode>,
) {
    while let Some(piece) = next_piece(&mut from, server).await {
        let current = *mode.borrow();
        match current {
            ProxyMode::Slow(wait) => tokio::time::sleep(wait).await,
            ProxyMode::WithoutOffsetsOf(partition) if asks_for_offsets(&piece, partition) => {
                continue;
            }
            _ => {}
        }
        if to.write_all(&piece).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Whether a request, with its length before it, is a ListOffsets of one partition (Apache
/// Kafka, "Protocol": the key 2; the topic's name, how many partitions of it, the first).
fn asks_for_offsets(request: &[u8], partition: i32) -> bool {
    const NAME: &[u8] = b"tracking";
    let Some(at) = request.windows(NAME.len()).position(|found| found == NAME) else {
        return false;
    };
    let after = &request[at + NAME.len()..];
    let is_first = |count: &[u8]| after.starts_with(&[count, &partition.to_be_bytes()].concat());
    request[4..6] == [0, 2] && (is_first(&[2]) || is_first(&[0, 0, 0, 1]))
}

async fn copy_responses(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    server: &Server,
    mode: watch::Receiver<ProxyMode>,
) {
    while let Some(mut piece) = next_response(&mut from, server).await {
        server.answered.fetch_add(piece.len() as u64, Ordering::Relaxed);
        match *mode.borrow() {
            ProxyMode::Unanswered => continue,
            ProxyMode::Garbled => piece.iter_mut().for_each(|byte| *byte = !*byte),
            _ => {}
        }
        if to.write_all(&piece).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// One answer of Kafka, with brokers renamed; some of what another server answers.
async fn next_response(from: &mut (impl AsyncRead + Unpin), server: &Server) -> Option<Vec<u8>> {
    let mut response = next_piece(from, server).await?;
    let Some([name, new_name]) = &server.renamed else { return Some(response) };
    let windows = response.windows(name.len()).enumerate();
    let offsets: Vec<usize> =
        windows.filter(|(_, found)| found == name).map(|(offset, _)| offset).collect();
    for offset in offsets {
        response[offset..offset + new_name.len()].copy_from_slice(new_name);
    }
    Some(response)
}

/// Some of what comes; to Kafka and from it one request or answer, with its length before it.
async fn next_piece(from: &mut (impl AsyncRead + Unpin), server: &Server) -> Option<Vec<u8>> {
    if server.renamed.is_none() {
        let mut piece = vec![0; 64 << 10];
        let length = from.read(&mut piece).await.ok().filter(|length| *length > 0)?;
        piece.truncate(length);
        return Some(piece);
    }
    let size = from.read_u32().await.ok()?;
    let mut piece = size.to_be_bytes().to_vec();
    piece.resize(4 + size as usize, 0);
    from.read_exact(&mut piece[4..]).await.ok()?;
    Some(piece)
}
