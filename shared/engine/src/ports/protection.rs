//! The port to what workers share to protect the origins that they send to.

use super::{Answer, Answers};
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Circuit, Counted, OriginState, token_bucket};
use redial_core::rate::Rate;
use redial_core::share::Share;
use redial_core::time::Timestamp;

/// What an operator's limit is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Limited {
    Origin(Origin),
    Tenant(Tenant),
}

/// What an operator allows an origin or a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Allowed {
    /// The most attempts in a span of time; `None`: any number.
    pub rate: Option<Rate>,
    /// An origin has none.
    pub share: Share,
}

impl From<Rate> for Allowed {
    fn from(rate: Rate) -> Self {
        Self { rate: Some(rate), share: Share::default() }
    }
}

impl From<Share> for Allowed {
    fn from(share: Share) -> Self {
        Self { rate: None, share }
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoredOrigin {
    pub state: OriginState,
    /// What it is exchanged by: 0 if nothing is stored.
    pub version: u64,
}

/// Reads and changes what is shared. Every call may fail: sending goes on without.
pub trait Protection: Send + Sync {
    /// These circuits' states, and what these are allowed, in the order of the request; a second old is good enough.
    fn read(
        &self,
        circuits: Vec<Circuit>,
        limits: Vec<Limited>,
    ) -> impl Answer<(Vec<StoredOrigin>, Vec<Allowed>)>;

    /// A circuit's state as it is now, and the sum of its counters.
    fn look(&self, circuit: &Circuit) -> impl Answer<(StoredOrigin, Counted)>;

    /// Puts a state in the place of that of `version`; `false` if another stands there by now.
    fn exchange(
        &self,
        circuit: &Circuit,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> impl Answer<bool>;

    /// Adds these to the counters of number `counter` of their circuits.
    fn add(&self, counter: u16, counts: Vec<(Circuit, Counted)>, now: Timestamp) -> impl Answers<()>;

    /// Asks for a block of a bucket: [`token_bucket::Request::judge`] decides, and the store makes sure that no other worker comes between.
    fn lease(&self, request: token_bucket::Request) -> impl Answer<token_bucket::Answer>;
}
