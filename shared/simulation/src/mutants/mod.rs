//! Planted defects: each breaks one rule of the production code, and the search has to find it.
//!
//! A mutant is a text of a source file and what takes its place. They are planted in a copy of the sources under `target/mutants`, so
//! the production code knows nothing of them.

mod api;
mod audiences;
mod batches;
mod bodies;
mod callbacks;
mod cancellations;
mod claims;
mod confirmations;
mod crowd;
mod ends;
mod grafts;
mod holds;
mod hostile;
mod hours;
mod lines;
mod listings;
pub mod mutant;
pub mod nursery;
mod operators;
mod pages;
mod persons;
mod protection;
mod quarantine;
mod records;
mod relay;
mod seats;
mod storage;
mod suspects;
mod tags;
mod traces;
mod waits;

pub use mutant::Mutant;

/// All of them, by the part that they are planted in.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let of_parts = [
        claims::MUTANTS,
        records::MUTANTS,
        batches::MUTANTS,
        waits::MUTANTS,
        lines::MUTANTS,
        ends::MUTANTS,
        quarantine::MUTANTS,
        relay::MUTANTS,
        callbacks::MUTANTS,
        audiences::MUTANTS,
        pages::MUTANTS,
        storage::MUTANTS,
        confirmations::MUTANTS,
        suspects::MUTANTS,
        protection::MUTANTS,
        seats::MUTANTS,
        persons::MUTANTS,
        operators::MUTANTS,
        api::MUTANTS,
        cancellations::MUTANTS,
        holds::MUTANTS,
        listings::MUTANTS,
        hours::MUTANTS,
        tags::MUTANTS,
        traces::MUTANTS,
        hostile::MUTANTS,
        crowd::MUTANTS,
    ];
    of_parts.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_text_of_each_planted_defect_stands_once_in_its_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let count = |mutant: &Mutant| {
            let source = fs::read_to_string(root.join(mutant.file)).unwrap_or_default();
            source.matches(mutant.find).count()
        };
        let lost: Vec<_> = all().map(|it| (it.name, count(it))).filter(|(_, count)| *count != 1).collect();
        assert_eq!(lost, []);
        let names: BTreeSet<&str> = all().map(|it| it.name).collect();
        assert_eq!(names.len(), all().count(), "each has a name of its own");
        let page = fs::read_to_string(root.join("infra/docs/simulation.md")).expect("a page");
        assert!(
            page.contains(&format!("Of {}, ", names.len())),
            "infra/docs/simulation.md: there are {}",
            names.len()
        );
    }
}
