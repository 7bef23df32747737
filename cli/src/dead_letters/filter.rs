//! Which letters: what the options of a command say, with their times resolved once.

use redial_adapters::dead_letters_dynamo::{Described, Position, Scope};
use redial_core::{
    channel::Channel, endpoint::EndpointHash, identity::DeliveryId, reason::Reason, time::Timestamp,
};

/// Letters that are all of this. What is `None` is not asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Filter {
    /// Whose; `_unknown` for bodies without one.
    pub(crate) tenant: Option<String>,
    pub(crate) reason: Option<Reason>,
    pub(crate) channel: Option<Channel>,
    pub(crate) endpoint_hash: Option<EndpointHash>,
    pub(crate) id: Option<DeliveryId>,
    /// Given up from then on.
    pub(crate) since: Timestamp,
    /// Given up before then.
    pub(crate) until: Timestamp,
}

impl Filter {
    /// Whether a letter is one of these.
    pub(crate) fn matches(&self, described: &Described) -> bool {
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

    /// What of it the index knows.
    pub(super) fn scope(&self, after: Option<Position>) -> Scope {
        Scope { tenant: self.tenant.clone(), since: self.since, until: self.until, after }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use redial_core::dead_letter::{Kind, Reference};

    use super::*;

    pub(in crate::dead_letters) fn described() -> Described {
        let reference = Reference {
            v: Reference::VERSION,
            kind: Kind::Failed,
            tenant: "acme".to_owned(),
            id: "d1".to_owned(),
            letter: "lineage-0".to_owned(),
            lineage: 0,
            channel: "web_push".to_owned(),
            subscription: None,
            endpoint_hash: None,
            reason: "retries_exhausted".to_owned(),
            detail: None,
            status: Some(503),
            attempts: 6,
            first_sent: 900_000,
            at: 1_000_000,
            retention_days: 14,
        };
        Described { reference, replayed_at: None, kept_until: None }
    }

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
    fn a_letter_must_be_all_that_is_asked_for() {
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
