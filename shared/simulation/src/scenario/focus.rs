//! The situations of scenarios that are about one alone, much smaller than others, in which the timings that it needs are likely.
//!
//! What else a scenario has hides some mistakes: others repair them, or a promise has to exempt too much. These have nothing else.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// The share of scenarios that are about one situation.
const SHARE: f64 = 0.2;

/// The situation that a scenario is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Focus {
    /// Workers die over messages at their last receive, before, while and after they record.
    LastReceive,
    /// The same over messages to a tag.
    LastReceiveOfATag,
    /// Two workers walk a part of a tag, whose members come and go between their reads.
    Crossing,
    /// A part of a tag is walked at a rate, while some of its messages cannot be sent.
    Walking,
    /// Most places of a page leave it, because a limit makes them wait, and its worker dies meanwhile.
    Leaving,
    /// An origin is out that has few tenants and recipients, of which one has most of the messages.
    Voters,
    /// One recipient alone fails, and messages come in bursts: a worker has its own and others' at once.
    Bursts,
    /// Workers die, and nothing else fails but a service, whose messages come in bursts: probes are not answered.
    DyingProbes,
    /// Buckets of many shards are released while some messages cannot be sent.
    Shards,
    /// Nothing fails, and a deployment sets fewer shards than buckets were filled in.
    FewerShards,
    /// An origin's breaker is half open while nothing can be claimed, and acknowledgements get lost.
    HalfOpen,
    /// What waits in a line has no other messages behind it, and its origin is well for moments.
    Waiting,
    /// A few messages whose receivers ask for retries at once.
    AtOnce,
    /// Browsers subscribe again soon after their endpoints have turned gone.
    Returning,
    /// A tenant's 429s lower a pace, while others use more than that.
    Paced,
    /// Webhooks' receivers that fail for days.
    Dead,
    /// One browser's push service refuses it alone, and for some hours all are refused.
    Refused,
    /// A person is erased while its messages are in every state.
    Erased,
    /// Several workers have messages of a tenant that may have a few attempts under way.
    Seats,
    /// Messages with hours that are short, at receivers that fail.
    Hours,
}

impl Focus {
    /// Some are drawn more often: what they need is rarer in them.
    const ALL: [Self; 29] = [
        Self::LastReceive,
        Self::LastReceiveOfATag,
        Self::Crossing,
        Self::Crossing,
        Self::Crossing,
        Self::Crossing,
        Self::Crossing,
        Self::Walking,
        Self::Leaving,
        Self::Leaving,
        Self::Voters,
        Self::Voters,
        Self::Voters,
        Self::Bursts,
        Self::DyingProbes,
        Self::Shards,
        Self::FewerShards,
        Self::HalfOpen,
        Self::Waiting,
        Self::AtOnce,
        Self::Returning,
        Self::Paced,
        Self::Dead,
        Self::Refused,
        Self::Refused,
        Self::Seats,
        Self::Erased,
        Self::Hours,
        Self::Hours,
    ];

    pub(super) fn draw(rng: &mut StdRng) -> Option<Self> {
        rng.random_bool(SHARE).then(|| Self::ALL.choose(rng).copied()).flatten()
    }
}
