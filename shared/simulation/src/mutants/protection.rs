//! What protects origins.

use super::mutant::Mutant;

const ADMISSION: &str = "shared/engine/src/protection/admit/breakers.rs";
const BUCKETS: &str = "shared/engine/src/protection/admit/buckets.rs";
const BREAKER: &str = "shared/core/src/protection/breaker.rs";
const VOTES: &str = "shared/core/src/protection/votes.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an open breaker holds nothing back",
        rule: "while a breaker is open, nothing is sent",
        file: ADMISSION,
        find: "                    None => self.line_up(circuit, mine, soon, far, rng),\n",
        replace: "                    None => {}\n",
    },
    Mutant {
        name: "a half-open breaker holds nothing back",
        rule: "while a breaker is half open, only probes are sent",
        file: ADMISSION,
        find: "                self.hold(mine, soon, None, rng);\n",
        replace: "                let _ = (mine, soon);\n",
    },
    Mutant {
        name: "a paused origin gets everything",
        rule: "an origin that asked all to stay away gets nothing",
        file: BREAKER,
        find: "Phase::Paused { until } => Decision::Later { soon: Span { from: until, width: RAMP } },",
        replace: "Phase::Paused { until: _ } => Decision::Go,",
    },
    Mutant {
        name: "a state is believed for ever",
        rule: "workers read an origin's state again after a second and a half",
        file: "shared/engine/src/protection/guard.rs",
        find: "state_max_age: Duration::from_millis(1_500),",
        replace: "state_max_age: Duration::from_millis(1_500_000),",
    },
    Mutant {
        name: "a stale read is accepted",
        rule: "what a worker wrote or read later counts",
        file: "shared/engine/src/protection/guard.rs",
        find: "if stored.version >= it.version {",
        replace: "if stored.version >= it.version.min(0) {",
    },
    Mutant {
        name: "one success closes a breaker",
        rule: "a majority of the probes has to succeed",
        file: VOTES,
        find: "if succeeded >= MAJORITY && succeeded > failed && (is_alone || self.agree(true, voters)) {",
        replace: "if succeeded >= 1 {",
    },
    Mutant {
        name: "a probe that fails is overlooked",
        rule: "probes that fail open a breaker again",
        file: VOTES,
        find: "ballot.2 == Some(false)).count();",
        replace: "ballot.2 == Some(false)).count() / 1_000;",
    },
    Mutant {
        name: "a breaker never opens",
        rule: "an origin that fails is left alone",
        file: BREAKER,
        find: "let opens = self.passes(now) && fails;",
        replace: "let opens = self.passes(now) && fails && self.openings > 1_000;",
    },
    Mutant {
        name: "a probe without an answer is waited for for long",
        rule: "probes that are not answered are replaced",
        file: BREAKER,
        find: "if sent > self.answered(succeeded) && now.since(since) >= PROBES_ANSWERED_WITHIN =>",
        replace: "if sent > self.answered(succeeded) && now.since(since) >= PROBES_ANSWERED_WITHIN * 20 =>",
    },
    Mutant {
        name: "a last attempt is a probe after minutes",
        rule: "where all traffic is last attempts, they are probes, too",
        file: BREAKER,
        find: "if succeeded > 0 { LAST_RESORT } else { first.max(LAST_RESORT) }",
        replace: "if succeeded > 0 { LAST_RESORT * 20 } else { first.max(LAST_RESORT * 20) }",
    },
    Mutant {
        name: "a cooldown is as long as the outage so far",
        rule: "a cooldown is a twentieth of the time that an origin has been out",
        file: BREAKER,
        find: "const COOLDOWN_PART: u32 = 20;",
        replace: "const COOLDOWN_PART: u32 = 1;",
    },
    Mutant {
        name: "probes are counted by each worker",
        rule: "a half-open breaker lets five probes through",
        file: BREAKER,
        find: "let left = PROBES.saturating_sub(sent);",
        replace: "let left = PROBES + sent * 0;",
    },
    Mutant {
        name: "each worker has a limit of its own",
        rule: "all workers together keep to a limit",
        file: BUCKETS,
        find: "let part = format!(\"{key}#{}\", part % parts);",
        replace: "let part = format!(\"{key}#{}#{}\", part % parts, self.guard.number);",
    },
    Mutant {
        name: "a probe needs no slot",
        rule: "a limit holds for probes, too",
        file: BUCKETS,
        find: "let at = self.take(&buckets.iter().collect::<Vec<_>>()).ok()?;",
        replace: "let at = self.take(&buckets.iter().collect::<Vec<_>>()).unwrap_or(self.now);",
    },
    Mutant {
        name: "a window forgets nothing",
        rule: "what is remembered of an origin stays small",
        file: "shared/core/src/protection/count.rs",
        find: "while self.buckets.front().is_some_and(|(bucket, _)| *bucket < oldest) {",
        replace: "while self.buckets.front().is_some_and(|(bucket, _)| *bucket < oldest.min(0)) {",
    },
];
