//! The HTTP API, and acknowledgements.

use super::mutant::Mutant;

const DUPLICATES: &str = "shared/engine/src/http_api/duplicates.rs";
const ENTER: &str = "shared/engine/src/http_api/enter.rs";
const ACKS: &str = "shared/engine/src/acks.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a duplicate that is queued is not sent",
        rule: "what the API answered 202 to is on its queue",
        file: DUPLICATES,
        find: "let send = awaits && ",
        replace: "let send = awaits && !duplicate && ",
    },
    Mutant {
        name: "a message that is not sent is taken",
        rule: "what the API answered 202 to is on its queue",
        file: ENTER,
        find: "answers[other] = Answer::Failed(error.clone());",
        replace: "let _ = &error;",
    },
    Mutant {
        name: "the API takes another content",
        rule: "the same id with another content is refused",
        file: DUPLICATES,
        find: "if differ(stored, it.fingerprint()) {",
        replace: "if false && differ(stored, it.fingerprint()) {",
    },
    Mutant {
        name: "a duplicate is called new",
        rule: "duplicates are answered as such",
        file: DUPLICATES,
        find: "(*state, fingerprint, true, *awaits_its_message)",
        replace: "(*state, fingerprint, false, *awaits_its_message)",
    },
    Mutant {
        name: "an acknowledgement is noted before its event",
        rule: "each acknowledgement has an event",
        file: ACKS,
        find: "    env.outbox().send(vec![announced.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;\n",
        replace: "    let until = now.plus(std::time::Duration::from_secs(90 * 86_400));\n    \
            let recorded = env.acks().acknowledge(key, event, until, now).await?;\n    \
            env.outbox().send(vec![announced.outgoing()]).await.into_iter().collect::<Result<(), _>>()?;\n    \
            return Ok(Some(recorded));\n",
    },
    Mutant {
        name: "another acknowledgement is a repetition",
        rule: "an acknowledgement that was answered is in the ledger",
        file: ACKS,
        find: "if known.acknowledged().iter().any(|(of, _)| *of == event) {",
        replace: "if !known.acknowledged().is_empty() {",
    },
    Mutant {
        name: "an acknowledgement's event that is not sent is forgotten",
        rule: "each acknowledgement has an event",
        file: ACKS,
        find: ".into_iter().collect::<Result<(), _>>()?;",
        replace: ".into_iter().for_each(drop);",
    },
];
