use proptest::prelude::*;

use super::*;
use crate::app::queue::held_by;
use crate::fairness::Reservation;

fn config(allow: &[&str]) -> Config {
    Config {
        allow_private: allow.iter().map(|net| net.parse().unwrap()).collect(),
        ..Config::default()
    }
}

#[test]
fn public_addresses_can_be_called() {
    for text in [
        "https://example.com/hook?x=1",
        "http://example.com:8080",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[64:ff9b::808:808]/",
        "https://user:password@example.com/",
        "https://localhost.example.com/",
        "https://172.32.0.1/",
        "https://100.63.255.255/",
    ] {
        assert!(check_address(text, &config(&[])).is_ok(), "{text}");
    }
}

#[test]
fn accepted_addresses_stay_valid_after_encoding() {
    let config = config(&[]);
    let text = format!("https://example.com?{}", "é".repeat((MAX_URL_LENGTH - 20) / 2));
    let url = check_address(&text, &config).unwrap();
    assert!(url.as_str().len() > MAX_URL_LENGTH);
    assert_eq!(check_stored_address(url.as_str(), &config), Ok(url));
}

#[test]
fn invalid_addresses_are_rejected() {
    let long = format!("https://example.com/{}", "x".repeat(MAX_URL_LENGTH));
    for text in [
        "",
        "example.com",
        "/hook",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "https://:80/",
        "http://[::1",
        "http://1.2.3.256/",
        long.as_str(),
    ] {
        assert!(check_address(text, &config(&[])).is_err(), "{text}");
    }
}

/// Hosts that are not public, in all notations.
const PRIVATE: &[&str] = &[
    // Loopback, in notations that bypass simple filters.
    "127.0.0.1",
    "127.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    // Compatible, NAT64, 6to4, Teredo, ISATAP-like.
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::808:808]",
    "[2002:7f00:1::]",
    "[2001:0:808:808::1]",
    "[2001:2::1]",
    "[fe80::5efe:7f00:1]",
    // Unspecified, private, shared, link-local, metadata.
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "169.254.169.254",
    "0xa9fea9fe",
    "168.63.129.16",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.0.0.192",
    "[::]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    // Documentation, benchmarking, multicast, reserved, broadcast.
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "198.18.0.1",
    "198.19.255.255",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[2001:db8::1]",
    "[3fff::1]",
    "[ff02::1]",
    "[100::1]",
    "[4000::1]",
];

#[test]
fn private_addresses_are_refused_however_they_are_written() {
    for host in PRIVATE {
        let text = format!("https://{host}/hook");
        let error = check_address(&text, &config(&[])).expect_err(&text);
        assert!(error.contains("address"), "{text}: {error}");
        let text = format!("http://user@{host}:8080/hook");
        assert!(check_address(&text, &config(&[])).is_err(), "{text}");
    }
}

