//! The client's address, with or without proxies in front of the gateway.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

/// The sender's address: the peer's, or, if the peer is a trusted proxy, the right-most entry of
/// `X-Forwarded-For` that is not a trusted proxy. None if that entry is unreadable.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Option<IpAddr> {
    let mut client = peer.to_canonical();
    let forwarded: Vec<&[u8]> = headers
        .get_all("x-forwarded-for")
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .collect();
    for entry in forwarded.into_iter().rev() {
        if !is_in(client, trusted) {
            break;
        }
        client = read(entry)?;
    }
    Some(client)
}

/// Whether a list of networks allows an address; an empty list allows all.
pub fn is_allowed(address: Option<IpAddr>, networks: &[IpNet]) -> bool {
    networks.is_empty() || address.is_some_and(|address| is_in(address, networks))
}

fn is_in(address: IpAddr, networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Parses an address in the formats of proxies: alone, in brackets, or with a port.
fn read(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    address
        .parse::<IpAddr>()
        .or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()))
        .ok()
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&'static str], trusted: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        client_address(peer.parse().unwrap(), &headers, &trusted).map(|address| address.to_string())
    }

    #[test]
    fn forwarded_addresses_count_only_from_trusted_proxies() {
        for (peer, forwarded, expected) in [
            ("203.0.113.9", &[][..], Some("203.0.113.9")),
            ("203.0.113.9", &["198.51.100.1"], Some("203.0.113.9")),
            ("10.1.1.1", &[], Some("10.1.1.1")),
            ("10.1.1.1", &["198.51.100.1"], Some("198.51.100.1")),
            // Entries that the client itself wrote are further left.
            ("10.1.1.1", &["6.6.6.6, 198.51.100.1"], Some("198.51.100.1")),
            ("10.1.1.1", &["6.6.6.6", "198.51.100.1, 10.2.2.2"], Some("198.51.100.1")),
            ("10.1.1.1", &["10.3.3.3, 10.2.2.2"], Some("10.3.3.3")),
            ("::ffff:10.1.1.1", &["::ffff:198.51.100.1"], Some("198.51.100.1")),
            ("10.1.1.1", &["198.51.100.1:4711"], Some("198.51.100.1")),
            ("10.1.1.1", &["[2001:db8::1]:443"], Some("2001:db8::1")),
            ("10.1.1.1", &["[2001:db8::1]"], Some("2001:db8::1")),
            ("10.1.1.1", &["198.51.100.1, unknown"], None),
            ("10.1.1.1", &[""], None),
        ] {
            let found = client(peer, forwarded, &["10.0.0.0/8"]);
            assert_eq!(found.as_deref(), expected, "{peer} {forwarded:?}");
        }
        // Without proxies the header is not trusted.
        assert_eq!(client("10.1.1.1", &["198.51.100.1"], &[]).as_deref(), Some("10.1.1.1"));
    }

    #[test]
    fn an_unknown_address_passes_no_list() {
        let list: Vec<IpNet> = vec!["198.51.100.0/24".parse().unwrap()];
        assert!(is_allowed(None, &[]));
        assert!(!is_allowed(None, &list));
        assert!(is_allowed("198.51.100.7".parse().ok(), &list));
        assert!(!is_allowed("198.51.101.7".parse().ok(), &list));
    }
}
