//! Who makes an attempt, and what becomes of the copies.

use super::mutant::Mutant;

const CLAIM: &str = "shared/core/src/ledger/claim.rs";
const ACKNOWLEDGEMENTS: &str = "shared/engine/src/deliver/acknowledgements.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a lease holds nothing back",
        rule: "while a worker has a claim, no other makes the attempt",
        file: CLAIM,
        find: "State::Sending => Judgement::Leased { until: stored.lease_until },",
        replace: "State::Sending => Judgement::Claim { in_doubt: true },",
    },
    Mutant {
        name: "a lease never runs out",
        rule: "a claim whose worker died is taken over",
        file: CLAIM,
        find: "State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: true },",
        replace: "State::Sending if stored.lease_until.as_ms() < 0 => Judgement::Claim { in_doubt: true },",
    },
    Mutant {
        name: "the message that recorded is a duplicate",
        rule: "a hand-off that a death prevented is repeated",
        file: CLAIM,
        find: "if same_attempt && stored.source_message == ask.source_message && ",
        replace: "if same_attempt && stored.source_message != ask.source_message && ",
    },
    Mutant {
        name: "a retry that was recorded is taken for handed off",
        rule: "that a retry was handed off is known from its own note alone",
        file: "shared/core/src/ledger/mod.rs",
        find: "self.state == State::Retrying && self.held_by.is_some()",
        replace: "self.state == State::Retrying",
    },
    Mutant {
        name: "a message is enough to hold a claim",
        rule: "a claim is held by the invocation that made it",
        file: CLAIM,
        find: "stored.lease_token == ask.lease_token\n        && stored.turn == ask.turn",
        replace: "stored.turn == ask.turn",
    },
    Mutant {
        name: "a later attempt gives way to an earlier one",
        rule: "a message of an attempt that is over does nothing",
        file: CLAIM,
        find: " || stored.turn.attempt > ask.turn.attempt",
        replace: "",
    },
    Mutant {
        name: "another content is a duplicate",
        rule: "the same id with another content is a dead letter",
        file: CLAIM,
        find: "    if conflicts(stored, &ask.fingerprint, ask.id_source) {",
        replace: "    if false && conflicts(stored, &ask.fingerprint, ask.id_source) {",
    },
    Mutant {
        name: "a leased copy is acknowledged",
        rule: "a copy comes back until the attempt is over",
        file: "shared/engine/src/deliver/claim.rs",
        find: "acknowledgements.comes_back(job.place, Setback::Leased { until });",
        replace: "let _ = until; acknowledgements.acknowledged(job.place);",
    },
    Mutant {
        name: "a claim without an answer is acknowledged",
        rule: "an error of our own loses nothing",
        file: "shared/engine/src/deliver/claim.rs",
        find: "acknowledgements.comes_back(job.place, setback);",
        replace: "let _ = setback; acknowledgements.acknowledged(job.place);",
    },
    Mutant {
        name: "a duplicate's acknowledgement is shared",
        rule: "a copy of a message that was done is judged by itself",
        file: ACKNOWLEDGEMENTS,
        find: "Self::AcknowledgedAlone => Self::ComesBack(Setback::NotAdmitted),",
        replace: "Self::AcknowledgedAlone => Self::Acknowledged,",
    },
    Mutant {
        name: "the less cautious acknowledgement holds",
        rule: "a message that must come back is never deleted",
        file: ACKNOWLEDGEMENTS,
        find: "if held.caution() < acknowledgement.caution() {",
        replace: "if held.caution() > acknowledgement.caution() {",
    },
    Mutant {
        name: "a failed send is acknowledged",
        rule: "what is not sent comes back",
        file: ACKNOWLEDGEMENTS,
        find: "                Self::ComesBack(Setback::Infrastructure)\n            }\n        }\n    }\n\n    /// That of a copy",
        replace: "                Self::Acknowledged\n            }\n        }\n    }\n\n    /// That of a copy",
    },
    Mutant {
        name: "an end is no end",
        rule: "what has ended is never attempted again",
        file: CLAIM,
        find: "State::Queued | State::Deferred => Judgement::Claim",
        replace: "State::Queued | State::Deferred | State::Expired => Judgement::Claim",
    },
    Mutant {
        name: "an abandoned attempt is certain",
        rule: "an attempt whose worker died is in doubt",
        file: CLAIM,
        find: "State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: true }",
        replace: "State::Sending if stored.lease_until <= now => Judgement::Claim { in_doubt: false }",
    },
    Mutant {
        name: "a deferred message's acknowledgement is shared",
        rule: "a copy shares an acknowledgement only with a leader that was granted the claim",
        file: "shared/engine/src/deliver/holds.rs",
        find: "all.extend(sent_on.alone());",
        replace: "all.extend(sent_on);",
    },
    Mutant {
        name: "copies are judged side by side",
        rule: "once a key is claimed in an invocation, no other message of it is judged",
        file: "shared/engine/src/deliver/batch.rs",
        find: "match leaders.get_mut(&job.message.key()) {",
        replace: "match leaders.get_mut(&job.message.key()).filter(|_| false) {",
    },
    Mutant {
        name: "the copy without the outcome leads",
        rule: "of two copies the one with the outcome leads",
        file: "shared/engine/src/deliver/batch.rs",
        find: "Some(at) if carries(&job) > carries(&self.jobs[at]) => {",
        replace: "Some(at) if carries(&job) > carries(&self.jobs[at]) + 2 => {",
    },
    Mutant {
        name: "a claim is made with no time left",
        rule: "an attempt that would come too late is not even claimed",
        file: "shared/engine/src/deliver/mod.rs",
        find: "Gate::Go if !self.has_time_for(invocation, std::slice::from_ref(&job)) => {",
        replace: "Gate::Go if false => {",
    },
    Mutant {
        name: "an attempt is begun with no time left",
        rule: "the time left is checked again before each POST",
        file: "shared/engine/src/deliver/attempt.rs",
        find: "        if began > last_start {",
        replace: "        if began > last_start.plus(Duration::from_secs(3600)) {",
    },
];
