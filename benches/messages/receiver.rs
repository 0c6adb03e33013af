//! Who takes webhooks: as little work as there can be, so that what is measured is the sender.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Takes every request, on a thread of its own, and counts them.
pub struct Receiver {
    pub address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Receiver {
    pub async fn start() -> Self {
        let (listening, address) = tokio::sync::oneshot::channel();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("an address");
                let _ = listening.send(listener.local_addr().expect("an address"));
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, counted.clone()));
                }
            });
        });
        Self { address: address.await.expect("it listens"), count }
    }

    /// Requests that came.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until so many came.
    pub async fn has(&self, count: usize) {
        while self.count() < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, count: Arc<AtomicUsize>) {
    let _ = stream.set_nodelay(true);
    let mut bytes = Vec::with_capacity(16 << 10);
    loop {
        while let Some(request_length) = length(&bytes) {
            bytes.drain(..request_length);
            count.fetch_add(1, Ordering::SeqCst);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    }
}

/// How long the first request is, if it is there as a whole.
fn length(bytes: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let head = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let found = bytes[..head].windows(NAME.len()).position(|name| name.eq_ignore_ascii_case(NAME));
    let digits = bytes[found? + NAME.len()..head].iter().skip_while(|byte| **byte == b' ');
    let body = digits
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |body, digit| body * 10 + usize::from(digit - b'0'));
    (bytes.len() >= head + body).then_some(head + body)
}
