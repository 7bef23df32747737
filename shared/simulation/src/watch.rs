//! What must hold at every effect, and what has to be remembered to say so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redial_core::ack::AckEvent;
use redial_core::dead_letter::{DeadLetterKey, Reference};
use redial_core::identity::{DeliveryKey, Lineage, Turn};
use redial_core::ledger::cancel::Cancelled;
use redial_core::ledger::{Entry, State};
use redial_core::time::Timestamp;
use redial_memory::State as Stored;

use crate::audience::Audiences;
use crate::facts::Facts;
use crate::lines::Lines;
use crate::neighbours::Neighbours;
use crate::origins::Origins;
use crate::pass::{Pass, Readings};
use crate::punctual::Punctual;
use crate::scenario::crowd::Lone;
use crate::scenario::hours::Hours;
use crate::situations::{Situation, Situations};

/// A POST that arrived, or may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    pub at: Timestamp,
    pub content: u32,
    pub turn: Turn,
    /// The lease token of its invocation.
    pub token: String,
    /// Whether the receiver took it and did not answer.
    pub is_swallowed: bool,
}

/// What was promised about a delivery when it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Not before this.
    pub from: Timestamp,
    /// Not after this.
    pub until: Timestamp,
    /// When the first of its messages is over.
    pub earliest_end: Timestamp,
    /// How many attempts there may be.
    pub attempts: u32,
    /// Whether there may be another attempt where one may have arrived.
    pub may_repeat_in_doubt: bool,
    /// The hours of the day that it may be posted in.
    pub hours: Option<Hours>,
}

/// What the HTTP API has answered.
#[derive(Debug, Default)]
pub struct Api {
    /// How often producers and browsers have asked.
    pub asked: usize,
    /// What it called new.
    pub new: BTreeSet<DeliveryKey>,
    /// The contents that it took and that it refused as another's, and whether each went to an address.
    pub taken: BTreeMap<DeliveryKey, BTreeSet<(u32, bool)>>,
    pub refused: BTreeMap<DeliveryKey, BTreeSet<(u32, bool)>>,
    /// The same of what it answered with an error, or not at all, and what may be on its way nevertheless.
    pub unanswered: BTreeMap<DeliveryKey, BTreeSet<(u32, bool)>>,
}

#[derive(Debug, Default)]
pub struct Acks {
    /// Tokens that browsers have just received.
    pub tokens: Vec<String>,
    /// What was answered, and what was answered as the first of its kind.
    pub answered: BTreeSet<(DeliveryKey, AckEvent)>,
    /// When tokens end.
    pub ends: BTreeMap<DeliveryKey, Timestamp>,
    pub first: BTreeSet<(DeliveryKey, AckEvent)>,
}

impl Api {
    /// Forgets a delivery whose id is used again.
    pub fn forget(&mut self, key: &DeliveryKey) {
        self.new.remove(key);
        self.taken.remove(key);
        self.refused.remove(key);
    }
}

/// What operators did with dead letters.
#[derive(Debug, Default)]
pub struct Operators {
    /// The highest lineage that was sent.
    pub replayed: BTreeMap<DeliveryKey, u32>,
    /// The latest time at which a message may be sent again whose TTL began again with a replay.
    pub refreshed: BTreeMap<DeliveryKey, Timestamp>,
    pub sent_again: BTreeSet<DeadLetterKey>,
    pub purged: BTreeMap<DeadLetterKey, Reference>,
}

impl Operators {
    /// All dead letters that a delivery has or had.
    pub fn letters<'a>(
        &'a self,
        state: &'a Stored,
        key: &DeliveryKey,
    ) -> impl Iterator<Item = (&'a DeadLetterKey, &'a Reference)> {
        let is_its = |of: &DeadLetterKey| of.tenant == key.tenant.as_str() && of.id == key.id.as_str();
        let purged = self.purged.iter().filter(|(key, _)| !state.described.contains_key(key));
        state.described.iter().chain(purged).filter(move |(of, _)| is_its(of))
    }
}

