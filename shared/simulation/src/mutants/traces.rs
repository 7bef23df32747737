//! What is said of a message's trace, wherever the message is.

use super::mutant::Mutant;

const RULE: &str =
    "what is recorded of a message names its trace, and its webhook gets it, on whatever way it came there";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a message loses its trace on its way",
        rule: RULE,
        file: "shared/core/src/message/mod.rs",
        find: "added.iter().all(|(known, _)| known != name)",
        replace: "name != \"traceparent\" && added.iter().all(|(known, _)| known != name)",
    },
    Mutant {
        name: "a webhook is posted without its trace",
        rule: RULE,
        file: "shared/engine/src/deliver/attempt.rs",
        find: "let traceparent = traceparent.map(|it| span.map_or(it, |span| it.with_span(span)));",
        replace: "let traceparent = traceparent.and_then(|it| span.map(|span| it.with_span(span)));",
    },
    Mutant {
        name: "an event drops the trace",
        rule: RULE,
        file: "shared/engine/src/deliver/events.rs",
        find: "traceparent: job.message.traceparent,",
        replace: "traceparent: None,",
    },
    Mutant {
        name: "the event of the quarantine drops the trace",
        rule: RULE,
        file: "shared/engine/src/cleanup/quarantine.rs",
        find: "traceparent: message.traceparent,",
        replace: "traceparent: None,",
    },
    Mutant {
        name: "a dead letter drops the trace",
        rule: RULE,
        file: "shared/engine/src/deliver/dead_letters.rs",
        find: "trace_id: job.message.traceparent.map(|it| it.trace_id()),",
        replace: "trace_id: None,",
    },
    Mutant {
        name: "the quarantine's dead letter drops the trace",
        rule: RULE,
        file: "shared/engine/src/cleanup/quarantine.rs",
        find: "trace_id: message.traceparent.map(|it| it.trace_id()),",
        replace: "trace_id: None,",
    },
];
