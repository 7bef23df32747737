//! When a delivery is over, and what is kept of it.

use super::mutant::Mutant;

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
        file: "shared/core/src/time.rs",
        find: "if self.ttl == Ttl::ZERO { attempt > 0 } else { now >= self.at }",
        replace: "now >= self.at && self.ttl == Ttl::ZERO && attempt > 0",
    },
    Mutant {
        name: "retries go on for ever",
        rule: "there are no more attempts than the policy has",
        file: "shared/core/src/plan.rs",
        find: "policy.delay_range(number, ttl)",
        replace: "policy.delay_range(number.min(1), ttl)",
    },
    Mutant {
        name: "a reference that is not sent is forgotten",
        rule: "a failed delivery has its dead letter",
        file: "shared/engine/src/deliver/dead_letters.rs",
        find: "acknowledgements.set(place, Acknowledgement::of(sent, &self.telemetry));",
        replace: "acknowledgements.acknowledged(place);",
    },
    Mutant {
        name: "an event that is not sent is forgotten",
        rule: "each end has its event",
        file: "shared/engine/src/deliver/events.rs",
        find: "acknowledgements.extend(self.send(ends).await);",
        replace: "let _ = self.send(ends).await;",
    },
    Mutant {
        name: "each step is an event",
        rule: "an event is about an end",
        file: "shared/engine/src/deliver/events.rs",
        find: "if !state.is_terminal() {",
        replace: "if !state.is_terminal() && job.place > 1_000 {",
    },
    Mutant {
        name: "a reference that is not described is forgotten",
        rule: "a failed delivery has its dead letter",
        file: "shared/engine/src/cleanup/mod.rs",
        find: "self.dead_letters.describe(reference, now).await?;",
        replace: "let _ = self.dead_letters.describe(reference, now).await;",
    },
    Mutant {
        name: "an endpoint that is gone has no reference",
        rule: "cleanup hears of each endpoint that is gone",
        file: "shared/engine/src/deliver/health.rs",
        find: "acknowledgements.extend(self.send(gone.iter().map(reference).collect()).await);",
        replace: "let _ = self.send(gone.iter().map(reference).collect()).await;\n        gone.iter().for_each(|it| acknowledgements.acknowledged(it.job.place));",
    },
    Mutant {
        name: "a body is absent at once",
        rule: "a dead letter's body is there until its TTL is over",
        file: "shared/core/src/dead_letter.rs",
        find: "        return deadline.at();",
        replace: "        return now;",
    },
    Mutant {
        name: "a body outlives its TTL",
        rule: "a dead letter's body is absent once its TTL is over",
        file: "shared/core/src/dead_letter.rs",
        find: "    if deadline.is_limited() {\n        return deadline.at();",
        replace: "    if deadline.is_limited() && now.as_ms() < 0 {\n        return deadline.at();",
    },
    Mutant {
        name: "bodies are deleted early",
        rule: "a dead letter's body is there until its TTL is over",
        file: "shared/engine/src/cleanup/sweep.rs",
        find: "delete_absent_bodies(self.clock.now(), BODIES_AT_A_TIME)",
        replace: "delete_absent_bodies(self.clock.now().plus(std::time::Duration::from_secs(7200)), BODIES_AT_A_TIME)",
    },
];
