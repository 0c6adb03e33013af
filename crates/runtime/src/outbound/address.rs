//! The addresses that outgoing requests may reach: public ones, and the private ones in
//! `LONGSHORE_ALLOW_PRIVATE`. Checked twice: in the URL itself, and after its host name is
//! resolved, so that the connection uses a checked address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::task::spawn_blocking;
use url::{Host, ParseError, Url};

use crate::app::queue::current_holder;
use crate::config::Config;
use crate::fairness::{Holder, SLOT_BYTES, SharedMemory};

/// Maximum length of a callback's URL, in bytes.
pub const MAX_URL_LENGTH: usize = 2_048;

/// IPv4 networks that are not the public internet.
const NOT_PUBLIC_V4: &[(Ipv4Net, &str)] = &[
    (v4([0, 0, 0, 0], 8), "an unspecified"),
    (v4([10, 0, 0, 0], 8), "a private"),
    (v4([100, 64, 0, 0], 10), "a shared (carrier-grade NAT)"),
    (v4([127, 0, 0, 0], 8), "a loopback"),
    (v4([169, 254, 0, 0], 16), "a link-local"),
    (v4([172, 16, 0, 0], 12), "a private"),
    (v4([192, 0, 0, 0], 24), "a reserved"),
    (v4([192, 0, 2, 0], 24), "a documentation"),
    (v4([192, 88, 99, 0], 24), "a 6to4 relay"),
    (v4([192, 168, 0, 0], 16), "a private"),
    (v4([198, 18, 0, 0], 15), "a benchmarking"),
    (v4([198, 51, 100, 0], 24), "a documentation"),
    (v4([203, 0, 113, 0], 24), "a documentation"),
    (v4([224, 0, 0, 0], 4), "a multicast"),
    (v4([240, 0, 0, 0], 4), "a reserved"),
    // The metadata service of a cloud, at an address that looks public.
    (v4([168, 63, 129, 16], 32), "a metadata"),
];

/// The public part of IPv6, and the networks in it that are not public.
const PUBLIC_V6: Ipv6Net = v6([0x2000, 0, 0], 3);
const NOT_PUBLIC_V6: &[(Ipv6Net, &str)] = &[
    // Teredo, benchmarking, ORCHID and other protocol networks.
    (v6([0x2001, 0, 0], 23), "a reserved"),
    (v6([0x2001, 0xdb8, 0], 32), "a documentation"),
    (v6([0x2002, 0, 0], 16), "a 6to4"),
    (v6([0x3fff, 0, 0], 20), "a documentation"),
];

/// Networks outside of the public range that have their own names.
const OTHER_V6: &[(Ipv6Net, &str)] = &[
    (v6([0xfc00, 0, 0], 7), "a unique-local"),
    (v6([0xfe80, 0, 0], 10), "a link-local"),
    (v6([0xff00, 0, 0], 8), "a multicast"),
];

/// NAT64 (RFC 6052): an IPv4 address in the last four bytes.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0], 96);

const fn v4(address: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = address;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(head: [u16; 3], prefix: u8) -> Ipv6Net {
    let [a, b, c] = head;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

const NO_SCHEME: &str = "must begin with http:// or https://";

/// Parses a callback's URL and checks everything that needs no DNS lookup: http or https, a host,
/// no literal private address. The error is for the customer, and does not name the field.
pub fn check_address(text: &str, config: &Config) -> Result<Url, String> {
    check_within(text, &config.allow_private)
}

/// Like [`check_address`], with an explicit list of allowed private networks.
pub fn check_within(text: &str, allowed: &[IpNet]) -> Result<Url, String> {
    check_parts(short(text)?, allowed)
}

/// Like [`check_address`], without the check for private addresses.
pub fn read_address(text: &str) -> Result<Url, String> {
    parse(short(text)?)
}

/// Like [`check_address`], for a stored URL that was checked before. Its percent-encoded form may
/// exceed the length limit.
pub fn check_stored_address(text: &str, config: &Config) -> Result<Url, String> {
    check_parts(text, &config.allow_private)
}

fn short(text: &str) -> Result<&str, String> {
    match text.len() {
        0..=MAX_URL_LENGTH => Ok(text),
        _ => Err(format!("must be at most {MAX_URL_LENGTH} bytes long")),
    }
}

/// Parses an http or https URL with a host.
fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => NO_SCHEME.to_owned(),
        error => format!("must be a valid URL ({error})"),
    })?;
    match url.scheme() {
        "http" | "https" if url.host().is_some_and(|host| is_host(&host)) => Ok(url),
        "http" | "https" if url.has_host() => Err("must have a valid host name".into()),
        "http" | "https" => Err("must have a host".into()),
        _ => Err(NO_SCHEME.into()),
    }
}

/// Whether a host name can be looked up. A URL can have an invalid one, with a `*` or an empty
/// label.
fn is_host(host: &Host<&str>) -> bool {
    let Host::Domain(name) = host else { return true };
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}

