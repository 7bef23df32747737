//! When a delivery is over, and what is kept of it.

use super::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a reference goes without its body",
        rule: "a dead letter's body is stored before its reference is sent",
        file: "shared/engine/src/deliver/dead_letters.rs",
        find: "Err(error) => acknowledgements.failed(dead_letter.place, error, &self.telemetry),",
        replace: "Err(_) => waiting.push(dead_letter),",
    },
    Mutant {
        name: "a message that is over is sent",
        rule: "nothing is sent after its TTL",
        file: "shared/core/src/gate.rs",
        find: "if self.deadline.is_over(now, self.attempt.0) || self.is_past_its_only_attempt() {",
        replace: "if self.is_past_its_only_attempt() {",
    },
    Mutant {
        name: "a message that is early is sent",
        rule: "nothing is sent before its time",
        file: "shared/core/src/gate.rs",
        find: "} else if self.due.since(now) >= WAITED_OUT_INSIDE {",
        replace: "} else if self.due.since(now) >= WAITED_OUT_INSIDE * 3600 {",
    },
    Mutant {
        name: "retries go on for ever",
        rule: "there are no more attempts than the policy has",
        file: "shared/core/src/plan.rs",
        find: "policy.delay_range(attempt.next().0, ttl)",
        replace: "policy.delay_range(attempt.next().0.min(1), ttl)",
    },
];
