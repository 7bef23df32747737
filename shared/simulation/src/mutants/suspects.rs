//! Which dead letters make a subscription suspect, and what verifies it.

use super::mutant::Mutant;

const SUSPICION: &str = "shared/core/src/subscription/suspicion.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "each dead letter of a burst counts",
        rule: "dead letters that count are an hour apart",
        file: SUSPICION,
        find: "at.since(last) < apart",
        replace: "at.since(last) < apart / 3_600",
    },
    Mutant {
        name: "one dead letter is enough",
        rule: "three dead letters make a subscription suspect",
        file: SUSPICION,
        find: "(count >= DEAD_LETTERS)",
        replace: "(count >= DEAD_LETTERS - 2)",
    },
    Mutant {
        name: "no number of dead letters is enough",
        rule: "three dead letters make a subscription suspect",
        file: SUSPICION,
        find: "(count >= DEAD_LETTERS)",
        replace: "(count >= DEAD_LETTERS * 100)",
    },
    Mutant {
        name: "a success leaves the dead letters that count",
        rule: "a success verifies a subscription, and dead letters before it do not count",
        file: "shared/engine/src/deliver/job.rs",
        find: " || subscription.doubts.is_any();",
        replace: ";",
    },
    Mutant {
        name: "a second probe is never due",
        rule: "a held subscription gets one message every six hours",
        file: SUSPICION,
        find: "now.since(probe.at) >= every",
        replace: "now.since(probe.at) >= every * 100",
    },
    Mutant {
        name: "a probe that comes back is held",
        rule: "a probe is let through until it has ended",
        file: SUSPICION,
        find: "probe.delivery == *delivery",
        replace: "probe.delivery == *delivery && probe.at == Timestamp::default()",
    },
    Mutant {
        name: "what is held is sent",
        rule: "a message to a held subscription is its probe, or a dead letter",
        file: "shared/engine/src/deliver/suspects.rs",
        find: "if self.settings.suspects == Suspects::Send {",
        replace: "if !jobs.is_empty() {",
    },
    Mutant {
        name: "what all are refused counts against each",
        rule: "a failure that others share makes no one suspect",
        file: "shared/engine/src/deliver/suspects.rs",
        find: "is_probe || job.peer().is_some_and(|peer| self.guard.fail_alike(peer, now))",
        replace: "is_probe",
    },
    Mutant {
        name: "two of many that fail share their failure",
        rule: "who fails while others are accepted becomes suspect",
        file: "shared/core/src/protection/peers.rs",
        find: "failed >= SHARED_BY && failed > accepted",
        replace: "failed + accepted >= SHARED_BY",
    },
];