fn check_parts(text: &str, allowed: &[IpNet]) -> Result<Url, String> {
    let url = parse(text)?;
    match literal(&url).and_then(|address| non_public_kind(address, allowed)) {
        Some(kind) => Err(format!("must not point to {kind} address")),
        None => Ok(url),
    }
}

/// The address of a URL that needs no resolution.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address)),
        Host::Domain(name) => is_localhost(name).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

/// Whether a URL names this machine: a loopback or unspecified address, or `localhost`.
pub fn is_of_this_machine(url: &Url) -> bool {
    let address = literal(url).map(without_wrapping);
    address.is_some_and(|address| address.is_loopback() || address.is_unspecified())
}

/// `localhost` and its subdomains always refer to this machine (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The kind of an address that connections must not reach. None for a public address, and for one
/// in `allowed`.
pub fn non_public_kind(address: IpAddr, allowed: &[IpNet]) -> Option<&'static str> {
    let address = without_wrapping(address);
    if allowed.iter().any(|network| network.contains(&address)) {
        return None;
    }
    match address {
        IpAddr::V4(address) => kind(NOT_PUBLIC_V4, |network| network.contains(&address)),
        IpAddr::V6(address) if PUBLIC_V6.contains(&address) => {
            kind(NOT_PUBLIC_V6, |network| network.contains(&address))
        }
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Some("a loopback"),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some("an unspecified"),
        IpAddr::V6(address) => {
            kind(OTHER_V6, |network| network.contains(&address)).or(Some("a reserved"))
        }
    }
}

fn kind<N>(table: &[(N, &'static str)], holds: impl Fn(&N) -> bool) -> Option<&'static str> {
    table.iter().find(|(network, _)| holds(network)).map(|(_, kind)| *kind)
}

/// The IPv4 address that an IPv6 address leads to: mapped (`::ffff:a.b.c.d`), or through NAT64,
/// which networks without IPv4 use for public names.
fn without_wrapping(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other => other,
    }
}

/// Resolves names with the system's resolver, and returns only allowed addresses.
#[derive(Clone, Debug)]
pub struct Resolver {
    pub allowed: Arc<[IpNet]>,
    pub lookups: NameLookups,
}

#[derive(Debug, thiserror::Error)]
#[error("the host name resolves to {kind} address ({address}), which is not allowed")]
pub struct Refused {
    kind: &'static str,
    address: IpAddr,
}

/// The name servers gave no address.
#[derive(Debug, thiserror::Error)]
#[error("the host name cannot be looked up")]
pub struct LookupFailed(#[source] io::Error);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { allowed, lookups } = self.clone();
        // Read here, in the task of the request: the rest may run in one of the client's own.
        let holder = current_holder();
        Box::pin(async move {
            let looked_up = lookups.look_up(holder, name.as_str().to_owned(), 0).await;
            let addresses = looked_up.map_err(LookupFailed)?;
            Ok(Box::new(reachable(addresses.into_iter(), &allowed)?.into_iter()) as Addrs)
        })
    }
}

/// The permits of concurrent lookups of names. Each takes one until the name servers respond or are
/// given up on, even if nobody waits for it any more. A workspace gets at most as many as it leaves
/// free ([`held_by`](crate::app::queue::held_by)). Cheap to clone: copies share the permits.
#[derive(Clone, Debug)]
pub struct NameLookups(SharedMemory);

impl NameLookups {
    /// For names that customers choose: half as many as there are threads.
    pub fn for_customers() -> Self {
        Self(SharedMemory::halves(256 * SLOT_BYTES))
    }

    /// For names that operators choose. They have their own share, so that the names that customers
    /// choose do not delay emails and sign-ins.
    pub fn for_operators() -> Self {
        Self(SharedMemory::halves(64 * SLOT_BYTES))
    }

    /// The addresses of a relay, which operators choose: it may be in a private network.
    pub async fn look_up_relay(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match host.parse() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.look_up(current_holder(), host.to_owned(), port).await,
        }
    }

    /// Looks up a name with the system's resolver, on a thread.
    async fn look_up(
        &self,
        holder: Holder,
        name: String,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        let permit = self.0.reserve(holder, SLOT_BYTES).await;
        let addresses = spawn_blocking(move || {
            let addresses = (name.as_str(), port).to_socket_addrs();
            drop(permit);
            addresses
        });
        Ok(addresses.await??.collect())
    }
}

/// The allowed addresses; an error if there is none.
fn reachable(
    addresses: impl Iterator<Item = SocketAddr>,
    allowed: &[IpNet],
) -> Result<Vec<SocketAddr>, Refused> {
    let mut refused = None;
    let mut reachable = Vec::new();
    for address in addresses {
        match non_public_kind(address.ip(), allowed) {
            None => reachable.push(address),
            Some(kind) => refused = Some(Refused { kind, address: address.ip() }),
        }
    }
    match refused {
        Some(refused) if reachable.is_empty() => Err(refused),
        _ => Ok(reachable),
    }
}

#[cfg(test)]
mod tests;
