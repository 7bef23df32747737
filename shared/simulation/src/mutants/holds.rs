//! What is noted of messages that are held back.

use super::mutant::Mutant;

const HOLDS: &str = "shared/engine/src/deliver/holds.rs";
const HOLD: &str = "shared/core/src/ledger/hold.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "what is held back is not noted",
        rule: "a message that waits can be asked about",
        file: HOLDS,
        find: "match hold_of(&planned).filter(",
        replace: "match hold_of(&planned).filter(|_| false).filter(",
    },
    Mutant {
        name: "a scheduled message is not noted",
        rule: "a message that waits can be asked about",
        file: HOLDS,
        find: "if is_its_time { Some(HeldBy::Schedule) } else { has_hours }",
        replace: "if is_its_time { None } else { has_hours }",
    },
    Mutant {
        name: "what may not be noted is attempted",
        rule: "a breaker holds back what a worker may have sent, too",
        file: HOLDS,
        find: "invocation).ask, now).is_over()",
        replace: "invocation).ask, now).is_over() || entry.turn == job.travel.turn",
    },
    Mutant {
        name: "a note changes whose attempt it is",
        rule: "a note changes nothing for claims",
        file: HOLD,
        find: "may_be.then(|| Entry {",
        replace: "(may_be || stored.state == State::Sending).then(|| Entry {",
    },
    Mutant {
        name: "a note ends a wait for a retry",
        rule: "a note changes nothing for claims",
        file: HOLD,
        find: "state: if is_first { State::Deferred } else { stored.state },",
        replace: "state: State::Deferred,",
    },
];
