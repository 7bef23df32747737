//! The check of an endpoint before any connection, and its exceptions by origin.
//!
//! A resolver never sees an address literal or a port, so both are checked here. Names pass here and are checked in the
//! resolver, at the moment of connecting.

use std::net::IpAddr;

use redial_core::endpoint::{Endpoint, Origin};
use url::Host;

use super::address::is_public;

/// The only port that is posted to without an exception.
const HTTPS_PORT: u16 = 443;

/// The origins that are exempt from the check of addresses and ports (`EGRESS_ALLOW`): receivers of tests and of the
/// local stack. Empty in a deployment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EgressAllow(Vec<Origin>);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is not an origin: expected `https://HOST` or `https://HOST:PORT`, several separated by commas"
)]
pub struct EgressAllowError(String);

impl EgressAllow {
    /// Reads origins such as `https://localhost:8443`, separated by commas; an empty text is no exception.
    pub fn parse(list: &str) -> Result<Self, EgressAllowError> {
        list.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| Origin::parse(part).ok_or_else(|| EgressAllowError(part.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How this endpoint may be reached.
    pub(super) fn passage(&self, endpoint: &Endpoint) -> Passage {
        if self.0.contains(&endpoint.origin()) {
            return Passage::Exempt;
        }
        let port_fits = endpoint.expose().port_or_known_default() == Some(HTTPS_PORT);
        let host_fits = match endpoint.host() {
            Host::Domain(name) => !name.is_empty(),
            Host::Ipv4(address) => is_public(IpAddr::V4(address)),
            Host::Ipv6(address) => is_public(IpAddr::V6(address)),
        };
        if port_fits && host_fits { Passage::Checked } else { Passage::Refused }
    }
}

/// How an endpoint may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passage {
    /// By a resolver that refuses addresses which are not public.
    Checked,
    /// By name or literal as they are: its origin is an exception.
    Exempt,
    /// Not at all.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_port_443_and_public_literals_pass_and_exceptions_are_for_their_exact_origin() {
        let allow = "https://localhost:8443, https://127.0.0.1:9443";
        for (allow, endpoint, expected) in [
            ("", "https://push.example/x", Passage::Checked),
            ("", "https://push.example:443/x", Passage::Checked),
            ("", "https://8.8.8.8/x", Passage::Checked),
            ("", "https://push.example:8443/x", Passage::Refused),
            ("", "https://push.example:80/x", Passage::Refused),
            ("", "https://127.0.0.1/x", Passage::Refused),
            ("", "https://2130706433/x", Passage::Refused),
            ("", "https://0x7f.1/x", Passage::Refused),
            ("", "https://169.254.169.254/latest/meta-data", Passage::Refused),
            ("", "https://[::1]/x", Passage::Refused),
            ("", "https://[::ffff:10.0.0.1]/x", Passage::Refused),
            (allow, "https://localhost:8443/x", Passage::Exempt),
            (allow, "https://127.0.0.1:9443/x", Passage::Exempt),
            (allow, "https://localhost:8444/x", Passage::Refused),
            (allow, "https://127.0.0.1/x", Passage::Refused),
            // Its name is the resolver's to refuse.
            (allow, "https://localhost/x", Passage::Checked),
        ] {
            let allow = EgressAllow::parse(allow).expect("origins");
            let endpoint = Endpoint::parse(endpoint).expect("an endpoint");
            assert_eq!(allow.passage(&endpoint), expected, "{endpoint:?}");
        }
    }

    #[test]
    fn an_invalid_origin_is_named() {
        assert_eq!(
            EgressAllow::parse("https://a.example,b.example"),
            Err(EgressAllowError("b.example".to_owned()))
        );
        assert!(EgressAllow::parse(" , ").is_ok_and(|allow| allow.is_empty()));
    }
}
