//! Addresses that lead to the operator's own network.

use std::net::Ipv4Addr;

use redial_adapters::egress::{Egress, EgressConfig};
use redial_core::endpoint::Endpoint;
use redial_core::outcome::{Impossible, NotSent, Outcome};
use redial_tests::prelude::*;
use tokio::net::TcpListener;

/// Ways to write this machine, its network and a cloud's metadata service.
const HOSTS: [&str; 32] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "0",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "a.localhost",
    "localhost.localdomain",
    "169.254.169.254",
    "169.254.170.2",
    "0xa9fea9fe",
    "10.0.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "metadata.google.internal",
];

#[tokio::test]
async fn no_way_of_writing_an_inner_address_leads_to_a_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let egress = Egress::new(EgressConfig::default());
    let (mut tried, mut refused_at_once) = (0, 0);
    for host in HOSTS {
        for port in ["", "443", "80", "8443", port.as_str()] {
            for user in ["", "push.example@", "push.example:443@"] {
                let colon = if port.is_empty() { "" } else { ":" };
                let url = format!("https://{user}{host}{colon}{port}/x");
                tried += 1;
                let Ok(endpoint) = Endpoint::parse(&url) else {
                    refused_at_once += 1;
                    continue;
                };
                let outcome = egress
                    .post(&endpoint, http::HeaderMap::new(), Vec::new(), egress.total_timeout(), &System)
                    .await;
                let is_refused = matches!(
                    outcome,
                    Outcome::Impossible(Impossible::EndpointNotAllowed) | Outcome::NotSent(NotSent::Dns)
                );
                assert!(is_refused, "{url}: {outcome:?}");
            }
        }
    }
    let connected = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(connected.is_err(), "a connection was made");
    println!("tried: {tried} addresses, {refused_at_once} of which are refused before they are stored");
}
