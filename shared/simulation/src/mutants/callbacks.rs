//! Events that are posted to a webhook of their tenant.

use super::mutant::Mutant;

const ENGINE: &str = "shared/engine/src/cleanup/relay.rs";
const CORE: &str = "shared/core/src/relay.rs";
const EACH: &str = "each event of a tenant is posted to its callback";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an event whose callback was not sent is not relayed again",
        rule: EACH,
        file: ENGINE,
        find: "let refused = [&queue, &bus, &callbacks]",
        replace: "let refused = [&queue, &bus, if *place > 1_000 { &callbacks } else { &queue }]",
    },
    Mutant {
        name: "an event whose callback could not be looked up is not relayed again",
        rule: EACH,
        file: ENGINE,
        find: "failed.insert(*place, error.clone());",
        replace: "let _ = error;",
    },
    Mutant {
        name: "an event goes to the callback of another tenant",
        rule: "an event is posted to its own tenant's callback",
        file: ENGINE,
        find: "match &set[&event.tenant] {",
        replace: "match set.values().next().unwrap_or(&set[&event.tenant]) {",
    },
    Mutant {
        name: "an event that is announced twice is posted twice",
        rule: "an event is one delivery, however often it is announced and relayed",
        file: CORE,
        find: "hashed(&of.join(\"\\0\"))",
        replace: "hashed(&format!(\"{}{sent:?}\", of.join(\"\\0\")))",
    },
    Mutant {
        name: "the events of one delivery are posted as one",
        rule: EACH,
        file: CORE,
        find: "            &self.state,\n            &self.at,\n",
        replace: "",
    },
    Mutant {
        name: "an end that is announced in other words is another content",
        rule: "an event is one delivery, however often it is announced and relayed",
        file: "shared/core/src/message/parse.rs",
        find: "let is_derived = matches!(to, Some(To::Callback(_))) &&",
        replace: "let is_derived = to.is_none() &&",
    },
    Mutant {
        name: "the end of a callback is an event",
        rule: "an event about an event is impossible",
        file: "shared/core/src/event.rs",
        find: "            To::Callback(_) => None,\n            To::Subscription(_)",
        replace: "            To::Callback(_) => Some(Self(state)),\n            To::Subscription(_)",
    },
];
