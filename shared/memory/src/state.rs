//! What the ports hold, and what tests make them do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::task::Waker;
use std::time::Duration;

use redial_core::access::{ApiKeyId, StoredKey};
use redial_core::ack::AckEvent;
use redial_core::audience::{Bounds, Expansion, Progress, Run, RunKey};
use redial_core::dead_letter::{DeadLetterBody, DeadLetterKey, Reference};
use redial_core::endpoint::{EndpointHash, Origin};
use redial_core::erasure::{Erasure, ErasureId, Subject};
use redial_core::identity::{DeliveryId, DeliveryKey, SubscriptionId, SubscriptionKey, Tenant};
use redial_core::lane::Lane;
use redial_core::ledger::{Given, HeldBy, PastAttempt};
use redial_core::line::Line;
use redial_core::metric::Metric;
use redial_core::outcome::{NotSent, Outcome};
use redial_core::page::PageKey;
use redial_core::policy::TenantPolicies;
use redial_core::policy::stored::Stored;
use redial_core::protection::{Circuit, Counted};
use redial_core::queue::Outgoing;
use redial_core::quota::{Exceeded, Limit, Quota};
use redial_core::rate::Rate;
use redial_core::reason::Reason;
use redial_core::relay::BusEvent;
use redial_core::share::Share;
use redial_core::subscription::Subscription;
use redial_core::time::Timestamp;
use redial_core::traceparent::{SpanId, Traceparent};
use redial_core::wait::WaitBucket;
use redial_engine::ports::{
    Added, Limited, ParkedItem, ParkedKey, Partition, PortError, PruneCandidate, PublicKey, Receipt,
    RegisteredBucket, RegisteredLine, Removed, StoredOrigin, WalkProgress,
};

use super::by_state::ByState;
use super::entries::Entries;
use super::pages::StoredPage;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Before the effect of that number (from 1) is made.
    Before(usize),
    /// After it was made, before it is answered.
    After(usize),
    /// After the next effect of this name was made, before it is answered.
    AfterNext(&'static str),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentPush {
    pub endpoint: String,
    pub payload: Vec<u8>,
    pub ttl_secs: u32,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentWebhook {
    pub url: String,
    pub tenant: Tenant,
    pub id: String,
    /// `webhook-timestamp`, in epoch seconds.
    pub timestamp: i64,
    pub body: Vec<u8>,
    /// `content-type`, where there is a body: a custom one, or the payload's own.
    pub content_type: Option<String>,
    /// The custom headers, the message's over its receiver's.
    pub headers: Vec<(String, String)>,
    /// What it is signed with, `whsec_…`; empty for the tenant's own secrets.
    pub secrets: Vec<String>,
    pub traceparent: Option<Traceparent>,
    /// How long it was waited for an answer at most.
    pub within: Duration,
    pub at: Timestamp,
}

/// The span of an attempt that would be exported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanOfAttempt {
    pub id: SpanId,
    pub parent: Traceparent,
    pub delivery: DeliveryId,
    pub attempt: u32,
    pub verdict: &'static str,
    pub began: Timestamp,
    pub ended: Timestamp,
}

/// What the ports hold, and what tests make them do.
/// An attempt that a batch may list was taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Takeover {
    pub key: DeliveryKey,
    /// The token of the batch that may list it.
    pub lease_token: String,
    /// Whether nothing could be added to that batch any more.
    pub is_closed: bool,
}

