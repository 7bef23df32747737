//! What must hold at every effect, and what has to be remembered to say so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redial_core::identity::{DeliveryKey, Turn};
use redial_core::ledger::{Entry, Fence, Record};
use redial_core::time::Timestamp;
use redial_engine::ports::{Claim, ClaimAnswer, Ledger, PortError};
use redial_memory::Memory;

use crate::audience::Audiences;
use crate::facts::Facts;
use crate::situations::{Situation, Situations};
use crate::trace::Trace;

/// A POST that arrived, or may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    pub at: Timestamp,
    pub content: u32,
    pub turn: Turn,
    /// The lease token of its invocation.
    pub token: String,
}

/// What was promised about a delivery when it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Not before this.
    pub from: Timestamp,
    /// Not after this.
    pub until: Timestamp,
    /// How many attempts there may be.
    pub attempts: u32,
}

#[derive(Debug, Default)]
pub struct Memo {
    pub promises: BTreeMap<DeliveryKey, Promise>,
    pub posts: BTreeMap<DeliveryKey, Vec<Post>>,
    /// Until when a receiver or a plan asked to wait.
    pub waits: BTreeMap<DeliveryKey, Timestamp>,
    /// Claims whose outcome was never recorded by the invocation that made them: it died, or its record failed.
    pub unrecorded: BTreeSet<(DeliveryKey, String)>,
    /// What was granted to an invocation.
    granted: BTreeMap<(DeliveryKey, String), Turn>,
    /// Calls of AWS that workers began, without those that sweeps begin with.
    pub calls: usize,
    pub audiences: Audiences,
    /// Entries that had expired when DynamoDB deleted them.
    pub forgotten: BTreeMap<DeliveryKey, Entry>,
    pub violations: Vec<String>,
    pub situations: Situations,
    pub facts: Facts,
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
        memo.unrecorded.extend(own);
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

/// The ledger in memory, under watch.
#[derive(Clone, Debug)]
pub struct WatchedLedger {
    pub memory: Memory,
    pub watch: Watch,
    pub trace: Trace,
    pub worker: String,
}

impl Ledger for WatchedLedger {
    async fn claim(&self, claims: Vec<Claim>, now: Timestamp) -> Vec<Result<ClaimAnswer, PortError>> {
        let asks: Vec<_> = claims.iter().map(|claim| claim.ask.clone()).collect();
        {
            // A worker that dies before it hears of its claim may still hold it.
            let mut memo = self.watch.memo();
            for ask in &asks {
                memo.granted.insert((ask.key.clone(), ask.lease_token.clone()), ask.turn);
            }
        }
        let answers = self.memory.claim(claims, now).await;
        for (ask, answer) in asks.iter().zip(&answers) {
            let at = self.memory.state().now;
            let (turn, token) = (ask.turn.attempt.0, &ask.lease_token);
            self.trace.add(at, &self.worker, format_args!("claim {} #{turn} {token}: {answer:?}", ask.key));
            let situation = match answer {
                Ok(ClaimAnswer::Granted { in_doubt: true, .. }) => Situation::CopyTakesOver,
                Ok(ClaimAnswer::HandOffAgain(_)) => Situation::HandOffAgain,
                Ok(ClaimAnswer::Leased { .. }) => Situation::CopyDuringLease,
                Ok(ClaimAnswer::Done) => Situation::CopyAfterEnd,
                Ok(ClaimAnswer::Conflict) => Situation::Conflict,
                Ok(ClaimAnswer::Granted { .. }) | Err(_) => continue,
            };
            self.watch.saw(situation);
        }
        answers
    }

    async fn record(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let asked = records.clone();
        let answers = self.memory.record(records).await;
        self.recorded(&asked, &answers);
        answers
    }

    async fn record_carried(&self, records: Vec<Record>) -> Vec<Result<Fence, PortError>> {
        let asked = records.clone();
        let answers = self.memory.record_carried(records).await;
        self.recorded(&asked, &answers);
        answers
    }
}

impl WatchedLedger {
    fn recorded(&self, records: &[Record], answers: &[Result<Fence, PortError>]) {
        let now = self.memory.state().now;
        let mut memo = self.watch.memo();
        for (record, answer) in records.iter().zip(answers) {
            let Record { key, state, lease_token: token, .. } = record;
            self.trace.add(
                now,
                &self.worker,
                format_args!("record {key} {} {token}: {answer:?}", state.label()),
            );
            match answer {
                Ok(Fence::Held) => {
                    if let Some(until) = record.not_before {
                        memo.waits.insert(key.clone(), until);
                    }
                }
                Ok(Fence::Lost) => memo.situations.saw(Situation::FenceLost),
                Err(_) => {
                    memo.unrecorded.insert((key.clone(), token.clone()));
                    memo.situations.saw(Situation::RecordFailed);
                }
            }
        }
    }
}
