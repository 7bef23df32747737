//! Addresses of every class that leads inside, as literals and behind a name.

use redial_core::outcome::NotSent;

use super::*;

const INSIDE: [(&str, &[&str]); 23] = [
    ("this network", &["0.1.2.3"]),
    ("unspecified", &["0.0.0.0", "::"]),
    ("private", &["10.0.0.1", "172.16.0.1", "192.168.1.1"]),
    ("carriers' NAT", &["100.64.0.1"]),
    ("loopback", &["127.0.0.1", "127.255.255.254", "::1"]),
    ("link-local", &["169.254.1.1", "fe80::1"]),
    ("metadata", &["169.254.169.254", "fd00:ec2::254"]),
    ("protocol assignments", &["192.0.0.8"]),
    ("documentation", &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1"]),
    ("6to4", &["192.88.99.1", "2002:a00:1::1", "2002:7f00:1::"]),
    ("benchmarking", &["198.18.0.1"]),
    ("multicast", &["224.0.0.1", "ff02::1"]),
    ("reserved", &["240.0.0.1", "255.255.255.255"]),
    ("IPv4-compatible", &["::10.0.0.1", "::8.8.8.8"]),
    ("IPv4-mapped", &["::ffff:10.0.0.1", "::ffff:8.8.8.8"]),
    ("IPv4-translated", &["::ffff:0:8.8.8.8"]),
    ("NAT64", &["64:ff9b::a00:1", "64:ff9b::8.8.8.8", "64:ff9b::169.254.169.254", "64:ff9b:1::a00:1"]),
    ("discard-only", &["100::1"]),
    ("Teredo", &["2001::1", "2001:0:4136:e378::1"]),
    ("segment routing", &["5f00::1"]),
    ("unique local", &["fc00::1"]),
    ("site-local", &["fec0::1"]),
    ("not assigned", &["4000::1"]),
];

#[tokio::test]
async fn no_class_of_inner_addresses_is_reached_by_literal_or_by_name() {
    for (class, addresses) in INSIDE {
        for address in addresses {
            let host = if address.contains(':') { format!("[{address}]") } else { (*address).to_owned() };
            let socket = format!("{host}:0");
            let (egress, lookup) = scripted(config("", ""), &[&[&socket], &["8.8.8.8:0", &socket]]);
            assert_eq!(post(&egress, &format!("https://{host}/x")).await, NOT_ALLOWED, "{class}: {address}");
            assert_eq!(*lookup.lookups.lock().expect("no panic"), 0, "{address} was looked up");
            for case in ["by name", "beside a public one"] {
                let outcome = post(&egress, "https://receiver.example/x").await;
                assert_eq!(outcome, Outcome::NotSent(NotSent::Dns), "{class}: {address} {case}");
            }
        }
    }
}
