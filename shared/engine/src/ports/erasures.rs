//! The ports of an erasure: marking whom it is about, searching what is kept, and keeping what tenants have requested.

use super::{Answer, Answers};
use redial_core::erasure::{At, Erasure, ErasureId, Person, Searched, Subject};
use redial_core::identity::Tenant;
use redial_core::time::Timestamp;

/// Knows what was erased.
pub trait Erasures: Send + Sync {
    /// Of each of these whether it was erased and has not been stored again, read consistently. Subjects are distinct.
    fn erased(&self, subjects: Vec<Subject>) -> impl Answers<bool>;
}

pub trait ErasureMarks: Send + Sync {
    /// Marks a person as erased: of a subscription, whatever it is, a tombstone is left, unless it was stored after `requested_at`; of a
    /// `ref` a digest is stored. Marking twice is no error.
    fn mark(&self, person: &Person, requested_at: Timestamp, now: Timestamp) -> impl Answer<()>;
}

/// Searches everything that is kept.
pub trait PersonSearch: Send + Sync {
    /// Reads the next page, of `most` items at most, and removes what is the person's and an erasure removes. Searching a page twice is no
    /// error.
    fn erase_page(&self, person: &Person, at: &At, most: u16) -> impl Answer<Searched>;
}

/// Keeps the erasures that tenants have requested: while they are pending, and for 30 days after they are done.
pub trait ErasureRequests: Send + Sync {
    /// Stores a new one, unless one of its tenant and id is pending. Answers what is stored.
    fn begin(&self, erasure: Erasure) -> impl Answer<Erasure>;

    /// How many of a tenant's are pending.
    fn count_pending(&self, tenant: &Tenant) -> impl Answer<usize>;

    /// All that are pending.
    fn pending(&self) -> impl Answer<Vec<Erasure>>;

    /// Stores how far it has come, if it has not changed since `before`. Answers whether it was stored. What is done is pending no more.
    fn advance(&self, before: &Erasure, after: &Erasure) -> impl Answer<bool>;

    /// Read consistently: a pending one before one that is done.
    fn find(&self, tenant: &Tenant, id: &ErasureId) -> impl Answer<Option<Erasure>>;
}
