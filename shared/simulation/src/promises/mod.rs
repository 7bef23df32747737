//! What must hold: [`posts`] at each POST, the rest when nothing is under way any more.

mod acks;
mod api;
mod audiences;
mod callbacks;
mod cancellations;
mod confirmations;
mod crowd;
mod dead_letters;
mod ends;
mod events;
mod hostile;
mod hours;
mod lateness;
mod lines;
mod listings;
mod operators;
mod passes;
mod persons;
mod posts;
mod protection;
mod quarantine;
mod relay;
mod remains;
mod seats;
mod storage;
mod suspects;
mod tags;
mod traces;

use redial_core::metric::Metric;

use crate::situations::Situation;
use crate::watch::{Memo, Releases};

pub(crate) use listings::Listings;
pub(crate) use remains::Remains;
pub(crate) use tags::tags_of;
pub(crate) use traces::traceparent_of;

/// How many calls of AWS a message that is received or parked may cost. The most that was seen is ten.
const MOST_CALLS: usize = 16;

/// How many releases of shards the release of a bucket of 16 may make where one call in eight fails: a sixth of them is repeated.
const RELEASES_OF_SHARDS: usize = 72;

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
            "it is not over: {} messages, {} parked items, {} buckets, {} lines",
            sqs.len(),
            state.parked.len(),
            state.registered.len(),
            state.lines.len()
        ));
    }
    if !state.unfinished.is_empty() {
        memo.violated(format!(
            "parts of {} long bodies lie where nothing reads them",
            state.unfinished.len()
        ));
    }
    if !sqs.overdue.is_empty() {
        memo.violated(format!("{} messages were dropped by SQS after 14 days", sqs.overdue.len()));
    }
    let purged = memo.operators.purged.keys().filter(|key| !state.described.contains_key(key));
    let letters: Vec<_> = state.described.keys().chain(purged).collect();
    let refused = letters.iter().filter(|key| key.letter == "malformed").count();
    let is_poison = letters.iter().any(|key| key.letter.starts_with("poison-"));
    if refused != remains.too_long && !is_poison {
        memo.violated(format!("{} messages are no valid ones, and {refused} were refused", remains.too_long));
    }
    // What producers and browsers ask of the HTTP API costs calls too, and so do the sweeps that look at an endpoint that is gone, again
    // after each one that failed.
    let besides = (counted(Metric::Parked) + counted(Metric::Gone)) as usize + memo.unfinished_sweeps;
    let most = MOST_CALLS * (sqs.received + besides + memo.api.asked) + memo.lines.calls;
    if memo.calls > most {
        let calls = memo.calls;
        memo.violated(format!(
            "{calls} calls for {} messages that were received: {most} at most",
            sqs.received
        ));
    }
    // The work of a release follows from what waits: a call that fails for one shard repeats that shard.
    let Releases { of_buckets, of_shards } = memo.releases;
    if of_shards > RELEASES_OF_SHARDS * of_buckets {
        memo.violated(format!("{of_buckets} releases of buckets made {of_shards} of shards"));
    }
    ends::judge(remains, memo);
    relay::judge(remains, memo);
    callbacks::judge(remains, memo);
    operators::judge(remains, memo);
    cancellations::judge(remains, memo);
    api::judge(remains, memo);
    acks::judge(remains, memo);
    protection::judge_limits(remains.scenario, state.now, memo);
    audiences::judge(remains, memo);
    storage::judge(remains, memo);
    suspects::judge(remains, memo);
    hostile::judge(remains, memo);
    persons::judge(remains, memo);
    tags::judge(remains, memo);
    traces::judge(remains, memo);
}
