//! Events on their way to several targets.

use super::mutant::Mutant;

const RELAY: &str = "shared/engine/src/cleanup/relay.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an event that the bus refused is not relayed again",
        rule: "each target has each event",
        file: RELAY,
        find: "let of = [&to_queue, &to_bus, &to_callbacks]",
        replace: "let of = [&to_queue, if at > 1_000 { &to_bus } else { &to_queue }, &to_callbacks]",
    },
    Mutant {
        name: "an event that the producers' queue refused is not relayed again",
        rule: "each target has each event",
        file: RELAY,
        find: "let of = [&to_queue, &to_bus, &to_callbacks]",
        replace: "let of = [if at > 1_000 { &to_queue } else { &to_bus }, &to_bus, &to_callbacks]",
    },
];
