//! What is recorded together.

use super::mutant::Mutant;

const BATCH: &str = "shared/core/src/ledger/batch.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an attempt is taken over while its batch is open",
        rule: "a batch is closed before an attempt is taken over",
        file: BATCH,
        find: "    may_be_listed(stored) && matches!(",
        replace: "    may_be_listed(stored) && now.as_ms() < 0 && matches!(",
    },
    Mutant {
        name: "what a batch lists is not believed",
        rule: "a delivery that its batch lists is sent",
        file: BATCH,
        find: "let Some(success) = self.success_of(&entry) else { return entry };",
        replace: "let Some(success) = self.success_of(&entry).filter(|it| it.at.as_ms() < 0) else { return entry };",
    },
    Mutant {
        name: "the deliveries of a batch share a place",
        rule: "a place is one delivery's",
        file: "shared/engine/src/deliver/job.rs",
        find: "Place::try_from(self.place)",
        replace: "Place::try_from(self.place / 2)",
    },
    Mutant {
        name: "a batch is forgotten before its deliveries",
        rule: "a batch outlives its deliveries",
        file: BATCH,
        find: "latest.plus(OUTLIVES)",
        replace: "latest.minus(OUTLIVES)",
    },
];
