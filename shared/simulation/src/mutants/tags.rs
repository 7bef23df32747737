//! What is recorded of a message as it was given: its tags.

use super::mutant::Mutant;

const RULE: &str = "what is recorded of a message has its tags, however it came there";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a claim drops the tags",
        rule: RULE,
        file: "shared/engine/src/deliver/claim.rs",
        find: "given: job.message.given(Some(job.channel)),",
        replace: "given: Default::default(),",
    },
    Mutant {
        name: "a note about what is held back drops the tags",
        rule: RULE,
        file: "shared/engine/src/deliver/holds.rs",
        find: "given: job.message.given(Some(job.channel)),",
        replace: "given: Default::default(),",
    },
    Mutant {
        name: "the API drops the tags",
        rule: RULE,
        file: "shared/engine/src/http_api/accept.rs",
        find: "given: message.given(channel),",
        replace: "given: Default::default(),",
    },
    Mutant {
        name: "a message loses its tags on its way",
        rule: RULE,
        file: "shared/core/src/message/mod.rs",
        find: "added.iter().all(|(known, _)| known != name)",
        replace: "name != \"tags\" && added.iter().all(|(known, _)| known != name)",
    },
    Mutant {
        name: "a page drops the tags",
        rule: RULE,
        file: "shared/engine/src/deliver/expand.rs",
        find: "&message.given(None)",
        replace: "&Default::default()",
    },
    Mutant {
        name: "an event drops the tags",
        rule: RULE,
        file: "shared/engine/src/deliver/events.rs",
        find: "tags: job.message.tags.clone(),",
        replace: "tags: Default::default(),",
    },
    Mutant {
        name: "the event of an acknowledgement drops the tags",
        rule: RULE,
        file: "shared/engine/src/acks.rs",
        find: "tags: known.given().tags.clone(),",
        replace: "tags: Default::default(),",
    },
    Mutant {
        name: "the event of the quarantine drops the tags",
        rule: RULE,
        file: "shared/engine/src/cleanup/quarantine.rs",
        find: "tags: message.tags.clone(),",
        replace: "tags: Default::default(),",
    },
    Mutant {
        name: "a dead letter drops the tags",
        rule: RULE,
        file: "shared/engine/src/deliver/dead_letters.rs",
        find: "tags: job.message.tags.to_text(),",
        replace: "tags: None,",
    },
    Mutant {
        name: "the quarantine's dead letter drops the tags",
        rule: RULE,
        file: "shared/engine/src/cleanup/quarantine.rs",
        find: "tags: message.tags.to_text(),",
        replace: "tags: None,",
    },
];
