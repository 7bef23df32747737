//! What is recorded, handed off and sent again.

use super::Mutant;

const HAND_OFF: &str = "shared/engine/src/deliver/hand_off.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a fenced record is handed off",
        rule: "an outcome is dropped whose claim another worker holds",
        file: "shared/engine/src/deliver/record.rs",
        find: "(Ok(Fence::Held), Ok((plan, facts))) => {",
        replace: "(Ok(Fence::Held | Fence::Lost), Ok((plan, facts))) => {",
    },
    Mutant {
        name: "an unrecorded outcome is handed off",
        rule: "what is not recorded is not handed off",
        file: "shared/engine/src/deliver/record.rs",
        find: "(Ok(Fence::Held), Ok((plan, facts))) => {",
        replace: "(Ok(Fence::Held) | Err(_), Ok((plan, facts))) => {",
    },
    Mutant {
        name: "an unrecorded outcome is forgotten",
        rule: "what was not recorded travels with the message",
        file: "shared/engine/src/deliver/visibility.rs",
        find: "Setback::Unrecorded(unrecorded) => Some(unrecorded),",
        replace: "Setback::Unrecorded(_) => None,",
    },
    Mutant {
        name: "a retry is for the same attempt",
        rule: "each attempt has its own claim",
        file: HAND_OFF,
        find: "Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent)",
        replace: "Travel::to(job.travel.turn, job.travel.first_sent)",
    },
    Mutant {
        name: "the clock of the TTL begins again",
        rule: "the TTL runs from the first sending",
        file: HAND_OFF,
        find: "Travel::to(job.travel.turn.next_attempt(), job.travel.first_sent)",
        replace: "Travel::to(job.travel.turn.next_attempt(), now)",
    },
    Mutant {
        name: "a deferred message forgets where it comes from",
        rule: "a deferred message may still repeat its hand-off",
        file: HAND_OFF,
        find: "let deferred_from = Some(job.source_message.clone());",
        replace: "let deferred_from = None;",
    },
    Mutant {
        name: "a retry does not wait",
        rule: "nothing is sent before its time",
        file: HAND_OFF,
        find: "let travel = Travel { not_before: Some(not_before), ..travel };",
        replace: "let (travel, not_before) = (travel, not_before.min(now));",
    },
    Mutant {
        name: "a copy that is held back is sent on",
        rule: "copies do not multiply while an origin is out",
        file: "shared/engine/src/deliver/mod.rs",
        find: "if job.receives > 1\n",
        replace: "if job.receives > 1_000\n",
    },
];
