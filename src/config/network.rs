//! Networks as operators write them.

use std::net::IpAddr;
use std::str::FromStr as _;

use ipnet::{IpNet, Ipv4Net};

/// A network as CIDR, or one address. A network of IPv4 addresses that are mapped into IPv6
/// (`::ffff:a.b.c.d`) is that of the addresses themselves, as senders are compared with it.
pub fn network(text: &str) -> Result<IpNet, String> {
    IpNet::from_str(text)
        .or_else(|_| IpAddr::from_str(text).map(IpNet::from))
        .map(|network| unmapped(network).trunc())
        .map_err(|_| format!("{text:?} is no address and no network, such as 10.0.0.0/8"))
}

fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok()).map_or(network, IpNet::V4)
}

/// A list of networks as operators read it.
pub fn networks(networks: &[IpNet]) -> String {
    match networks {
        [] => "everywhere".into(),
        networks => networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
