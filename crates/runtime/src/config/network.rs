//! Networks in the notation of operators.

use std::net::IpAddr;
use std::str::FromStr as _;

use ipnet::{IpNet, Ipv4Net};

/// A network as CIDR, or one address. A network of IPv4-mapped IPv6 addresses (`::ffff:a.b.c.d`)
/// becomes the IPv4 network, because senders' addresses are compared in that form.
pub fn network(text: &str) -> Result<IpNet, String> {
    IpNet::from_str(text)
        .or_else(|_| IpAddr::from_str(text).map(IpNet::from))
        .map(|network| unmapped(network).trunc())
        .map_err(|_| format!("{text:?} is not an IP address or a network such as 10.0.0.0/8"))
}

fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok()).map_or(network, IpNet::V4)
}

/// Formats a list of networks.
pub fn networks(networks: &[IpNet]) -> String {
    match networks {
        [] => "everywhere".into(),
        networks => networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
