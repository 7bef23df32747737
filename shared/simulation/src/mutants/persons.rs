//! Persons who are erased.

use super::mutant::Mutant;

const NOTHING: &str = "nothing is stored about a person whose erasure is done";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a message to an erased person is judged as any other",
        rule: NOTHING,
        file: "shared/engine/src/deliver/erasures.rs",
        find: "    jobs.retain(|job| {\n        if job.is_erased {",
        replace: "    jobs.retain(|job| {\n        if job.is_erased && job.place < usize::MAX {\n            return true;\n        }\n        if job.is_erased {",
    },
    Mutant {
        name: "what waits with an erased person's reference is stored",
        rule: NOTHING,
        file: "shared/engine/src/deliver/erasures.rs",
        find: "        let parked = self.parked.extract_if(.., |it| is_erased(it.place)).map(|it| it.place);\n        self.done.extend(parked);",
        replace: "",
    },
    Mutant {
        name: "a dead letter keeps what an erased person was sent",
        rule: NOTHING,
        file: "shared/engine/src/deliver/erasures.rs",
        find: "            letter.erase_body();",
        replace: "            let _ = letter;",
    },
    Mutant {
        name: "an erasure that was marked is done",
        rule: "the tables are searched before an erasure is done",
        file: "shared/core/src/erasure/request.rs",
        find: "let mut after = Self { read: self.read + read, step: self.step + 1, at: next, ..self.clone() };",
        replace: "let mut after = Self { read: self.read + read, step: self.step + 1, at: next.filter(|_| read > u64::MAX / 2), ..self.clone() };",
    },
];
