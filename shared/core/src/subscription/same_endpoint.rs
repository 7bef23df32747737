//! One endpoint, one subscription: what happens when a browser's endpoint is stored under a second id of its tenant.
//!
//! Two subscriptions with one endpoint are one browser, which would get every message to an audience twice. So an endpoint belongs to one
//! subscription of a tenant at a time. The store keeps who has it, and changes that in the transaction that stores the subscription.
//!
//! Who has an endpoint is stored under a digest without a key: it stays the same when the key changes that endpoints are hashed with.
//! Beside it the endpoint itself is stored, so the digest shows nothing that is not there.

use std::time::Duration;

use ring::digest::{Context, SHA256};

use super::{State, Subscription};
use crate::endpoint::Endpoint;
use crate::identity::Tenant;
use crate::label::labels;
use crate::time::Timestamp;

labels! {
    /// What becomes of an endpoint that another subscription of the tenant has.
    #[derive(Default)]
    pub enum SameEndpoint {
        /// The new subscription replaces the older one, of which a tombstone is left.
        #[default]
        Replace = "replace",
        /// The new one is refused.
        Refuse = "refuse",
    }
}

/// What has the endpoint that is stored, or had it, under another id of the tenant.
#[derive(Clone, PartialEq, Debug)]
pub enum Rival {
    Stored(Box<Subscription>),
    /// It was erased, removed, or leads elsewhere by now.
    Former,
}

/// How long it is remembered who had an endpoint: no message to an audience is under way for longer (28 days, and 15 days besides).
pub const FORMER_KEPT: Duration = Duration::from_secs(45 * 86_400);

impl SameEndpoint {
    /// Whether the endpoint stays the rival's. What is sent nothing does not need it.
    pub fn refuses(self, rival: &Rival, now: Timestamp) -> bool {
        match (self, rival) {
            (Self::Refuse, Rival::Stored(stored)) => {
                matches!(stored.state_at(now), State::Active | State::Suspect)
            }
            (Self::Refuse, Rival::Former) | (Self::Replace, _) => false,
        }
    }
}

/// Whether `this` keeps the endpoint that both have because an earlier release stored both: the one that was heard of last.
pub fn keeps_it(this: &Subscription, other: &Subscription) -> bool {
    let rank = |it: &Subscription| (it.state == State::Active, it.last_heard_at());
    (rank(this), &other.key.id) > (rank(other), &this.key.id)
}

/// What stands for a tenant's endpoint where it is stored who has it: 64 hexadecimal digits of SHA-256.
pub fn digest(tenant: &Tenant, endpoint: &Endpoint) -> String {
    let mut digest = Context::new(&SHA256);
    digest.update(tenant.as_str().as_bytes());
    digest.update(b"#");
    digest.update(endpoint.expose().as_str().as_bytes());
    hex::encode(digest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, browser, subscription};
    use crate::recipient::Recipient;

    fn stored(id: &str, state: State, seen: u64) -> Subscription {
        let recipient = Recipient::WebPush(browser("https://push.example/x"));
        let new = Subscription::new(subscription(id), recipient);
        Subscription { state, last_seen_at: Some(at(seen)), ..new }
    }

    #[test]
    fn only_what_is_sent_to_keeps_its_endpoint() {
        let rival = |state| Rival::Stored(Box::new(stored("s1", state, 1)));
        for (rival, refuses) in [
            (rival(State::Active), true),
            (rival(State::Gone), false),
            (rival(State::Expired), false),
            (Rival::Former, false),
        ] {
            assert_eq!(SameEndpoint::Refuse.refuses(&rival, at(5)), refuses, "{rival:?}");
            assert!(!SameEndpoint::Replace.refuses(&rival, at(5)), "{rival:?}");
        }
        let ended = Subscription { ends_at: Some(at(5)), ..stored("s1", State::Active, 1) };
        assert!(!SameEndpoint::Refuse.refuses(&Rival::Stored(Box::new(ended)), at(5)));
    }

    #[test]
    fn of_two_the_one_that_was_heard_of_last_keeps_the_endpoint() {
        let (early, late) = (stored("s1", State::Active, 1), stored("s2", State::Active, 2));
        assert!(keeps_it(&late, &early) && !keeps_it(&early, &late));
        let off = stored("s3", State::Gone, 3);
        assert!(keeps_it(&early, &off) && !keeps_it(&off, &early));
        // Exactly one of two that are alike.
        let twin = stored("s4", State::Active, 1);
        assert_ne!(keeps_it(&early, &twin), keeps_it(&twin, &early));
    }

    #[test]
    fn a_digest_differs_by_tenant_and_endpoint() {
        let of = |tenant, path: &str| {
            let tenant = Tenant::parse(tenant).expect("valid");
            digest(&tenant, &browser(&format!("https://push.example/{path}")).endpoint)
        };
        assert_eq!(of("acme", "x").len(), 64);
        assert_eq!(of("acme", "x"), of("acme", "x"));
        assert_ne!(of("acme", "x"), of("acme", "y"));
        assert_ne!(of("acme", "x"), of("shop", "x"));
    }
}
