//! The ports to stored subscriptions: what dispatch asks of them, what cleanup does to them, and what the HTTP API keeps.

use super::{Answer, Answers};
use redial_core::endpoint::{Endpoint, EndpointHash, HashKeys};
use redial_core::identity::{SubscriptionId, SubscriptionKey, Tenant};
use redial_core::reason::Reason;
use redial_core::subscription::suspicion::Probe;
use redial_core::subscription::{Doubts, Permit, Renewal, SameEndpoint, State, Subscription};
use redial_core::time::Timestamp;
use redial_core::webhook::Health;

/// A change to a subscription's health, made only if it still leads to the endpoint that the change is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionUpdate {
    pub key: SubscriptionKey,
    /// The endpoint that was seen.
    pub endpoint: Endpoint,
    pub at: Timestamp,
}

pub trait Subscriptions: Send + Sync {
    /// Loads these subscriptions; `None` for one that is not stored. Keys are distinct.
    fn load(&self, keys: Vec<SubscriptionKey>) -> impl Answers<Option<Subscription>>;

    /// Switches these off, because their endpoints answered 410: to [`State::Gone`], or [`State::Disabled`]. One that is
    /// off already stays as it is. Answers of each whether this call switched it off. Keys are distinct.
    fn switch_off(&self, updates: Vec<(SubscriptionUpdate, State)>) -> impl Answers<bool>;

    /// Lets a probe of each of these suspect subscriptions through, unless another one was let through after the second time. Answers of
    /// each whether it was. Keys are distinct.
    fn probe(&self, probes: Vec<(SubscriptionUpdate, Probe, Timestamp)>) -> impl Answers<bool>;

    /// Forgets these probes, each of which was let through and not sent, so that another one may be. One in whose place another was let
    /// through since stays. Keys are distinct.
    fn forget_probes(&self, probes: Vec<(SubscriptionUpdate, Probe)>) -> impl Answers<()>;

    /// Forgets the flag of a 404, the dead letters and the failures of these: they were sent to. Keys are distinct.
    fn recovered(&self, updates: Vec<SubscriptionUpdate>) -> impl Answers<()>;

    /// Adds the given number of failures to the health of each of these. Keys are distinct.
    fn failed(&self, updates: Vec<(SubscriptionUpdate, u64)>) -> impl Answers<()>;

    /// Gives up the webhook receivers that are active and have failed since the same time as in these healths. Answers of each
    /// whether this call switched it off. Keys are distinct.
    fn give_up(&self, updates: Vec<(SubscriptionUpdate, Health)>) -> impl Answers<bool>;
}

/// A window of endpoints that turned gone, which may hold undecided candidates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpenWindow {
    pub number: i64,
    /// The window in which it got a candidate last: a later one where cleanup is behind.
    pub added_in: i64,
}

/// An endpoint that is gone, watched until its window is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneCandidate {
    pub key: SubscriptionKey,
    /// The hash of the endpoint that is gone.
    pub endpoint_hash: EndpointHash,
    pub at: Timestamp,
    /// Whether its end was already decided; it still counts for others of its window.
    pub decided: bool,
}

pub trait SubscriptionHealth: Send + Sync {
    fn get(&self, key: &SubscriptionKey) -> impl Answer<Option<Subscription>>;

    /// Flags it for health verification.
    fn flag(&self, update: SubscriptionUpdate) -> impl Answer<()>;

    /// Stores what dead letters say against a browser's active subscription, in the place of what they said before. Answers whether it was
    /// the one meant, and nothing had changed meanwhile.
    fn doubt(&self, update: SubscriptionUpdate, before: &Doubts, after: &Doubts) -> impl Answer<bool>;

    /// Counts another subscription of the tenant that becomes suspect on the day of `at`. Answers how many that makes.
    fn count_suspect(&self, tenant: &Tenant, at: Timestamp) -> impl Answer<u64>;

    /// Gives up a webhook's receiver, if its health is still this. Answers whether it was the one meant.
    fn disable(&self, update: SubscriptionUpdate, health: Health) -> impl Answer<bool>;

    fn mark_gone(&self, update: SubscriptionUpdate) -> impl Answer<()>;

    /// Puts it in quarantine: off, and kept. Answers whether it was the one meant.
    fn quarantine(&self, update: SubscriptionUpdate) -> impl Answer<bool>;

    /// Ends what is active to [`State::Expired`] or [`State::Stale`]. Answers whether it was the one meant; one that the walk did not find
    /// like this is another, because its browser may have submitted it since.
    fn end(&self, found: &Subscription, to: State, at: Timestamp) -> impl Answer<bool>;

    /// Removes it and notes that for [`Removals`], if it is gone or ended by time, and still leads to that endpoint. Answers whether it was
    /// removed.
    fn remove(&self, update: SubscriptionUpdate, reason: Reason) -> impl Answer<bool>;

    /// How many subscriptions a tenant has, those that are gone or in quarantine among them.
    fn count(&self, tenant: &Tenant) -> impl Answer<u64>;

    /// Notes a candidate in its window, in the window of `now`; noting it again decides it again.
    fn add_candidate(&self, window: i64, candidate: PruneCandidate, now: i64) -> impl Answer<()>;

    fn candidates(&self, window: i64) -> impl Answer<Vec<PruneCandidate>>;

