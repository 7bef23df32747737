//! Events on their way to several targets.

use super::mutant::Mutant;

const RELAY: &str = "shared/engine/src/cleanup/relay.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an event that the bus refused is not relayed again",
        rule: "each target has each event",
        file: RELAY,
        find: "let refused = [&queue, &bus, &callbacks]",
        replace: "let refused = [&queue, if *place > 1_000 { &bus } else { &queue }, &callbacks]",
    },
    Mutant {
        name: "an event that the producers' queue refused is not relayed again",
        rule: "each target has each event",
        file: RELAY,
        find: "let refused = [&queue, &bus, &callbacks]",
        replace: "let refused = [if *place > 1_000 { &queue } else { &bus }, &bus, &callbacks]",
    },
    Mutant {
        name: "an event is acknowledged although it was not sent for the rest of its targets",
        rule: "each target has each event",
        file: RELAY,
        find: "answers[place] = sent;",
        replace: "answers[place] = sent.or(Ok(()));",
    },
    Mutant {
        name: "an event that some of its targets lack is for none of them",
        rule: "each target has each event",
        file: RELAY,
        find: "rest.push(event.to_rest(refusing));",
        replace: "rest.push(event.to_rest(Targets { queue: !refusing.queue, bus: !refusing.bus, ..refusing }));",
    },
];
