//! One address of every class that leads inside, as a literal and behind a name.

use http_body_util::Full;
use hyper::body::Bytes;

use super::*;
use crate::receiver::{Identity, Receiver};

/// Class, and an address of it.
const INSIDE: [(&str, &str); 32] = [
    ("this network", "0.1.2.3"),
    ("unspecified", "0.0.0.0"),
    ("private", "10.0.0.1"),
    ("private", "172.16.0.1"),
    ("private", "192.168.1.1"),
    ("carriers' NAT", "100.64.0.1"),
    ("loopback", "127.0.0.1"),
    ("loopback", "127.255.255.254"),
    ("link-local", "169.254.1.1"),
    ("metadata", "169.254.169.254"),
    ("protocol assignments", "192.0.0.8"),
    ("documentation", "192.0.2.1"),
    ("documentation", "198.51.100.1"),
    ("documentation", "203.0.113.1"),
    ("6to4 relays", "192.88.99.1"),
    ("benchmarking", "198.18.0.1"),
    ("multicast", "224.0.0.1"),
    ("reserved", "240.0.0.1"),
    ("broadcast", "255.255.255.255"),
    ("unspecified", "::"),
    ("loopback", "::1"),
    ("IPv4-compatible", "::10.0.0.1"),
    ("IPv4-mapped", "::ffff:10.0.0.1"),
    ("NAT64", "64:ff9b::a00:1"),
    ("NAT64, local", "64:ff9b:1::a00:1"),
    ("Teredo", "2001::1"),
    ("documentation", "2001:db8::1"),
    ("6to4", "2002:a00:1::1"),
    ("unique local", "fc00::1"),
    ("metadata", "fd00:ec2::254"),
    ("link-local", "fe80::1"),
    ("multicast", "ff02::1"),
];

#[tokio::test]
async fn no_class_of_inner_addresses_is_reached_by_literal_or_by_name() {
    let identity = Identity::new(&["h2"]);
    let refused = Outcome::Impossible(Impossible::EndpointNotAllowed);
    for (class, address) in INSIDE {
        let socket = match address.parse().expect("an address") {
            std::net::IpAddr::V4(_) => format!("{address}:0"),
            std::net::IpAddr::V6(_) => format!("[{address}]:0"),
        };
        let literal = format!("https://{}/x", socket.trim_end_matches(":0"));
        let lookup = Scripted::new(&[&[&socket]]);
        let egress = Egress::with_lookup(config("", &identity.ca_pem), lookup.clone());
        assert_eq!(post(&egress, &literal).await, refused, "{class}: {literal}");
        assert_eq!(*lookup.lookups.lock().expect("no panic"), 0, "{literal} was looked up");

        assert_eq!(post(&egress, "https://receiver.example/x").await, refused, "{class}: {address} by name");
        let beside_a_public_one = Scripted::new(&[&["8.8.8.8:0", &socket]]);
        let egress = Egress::with_lookup(config("", &identity.ca_pem), beside_a_public_one);
        assert_eq!(post(&egress, "https://receiver.example/x").await, refused, "{class}: {address} beside");
    }
}

#[tokio::test]
async fn a_redirect_to_the_metadata_address_is_an_answer_like_any_other() {
    let identity = Identity::new(&["h2"]);
    let receiver = Receiver::http(&identity, |_| {
        let response = http::Response::builder().status(302);
        let response = response.header("Location", "http://169.254.169.254/latest/meta-data/");
        let response = response.body(Full::<Bytes>::default()).map_err(std::io::Error::other);
        async { response }
    })
    .await;
    let egress = Egress::new(config(&receiver.origin(), &identity.ca_pem));
    let outcome = post(&egress, &receiver.origin()).await;
    assert!(matches!(&outcome, Outcome::Response(Response { status: 302, .. })), "{outcome:?}");
}