#[test]
fn private_networks_can_be_allowed() {
    let config = config(&["127.0.0.0/8", "fd00::/8"]);
    for host in
        ["127.0.0.1", "0x7f.1", "localhost", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[fd00::1]"]
    {
        let text = format!("http://{host}/");
        assert!(check_address(&text, &config).is_ok(), "{text}");
    }
    for host in ["10.0.0.1", "[::1]", "[fe80::1]", "169.254.169.254"] {
        let text = format!("http://{host}/");
        assert!(check_address(&text, &config).is_err(), "{text}");
    }
}

#[test]
fn names_resolve_only_to_allowed_addresses() {
    let resolve = |addresses: &[&str]| {
        let list: Vec<SocketAddr> =
            addresses.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        reachable(list.into_iter(), &[])
    };
    assert_eq!(resolve(&["8.8.8.8", "10.0.0.1", "::1"]).unwrap().len(), 1);
    assert!(resolve(&[]).unwrap().is_empty());
    let error = resolve(&["10.0.0.1", "::ffff:10.0.0.2"]).unwrap_err().to_string();
    assert!(error.contains("a private address"), "{error}");
}

#[tokio::test]
async fn a_name_of_this_machine_is_refused_after_resolution() {
    let resolve = |allow: &[&str]| {
        let allowed = allow.iter().map(|net| net.parse().unwrap()).collect();
        let lookups = NameLookups::for_customers();
        Resolver { allowed, lookups }.resolve("localhost".parse().unwrap())
    };
    let error = resolve(&[]).await.err().unwrap().to_string();
    assert!(error.contains("a loopback address"), "{error}");
    assert!(resolve(&["127.0.0.0/8", "::1/128"]).await.unwrap().next().is_some());
}

#[tokio::test]
async fn lookups_of_relays_are_bounded() {
    let lookups = NameLookups::for_operators();
    let permits = lookups.0.reserve(Holder::Workspace(1), usize::MAX).await;
    let addresses = lookups.look_up_relay("127.0.0.1", 25).await.unwrap();
    assert_eq!(addresses, ["127.0.0.1:25".parse().unwrap()]);
    let mut addresses = std::pin::pin!(lookups.look_up_relay("localhost", 25));
    assert!(futures::poll!(&mut addresses).is_pending());
    drop(permits);
    assert!(addresses.await.unwrap().iter().all(|address| address.port() == 25));
}

#[tokio::test]
async fn a_workspace_leaves_lookups_to_others() {
    let (busy, other) = (Holder::Workspace(1), Holder::Workspace(2));
    let (customers, operators) = (NameLookups::for_customers(), NameLookups::for_operators());
    let held: Vec<Reservation> = [&customers, &operators]
        .into_iter()
        .flat_map(|lookups| std::iter::from_fn(move || lookups.0.try_reserve(busy, SLOT_BYTES)))
        .collect();
    assert_eq!(held.len(), 128 + 32);
    let allowed: [IpNet; 2] = ["127.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap());
    let resolver = Resolver { allowed: allowed.into(), lookups: customers.clone() };
    let resolve = async || resolver.resolve("localhost".parse().unwrap()).await.is_ok();
    let mut waiting = std::pin::pin!(held_by(busy, resolve()));
    assert!(futures::poll!(&mut waiting).is_pending());
    assert!(held_by(other, resolve()).await);
    assert!(resolve().await, "a sender without a key");
    let mut relay = std::pin::pin!(held_by(busy, operators.look_up_relay("localhost", 25)));
    assert!(futures::poll!(&mut relay).is_pending());
    assert!(held_by(other, operators.look_up_relay("localhost", 25)).await.is_ok());
    drop(held);
    assert!(waiting.await && relay.await.is_ok());
}

proptest! {
    #[test]
    fn wrapping_changes_no_verdict(bits in any::<u32>()) {
        let plain = Ipv4Addr::from(bits);
        let [a, b, c, d] = plain.octets();
        let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        let verdict = non_public_kind(plain.into(), &[]);
        prop_assert_eq!(non_public_kind(plain.to_ipv6_mapped().into(), &[]), verdict);
        prop_assert_eq!(non_public_kind(nat64.into(), &[]), verdict);
        // Deprecated notations that contain an IPv4 address are rejected for all addresses.
        let compatible = Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low);
        let six_to_four = Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1);
        let teredo = Ipv6Addr::new(0x2001, 0, high, low, 0, 0, 0, 1);
        for address in [compatible, six_to_four, teredo] {
            prop_assert!(non_public_kind(address.into(), &[]).is_some(), "{}", address);
        }
    }

    #[test]
    fn private_addresses_of_the_standard_library_are_rejected(bits in any::<u32>()) {
        let address = Ipv4Addr::from(bits);
        let private = address.is_private() || address.is_loopback() || address.is_link_local()
            || address.is_multicast() || address.is_broadcast() || address.is_unspecified()
            || address.is_documentation();
        prop_assert!(!private || non_public_kind(address.into(), &[]).is_some(), "{}", address);
    }

    #[test]
    fn every_notation_of_an_address_is_equivalent(bits in any::<u32>()) {
        let [a, b, c, d] = Ipv4Addr::from(bits).octets();
        let plain = check_address(&format!("http://{a}.{b}.{c}.{d}/"), &Config::default());
        for host in [
            format!("{bits}"),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("0{a:o}.{b:#x}.{}", u16::from_be_bytes([c, d])),
        ] {
            let other = check_address(&format!("http://{host}/"), &Config::default());
            prop_assert_eq!(&other, &plain, "{}", host);
        }
    }

    #[test]
    fn no_text_upsets_it(text in ".{0,60}") {
        let _ = check_address(&text, &Config::default());
    }
}
