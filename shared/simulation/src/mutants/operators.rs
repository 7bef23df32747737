//! What operators do.

use super::mutant::Mutant;

const REPLAY: &str = "shared/core/src/replay.rs";
const ORIGIN: &str = "shared/core/src/protection/origin.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a replay keeps its lineage",
        rule: "a replay is delivered, or has its own end",
        file: REPLAY,
        find: "lineage: travel.turn.lineage.next()",
        replace: "lineage: travel.turn.lineage",
    },
    Mutant {
        name: "a replay begins the TTL again",
        rule: "only an operator who says so restarts a TTL",
        file: REPLAY,
        find: "let first_sent = if may.refresh_ttl { now } else { travel.first_sent };",
        replace: "let first_sent = now;",
    },
    Mutant {
        name: "a replay goes on where its delivery ended",
        rule: "a replay begins with its first attempt",
        file: REPLAY,
        find: "attempt: Attempt::FIRST",
        replace: "attempt: travel.turn.attempt",
    },
    Mutant {
        name: "a breaker that is closed gently lets everything pass",
        rule: "what waits goes at a growing pace where an operator closes a breaker",
        file: ORIGIN,
        find: "            self.only = None;\n            self.ramp(now);\n",
        replace: "            self.only = None;\n",
    },
    Mutant {
        name: "a breaker that is closed by hand stays open",
        rule: "an operator's word counts",
        file: ORIGIN,
        find: "        self.breaker.close();\n        self.pace = Pace::default();\n        self.only = None;\n        self.forget(now);",
        replace: "        self.forget(now);",
    },
];
