//! What attempts show of their origins, and what a worker changed because of it.

use std::time::Duration;

use super::guard::Transition;
use crate::ports::PortError;
use redial_core::endpoint::{EndpointHash, Origin};
use redial_core::identity::{SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::protection::count::Count;
use redial_core::protection::{AtOrigin, Whose};

#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    pub origin: Origin,
    /// What it came to.
    pub count: Count,
    pub whose: Whose,
    pub tenant: Tenant,
    /// Of its recipient's address; none: it is not known.
    pub address: Option<EndpointHash>,
    /// Whose probe it was, if it was one.
    pub probe: Option<ProbeOf>,
    /// How long the origin asked us to stay away, if it limited our rate.
    pub retry_after: Option<Duration>,
    /// Whose endpoint it was, if it was a retry that has to be repeated once more.
    pub failed_again: Option<SubscriptionKey>,
    /// What it shows of a webhook's receiver, if it was one.
    pub posted: Option<Posted>,
}

/// What a probe's outcome decides on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeOf {
    Origin,
    Recipient,
}

impl Seen {
    pub(super) fn recipient(&self) -> Option<AtOrigin> {
        let Self { origin, tenant, address, .. } = self;
        Some(AtOrigin { origin: origin.clone(), tenant: tenant.clone(), endpoint: address.clone()? })
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// Breakers that this worker moved.
    pub transitions: Vec<Transition>,
    /// What failed; nothing depends on it.
    pub errors: Vec<PortError>,
}

/// An attempt at a webhook's receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Posted {
    pub tenant: Tenant,
    pub lane: Lane,
    pub took: Duration,
    /// Whether there was an answer of HTTP, whichever.
    pub is_answered: bool,
}

impl Changes {
    pub(super) fn take(&mut self, transition: Result<Option<Transition>, PortError>) {
        match transition {
            Ok(transition) => self.transitions.extend(transition),
            Err(error) => self.errors.push(error),
        }
    }
}
