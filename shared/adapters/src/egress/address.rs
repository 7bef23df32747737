//! Egress connects only to addresses of the public internet.
//!
//! A subscription comes from outside, and its owner controls what the endpoint's name resolves to. Without this filter, a worker inside a
//! VPC would post to instance metadata, to a database or to itself for a stranger. The rule is by
//! exclusion for IPv4, where the special blocks are known (IANA's special-purpose registry), and by inclusion for IPv6:
//! only global unicast, less the blocks in it that lead elsewhere or that embed an IPv4 address.
//!
//! NAT64 is refused although it can lead to public addresses, because it leads to private ones just as well; in a network
//! that has nothing but IPv6 and DNS64 there is no egress.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a connection to this address stays on the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// IPv4 blocks that are not public: address and prefix length.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8), // "this network", and the unspecified address (RFC 1122)
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private (RFC 1918)
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared by carriers' NAT (RFC 6598)
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback (RFC 1122)
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local, and instance metadata (RFC 3927)
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private (RFC 1918)
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments (RFC 6890)
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation (RFC 5737)
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relays (RFC 7526)
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private (RFC 1918)
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarking (RFC 2544)
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation (RFC 5737)
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation (RFC 5737)
    (Ipv4Addr::new(224, 0, 0, 0), 4), // multicast (RFC 5771)
    (Ipv4Addr::new(240, 0, 0, 0), 4), // reserved, and limited broadcast (RFC 1112)
];

/// Where IPv6's global unicast addresses are: all others are loopback, unspecified, link-local, site-local, unique local,
/// multicast, NAT64, IPv4-mapped or -compatible, discard-only, or not assigned at all (RFC 4291, 2.4).
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Blocks of global unicast that are not public.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // Teredo, benchmarking, ORCHID and the like (RFC 2928)
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation (RFC 3849)
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4 (RFC 3056)
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation (RFC 9637)
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(block, prefix)| {
        let differing = address.to_bits() ^ block.to_bits();
        differing >> (32 - prefix) == 0
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let lies_in = |(block, prefix): &(Ipv6Addr, u32)| {
        let differing = address.to_bits() ^ block.to_bits();
        differing >> (128 - prefix) == 0
    };
    lies_in(&GLOBAL_UNICAST) && !SPECIAL_V6.iter().any(lies_in)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn special_blocks_are_refused_and_their_neighbours_are_not() {
        let table = [
            // (first, last, the public neighbour before, the one after)
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            ("10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
            ("100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
            ("127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
            ("169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
            ("172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
            ("192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
            ("192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
            ("192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
            ("192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
            ("198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
            ("198.51.100.0", "198.51.100.255", Some("198.51.99.255"), Some("198.51.101.0")),
            ("203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
            ("224.0.0.0", "239.255.255.255", Some("223.255.255.255"), None),
            ("240.0.0.0", "255.255.255.255", None, None),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Some("2000:ffff::"), Some("2001:200::")),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:db7::1"), Some("2001:db9::")),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("2001:ffff::"), Some("2003::")),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Some("3ffe:ffff::"), Some("3fff:1000::")),
        ];
        let public = |text: &str| is_public(text.parse().expect("an address"));
        for (first, last, before, after) in table {
            assert!(!public(first), "{first}");
            assert!(!public(last), "{last}");
            for neighbour in [before, after].into_iter().flatten() {
                assert!(public(neighbour), "{neighbour}");
            }
        }
    }

    #[test]
    fn push_services_are_reached() {
        for text in [
            "142.250.185.106",
            "34.107.221.82",
            "17.188.143.34",
            "2a00:1450:4001:831::200a",
            "2620:149:a44::1",
        ] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_the_standard_library_calls_local_is_never_public(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            let local = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_broadcast() || address.is_documentation() || address.is_multicast()
                || address.is_unspecified();
            prop_assert!(!(local && is_public(address.into())));
        }

        #[test]
        fn no_ipv6_form_of_an_ipv4_address_is_public(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from_bits(bits);
            prop_assert!(!is_public(v4.to_ipv6_mapped().into()));
            prop_assert!(!is_public(v4.to_ipv6_compatible().into()));
            for prefix in ["64:ff9b::", "64:ff9b:1::"] {
                let prefix: Ipv6Addr = prefix.parse().expect("an address");
                prop_assert!(!is_public(Ipv6Addr::from_bits(prefix.to_bits() | u128::from(bits)).into()));
            }
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            prop_assert!(!is_public(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1).into()));
            prop_assert!(!is_public(Ipv6Addr::new(0x2001, 0, high, low, 0, 0, !high, !low).into()));
        }

        #[test]
        fn local_ipv6_is_never_public(bits in any::<u128>()) {
            let address = Ipv6Addr::from_bits(bits);
            let local = address.is_unique_local() || address.is_unicast_link_local() || address.is_multicast()
                || address.is_loopback() || address.is_unspecified();
            prop_assert!(!(local && is_public(address.into())));
        }
    }
}
