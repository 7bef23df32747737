//! Hours of the day in which a message may be delivered.

use super::mutant::Mutant;

const GATE: &str = "shared/core/src/gate.rs";
const MESSAGE: &str = "shared/core/src/message/mod.rs";
const PARSE: &str = "shared/core/src/message/parse.rs";
const HAND_OFF: &str = "shared/engine/src/deliver/hand_off.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a message is sent outside of its hours",
        rule: "a message is posted within its hours",
        file: MESSAGE,
        find: "Some(own) => hours.opening(at, own),",
        replace: "Some(_) => at,",
    },
    Mutant {
        name: "a message that was sent on forgets its hours",
        rule: "a message is posted within its hours",
        file: PARSE,
        find: "let deliver_between = Hours::take(&mut object, self.kind == QueueKind::Ingest);",
        replace: "let deliver_between = Hours::take(&mut object, self.kind == QueueKind::Ingest).filter(|_| self.kind == QueueKind::Ingest);",
    },
    Mutant {
        name: "hours that begin after the end are waited for",
        rule: "a message never waits for hours that it does not live to see",
        file: GATE,
        find: "self.waits_for_its_hours(now) && self.opens >= self.deadline.at()",
        replace: "self.waits_for_its_hours(now) && self.attempt.0 > 1_000",
    },
    Mutant {
        name: "a wait for the hours counts as an attempt",
        rule: "what a gate holds back has used no attempt",
        file: HAND_OFF,
        find: "let same = Travel { deferred_from, ..Travel::to(job.travel.turn, job.travel.first_sent) };",
        replace: "let waits = job.message.deliver_between.is_some();\n                    let turn = if waits { job.travel.turn.next_attempt() } else { job.travel.turn };\n                    let same = Travel { deferred_from, ..Travel::to(turn, job.travel.first_sent) };",
    },
];
