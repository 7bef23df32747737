//! Whose an attempt was, without a name: places of tenants and recipients, which are hashes.

use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, Origin};
use crate::hash::of_texts;
use crate::identity::Tenant;

pub const TENANTS: usize = 16;
pub const RECIPIENTS: usize = 8;

/// A tenant's place at an origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(u8);

impl Place {
    pub fn of(origin: &Origin, tenant: &Tenant) -> Self {
        Self::numbered((of_texts(&[origin.as_str(), tenant.as_str()]) % TENANTS as u64) as usize)
    }

    /// By its number, below [`TENANTS`].
    pub fn numbered(number: usize) -> Self {
        Self(u8::try_from(number).expect("invariant: there are fewer than 256"))
    }

    pub fn number(self) -> usize {
        self.0.into()
    }
}

/// Whose attempt it was: the tenant's place, and a hash of the recipient, of which the last bits are its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whose {
    tenant: Place,
    recipient: u64,
}

impl Whose {
    pub fn of(origin: &Origin, tenant: &Tenant, endpoint: &Endpoint) -> Self {
        Self::numbered(Place::of(origin, tenant), of_texts(&[endpoint.expose().as_str()]))
    }

    pub fn tenant(self) -> Place {
        self.tenant
    }

    /// A recipient by a number of its own.
    pub fn numbered(tenant: Place, recipient: u64) -> Self {
        Self { tenant, recipient }
    }

    /// Distinguishes recipients better than their places do.
    pub fn mark(self) -> u16 {
        (self.recipient & u64::from(u16::MAX)) as u16
    }

    /// The number of the recipient's place, below [`RECIPIENTS`].
    pub fn recipient(self) -> usize {
        (self.recipient % RECIPIENTS as u64) as usize
    }
}
