//! The dead letters that a command is about, with times resolved once.

use redial_adapters::dead_letters_dynamo::{Described, Position, Scope};
use redial_core::{
    channel::Channel, endpoint::EndpointHash, identity::DeliveryId, reason::Reason, time::Timestamp,
};

/// All conditions must hold; `None` is no condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filter {
    /// `_unknown` for bodies without a tenant.
    pub(super) tenant: Option<String>,
    pub(super) reason: Option<Reason>,
    pub(super) channel: Option<Channel>,
    pub(super) endpoint_hash: Option<EndpointHash>,
    pub(super) id: Option<DeliveryId>,
    /// Failed at or after.
    pub(super) since: Timestamp,
    /// Failed before.
    pub(super) until: Timestamp,
}

impl Filter {
    pub(super) fn matches(&self, described: &Described) -> bool {
        let reference = &described.reference;
        let at = Timestamp::from_ms(reference.at);
        let is = |wanted: Option<&str>, value: &str| wanted.is_none_or(|wanted| wanted == value);
        is(self.tenant.as_deref(), &reference.tenant)
            && is(self.reason.map(Reason::label), &reference.reason)
            && is(self.channel.map(Channel::label), &reference.channel)
            && is(self.id.as_ref().map(DeliveryId::as_str), &reference.id)
            && self
                .endpoint_hash
                .as_ref()
                .is_none_or(|hash| reference.endpoint_hash.as_deref() == Some(hash.as_str()))
            && self.since <= at
            && at < self.until
    }

    /// The part that the index can search by.
    pub(super) fn scope(&self, after: Option<Position>) -> Scope {
        Scope { tenant: self.tenant.clone(), since: self.since, until: self.until, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dead_letters::described_tests::described;

    fn all() -> Filter {
        Filter {
            tenant: None,
            reason: None,
            channel: None,
            endpoint_hash: None,
            id: None,
            since: Timestamp::from_ms(1_000_000),
            until: Timestamp::from_ms(1_000_001),
        }
    }

    #[test]
    fn all_conditions_must_hold() {
        assert!(all().matches(&described()));
        let (acme, bolt) = (Some("acme".to_owned()), Some("bolt".to_owned()));
        let reason = Some(Reason::RetriesExhausted);
        assert!(Filter { tenant: acme.clone(), reason, ..all() }.matches(&described()));
        assert!(!Filter { tenant: bolt, reason, ..all() }.matches(&described()));
        assert!(!Filter { tenant: acme, reason: Some(Reason::Poison), ..all() }.matches(&described()));
        assert!(!Filter { channel: Some(Channel::Webhook), ..all() }.matches(&described()));
        assert!(!Filter { id: DeliveryId::parse("d2"), ..all() }.matches(&described()));
    }

    #[test]
    fn since_is_included_and_until_is_not() {
        let at = Timestamp::from_ms;
        assert!(!Filter { since: at(1_000_001), until: at(2_000_000), ..all() }.matches(&described()));
        assert!(!Filter { since: at(0), until: at(1_000_000), ..all() }.matches(&described()));
    }
}