    /// Notes that a candidate's end is decided.
    fn decide_candidate(&self, window: i64, candidate: &PruneCandidate) -> impl Answer<()>;

    /// The windows that may hold undecided candidates, and got none in window `before` or later, the oldest first.
    fn open_windows(&self, before: i64) -> impl Answer<Vec<OpenWindow>>;

    /// Notes that every candidate of a window is decided, unless it got others meanwhile.
    fn close_window(&self, window: OpenWindow) -> impl Answer<()>;
}

/// A subscription that was removed, until that is announced.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Removed {
    pub key: SubscriptionKey,
    pub at: Timestamp,
    pub reason: Reason,
}

/// Knows which removals are not announced yet: each is noted with the removal, or neither happens. What its user deleted is none of them.
pub trait Removals: Send + Sync {
    /// Some of them.
    fn removed(&self) -> impl Answer<Vec<Removed>>;

    /// Notes that this one is announced.
    fn announced(&self, removed: &Removed) -> impl Answer<()>;
}

/// A subscription as a walk over all of them finds it.
#[derive(Clone, PartialEq, Debug)]
pub struct Walked {
    pub subscription: Subscription,
    /// Whether it is stored that its endpoint is its own: releases before this guarantee stored nothing, and may have stored two
    /// subscriptions of one endpoint.
    pub has_its_endpoint: bool,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct WalkedPage {
    pub found: Vec<Walked>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// How far the walk has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WalkProgress {
    pub began_at: Timestamp,
    /// Where the next page begins; `None` once it is over.
    pub next: Option<String>,
}

/// Whose an endpoint is.
#[derive(Clone, PartialEq, Debug)]
pub enum Endowed {
    /// Its own, and no other subscription's of the tenant.
    Its,
    /// Of two with this endpoint, this one has lost it: it is [`State::Stale`] now.
    Lost(Box<Subscription>),
    /// It is not what the walk has found.
    Changed,
}

/// The walk over all subscriptions that cleanup makes. It sees each that is there for as long as it takes; changes are decided on what is
/// stored at that moment.
pub trait SubscriptionWalk: Send + Sync {
    fn walk_page(&self, from: Option<String>) -> impl Answer<WalkedPage>;

    fn walk_progress(&self) -> impl Answer<Option<WalkProgress>>;

    fn walk_to(&self, progress: &WalkProgress) -> impl Answer<()>;

    /// Records that the endpoint of this subscription is its own, or that of the other one that has it: one of the two keeps it
    /// ([`redial_core::subscription::same_endpoint::keeps_it`]).
    fn endow(&self, found: &Subscription, at: Timestamp) -> impl Answer<Endowed>;
}

/// What a renewal has stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    pub subscription: Subscription,
    /// Whether another subscription was ended for its endpoint.
    pub replaced: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Renewed {
    /// There was none of that key, or only a tombstone; this is stored now.
    New(Box<Kept>),
    /// There was one; this is stored now.
    Renewed(Box<Kept>),
    /// There was none, and no consent came with it: nothing was written.
    NeedsConsent,
    /// A webhook's receiver has that key: nothing was written.
    IsAWebhook,
    /// The token is for an earlier subscription of that key: nothing was written.
    TokenEnded,
    /// The token may not set these tags on what is stored: nothing was written.
    TagsNotPermitted,
    /// Another subscription of the tenant has the endpoint, and keeps it: nothing was written.
    EndpointTaken {
        /// Its id, if its keys are the same as well.
        same: Option<SubscriptionId>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Erased {
    Yes,
    /// There was none, or a tombstone, or a webhook's receiver: nothing was written.
    Nothing,
    /// The token is for an earlier subscription of that key: nothing was written.
    TokenEnded,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    Unknown,
    /// A tombstone: there was one.
    Deleted {
        /// The hash of the endpoint that it led to; `None` where an operator deleted it or another subscription replaced it.
        endpoint_hash: Option<EndpointHash>,
        at: Timestamp,
    },
    /// A subscription, of a browser or of a webhook's receiver.
    Stored(Box<Subscription>),
}

/// What the HTTP API needs. Each call is one decision over what is stored at that moment: of two that meet, the second
/// decides over what the first left. The tenant's count, the rows of its audiences and who has the endpoint change with the subscription,
/// or not at all.
pub trait SubscriptionBook: Send + Sync {
    /// Stores what a browser handed in, as [`Renewal::decide`] says. Of another subscription that it replaces, a tombstone is left.
    fn renew(&self, renewal: Renewal, same_endpoint: SameEndpoint, now: Timestamp) -> impl Answer<Renewed>;

    fn find(&self, key: &SubscriptionKey) -> impl Answer<Found>;

    /// The id under which exactly what is submitted, endpoint and keys, is stored already, if that is another than the renewal's.
    fn same_as(&self, renewal: &Renewal, now: Timestamp) -> impl Answer<Option<SubscriptionId>>;

    /// Erases a browser's subscription: endpoint, keys, tags, consent and the id of its VAPID key. What is left is a tombstone
    /// with the hash of the endpoint under the current one of `hash_keys`, and the time. A webhook's is left alone, and a tombstone
    /// stays as it is. `permit`: of a browser's token, which erases only the subscription that it is for.
    fn erase(
        &self,
        key: &SubscriptionKey,
        permit: Option<&Permit>,
        hash_keys: &HashKeys,
        now: Timestamp,
    ) -> impl Answer<Erased>;
}
