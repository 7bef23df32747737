//! The port to audiences: messages to them, under way, and who belongs to them.

use super::{Answer, Answers};
use redial_core::audience::{Bounds, Progress, Run, RunKey};
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;

/// Keeps messages to audiences, and how far they are.
pub trait Audiences: Send + Sync {
    /// Stores these, each unless it is there already; keys are distinct. Of the runs of one message the one that was opened last is
    /// the one that its id finds.
    fn open(&self, runs: Vec<Run>) -> impl Answers<()>;

    /// Loads these; `None` for one that is not there (any more), or is past what it is kept for. Keys are distinct.
    fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> impl Answers<Option<Run>>;

    /// The subscriptions of a part of an audience that follow `after`, in the order of their ids, so many at most.
    fn members(
        &self,
        tenant: &Tenant,
        tag: &Tag,
        shard: u8,
        after: Option<&SubscriptionId>,
        most: u16,
    ) -> impl Answer<Vec<SubscriptionId>>;

    /// How far a part of a message to an audience is.
    fn progress(&self, run: &RunKey, shard: u8) -> impl Answer<Progress>;

    /// Records the bounds of the page of a part that begins after `after`, unless bounds of that page are recorded; answers those that are.
    /// `None` if the part has gone further.
    fn bound(
        &self,
        run: &Run,
        shard: u8,
        after: Option<&SubscriptionId>,
        page: &Bounds,
    ) -> impl Answer<Option<Bounds>>;

    /// Moves a part on, if it is still where it was; answers whether it was.
    fn advance(&self, run: &Run, shard: u8, from: &Progress, to: &Progress) -> impl Answer<bool>;
}
