//! A way to a server that can become slow, or end.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// What goes to the server waits so long, piece by piece.
    Slow(Duration),
    /// Nothing gets through, and nobody is told.
    Stuck,
    /// Connections are closed.
    Closed,
}

/// Listens until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
}

impl Proxy {
    /// A way to `server` (`http://host:port`), open.
    pub async fn start(server: &str) -> Self {
        let server = server.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (way, watched) = watch::channel(Way::Open);
        tokio::spawn(async move {
            let mut ended = watched.clone();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (client, _) = accepted.expect("a connection");
                        tokio::spawn(lead(client, server.clone(), watched.clone()));
                    }
                    // The sender is gone with the proxy.
                    gone = ended.changed() => if gone.is_err() { return },
                }
            }
        });
        Self { address, way }
    }

    /// Its address, `http://host:port`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the way. Connections that it closes or blocks are cut, whatever goes on.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Leads one connection until an end hangs up or the way is not passable any more.
async fn lead(client: TcpStream, server: String, mut way: watch::Receiver<Way>) {
    let passable = |way: &Way| matches!(way, Way::Open | Way::Slow(_));
    let now = *way.borrow_and_update();
    if now == Way::Stuck {
        // Held, and dropped once the way changes.
        let _ = way.changed().await;
        return;
    }
    if now == Way::Closed {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (mut watched, slowed) = (way.clone(), way.clone());
    let pass = async {
        tokio::join!(copy(from_client, to_server, Some(slowed)), copy(from_server, to_client, None))
    };
    tokio::select! {
        _ = pass => {}
        () = async { let _ = watched.wait_for(|way| !passable(way)).await; } => {}
    }
    if *way.borrow_and_update() == Way::Stuck {
        let _ = way.changed().await;
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: Option<watch::Receiver<Way>>,
) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(length) = from.read(&mut piece).await {
        if length == 0 {
            break;
        }
        let wait = way.as_ref().map(|way| *way.borrow());
        if let Some(Way::Slow(wait)) = wait {
            tokio::time::sleep(wait).await;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