#[derive(Debug, Default)]
pub struct Memo {
    pub promises: BTreeMap<DeliveryKey, Promise>,
    pub posts: BTreeMap<DeliveryKey, Vec<Post>>,
    /// The end of the wait that a receiver or a plan asked of a lineage.
    pub waits: BTreeMap<(DeliveryKey, Lineage), Timestamp>,
    /// Claims whose outcome was never recorded by the invocation that made them: it died, or its record failed.
    pub unrecorded: BTreeSet<(DeliveryKey, String)>,
    /// What was granted to an invocation.
    pub granted: BTreeMap<(DeliveryKey, String), Turn>,
    pub origins: Origins,
    pub api: Api,
    pub acks: Acks,
    pub operators: Operators,
    /// Deliveries of which a note that they are held back could not be written.
    pub unnoted: BTreeSet<DeliveryKey>,
    /// What was answered to those who cancelled deliveries.
    pub cancelled: BTreeMap<DeliveryKey, Cancelled>,
    /// Invocations of dispatch under way, by their tokens.
    pub passes: BTreeMap<String, Pass>,
    pub readings: Readings,
    /// Ends that the ledger has had.
    pub ended: BTreeSet<(DeliveryKey, State)>,
    /// Deliveries of which a claim or a record may have been lost, or whose worker died.
    pub shaken: BTreeSet<DeliveryKey>,
    /// Clocks are further off than the margin of a lease.
    pub has_far_clocks: bool,
    /// Deliveries of which a lease was ended while its worker was alive, by one whose clock is ahead by more than that margin.
    pub ended_early: BTreeSet<DeliveryKey>,
    /// Deliveries whose entries an erasure may have removed while their messages were under way.
    pub erased: BTreeSet<DeliveryKey>,
    /// What each invocation's clock was ahead of the true time, in milliseconds, by its token.
    pub clocks: BTreeMap<String, i64>,
    /// Ends that only a message in the quarantine knew.
    pub carried_ends: BTreeSet<(DeliveryKey, State)>,
    /// Letters that a worker was right to keep.
    pub needed: BTreeSet<String>,
    /// Letters that would be kept for deliveries that have gone on; with the lease token of the attempt whose outcome the message carries,
    /// if only that says so.
    pub needless: BTreeMap<String, Option<String>>,
    /// Dead letters that a reference was sent for.
    pub referred: BTreeSet<DeadLetterKey>,
    /// The time up to which bodies of dead letters have to be there.
    pub bodies: BTreeMap<DeadLetterKey, Timestamp>,
    /// Calls of AWS that workers began, without those that sweeps begin with.
    pub calls: usize,
    /// Sweeps that failed or died: the next one looks again at what they looked at.
    pub unfinished_sweeps: usize,
    pub audiences: Audiences,
    /// Entries that had expired when DynamoDB deleted them.
    pub forgotten: BTreeMap<DeliveryKey, Entry>,
    pub violations: Vec<String>,
    pub situations: Situations,
    pub facts: Facts,
    pub punctual: Punctual,
    pub neighbours: Neighbours,
    pub releases: Releases,
    pub lines: Lines,
    pub callbacks: Callbacks,
    /// When the attempts end that are under way, where a tenant may have a few.
    pub under_way: Vec<Timestamp>,
    /// The recipient that alone fails, where nothing else does.
    pub lone: Option<Lone>,
}

/// What arrived at tenants' callbacks.
#[derive(Debug, Default)]
pub struct Callbacks {
    /// The tenant and the event of each POST that was answered with a success.
    pub accepted: BTreeSet<(String, String)>,
}

/// How many releases were put on queues, where they are counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Releases {
    pub of_buckets: usize,
    pub of_shards: usize,
}

/// Shared by all workers of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Memo>>);

impl Watch {
    pub fn memo(&self) -> MutexGuard<'_, Memo> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn saw(&self, situation: Situation) {
        self.memo().situations.saw(situation);
    }

    /// An invocation ended without having answered.
    pub fn died(&self, token: &str) {
        let mut memo = self.memo();
        let own: Vec<_> = memo.granted.keys().filter(|(_, of)| of == token).cloned().collect();
        memo.shaken.extend(own.iter().map(|(key, _)| key.clone()));
        memo.unrecorded.extend(own);
        memo.passes.remove(token);
    }

    /// Whether that invocation posted that delivery.
    pub fn has_posted(&self, token: &str) -> bool {
        self.memo().posts.values().flatten().any(|post| post.token == token)
    }

    pub fn has_claimed(&self, token: &str) -> bool {
        self.memo().granted.keys().any(|(_, of)| of == token)
    }
}

impl Memo {
    pub fn violated(&mut self, what: String) {
        self.violations.push(what);
    }
}
