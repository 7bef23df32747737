//! Deliveries that are asked for by their states.

use super::mutant::Mutant;

const LISTING: &str = "shared/core/src/ledger/listing.rs";
const ONCE: &str = "who asks for a state finds each delivery once that is in it";
const NOW: &str = "a delivery is listed as it is, and not as it was";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "what has gone on is listed as it was",
        rule: NOW,
        file: LISTING,
        find: "self.states().contains(&entry.state) && (self != Self::Parked || is_parked(entry))",
        replace: "self != Self::Parked || is_parked(entry)",
    },
    Mutant {
        name: "a listing reads too few partitions",
        rule: ONCE,
        file: LISTING,
        find: "(0..SHARDS).map(move |shard| partition(",
        replace: "(1..SHARDS).map(move |shard| partition(",
    },
    Mutant {
        name: "a short wait is listed as parked",
        rule: NOW,
        file: LISTING,
        find: "secs > u64::from(SQS_MAX_DELAY_SECONDS)",
        replace: "secs > u64::from(SQS_MAX_DELAY_SECONDS) / 2",
    },
    Mutant {
        name: "what was never attempted is not listed as parked",
        rule: ONCE,
        file: LISTING,
        find: "let wait = entry.not_before.map(",
        replace: "let wait = entry.not_before.filter(|_| entry.dispatched_at.is_some()).map(",
    },
    Mutant {
        name: "a place in the index loses its delivery's id",
        rule: ONCE,
        file: LISTING,
        find: "format!(\"{}#{}\", self.at.to_rfc3339(), self.id)",
        replace: "format!(\"{}#{}\", self.at.to_rfc3339(), &self.id.as_str()[..1])",
    },
];
