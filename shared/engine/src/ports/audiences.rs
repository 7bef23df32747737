//! The port to audiences: messages to them, under way, and who belongs to them.

use super::{Answer, Answers};
use redial_core::audience::{Bounds, Progress, Run, RunKey};
use redial_core::identity::{SubscriptionId, Tenant};
use redial_core::ledger::{Given, State};
use redial_core::page::{PageKey, PageMessage, Position, Sheet};
use redial_core::tag::Tag;
use redial_core::time::Timestamp;

/// The hold of one worker on a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageLease {
    /// New for each invocation and page.
    pub token: String,
    pub until: Timestamp,
    /// When its sheet is forgotten: with its run.
    pub kept_until: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageClaim {
    /// The page is this worker's; with what the workers before it left.
    Granted(Sheet),
    /// Another worker has it until then.
    Leased { until: Timestamp },
}

/// A recipient on a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnPage {
    pub subscription: SubscriptionId,
    /// Its place on the page.
    pub place: usize,
    pub sheet: Sheet,
    /// When the message to the audience was opened.
    pub opened_at: Timestamp,
    /// When the sheet was last written, or that time if it was not.
    pub updated_at: Timestamp,
    /// What the message says of itself, but for what depends on its recipient's channel.
    pub given: Given,
}

impl OnPage {
    /// Of a recipient without an entry of its own.
    pub fn state(&self) -> State {
        self.sheet.state(self.place)
    }

    /// Whether it has left the page, and has an entry or is about to have one.
    pub fn is_apart(&self) -> bool {
        self.sheet.apart.contains(self.place)
    }
}

/// Looks up recipients on pages.
pub trait Pages: Send + Sync {
    /// The recipient at this position; `None` if no page has it, or its run is forgotten at `now`.
    fn on_page(&self, position: &Position, now: Timestamp) -> impl Answer<Option<OnPage>>;
}

/// Keeps messages to audiences, and how far they are.
pub trait Audiences: Send + Sync {
    /// Stores these, each unless it is there already; keys are distinct. Of the runs of one message the one that was opened last is
    /// the one that its id finds.
    fn open(&self, runs: Vec<Run>) -> impl Answers<()>;

    /// Loads these; `None` for one that is not there (any more), or is past what it is kept for. Keys are distinct.
    fn load(&self, keys: Vec<RunKey>, now: Timestamp) -> impl Answers<Option<Run>>;

    /// The subscriptions of a part of an audience that follow `after`, in the order of their ids, `most` of them at most.
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

    /// Records the members of a page, unless members of it are recorded, and what their message says of itself; answers the members that
    /// are recorded.
    fn record_page(
        &self,
        run: &Run,
        page: &PageKey,
        members: &[SubscriptionId],
        given: &Given,
    ) -> impl Answer<Vec<SubscriptionId>>;

    /// Takes a page whose lease, if it has one, is over.
    fn claim_page(&self, page: &PageMessage, lease: &PageLease, now: Timestamp) -> impl Answer<PageClaim>;

    /// Writes what became of a page's places, if the lease of that token still holds it; answers whether it does. The lease ends
    /// at `lease.until` from then on.
    fn write_sheet(&self, page: &PageMessage, lease: &PageLease, sheet: &Sheet) -> impl Answer<bool>;
}
