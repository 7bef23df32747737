//! Whose probes decide, and what the trouble of one recipient does.

use super::mutant::Mutant;

const VOTES: &str = "shared/core/src/protection/votes.rs";
const ADMISSION: &str = "shared/engine/src/protection/admit/breakers.rs";
const RECIPIENTS: &str = "shared/engine/src/protection/recipients.rs";
const SHARE: &str = "shared/engine/src/protection/share.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "two probes to one recipient are two votes",
        rule: "probes are a vote of distinct recipients",
        file: VOTES,
        find: "voters.agree(tenants.len(), recipients.len())",
        replace: "voters.agree(tenants.len(), recipients.len().max(agreeing().count()))",
    },
    Mutant {
        name: "one tenant's probes decide for all",
        rule: "probes are a vote of distinct tenants",
        file: VOTES,
        find: "voters.agree(tenants.len(), recipients.len())",
        replace: "voters.agree(tenants.len().max(2), recipients.len())",
    },
    Mutant {
        name: "one recipient gets all probes",
        rule: "probes go to distinct recipients",
        file: VOTES,
        find: "same(Ballot::is_of) < to_a_recipient",
        replace: "same(Ballot::is_of) < to_a_recipient.max(9)",
    },
    Mutant {
        name: "one tenant gets all probes",
        rule: "probes go to distinct tenants",
        file: VOTES,
        find: "same(|ballot, whose| ballot.0 == whose.tenant()) < of_a_tenant;",
        replace: "same(|ballot, whose| ballot.0 == whose.tenant()) < of_a_tenant.max(9);",
    },
    Mutant {
        name: "the minority decides",
        rule: "the majority of the probes decides",
        file: VOTES,
        find: "if failed > succeeded && concerns_all {",
        replace: "if failed > 0 && failed <= succeeded {",
    },
    Mutant {
        name: "a dead recipient keeps an origin closed to all",
        rule: "the failures of few recipients are outvoted",
        file: VOTES,
        find: "if failed > succeeded && concerns_all {",
        replace: "if failed > 0 || (failed > succeeded && concerns_all) {",
    },
    Mutant {
        name: "no voter is heard when a breaker opens",
        rule: "who was there when a breaker opened has a vote",
        file: "shared/core/src/protection/origin.rs",
        find: "self.breaker.hear(of_late.voters(fails, Trouble::Failures));",
        replace: "self.breaker.hear(Default::default());",
    },
    Mutant {
        name: "a recipient's breaker holds back its neighbours",
        rule: "one recipient's breaker holds back that recipient",
        file: ADMISSION,
        find: "order.iter().copied().filter(|at| of.contains(at)).collect();",
        replace: "order.iter().copied().filter(|at| !of.is_empty() && self.asks[*at].origin == *circuit.origin()).collect();",
    },
    Mutant {
        name: "a recipient's breaker is every tenant's",
        rule: "one tenant's recipient is no other's, also at the same address",
        file: ADMISSION,
        find: "order.iter().copied().filter(|at| of.contains(at)).collect();",
        replace: "order.iter().copied().filter(|at| of.iter().any(|of| self.asks[*of].address == self.asks[*at].address)).collect();",
    },
    Mutant {
        name: "a recipient's breaker never closes",
        rule: "a recipient that is well again gets its messages",
        file: SHARE,
        find: "ProbeOf::Recipient => seen.recipient().map(Circuit::Recipient),",
        replace: "ProbeOf::Recipient => None,",
    },
    Mutant {
        name: "a recipient's breaker opens for what fails at everyone",
        rule: "a recipient has a breaker while the others succeed",
        file: RECIPIENTS,
        find: "others_succeed(&origin.own_spread.sum(now)) ||",
        replace: "!origin.own_spread.sum(now).is_empty() ||",
    },
    Mutant {
        name: "a recipient's breaker is not followed",
        rule: "a recipient that alone fails is held back",
        file: RECIPIENTS,
        find: "ask.recipient().filter(|recipient| self.is_doubted(recipient, now))",
        replace: "ask.recipient().filter(|recipient| self.is_doubted(recipient, now) && now.as_ms() < 0)",
    },
    Mutant {
        name: "a recipient has no breaker",
        rule: "a recipient that alone fails is held back",
        file: RECIPIENTS,
        find: "if !self.is_doubted(&recipient, now) {",
        replace: "if !self.is_doubted(&recipient, now) || now.as_ms() > 0 {",
    },
    Mutant {
        name: "few that succeed show nothing",
        rule: "one recipient's trouble is no tenant's, where others succeed",
        file: "shared/core/src/protection/spread.rs",
        find: "1..SHOWN_BY => others.of(trouble) == 0,",
        replace: "1..SHOWN_BY => others.of(trouble) == 0 && others.attempts == 0,",
    },
];
