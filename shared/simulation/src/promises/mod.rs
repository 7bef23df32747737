//! What must hold: [`posts`] at each POST, the rest when nothing is under way any more.

mod acks;
mod api;
mod audiences;
mod dead_letters;
mod ends;
mod events;
mod operators;
mod passes;
mod posts;
mod protection;
mod quarantine;
mod storage;

use std::collections::BTreeMap;

use redial_core::identity::DeliveryKey;
use redial_core::metric::Metric;
use redial_core::time::Timestamp;
use redial_memory::State;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::scenario::messages::Sending;
use crate::scenario::storage::Storage;
use crate::situations::Situation;
use crate::sqs::Sqs;
use crate::watch::Memo;

/// How many calls of AWS a message that is received or parked may cost. The most that was seen is ten.
const MOST_CALLS: usize = 16;

/// What a scenario left.
pub(crate) struct Remains<'a> {
    pub(crate) scenario: &'a Scenario,
    /// Whether nothing is under way, and nothing is to come.
    pub(crate) is_quiet: bool,
    pub(crate) state: &'a State,
    pub(crate) sqs: &'a Sqs,
    /// What producers received.
    pub(crate) events: &'a [Value],
    pub(crate) faults_end: Timestamp,
    /// The end of the second time of faults, if there is one.
    pub(crate) last_faults_end: Timestamp,
    pub(crate) accepted: &'a BTreeMap<DeliveryKey, Vec<Sending>>,
    pub(crate) storage: &'a Storage,
    /// When there were no faults any more.
    pub(crate) calm_from: Timestamp,
    /// How many messages are too long to be sent again.
    pub(crate) too_long: usize,
}

/// Adds what does not hold to the violations.
pub(crate) fn judge(remains: &Remains<'_>, memo: &mut Memo) {
    let Remains { is_quiet, state, sqs, .. } = *remains;
    let to = |phase: &str| state.breakers.iter().filter(|(_, to)| *to == phase).count() as u64;
    let counted = |metric| state.counts.get(&metric).copied().unwrap_or_default();
    for (situation, times) in [
        (Situation::BreakerOpened, to("open")),
        (Situation::BreakerClosed, to("closed")),
        (Situation::BreakerHalfOpen, to("half_open")),
        (Situation::BreakerRamps, to("ramping")),
        (Situation::BreakerPaused, to("paused")),
        (Situation::Parked, counted(Metric::Parked)),
        (Situation::Gone, counted(Metric::Gone)),
    ] {
        memo.situations.saw_times(situation, times);
    }
    if !is_quiet {
        memo.violated(format!(
            "it is not over: {} messages, {} parked items, {} buckets",
            sqs.len(),
            state.parked.len(),
            state.registered.len()
        ));
    }
    if !sqs.overdue.is_empty() {
        memo.violated(format!("{} messages were dropped by SQS after 14 days", sqs.overdue.len()));
    }
    let refused = state.described.keys().filter(|key| key.letter == "malformed").count();
    let is_poison = state.described.keys().any(|key| key.letter.starts_with("poison-"));
    if refused != remains.too_long && !is_poison {
        memo.violated(format!("{} messages are no valid ones, and {refused} were refused", remains.too_long));
    }
    // What producers and browsers ask of the HTTP API costs calls too.
    let most = MOST_CALLS * (sqs.received + counted(Metric::Parked) as usize + memo.api.asked);
    if memo.calls > most {
        let calls = memo.calls;
        memo.violated(format!(
            "{calls} calls for {} messages that were received: {most} at most",
            sqs.received
        ));
    }
    ends::judge(remains, memo);
    operators::judge(remains, memo);
    api::judge(remains, memo);
    acks::judge(remains, memo);
    protection::judge_limits(remains.scenario, state.now, memo);
    audiences::judge(remains, memo);
    storage::judge(remains, memo);
}
