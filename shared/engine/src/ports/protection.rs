//! The port to what workers share to protect the origins that they send to.

use super::{Answer, Answers};
use redial_core::endpoint::Origin;
use redial_core::identity::Tenant;
use redial_core::protection::{Counted, OriginState, token_bucket};
use redial_core::rate::Rate;
use redial_core::time::Timestamp;

/// What an operator's limit is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Limited {
    Origin(Origin),
    Tenant(Tenant),
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct StoredOrigin {
    pub state: OriginState,
    /// What it is exchanged by: 0 if nothing is stored.
    pub version: u64,
}

/// Reads and changes what is shared. Every call may fail: sending goes on without.
pub trait Protection: Send + Sync {
    /// These origins' states, and these limits, in the order of the request; a second old is good enough.
    fn read(
        &self,
        origins: Vec<Origin>,
        limits: Vec<Limited>,
    ) -> impl Answer<(Vec<StoredOrigin>, Vec<Option<Rate>>)>;

    /// An origin's state as it is now, and the sum of its counters.
    fn look(&self, origin: &Origin) -> impl Answer<(StoredOrigin, Counted)>;

    /// Puts a state in the place of that of `version`; `false` if another stands there by now.
    fn exchange(
        &self,
        origin: &Origin,
        version: u64,
        state: OriginState,
        now: Timestamp,
    ) -> impl Answer<bool>;

    /// Adds these to the counters of number `counter` of their origins.
    fn add(&self, counter: u16, counts: Vec<(Origin, Counted)>, now: Timestamp) -> impl Answers<()>;

    /// Asks for a block of a bucket: [`token_bucket::Request::judge`] decides, and the store makes sure that no other worker comes between.
    fn lease(&self, request: token_bucket::Request) -> impl Answer<token_bucket::Answer>;
}
