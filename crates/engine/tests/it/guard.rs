//! Where we may connect, and the ways round it that have been tried.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use springtide_engine::fetch::guard::{Guard, is_public};
use springtide_engine::fetch::{Client, FailureKind, HttpRequest};
use springtide_engine::origin::{Origin, SiteSettings};
use springtide_engine::settings::{AllowPrivate, HttpSettings};
use url::Url;

use super::http::{origin, settings, url};

fn guard() -> Guard {
    Guard::new(AllowPrivate::None)
}

fn only(networks: &[&str]) -> AllowPrivate {
    AllowPrivate::Only(
        networks
            .iter()
            .map(|network| network.parse().unwrap())
            .collect(),
    )
}

#[test]
fn special_addresses_are_not_public() {
    for address in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:2::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::",
        "3fff::1",
        "3fff:fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert!(!is_public(address), "{address}");
        assert!(!guard().is_allowed(address), "{address}");
    }
}

#[test]
fn addresses_of_the_internet_are_public() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "168.63.129.15",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "2001:200::1",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "64:ff9b::8.8.8.8",
        "::ffff:8.8.8.8",
        "3fff:1000::1",
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert!(is_public(address), "{address}");
        assert!(guard().is_allowed(address), "{address}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_address_in_another_is_judged_as_itself(bits in any::<u32>()) {
        let address = Ipv4Addr::from(bits);
        let [a, b, c, d] = address.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low);
        let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
        let expected = is_public(address.into());
        prop_assert_eq!(is_public(mapped.into()), expected);
        prop_assert_eq!(is_public(nat64.into()), expected);
        prop_assert!(!is_public(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()));
        prop_assert!(!is_public(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low).into()));
        for url in [format!("http://{bits}/"), format!("http://{bits:#x}/"), format!("http://{a:#o}.{b}.{c}.{d}/").replace("0o", "0")] {
            let url = Url::parse(&url).unwrap();
            prop_assert_eq!(guard().check(&url).is_ok(), expected, "{}", url);
        }
    }
}

#[test]
fn no_spelling_of_a_private_address_gets_through() {
    for text in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0177.0x0.0.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://0.0.0.0/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://%31%32%37.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://[::1]/",
        "http://[::]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http:\\\\127.0.0.1\\",
        "http:127.0.0.1",
        "http:///127.0.0.1/",
        "https://10.0.0.1:8443/",
    ] {
        let url = Url::parse(text).unwrap();
        let failure = guard().check(&url).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Address, "{text} is {url}");
    }
}

#[test]
fn what_is_not_a_plain_web_address_is_refused() {
    let all = Guard::new(AllowPrivate::All);
    for text in [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:70/",
        "data:text/html,hello",
        "javascript:alert(1)",
        "ws://example.org/",
        "unix:/run/docker.sock",
        "http://user@example.org/",
        "http://user:password@example.org/",
        "http://:password@example.org/",
        "http://example.org@127.0.0.1/",
        "http://example.org:0/",
    ] {
        let failure = all.check(&Url::parse(text).unwrap()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Url, "{text}");
        assert!(!failure.message.contains("password@"), "{failure}");
    }
    let long = format!("http://example.org/{}", "a".repeat(64 * 1024));
    let failure = all.check(&Url::parse(&long).unwrap()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Url);
    assert!(failure.message.len() < 200);
}

#[test]
fn private_addresses_that_are_named_are_allowed_and_no_others() {
    let guard = Guard::new(only(&["127.0.0.2/32", "10.1.0.0/16", "fd00::/8"]));
    for (address, is_allowed) in [
        ("127.0.0.2", true),
        ("127.0.0.1", false),
        ("::ffff:127.0.0.2", true),
        ("::ffff:127.0.0.1", false),
        ("::127.0.0.2", false),
        ("10.1.255.1", true),
        ("10.2.0.1", false),
        ("fd12::1", true),
        ("fc12::1", false),
        ("8.8.8.8", true),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(guard.is_allowed(address), is_allowed, "{address}");
    }
    assert!(Guard::new(AllowPrivate::All).is_allowed("127.0.0.1".parse().unwrap()));
}

fn client(allow_private: AllowPrivate) -> Client {
    Client::new(&HttpSettings {
        allow_private,
        ..settings()
    })
    .unwrap()
}

#[tokio::test]
async fn a_name_that_resolves_to_loopback_is_not_asked() {
    let origin = origin(SiteSettings::default());
    let client = client(AllowPrivate::None);
    for name in ["localhost", "LOCALHOST"] {
        let url = Url::parse(&format!("http://{name}:{}/", origin.addr().unwrap().port())).unwrap();
        let failure = client.hop(&HttpRequest::new(&url, 1000)).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Address, "{name}: {failure}");
        assert!(failure.message.contains("allow_private"), "{failure}");
    }
    let literal = url(&origin, "/");
    let failure = client
        .hop(&HttpRequest::new(&literal, 1000))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Address);
    assert_eq!(origin.n_connections(), 0);
}

#[tokio::test]
async fn of_the_addresses_of_a_name_only_those_allowed_are_dialled() {
    let origin = origin(SiteSettings::default());
    let port = origin.addr().unwrap().port();
    let by_name = Url::parse(&format!("http://localhost:{port}/")).unwrap();
    // `localhost` is 127.0.0.1, and ::1 on most machines.
    let allowed = client(only(&["127.0.0.1/32"]));
    assert_eq!(
        allowed
            .hop(&HttpRequest::new(&by_name, 9000))
            .await
            .unwrap()
            .status,
        200
    );
    let elsewhere = client(only(&["127.0.0.2/32"]));
    let failure = elsewhere
        .hop(&HttpRequest::new(&by_name, 9000))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Address);
    assert_eq!(origin.n_connections(), 1);
}

#[tokio::test]
async fn an_origin_may_be_at_another_address_of_loopback() {
    let origin = Origin::start_at("127.0.0.2:0".parse().unwrap(), SiteSettings::default()).unwrap();
    let url = url(&origin, "/");
    let allowed = client(only(&["127.0.0.2/32"]));
    assert_eq!(
        allowed
            .hop(&HttpRequest::new(&url, 9000))
            .await
            .unwrap()
            .status,
        200
    );
    assert!(Origin::start_at("0.0.0.0:0".parse().unwrap(), SiteSettings::default()).is_err());
}