#[derive(Debug, Default)]
pub struct State {
    pub now: Timestamp,
    pub effects: usize,
    /// Names of the effects so far.
    pub trace: Vec<&'static str>,
    pub death: Option<Death>,
    /// The effect before which the worker is held up, until [`resume`](crate::Memory::resume).
    pub held_up_at: Option<usize>,
    /// Calls of this name are made twice, and the second one is answered.
    pub made_twice: Option<&'static str>,
    /// Calls of this name are not answered.
    pub unanswered: Option<&'static str>,
    /// What wakes it then.
    pub(crate) held_up: Vec<Waker>,
    pub outage: Option<Outage>,
    /// How long each call of that name takes.
    pub slow: HashMap<&'static str, Duration>,
    /// Calls that are to fail: by name, how often.
    pub failing: HashMap<&'static str, (usize, PortErrorKind)>,
    pub ledger: Entries,
    /// The index of deliveries by their states as it was last read.
    pub by_state: Option<ByState>,
    /// By how much it may be behind, where no schedule says so.
    pub index_lag: Duration,
    pub takeovers: Vec<Takeover>,
    /// Attempts that were recorded, in order.
    pub attempts: HashMap<DeliveryKey, Vec<PastAttempt>>,
    /// What browsers acknowledged first, and when.
    pub acknowledged: BTreeMap<(DeliveryKey, AckEvent), Timestamp>,
    /// The same of recipients of pages, and when it expires.
    pub acks_apart: BTreeMap<DeliveryKey, (Timestamp, BTreeMap<AckEvent, Timestamp>)>,
    /// Recipients of pages whose person was erased.
    pub erased_recipients: BTreeSet<DeliveryKey>,
    pub public_keys: Vec<PublicKey>,
    pub origins: BTreeMap<Origin, StoredOrigin>,
    /// What origins' states were before, each with when it was replaced: for eventually consistent reads.
    pub former_origins: BTreeMap<Origin, Vec<(Timestamp, StoredOrigin)>>,
    /// The states of recipients that were in trouble.
    pub recipients: BTreeMap<Circuit, StoredOrigin>,
    pub counters: BTreeMap<(Circuit, u16), Counted>,
    pub limits: BTreeMap<Limited, Rate>,
    pub shares: BTreeMap<Tenant, Share>,
    /// Tenants' own quotas.
    pub quotas: BTreeMap<(Tenant, Quota), Limit>,
    /// What tenants' quotas count, but for subscriptions.
    pub used: BTreeMap<Added, u64>,
    /// Lines of successes of pages that were logged: the deliveries of each.
    pub sent_by_page: Vec<Vec<DeliveryId>>,
    /// What was logged as held back: before which attempt, by what, and when the wait ends.
    pub held_back: Vec<(DeliveryId, u32, HeldBy, Timestamp)>,
    /// Whether spans are exported, and those that were.
    pub exports_spans: bool,
    pub spans: Vec<SpanOfAttempt>,
    /// Exceeded quotas that were logged.
    pub exceeded: Vec<(Tenant, Exceeded)>,
    /// From when slots of buckets are free.
    pub slots: BTreeMap<String, Timestamp>,
    /// Breakers' transitions that were logged: from, to.
    pub breakers: Vec<(&'static str, &'static str)>,
    /// Subscriptions that were logged as put in quarantine, with their endpoints' hashes.
    pub quarantined: Vec<(SubscriptionKey, String)>,
    /// Parts of audiences that were logged as not walked to their end, with how many recipients each had reached.
    pub audiences_expired: Vec<(Expansion, u64)>,
    /// Of messages by lane.
    pub measured: Vec<(Metric, Option<Lane>, f64)>,
    pub policies: BTreeMap<Tenant, Vec<Stored>>,
    /// Tenants' policies as they were last read.
    pub followed: BTreeMap<Tenant, TenantPolicies>,
    pub access_keys: BTreeMap<ApiKeyId, StoredKey>,
    pub subscriptions: BTreeMap<SubscriptionKey, Subscription>,
    /// How many of a tenant's became suspect on a day.
    pub suspects: BTreeMap<(Tenant, i64), u64>,
    pub erased: BTreeSet<Subject>,
    /// The erasures that tenants have requested: those that are pending, and those that are done.
    pub erasures: BTreeMap<(Tenant, ErasureId), Erasure>,
    pub erasures_done: BTreeMap<(Tenant, ErasureId), Erasure>,
    /// What is left of erased and of replaced ones: the hash of the endpoint, and when.
    pub tombstones: BTreeMap<SubscriptionKey, (Option<EndpointHash>, Timestamp)>,
    /// Removals that are not announced yet.
    pub removed: BTreeSet<Removed>,
    /// Who had an endpoint that no subscription has now, and when that is forgotten.
    pub former_holders: BTreeMap<(Tenant, String), (SubscriptionId, Timestamp)>,
    /// Subscriptions that a release stored which did not record whose their endpoints are.
    pub unclaimed: BTreeSet<SubscriptionKey>,
    /// How far the walk over subscriptions has come.
    pub walk: Option<WalkProgress>,
    pub runs: BTreeMap<RunKey, Run>,
    /// A part that another worker moves there just before it is moved.
    pub crossing: Option<((RunKey, u8), Progress)>,
    pub progress: BTreeMap<(RunKey, u8), Progress>,
    /// How often runs were opened and parts moved.
    pub moves: usize,
    /// After whom the last page of a part that was recorded begins, and how far it goes.
    pub bounds: BTreeMap<(RunKey, u8), (Option<SubscriptionId>, Bounds)>,
    /// The members of pages, and when they expire.
    pub page_members: BTreeMap<PageKey, (Vec<SubscriptionId>, Timestamp, Given)>,
    pub pages: BTreeMap<PageKey, StoredPage>,
    /// Which page a recipient's delivery is on, and at which place.
    pub on_pages: BTreeMap<DeliveryKey, (PageKey, usize)>,
    /// When the rows of that expire.
    pub part_expiries: BTreeMap<(RunKey, u8), Timestamp>,
    /// Whether producers listen to events.
    pub has_events: bool,
    /// What was put on the bus of events.
    pub bus: Vec<BusEvent>,
    /// The subscriptions that tenants' events are posted to.
    pub callbacks: BTreeMap<Tenant, SubscriptionId>,
    pub outbox: Vec<Outgoing>,
    /// Messages that come back, and after how many seconds.
    pub come_back: Vec<(Receipt, u32)>,
    pub parked: BTreeMap<ParkedKey, ParkedItem>,
    /// Parts of long bodies that were put without their first part, and when: by their partition, and the number of their put.
    pub unfinished: BTreeMap<(Partition, usize), Timestamp>,
    /// How many long bodies were put.
    pub(crate) long_puts: usize,
    pub lines: BTreeMap<Line, RegisteredLine>,
    pub registered: BTreeMap<WaitBucket, RegisteredBucket>,
    pub executions: BTreeSet<WaitBucket>,
    pub bodies: BTreeMap<DeadLetterKey, DeadLetterBody>,
    /// The items of those that are longer than one.
    pub body_parts: BTreeMap<DeadLetterKey, BTreeMap<usize, String>>,
    /// When bodies were written, and when each expires, from then on; none: it was deleted. An index shows that later.
    pub(crate) body_writes: BTreeMap<DeadLetterKey, Vec<(Timestamp, Option<Timestamp>)>>,
    pub described: BTreeMap<DeadLetterKey, Reference>,
    /// What the senders answer, by endpoint, the first first; then [`State::usual_answer`].
    pub answers: HashMap<String, Vec<Outcome>>,
    /// How long receivers whose URLs begin so take to answer.
    pub slow_receivers: BTreeMap<String, Duration>,
    /// What the senders answer else; if unset, a push 201 and a webhook 200.
    pub usual_answer: Option<Outcome>,
    /// Endpoints whose send panics, once each.
    pub panicking: HashSet<String>,
    /// Endpoints whose every send panics.
    pub always_panicking: HashSet<String>,
    /// Whether pushes are signed with a key that is not known until the keys were loaded again.
    pub key_is_unknown: bool,
    pub sent: Vec<SentPush>,
    pub webhooks: Vec<SentWebhook>,
    pub key_reloads: usize,
    pub counts: BTreeMap<Metric, u64>,
    pub dead_letters: BTreeMap<Reason, u64>,
    /// What failed in the attempts that sent nothing, in their order.
    pub not_sent: Vec<NotSent>,
    pub candidates: BTreeMap<i64, BTreeMap<SubscriptionKey, PruneCandidate>>,
    /// The windows in which they got a candidate last.
    pub open_windows: BTreeMap<i64, i64>,
}

