//! The addresses of receivers.

use std::collections::BTreeSet;

use redial_core::endpoint::Endpoint;
use redial_core::identity::Tenant;
use redial_core::protection::Whose;

/// Stands in the place of a tenant in an address that all have subscribed.
pub const ALL: &str = "all";

/// The address of a receiver: `https://push.example/r3/0/acme`. The number counts its subscriptions, and the tenant is whose it is, or
/// [`ALL`].
pub fn endpoint(receiver: usize, is_webhook: bool, incarnation: u32, tenant: &str) -> String {
    let host = if is_webhook { format!("hooks{receiver}.example") } else { "push.example".to_owned() };
    format!("https://{host}/r{receiver}/{incarnation}/{tenant}")
}

/// The address that a tenant's events are posted to.
pub fn callback(tenant: &str) -> String {
    format!("{CALLBACKS}{tenant}")
}

pub fn is_callback(endpoint: &str) -> bool {
    endpoint.starts_with(CALLBACKS)
}

const CALLBACKS: &str = "https://callbacks.example/events/0/";

/// The number of the receiver at an address.
pub fn receiver_of(endpoint: &str) -> Option<usize> {
    endpoint.split('/').nth(3)?.strip_prefix('r')?.parse().ok()
}

/// Whether an address is one of that tenant's.
pub fn is_of(endpoint: &str, tenant: &str) -> bool {
    endpoint.split('/').nth(5).is_some_and(|of| of == tenant || of == ALL)
}

/// The numbers of `count` push receivers of a tenant that workers tell apart: no two of them share a place at their service.
pub fn apart(count: usize, tenant: &str) -> Vec<usize> {
    let tenant = Tenant::parse(tenant).expect("invariant: a tenant's name");
    let place = |receiver: usize| {
        let address = Endpoint::parse(&endpoint(receiver, false, 0, tenant.as_str()));
        let address = address.expect("invariant: an HTTPS address");
        Whose::of(&address.origin(), &tenant, &address).recipient()
    };
    let mut places = BTreeSet::new();
    (0..).filter(|receiver| places.insert(place(*receiver))).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_that_are_apart_share_no_place() {
        assert_eq!(apart(5, "acme"), [0, 1, 4, 8, 9]);
        assert_eq!(apart(8, "acme").len(), 8);
    }
}
