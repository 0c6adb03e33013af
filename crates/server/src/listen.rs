//! Listens on the addresses of the settings.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that wait for an accept: as many as with [`TcpListener::bind`].
const BACKLOG: i32 = 1024;

/// Why the process cannot listen on an address, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{address} is in use by another program: set {setting} to another address")]
    Taken { address: SocketAddr, setting: &'static str },
    #[error("cannot listen on {address} ({setting}): {error}")]
    Other { address: SocketAddr, setting: &'static str, error: std::io::Error },
}

/// Listens on `address`, the value of `setting`. `[::]` includes every address of IPv4; where there is
/// no IPv6, it is 0.0.0.0.
pub async fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener, BindError> {
    let listener = if address.ip() != Ipv6Addr::UNSPECIFIED {
        TcpListener::bind(address).await
    } else {
        match bind_every(address) {
            Err(error) if error.kind() != ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            listener => listener,
        }
    };
    listener.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => BindError::Taken { address, setting },
        _ => BindError::Other { address, setting, error },
    })
}

/// Includes IPv4 whatever `net.ipv6.bindv6only` of the machine is.
fn bind_every(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn every_address_includes_those_of_ipv4() {
        let listener = bind("[::]:0".parse().unwrap(), "LONGSHORE_LISTEN").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip().to_canonical(), client.local_addr().unwrap().ip());
        let taken = bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), "LONGSHORE_LISTEN").await;
        assert!(matches!(taken, Err(BindError::Taken { .. })), "{taken:?}");
    }

    #[tokio::test]
    async fn an_address_in_use_is_reported_with_its_setting() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0)), "LONGSHORE_LISTEN").await.unwrap();
        let address = first.local_addr().unwrap();
        let text = bind(address, "LONGSHORE_LISTEN").await.unwrap_err().to_string();
        assert!(text.contains(&address.to_string()) && text.contains("LONGSHORE_LISTEN"), "{text}");
    }
}