/// Which calls: whether a call of that name is one of them.
pub type Calls = fn(&str) -> bool;

/// Calls that fail for a while.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// `events` is what is sent to the queue of events alone.
    pub calls: Calls,
    /// It begins with the effect of this number (from 1).
    pub from_effect: usize,
    /// It is over then.
    pub until: Timestamp,
}

impl State {
    /// Whether calls of that name fail now.
    pub fn is_out(&self, name: &str) -> bool {
        self.outage
            .is_some_and(|it| (it.calls)(name) && self.effects >= it.from_effect && self.now < it.until)
    }

    /// How a call of that name is to fail now, and whether what it asks for is done nevertheless.
    pub(crate) fn failure(&mut self, name: &'static str) -> Option<(PortError, bool)> {
        if self.is_out(name) {
            return Some((PortErrorKind::Broken.error(name), false));
        }
        let (times, kind) = self.failing.get_mut(name).filter(|(times, _)| *times > 0)?;
        *times -= 1;
        Some((kind.error(name), *kind == PortErrorKind::Lost))
    }
}

/// How a failing call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortErrorKind {
    /// The service asks for fewer calls.
    Throttled,
    Broken,
    /// What it asks for is done, and the answer is lost.
    Lost,
}

impl PortErrorKind {
    pub(crate) fn error(self, name: &'static str) -> PortError {
        let code = if self == Self::Lost { "TimedOut" } else { "Planned" };
        PortError { operation: name, code: code.to_owned(), throttled: self == Self::Throttled }
    }
}
