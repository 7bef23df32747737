//! Cancelled deliveries.

use super::mutant::Mutant;

const CANCEL: &str = "shared/core/src/ledger/cancel.rs";
const CLAIM: &str = "shared/core/src/ledger/claim.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an attempt under way is cancelled",
        rule: "what a worker attempts is not cancelled",
        file: CANCEL,
        find: "State::Sending if now < stored.lease_until => {",
        replace: "State::Sending if now < stored.created_at => {",
    },
    Mutant {
        name: "a cancelled attempt that may have arrived is certain",
        rule: "a cancellation says whether an attempt may have arrived",
        file: CANCEL,
        find: "let may_have_arrived = stored.in_doubt || stored.state == State::Sending;",
        replace: "let may_have_arrived = stored.in_doubt;",
    },
    Mutant {
        name: "a cancellation forgets an earlier doubt",
        rule: "a cancellation says whether an attempt may have arrived",
        file: CANCEL,
        find: "let may_have_arrived = stored.in_doubt || stored.state == State::Sending;",
        replace: "let may_have_arrived = stored.state == State::Sending;",
    },
    Mutant {
        name: "what has ended can be cancelled",
        rule: "a delivery is sent or cancelled, and never both",
        file: CANCEL,
        find: "        State::Sending | State::Queued | State::Deferred | State::Retrying => {",
        replace: "        State::Sending | State::Queued | State::Deferred | State::Retrying | State::Sent => {",
    },
    Mutant {
        name: "a cancellation is made twice",
        rule: "cancelling twice has one answer",
        file: CANCEL,
        find: "State::Cancelled => Decision::Answer(of(&stored)),",
        replace: "State::Cancelled => Decision::Write(Box::new(Entry { updated_at: now, ..stored })),",
    },
    Mutant {
        name: "a cancellation is forgotten soon",
        rule: "a cancellation outlives every message of its delivery",
        file: CANCEL,
        find: "now.plus(MAX_WAIT + Ttl::MAX_WEBHOOK.duration() + DEDUPE_WINDOW)",
        replace: "now.plus(MAX_WAIT / 1_000_000)",
    },
    Mutant {
        name: "a retry passes a cancellation",
        rule: "what was answered as cancelled is never posted afterwards",
        file: CLAIM,
        find: "    if stored.state == State::Cancelled {\n",
        replace: "    if stored.turn.attempt < ask.turn.attempt {\n        return Judgement::Claim { in_doubt: false };\n    }\n    if stored.state == State::Cancelled {\n",
    },
    Mutant {
        name: "a cancellation is met in silence",
        rule: "a cancelled delivery is announced",
        file: CLAIM,
        find: "    if !stored.is_met() || is_later {\n        Judgement::Cancelled",
        replace: "    if !stored.is_met() || is_later {\n        Judgement::Done",
    },
    Mutant {
        name: "a cancellation that was met is announced by others alone",
        rule: "a message whose event was not sent comes back, and sends it",
        file: CLAIM,
        find: "} else if stored.source_message == ask.source_message {",
        replace: "} else if stored.source_message.is_empty() {",
    },
];
